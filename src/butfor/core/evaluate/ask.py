"""One call of the model, and checks of what comes back."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

import numpy as np

from butfor.core.types import Array, Batch, InputError, Model, ModelError


def ask(model: Model, batch: Batch, rows: int, describe: Callable[[int], str], *, find_bad: bool = True) -> Array:
    """What the model returns for a batch, (rows,) or (rows, outputs), checked; `describe` names a row in an error."""
    try:
        outputs = np.asarray(model(batch))
    except InputError:
        raise  # it says already what is the matter, and asking again row by row would not help
    except (Exception, SystemExit) as error:  # a model that calls sys.exit must not end the run in silence
        if not find_bad and isinstance(error, SystemExit):
            raise ModelError(f"the model raised SystemExit: {error}") from error
        if not find_bad:
            raise
        row = None if isinstance(error, TimeoutError) else _first_bad_row(model, batch, rows)
        if row is not None:
            raise ModelError(f"the model raised {type(error).__name__} on {describe(row)}: {error}") from error
        raise ModelError(
            f"the model raised {type(error).__name__} on a batch of {rows} rows, though not on parts of it: {error}; a "
            "smaller batch_rows may help"
        ) from error
    if outputs.ndim not in (1, 2) or len(outputs) != rows or outputs.size == 0:
        expected = f"({rows},) or ({rows}, outputs)"
        raise ModelError(f"the model returned shape {outputs.shape} for {rows} rows; expected {expected}")
    if outputs.dtype.kind not in "fiub":
        first = outputs.flat[:1].tolist()[0]
        rather = ": give a classifier itself, or its predict_proba" if isinstance(first, str) else ""
        raise ModelError(
            f"the model returned values such as {first!r} ({outputs.dtype}); expected an array of numbers{rather}"
        )
    flat = outputs.ravel()
    if not isfinite(flat.dot(flat)) and not np.isfinite(flat).all():  # the squares are the quick look
        bad = ~np.isfinite(outputs)
        row = int(np.argwhere(bad)[0, 0])
        raise ModelError(f"the model returned {outputs[bad][0]} on {describe(row)}; expected a finite number")
    return outputs


def _first_bad_row(model: Model, batch: Batch, rows: int) -> int | None:
    """The first row that makes the model fail, by halves; None where it fails on neither half alone."""

    def fails(start: int, stop: int) -> bool:
        try:
            model(batch.iloc[start:stop] if hasattr(batch, "iloc") else batch[start:stop])
        except (Exception, SystemExit):  # any error of the user's model
            return True
        return False

    start, stop = 0, rows
    while stop - start > 1:
        middle = (start + stop) // 2
        if fails(start, middle):
            stop = middle
        elif fails(middle, stop):
            start = middle
        else:
            return None
    return start
