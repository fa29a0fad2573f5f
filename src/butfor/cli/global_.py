"""`butfor global`: one decision per feature over all rows of a file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from butfor.tabular.global_importance import global_importance
from butfor.cli import options as o
from butfor.cli.common import bar, given, loaded, notes, print_written, sampler_named, save_png, target_of
from butfor.core.select.guarantees import P_RULES

IMPORTANCE = "importance.png"


def global_(
    model: o.Model,
    data: o.Data,
    out: o.Out,
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels",
            "--truth",
            help="Column with the true labels of rows that the model was not fitted on: asks which features its skill "
            "rests on. The reference is then the population of the data (default: the data itself). Without labels: "
            "which features set the data apart from the reference.",
            rich_help_panel=o.ROWS,
        ),
    ] = None,
    reference: o.Reference = None,
    reference_where: o.ReferenceWhere = None,
    data_where: o.DataWhere = None,
    features: o.Features = None,
    drop: o.Drop = None,
    dates: o.Dates = None,
    categories: o.Categories = None,
    subsets: o.Subsets = None,
    sampler: o.Sampler = "auto",
    loss: Annotated[
        str | None,
        typer.Option(
            help="With --labels: squared or log. Default: log for several outputs, else squared.",
            rich_help_panel=o.TEST,
        ),
    ] = None,
    alternative: o.OneSided = None,
    rule: Annotated[str | None, typer.Option(help=f"One of {', '.join(P_RULES)}.", rich_help_panel=o.TEST)] = None,
    alpha: o.Alpha = None,
    target: Annotated[
        str | None,
        typer.Option(help="Without --labels, which output: its label or number, or predicted.", rich_help_panel=o.TEST),
    ] = None,
    link: o.Link = None,
    draws: Annotated[
        int | None, typer.Option(help="Counterfactuals of each row. Default: 20.", rich_help_panel=o.TEST)
    ] = None,
    passes: Annotated[
        int | None,
        typer.Option(help="Recombinations of them, which cost no model rows. Default: 999.", rich_help_panel=o.TEST),
    ] = None,
    batch_rows: o.BatchRows = None,
    seed: o.Seed = 0,
    trust_pickle: o.TrustPickle = False,
    trust: o.Trust = None,
    config: o.Config = None,  # noqa: ARG001 - read before all others
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Test every feature once, over all rows together; write result.butfor, table.csv and importance.png."""
    from butfor.report.folder import RESULT, TABLE, check_folder, write_files
    from butfor.tabular.files import read_subsets
    from butfor.tabular.rows import Asked, read_tables

    check_folder(out)
    make = sampler_named(sampler)
    chosen = given(rule=rule, alpha=alpha, loss=loss, alternative=alternative, link=link, draws=draws, passes=passes)
    with notes(quiet), redirect_stdout(sys.stderr):  # a model that prints must not get into the JSON
        box, known = loaded(model, trust_pickle, trust)
        tables = read_tables(
            Asked(
                data=data,
                reference=reference,
                data_where=data_where,
                reference_where=reference_where,
                features=features or (),
                drop=drop or (),
                truth=labels,
                known=known,
                dates=dates or (),
                categories=categories or (),
                itself=labels is not None,
            )
        )
        groups = None if subsets is None else read_subsets(subsets)
        result = global_importance(
            box,
            tables.data,
            make(tables.reference),
            None if tables.truth is None else np.asarray(tables.truth),
            subsets=groups,
            target=target_of(target, box),
            seed=seed,
            batch_rows=batch_rows,
            progress=bar(quiet),
            **chosen,
        )
    result = replace(result, provenance={**result.provenance, "model": model, **tables.told})
    files: dict[str, Callable[[Path], Any]] = {
        RESULT: result.save,
        TABLE: lambda path: result.table.to_csv(path, index=False),
        IMPORTANCE: lambda path: save_png(result.plot, path, len(result.chosen)),
    }
    write_files(files, out)
    if json:
        typer.echo(result.to_json())
    else:
        typer.echo(result.summary())
        print_written(out, {"Picture": IMPORTANCE, "Table": TABLE, "Result": RESULT})
