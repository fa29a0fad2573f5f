"""Result -> what a report shows, as plain words and positions: the template computes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from butfor.core.result.reasons import finest_of
from butfor.core.result.result import Result
from butfor.core.result.summary import bound_sentence
from butfor.core.types import Bools
from butfor.plots.labels import EVIDENCE, effect_words, input_place, marked, output_words, rows_of, strongest
from butfor.plots.over_inputs import larger, tree_depth, tree_order
from butfor.report.answer import OF_INTERVALS, answer, features_picture
from butfor.report.data import UNFOLDED, UNTESTED, as_json, index, leading, parts, said, shown_inputs, shown_note
from butfor.report.examples import examples
from butfor.report.lines import PictureLine, decision_lines, effect_lines, percent
from butfor.report.methods import call, methods_paragraph, references
from butfor.report.notes import ranked

MOST_INPUTS = 20  # in the page itself; the script has them all
MOST_LINES = 60


def content(result: Result) -> dict[str, Any]:
    """Everything the template names; asks neither a model nor a sampler."""
    place = input_place(result, None)
    lines, zero = _full(result, place)
    features = _features(result)
    return {
        "answer": answer(result),
        "chosen": int(result.chosen.sum()),
        "hypotheses": len(result.chosen),
        "inputs": len(result.input_names),
        "subsets": len(result.subset_names),
        "modality": result.modality,
        "features": features[0],
        "features_zero": features[1],
        "features_tested": result.over_inputs is not None,
        "rows": _rows(result),
        "lead": str(result.input_names[place]),
        "lead_place": int(np.searchsorted(shown_inputs(result), place)),
        "full": lines,
        "zero": zero,
        "flips": {} if result.decided is None else _flips(result, place),
        "level": None if result.decided is None else result.decided.level,
        "output": output_words(result),
        "effect": effect_words(result),
        "effect_of_lead": effect_words(result, place),
        "output_title": output_words(result)[:1].upper() + output_words(result)[1:],
        "of_intervals": OF_INTERVALS,
        "kind": EVIDENCE[result.evidence.kind],
        "link": result.provenance.get("link"),
        "examples": examples(result),
        "promise": promise_line(result),
        "guarantee": str(replace(result.guarantee, caveats=())),
        "caveats": result.guarantee.caveats,
        "of_decisions": _promise_of_decisions(result),
        "control": "" if result.control is None else str(result.control),
        "bound": bound_sentence(result),
        "notes": ranked((*shown_note(result), *result.notes)),
        "methods": methods_paragraph(result),
        "references": references(result),
        "call": call(result),
        "pictures": _view(result, "image"),
        "texts": _view(result, "text"),
        "effects": bool(np.isfinite(result.effects.effect[result.chosen]).any()),
        "provenance": _provenance(result),
        "data": as_json(index(result)),
        "parts": [as_json(part) for part in parts(result)],
    }


def promise_line(result: Result) -> str:
    """What is promised, in one line."""
    guarantee, most = result.guarantee, percent(result.alpha)
    if result.decided is not None and result.decided.necessary.any():
        rest = {"nothing": "nothing is promised", "FWER": f"all is true but with a probability of {most}"}
        of_rest = rest.get(guarantee.controls, f"at most {most} is expected to be false")
        return f"What is established of decisions holds with 95 % confidence; of the rest, {of_rest}."
    if guarantee.controls == "nothing":
        return "Nothing is promised about errors here: see why."
    level = " at each level of detail" if "resolution" in guarantee.family else ""
    if guarantee.controls == "FWER":
        return f"The probability that anything called established{level} is false is at most {most}."
    return f"Of what is called established{level}, at most {most} is expected to be false."


def _promise_of_decisions(result: Result) -> str:
    """What is promised of the statements about decisions, which is another promise."""
    if result.decided is None:
        return ""
    level = " at each level of detail" if result.problem.layers is not None else ""
    return (
        f"What is said to be established of decisions{level} holds with 95 % confidence, all of it together. It is as "
        "good as the draws of the sampler are, and it does not matter how the inputs were picked."
    )


def _features(result: Result) -> tuple[tuple[PictureLine, ...], float]:
    """Every subset over all inputs, parts under what they are parts of; nothing where there is one input only."""
    if len(result.input_names) == 1 or result.modality != "table":
        return (), 0.0
    order = tree_order(result)
    found = features_picture(result, order)
    folded = ~_unfolded(result)[order]
    return tuple(replace(line, folded=bool(away)) for line, away in zip(found.lines, folded, strict=True)), found.mark


def _unfolded(result: Result) -> Bools:
    """The subsets (S,) shown at once: established, what these are parts of, their parts; then from coarse to fine."""
    above, depth = larger(result), tree_depth(result)
    sure: Bools = result.features["chosen"].to_numpy(bool)
    kept: Bools = sure | ((above >= 0) & sure[above])
    for j in np.flatnonzero(kept).tolist():
        while j >= 0:
            kept[j], j = True, int(above[j])
    others = np.flatnonzero(~kept)
    others = others[np.argsort(depth[others], kind="stable")]
    kept[others[: max(0, UNFOLDED - int(kept.sum()))]] = True
    return kept


def _full(result: Result, place: int) -> tuple[tuple[PictureLine, ...], float]:
    rows = rows_of(result, place)
    order = strongest(result, rows, marked(result), MOST_LINES)
    lines, zero = effect_lines(result, order, result.chosen)
    shown = max(UNFOLDED, int(marked(result)[order].sum()))
    return tuple(replace(line, folded=k >= shown) for k, line in enumerate(lines)), zero


def _flips(result: Result, place: int) -> dict[str, PictureLine]:
    return {line.name: line for line in decision_lines(result, rows_of(result, place))}


def _rows(result: Result) -> list[dict[str, str | bool]]:
    """The first inputs with their strongest reason, those with something established first."""
    lead, classes, sure = leading(result), said(result), marked(result)
    found = np.bincount(result.input_of, weights=finest_of(result, sure), minlength=len(result.input_names))
    order = np.argsort(found == 0, kind="stable")[:MOST_INPUTS]
    rows = np.maximum(lead[order], 0)
    lines, _ = effect_lines(result, rows, sure)
    flips = decision_lines(result, rows) if result.decided is not None else (None,) * len(order)
    listed: list[dict[str, str | bool]] = []
    for place, line, flip in zip(order.tolist(), lines, flips, strict=True):
        names: dict[str, str | bool] = {"input": str(result.input_names[place]), "class": classes[place]}
        if lead[place] < 0:
            listed.append(
                {**names, "reason": UNTESTED, "value": "", "effect": "", "flip": "", "necessary": False, "sure": False}
            )
            continue
        said_of = {"reason": line.name, "value": line.value, "effect": line.said}
        hangs = ("", False) if flip is None else (flip.said, flip.sure)
        listed.append({**names, **said_of, "flip": hangs[0], "necessary": hangs[1], "sure": line.sure})
    return listed


def _view(result: Result, modality: str) -> Any:
    """What a modality adds to a report: its pictures, or its texts."""
    if result.modality != modality:
        return None
    if modality == "image":
        from butfor.image.view import pictures

        return pictures(result)
    from butfor.text.view import marked_texts

    return marked_texts(result)


LABELS = {
    "model": "Model",
    "data": "Data",
    "reference": "Reference (what the inputs are compared with)",
    "boxes": "Regions",
    "units": "Units",
    "sampler": "Sampler",
    "test": "Test",
    "alternative": "Alternative",
    "target": "Target",
    "link": "Link",
    "seed": "Seed",
    "version": "butfor version",
}


def _provenance(result: Result) -> list[tuple[str, str]]:
    provenance = result.provenance
    known = [(label, str(provenance[name])) for name, label in LABELS.items() if provenance.get(name) is not None]
    family = "the run" if result.family == "run" else "each input"
    return [
        *known,
        ("Selection", f"{result.rule} at alpha {result.alpha:g}, over {family}"),
        ("Model rows evaluated", f"{result.rows:,}"),
    ]
