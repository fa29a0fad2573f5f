"""Command line: `python -m benchmarks <study> [options]` measures, prints tables, and writes results/<study>.json."""

from __future__ import annotations

import argparse
import inspect
import shlex
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

from benchmarks.figures import Figures, markdown, record, write
from butfor import InputError
from butfor.report.write import check_folder

NAMES = """
table1 methods global_ samplers questions nulls shifted referee decisions fairness treatment given context where
adaptive curves peers stability trees truth speed scale zoom images heatmaps judge texts reviews
"""
STUDIES = {name.strip("_"): import_module(f"benchmarks.{name}") for name in NAMES.split()}
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
        settings["progress"] = lambda now: sys.stderr.write(f"{now.stage}\n")  # may be watched in a log
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
            flag, kinds, default = f"--{option.replace('_', '-')}", str(hints[option]), parameter.default
            if option in GIVEN:
                continue
            if hints[option] is bool:
                command.add_argument(flag, action="store_true", help="off by default")
                continue
            kind = next((kind for kind in (Path, float, int) if kind.__name__ in kinds), str)
            several: dict[str, Any] = {"nargs": "+"} if "tuple" in kinds or "Sequence" in kinds else {}
            command.add_argument(flag, type=kind, default=default, help=f"default: {default}", **several)
        command.add_argument("--out", type=Path, default=RESULTS, help=f"folder of the JSON file (default: {RESULTS})")
    return made


if __name__ == "__main__":
    sys.exit(main())
