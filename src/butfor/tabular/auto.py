"""The sampler for whoever names none."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

from butfor.core.draw.content import digest
from butfor.tabular.residual import residual
from butfor.tabular.splice import TableSampler
from butfor.tabular.table import as_frame, as_table

MOST_HELD = 4  # samplers of this process that are kept for the same reference
_held: OrderedDict[bytes, TableSampler] = OrderedDict()


def auto(reference: object, *, seed: int = 0) -> TableSampler:
    """The sampler that `butfor.explain` makes of reference data: `residual`, fitted once for the same data.

    It is fitted as it is used, subset by subset, and kept: a second call with the same reference, in this process, has
    its fits already. Give a sampler of your own choice, and check it with `butfor.check_sampler`, where much depends on
    it; every run shows what the same test says of rows of the reference's own kind (`result.control`).

    Parameters
    ----------
    reference : rows as they look when there is nothing to report.
    seed : picks the rows of a large reference on which choices are made.

    Examples
    --------
    >>> import numpy as np
    >>> auto(np.random.default_rng(0).normal(size=(100, 2)))
    residual(100 reference rows, 2 columns)
    """
    data = as_frame(reference, "reference")
    table = as_table(data, "reference")
    about = repr((table.columns, [column.metadata() for column in table.kinds], table.labels is None, seed))
    key = digest({"values": table.values, "about": about})
    if key not in _held:
        why = "auto takes residual: its draws scatter as reference rows do that the fit has not seen."
        _held[key] = replace(residual(data, seed=seed), why=why)
    _held.move_to_end(key)
    while len(_held) > MOST_HELD:
        _held.popitem(last=False)
    return _held[key]
