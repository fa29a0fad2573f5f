"""A function or a scikit-learn estimator -> a callable and the labels of its outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from butfor.core.types import InputError, Model


@dataclass(frozen=True)
class Wrapped:
    """How to ask the model, and what its outputs are called (None: they have no names)."""

    call: Model
    classes: tuple[Any, ...] | None = None


def wrap(model: Any) -> Wrapped:
    """Probabilities where the model has them, else predictions, else the callable itself.

    >>> wrap(len).classes is None
    True
    """
    if hasattr(model, "predict_proba"):
        classes = getattr(model, "classes_", None)
        return Wrapped(model.predict_proba, None if classes is None else tuple(classes.tolist()))
    if hasattr(model, "predict"):
        return Wrapped(model.predict)
    if callable(model):
        return Wrapped(model)
    raise InputError(f"model must be a function or have predict_proba or predict, got {type(model).__name__}")
