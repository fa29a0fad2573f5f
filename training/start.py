"""Where the infiller starts: embeddings from counts of neighbours in all reviews, biases from the counts of pieces.

Counting reads every review in seconds, so rare pieces begin near their like instead of waiting to be met in training.
"""

from __future__ import annotations

import numpy as np
import torch
from corpus import scratch
from infiller import EDGE, Infiller
from scipy.sparse import coo_matrix, hstack
from sklearn.utils.extmath import randomized_svd

NEIGHBOURS = 2_000  # only the most frequent pieces count as neighbours


def start(model: Infiller, rows: list[np.ndarray]) -> None:
    flat = np.concatenate([part for row in rows for part in ([EDGE], row)]).astype(np.int64)
    pieces, width = model.embedding.weight.shape
    count = np.bincount(flat, minlength=pieces) + 0.5
    with torch.no_grad():
        model.bias.copy_(torch.from_numpy(np.log(count / count.sum())))
        model.embedding.weight.copy_(torch.from_numpy(embeddings(flat, pieces, width)))


def embeddings(flat: np.ndarray, pieces: int, width: int) -> np.ndarray:
    """Leading directions of the positive pointwise information between a piece and its two neighbours a side."""
    cache = scratch() / f"start-{width}.npy"
    if not cache.exists():
        blocks = [
            information(
                flat[max(0, -by) : len(flat) - max(0, by)],
                np.roll(flat, -by)[max(0, -by) : len(flat) - max(0, by)],
                pieces,
            )
            for by in (-2, -1, 1, 2)
        ]
        u, s, _ = randomized_svd(hstack(blocks).tocsr(), width, n_iter=2, random_state=0)
        x = u * np.sqrt(s)
        x = x - x.mean(0)
        x = x / (np.linalg.norm(x, axis=1, keepdims=True) + 1e-3)
        rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(width, width)))[0]
        np.save(cache, (x @ rotation).astype(np.float32))
    return np.load(cache)


def information(here: np.ndarray, there: np.ndarray, pieces: int) -> coo_matrix:
    kept = there < NEIGHBOURS
    n = (
        coo_matrix((np.ones(kept.sum(), np.float32), (here[kept], there[kept])), shape=(pieces, NEIGHBOURS))
        .tocsr()
        .tocoo()
    )
    row, column = np.bincount(n.row, n.data, pieces), np.bincount(n.col, n.data, NEIGHBOURS) ** 0.75
    value = np.log(n.data / row[n.row] / column[n.col] * column.sum())
    return coo_matrix((np.maximum(value, 0), (n.row, n.col)), shape=n.shape)
