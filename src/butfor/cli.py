"""The command line: parses, calls, prints. Everything else is in the library."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from butfor import tabular
from butfor._explain import explain as run
from butfor._load import load
from butfor._version import __version__
from butfor.bench.commands import app as bench
from butfor.commands.demo_image import demo_image
from butfor.commands.image import image
from butfor.core.types import Alternative, Family, InputError, Rule, Test
from butfor.models import wrap

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Would the model have said the same, but for this? Explanations with a controlled false discovery rate.",
)
app.add_typer(bench, name="bench")
app.command()(image)

SAMPLERS = {"gaussian": tabular.gaussian, "copula": tabular.copula, "empirical": tabular.empirical}

Out = Annotated[Path, typer.Option(help="Folder to write into; it is made if need be.")]
Json = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON on standard output, and nothing else there.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar and no notes on standard error.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same result.")]


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 2 bad input (one sentence on standard error), 130 stopped."""
    try:
        code = app(args=arguments, prog_name="butfor", standalone_mode=False)
    except InputError as error:
        return _sorry(str(error))
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except Exception as error:
        if not hasattr(error, "format_message"):  # not a complaint of typer's about an option
            raise
        return _sorry(f"{error.format_message().rstrip('.')}; see butfor --help")
    if code == 130:
        typer.echo("butfor: stopped; nothing was written", err=True)
    return code if isinstance(code, int) else 0


def _sorry(sentence: str) -> int:
    typer.echo(f"butfor: {sentence}", err=True)
    return 2


def _version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def common(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Options of every command."""


@app.command()
def demo(
    out: Out,
    kind: Annotated[str, typer.Argument(help="tabular or image")] = "tabular",
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """The embedded example: which measurements make malignant tumours look malignant to a model."""
    from butfor.demo import tabular_demo, told
    from butfor.report.folder import check_folder, write_folder

    if kind == "image":
        demo_image(out, seed, json, quiet)
        return
    if kind != "tabular":
        raise InputError(f"there is no demo {kind!r} in this version; use tabular or image")
    check_folder(out)
    with _notes(quiet=True):  # the summary has them
        found = tabular_demo(seed, progress=_bar(quiet))
    write_folder(found.malignant, out)
    if json:
        typer.echo(f'{{"malignant": {found.malignant.to_json()}, "benign": {found.benign.to_json()}}}')
        return
    typer.echo(told(found))
    _print_written(out)


@app.command()
def explain(
    model: Annotated[
        str,
        typer.Option(
            help="file.py:function, a function from a pandas DataFrame of the feature columns to one number per row or "
            "one column per output; or a .pkl, .pickle or .joblib file with --trust-pickle."
        ),
    ],
    data: Annotated[Path, typer.Option(help="CSV file (UTF-8, one header line) with the rows to explain.")],
    out: Out,
    reference: Annotated[
        Path | None, typer.Option(help="CSV file with what you compare against: controls, the other class, last year.")
    ] = None,
    reference_where: Annotated[
        str | None,
        typer.Option(
            help="Rows of the reference, such as \"diagnosis == 'benign'\". Without --reference it splits the data: "
            "the rows it matches are the reference, the others are explained."
        ),
    ] = None,
    data_where: Annotated[
        str | None, typer.Option(help='Rows to explain, such as "age > 40 and `my column` != 0".')
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(help="Columns for the model, in this order: a,b,c. Default: what it was fitted on, or all."),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns that are not for the model: a,b,c. Text columns that are named in --data-where or "
            "--reference-where are left out anyway, numbers are not."
        ),
    ] = None,
    index: Annotated[str | None, typer.Option(help="Column with the names of the rows; not for the model.")] = None,
    subsets: Annotated[
        Path | None,
        typer.Option(help='JSON file with what to test: {"name": ["column", ...]} or a list. Default: each column.'),
    ] = None,
    sampler: Annotated[
        str, typer.Option(help=f"How to redraw columns from the reference: {', '.join(SAMPLERS)}.")
    ] = "gaussian",
    test: Annotated[str | None, typer.Option(help=f"One of {', '.join(get_args(Test))}.")] = None,
    alternative: Annotated[str | None, typer.Option(help=f"One of {', '.join(get_args(Alternative))}.")] = None,
    rule: Annotated[str | None, typer.Option(help=f"One of {', '.join(get_args(Rule))}.")] = None,
    family: Annotated[str | None, typer.Option(help=f"One of {', '.join(get_args(Family))}.")] = None,
    alpha: Annotated[float | None, typer.Option(help="The level of the guarantee. Default: 0.1.")] = None,
    target: Annotated[
        str | None,
        typer.Option(help="Which output: its label or number, predicted, observed-class, or truth with --truth."),
    ] = None,
    truth: Annotated[
        str | None, typer.Option(help="Column with the true labels, for --target truth; not for the model.")
    ] = None,
    link: Annotated[str | None, typer.Option(help="Scale of the effects: logit or log.")] = None,
    draws: Annotated[int | None, typer.Option(help="Counterfactuals per hypothesis, or the most of them.")] = None,
    h: Annotated[int | None, typer.Option(help="Exceedances at which the sequential test stops. Default: 10.")] = None,
    early_stop: Annotated[
        bool, typer.Option("--early-stop", help="With --test irt: the same answer for fewer rows.")
    ] = False,
    scale: Annotated[
        str | None, typer.Option(help="shrunk: for --test few-shot where subsets differ in scale.")
    ] = None,
    batch_rows: Annotated[
        int | None, typer.Option(help="Rows the model gets at a time; sets the memory needed.")
    ] = None,
    seed: Seed = 0,
    trust_pickle: Annotated[
        bool,
        typer.Option("--trust-pickle", help="Load a pickled model. Unpickling runs code: only from people you trust."),
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Test the features of every row of a CSV file; write result.butfor, table.csv and report.html."""
    from butfor.models.files import load_model
    from butfor.report.folder import check_folder, write_folder
    from butfor.tabular.files import read_subsets
    from butfor.tabular.rows import Asked, read_tables

    check_folder(out)
    chosen = _options(
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
    with _notes(quiet), redirect_stdout(sys.stderr):  # a model that prints must not get into the JSON
        box = load_model(model, trust_pickle=trust_pickle)
        known = getattr(box, "feature_names_in_", None)
        tables = read_tables(
            Asked(data, reference, data_where, reference_where, features or (), drop or (), index, truth, known)
        )
        result = run(
            box,
            tables.data,
            _sampler(sampler)(tables.reference),
            subsets=None if subsets is None else read_subsets(subsets),
            target=_target(target, truth, box),
            y=tables.truth,
            seed=seed,
            batch_rows=batch_rows,
            progress=_bar(quiet),
            **chosen,
        )
    result = replace(result, provenance={**result.provenance, "model": model, **tables.told})
    write_folder(result, out)
    if json:
        typer.echo(result.to_json())
    else:
        typer.echo(result.summary())
        _print_written(out)


def _options(**given: Any) -> dict[str, Any]:
    """What was given; the rest is left to the library, so that its defaults stand in one place."""
    return {name: value for name, value in given.items() if value is not None}


def _sampler(name: str) -> Callable[[Any], Any]:
    if name not in SAMPLERS:
        raise InputError(f"--sampler must be one of {', '.join(SAMPLERS)}, got {name!r}")
    return SAMPLERS[name]


def _target(given: str | None, truth: str | None, model: Any) -> Any:
    """A label of the model's, a number or a word; typed text stands for a label of any type."""
    if given == "truth" and truth is None:
        raise InputError("--target truth needs the true labels; name their column with --truth")
    if given is None:
        return None if truth is None else "truth"
    labels = [label for label in wrap(model).classes or () if str(label) == given]
    return labels[0] if labels else int(given) if given.isdecimal() else given


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="A folder that butfor wrote, with result.butfor in it.")],
) -> None:
    """Write report.html again from result.butfor (without counterfactuals: those need the sampler)."""
    from butfor.report import write
    from butfor.report.folder import REPORT, RESULT

    typer.echo(f"Report: {write(load(folder / RESULT), folder / REPORT)}")


@contextmanager
def _notes(quiet: bool) -> Iterator[None]:
    """Warnings as one plain line each on standard error, the same one only once."""
    said: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        line = " ".join(str(message).split())
        if line not in said:
            said.add(line)
            typer.echo(f"note: {line}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not quiet:
            warnings.simplefilter("always", UserWarning)
            warnings.simplefilter("always", RuntimeWarning)
            warnings.showwarning = show
        yield


def _bar(quiet: bool) -> bool:
    return not quiet and sys.stderr.isatty()  # a log file is no place for a bar


def _print_written(out: Path) -> None:
    from butfor.report.folder import REPORT, RESULT, TABLE

    typer.echo(f"\nReport: {out / REPORT}\nTable:  {out / TABLE}\nResult: {out / RESULT}")


if __name__ == "__main__":
    sys.exit(main())
