"""The documentation site as `make docs` builds it, for the tests that look at it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def build(place):
    """Build it into a folder, with warnings as errors; skip where Sphinx, its theme or MyST is not installed."""
    for name in ("sphinx", "myst_parser", "pydata_sphinx_theme"):
        pytest.importorskip(name, reason="the docs extra is not installed: pip install -e '.[docs]'")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-E",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        "-d",
        str(place / "kept"),
    ]
    run = subprocess.run(
        [*command, str(ROOT / "docs"), str(place / "site")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path])},
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return place / "site"
