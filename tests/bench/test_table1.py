"""Table 1: a quick run gives sane figures, and the text shows the paper's beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import butfor
from butfor.bench import table1
from butfor.bench.output import write_figures
from butfor.bench.runs import rates
from butfor.bench.table1 import BEDS, TABLE1


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
    shown = table1.markdown(figures)
    assert shown.startswith("# Table 1")
    for printed in (".002/.393", ".002/.392", ".006/.836", ".006/.833", ".003/.275", ".007/.838"):
        assert printed in shown
    assert "Every alpha" not in shown


def test_markdown_with_more_alphas_and_one_run() -> None:
    rates = {"mean": 0.1, "sd": None, "se": None, "runs": [0.1]}
    known = {"paper": 0.0, "expected": 0.5, "within_3_se": False}
    shared = {"bed": BEDS[0], "test": "osft", "alternative": "greater", "method": "paper"}
    cells = [
        {**shared, "alpha": 0.1, "fdr": rates, "tpr": rates},
        {**shared, "alpha": 0.2, "fdr": rates | known, "tpr": rates | known},
    ]
    about = {"version": "0", "seed": 0, "runs": 1, "draws": 100, "seconds": 1, "workers": 1, "floor": 0.002}
    shown = table1.markdown({**about, "machine": {"processor": "abacus"}, "cells": cells})
    assert "| independent-discontinuous | OSFT 1-sided | .100/.100 | 0/0 | .500/.500 | **no**, **no** |  |" in shown
    assert "| bed | test | family | 0.1 | 0.2 |" in shown


def test_write(figures: dict[str, Any], tmp_path: Path) -> None:
    paths = write_figures("table1", figures, table1.markdown(figures), tmp_path / "new" / "folder")
    assert [path.name for path in paths] == ["table1.json", "table1.md"]
    stored = json.loads(paths[0].read_text())
    assert stored["seed"] == 0
    assert stored["version"] == butfor.__version__
    assert stored["seconds"] > 0
    assert paths[1].read_text() == table1.markdown(figures)
    (tmp_path / "file").write_text("")
    with pytest.raises(butfor.InputError, match="cannot write into"):
        write_figures("table1", figures, "", tmp_path / "file")


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
