"""`butfor explain --stream`: a table that does not fit into memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from butfor.cli.common import bar, finish, working
from butfor.cli.options import Output, TestOptions, Trust
from butfor.cli.tables import Rows, TableColumns, TableModel, sampler_named, table_request
from butfor.core.types import InputError

STREAM_HELP = (
    "Read the data in blocks, for files larger than memory: single columns, --test sequential, irt or osft; writes "
    "table.parquet (table.csv without pyarrow) and nothing else. --reference must be a file of its own."
)


def explain_in_blocks(
    model: TableModel,
    trust: Trust,
    rows: Rows,
    columns: TableColumns,
    sampler: str,
    test: Mapping[str, Any],
    tests: TestOptions,
    output: Output,
    labels: str | None,
) -> None:
    """Test block by block, choose over the whole file, write one table."""
    from butfor.tabular.block_files import usual_ending
    from butfor.tabular.stream import OPTIONS, explain_stream
    from butfor.tabular.stream_rows import read_stream

    if labels is not None:
        raise InputError("--truth and --clusters need all rows at once; drop them, or drop --stream")
    with working(output):
        make, box = sampler_named(sampler), trust.load(model.model)
        settings = {**tests.settings(box), **test}
        if unknown := [name for name in settings if name not in OPTIONS]:
            raise InputError(f"--{unknown[0].replace('_', '-')} does not go with --stream; drop one of them")
        data, reference = read_stream(table_request(columns, box, **vars(rows)))
        table = f"table{usual_ending()}"
        made = _folder(output.out)
        try:
            found = explain_stream(
                box,
                data,
                make(reference),
                out=output.out / table,
                subsets=columns.groups(),
                seed=output.seed,
                batch_rows=model.batch_rows,
                progress=bar(output),
                **settings,
            )
        except BaseException:
            if made and not any(output.out.iterdir()):
                output.out.rmdir()
            raise
    finish(output, found.summary, found.to_json, {"Table": table})


def _folder(out: Path) -> bool:
    """Make the folder; whether it was not there."""
    made = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    return made
