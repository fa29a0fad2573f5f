"""`butfor explain`: every row of a file, every feature."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Annotated, get_args

import typer

from butfor.tabular.explain import explain as run
from butfor.cli import options as o
from butfor.cli.common import bar, given, loaded, notes, print_written, sampler_named, target_of
from butfor.cli.config import ADDRESS
from butfor.core.types import Family, InputError, Rule, Test


def explain(
    model: o.Model,
    data: o.Data,
    out: o.Out,
    reference: o.Reference = None,
    reference_where: o.ReferenceWhere = None,
    data_where: o.DataWhere = None,
    features: o.Features = None,
    drop: o.Drop = None,
    dates: o.Dates = None,
    categories: o.Categories = None,
    index: o.Index = None,
    subsets: o.Subsets = None,
    sampler: o.Sampler = "auto",
    test: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(get_args(Test))}.", rich_help_panel=o.TEST)
    ] = None,
    alternative: o.OneSided = None,
    rule: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(get_args(Rule))}.", rich_help_panel=o.TEST)
    ] = None,
    family: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(get_args(Family))}.", rich_help_panel=o.TEST)
    ] = None,
    alpha: o.Alpha = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="Which output: its label or number, predicted, observed-class, or truth with --truth.",
            rich_help_panel=o.TEST,
        ),
    ] = None,
    truth: Annotated[
        str | None,
        typer.Option(
            help="Column with the true labels, for --target truth; not for the model.", rich_help_panel=o.ROWS
        ),
    ] = None,
    link: o.Link = None,
    draws: Annotated[
        int | None,
        typer.Option(help="Counterfactuals per hypothesis, or the most of them.", rich_help_panel=o.TEST),
    ] = None,
    h: Annotated[
        int | None,
        typer.Option(help="Exceedances at which the sequential test stops. Default: 10.", rich_help_panel=o.TEST),
    ] = None,
    early_stop: Annotated[
        bool,
        typer.Option("--early-stop", help="With --test irt: the same answer for fewer rows.", rich_help_panel=o.TEST),
    ] = False,
    scale: Annotated[
        str | None,
        typer.Option(help="shrunk: for --test few-shot where subsets differ in scale.", rich_help_panel=o.TEST),
    ] = None,
    batch_rows: o.BatchRows = None,
    run_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder that keeps the model's answers until the run is done, so that the same command goes on where "
            "it was cut short. Default: none, or OUT/run for a model at an http(s) address.",
        ),
    ] = None,
    seed: o.Seed = 0,
    trust_pickle: o.TrustPickle = False,
    trust: o.Trust = None,
    config: o.Config = None,  # noqa: ARG001 - read before all others
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Test the features of every row of a table; write result.butfor, table.csv and report.html."""
    from butfor.report.folder import REPORT, RESULT, TABLE, check_folder, write_folder
    from butfor.tabular.files import read_subsets
    from butfor.tabular.rows import Asked, read_tables

    check_folder(out)
    make = sampler_named(sampler)
    if target == "truth" and truth is None:
        raise InputError("--target truth needs the true labels; name their column with --truth")
    if run_dir is None and model.lower().startswith(ADDRESS):
        run_dir = out / "run"
    chosen = given(
        test=test,
        alternative=alternative,
        rule=rule,
        family=family,
        alpha=alpha,
        link=link,
        draws=draws,
        h=h,
        early_stop=early_stop or None,
        scale=scale,
    )
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
                index=index,
                truth=truth,
                known=known,
                dates=dates or (),
                categories=categories or (),
            )
        )
        groups = None if subsets is None else read_subsets(subsets)
        aim = "truth" if target is None and truth is not None else target_of(target, box)
        with _kept(run_dir, out):
            result = run(
                box,
                tables.data,
                make(tables.reference),
                subsets=groups,
                target=aim,
                y=tables.truth,
                seed=seed,
                batch_rows=batch_rows,
                run_dir=run_dir,
                progress=bar(quiet),
                **chosen,
            )
    result = replace(result, provenance={**result.provenance, "model": model, **tables.told})
    write_folder(result, out)
    if json:
        typer.echo(result.to_json())
    else:
        typer.echo(result.summary())
        print_written(out, {"Report": REPORT, "Table": TABLE, "Result": RESULT})


@contextmanager
def _kept(run_dir: Path | None, out: Path) -> Iterator[None]:
    """Say where the answers are when the model cannot be asked any more; leave no folder in which there are none."""
    from butfor.engine.journal import ANSWERS, RUN
    from butfor.models import ModelUnreachable

    if run_dir is None:
        yield
        return
    missing = [folder for folder in (run_dir, out) if not folder.exists()]
    try:
        yield
    except BaseException as error:
        answers = run_dir / ANSWERS
        if answers.exists() and answers.stat().st_size:
            if isinstance(error, ModelUnreachable):
                raise InputError(
                    f"{error}; what it answered is kept in {run_dir}: run the same command again to go on from there"
                ) from error
            raise
        if run_dir in missing and run_dir.is_dir():
            answers.unlink(missing_ok=True)
            (run_dir / RUN).unlink(missing_ok=True)
        for folder in missing:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
        raise
