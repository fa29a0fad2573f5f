"""Further rows of a bed's own kind: what a method that learns or needs a background is given."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from butfor.simulate.about_model import SHARE, copied_rows, tree_rows
from butfor.simulate.known import LINEAR_SHARE, LINEAR_SHIFT, linear_covariance
from butfor.simulate.paper import PAIRS, WIDTH, mixture, paper_beta
from butfor.streams import stream
from butfor.types import Floats, InputError

CHUNK = 5000  # rows of correlated normals at a time


def population(name: str, seed: int, count: int, *, signals: bool) -> Floats:
    """Rows (count, d) that the inputs of this bed could have been, or, without signals, rows that Q describes.

    They are none of the bed's inputs. The paper's beds, "linear", "interactions", "boosted-trees" and "copies".

    >>> population("copies", 0, 3, signals=False).shape
    (3, 24)
    """
    if name not in POPULATIONS:
        raise InputError(f"population knows the beds {', '.join(POPULATIONS)}, got {name!r}; use one of them")
    return POPULATIONS[name](seed, count, signals)


def _paper(seed: int, count: int, signals: bool, *, width: int, correlated: bool) -> Floats:
    rng = stream(seed, "population", width, correlated, signals)
    return mixture(count, width, SHARE * signals, paper_beta(seed, width, correlated=correlated), rng)[0]


def _linear(seed: int, count: int, signals: bool) -> Floats:
    """As `known.linear_gaussian` makes them, many at a time."""
    rng, covariance = stream(seed, "population", "linear", signals), linear_covariance()
    parts = [min(CHUNK, count - start) for start in range(0, count, CHUNK)]
    return np.concatenate([_given_shifted(part, LINEAR_SHARE * signals, covariance, rng) for part in parts])


def _given_shifted(count: int, share: float, covariance: Floats, rng: np.random.Generator) -> Floats:
    """Shifted entries from N(shift, 1), the others from N(0, covariance) given those: one matrix a row, batched."""
    width = len(covariance)
    shifted = rng.random((count, width)) < share
    noise = rng.standard_normal((count, width))
    both, neither = (mask[:, :, None] & mask[:, None, :] for mask in (shifted, ~shifted))
    known = np.where(shifted[:, :, None], covariance, 0.0)
    slope = np.linalg.solve(np.where(both, covariance, np.eye(width)), known)
    spread = np.linalg.cholesky(np.where(neither, covariance - known.transpose(0, 2, 1) @ slope, np.eye(width)))
    moved = np.where(shifted, noise + LINEAR_SHIFT, 0.0)
    rest = np.where(shifted, 0.0, noise)
    given = (moved[:, None] @ slope)[:, 0] + (spread @ rest[:, :, None])[:, :, 0]
    return np.where(shifted, moved, given)


def _interactions(seed: int, count: int, signals: bool, width: int = 24) -> Floats:
    rng = stream(seed, "population", "interactions", signals)
    return np.asarray(rng.standard_normal((count, width)) + 4.0 * (rng.random((count, width)) < SHARE * signals))


def _trees(seed: int, count: int, signals: bool) -> Floats:
    return tree_rows(seed, count, SHARE * signals, f"population {signals}")[0]


def _copies(seed: int, count: int, signals: bool) -> Floats:
    return copied_rows(seed, count, SHARE * signals, f"population {signals}")[0]


POPULATIONS: dict[str, Callable[[int, int, bool], Floats]] = {
    "independent-discontinuous": partial(_paper, width=2 * PAIRS, correlated=False),
    "correlated-discontinuous": partial(_paper, width=2 * PAIRS, correlated=True),
    "independent-network": partial(_paper, width=WIDTH, correlated=False),
    "correlated-network": partial(_paper, width=WIDTH, correlated=True),
    "linear": _linear,
    "interactions": _interactions,
    "boosted-trees": _trees,
    "copies": _copies,
}
