"""`butfor check-sampler`: is what is drawn from a reference like the reference?"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from json import dumps, loads
from pathlib import Path
from typing import Annotated

import typer

from butfor.tabular.check import SamplerCheck, check_sampler
from butfor.cli import options as o
from butfor.cli.common import bar, given, loaded, notes, print_written, sampler_named, save_png
from butfor.core.types import InputError

CHECK = "check.png"
SHARE = 0.2


def check(
    reference: Annotated[Path, typer.Option(help=o.REFERENCE_HELP, rich_help_panel=o.ROWS)],
    out: o.Out,
    held_out: Annotated[
        Path | None,
        typer.Option(
            help="CSV or .parquet file with rows of the reference's own population that the sampler is not fitted on.",
            rich_help_panel=o.ROWS,
        ),
    ] = None,
    hold_out: Annotated[
        float | None,
        typer.Option(
            help=f"Or the share of the reference to hold out, at random. Default: {SHARE}.", rich_help_panel=o.ROWS
        ),
    ] = None,
    reference_where: Annotated[
        str | None,
        typer.Option(help="Rows of the reference, such as \"diagnosis == 'benign'\".", rich_help_panel=o.ROWS),
    ] = None,
    held_out_where: Annotated[
        str | None, typer.Option(help="Rows of the --held-out file, likewise.", rich_help_panel=o.ROWS)
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help=f"Check also what the model says of the draws: {o.MODEL_HELP}", rich_help_panel=o.MODEL),
    ] = None,
    features: o.Features = None,
    drop: o.Drop = None,
    dates: o.Dates = None,
    categories: o.Categories = None,
    subsets: o.Subsets = None,
    sampler: o.Sampler = "auto",
    draws: Annotated[
        int | None, typer.Option(help="Counterfactuals of each held-out row. Default: 99.", rich_help_panel=o.TEST)
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(help="Share of checks that call a right sampler wrong. Default: 0.01.", rich_help_panel=o.TEST),
    ] = None,
    seed: o.Seed = 0,
    trust_pickle: o.TrustPickle = False,
    trust: o.Trust = None,
    config: o.Config = None,  # noqa: ARG001 - read before all others
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Hold a sampler against held-out rows; print a verdict per feature, write table.csv and check.png.

    The exit code is 0 whatever the verdict is.
    """
    from butfor.report.folder import TABLE, check_folder, write_files
    from butfor.tabular.files import read_subsets
    from butfor.tabular.rows import Asked, read_tables

    check_folder(out)
    make = sampler_named(sampler)
    _check_rows(reference, held_out, hold_out, held_out_where)
    with notes(quiet), redirect_stdout(sys.stderr):  # a model that prints must not get into the JSON
        box, known = (None, None) if model is None else loaded(model, trust_pickle, trust)
        tables = read_tables(
            Asked(
                data=held_out or reference,
                reference=None if held_out is None else reference,
                data_where=held_out_where,
                reference_where=reference_where,
                features=features or (),
                drop=drop or (),
                known=known,
                dates=dates or (),
                categories=categories or (),
                hold_out=(SHARE if hold_out is None else hold_out) if held_out is None else None,
                what="reference" if held_out is None else "held-out data",
                seed=seed,
            )
        )
        groups = None if subsets is None else read_subsets(subsets)
        made = make(tables.reference)
        found = check_sampler(
            made,
            tables.data,
            box,
            subsets=groups,
            seed=seed,
            progress=bar(quiet),
            **given(draws=draws, alpha=alpha),
        )
    files = {
        TABLE: lambda path: found.table.to_csv(path, index=False),
        CHECK: lambda path: save_png(found.plot, path, len(found.verdicts)),
    }
    write_files(files, out)
    if json:
        typer.echo(_as_json(found, repr(made)))
    else:
        why = f"{made.why}\n" if hasattr(made, "why") else ""
        typer.echo(f"{why}{made!r}, checked on {tables.told['data']}\n\n{found.summary()}")
        print_written(out, {"Picture": CHECK, "Table": TABLE})


def _check_rows(reference: Path, held_out: Path | None, hold_out: float | None, held_out_where: str | None) -> None:
    if held_out is not None and hold_out is not None:
        raise InputError("--held-out and --hold-out were both given; use one of them")
    if held_out is None and held_out_where is not None:
        raise InputError("--held-out-where picks rows of the --held-out file, and none was given; name it")
    if held_out is not None and held_out.exists() and reference.exists() and held_out.samefile(reference):
        raise InputError(
            f"--held-out {held_out} is the reference itself, which the sampler is fitted on; use --hold-out {SHARE}"
        )


def _as_json(found: SamplerCheck, sampler: str) -> str:
    """The check as JSON."""
    described = {
        "sampler": sampler,
        "ok": found.ok,
        "headline": found.headline,
        "alpha": found.alpha,
        "rows": found.rows,
        "draws": found.draws,
        "notes": list(found.notes),
    }
    return dumps({**described, "table": loads(found.table.to_json(orient="records"))})
