"""The words that every stage shares: subset, model, errors, arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
Rule = Literal["bh", "by", "holm", "bonferroni", "e-bh", "knockoff+", "seqstep"]
Family = Literal["run", "input"]
Model = Callable[[Batch], Any]  # a batch of n inputs -> array (n,) or (n, outputs)


class InputError(ValueError):
    """Something the user gave cannot be used; the message says what came, what was expected and what to do."""


class ModelError(InputError):
    """The model or the sampler raised, or returned something that is not one finite number per row and output."""


class ReachWarning(UserWarning):
    """The run as asked for cannot report some signals, however strong they are."""


@dataclass(frozen=True)
class Subset:
    """One thing to test. `index` is opaque to the core: columns of a table, a box of an image, a span of a text.

    Parameters
    ----------
    name : what the subset is called in tables and reports.
    index : column positions, a box (x1, y1, x2, y2) or boolean mask, or a span (start, end) of characters.
    """

    name: str
    index: Any
