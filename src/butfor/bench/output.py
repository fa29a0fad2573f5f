"""Figures -> files, and where they were measured."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from butfor._version import __version__
from butfor.report.write import write_files

Figures = dict[str, Any]  # what a study measured, as JSON can hold it


def about(seed: int, **settings: object) -> Figures:
    """What figures say of themselves: version, seed, settings and machine."""
    return {"version": __version__, "seed": seed, **settings, "machine": machine()}


def machine() -> Figures:
    """What a time depends on: processor, cores, versions."""
    return {
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def write_figures(name: str, figures: Figures, text: str, out: Path) -> list[Path]:
    """Write `name`.json and `name`.md into the folder `out`, made if need be; returns both paths."""
    texts = {f"{name}.json": json.dumps(figures, indent=1, allow_nan=False) + "\n", f"{name}.md": text}
    write_files({file: partial(Path.write_text, data=texts[file], encoding="utf-8") for file in texts}, out)
    return [out / file for file in texts]


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Lines of a Markdown table.

    >>> table(["a", "b"], [["1", 2]])
    ['| a | b |', '|---|---|', '| 1 | 2 |']
    """
    first, *others = (f"| {' | '.join(map(str, line))} |" for line in (header, *rows))
    return [first, f"|{'---|' * len(header)}", *others]


def listed(header: str, line: str, rows: Iterable[Figures]) -> list[str]:
    """Lines of a Markdown table, from its header and how each of the rows is written.

    >>> listed("bed | rows", "{bed} | {rows:,}", [{"bed": "few", "rows": 1000}])
    ['| bed | rows |', '|---|---|', '| few | 1,000 |']
    """
    return table(header.split(" | "), [[line.format(**row)] for row in rows])
