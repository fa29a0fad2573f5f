"""Figures -> files, and where they were measured."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

import numpy as np

from butfor.core.types import InputError


def machine() -> dict[str, Any]:
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


def write_figures(name: str, figures: dict[str, Any], text: str, out: Path) -> list[Path]:
    """Write `name`.json and `name`.md into the folder `out`, made if need be; returns both paths."""
    paths = [Path(out) / f"{name}.json", Path(out) / f"{name}.md"]
    try:
        paths[0].parent.mkdir(parents=True, exist_ok=True)
        paths[0].write_text(json.dumps(figures, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        paths[1].write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write into {out}: {error.strerror or error}; choose another folder") from error
    return paths


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    """Lines of a Markdown table.

    >>> table(["a", "b"], [["1", "2"]])
    ['| a | b |', '|---|---|', '| 1 | 2 |']
    """
    return [f"| {' | '.join(row)} |" if row else f"|{'---|' * len(header)}" for row in [header, [], *rows]]
