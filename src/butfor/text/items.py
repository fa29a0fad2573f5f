"""What a user calls texts and units -> texts with a name for each, and what proposes spans of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from butfor.core.draw.layers import ProposesTree
from butfor.core.draw.proposers import Proposer
from butfor.core.types import InputError
from butfor.models.rows import is_frame, is_series
from butfor.text.files import UnreadableFile, load_texts
from butfor.text.phrases import phrases
from butfor.text.spans import spans
from butfor.text.words import sentences, wordpieces, words
from butfor.text.zoom import zoom

PLAIN: dict[str, Callable[[], Proposer]] = {"word": words, "sentence": sentences, "phrase": phrases}


class TextWarning(UserWarning):
    """Something about the texts that were given should be known: one was left out, say."""


def named_sources(texts: Any) -> tuple[tuple[int | str, ...], tuple[object, ...]]:
    """Names and texts, from a list of strings, a mapping name -> text, a pandas Series, or a `Path` to files of them.

    Texts of a list are called "text 1", "text 2" and so on, those of a Series by its index.

    >>> named_sources(["Good.", "Bad."])
    (('text 1', 'text 2'), ('Good.', 'Bad.'))
    """
    if isinstance(texts, Path):
        texts = load_texts(texts)
    if isinstance(texts, str):
        raise InputError("texts is one string; give a list: [text], or for a file butfor.text.read_texts(path)")
    if isinstance(texts, Mapping):
        return tuple(map(_name, texts)), tuple(texts.values())
    if is_frame(texts):
        raise InputError("texts is a table; give one of its columns: frame['text']")
    if is_series(texts):
        return tuple(map(_name, texts.index)), tuple(texts.tolist())
    if not isinstance(texts, Iterable) or isinstance(texts, bytes):
        raise InputError(
            f"texts must be a list of strings, a mapping name -> text or a Series, got {type(texts).__name__}"
        )
    values = tuple(texts)
    return tuple(f"text {number}" for number in range(1, len(values) + 1)), values


def _name(name: object) -> int | str:
    if isinstance(name, np.integer):
        return int(name)
    return name if isinstance(name, int) and not isinstance(name, bool) else str(name)


def as_text(name: object, source: object) -> str:
    """The text itself, after seeing that it is one."""
    if isinstance(source, str):
        return str(source)
    if isinstance(source, UnreadableFile):
        raise InputError(source.why)
    missing = source is None or (isinstance(source, float) and np.isnan(source))
    what = "missing" if missing else f"of type {type(source).__name__}"
    raise InputError(f"text {name!r} is {what}, expected a string; leave it out, or on_error='skip'")


def is_zoom(units: object) -> bool:
    """Whether it goes from coarse to fine."""
    return isinstance(units, ProposesTree) or (isinstance(units, str) and units == "zoom")


def as_proposer(units: Any, tokenizer: object = None, *, whole: bool = False) -> Proposer:
    """What proposes spans; the tokenizer is that of the sampler, for "wordpiece".

    "zoom" begins with the whole text where the sampler can redraw the `whole`.

    >>> [subset.name for subset in as_proposer("word")("review", "Good film.")]
    ['Good', 'film']
    """
    if isinstance(units, str) and units in PLAIN:
        return PLAIN[units]()
    if isinstance(units, str) and units == "wordpiece":
        return wordpieces(tokenizer)
    if isinstance(units, str) and units == "zoom":
        return zoom(whole=whole)
    if callable(units):
        return units  # type: ignore[no-any-return]
    if isinstance(units, str) and not Path(units).is_file():
        raise InputError(f"units is {units!r}, neither a file nor one of {', '.join(PLAIN)}, wordpiece, zoom")
    return spans(units)
