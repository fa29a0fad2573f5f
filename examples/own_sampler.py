"""A sampler of your own in one file: new values anywhere between the least and the largest of the reference.

The reference: 500 hours in which a machine ran as it should, four sensors that do not depend on each other. Explained
are 20 hours in which the first sensor ran hot. What makes a function of `(inputs, subset, draws, rng)` a sampler is
`from_values`; it passes the same tests as those of the package (tests/tabular/test_samplers.py).
"""

import sys
from dataclasses import dataclass

import numpy as np

import butfor
from butfor.tabular import from_values


@dataclass(frozen=True, eq=False)
class Uniform:
    """New values of the subset's columns, the draws of the first input first; a closure could not be pickled."""

    low: np.ndarray
    high: np.ndarray

    ignores_dependence = True  # it does not look at the rest of the row: a fact that the guarantee of a result tells

    def __call__(self, inputs, subset, draws, rng):
        columns = subset.index
        return rng.uniform(self.low[columns], self.high[columns], size=(len(inputs) * draws, len(columns)))


def uniform(reference):
    """The sampler of a reference, an array or a frame: given that, it goes by the names of columns, not their order."""
    rows = np.asarray(reference, dtype=float)
    return from_values(Uniform(rows.min(axis=0), rows.max(axis=0)), reference)


def main(report: str | None = None) -> butfor.Result:
    """Explain the hot hours, print, and return the result."""
    rng = np.random.default_rng(0)
    usual, hot = rng.uniform(20, 60, size=(500, 4)), rng.uniform([70, 20, 20, 20], [90, 60, 60, 60], size=(20, 4))
    result = butfor.explain(lambda rows: rows @ np.array([2.0, 1.0, 0.5, 0.0]), hot, uniform(usual))
    print(result.summary())
    if report is not None:
        result.report(report)
    return result


if __name__ == "__main__":
    main(report=sys.argv[1] if len(sys.argv) > 1 else None)
