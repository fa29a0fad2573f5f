"""Labels and outputs -> one loss per row: squared error, log loss, or a user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from butfor.core.types import Floats, InputError, Ints

Loss = Callable[[Ints, Floats], Floats]  # inputs (n,), outputs (n, versions, outputs) -> losses (n, versions)


def squared(y: Floats) -> Loss:
    """(y - output)^2 for a model with one output.

    >>> squared(np.array([1.0, 5.0]))(np.array([1]), np.array([[[5.0], [3.0]]]))
    array([[0., 4.]])
    """
    return lambda inputs, outputs: np.asarray((outputs[:, :, 0] - y[inputs][:, None]) ** 2)


def log(labels: Ints) -> Loss:
    """-log of the probability of the label; a single output is the probability of label 1.

    A probability of 0 counts as the smallest one that 1 - p can tell from it, as in scikit-learn.
    """

    def loss(inputs: Ints, outputs: Floats) -> Floats:
        label = labels[inputs][:, None]
        if outputs.shape[2] == 1:
            likely = np.where(label == 1, outputs[:, :, 0], 1 - outputs[:, :, 0])
        else:
            likely = np.take_along_axis(outputs, label[:, :, None], axis=2)[:, :, 0]
        return np.asarray(-np.log(np.maximum(likely, np.finfo(np.float64).eps)))

    return loss


def own(function: Callable[[Any, Any], Any], y: np.ndarray[Any, Any]) -> Loss:
    """A user's `function(y, outputs) -> (n,)`; it sees one output as (n,), several as (n, outputs)."""

    def loss(inputs: Ints, outputs: Floats) -> Floats:
        count, versions, width = outputs.shape
        rows = outputs.reshape(count * versions, width)
        found = np.asarray(function(np.repeat(y[inputs], versions, axis=0), rows[:, 0] if width == 1 else rows))
        if found.shape != (count * versions,) or found.dtype.kind not in "fiub":
            raise InputError(
                f"loss returned {found.dtype} values of shape {found.shape} for {count * versions} rows; expected "
                f"({count * versions},): one number per row, not their mean"
            )
        if not np.isfinite(found).all():
            raise InputError(f"loss returned {found[~np.isfinite(found)][0]}; expected finite numbers: clip them")
        return found.astype(np.float64).reshape(count, versions)

    return loss
