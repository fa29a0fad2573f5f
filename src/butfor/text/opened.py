"""What a user calls texts -> texts with a name for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from butfor.core.types import InputError


class TextWarning(UserWarning):
    """Something about the texts that were given should be known: one was left out, say."""


@dataclass(frozen=True, eq=False)
class Opened:
    """Texts by name. Made by `opened`. What is no text stands there as it came; `text` says so when it is asked for."""

    names: tuple[Any, ...]
    values: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.values)

    def text(self, place: int) -> str:
        value = self.values[place]
        if isinstance(value, str):
            return str(value)
        missing = value is None or (isinstance(value, float) and np.isnan(value))
        what = "missing" if missing else f"of type {type(value).__name__}"
        raise InputError(f"text {self.names[place]!r} is {what}, expected a string; leave it out, or on_error='skip'")


def opened(texts: Any) -> Opened:
    """Texts from a list of strings, a mapping name -> text, a pandas Series, or a `Path` to a file or folder of them.

    Texts of a list are called "text 1", "text 2" and so on, those of a Series by its index.

    >>> opened(["Good.", "Bad."]).names
    ('text 1', 'text 2')
    """
    if isinstance(texts, Opened):
        return texts
    if isinstance(texts, str):
        raise InputError("texts is one string; give a list: [text], or for a file butfor.text.read_texts(path)")
    if isinstance(texts, Path):
        from butfor.text.files import read_texts

        texts = read_texts(texts)
    if isinstance(texts, Mapping):
        found = Opened(tuple(map(_name, texts)), tuple(texts.values()))
    elif hasattr(texts, "index") and hasattr(texts, "to_numpy"):
        if getattr(texts, "ndim", 1) != 1:
            raise InputError("texts is a table; give one of its columns: frame['text']")
        found = Opened(tuple(map(_name, texts.index)), tuple(texts.tolist()))
    else:
        values = _listed(texts)
        found = Opened(tuple(f"text {number}" for number in range(1, len(values) + 1)), values)
    if not found.names:
        raise InputError("there are no texts; give at least one")
    _check_names(found.names)
    return found


def _listed(texts: Any) -> tuple[Any, ...]:
    if not isinstance(texts, Iterable) or isinstance(texts, bytes):
        raise InputError(
            f"texts must be a list of strings, a mapping name -> text or a Series, got {type(texts).__name__}"
        )
    return tuple(texts)


def _name(name: Any) -> Any:
    if isinstance(name, np.integer):
        return int(name)
    return name if isinstance(name, int) and not isinstance(name, bool) else str(name)


def _check_names(names: tuple[Any, ...]) -> None:
    if len(set(names)) < len(names):
        seen: set[Any] = set()
        twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise InputError(f"two texts are called {twice!r}; names must differ (reset_index gives a Series new ones)")
