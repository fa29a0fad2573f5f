"""A run of a bed of texts as a modality would make it, with the settings of the test."""

from __future__ import annotations

from typing import Any

import numpy as np

from butfor.run.settings import checked
from butfor.run.run import Setting, run
from butfor.core.draw.blocks import list_problem
from butfor.core.result.result import Result
from butfor.models import wrap
from butfor.simulate.texts import TextBed


def explained(bed: TextBed, sampler: Any = None, *, batch_rows: int = 4096, **settings: Any) -> Result:
    """What the test finds on the bed; a sampler may stand in for the bed's own."""
    names = list(bed.inputs)
    texts = [bed.inputs[name] for name in names]
    problem = list_problem(
        texts, names, [bed.subsets[n] for n in names], sampler or bed.sampler, settings.pop("seed", 0)
    )
    setting = Setting(problem, wrap(bed.model), "reader", batch_rows, str, list, list, {})
    asked = checked(**{"alternative": "two-sided", **settings})
    return run(setting, asked, target=None, y=None, progress=None, keep_effects=False)


def rates(result: Result, bed: TextBed) -> tuple[float, float]:
    """False discovery proportion and power."""
    truth = bed.truth.ravel()
    false = (result.chosen & ~truth).sum() / max(1, result.chosen.sum())
    return float(false), float(result.chosen[truth].mean())


def null_p_values(bed: TextBed, result: Result) -> np.ndarray:
    """Of the places that are read and hold a word of the language: those elsewhere are 1."""
    return np.asarray(result.evidence.values[(~bed.truth & bed.model.read).ravel()])
