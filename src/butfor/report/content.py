"""Result -> what a report shows, as plain words and positions: the template computes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from butfor.core.result.reasons import finest_of
from butfor.core.result.result import Result
from butfor.core.result.summary import bound_sentence
from butfor.plots.labels import EVIDENCE, effect_words, input_place, marked, output_words, rows_of, strongest, unit
from butfor.plots.over_inputs import tree_order
from butfor.report.answer import answer, features_picture
from butfor.report.data import UNTESTED, as_json, index, leading, parts, said, shown_inputs, shown_note
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
        "output_title": output_words(result)[:1].upper() + output_words(result)[1:],
        "unit": unit(result),
        "kind": EVIDENCE[result.evidence.kind],
        "link": result.provenance.get("link"),
        "examples": examples(result),
        "promise": promise_line(result),
        "guarantee": str(replace(result.guarantee, caveats=())),
        "caveats": result.guarantee.caveats,
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
    guarantee = result.guarantee
    if guarantee.controls == "nothing":
        return "Nothing is promised about errors here: see why."
    if guarantee.controls == "FWER":
        line = f"The probability that anything called established is false is at most {percent(result.alpha)}"
    else:
        line = f"Of what is called established, at most {percent(result.alpha)} is expected to be false"
    if result.control is None:
        return f"{line}, under the assumptions inside."
    found = int(result.control.chosen.sum())
    rows = f"{result.control.rows} rows of the reference itself"
    return f"{line}; on {rows}, where nothing is to be found, {found} were chosen."


def _features(result: Result) -> tuple[tuple[PictureLine, ...], float]:
    """Every subset over all inputs, parts under what they are parts of; nothing where there is one input only."""
    if len(result.input_names) == 1 or result.modality != "table":
        return (), 0.0
    found = features_picture(result, tree_order(result))
    return found.lines, found.mark


def _full(result: Result, place: int) -> tuple[tuple[PictureLine, ...], float]:
    rows = rows_of(result, place)
    order = strongest(result, rows, marked(result), MOST_LINES)
    return effect_lines(result, order, result.chosen)


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
            listed.append({**names, "reason": UNTESTED, "value": "", "effect": "", "flip": "", "sure": False})
            continue
        said_of = {"reason": line.name, "value": line.value, "effect": line.said}
        listed.append({**names, **said_of, "flip": "" if flip is None else flip.said, "sure": line.sure})
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
