"""`butfor demo text`: the embedded networks on a dozen sentences."""

from __future__ import annotations

from pathlib import Path

import typer

from butfor.cli.common import bar, notes, print_written


def demo_text(out: Path, seed: int, json: bool, quiet: bool) -> None:
    """Run the example, write the three files and say what was found."""
    from butfor.report.folder import REPORT, RESULT, TABLE, check_folder, write_folder
    from butfor.text.demo import text_demo

    check_folder(out)
    with notes(quiet=True):  # the summary has them
        demo = text_demo(seed, progress=bar(quiet))
        write_folder(demo.found, out)
    if json:
        typer.echo(demo.found.to_json())
        return
    typer.echo(demo.told())
    print_written(out, {"Report": REPORT, "Table": TABLE, "Result": RESULT})
