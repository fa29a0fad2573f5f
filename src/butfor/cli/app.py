"""The command line: parses, calls, prints. Everything else is in the library."""

from __future__ import annotations

import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from butfor._version import __version__
from butfor.cli.media import context, image, text
from butfor.cli.options import (
    CALLED,
    Interrupted,
    Output,
    bar,
    command,
    command_of,
    finish,
    stop_on_sigterm,
    working,
    written,
)
from butfor.cli.tables import check, combine, explain, global_, treatment
from butfor.cli.validation import validate
from butfor.report.write import REPORT, RESULT, write
from butfor.types import InputError, whole

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Would the model have said the same, but for this? Explanations with a controlled false discovery rate.",
)


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code.

    0 done, 2 bad input (one sentence on standard error), 3 a validation that failed, 130 stopped.
    """
    CALLED["arguments"] = sys.argv[1:] if arguments is None else arguments
    stop_on_sigterm()
    words = "stopped; nothing was written"
    try:
        code = app(args=arguments, prog_name="butfor", standalone_mode=False)
    except InputError as error:
        code, words = 2, str(error)
    except Interrupted as error:
        code, words = 130, str(error)
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except Exception as error:
        if not hasattr(error, "format_message"):  # not a complaint of typer's about an option
            raise
        code, words = 2, f"{error.format_message().rstrip('.')}; see butfor --help"
    if code in (2, 130):
        typer.echo(f"butfor: {words}", err=True)
    return code if isinstance(code, int) else 0


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
def demo(
    *, output: Output, kind: Annotated[str, typer.Argument(help="tabular, image, text or context")] = "tabular"
) -> None:
    """The embedded example: which measurements make malignant tumours look malignant to a model."""
    with working(replace(output, quiet=True)):  # the summary has the notes
        progress = bar(output)
        if kind == "tabular":
            from butfor.tabular.demo import tabular_demo

            patients = tabular_demo(output.seed, progress=progress)
            result, words, as_json = patients.malignant, patients.summary, patients.to_json
        elif kind == "image":
            from butfor.image.demo import tissue

            slides = tissue(output.seed, progress=progress)
            result, words, as_json = slides.result, slides.summary, slides.result.to_json
        elif kind == "text":
            from butfor.text.demo import text_demo

            reviews = text_demo(output.seed, progress=progress)
            result, words, as_json = reviews.result, reviews.marked, reviews.result.to_json
        elif kind == "context":
            from butfor.context.demo import context_demo
            from butfor.context.result import write_folder

            answered = context_demo(output.seed, progress=progress)
            words, as_json = answered.marked, answered.result.to_json
            write_folder(answered.result, output.out)
        else:
            raise InputError(f"there is no demo {kind!r} in this version; use tabular, image, text or context")
        if kind != "context":
            written(result, output)
    finish(output, words, as_json)


app.command()(explain)
app.command("global")(global_)
app.command()(treatment)
app.command()(combine)
app.command("check-sampler")(check)
app.command()(validate)
app.command()(image)
app.command()(text)
app.command()(context)

FOLDER_HELP = "Folder with results to open; runs and uploads are written into it."


@app.command()
def studio(
    folder: Annotated[Path, typer.Argument(help=FOLDER_HELP)] = Path(),
    port: Annotated[int, typer.Option(help="Port on this machine; 0 takes any that is free.")] = 0,
    workers: Annotated[int, typer.Option(help="Runs at a time; others wait.")] = 1,
    most_upload: Annotated[int, typer.Option(help="Megabytes of the largest file that may be sent.")] = 64,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """A page on this machine: draw boxes, mark words, pick rows, run, read, compare. Nobody else can open it."""
    from butfor.models.wrap import need

    for module in ("fastapi", "uvicorn"):
        need(module, "studio")
    import webbrowser

    import uvicorn

    from butfor.studio.app import make_studio
    from butfor.studio.settings import MEGABYTE, Limits, StudioSettings, read_offers

    if not folder.is_dir():
        raise InputError(f"the folder {folder} does not exist; make it, or name another")
    limits = Limits(workers=whole("--workers", workers, 1), upload=whole("--most-upload", most_upload, 1) * MEGABYTE)
    folder = folder.resolve()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", port))  # loopback: nobody else on the network can ask
        except (OSError, OverflowError) as error:
            raise InputError(f"--port {port} cannot be used: {error}; leave it out for any that is free") from error
        port = listening.getsockname()[1]
        served, access = make_studio(StudioSettings(folder, read_offers(folder), port=port, limits=limits))
        link = f"http://127.0.0.1:{port}/?token={access.new_token()}"
        typer.echo(f"butfor studio of {folder}\nOpen this link (it works once): {link}\nCtrl-C ends it.")
        sys.stdout.flush()
        if open_browser:
            webbrowser.open(link)
        config = uvicorn.Config(
            served, log_level="warning", access_log=False, server_header=False, h11_max_incomplete_event_size=65_536,
            limit_concurrency=500, timeout_keep_alive=10, timeout_graceful_shutdown=2, ws="none",
        )  # fmt: skip
        uvicorn.Server(config).run(sockets=[listening])


IMAGES_HELP = (
    "Folder that the images of the run are in or below; may be repeated. Only images there, or in the folder of the "
    "result, are opened: a result that somebody sent names any files it likes."
)
MOST_BYTES_HELP = "Unpacked size of the largest result that is read. Default: 30 times its own size, up to 700 MB."


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="A folder that butfor wrote, with result.butfor in it.")],
    images: Annotated[list[Path] | None, typer.Option(help=IMAGES_HELP)] = None,
    most_bytes: Annotated[int | None, typer.Option(help=MOST_BYTES_HELP)] = None,
) -> None:
    """Write report.html again from result.butfor; images are read from where they were, if that folder is named."""
    from butfor.context.result import is_context
    from butfor.context.result import load as load_context
    from butfor.load import load

    folder = folder.parent if folder.name == RESULT else folder
    if is_context(folder / RESULT):
        typer.echo(f"Report: {load_context(folder / RESULT).report(folder / REPORT)}")
        return
    result = load(folder / RESULT, images_in=[folder, *(images or [])], most_bytes=most_bytes)
    if result.modality == "image" and (folder / REPORT).exists():
        from butfor.image.files import can_be_read

        if not can_be_read(result.hypotheses.items):
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
    CALLED["arguments"] = command_of(folder.absolute())
    app(args=CALLED["arguments"], prog_name="butfor", standalone_mode=False)


if __name__ == "__main__":
    sys.exit(main())
