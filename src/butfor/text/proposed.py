"""Texts and what proposes spans -> the subsets of each text; what cannot be used is left out or raised."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from butfor.run.settings import proposals
from butfor.core.types import InputError, Subset
from butfor.text.edit import span_of
from butfor.text.opened import Opened, TextWarning
from butfor.text.subsets import Subsets, unique
from butfor.text.words import sentences, words

OnError = Literal["raise", "skip"]
Unfit = Callable[[str], str | None]  # why a model or a sampler cannot take a text, in words
MOST_NAMED = 5  # texts in one sentence


@dataclass(frozen=True)
class Proposed:
    """The texts that have something to test, their subsets, and sentences on the others."""

    names: tuple[Any, ...]
    texts: tuple[str, ...]
    subsets: tuple[tuple[Subset, ...], ...]
    notes: tuple[str, ...]


def as_subsets(units: Any, tokenizer: Any = None) -> Subsets:
    """What a user may call units -> a function (name, text) -> subsets.

    >>> [subset.name for subset in as_subsets("word")("review", "Good film.")]
    ['Good', 'film']
    """
    from butfor.text.phrases import phrases
    from butfor.text.spans import spans
    from butfor.text.wordpieces import wordpieces

    plain: dict[str, Callable[[], Subsets]] = {"word": words, "sentence": sentences, "phrase": phrases}
    if isinstance(units, str) and units in plain:
        return plain[units]()
    if isinstance(units, str) and units == "wordpiece":
        return wordpieces(tokenizer)
    if callable(units):
        return units  # type: ignore[no-any-return]
    if isinstance(units, str) and not Path(units).is_file():
        raise InputError(f"units is {units!r}, neither a file nor one of {', '.join(plain)}, wordpiece")
    return spans(units)


def proposed(texts: Opened, subsets: Subsets, on_error: OnError, unfit: Sequence[Unfit] = ()) -> Proposed:
    """Look at every text once. `on_error="skip"` leaves out those that cannot be used."""
    names: list[Any] = []
    kept: list[str] = []
    found: list[tuple[Subset, ...]] = []
    failed: dict[str, str] = {}
    empty: list[str] = []
    for place, name in enumerate(texts.names):
        try:
            text = texts.text(place)
            own = tuple(unique(proposals("units", subsets, name, text)))
            _check(name, text, own, unfit)
        except InputError as error:
            if on_error == "raise":
                raise
            failed[str(name)] = str(error)
            continue
        if own:
            names.append(name)
            kept.append(text)
            found.append(own)
        else:
            empty.append(str(name))
    notes = [*_skipped(failed), *_without(empty)]
    if not kept:
        raise InputError(f"no text is left to test; {notes[0] if notes else 'give at least one'}")
    for note in notes:
        warnings.warn(note, TextWarning, stacklevel=3)
    return Proposed(tuple(names), tuple(kept), tuple(found), tuple(notes))


def _check(name: Any, text: str, own: Sequence[Subset], unfit: Sequence[Unfit]) -> None:
    for subset in own:
        try:
            span_of(text, subset)
        except InputError as error:
            raise InputError(f"text {name!r}: {error}") from error
    for reason in (judge(text) for judge in unfit if own):
        if reason is not None:
            raise InputError(f"text {name!r} cannot be tested: {reason}")


def _skipped(failed: Mapping[str, str]) -> list[str]:
    if not failed:
        return []
    said = [f"{name!r} ({why})" for name, why in list(failed.items())[:MOST_NAMED]]
    more = f"; and {len(failed) - MOST_NAMED} more" if len(failed) > MOST_NAMED else ""
    return [f"{len(failed)} {_texts(len(failed))} skipped: {'; '.join(said)}{more}."]


def _without(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    some = ", ".join(map(repr, names[:MOST_NAMED]))
    return [f"{len(names)} {_texts(len(names))} left out, having nothing to test: {some}{more}."]


def _texts(count: int) -> str:
    return "text was" if count == 1 else "texts were"
