"""The types that every stage shares: subset, model, errors, arrays; checks of arguments."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Array = np.ndarray[Any, Any]  # of any shape and type
Batch = Any  # an array (n, width), a frame, or a list of n images or texts
Item = Any  # one input: a row, an image, a text, or a mapping of such parts

Alternative = Literal["greater", "less", "two-sided"]
Family = Literal["run", "input"]
Model = Callable[[Batch], Any]  # a batch of n inputs -> array (n,) or (n, outputs)


class InputError(ValueError):
    """Something the user gave cannot be used; the message says what came, what was expected and what to do."""


class ModelError(InputError):
    """The model or the sampler raised, or returned something that is not one finite number per row and output."""


class ModelUnreachable(ModelError):
    """The server of a model did not answer for as long as was waited for it."""


class ReachWarning(UserWarning):
    """The run as asked for cannot report some signals, however strong they are."""


@dataclass(frozen=True)
class Subset:
    """One thing to test. `index` is opaque to the core: columns of a table, a box of an image, a span of a text.

    Parameters
    ----------
    name : what the subset is called in tables and reports.
    index : column positions, a box (x1, y1, x2, y2) or boolean mask, or a span (start, end) of characters.
    key : what its random numbers are drawn by; its name where none is given.
    """

    name: str
    index: Any
    key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", self.key or self.name)


def one_of(name: str, value: object, allowed: tuple[Any, ...]) -> None:
    """Refuse a value that is not among those allowed."""
    if not any(value is item or (isinstance(value, str) and value == item) for item in allowed):
        raise InputError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


def whole(name: str, value: object, least: int) -> int:
    """A whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)


def between(name: str, value: object, hint: str) -> float:
    """A number strictly between 0 and 1."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not 0 < float(value) < 1:  # type: ignore[arg-type]
        raise InputError(f"{name} must lie strictly between 0 and 1, got {value!r}; {hint}")
    return float(value)  # type: ignore[arg-type]


def labels_of(name: str, given: object, each: str) -> list[Any]:
    """One label for each of something, as a list; `each` says of what.

    >>> labels_of("groups", np.array(["a", "b", "a"]), "input")
    ['a', 'b', 'a']
    """
    labels = np.asarray(given, dtype=object)
    if labels.ndim != 1:
        came = f"an array of shape {labels.shape}" if labels.ndim else repr(given)
        raise InputError(f"{name} must be one label for each {each}, got {came:.100}; give a list of labels")
    for label in labels.tolist():
        try:
            hash(label)
        except TypeError as error:
            raise InputError(
                f"a label of {name} is {label!r:.60}; give a number or a string for each {each}"
            ) from error
    return list(labels.tolist())


@contextmanager
def reworded(
    words: str,
    kinds: type[BaseException] | tuple[type[BaseException], ...] = Exception,
    *,
    by: type[InputError] = InputError,
    named: bool = False,
    advice: str = "",
) -> Iterator[None]:
    """Raise errors of these kinds as ours, in one line: words, the type where `named`, message, advice; not ours again.

    >>> with reworded("the file is no number: ", ValueError, advice="; write one"):
    ...     int("x")
    Traceback (most recent call last):
    butfor.types.InputError: the file is no number: invalid literal for int() with base 10: 'x'; write one
    """
    try:
        yield
    except kinds as error:
        if isinstance(error, by):
            raise
        kind, why = f"{type(error).__name__}: " if named else "", " ".join(str(error).split())[:300]
        raise by(f"{words}{kind}{why}{advice}") from error


def warn_user(message: str, category: type[UserWarning]) -> None:
    """A warning that points at the first line that is not ours."""
    outer = traceback.walk_stack(sys._getframe(1))
    names = [str(frame.f_globals.get("__name__", "")) for frame, _ in outer]
    level = next((k for k, name in enumerate(names, 2) if not name.startswith("butfor.")), 2)
    warnings.warn(message, category, stacklevel=level)
