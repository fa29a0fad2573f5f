"""`butfor explain`: every row of a file, every feature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from butfor import explain as run
from butfor.cli.common import bar, finish, stopped_early, working, written
from butfor.cli.in_blocks import STREAM_HELP, explain_in_blocks
from butfor.cli.options import ROWS, TEST, Output, TestOptions, Trust
from butfor.cli.panels import command, flag, option, panel
from butfor.cli.resuming import ON_ERROR_HELP, Running, kept
from butfor.cli.tables import Rows, SamplerName, TableColumns, TableModel, sampler_named, tables
from butfor.core.types import InputError
from butfor.run.procedure import Procedure, few_shot, irt, sequential

TRUTH_HELP = "Column with the true labels, for --target truth; not for the model."
CLUSTERS_HELP = "Column whose equal values mark rows that belong together, as several of one person; not for the model."
OWNERS: dict[str, Callable[..., Procedure]] = {"h": sequential, "early_stop": irt, "scale": few_shot}


@panel(TEST)
class OneTest:
    h: int | None = option("Exceedances at which the sequential test stops. Default: 10.")
    early_stop: bool = flag("With --test irt: the same answer for fewer rows.")
    scale: str | None = option("shrunk: for --test few-shot where subsets differ in scale.")

    def of(self, test: str | None) -> dict[str, Procedure]:
        """The test as an object, where there is an option of its own; nothing where its name says it all."""
        made, name = {}, test or "sequential"
        for typed, value in vars(self).items():
            if value is None or value is False:
                continue
            own = OWNERS[typed](**{typed: value})
            if own.name != name:
                raise InputError(f"--{typed.replace('_', '-')} is for --test {own.name}, not for {name}; drop it")
            made["test"] = own
        return made


@command()
def explain(
    *,
    model: TableModel,
    trust: Trust,
    rows: Rows,
    columns: TableColumns,
    truth: Annotated[str | None, typer.Option(help=TRUTH_HELP, rich_help_panel=ROWS)] = None,
    clusters: Annotated[str | None, typer.Option(help=CLUSTERS_HELP, rich_help_panel=ROWS)] = None,
    sampler: SamplerName = "auto",
    tests: TestOptions,
    own: OneTest,
    output: Output,
    running: Running,
    on_error: Annotated[str, typer.Option(help=ON_ERROR_HELP)] = "raise",
    stream: Annotated[bool, typer.Option("--stream", help=STREAM_HELP)] = False,
) -> None:
    """Test the features of every row of a table; write result.butfor, table.csv and report.html."""
    if stream:
        explain_in_blocks(model, trust, rows, columns, sampler, own.of(tests.test), tests, output, truth or clusters)
        return
    if tests.target == "truth" and truth is None:
        raise InputError("--target truth needs the true labels; name their column with --truth")
    test = own.of(tests.test)
    with working(output):
        make, box = sampler_named(sampler), trust.load(model.model)
        read = tables(columns, box, **vars(rows), truth=truth, clusters=clusters)
        settings = {"target": None if truth is None else "truth", **tests.settings(box), **test}
        groups = columns.groups()
        with kept(running.run_dir, output.out) as run_dir:
            result = run(
                box,
                read.data,
                make(read.reference),
                subsets=groups,
                y=read.truth,
                groups=read.clusters,
                seed=output.seed,
                batch_rows=model.batch_rows,
                run_dir=run_dir,
                workers=running.workers,
                timeout=running.timeout,
                on_error=on_error,
                progress=bar(output),
                **settings,
            )
            result = written(result, output, model=model.model, **read.sources)
    finish(output, result.summary, result.to_json)
    stopped_early(result, output)
