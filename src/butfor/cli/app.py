"""The command line: parses, calls, prints. Everything else is in the library."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from json import dumps, loads
from pathlib import Path
from typing import Annotated

import typer

from butfor import check_sampler
from butfor._version import __version__
from butfor.cli.image import image
from butfor.cli.options import (
    CALLED,
    MODEL,
    ROWS,
    TEST,
    Interrupted,
    Output,
    Trust,
    argv,
    bar,
    command,
    command_of,
    finish,
    given,
    needed,
    option,
    panel,
    stop_on_sigterm,
    working,
    written,
)
from butfor.cli.tables import (
    MODEL_HELP,
    REFERENCE_HELP,
    SamplerName,
    TableColumns,
    combine,
    explain,
    global_,
    sampler_named,
    tables,
)
from butfor.cli.text import text
from butfor.load import load
from butfor.models.wrap import need
from butfor.report import write
from butfor.report.write import REPORT, RESULT, TABLE, save_png, write_files
from butfor.results.result import Result
from butfor.tabular.check import SamplerCheck
from butfor.tabular.splice import TableSampler
from butfor.types import InputError, whole

FOLDER_HELP = "Folder with results to open; runs and uploads are written into it."
WORKER = (sys.executable, "-m", "butfor.studio.worker")


def studio(
    folder: Annotated[Path, typer.Argument(help=FOLDER_HELP)] = Path(),
    port: Annotated[int, typer.Option(help="Port on this machine; 0 takes any that is free.")] = 0,
    workers: Annotated[int, typer.Option(help="Runs at a time; others wait.")] = 1,
    most_upload: Annotated[int, typer.Option(help="Megabytes of the largest file that may be sent.")] = 64,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """A page on this machine: draw boxes, mark words, pick rows, run, read, compare. Nobody else can open it."""
    import socket

    for module in ("fastapi", "uvicorn"):
        need(module, "studio")
    if not folder.is_dir():
        raise InputError(f"the folder {folder} does not exist; make it, or name another")
    whole("--workers", workers, 1)
    whole("--most-upload", most_upload, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", port))  # loopback: nobody else on the network can ask
        except (OSError, OverflowError) as error:
            raise InputError(f"--port {port} cannot be used: {error}; leave it out for any that is free") from error
        serve(folder.resolve(), listening, workers, most_upload, open_browser)


def serve(folder: Path, listening: object, workers: int, most_upload: int, open_browser: bool) -> None:
    """Serve until Ctrl-C."""
    import socket
    import webbrowser

    import uvicorn

    from butfor.studio.app import make_studio
    from butfor.studio.models import read_offers
    from butfor.studio.settings import MEGABYTE, Limits, StudioSettings

    assert isinstance(listening, socket.socket)
    port = listening.getsockname()[1]
    limits = Limits(workers=workers, upload=most_upload * MEGABYTE)
    app, access = make_studio(StudioSettings(folder, read_offers(folder), WORKER, port, limits))
    link = f"http://127.0.0.1:{port}/?token={access.new_token()}"
    typer.echo(f"butfor studio of {folder}\nOpen this link (it works once): {link}\nCtrl-C ends it.")
    sys.stdout.flush()
    if open_browser:
        webbrowser.open(link)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, h11_max_incomplete_event_size=65_536,
        limit_concurrency=500, timeout_keep_alive=10, timeout_graceful_shutdown=2, ws="none",
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listening])


CHECK = "check.png"
SHARE = 0.2
BOX_HELP = f"Check also what the model says of the draws: {MODEL_HELP}"
DRAWS_HELP = "Counterfactuals of each held-out row. Default: 99."
ALPHA_HELP = "Share of checks that call a right sampler wrong. Default: 0.03."


@panel(ROWS)
class HeldOut:
    reference: Path = needed(REFERENCE_HELP)
    held_out: Path | None = option(
        "CSV or .parquet file with rows of the reference's own population that the sampler is not fitted on."
    )
    hold_out: float | None = option(f"Or the share of the reference to hold out, at random. Default: {SHARE}.")
    reference_where: str | None = option("Rows of the reference, such as \"diagnosis == 'benign'\".")
    held_out_where: str | None = option("Rows of the --held-out file, likewise.")

    def rows(self) -> dict[str, object]:
        """As the tables of a run: the held-out rows are its data."""
        self._check()
        where = {"data_where": self.held_out_where, "reference_where": self.reference_where}
        if self.held_out is not None:
            return {"data": self.held_out, "reference": self.reference, **where, "what": "held-out data"}
        share = SHARE if self.hold_out is None else self.hold_out
        return {"data": self.reference, **where, "hold_out": share, "what": "reference"}

    def _check(self) -> None:
        held_out, reference = self.held_out, self.reference
        if held_out is not None and self.hold_out is not None:
            raise InputError("--held-out and --hold-out were both given; use one of them")
        if held_out is None and self.held_out_where is not None:
            raise InputError("--held-out-where picks rows of the --held-out file, and none was given; name it")
        if held_out is not None and held_out.exists() and reference.exists() and held_out.samefile(reference):
            raise InputError(
                f"--held-out {held_out} is the reference itself, which the sampler is fitted on; use --hold-out {SHARE}"
            )


@command(without=("index",))
def check(
    *,
    held: HeldOut,
    model: Annotated[str | None, typer.Option(help=BOX_HELP, rich_help_panel=MODEL)] = None,
    columns: TableColumns,
    sampler: SamplerName = "auto",
    draws: Annotated[int | None, typer.Option(help=DRAWS_HELP, rich_help_panel=TEST)] = None,
    alpha: Annotated[float | None, typer.Option(help=ALPHA_HELP, rich_help_panel=TEST)] = None,
    trust: Trust,
    output: Output,
) -> None:
    """Hold a sampler against held-out rows; print verdicts and scores by feature, write table.csv and check.png.

    The exit code is 0 whatever the verdict is.
    """
    with working(output):
        make, rows = sampler_named(sampler), held.rows()
        box = None if model is None else trust.load(model)
        read = tables(columns, box, **rows, seed=output.seed)
        asked = given(subsets=columns.groups(), draws=draws, alpha=alpha)
        made = make(read.reference)
        found = check_sampler(made, read.data, box, seed=output.seed, progress=bar(output), **asked)
        files = {
            TABLE: lambda path: found.table.to_csv(path, index=False),
            CHECK: lambda path: save_png(found.plot, path, len(found.verdicts)),
        }
        write_files(files, output.out)
    words = partial(_in_words, found, made, read.sources["data"])
    finish(output, words, partial(_as_json, found, repr(made)), {"Picture": CHECK, "Table": TABLE})


def _in_words(found: SamplerCheck, sampler: object, rows: str) -> str:
    why = f"{sampler.why}\n" if isinstance(sampler, TableSampler) and sampler.why else ""
    return f"{why}{sampler!r}, checked on {rows}\n\n{found.summary()}"


def _as_json(found: SamplerCheck, sampler: str) -> str:
    """The check as JSON."""
    described = {"sampler": sampler, "ok": found.ok, "headline": found.headline, "sentence": found.sentence}
    together = {"together": found.together, "together_p": found.together_p, "alpha": found.alpha}
    counts = {"rows": found.rows, "draws": found.draws, "left_out": list(found.left_out)}
    notes = {"notes": list(map(str, found.notes))}
    return dumps({**described, **together, **counts, **notes, "table": loads(found.table.to_json(orient="records"))})


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
app.command()(combine)
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
        from butfor.image.inputs import can_be_read

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
