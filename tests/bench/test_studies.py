"""The studies of methods, global decisions and samplers on small trials: what is measured, and how it is written."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from butfor.bench import global_, methods, samplers
from butfor.bench.commands import app
from butfor.bench.runs import each, mean_error, mean_rates


@pytest.fixture(scope="module")
def found():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(methods, "FIXED", 200)
        patch.setattr(methods, "ALPHAS", (0.1,))
        patch.setattr(methods, "BEDS", ("few",))
        patch.setattr(methods, "FEW_SHOT_BEDS", ("clones",))
        return methods.run(runs=1, workers=1)


def test_methods_stand_beside_fixed_draws(found):
    cells = {(cell["bed"], cell["alpha"], cell["method"]): cell for cell in found["cells"]}
    fixed, early = (cells["few", 0.1, method] for method in ("fixed", "early stop"))
    assert fixed["rows"] == 200
    assert fixed["tpr_gap"] == 0
    assert early["same"] == 1
    assert early["tpr_gap"] == 0
    assert early["rows"] < 200
    assert fixed["runs"] == early["runs"] == 1
    clones = cells["clones", 0.1, "osft"]
    assert clones["runs"] == 20  # beds of one input need more
    assert "tpr" not in clones  # there is nothing to be found


def test_methods_as_a_table(found):
    shown = methods.markdown(found).splitlines()
    assert shown[2].startswith("| bed | alpha | method | FDR (s.e.) | TPR (s.e.) | TPR below fixed | rows per hypo")
    assert all(line.count("|") == 9 for line in shown[2:])
    early = next(line for line in shown if line.startswith("| few | 0.1 | early stop |"))
    assert "| +0.000 |" in early
    assert early.endswith("| 100.0% |")
    json.dumps(found, allow_nan=False)


def test_fixed_draws_of_sums_need_no_model(monkeypatch):
    from butfor import simulate

    monkeypatch.setattr(methods, "FIXED", 60)
    bed = simulate.bed("sum-of-abs-independent", 0)
    short = methods.fixed_p_values(bed, 0)
    monkeypatch.setattr(methods, "SUM_OF_ABS", ())
    np.testing.assert_allclose(short, methods.fixed_p_values(bed, 0))


def test_global_decisions_with_one_run_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr(global_, "knockoffs", lambda *_: None)
    done = CliRunner().invoke(app, ["global", "--runs", "1", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    figures = json.loads((tmp_path / "global.json").read_text())
    assert sorted(figures["contrast"]) == ["alpha", "draws", "population", "runs"]
    assert figures["contrast"]["draws"]["20"]["fdr_se"] == 0  # one run shows no spread
    assert figures["holdout"]["knockoffs"] == "skipped: knockpy is not installed"
    assert "| knockoffs | skipped: knockpy is not installed |  |" in done.output
    assert "| lasso |" in done.output


def test_wrong_samplers_are_flagged(monkeypatch):
    monkeypatch.setattr(samplers, "BEDS", {"correlated": samplers.BEDS["correlated"]})
    for name, small in {"REFERENCE": 500, "HELD_OUT": 60, "WIDTH": 3, "POINTS": 301}.items():
        monkeypatch.setattr(samplers, name, small)
    figures = samplers.run(seeds=1)
    (row,) = figures["beds"]
    assert (row["wrong"], row["flagged"], row["passed"]) == ("empirical", 1, 1)
    assert row["verdicts"] == {"off-manifold": 1}
    shown = samplers.markdown({**figures, "beds": [{**row, "seconds": 1.25}]})
    assert (
        shown
        == """\
Sampler check, 1 seeds; 60 held-out rows, 3 columns, samplers fitted on 500 rows.

| bed | wrong sampler | flagged | flagged in x0 | verdicts on x0 | true sampler passed | seconds a check |
|---|---|---|---|---|---|---|
| correlated | empirical | 1 | 1 | off-manifold 1 | 1 | 1.2 |"""
    )


def test_means_and_errors_over_runs():
    some, truth = np.array([True, True, False, False]), np.array([True, False, True, False])
    assert mean_rates([(some, truth), (truth, truth)]) == {"fdr": 0.25, "fdr_se": 0.25, "tpr": 0.75, "tpr_se": 0.25}
    assert mean_error([2.0]) == (2.0, 0.0)


def test_tasks_report_their_progress():
    seen = []
    assert each([lambda: [{"a": 1}], lambda: [{"a": 2}]], 1, "stage", seen.append) == [{"a": 1}, {"a": 2}]
    assert [(one.stage, one.rows, one.total) for one in seen] == [("stage", 1, 2), ("stage", 2, 2)]
