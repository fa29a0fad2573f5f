"""The command line: parses, calls, prints. Everything else is in the library."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from butfor.load import load
from butfor._version import __version__
from butfor.bench.commands import app as bench
from butfor.cli.check import check
from butfor.cli.common import bar, notes, print_written
from butfor.cli.demo_image import demo_image
from butfor.cli.demo_text import demo_text
from butfor.cli.explain import explain
from butfor.cli.global_ import global_
from butfor.cli.image import image
from butfor.cli.options import Json, Out, Quiet, Seed
from butfor.cli.text import text
from butfor.core.result.result import Result
from butfor.core.types import InputError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Would the model have said the same, but for this? Explanations with a controlled false discovery rate.",
)


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
    kind: Annotated[str, typer.Argument(help="tabular, image or text")] = "tabular",
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """The embedded example: which measurements make malignant tumours look malignant to a model."""
    from butfor.tabular.demo import tabular_demo, told
    from butfor.report.folder import REPORT, RESULT, TABLE, check_folder, write_folder

    if kind == "image":
        demo_image(out, seed, json, quiet)
        return
    if kind == "text":
        demo_text(out, seed, json, quiet)
        return
    if kind != "tabular":
        raise InputError(f"there is no demo {kind!r} in this version; use tabular, image or text")
    check_folder(out)
    with notes(quiet=True):  # the summary has them
        found = tabular_demo(seed, progress=bar(quiet))
    write_folder(found.malignant, out)
    if json:
        typer.echo(f'{{"malignant": {found.malignant.to_json()}, "benign": {found.benign.to_json()}}}')
        return
    typer.echo(told(found))
    print_written(out, {"Report": REPORT, "Table": TABLE, "Result": RESULT})


app.command()(explain)
app.command("global")(global_)
app.command("check-sampler")(check)
app.command()(image)
app.command()(text)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="A folder that butfor wrote, with result.butfor in it.")],
) -> None:
    """Write the report again from result.butfor, without counterfactuals: those need the sampler.

    A report.html that is there has them and is kept; the other is then report-again.html.
    """
    from butfor.report import write
    from butfor.report.folder import AGAIN, REPORT, RESULT

    result = load(folder / RESULT)
    if not isinstance(result, Result):
        raise InputError(f"{folder / RESULT} is of butfor global, which has no report; see table.csv beside it")
    there = (folder / REPORT).exists()
    typer.echo(f"Report: {write(result, folder / (AGAIN if there else REPORT))}")
    if there:
        typer.echo(f"{folder / REPORT} was kept: it has counterfactuals, which need the sampler.", err=True)


app.add_typer(bench, name="bench")

if __name__ == "__main__":
    sys.exit(main())
