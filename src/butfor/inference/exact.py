"""Exact p-values from a listed support: the mass of values at least as surprising as the observed one (METHODS 9).

    p = (sum of Q(v) over v with T(v) >= t, + mass beside the list) / (all mass)

Valid when the observed value has the distribution Q, however few values are listed, as long as the rest of the input
alone decides which; its least value is Q of the observed value and of all that is not listed. An observed value that a
list of full mass lacks counts as one more of its least likely values: a Q that calls what has happened impossible is a
fit, not the truth, and for m equally likely values p is then the observed value's rank among m + 1 (whoever makes the
`Support` puts that mass beside the list).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from butfor.inference.statistics import (
    PartialEvidence,
    StatisticSpec,
    class_statistic,
    linked,
    tail_statistic,
    tied_values,
)
from butfor.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class Support:
    """Probabilities of what is listed (n, m), the mass beside it (n,) and the least p-value of each list (n,)."""

    mass: Floats
    beside: Floats
    least: Floats


def p_exact(statistic: Floats, probability: Floats, margin: float = 0.0) -> Floats:
    """Return p-values from a listed support.

    `statistic` and `probability` (n, 1 + m) hold the observed value first, with mass 0 if it is among the m too.

    >>> p_exact(np.array([[2.0, 3.0, 1.0]]), np.array([[0.2, 0.3, 0.5]]))
    array([0.5])
    """
    hits = statistic >= statistic[:, :1] - margin  # the observed value counts itself, so p is at least its mass
    return np.asarray(np.where(hits, probability, 0.0).sum(axis=1))


def listed_evidence(
    spec: StatisticSpec, rows: Ints, inputs: Ints, outputs: Floats, listed: Support, draws: int | None = None
) -> PartialEvidence:
    """Return the p-values of hypotheses `rows` (n,) of inputs (n,) from outputs (n, 1 + m, outputs) of all listed."""
    mass, beside = listed.mass, listed.beside
    if spec.picked is not None:
        mass = mass * spec.picked.accept(outputs[:, 1:])
    passed = mass.sum(axis=1)
    weight = np.maximum(passed, np.finfo(np.float64).tiny)
    share = mass / weight[:, None]
    if spec.class_of_each:
        middle = np.einsum("nm,nmo->no", share, linked(outputs[:, 1:], spec.link))
        statistic, values, classes = class_statistic(outputs, spec, middle, inputs)
    else:
        values, classes = tied_values(outputs, spec, inputs)
        statistic = tail_statistic(values, spec.alternative, (values[:, 1:] * share).sum(axis=1))
    extreme = p_exact(statistic, np.column_stack([np.zeros(len(mass)), mass]), spec.margin)
    return PartialEvidence(
        rows=rows,
        values=np.where(passed > 0, np.minimum((extreme + beside) / (weight + beside), 1), 1),
        observed=values[:, 0].copy(),
        classes=classes,
        draws=mass.shape[1] if draws is None else draws,
        drawable=passed > 0,
        least=listed.least,
    )
