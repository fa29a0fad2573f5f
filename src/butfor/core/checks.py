"""Arguments of public functions, checked one by one: what came, what was expected, what to do."""

from __future__ import annotations

from typing import Any

import numpy as np

from butfor.core.types import InputError


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
