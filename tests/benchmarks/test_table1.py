"""Table 1: a quick run gives sane figures, and the text shows the paper's beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import butfor
from benchmarks import table1
from benchmarks.figures import markdown, rates, record, write
from benchmarks.table1 import BEDS, TABLE1


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    return table1.run(quick=True, workers=1, beds=["independent-discontinuous"])


def cell(figures: dict[str, Any], test: str, method: str) -> dict[str, Any]:
    wanted = ("independent-discontinuous", test, "greater", method)
    keys = ("bed", "test", "alternative", "method")
    return next(one for one in figures["cells"] if tuple(one[key] for key in keys) == wanted)


def test_quick_figures_are_sane(figures: dict[str, Any]) -> None:
    assert figures["runs"] == 2
    assert len(figures["cells"]) == 6  # irt twice (with and without the filter) and osft once, one- and two-sided
    one_shot = cell(figures, "osft", "paper")
    assert 0.8 < one_shot["tpr"]["mean"] < 0.88
    assert one_shot["fdr"]["mean"] < 0.03
    assert one_shot["tpr"]["expected"] == 0.838
    assert one_shot["tpr"]["within_3_se"]
    assert cell(figures, "irt", "butfor")["tpr"]["mean"] > 0.8  # the filter does what K = 1,000 cannot
    for run in cell(figures, "irt", "paper")["tpr"]["runs"]:
        assert run == 0 or run > 0.5  # bimodal (METHODS 1)


def test_the_same_seed_gives_the_same_figures(figures: dict[str, Any]) -> None:
    again = table1.run(quick=True, workers=2, beds=["independent-discontinuous"])
    assert again["cells"] == figures["cells"]


def test_markdown_shows_the_papers_figures(figures: dict[str, Any]) -> None:
    shown = markdown(figures, "table1")
    assert shown.startswith("# table1")
    for paper, expected in ((0.393, 0.275), (0.392, 0.267), (0.836, 0.838), (0.833, 0.836)):
        assert f"| {paper} | {expected} |" in shown


def test_cells_outside_three_standard_errors_are_marked() -> None:
    shared = {"bed": BEDS[0], "test": "osft", "alternative": "greater", "method": "paper", "alpha": 0.2}
    cell = table1._cell([{**shared, "seed": seed, "fdr": 0.1, "tpr": 0.1} for seed in range(2)])
    assert (cell["tpr"]["paper"], cell["tpr"]["expected"], cell["tpr"]["within_3_se"]) == (0.836, 0.838, False)
    assert "| **no** |" in markdown({"cells": [cell]})
    other = table1._cell([{**shared, "alpha": 0.1, "seed": 0, "fdr": 0.1, "tpr": 0.1}])
    assert "expected" not in other["tpr"]
    assert other["tpr"]["se"] is None


def test_write(figures: dict[str, Any], tmp_path: Path) -> None:
    path = write(record("table1", "python -m benchmarks table1", {"seed": 0}, figures), tmp_path / "new" / "folder")
    stored = json.loads(path.read_text())
    assert stored["settings"] == {"seed": 0}
    assert stored["version"] == butfor.__version__
    assert stored["figures"]["seconds"] > 0
    (tmp_path / "file").write_text("")
    with pytest.raises(butfor.InputError, match="cannot write into"):
        write(stored, tmp_path / "file")


def test_progress_counts_runs() -> None:
    seen: list[butfor.Progress] = []
    table1.run(runs=1, quick=True, workers=1, beds=["correlated-discontinuous"], progress=seen.append)
    assert [(one.rows, one.total) for one in seen] == [(1, 1)]


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(butfor.InputError, match="beds must be some of independent-discontinuous"):
        table1.run(beds=["sparse"])
    with pytest.raises(butfor.InputError, match="runs and workers must be at least 1, got runs=0"):
        table1.run(runs=0)


def test_reference_covers_the_table() -> None:
    assert len(TABLE1) == len(BEDS) * 4
    assert all(0 <= rate <= 1 for known in TABLE1.values() for both in known for rate in both)


def test_rates() -> None:
    truth = np.array([True, True, False, False])
    assert rates(np.array([True, False, True, False]), truth) == {"fdr": 0.5, "tpr": 0.5}
    assert rates(np.zeros(4, bool), truth) == {"fdr": 0.0, "tpr": 0.0}
    assert rates(np.ones(4, bool), ~truth & truth) == {"fdr": 1.0, "tpr": 0.0}
