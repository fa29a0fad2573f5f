"""A linear teacher over pieces, pairs and triples (naive-Bayes weighted logistic regression).

It gives the network soft labels for the unlabelled reviews. It sees labels of the train split only, and its opinion on
a train review comes from a fit that did not see that review.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

BUCKETS = 1 << 22


def grams(rows: list[np.ndarray]) -> csr_matrix:
    """Which pieces, pairs and triples occur in each review, hashed."""
    columns = [present(r.astype(np.int64)) for r in rows]
    ends = np.concatenate([[0], np.cumsum([len(c) for c in columns])])
    flat = np.concatenate(columns)
    return csr_matrix((np.ones(len(flat), np.float32), flat, ends), shape=(len(rows), BUCKETS))


def present(ids: np.ndarray) -> np.ndarray:
    two = ids[:-1] * 10_007 + ids[1:]
    three = two[:-1] * 10_007 + ids[2:]
    mixed = np.concatenate([ids, two * 0x9E3779B1 >> 7, three * 0x85EBCA6B >> 9])
    return np.unique(mixed % BUCKETS).astype(np.int32)


def fit_predict(x: csr_matrix, y: np.ndarray, others: list[csr_matrix]) -> list[np.ndarray]:
    """Log-odds of positive for each of `others`."""
    positive = np.asarray(x[y == 1].sum(0)).ravel() + 1
    negative = np.asarray(x[y == 0].sum(0)).ravel() + 1
    ratio = np.log((positive / positive.sum()) / (negative / negative.sum())).astype(np.float32)
    model = LogisticRegression(C=0.1, solver="liblinear", dual=True, max_iter=60, tol=0.02)
    model.fit(scaled(x, ratio), y)
    return [model.decision_function(scaled(o, ratio)) for o in others]


def scaled(x: csr_matrix, ratio: np.ndarray) -> csr_matrix:
    return csr_matrix((ratio[x.indices], x.indices, x.indptr), shape=x.shape)
