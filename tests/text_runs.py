"""A run of a bed of texts as a modality would make it, with the settings of the test."""

from __future__ import annotations

from typing import Any

import numpy as np

from butfor.evaluation.hypotheses import list_hypotheses
from butfor.evaluation.items import ListItems
from butfor.models import wrap
from butfor.results.record import TextInputs
from butfor.results.result import Result
from butfor.run.run import RunContext, run
from butfor.settings import Settings
from butfor.simulate.texts import TextBed


def explained(bed: TextBed, sampler: Any = None, *, batch_rows: int = 4096, **options: Any) -> Result:
    """What the test finds on the bed; a sampler may stand in for the bed's own."""
    settings = Settings.of({"alternative": "two-sided", "effects": None, **options})
    names = list(bed.inputs)
    items, subsets = ListItems([bed.inputs[name] for name in names]), [bed.subsets[name] for name in names]
    hypotheses = list_hypotheses(items, names, subsets, sampler or bed.sampler, settings.seed)
    inputs = TextInputs("words", tuple(bed.inputs[name] for name in names))
    return run(RunContext(hypotheses, wrap(bed.model), "reader", batch_rows, str, list, inputs, (3, 2**20)), settings)


def rates(result: Result, bed: TextBed) -> tuple[float, float]:
    """False discovery proportion and power."""
    truth = bed.truth.ravel()
    false = (result.chosen & ~truth).sum() / max(1, result.chosen.sum())
    return float(false), float(result.chosen[truth].mean())


def null_p_values(bed: TextBed, result: Result) -> np.ndarray:
    """Of the places that are read and hold a word of the language: those elsewhere are 1."""
    return np.asarray(result.evidence.values[(~bed.truth & bed.model.read).ravel()])
