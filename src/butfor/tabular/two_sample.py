"""Can trees tell held-out rows from their counterfactuals? Not better than chance, if the sampler is right."""

from __future__ import annotations

from typing import Any

import numpy as np

from butfor.core.test.sampler_checks import ranks
from butfor.core.types import Floats, Ints

PARTS, TREES = 5, 50
TRAIN_DRAWS = 3  # counterfactuals a row to learn from
SCORE_DRAWS = 32  # counterfactuals a row to be ranked among
COMPANIONS = 20  # columns of the rest of the row: the trees would drown in a wide table


def score_ranks(rows: Floats, columns: Ints, pool: Floats, rng: np.random.Generator) -> Floats:
    """Ranks in (0, 1) of the trees' scores of held-out rows among those of their counterfactuals; large: told apart.

    `pool` is (n, 1 + draws, columns), version 0 held out. The rows are dealt into five parts, and each part is judged
    by trees that have seen the parts before it: a row and its draws are never learned from before they are judged, so
    under a right sampler the ranks are exactly uniform and independent. (Usual cross-validation makes them dependent.)
    """
    parts = np.array_split(rng.permutation(len(rows)), PARTS)
    found = []
    for k in range(1, PARTS):
        seen, judged = np.concatenate(parts[:k]), parts[k]
        beside = _companions(rows[seen], columns)
        trees = _trees(int(rng.integers(2**31)))
        drawn = pool[seen, : 1 + TRAIN_DRAWS]
        label = np.arange(len(seen) * drawn.shape[1]) % drawn.shape[1] == 0
        trees.fit(_described(rows[seen][:, beside], drawn, pool[seen]), label)
        drawn = pool[judged, : 1 + SCORE_DRAWS]
        scores = trees.predict_proba(_described(rows[judged][:, beside], drawn, pool[judged]))[:, 1]
        found.append(ranks(scores.reshape(drawn.shape[:2]), rng))
    return np.concatenate(found)


def _trees(seed: int) -> Any:
    from sklearn.ensemble import ExtraTreesClassifier

    return ExtraTreesClassifier(TREES, min_samples_leaf=5, class_weight="balanced", random_state=seed)


def _companions(rows: Floats, columns: Ints) -> Ints:
    """The columns of the rest of the row that go most with the subset."""
    rest = np.setdiff1d(np.arange(rows.shape[1]), columns)
    if len(rest) <= COMPANIONS:
        return rest
    centred = rows - rows.mean(axis=0)
    norm = np.sqrt((centred**2).sum(axis=0))
    scaled = centred / np.where(norm > 0, norm, 1.0)
    together = np.abs(scaled[:, rest].T @ scaled[:, columns]).max(axis=1)
    return np.sort(rest[np.argsort(-together, kind="stable")[:COMPANIONS]])


def _described(beside: Floats, drawn: Floats, pool: Floats) -> Floats:
    """What the trees see of each version: its values, their place among all versions (z), and the rest of the row.

    Place and scale come from the whole pool, which is symmetric in the held-out value and its draws.
    """
    middle, spread = pool.mean(axis=1, keepdims=True), pool.std(axis=1, keepdims=True)
    z = (drawn - middle) / np.where(spread > 0, spread, 1.0)
    rest = np.broadcast_to(beside[:, None, :], (*drawn.shape[:2], beside.shape[1]))
    return np.concatenate([drawn, z, rest], axis=2).reshape(drawn.shape[0] * drawn.shape[1], -1)
