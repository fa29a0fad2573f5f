"""The studies of methods, global decisions and samplers on small trials: what is measured, and how it is written."""

import json
from importlib.util import find_spec

import numpy as np
import pytest

from benchmarks import context, global_, methods, samplers
from benchmarks.__main__ import STUDIES, main, parser
from benchmarks.figures import each, markdown, mean_error, mean_rates


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
    shown = [line for line in markdown(found).splitlines() if line.startswith("|")]
    assert shown[0].startswith("| bed | alpha | method | runs | fdr | fdr_se |")
    assert len({line.count("|") for line in shown}) == 1
    assert any(line.startswith("| few | 0.1 | early stop | 1 |") for line in shown)
    json.dumps(found, allow_nan=False)


def test_fixed_draws_of_sums_need_no_model(monkeypatch):
    from butfor import simulate

    monkeypatch.setattr(methods, "FIXED", 60)
    bed = simulate.bed("sum-of-abs-independent", 0)
    short = methods.fixed_p_values(bed, 0)
    monkeypatch.setattr(methods, "SUM_OF_ABS", ())
    np.testing.assert_allclose(short, methods.fixed_p_values(bed, 0))


def test_global_decisions_with_one_run_are_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(global_, "knockoffs", lambda *_: None)
    assert main(["global", "--runs", "1", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    written = json.loads((tmp_path / "global.json").read_text())
    assert written["settings"] == {"runs": 1, "seed": 0}
    figures = written["figures"]
    assert [row["draws"] for row in figures["contrast"]] == [1, 5, 20]
    assert figures["contrast"][-1]["fdr_se"] == 0  # one run shows no spread
    methods_of = {row["method"]: row for row in figures["holdout"]}
    assert methods_of["knockoffs"]["why"] == "skipped: knockpy is not installed"
    assert {"lasso", "ridge", "knockoffs with all rows"} <= set(methods_of)
    assert len(figures["contrast_fitted"]) == len(global_.CONTRASTS)
    assert len(figures["holdout_fitted"]) == 5
    assert "skipped: knockpy is not installed |" in shown
    assert "| lasso |" in shown


def test_wrong_samplers_are_flagged(monkeypatch):
    monkeypatch.setattr(samplers, "BEDS", {"correlated": samplers.BEDS["correlated"]})
    for name, small in {"REFERENCE": 500, "LEFT_OUT": 60, "WIDTH": 3, "POINTS": 301}.items():
        monkeypatch.setattr(samplers, name, small)
    figures = samplers.run(runs=1, parts=("check",))
    (row,) = figures["check"]
    assert (row["wrong"], row["flagged"], row["passed"]) == ("empirical", 1, 1)
    assert row["verdicts"] == {"off-manifold": 1}
    shown = markdown({"beds": [{**row, "seconds": 1.25}]}, "samplers")
    assert (
        shown
        == """\
# samplers

## beds

| bed | wrong | flagged | first_flagged | verdicts off-manifold | passed | seconds |
|---|---|---|---|---|---|---|
| correlated | empirical | 1 | 1 | 1 | 1 | 1.25 |
"""
    )


def test_samplers_of_tables_on_a_small_trial():
    figures = samplers.run(runs=1, parts=("discoveries",))
    rows = {(row["sampler"], row["shift"]): row for row in figures["discoveries"]}
    assert len(rows) == 2 * len(samplers.SAMPLERS)
    assert rows["gaussian", 5.0]["fdr"] < 0.3
    assert rows["gaussian", 5.0]["tpr"] > 0.4
    assert rows["empirical", 5.0]["false"] >= 2 * rows["gaussian", 5.0]["false"]
    shown = markdown(figures)
    assert all(f"| {name} | 3 |" in shown for name in samplers.SAMPLERS)


def test_a_study_is_recorded_and_written(tmp_path, monkeypatch, capsys):
    def counted(runs: int = 20, seed: int = 0) -> dict[str, object]:
        return {"rows": [{"runs": runs, "seed": seed}]}

    monkeypatch.setattr(methods, "run", counted)
    assert main(["methods", "--runs", "3", "--out", str(tmp_path / "b")]) == 0
    assert "| 3 | 0 |" in capsys.readouterr().out
    written = json.loads((tmp_path / "b" / "methods.json").read_text())
    assert written["figures"]["rows"] == [{"runs": 3, "seed": 0}]
    assert written["command"].startswith("python -m benchmarks methods --runs 3 ")
    assert written["settings"]["seed"] == 0
    assert {"version", "commit", "date", "machine"} <= set(written)


def test_every_study_has_options_for_its_parameters(capsys):
    for name in STUDIES:
        assert vars(parser().parse_args([name]))["study"] == name
    given = vars(parser().parse_args(["nulls", "--references", "30", "100", "--tests", "irt", "--runs", "2"]))
    assert (given["references"], given["tests"], given["runs"]) == ([30, 100], ["irt"], 2)
    assert vars(parser().parse_args(["table1", "--quick"]))["quick"] is True
    with pytest.raises(SystemExit):
        main(["no-such-study"])


def test_a_wrong_option_is_one_sentence(tmp_path, capsys):
    assert main(["curves", "--beds", "few", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("beds must be some of ")


def test_means_and_errors_over_runs():
    some, truth = np.array([True, True, False, False]), np.array([True, False, True, False])
    assert mean_rates([(some, truth), (truth, truth)]) == {"fdr": 0.25, "fdr_se": 0.25, "tpr": 0.75, "tpr_se": 0.25}
    assert mean_error([2.0]) == (2.0, 0.0)


def test_tasks_report_their_progress():
    seen = []
    assert each([lambda: [{"a": 1}], lambda: [{"a": 2}]], 1, "stage", seen.append) == [{"a": 1}, {"a": 2}]
    assert [(one.stage, one.rows, one.total) for one in seen] == [("stage", 1, 2), ("stage", 2, 2)]


def test_contexts_are_measured_beside_rankings():
    ours = ("butfor", "butfor zoom", "leave one out")
    cells = context.run(runs=2, sizes=(6,), kinds=("alone", "redundant"), methods=ours)["cells"]
    by_name = {(cell["method"], cell["kind"]): cell for cell in cells}
    assert all(by_name[method, "alone"]["recall"] == 1 for method in ours)
    assert all(cell["false"] == 0 for cell in cells)
    assert by_name["butfor", "redundant"]["either"] == 1
    assert by_name["leave one out", "alone"]["calls"] == 7


@pytest.mark.parametrize("method", ["ContextCite", "llmSHAP"])
def test_contexts_beside_other_packages(method):
    if find_spec({"ContextCite": "context_cite"}.get(method, method)) is None:
        pytest.skip(f"{method} is not installed: make .venv/.benchmarks installs it")
    (cell,) = context.run(runs=2, sizes=(6,), kinds=("alone",), methods=(method,))["cells"]
    assert cell["recall"] == 1
    assert cell["calls"] in (64, 65)
