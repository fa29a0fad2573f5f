"""Options that several commands share, each with its help in this one place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from butfor import tabular
from butfor.cli.config import read_config
from butfor.core.types import Alternative

SAMPLERS: dict[str, Callable[[Any], Any]] = {
    "auto": tabular.auto,
    "gaussian": tabular.gaussian,
    "copula": tabular.copula,
    "forest": tabular.forest,
    "neighbours": tabular.neighbours,
    "empirical": tabular.empirical,
}
MODEL, ROWS, TEST = "The model", "Rows and columns", "The test"

Out = Annotated[Path, typer.Option(help="Folder to write into; it is made if need be.")]
Json = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON on standard output, and nothing else there.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar and no notes on standard error.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same result.")]
Config = Annotated[
    Path | None,
    typer.Option(
        help="TOML file with options of this command, reference-where = \"group == 'control'\" and so on; options "
        "on the command line win, paths in the file are relative to it.",
        callback=read_config,
        is_eager=True,
    ),
]

MODEL_HELP = (
    "file.onnx, file.skops, file.py:function (from a pandas DataFrame of the feature columns to one number per row or "
    "one column per output), an http(s) address of the Open Inference Protocol V2, or a .pkl, .pickle or .joblib file "
    "with --trust-pickle."
)
Model = Annotated[str, typer.Option(help=MODEL_HELP, rich_help_panel=MODEL)]
TrustPickle = Annotated[
    bool,
    typer.Option(
        "--trust-pickle",
        help="Load a pickled model. Unpickling runs code: only from people you trust.",
        rich_help_panel=MODEL,
    ),
]
Trust = Annotated[
    list[str] | None,
    typer.Option(help="A type in a .skops file that you know and trust; may be repeated.", rich_help_panel=MODEL),
]
BatchRows = Annotated[
    int | None,
    typer.Option(help="Rows the model gets at a time; sets the memory needed.", rich_help_panel=MODEL),
]

Data = Annotated[
    Path,
    typer.Option(
        help="CSV (UTF-8, one header line) or .parquet file with the rows to explain. Columns may hold numbers, yes "
        "and no, text and, in Parquet, times; some may be missing.",
        rich_help_panel=ROWS,
    ),
]
DataWhere = Annotated[
    str | None, typer.Option(help='Rows to explain, such as "age > 40 and `my column` != 0".', rich_help_panel=ROWS)
]
REFERENCE_HELP = "CSV or .parquet file with what you compare against: controls, the other class, last year."
Reference = Annotated[Path | None, typer.Option(help=REFERENCE_HELP, rich_help_panel=ROWS)]
ReferenceWhere = Annotated[
    str | None,
    typer.Option(
        help="Rows of the reference, such as \"diagnosis == 'benign'\". Without --reference it splits the data: "
        "the rows it matches are the reference, the others are explained.",
        rich_help_panel=ROWS,
    ),
]
Features = Annotated[
    list[str] | None,
    typer.Option(
        help="Columns for the model, in this order: a,b,c. Default: what it was fitted on, or all.",
        rich_help_panel=ROWS,
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(
        help="Columns that are not for the model: a,b,c. Text columns that are named in an expression which picks "
        "rows are left out anyway, numbers are not.",
        rich_help_panel=ROWS,
    ),
]
Dates = Annotated[
    list[str] | None,
    typer.Option(help="Text columns with dates to read as times: a,b. ISO 8601, 2024-02-29.", rich_help_panel=ROWS),
]
Categories = Annotated[
    list[str] | None,
    typer.Option(
        help="Columns to give the model as pandas categories: a,b. Default: text stays text.", rich_help_panel=ROWS
    ),
]
Index = Annotated[
    str | None,
    typer.Option(help="Column with the names of the rows; not for the model.", rich_help_panel=ROWS),
]
Subsets = Annotated[
    Path | None,
    typer.Option(
        help='JSON file with what to test: {"name": ["column", ...]} or a list. Default: each column.',
        rich_help_panel=ROWS,
    ),
]

Sampler = Annotated[
    str,
    typer.Option(
        help=f"How to redraw columns from the reference: {', '.join(SAMPLERS)} (samplers.md says which is for what).",
        rich_help_panel=TEST,
    ),
]
Alpha = Annotated[float | None, typer.Option(help="The level of the guarantee. Default: 0.1.", rich_help_panel=TEST)]
OneSided = Annotated[
    str | None, typer.Option("--alternative", help=f"One of {', '.join(get_args(Alternative))}.", rich_help_panel=TEST)
]
Link = Annotated[str | None, typer.Option(help="Scale of the effects: logit or log.", rich_help_panel=TEST)]
