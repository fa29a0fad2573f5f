"""The global question, does the response depend on this column?, on tables where the answer is known."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np

from butfor.bench.global_ import ALPHA, half_tested, holdout_bed, knockoffs
from butfor.bench.output import Figures
from butfor.bench.peers.methods import installed
from butfor.bench.runs import mean_error, mean_rates
from butfor.types import Bools, Floats

STRENGTH = 0.15
HALF = 500  # rows that a model is fitted on; as many are held out
Answer = Callable[[Floats, Floats, int], Bools]  # rows, response, seed -> chosen columns


def ours(rows: Floats, y: Floats, seed: int) -> Bools:
    """The holdout randomisation test of a lasso."""
    return np.asarray(half_tested("lasso", rows, y, seed).chosen)


def conditional_importance(rows: Floats, y: Floats, seed: int) -> Bools:
    """hidimstat's CFI of the same lasso, default settings, BH on its p-values."""
    from hidimstat import CFI
    from sklearn.linear_model import LassoCV

    model = LassoCV(cv=5).fit(rows[:HALF], y[:HALF])
    test = CFI(model, random_state=seed)
    test.fit(rows[:HALF], y[:HALF])
    test.importance(rows[HALF:], y[HALF:])
    return np.asarray(test.fdr_selection(fdr=ALPHA) > 0)


def distilled(rows: Floats, y: Floats, seed: int) -> Bools:
    """hidimstat's D0CRT on all rows (it needs no held-out ones), default settings, BH on its p-values."""
    from hidimstat import D0CRT
    from sklearn.linear_model import LassoCV

    test = D0CRT(LassoCV(cv=5), random_state=seed)
    test.fit_importance(rows, y)
    return np.asarray(test.fdr_selection(fdr=ALPHA) != 0)


def model_x(rows: Floats, y: Floats, seed: int, count: int = 2 * HALF) -> Bools:
    """knockpy's Gaussian knockoffs with the lasso statistic."""
    chosen = knockoffs(rows[:count], y[:count], seed)
    assert chosen is not None
    return chosen


def half_model_x(rows: Floats, y: Floats, seed: int) -> Bools:
    """The same on the training rows only."""
    return model_x(rows, y, seed, HALF)


def permutation(rows: Floats, y: Floats, seed: int) -> Bools:
    """scikit-learn's permutation importance of the same lasso, by the rule of its own example: mean above 2 sd."""
    from sklearn.inspection import permutation_importance
    from sklearn.linear_model import LassoCV

    model = LassoCV(cv=5).fit(rows[:HALF], y[:HALF])
    found = permutation_importance(model, rows[HALF:], y[HALF:], n_repeats=30, random_state=seed)
    return np.asarray(found.importances_mean - 2 * found.importances_std > 0)


ANSWERS: dict[str, tuple[Answer, str, str]] = {  # what answers, its package, what it promises
    "butfor, holdout randomisation": (ours, "butfor", "FDR, given Q"),
    "hidimstat CFI": (conditional_importance, "hidimstat", "p-values (t-test), BH"),
    "hidimstat D0CRT, all rows": (distilled, "hidimstat", "p-values, BH"),
    "knockpy, training rows": (half_model_x, "knockpy", "FDR, given Q"),
    "knockpy, all rows": (model_x, "knockpy", "FDR, given Q"),
    "scikit-learn permutation importance": (permutation, "scikit-learn", "none"),
}


def whole_table(runs: int = 10, seed: int = 0) -> list[Figures]:
    """FDR, TPR and processor seconds of each, over the same tables: 1,000 rows, 50 correlated columns, 15 true."""
    tables = [holdout_bed(np.random.default_rng([seed, run, 2]), STRENGTH) for run in range(runs)]
    return [_answered(name, tables) for name in ANSWERS]


def _answered(name: str, tables: list[tuple[Floats, Floats, Bools]]) -> Figures:
    answer, package, promises = ANSWERS[name]
    shared = {"method": name, "promises": promises}
    if installed(package) is None:
        return {**shared, "why": f"{package} is not installed"}
    found, seconds = [], []
    for number, (rows, y, truth) in enumerate(tables):
        start = time.process_time()
        with warnings.catch_warnings(action="ignore"):
            chosen = answer(rows, y, number)
        seconds.append(time.process_time() - start)
        found.append((chosen, truth))
    return {**shared, **mean_rates(found), "seconds": mean_error(seconds)[0]}
