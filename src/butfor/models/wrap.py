"""Any model -> a callable and the labels of its outputs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from butfor.core.types import Batch, InputError, Model
from butfor.models.optional import loaded

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Wrapped:
    """How to ask a model, what its outputs are called, which columns it takes (None: it does not say).

    >>> Wrapped(sum, classes=("total",))([1, 2])
    3
    """

    call: Model
    classes: tuple[Any, ...] | None = None
    columns: tuple[Any, ...] | None = None

    def __call__(self, batch: Batch) -> Any:
        return self.call(batch)


def wrap(model: Any) -> Wrapped:
    """The best that the model can say: probabilities, else scores, else predictions, else what the callable returns.

    A classifier has one output per class whatever it can say: probabilities, the decision function (of two classes: the
    margin and its negative, so that either can be the target), or 1 for the label it predicts and 0 for the others. A
    classifier of several things at once has one output per thing and class, called "0=yes", "0=no", "1=yes" and so on.

    >>> wrap(len).classes is None
    True
    >>> from sklearn.svm import LinearSVC
    >>> wrap(LinearSVC().fit([[0.0], [1.0]], ["no", "yes"])).classes
    ('no', 'yes')
    """
    if isinstance(model, Wrapped):
        return model
    if isinstance(model, type):
        raise InputError(f"model is the class {model.__name__}, expected a fitted object of it or a function")
    if _is_pipeline(model):
        from butfor.models.huggingface import hugging_face

        return hugging_face(model)
    if any(hasattr(model, name) for name in ("predict_proba", "decision_function", "predict")):
        return _estimator(model)
    if _is_module(model):
        from butfor.models.torch import torch_module

        return torch_module(model)
    if callable(model):
        return Wrapped(model)
    raise InputError(f"model must be a function or have predict_proba or predict, got {type(model).__name__}")


def _is_pipeline(model: Any) -> bool:
    return any(kind.__module__.startswith("transformers.pipelines") for kind in type(model).__mro__)


def _is_module(model: Any) -> bool:
    torch = loaded("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def _estimator(model: Any) -> Wrapped:
    columns = getattr(model, "feature_names_in_", None)
    call, classes = _asked(model, getattr(model, "classes_", None))
    return Wrapped(call, classes, None if columns is None else tuple(np.asarray(columns).tolist()))


def _asked(model: Any, classes: Any) -> tuple[Model, tuple[Any, ...] | None]:
    """What to call, and the names of what it returns."""
    if hasattr(model, "predict_proba"):
        if _several(classes):
            return Joined(model.predict_proba), _joined_names(classes)
        return model.predict_proba, _names(classes)
    if hasattr(model, "decision_function"):
        if classes is None:  # an outlier detector: its score, rather than the -1 or 1 that it predicts
            return model.decision_function, None
        if len(classes) > 2 and getattr(_last(model), "decision_function_shape", "ovr") == "ovo":
            raise InputError(
                "the model's decision function compares pairs of classes; set decision_function_shape='ovr'"
            )
        return Margins(model.decision_function), _names(classes)
    if classes is None or _several(classes):
        return model.predict, None
    return Indicators(model.predict, np.asarray(classes)), _names(classes)


def _last(model: Any) -> Any:
    """The estimator at the end of a pipeline, or the best one of a search."""
    while True:
        inner = getattr(model, "best_estimator_", None) or (getattr(model, "steps", None) or [(None, None)])[-1][1]
        if inner is None:
            return model
        model = inner


def _several(classes: Any) -> bool:
    """scikit-learn lists one array of classes per output where there are several."""
    return isinstance(classes, list) and len(classes) > 0 and all(np.ndim(labels) == 1 for labels in classes)


def _names(classes: Any) -> tuple[Any, ...] | None:
    return None if classes is None else tuple(np.asarray(classes).tolist())


def _joined_names(classes: list[Any]) -> tuple[str, ...]:
    return tuple(f"{output}={label}" for output, labels in enumerate(classes) for label in np.asarray(labels).tolist())


@dataclass(frozen=True)
class Joined:
    """Probabilities of several outputs side by side, (n, classes of the first + classes of the second + ...)."""

    predict_proba: Callable[[Batch], Any]

    def __call__(self, batch: Batch) -> Array:
        parts = self.predict_proba(batch)
        if isinstance(parts, list):
            return np.hstack(parts)
        present = np.asarray(parts)  # a chain of two-class models gives only the probability of the second class
        return np.stack([1 - present, present], axis=2).reshape(len(present), -1)


@dataclass(frozen=True)
class Margins:
    """A decision function with one column per class; of two classes it is the margin of the second."""

    decision_function: Callable[[Batch], Any]

    def __call__(self, batch: Batch) -> Array:
        scores = np.asarray(self.decision_function(batch))
        return np.column_stack([-scores, scores]) if scores.ndim == 1 else scores


@dataclass(frozen=True, eq=False)
class Indicators:
    """1 for the class that is predicted, 0 for the others: labels are no numbers, even where they look like some."""

    predict: Callable[[Batch], Any]
    classes: Array  # (classes,)

    def __call__(self, batch: Batch) -> Array:
        predicted: Array = np.asarray(self.predict(batch))[:, None] == self.classes
        return predicted.astype(np.float64)


def model_name(model: object) -> str:
    """What tells a model from others: where a function is defined, or how an object describes itself."""
    if hasattr(model, "__qualname__"):
        return f"{model.__module__}.{model.__qualname__}"
    return re.sub(r" at 0x[0-9a-f]+", "", " ".join(repr(model).split()))[:500]  # an address is of one process only
