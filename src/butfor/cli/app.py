"""The command line: parses, calls, prints. Everything else is in the library."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from butfor._version import __version__
from butfor.cli.check import check
from butfor.cli.common import bar, finish, working, written
from butfor.cli.explain import explain
from butfor.cli.global_ import global_
from butfor.cli.image import image
from butfor.cli.options import Output
from butfor.cli.panels import command
from butfor.cli.resuming import CALLED, Interrupted, argv, command_of, stop_on_sigterm
from butfor.cli.studio import studio
from butfor.cli.text import text
from butfor.core.result.result import Result
from butfor.core.types import InputError
from butfor.load import load
from butfor.report import write
from butfor.report.folder import REPORT, RESULT

IMAGES_HELP = (
    "Folder that the images of the run are in or below; may be repeated. Only images there, or in the folder of the "
    "result, are opened: a result that somebody sent names any files it likes."
)
MOST_BYTES_HELP = "Unpacked size of the largest result that is read. Default: 30 times its own size, up to 700 MB."
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Would the model have said the same, but for this? Explanations with a controlled false discovery rate.",
)


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 2 bad input (one sentence on standard error), 130 stopped."""
    CALLED["arguments"] = argv() if arguments is None else arguments
    stop_on_sigterm()
    words = "stopped; nothing was written"
    try:
        code = app(args=arguments, prog_name="butfor", standalone_mode=False)
    except InputError as error:
        return _sorry(str(error))
    except Interrupted as error:
        code, words = 130, str(error)
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except Exception as error:
        if not hasattr(error, "format_message"):  # not a complaint of typer's about an option
            raise
        return _sorry(f"{error.format_message().rstrip('.')}; see butfor --help")
    if code == 130:
        typer.echo(f"butfor: {words}", err=True)
    return code if isinstance(code, int) else 0


def _sorry(sentence: str) -> int:
    typer.echo(f"butfor: {sentence}", err=True)
    return 2


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def every(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Options of every command."""


@app.command()
@command(without=("config",))
def demo(*, output: Output, kind: Annotated[str, typer.Argument(help="tabular, image or text")] = "tabular") -> None:
    """The embedded example: which measurements make malignant tumours look malignant to a model."""
    with working(replace(output, quiet=True)):  # the summary has the notes
        result, words, as_json = _ran(kind, output)
        written(result, output)
    finish(output, words, as_json)


def _ran(kind: str, output: Output) -> tuple[Result, Callable[[], str], Callable[[], str]]:
    """What a demo found, and how it is printed: in words, and as JSON."""
    if kind == "tabular":
        from butfor.tabular.demo import tabular_demo

        patients = tabular_demo(output.seed, progress=bar(output))
        return patients.malignant, patients.summary, patients.to_json
    if kind == "image":
        from butfor.image.demo import image_demo, named_assets

        digits = image_demo(output.seed, progress=bar(output), assets=named_assets(), fills=output.out / "fills")
        return digits.found, digits.summary, digits.found.to_json
    if kind == "text":
        from butfor.text.demo import text_demo

        reviews = text_demo(output.seed, progress=bar(output))
        return reviews.found, reviews.told, reviews.found.to_json
    raise InputError(f"there is no demo {kind!r} in this version; use tabular, image or text")


app.command()(explain)
app.command("global")(global_)
app.command("check-sampler")(check)
app.command()(image)
app.command()(text)
app.command()(studio)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="A folder that butfor wrote, with result.butfor in it.")],
    images: Annotated[list[Path] | None, typer.Option(help=IMAGES_HELP)] = None,
    most_bytes: Annotated[int | None, typer.Option(help=MOST_BYTES_HELP)] = None,
) -> None:
    """Write report.html again from result.butfor; images are read from where they were, if that folder is named."""
    folder = folder.parent if folder.name == RESULT else folder
    result = load(folder / RESULT, images_in=[folder, *(images or [])], most_bytes=most_bytes)
    if isinstance(result, Result) and result.modality == "image" and (folder / REPORT).exists():
        from butfor.image.saved import can_be_read

        if not can_be_read(result.problem.items):
            raise InputError(
                f"the images of {folder / RESULT} cannot be read from their files any more, and {REPORT} has pictures: "
                "it was kept; put the images back, or delete it for a report without pictures"
            )
    typer.echo(f"Report: {write(result, folder / REPORT)}")


@app.command()
def resume(
    folder: Annotated[Path, typer.Argument(help="The folder that --out named in the run that was cut short.")],
) -> None:
    """Go on with a run that was cut short, with the options that it had."""
    arguments = command_of(folder.absolute())
    CALLED["arguments"] = arguments
    app(args=arguments, prog_name="butfor", standalone_mode=False)


if __name__ == "__main__":
    sys.exit(main())
