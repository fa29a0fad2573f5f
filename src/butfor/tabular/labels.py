"""Labels of rows, as a loss needs them: one for each row, numbers, or places of classes."""

from __future__ import annotations

import numpy as np

from butfor.core.types import Array, Floats, InputError, Ints
from butfor.models import Wrapped
from butfor.models.rows import check_aligned


def aligned_labels(y: object, X: object, count: int) -> Array:
    import pandas as pd

    labels = np.asarray(y)
    if labels.ndim == 0 or len(labels) != count:
        got = "one value" if labels.ndim == 0 else f"{len(labels)} labels"
        raise InputError(f"y has {got} for {count} rows of data; give one for each row")
    check_aligned(y, X)
    missing = pd.isna(labels).reshape(count, -1).any(axis=1)
    if missing.any():
        raise InputError(f"y has a missing value in row {int(np.flatnonzero(missing)[0])}; drop rows without a label")
    return labels


def number_labels(y: Array, outputs: int) -> Floats:
    if outputs != 1:
        raise InputError(f"loss='squared' needs a model with one output, this one has {outputs}; use loss='log'")
    if y.ndim != 1 or y.dtype.kind not in "fiub":
        raise InputError(f"loss='squared' needs y of shape (n,) and numeric, got {y.dtype} of shape {y.shape}")
    return y.astype(np.float64)


def class_labels(y: Array, wrapped: Wrapped, observed: Floats) -> Ints:
    """Labels as positions of the model's outputs; a single output is the probability of label 1."""
    outputs = observed.shape[1]
    if observed.min() < 0 or observed.max() > 1 or (outputs > 1 and np.abs(observed.sum(axis=1) - 1).max() > 1e-3):
        raise InputError("loss='log' needs class probabilities, the outputs are none; give a function as loss=")
    known = (0, 1) if outputs == 1 else (wrapped.classes or tuple(range(outputs)))
    places = {label: place for place, label in enumerate(known)}
    labels = y.tolist()
    strange = next((label for label in labels if isinstance(label, list) or label not in places), None)
    if strange is not None:
        raise InputError(f"y has the label {strange!r}, which the model does not know; it has {list(known[:8])}")
    return np.array([places[label] for label in labels])
