"""How far a run is: rows counted as the model sees them, stages in order, whoever asked is told."""

from itertools import groupby

import numpy as np
import pytest

import butfor
from butfor.evaluation.progress import Meter, Progress, reporting, silent
from butfor.tabular import empirical, from_values

NORMAL = from_values(lambda rows, subset, count, rng: rng.normal(size=(len(rows) * count, len(subset.index))))
ROWS = np.random.default_rng(0).normal([3.0, 0.0, 0.0], 1.0, size=(20, 3))
TESTS = {
    "irt": {"test": "irt", "draws": 60},
    "irt two-sided": {"test": "irt", "draws": 60, "alternative": "two-sided"},
    "early stop": {"test": butfor.irt(60, early_stop=True)},
    "sequential": {"test": "sequential", "draws": 600},
    "few-shot": {"test": "few-shot"},
    "osft": {"test": "osft"},
}


def run(sampler=NORMAL, **settings):
    reports = []
    result = butfor.explain(
        lambda rows: rows.sum(axis=1), ROWS, sampler, progress=reports.append, **{"alpha": 0.3, **settings}
    )
    return result, reports


@pytest.mark.parametrize("batch_rows", [50, 10_000])
@pytest.mark.parametrize("name", TESTS)
def test_stages_follow_each_other_and_rows_add_up(name, batch_rows):
    result, reports = run(batch_rows=batch_rows, **TESTS[name])
    assert result.chosen.any()
    stages = [list(own) for _, own in groupby(reports, key=lambda report: report.stage)]
    assert [own[0].stage for own in stages][:2] == [result.record.test, "effects"]
    assert {own[0].stage for own in stages[2:]} <= {"moves"}  # drawn on where that is open
    for own in stages:
        rows = [report.rows for report in own]
        assert rows == sorted(rows)
        assert own[-1].total in (None, own[-1].rows)
    looked = 20 + 6 + 1 + 19  # the first look at the model
    assert sum(own[-1].rows for own in stages) == result.rows - looked == result.rows_asked - looked


@pytest.mark.parametrize("name", TESTS)
def test_the_total_is_told_where_it_is_known(name):
    _, reports = run(**TESTS[name])
    totals = {report.total for report in reports if report.stage not in ("effects", "moves")}
    assert (totals == {None}) == (name in ("sequential", "early stop"))


def test_it_is_not_where_answers_are_remembered():
    result, reports = run(empirical(ROWS.round()), test="irt", draws=60)
    assert {report.total for report in reports} == {None}
    assert result.rows < result.rows_asked


def test_how_many_are_chosen_is_told_as_soon_as_it_is_known():
    result, reports = run(test="sequential", draws=200)
    chosen = [report.chosen for report in reports]
    assert chosen[0] is None
    assert chosen[-1] == result.chosen.sum() > 0


def test_a_meter_counts_rows_done_and_asked_for():
    reports = []
    meter = Meter(reports.append, 5)
    meter.stage("irt", 10)
    meter.count(requested=8, evaluated=3, deduplicated=0)
    meter.set_chosen(2)
    meter.count(requested=0, evaluated=1, deduplicated=4)
    assert (meter.rows, meter.asked) == (5 + 4, 5 + 8)
    assert reports == [Progress("irt", 3, 10), Progress("irt", 8, 10, 2)]
    meter.stage("effects", None)
    meter.count_evaluated(6)
    assert reports[-1] == Progress("effects", 6, None, 2)


@pytest.mark.parametrize("progress", [None, False])
def test_nobody_is_told_where_nobody_asked(progress, capsys):
    with reporting(progress) as report:
        assert report is silent
        report(Progress("irt", 1, 2))
    assert capsys.readouterr() == ("", "")


def test_a_function_is_called_as_it_is():
    with reporting(print) as report:
        assert report is print


def test_a_bar_is_drawn_on_standard_error(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    with reporting(True) as report:
        report(Progress("irt", 1, 2))
        report(Progress("irt", 2, 2, 7))
        report(Progress("effects", 1, None))
    out, error = capsys.readouterr()
    assert out == ""
    assert "irt" in error
    assert "7 chosen" in error


def test_a_sequential_test_says_how_much_is_about_to_come():
    _, reports = run(test="sequential", draws=2000, effects=None)
    drawing = [report for report in reports if report.stage == "sequential"]
    guessed = [report.left for report in drawing]
    assert guessed[0] is None  # nothing is drawn yet
    assert guessed[-1] is not None
    later = [report for report in drawing if report.left]
    left = np.array([drawing[-1].rows - report.rows for report in later])
    assert np.median(
        np.abs(np.log([(report.left + 1) / (rest + 1) for report, rest in zip(later, left, strict=True)]))
    ) < np.log(10)
    assert all(report.rows_per_second > 0 for report in drawing[1:])


def test_every_worker_says_what_it_has_done():
    _, reports = run(test="irt", draws=600, workers="threads:2", batch_rows=50)  # several tasks: one is done here
    states = reports[-1].workers
    assert 1 <= len(states) <= 2
    assert all(state.units > 0 and state.rows > 0 and state.seconds > 0 for state in states)
    assert all(not report.workers for report in run(test="irt", draws=60)[1])
