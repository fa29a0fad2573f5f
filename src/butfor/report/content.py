"""Result -> what a report shows, as plain words and positions: the template computes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from butfor.plots.over_inputs import larger, tree_depth, tree_order
from butfor.plots.style import (
    EVIDENCE,
    class_name,
    effect_words,
    input_place,
    marked,
    output_words,
    rows_of,
    strongest,
    values,
    written,
)
from butfor.report.answer import (
    OF_INTERVALS,
    PictureLine,
    answer,
    decision_lines,
    effect_lines,
    examples,
    features_picture,
    nearest_case,
    percent,
    tidied,
)
from butfor.results.result import Result
from butfor.results.summary import bound_sentence, finest_of
from butfor.results.words import Note
from butfor.types import Array, Bools, Floats, Ints

UNFOLDED = 12  # lines of a table before those that are not established are folded away
PART = 100  # inputs whose hypotheses are read together, when one of them is looked at
MOST_CASES = 200  # inputs with their nearest case and draws: the others say which call shows them
MOST_COLUMNS, MOST_DRAWS = 12, 3
UNTESTED = "nothing was tested"  # in place of the reason of such an input
STATUSES = (
    "not established", "established", "untested", "not calibrated", "hardly picked", "no variation", "open",
)  # fmt: skip
MOST_HYPOTHESES = 200_000  # of the inputs that are listed: 14 MB


def rounded(numbers: Floats) -> list[float | None]:
    """Numbers to three digits, whole where they are a thousand or more; None where nothing is known.

    >>> rounded(np.array([0.12345, 1234.5, np.nan, 0.0]))
    [0.123, 1234.0, None, 0.0]
    >>> rounded(np.array([5e-324, 1.7e308]))
    [0.0, 1.7e+308]
    """
    size = np.abs(np.where(np.isfinite(numbers) & (numbers != 0), numbers, 1.0))
    digits = np.maximum(2 - np.floor(np.log10(size)), -1).astype(np.int64)
    scale = 10.0 ** np.clip(digits, 0, 300)  # of the least numbers there are it would be infinite
    out = np.round(numbers * scale) / scale
    return [value if known else None for value, known in zip(out.tolist(), np.isfinite(numbers).tolist(), strict=True)]


def index(result: Result) -> dict[str, Any]:
    """What the list of inputs needs: columns, one entry per input."""
    places = shown_inputs(result)
    found = leading(result)[places]
    own, lead = found >= 0, np.maximum(found, 0)
    sure, count, classes = marked(result), len(result.input_names), said(result)
    decided = result.decided
    of_lead: dict[str, Any] = {
        "name": [str(result.input_names[place]) for place in places.tolist()],
        "said": [classes[place] for place in places.tolist()],
        "output": rounded(_observed(result)[places]),
        "found": np.bincount(result.input_of, weights=result.chosen, minlength=count)[places].astype(int).tolist(),
        "reason": np.where(own, result.subset_of[lead], -1).tolist(),
        "value": [_told(value) if there else "" for value, there in zip(values(result)[lead], own, strict=True)],
        "effect": rounded(np.where(own, tidied(result)[0][lead], np.nan)),
        "sure": (sure[lead] & own).astype(int).tolist(),
    }
    if decided is not None:
        of_lead["flip"] = rounded(np.where(own, decided.share[lead], np.nan))
        of_lead["necessary"] = (decided.necessary[lead] & own).astype(int).tolist()
    if len(np.unique(result.evidence.classes)) > 1:
        of_lead["asked"] = [output_words(result, place) for place in places.tolist()]
    return {
        "subsets": list(result.subset_names),
        "statuses": STATUSES,
        "unfolded": UNFOLDED,
        "untested": UNTESTED,
        "output": output_words(result),
        "effect": effect_words(result),
        "evidence": EVIDENCE[result.evidence.kind],
        "level": None if decided is None else decided.level,
        "part": PART,
        "modality": result.modality,
        "inputs": of_lead,
    }


def parts(result: Result) -> Iterator[list[dict[str, Any]]]:
    """The hypotheses of every input, PART inputs at a time: columns again."""
    order = np.argsort(result.input_of, kind="stable")
    ends = np.searchsorted(result.input_of[order], np.arange(len(result.input_names) + 1))
    decided, told = result.decided, values(result)
    effect, low, high = tidied(result)
    numbers: dict[str, Array] = {
        "effect": effect,
        "low": low,
        "high": high,
        "evidence": result.evidence.values,
        "surprise": result.evidence.surprise,
    }
    sure, codes = finest_of(result, marked(result)), {word: code for code, word in enumerate(STATUSES)}
    whole: dict[str, Array] = {
        "subset": result.subset_of,
        "sure": result.chosen.astype(int),
        "finest": sure.astype(int),
        "status": np.array([codes[word] for word in result.table["status"]], np.int64),
    }
    if decided is not None:
        numbers |= {"flip": decided.share, "flip_low": decided.low, "flip_high": decided.high}
        whole["necessary"] = decided.necessary.astype(int)
    shown = set(_most(result).tolist())
    places = shown_inputs(result).tolist()
    for start in range(0, len(places), PART):
        part = []
        for place in places[start : start + PART]:
            rows = order[ends[place] : ends[place + 1]]
            own: dict[str, Any] = {name: column[rows].tolist() for name, column in whole.items()}
            own |= {name: rounded(column[rows]) for name, column in numbers.items()}
            own["value"] = [_told(value) for value in told[rows].tolist()]
            cases = [row for row in rows.tolist() if sure[row]][:4] if place in shown else []
            part.append(own | (_cases(result, cases) if place in shown else {}))
        yield part


def shown_inputs(result: Result) -> Ints:
    """The inputs (n,) that the list has, in their order: all, or of a large result those with most established."""
    count = len(result.input_names)
    if len(result.chosen) <= MOST_HYPOTHESES:
        return np.arange(count)
    found = np.bincount(result.input_of, weights=marked(result), minlength=count)
    tested = np.bincount(result.input_of, minlength=count)
    order = np.argsort(-found, kind="stable")
    return np.sort(order[: max(1, int((np.cumsum(tested[order]) <= MOST_HYPOTHESES).sum()))])


def shown_note(result: Result) -> tuple[Note, ...]:
    """That not all inputs are listed, where it is so."""
    shown, count = len(shown_inputs(result)), len(result.input_names)
    if shown == count:
        return ()
    return (Note("inputs-shown", "info", {"shown": shown, "count": count}),)


def leading(result: Result) -> Ints:
    """The row of each input that says most: necessary, else established, and finest; then the largest share or effect.

    -1 where nothing was tested of an input.
    """
    sure = finest_of(result, marked(result))
    size = np.nan_to_num(np.abs(result.effects.effect))
    if result.decided is not None:
        needed = finest_of(result, result.decided.necessary)
        strength = np.nan_to_num(result.decided.share) + 2 * sure + 4 * needed
    else:
        strength = size / (size.max(initial=0.0) or 1.0) + 2 * sure
    order = np.lexsort((-strength, result.input_of))
    places, first = np.unique(result.input_of[order], return_index=True)
    found = np.full(len(result.input_names), -1)
    found[places] = order[first]
    return found


def said(result: Result) -> list[str]:
    """The class that the model gives each input, where outputs are classes."""
    if result.output_names is None or not result.outputs.size or result.outputs.shape[1] < 2:
        return [""] * len(result.input_names)
    return [class_name(result.output_names[j]) for j in result.outputs.argmax(axis=1).tolist()]


def _observed(result: Result) -> Floats:
    found = np.full(len(result.input_names), np.nan)
    found[result.input_of] = result.evidence.observed
    return found


def _told(value: object) -> str:
    return "" if value is None else written(value)


def _most(result: Result) -> Ints:
    """The inputs whose nearest case and draws are in the report: those with most to show."""
    found = np.bincount(result.input_of, weights=marked(result), minlength=len(result.input_names))
    return np.argsort(-found, kind="stable")[:MOST_CASES]


def _cases(result: Result, wanted: list[int]) -> dict[str, Any]:
    """The nearest case and the draws of what is established for one input."""
    if result.modality != "table":
        return {}
    near = [case for row in wanted if (case := nearest_case(result, row)) is not None]
    found = [
        {"subset": case.subset, "changes": [[c.name, c.before, c.after] for c in case.changes], "more": case.more,
         "before": case.before, "after": case.after}
        for case in near
    ]  # fmt: skip
    return {"near": found, "draws": [_draws(result, row) for row in wanted if row in result.kept]}


def _draws(result: Result, row: int) -> dict[str, Any]:
    from butfor.report.answer import example

    shown = example(result, row)
    return {"subset": shown.subset, "columns": [[name, seen, list(drawn)] for name, seen, drawn in shown.columns],
            "more": shown.left_out, "outputs": list(shown.outputs)}  # fmt: skip


def as_json(data: object) -> str:
    """JSON that can stand inside of a script element: nothing in it ends the element or begins another.

    >>> as_json({"a": "</script><!--"})
    '{"a":"\\\\u003c/script\\\\u003e\\\\u003c!--"}'
    """
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


WEIGHTS = {"warning": "Beware", "limit": "Good to know", "info": "Detail"}


@dataclass(frozen=True)
class WeightedNote:
    """A sentence for the reader with its weight: "Beware", "Good to know" or "Detail"."""

    weight: str
    text: str


def ranked(notes: Sequence[Note]) -> list[WeightedNote]:
    """The heaviest first; among equals as they came.

    >>> [note.weight for note in ranked((Note("text", "info", {"text": "a"}), Note("random-model", "warning")))]
    ['Beware', 'Detail']
    """
    order = list(WEIGHTS)
    ordered = sorted(notes, key=lambda note: order.index(note.severity))
    return [WeightedNote(WEIGHTS[note.severity], str(note)) for note in ordered]


REFERENCES = {
    "Burns": "Burns, C., Thomason, J., Tansey, W. (2020). Interpreting black box models via hypothesis testing. FODS.",
    "Besag": "Besag, J., Clifford, P. (1991). Sequential Monte Carlo p-values. Biometrika 78.",
    "Fischer": "Fischer, L., Barry, T., Ramdas, A. (2024). Multiple testing with anytime-valid Monte Carlo p-values.",
    "Benjamini & Hochberg": "Benjamini, Y., Hochberg, Y. (1995). Controlling the false discovery rate. JRSS B 57.",
    "Benjamini & Yekutieli": "Benjamini, Y., Yekutieli, D. (2001). The control of the false discovery rate in multiple "
    "testing under dependency. Annals of Statistics 29.",
    "Holm": "Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scand. J. Statistics 6.",
    "Ignatiadis": "Ignatiadis, N., Huber, W. (2021). Covariate powered cross-weighted multiple testing. JRSS B 83.",
    "Genovese": "Genovese, C., Roeder, K., Wasserman, L. (2006). False discovery control with p-value weighting. "
    "Biometrika 93.",
    "Wang": "Wang, R., Ramdas, A. (2022). False discovery rate control with e-values. JRSS B 84.",
    "Barber": "Barber, R. F., Candès, E. (2015). Controlling the false discovery rate via knockoffs. Ann. Stat. 43.",
    "Emery": "Emery, K. et al. (2019). Multiple competition-based FDR control. arXiv.",
    "Gimenez": "Gimenez, J. R., Zou, J. (2019). Improving the stability of the knockoff procedure. AISTATS.",
    "Tansey": "Tansey, W., Veitch, V., Zhang, H., Rabadan, R., Blei, D. (2018). The holdout randomization test. arXiv.",
    "Hemerik": "Hemerik, J., Goeman, J. (2018). Exact testing with random permutations. TEST 27.",
    "Satterthwaite": "Satterthwaite, F. E. (1946). An approximate distribution of estimates of variance components. "
    "Biometrics Bulletin 2.",
    "Dunn": "Dunn, O. J. (1961). Multiple comparisons among means. JASA 56.",
}
TESTS = {
    "sequential": "sequential Monte Carlo p-values (draws are made until each hypothesis is decided)",
    "irt": "the interpretability randomisation test",
    "osft": "the one-shot feature test",
    "few-shot": "a competition of each input with a few counterfactuals",
}


def methods_paragraph(result: Result) -> str:
    """How the result was made, in the words of a paper."""
    record, guarantee = result.record, result.guarantee
    what = {"image": "regions", "text": "parts"}.get(result.modality, "subsets of features")
    rate = {
        "FDR": f"controlling the false discovery rate at {result.alpha:g}",
        "FWER": f"controlling the probability of any false discovery at {result.alpha:g}",
        "nothing": "without control of an error rate",
    }[guarantee.controls]
    decided = ""
    if result.decided is not None:
        decided = (
            " For each of them we estimated the probability that the decision of the model would have been otherwise, "
            f"with 95 % intervals that hold together, and call it necessary where it exceeds {result.decided.level:g}."
        )
    sided = "two-sided" if record.alternative == "two-sided" else f"one-sided ({record.alternative})"
    evidence = "exact p-values, computed from all that the sampler may draw" if result.exact else TESTS[record.test]
    checked = f" {result.control}" if result.control is not None else ""
    return (
        f"We asked of {len(result.subset_names):,} {what} of {len(result.input_names):,} inputs whether the output of "
        f"the model is surprising beside its outputs for counterfactuals, in which the subset alone is redrawn given "
        f"the rest of the input by the sampler {record.sampler}. Evidence is by {evidence}, "
        f"{sided}; selection by the rule {result.rule}, {rate} over {guarantee.family}.{decided} Effects are the "
        f"output minus its mean over counterfactuals, with 95 % intervals.{checked} Software: butfor "
        f"{record.version}, seed {record.seed}; {result.rows:,} evaluations of the model."
    )


def references(result: Result) -> list[str]:
    """What the paragraph cites, by name."""
    cited = f"Burns; {result.guarantee.proven_by}"
    return [full for name, full in REFERENCES.items() if name in cited]


def call(result: Result) -> str:
    """The call that makes the result again; names of variables are the user's to fill in."""
    record = result.record
    given: dict[str, object] = {"test": record.test, "rule": result.rule, "alpha": result.alpha}
    given |= {"family": result.family} if result.family != "run" else {}
    names = ("alternative", "target", "link", "min_effect")
    given |= {name: record.get(name) for name in names if record.get(name) is not None}
    given["seed"] = record.seed
    module = {"image": "butfor.image.", "text": "butfor.text."}.get(result.modality, "butfor.")
    sampler = "reference" if record.sampler.startswith("residual(") else "sampler"
    words = ", ".join(f"{name}={value!r}" for name, value in given.items())
    return f"{module}explain(model, inputs, {sampler}, {words})"


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
        "link": result.record.link,
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
    get = result.record.get
    known = [(label, str(get(name))) for name, label in LABELS.items() if get(name) is not None]
    family = "the run" if result.family == "run" else "each input"
    return [
        *known,
        ("Selection", f"{result.rule} at alpha {result.alpha:g}, over {family}"),
        ("Model rows evaluated", f"{result.rows:,}"),
    ]
