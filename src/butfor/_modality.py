"""Which modality a user's inputs are of: tables are ours, images and texts have an edge of their own."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, Literal

import numpy as np

Modality = Literal["table", "image", "text"]


def modality(inputs: Any) -> Modality:
    """What `inputs` are, by their type and that of the first of them; a table where nothing else fits.

    Texts: a list, mapping, Series or array of strings. Images: a list or mapping of arrays of two dimensions and more,
    of Pillow images or of paths, one uint8 array of four dimensions, or what `butfor.image.folder` opens.

    >>> modality(["a fine film", "a dull one"]), modality([[1.0, 2.0]]), modality([np.zeros((8, 8, 3), np.uint8)])
    ('text', 'table', 'image')
    """
    if type(inputs).__module__.startswith("butfor.image"):
        return "image"
    if isinstance(inputs, np.ndarray):
        return "image" if inputs.ndim == 4 else "text" if inputs.ndim == 1 and _is_text(inputs[:1]) else "table"
    if hasattr(inputs, "iloc"):
        return "text" if getattr(inputs, "ndim", 2) == 1 and _is_text(inputs.iloc[:1]) else "table"
    if not isinstance(inputs, list | tuple | Mapping):
        return "table"
    first = list(islice(inputs.values() if isinstance(inputs, Mapping) else inputs, 1))
    if _is_text(first):
        return "text"
    return "image" if any(_is_image(one) for one in first) else "table"


def _is_text(some: Any) -> bool:
    return any(isinstance(one, str) for one in some)


def _is_image(one: Any) -> bool:
    if isinstance(one, np.ndarray):
        return one.ndim >= 2
    return hasattr(one, "__fspath__") or type(one).__module__.startswith("PIL.")
