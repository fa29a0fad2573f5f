"""Files of a command line -> the rows to explain, block by block, and the rows of the reference."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from butfor.core.types import InputError
from butfor.tabular.block_files import read_blocks
from butfor.tabular.files import read_table
from butfor.tabular.read_columns import listed, typed
from butfor.tabular.rows import TableRequest, model_columns, named_rows, same_file
from butfor.tabular.where import evaluated, matches

if TYPE_CHECKING:
    import pandas as pd


def read_stream(request: TableRequest) -> tuple[Iterator[pd.DataFrame], pd.DataFrame]:
    """Blocks of the rows to explain and the whole reference, with the model's columns; the first block decides them."""
    if request.reference is None or same_file(request):
        raise InputError("--stream reads the data once; give the reference as a file of its own: --reference FILE")
    for option, given in (("--categories", request.categories), ("--truth", request.truth)):
        if given:
            raise InputError(f"{option} needs all rows at once, and --stream reads them in blocks; drop one of them")
    reference = read_table(request.reference, "reference")
    blocks = read_blocks(request.data, "data")
    head = next(blocks, None)
    if head is None:
        raise InputError(f"the data {request.data} has columns but no rows; give at least one row")
    dates = listed(request.dates, dict.fromkeys([*head.columns, *reference.columns]), "--dates: ")
    both = typed({"data": head, "reference": reference}, dates, [])
    reference = both["reference"]
    columns = model_columns(both["data"], reference, request)
    if request.reference_where is not None:
        reference = reference[matches(reference, request.reference_where, "--reference-where")]

    def picked() -> Iterator[pd.DataFrame]:
        for block in chain([head], blocks):
            frame = typed({"data": block}, dates, [])["data"]
            if request.data_where is not None:
                frame = frame[evaluated(frame, request.data_where, "--data-where")]
            yield named_rows(frame, request.index)[columns]

    return picked(), reference[columns]
