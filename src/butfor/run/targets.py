"""Which output of the model is tested: its index, a label, the predicted class, or the true one."""

from __future__ import annotations

from typing import Any

import numpy as np

from butfor.core.evaluate.outputs import Target
from butfor.core.types import Floats, InputError, Ints
from butfor.models import Wrapped

NAMED = ("output", "predicted", "observed-class", "truth")


def target_name(target: object, outputs: int) -> object:
    """The target, with its default filled in: the output itself, or the predicted class where there are several."""
    name = ("output" if outputs == 1 else "predicted") if target is None else target
    return name.item() if isinstance(name, np.generic) else name


def resolve(name: object, y: object, observed: Floats, wrapped: Wrapped) -> Target:
    """The target as the core understands it; `observed` (n, outputs) are the outputs on the inputs."""
    outputs = observed.shape[1]
    if y is not None and name != "truth":
        raise InputError("y is used with target='truth' only; drop it or ask for target='truth'")
    if not (isinstance(name, str) and name in NAMED and name not in (wrapped.classes or ())):
        return Target("fixed", np.array([_index(name, outputs, wrapped)]))
    if outputs == 1 and name != "output":
        raise InputError(f"target={name!r} needs a model with several outputs, this one has one; use target=None")
    if outputs > 1 and name == "output":
        raise InputError(f"the model has {outputs} outputs; choose one with target= or use target='predicted'")
    if name == "observed-class":
        return Target("per-input", observed.argmax(axis=1))
    if name == "truth":
        return Target("per-input", _truth(y, observed, wrapped))
    return Target("predicted" if name == "predicted" else "output")


def _truth(y: object, observed: Floats, wrapped: Wrapped) -> Ints:
    if y is None:
        raise InputError("target='truth' needs the true labels; give them as y=")
    labels = np.asarray(y).reshape(-1).tolist()
    if len(labels) != len(observed):
        raise InputError(f"y has {len(labels)} labels for {len(observed)} rows of data; give one for each row")
    if wrapped.classes is not None and (unknown := set(labels) - set(wrapped.classes)):
        raise InputError(f"unknown target {unknown.pop()!r}; the model has labels {list(wrapped.classes[:8])}")
    return np.array([_index(label, observed.shape[1], wrapped) for label in labels])


def _index(label: object, outputs: int, wrapped: Wrapped) -> int:
    if wrapped.classes is not None and label in wrapped.classes:
        return wrapped.classes.index(label)
    if isinstance(label, int | np.integer) and not isinstance(label, bool) and 0 <= label < outputs:
        return int(label)
    known = f"labels {list(wrapped.classes[:8])}" if wrapped.classes is not None else f"outputs 0 to {outputs - 1}"
    raise InputError(f"unknown target {label!r}; the model has {known}; or use 'predicted' or 'truth'")


def output_names(wrapped: Wrapped, outputs: int) -> tuple[Any, ...] | None:
    """What the outputs are called; None where there is only one."""
    if outputs == 1:
        return None
    if wrapped.classes is not None and len(wrapped.classes) != outputs:
        raise InputError(f"the model has {outputs} outputs but {len(wrapped.classes)} class names; give one for each")
    return wrapped.classes if wrapped.classes is not None else tuple(range(outputs))
