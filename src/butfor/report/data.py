"""Result -> the data of a report's script: one list over all inputs, and the hypotheses of each in parts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from butfor.core.result.reasons import finest_of
from butfor.core.result.result import Result
from butfor.core.types import Array, Floats, Ints
from butfor.plots.labels import EVIDENCE, class_name, effect_words, marked, output_words, values, written
from butfor.report.answer import nearest_case
from butfor.report.lines import tidied

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


def shown_note(result: Result) -> tuple[str, ...]:
    """That not all inputs are listed, where it is so."""
    shown, count = len(shown_inputs(result)), len(result.input_names)
    if shown == count:
        return ()
    return (f"The list has {shown:,} of {count:,} inputs, those with most established; result.table has all of them.",)


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
    from butfor.report.examples import example

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
