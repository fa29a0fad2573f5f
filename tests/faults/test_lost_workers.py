"""A model or sampler that ends its process: the caller lives on, rows are named, and with skip they are untested."""

import ctypes
import os
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.evaluation import workers

RNG = np.random.default_rng(0)
REFERENCE, INPUTS = RNG.normal(size=(120, 3)), RNG.normal([3, 0, 0], 1, size=(20, 3))


class Ends:
    """A sum that ends the process it runs in where a column is beyond a limit; the caller's it raises in."""

    def __init__(self, limit, how="exit", column=1):
        self.limit, self.how, self.column, self.main = limit, how, column, os.getpid()

    def __repr__(self):
        return f"Ends({self.limit})"

    def __call__(self, rows):
        rows = np.asarray(rows)
        if (rows[:, self.column] > self.limit).any():
            if self.how == "raise":
                raise ValueError("no such patient")
            assert os.getpid() != self.main, "the caller would have ended"
            ctypes.string_at(0) if self.how == "segfault" else os._exit(1)
        return rows[:, 0] + 0.1 * rows[:, 1]


def run(model, inputs=INPUTS, **settings):
    settings = {"test": "irt", "draws": 60, "subsets": "columns", "on_error": "skip", "effects": None, **settings}
    return butfor.explain(model, inputs, butfor.tabular.gaussian(REFERENCE), **settings)


@pytest.fixture(scope="module", params=["processes:1", pytest.param("dask", marks=pytest.mark.slow)])
def engine(request):
    if request.param != "dask":
        yield request.param
        return
    distributed = pytest.importorskip("distributed")
    import dask

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("how", ["exit", "segfault"])
def test_an_explained_row_that_ends_the_process_is_untested(how, engine):
    inputs = INPUTS.copy()
    inputs[7, 1] = 50.0
    result = run(Ends(40, how), inputs, workers=engine)
    raised = run(Ends(40, "raise"), inputs)
    assert set(result.table[result.table.status == "untested"].input) == {7}
    pd.testing.assert_frame_equal(result.table, raised.table, check_exact=True)
    assert "ended the process" in str(result.notes)


@pytest.mark.filterwarnings("ignore")
def test_counterfactuals_that_end_the_process_cost_what_those_that_raise_cost(engine):
    limit = 2.9
    assert INPUTS[:, 1].max() < limit
    assert REFERENCE[:, 1].max() < limit
    result, raised = run(Ends(limit), workers=engine), run(Ends(limit, "raise"))
    assert 0 < (raised.table.status == "untested").sum() < 12
    pd.testing.assert_frame_equal(result.table, raised.table, check_exact=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("subsets", ["zoom", "columns"])
def test_reference_rows_that_end_the_process_are_left_out(subsets):
    reference = REFERENCE.copy()
    reference[[5, 60], 2] = 30.0
    tables = []
    for model, engine in ((Ends(20, column=2), "processes:1"), (Ends(20, "raise", column=2), 1)):
        settings = {"subsets": subsets, "on_error": "skip", "effects": None, "decide": lambda y: y > 2}
        result = butfor.explain(model, INPUTS, butfor.tabular.gaussian(reference), workers=engine, **settings)
        assert any("2 of 120 reference rows were left out" in str(note) for note in result.notes)
        tables.append(result.table)
    pd.testing.assert_frame_equal(*tables, check_exact=True)
    with pytest.raises(butfor.ModelError, match=r"no such patient|raised ValueError"):
        butfor.explain(model, INPUTS, butfor.tabular.gaussian(reference), **settings | {"on_error": "raise"})


@pytest.mark.filterwarnings("ignore:The dask cluster has no workers")
def test_without_skip_the_row_is_named(engine):
    inputs = INPUTS.copy()
    inputs[7, 1] = 50.0
    with pytest.raises(butfor.ModelError, match=r"the model ended the process .* on row 7 of the data"):
        run(Ends(40), inputs, workers=engine, on_error="raise")
    with pytest.raises(butfor.ModelError, match=r"ended the process .* counterfactual \d+ of input \d+, subset 'x1'"):
        run(Ends(2.9), workers=engine, on_error="raise")


@pytest.mark.filterwarnings("ignore")
def test_a_sampler_that_ends_the_process_costs_its_hypotheses():
    inner, main = butfor.tabular.gaussian(REFERENCE), os.getpid()

    def sampler(inputs, subset, draws, rng):
        if subset.name == "x2":
            assert os.getpid() != main
            os._exit(1)
        return inner(inputs, subset, draws, rng)

    asked = {"test": "irt", "draws": 60, "effects": None, "workers": "processes:1"}
    table = butfor.explain(Ends(99), INPUTS, sampler, on_error="skip", **asked).table
    assert set(table[table.status == "untested"].subset) == {"x2"}
    with pytest.raises(butfor.ModelError, match="the sampler ended the process that it ran in"):
        butfor.explain(Ends(99), INPUTS, sampler, **asked)


def test_a_worker_that_somebody_kills_once_is_replaced(tmp_path):
    class Once(Ends):
        def __call__(self, rows):
            self.calls = getattr(self, "calls", 0) + 1
            if self.calls == 5 and not (tmp_path / "killed").exists():
                (tmp_path / "killed").touch()
                os._exit(1)
            return super().__call__(rows)

    table = run(Once(99), workers="processes:1", on_error="raise").table
    assert (tmp_path / "killed").exists()
    pd.testing.assert_frame_equal(table, run(Ends(99)).table, check_exact=True)


@pytest.mark.slow
def test_a_cluster_without_workers_is_waited_for_but_not_for_ever(monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(workers, "LOOK", 0.1)
    monkeypatch.setattr(workers, "LEFT", 1.0)
    with (
        distributed.LocalCluster(n_workers=0, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        distributed.Client(cluster) as client,
    ):
        asked = {"workers": client, "on_error": "raise"}
        with (
            pytest.warns(UserWarning, match="has no workers; the run waits for one"),
            pytest.raises(butfor.InputError, match="has had no workers for 1 seconds; start some"),
        ):
            run(Ends(99), **asked)
        monkeypatch.setattr(workers, "LEFT", 60.0)
        later = threading.Timer(1.0, cluster.scale, [1])
        later.start()
        with pytest.warns(UserWarning, match="has no workers; the run waits for one"):
            table = run(Ends(99), **asked).table
        later.join()
    pd.testing.assert_frame_equal(table, run(Ends(99)).table, check_exact=True)


def test_importance_of_inputs_that_end_the_process():
    inputs = INPUTS.copy()
    inputs[7, 1] = 50.0
    asked = {"on_error": "skip", "sampler": butfor.tabular.gaussian(REFERENCE), "subsets": "columns"}
    tables = [
        butfor.global_importance(Ends(40, how), inputs, workers=engine, **asked).table
        for how, engine in (("exit", "processes:1"), ("raise", 1))
    ]
    pd.testing.assert_frame_equal(*tables, check_exact=True)


def where(rows):
    return np.full(len(rows), float(os.getpid())) + 0 * np.asarray(rows)[:, 0]


def pids(monkeypatch, count=1):
    seen = workers.asked_where(pool := workers.WorkerPool(workers.Processes(count)), where, None)(np.zeros((1, 1)))
    pool.workers.release()
    return seen[0]


def test_processes_stay_for_the_next_run_unless_the_users_code_changed(monkeypatch, tmp_path):
    first = pids(monkeypatch)
    assert pids(monkeypatch) == first != os.getpid()
    monkeypatch.setenv("SOMETHING", "new")
    second = pids(monkeypatch)
    assert second != first
    (tmp_path / "users_own.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    import users_own  # noqa: F401

    third = pids(monkeypatch)
    assert pids(monkeypatch) == third
    os.utime(tmp_path / "users_own.py", (time.time() + 5,) * 2)  # edited: processes would have the former code
    assert pids(monkeypatch) != third
    monkeypatch.delitem(sys.modules, "users_own")
