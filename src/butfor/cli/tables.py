"""What the commands on tables share: the options of their models, rows and columns, and reading what those name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from butfor import explain as run
from butfor import tabular
from butfor.cli.options import (
    BATCH_ROWS_HELP,
    MODEL,
    ON_ERROR_HELP,
    ROWS,
    TEST,
    Output,
    Running,
    TestOptions,
    Trust,
    bar,
    command,
    finish,
    flag,
    given,
    kept,
    needed,
    option,
    panel,
    sourced,
    stopped_early,
    working,
    written,
)
from butfor.combine import combine as choose_over
from butfor.evaluation.samplers import Sampler
from butfor.inference.guarantees import P_RULES
from butfor.models import wrap
from butfor.report.write import REPORT, RESULT, TABLE, save_png, write_files
from butfor.settings import Procedure, few_shot, irt, sequential
from butfor.tabular.global_importance import global_importance
from butfor.types import InputError

if TYPE_CHECKING:
    from butfor.tabular.files import Tables


SAMPLERS: dict[str, Callable[[Any], Sampler]] = {
    "auto": tabular.auto,
    "residual": tabular.residual,
    "gaussian": tabular.gaussian,
    "copula": tabular.copula,
    "forest": tabular.forest,
    "neighbours": tabular.neighbours,
    "empirical": tabular.empirical,
}
SAMPLER_HELP = f"How to redraw columns from the reference: {', '.join(SAMPLERS)} (samplers.md says which is for what)."
SamplerName = Annotated[str, typer.Option(help=SAMPLER_HELP, rich_help_panel=TEST)]
MODEL_HELP = (
    "file.onnx, file.skops, file.py:function (from a pandas DataFrame of the feature columns to one number per row or "
    "one column per output), an http(s) address of the Open Inference Protocol V2, or a .pkl, .pickle or .joblib file "
    "with --trust-pickle."
)
REFERENCE_HELP = "CSV or .parquet file with what you compare against: controls, the other class, last year."


@panel(MODEL)
class TableModel:
    model: str = needed(MODEL_HELP)
    batch_rows: int | None = option(BATCH_ROWS_HELP)


@panel(ROWS)
class Rows:
    data: Path = needed(
        "CSV (UTF-8, one header line) or .parquet file with the rows to explain. Columns may hold numbers, yes and "
        "no, text and, in Parquet, times; some may be missing."
    )
    reference: Path | None = option(REFERENCE_HELP)
    reference_where: str | None = option(
        "Rows of the reference, such as \"diagnosis == 'benign'\". Without --reference it splits the data: the rows "
        "it matches are the reference, the others are explained."
    )
    data_where: str | None = option('Rows to explain, such as "age > 40 and `my column` != 0".')


@panel(ROWS)
class TableColumns:
    features: list[str] | None = option(
        "Columns for the model, in this order: a,b,c. Default: what it was fitted on, or all."
    )
    drop: list[str] | None = option(
        "Columns that are not for the model: a,b,c. Text columns that are named in an expression which picks rows are "
        "left out anyway, numbers are not."
    )
    dates: list[str] | None = option("Text columns with dates to read as times: a,b. ISO 8601, 2024-02-29.")
    categories: list[str] | None = option(
        "Columns to give the model as pandas categories: a,b. Default: text stays text."
    )
    index: str | None = option("Column with the names of the rows; not for the model.")
    subsets: Path | None = option(
        "What to test: zoom (from all columns over groups down to single ones: the default), columns (each by itself), "
        'or a JSON file: {"name": ["column", ...]}, a mapping of such mappings, or a list.'
    )

    def groups(self) -> str | dict[str, Any] | list[Any] | None:
        """What is to be tested, a word or what the file says; None: what suits the sampler."""
        from butfor.tabular.files import read_subsets

        if self.subsets is None or self.subsets.name in ("zoom", "columns"):
            return None if self.subsets is None else self.subsets.name
        return read_subsets(self.subsets)


def sampler_named(name: str) -> Callable[[Any], Sampler]:
    if name not in SAMPLERS:
        raise InputError(f"--sampler must be one of {', '.join(SAMPLERS)}, got {name!r}")
    return SAMPLERS[name]


def tables(columns: TableColumns, model: object, **rows: object) -> Tables:
    """The rows to explain and those of the reference, with the columns for the model, which may know them itself."""
    from butfor.tabular.files import TableRequest, read_tables

    known = None if model is None else wrap(model).columns
    named = {name: value for name, value in vars(columns).items() if name != "subsets"}
    return read_tables(TableRequest(**given(**named, **rows, known=None if known is None else list(map(str, known)))))


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
) -> None:
    """Test the features of every row of a table; write result.butfor, table.csv and report.html."""
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
                reference=make(read.reference),
                y=None if read.truth is None else np.asarray(read.truth),
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


def combine(
    files: Annotated[list[Path], typer.Argument(help="Files written by result.save, or folders with result.butfor.")],
    out: Annotated[Path, typer.Option(help="Table of what is chosen, .csv or .parquet.")],
    alpha: Annotated[float, typer.Option(help="Error rate over all files together.")] = 0.1,
    rule: Annotated[str | None, typer.Option(help="As in explain. Default: that of the runs.")] = None,
) -> None:
    """Choose over the results of many runs at once: chunks of a large table, jobs of a cluster."""
    combined = choose_over([file / RESULT if file.is_dir() else file for file in files], alpha, rule)
    written = combined.write(out)
    typer.echo(f"{combined.summary()}\n\nTable: {written}")
