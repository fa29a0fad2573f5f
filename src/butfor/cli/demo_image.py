"""`butfor demo image`: digits, or the paper's photographs where BUTFOR_ASSETS names them."""

from __future__ import annotations

from pathlib import Path

import typer

from butfor.cli.common import bar, notes, print_written


def demo_image(out: Path, seed: int, json: bool, quiet: bool) -> None:
    """Run the example, write the three files and say what was found."""
    from butfor.image.demo import image_demo, named_assets
    from butfor.report.folder import REPORT, RESULT, TABLE, check_folder, write_folder

    check_folder(out)
    with notes(quiet=True):  # the summary has them
        demo = image_demo(seed, progress=bar(quiet), assets=named_assets(), fills=out / "fills")
        write_folder(demo.found, out)
    if json:
        typer.echo(demo.found.to_json())
        return
    typer.echo(demo.told())
    print_written(out, {"Report": REPORT, "Table": TABLE, "Result": RESULT})
