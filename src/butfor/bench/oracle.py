"""What a ranking would find if someone told it where to cut: the paper's comparison of methods without error control.

METHODS 1: the cut may be told for each run ("per run": the best cut of this run whose false discovery proportion is at
most the level), or once for all runs ("on the mean curve": the number of features to take is the same in every run, and
its mean false discovery rate is at most the level). The first says more than anybody can know; both are reported.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from butfor.types import Bools, Floats

Ranking = tuple[Floats, Bools]  # scores and truth of one run, both (N,)


def per_run(rankings: Sequence[Ranking], levels: Floats) -> Floats:
    """(runs, levels): of each run the largest TPR of a cut whose FDP is at most the level.

    Equal scores are taken together: nobody can tell them apart.

    >>> per_run([(np.array([3.0, 2.0, 2.0]), np.array([True, True, False]))], np.array([0.0, 0.4]))
    array([[0.5, 1. ]])
    """
    return np.stack([_best(*_at_cuts(*ranking), levels) for ranking in rankings])


def on_mean_curve(rankings: Sequence[Ranking], levels: Floats) -> Floats:
    """(levels,): the largest mean TPR of a number of features whose mean FDP is at most the level.

    Within equal scores the order is random, and the expectation stands for it.

    >>> on_mean_curve([(np.array([2.0, 1.0]), np.array([True, False]))] * 2, np.array([0.1]))
    array([1.])
    """
    curves = [_expected(*ranking) for ranking in rankings]
    return _best(np.mean([fdp for fdp, _ in curves], axis=0), np.mean([tpr for _, tpr in curves], axis=0), levels)


def _best(fdr: Floats, tpr: Floats, levels: Floats) -> Floats:
    """The largest TPR at or below each level; 0 where nothing is."""
    return np.array([tpr[fdr <= level].max(initial=0.0) for level in levels])


def _at_cuts(scores: Floats, truth: Bools) -> tuple[Floats, Floats]:
    """FDP and TPR at every cut between different scores, from the top."""
    order = np.argsort(-scores, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))
    right = np.cumsum(truth[order])[ends]
    return 1 - right / (ends + 1), right / max(1, int(truth.sum()))


def _expected(scores: Floats, truth: Bools) -> tuple[Floats, Floats]:
    """FDP and TPR after the first 1, 2, ... N, equal scores in random order."""
    order = np.argsort(-scores, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True)) + 1
    count = np.arange(1, len(scores) + 1)
    right = np.interp(count, np.append(0, ends), np.append(0, np.cumsum(truth[order])[ends - 1]))
    return 1 - right / count, right / max(1, int(truth.sum()))
