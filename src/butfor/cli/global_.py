"""`butfor global`: one decision per feature over all rows of a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from butfor.cli.common import bar, finish, sourced, working
from butfor.cli.options import ROWS, TEST, Output, TestOptions, Trust, given
from butfor.cli.panels import command
from butfor.cli.resuming import ON_ERROR_HELP, Running, kept
from butfor.cli.tables import Rows, SamplerName, TableColumns, TableModel, sampler_named, tables
from butfor.core.select.guarantees import P_RULES
from butfor.report.folder import REPORT, RESULT, TABLE, write_files
from butfor.report.picture import save_png
from butfor.tabular.global_importance import global_importance

IMPORTANCE = "importance.png"
LABELS_HELP = (
    "Column with the true labels of rows that the model was not fitted on: asks which features its skill rests on. The "
    "reference is then the population of the data (default: the data itself). Without labels: which features set the "
    "data apart from the reference."
)
LOSS_HELP = "With --labels: squared or log. Default: log for several outputs, else squared."
PASSES_HELP = "Recombinations of them, which cost no model rows. Default: 999."


@command(
    without=("index", "test", "family"),
    rule=f"One of {', '.join(P_RULES)}.",
    target="Without --labels, which output: its label or number, or predicted.",
    draws="Counterfactuals of each row. Default: 20.",
)
def global_(
    *,
    model: TableModel,
    trust: Trust,
    rows: Rows,
    labels: Annotated[str | None, typer.Option("--labels", "--truth", help=LABELS_HELP, rich_help_panel=ROWS)] = None,
    columns: TableColumns,
    sampler: SamplerName = "auto",
    loss: Annotated[str | None, typer.Option(help=LOSS_HELP, rich_help_panel=TEST)] = None,
    tests: TestOptions,
    passes: Annotated[int | None, typer.Option(help=PASSES_HELP, rich_help_panel=TEST)] = None,
    output: Output,
    running: Running,
    on_error: Annotated[str, typer.Option(help=ON_ERROR_HELP)] = "raise",
) -> None:
    """Test every feature once, over all rows together; write a report, a picture, the table and the result."""
    with working(output):
        make, box = sampler_named(sampler), trust.load(model.model)
        read = tables(columns, box, **vars(rows), truth=labels, truth_option="--labels", itself=labels is not None)
        with kept(running.run_dir, output.out) as run_dir:
            result = global_importance(
                box,
                read.data,
                make(read.reference),
                None if read.truth is None else np.asarray(read.truth),
                subsets=columns.groups(),
                seed=output.seed,
                batch_rows=model.batch_rows,
                run_dir=run_dir,
                workers=running.workers,
                timeout=running.timeout,
                on_error=on_error,
                progress=bar(output),
                **given(loss=loss, passes=passes),
                **tests.settings(box),
            )
            result = sourced(result, model=model.model, **read.sources)
            files: dict[str, Callable[[Path], object]] = {
                RESULT: result.save,
                TABLE: lambda path: result.table.to_csv(path, index=False),
                REPORT: result.report,
                IMPORTANCE: lambda path: save_png(result.plot, path, len(result.chosen)),
            }
            write_files(files, output.out)
    finish(
        output,
        result.summary,
        result.to_json,
        {"Report": REPORT, "Picture": IMPORTANCE, "Table": TABLE, "Result": RESULT},
    )
