"""`butfor explain`: every row of a file, every feature."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from butfor import explain as run
from butfor.cli.common import bar, finish, working, written
from butfor.cli.config import ADDRESS
from butfor.cli.in_blocks import STREAM_HELP, explain_in_blocks
from butfor.cli.options import ROWS, TEST, Output, TestOptions, Trust
from butfor.cli.panels import command, flag, option, panel
from butfor.cli.tables import Rows, SamplerName, TableColumns, TableModel, sampler_named, tables
from butfor.core.types import InputError
from butfor.engine.journal import ANSWERS, RUN
from butfor.models import ModelUnreachable
from butfor.run.procedure import Procedure, few_shot, irt, sequential

TRUTH_HELP = "Column with the true labels, for --target truth; not for the model."
CLUSTERS_HELP = "Column whose equal values mark rows that belong together, as several of one person; not for the model."
RUN_DIR_HELP = (
    "Folder that keeps the model's answers until the run is done, so that the same command goes on where it was cut "
    "short. Default: none, or OUT/run for a model at an http(s) address."
)
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
    run_dir: Annotated[Path | None, typer.Option(help=RUN_DIR_HELP)] = None,
    stream: Annotated[bool, typer.Option("--stream", help=STREAM_HELP)] = False,
) -> None:
    """Test the features of every row of a table; write result.butfor, table.csv and report.html."""
    if stream:
        explain_in_blocks(model, trust, rows, columns, sampler, own.of(tests.test), tests, output, truth or clusters)
        return
    if tests.target == "truth" and truth is None:
        raise InputError("--target truth needs the true labels; name their column with --truth")
    if run_dir is None and model.model.lower().startswith(ADDRESS):
        run_dir = output.out / "run"
    test = own.of(tests.test)
    with working(output):
        make, box = sampler_named(sampler), trust.load(model.model)
        read = tables(columns, box, **vars(rows), truth=truth, clusters=clusters)
        settings = {"target": None if truth is None else "truth", **tests.settings(box), **test}
        groups = columns.groups()
        with _kept(run_dir, output.out):
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
                progress=bar(output),
                **settings,
            )
        result = written(result, output, model=model.model, **read.sources)
    finish(output, result.summary, result.to_json)


@contextmanager
def _kept(run_dir: Path | None, out: Path) -> Iterator[None]:
    """Say where the answers are when the model cannot be asked any more; leave no folder in which there are none."""
    if run_dir is None:
        yield
        return
    missing = [folder for folder in (run_dir, out) if not folder.exists()]
    try:
        yield
    except BaseException as error:
        answers = run_dir / ANSWERS
        if answers.exists() and answers.stat().st_size:
            if not isinstance(error, ModelUnreachable):
                raise
            again = "run the same command again to go on from there"
            raise InputError(f"{error}; what it answered is kept in {run_dir}: {again}") from error
        if run_dir in missing and run_dir.is_dir():
            answers.unlink(missing_ok=True)
            (run_dir / RUN).unlink(missing_ok=True)
        for folder in missing:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
        raise
