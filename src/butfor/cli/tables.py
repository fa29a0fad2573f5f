"""What the commands on tables share: the options of their models, rows and columns, and reading what those name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from butfor import tabular
from butfor.cli.options import BATCH_ROWS_HELP, MODEL, ROWS, TEST, given
from butfor.cli.panels import needed, option, panel
from butfor.core.draw.samplers import Sampler
from butfor.core.types import InputError
from butfor.models import wrap

if TYPE_CHECKING:
    from butfor.tabular.rows import TableRequest, Tables

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
    from butfor.tabular.rows import read_tables

    return read_tables(table_request(columns, model, **rows))


def table_request(columns: TableColumns, model: object, **rows: object) -> TableRequest:
    """What was said of rows and columns, on the command line and by the model."""
    from butfor.tabular.rows import TableRequest

    known = None if model is None else wrap(model).columns
    named = {name: value for name, value in vars(columns).items() if name != "subsets"}
    return TableRequest(**given(**named, **rows, known=None if known is None else list(map(str, known))))
