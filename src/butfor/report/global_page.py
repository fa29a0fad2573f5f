"""Global result -> what its report shows: one line per feature over the whole data set, and what is promised."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from butfor.report.answer import PictureLine, Scale, interval_words, percent
from butfor.report.content import ranked, references
from butfor.results.result import Result
from butfor.results.summary import effect_name, number

MOST_LINES = 200
MOST_NAMED = 3


def content(result: Result) -> dict[str, Any]:
    """Everything the template names; asks neither a model nor a sampler."""
    lines, zero = _lines(result)
    name = effect_name(result)
    return {
        "headline": answer(result),
        "lead": _lead(result),
        "effect": name[:1].upper() + name[1:],
        "chosen": int(result.chosen.sum()),
        "subsets": len(result.chosen),
        "features": lines,
        "zero": zero,
        "promise": promise_line(result),
        "guarantee": str(replace(result.guarantee, caveats=())),
        "caveats": result.guarantee.caveats,
        "control": "",
        "of_decisions": "",
        "bound": "",
        "notes": ranked(result.notes),
        "methods": _methods(result),
        "references": references(result),
        "provenance": _provenance(result),
        "call": _call(result),
    }


def answer(result: Result) -> str:
    """What is established, in one sentence."""
    effect = np.where(result.chosen, np.abs(np.nan_to_num(result.effects.effect)), -1.0)
    names = [result.subset_names[j] for j in np.argsort(-effect, kind="stable")[: int(result.chosen.sum())]]
    if not names:
        return f"Over these {result.n_inputs:,} inputs nothing is established."
    shown = ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")
    if result.record.test == "holdout":
        return f"The skill of the model rests on {shown}."
    return f"What sets these inputs apart from the reference: {shown}."


def _lead(result: Result) -> str:
    """For how many features it is established, and what that means."""
    found, total = int(result.chosen.sum()), len(result.chosen)
    count = f"Established for {found:,} of {total:,} features, over {result.n_inputs:,} inputs"
    if result.record.test == "holdout":
        return f"{count}: the {result.importance.loss} loss is larger when the feature is redrawn, given the others."
    return f"{count}: the mean output is another when the feature is redrawn as in the reference, given the others."


def promise_line(result: Result) -> str:
    """What is promised, in one line."""
    if result.guarantee.controls == "FWER":
        return f"The probability that anything called established is false is at most {percent(result.alpha)}."
    return f"Of the features called established, at most {percent(result.alpha)} are expected to be false."


def _lines(result: Result) -> tuple[tuple[PictureLine, ...], float]:
    """Features with their effects, established ones first; of the others the difference on the draws of the test."""
    effects, found = result.effects, result.evidence
    known = np.isfinite(effects.effect)
    middle = np.where(known, effects.effect, result.difference)
    low, high = (np.where(known, end, np.nan) for end in (effects.low, effects.high))
    order = np.lexsort((-np.abs(np.nan_to_num(middle)), ~result.chosen))[:MOST_LINES]
    scale = Scale.over(middle[order], low[order], high[order])
    lines = tuple(
        PictureLine(
            result.subset_names[j],
            "",
            number(middle[j], sign=True),
            interval_words(low[j], high[j]),
            scale(low[j]),
            scale(middle[j]),
            scale(high[j]),
            bool(result.chosen[j]),
            more=number(found.values[j]) if result.tested[j] else "no variation",
        )
        for j in order.tolist()
    )
    return lines, scale(0.0) or 0.0


def _methods(result: Result) -> str:
    record, draws = result.record, int(result.evidence.draws[0])
    drawn = f"{draws} times" if draws > 1 else "once"
    what = (
        f"{len(result.chosen):,} subsets of features were redrawn {drawn} in each of {result.n_inputs:,} inputs, given "
    )
    what += f"the rest of the input, by the sampler {record.sampler}. "
    if result.record.test == "holdout":
        how = f"By the holdout randomisation test we asked whether the {result.importance.loss} loss of the model rises"
    else:
        how = "We asked whether the output of the model differs from that for redrawn values on average over the inputs"
    passes = result.importance.passes
    by = f"{passes} passes" if passes else "Student's t with the error of the fit"
    return (
        f"{what}{how} ({by}); selection by {result.rule} at {result.alpha:g} over all subsets. Software: butfor "
        f"{record.version}, seed {record.seed}; {result.rows:,} evaluations of the model."
    )


LABELS = {
    "model": "Model",
    "data": "Data",
    "reference": "Reference",
    "sampler": "Sampler",
    "why": "Why this sampler",
    "loss": "Loss",
    "alternative": "Alternative",
    "target": "Target",
    "seed": "Seed",
    "version": "butfor version",
}


def _provenance(result: Result) -> list[tuple[str, str]]:
    get = result.record.get
    known = [(label, str(get(name))) for name, label in LABELS.items() if get(name) is not None]
    return [
        *known,
        ("Selection", f"{result.rule} at alpha {result.alpha:g}, over all subsets"),
        ("Model rows evaluated", f"{result.rows:,}"),
    ]


def _call(result: Result) -> str:
    record = result.record
    given: dict[str, object] = {"rule": result.rule, "alpha": result.alpha}
    given |= {name: record.get(name) for name in ("alternative", "target", "loss") if record.get(name) is not None}
    given["seed"] = record.seed
    labels = ", y=labels" if result.record.test == "holdout" else ""
    words = ", ".join(f"{name}={value!r}" for name, value in given.items())
    return f"butfor.global_importance(model, inputs, reference{labels}, {words})"
