"""A user's own sampler of texts, looked at: strings, in which nothing but the span is new."""

from __future__ import annotations

from typing import Any

from butfor.core.types import ModelError, Subset


def check_drawn(text: str, drawn: Any, subset: Subset) -> None:
    """Refuse a counterfactual that is not the text with another span.

    >>> check_drawn("a good film", "a bad film", Subset("good", (2, 6)))
    >>> check_drawn("a good film", "a bad movie", Subset("good", (2, 6)))
    Traceback (most recent call last):
    butfor.core.types.ModelError: the sampler changed the text outside subset 'good'; only text[2:6] may change
    """
    if not isinstance(drawn, str):
        what = type(drawn).__name__
        raise ModelError(f"the sampler returned {what} for subset {subset.name!r}; expected whole texts")
    start, end = subset.index
    before, after = text[:start], text[end:]
    if not (drawn.startswith(before) and drawn.endswith(after) and len(drawn) >= len(before) + len(after)):
        raise ModelError(
            f"the sampler changed the text outside subset {subset.name!r}; only text[{start}:{end}] may change"
        )
