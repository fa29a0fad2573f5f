"""Command line: `python -m benchmarks <study> [options]` measures, prints tables, and writes results/<study>.json."""

from __future__ import annotations

import argparse
import inspect
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from benchmarks import (
    adaptive,
    context,
    curves,
    decisions,
    fairness,
    given,
    global_,
    heatmaps,
    images,
    judge,
    methods,
    nulls,
    peers,
    questions,
    referee,
    reviews,
    samplers,
    scale,
    shifted,
    speed,
    stability,
    table1,
    texts,
    treatment,
    trees,
    truth,
    where,
    zoom,
)
from benchmarks.figures import Figures, markdown, record, write
from butfor import InputError, Progress
from butfor.report.write import check_folder

STUDIES: dict[str, ModuleType] = {
    "table1": table1,
    "methods": methods,
    "global": global_,
    "samplers": samplers,
    "questions": questions,
    "nulls": nulls,
    "shifted": shifted,
    "referee": referee,
    "decisions": decisions,
    "fairness": fairness,
    "treatment": treatment,
    "given": given,
    "context": context,
    "where": where,
    "adaptive": adaptive,
    "curves": curves,
    "peers": peers,
    "stability": stability,
    "trees": trees,
    "truth": truth,
    "speed": speed,
    "scale": scale,
    "zoom": zoom,
    "images": images,
    "heatmaps": heatmaps,
    "judge": judge,
    "texts": texts,
    "reviews": reviews,
}
RESULTS = Path(__file__).parent / "results"
GIVEN = ("progress", "out")  # parameters of a study that are no options of its own


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one study; return 0, or 2 where an option or a file is refused."""
    line = list(sys.argv[1:] if arguments is None else arguments)
    parsed = vars(parser().parse_args(line))
    name, out = parsed.pop("study"), parsed.pop("out")
    run: Callable[..., Figures] = STUDIES[name].run
    settings: Figures = {option: value for option, value in parsed.items() if value is not None}
    if "progress" in inspect.signature(run).parameters:
        settings["progress"] = _stage
    if "out" in inspect.signature(run).parameters:
        settings["out"] = out  # cells that are there are kept
    try:
        check_folder(out)
        figures = run(**settings)
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    settings = {option: value for option, value in settings.items() if option not in GIVEN}
    write(record(name, shlex.join(["python", "-m", "benchmarks", *line]), settings, figures), out)
    sys.stdout.write(markdown(figures, name))
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser: a subcommand for every study, an option for every parameter of its `run`."""
    made = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = made.add_subparsers(dest="study", required=True, metavar="study")
    for name, study in STUDIES.items():
        about = f"{study.__doc__}\n\n{inspect.getdoc(study.run)}"
        form = argparse.RawDescriptionHelpFormatter
        first = str(study.__doc__).partition("\n")[0]
        command = commands.add_parser(name, help=first, description=about, formatter_class=form)
        hints = get_type_hints(study.run)
        for option, parameter in inspect.signature(study.run).parameters.items():
            if option not in GIVEN:
                _add(command, option, hints[option], parameter.default)
        command.add_argument("--out", type=Path, default=RESULTS, help=f"folder of the JSON file (default: {RESULTS})")
    return made


def _add(command: argparse.ArgumentParser, name: str, hint: Any, default: Any) -> None:
    """Add an option by the type of a parameter: a flag, one value, or several values."""
    flag, kinds = f"--{name.replace('_', '-')}", str(hint)
    if hint is bool:
        command.add_argument(flag, action="store_true", help="off by default")
        return
    kind = next((kind for kind in (Path, float, int) if kind.__name__ in kinds), str)
    several: dict[str, Any] = {"nargs": "+"} if "tuple" in kinds or "Sequence" in kinds else {}
    command.add_argument(flag, type=kind, default=default, help=f"default: {default}", **several)


def _stage(now: Progress) -> None:
    """Write a line per stage on standard error: these studies take minutes, and may be watched in a log."""
    sys.stderr.write(f"{now.stage}\n")


if __name__ == "__main__":
    sys.exit(main())
