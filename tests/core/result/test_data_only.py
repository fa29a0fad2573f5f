"""A result is data: nothing in it asks the model, and only counterfactuals that were not kept ask the sampler."""

import json

import numpy as np
import pandas as pd
import pytest

import butfor

RNG = np.random.default_rng(0)
REFERENCE = RNG.normal(size=(80, 3))
ROWS = RNG.normal([4.0, 0.0, 0.0], 1.0, size=(12, 3))
LEVELS, MASS = np.arange(-2.0, 3.0), np.array([1, 2, 4, 2, 1]) / 10
RUNS = {
    "sequential": {"test": "sequential", "draws": 60},
    "irt": {"test": "irt", "draws": 60},
    "irt two-sided": {"test": "irt", "draws": 60, "alternative": "two-sided"},
    "early stop": {"test": butfor.irt(60, early_stop=True)},
    "e-values": {"test": "irt", "draws": 60, "rule": "e-bh"},
    "osft": {"test": "osft"},
    "few-shot": {"test": "few-shot"},
}


class Counted:
    """Calls of a model or of a sampler, counted."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *given):
        self.calls += 1
        return self.function(*given)


class CountedList(Counted):
    """A sampler that lists what it draws; asking for the list counts, too."""

    def support(self, rows, subset):
        self.calls += 1
        return np.tile(LEVELS[:, None], (len(rows), 1, 1)), np.tile(MASS, (len(rows), 1))


def score(rows):
    return np.asarray(rows).sum(axis=1)


def redrawn(rows, subset, draws, rng):
    out = rows.loc[rows.index.repeat(draws)].reset_index(drop=True) if isinstance(rows, pd.DataFrame) else None
    out = np.repeat(rows, draws, axis=0) if out is None else out
    new = rng.choice(LEVELS, p=MASS, size=(len(rows) * draws, len(subset.index)))
    if isinstance(out, pd.DataFrame):
        out.iloc[:, subset.index] = new
    else:
        out[:, subset.index] = new
    return out


def framed(rows):
    return pd.DataFrame(rows, columns=["age", "dose", "weight"], index=[f"p{i}" for i in range(len(rows))])


class Run:
    """A run, and how often its model and its sampler were called since it was over."""

    def __init__(self, settings, frame=False, listed=False):
        self.model, self.sampler = Counted(score), (CountedList if listed else Counted)(redrawn)
        rows = framed(ROWS) if frame else ROWS
        self.result = butfor.explain(self.model, rows, self.sampler, **{"alpha": 0.3, **settings})
        assert self.model.calls > 0
        assert self.sampler.calls > 0
        self.model.calls = self.sampler.calls = 0

    @property
    def asked(self):
        return self.model.calls, self.sampler.calls


def views(result, folder):
    """Whatever a reader does with a result."""
    selected = result if result.record.delta is not None else result.select(alpha=0.4)
    path = result.save(folder / "r.butfor")
    return {
        "summary": result.summary(),
        "notes": result.notes,
        "guarantee": str(result.guarantee),
        "html": result._repr_html_(),
        "json": json.loads(result.to_json())["chosen"],
        "table": len(result.table),
        "repr": repr(result),
        "selected": selected.summary(),
        "loaded": butfor.load(path).summary(),
        "bound": result.bound() if result.evidence.kind == "p" else None,
    }


@pytest.mark.parametrize("frame", [False, True])
@pytest.mark.parametrize("name", RUNS)
def test_reading_a_result_asks_nobody(name, frame, tmp_path):
    run = Run(RUNS[name], frame)
    seen = views(run.result, tmp_path)
    assert run.asked == (0, 0)
    assert seen["loaded"] == seen["summary"]
    assert seen["json"] == int(run.result.chosen.sum())


@pytest.mark.parametrize("test", ["sequential", "irt"])
def test_nor_does_reading_one_with_exact_p_values(test, tmp_path):
    run = Run({"test": test}, listed=True)
    views(run.result, tmp_path)
    assert run.asked == (0, 0)


@pytest.mark.parametrize("frame", [False, True])
@pytest.mark.parametrize("name", ["sequential", "irt two-sided", "few-shot"])
def test_a_report_asks_nobody(name, frame, tmp_path):
    run = Run(RUNS[name], frame)
    path = run.result.report(tmp_path / "r.html")
    assert path.stat().st_size > 1000
    assert run.asked == (0, 0)
    butfor.load(run.result.save(tmp_path / "r.butfor")).report(tmp_path / "again.html")
    assert run.asked == (0, 0)


def test_neither_does_a_report_of_exact_p_values(tmp_path):
    run = Run({"test": "irt"}, listed=True)
    run.result.report(tmp_path / "r.html")
    assert run.asked == (0, 0)


@pytest.mark.parametrize("frame", [False, True])
@pytest.mark.parametrize("name", RUNS)
def test_counterfactuals_that_were_kept_ask_nobody(name, frame):
    run = Run(RUNS[name], frame)
    inputs, subsets = run.result.input_names, run.result.subset_names
    n = 1 if name == "osft" else 3
    for one in inputs:
        for subset in subsets:
            assert len(run.result.counterfactuals(one, subset, n=n)) == n
    assert run.asked == (0, 0)


@pytest.mark.parametrize("name", [name for name in RUNS if name not in ("osft", "few-shot")])
def test_counterfactuals_beyond_ask_the_sampler_once_and_never_the_model(name):
    run = Run(RUNS[name])
    assert len(run.result.counterfactuals(3, "x1", n=5)) == 5
    assert run.asked == (0, 1)


def test_so_do_those_of_a_list():
    run = Run({"test": "irt"}, listed=True)
    assert len(run.result.counterfactuals(3, "x1", n=2)) == 2
    assert run.asked == (0, 1)


def test_a_global_result_asks_nobody_either(tmp_path):
    model, sampler = Counted(score), Counted(redrawn)
    result = butfor.global_importance(model, ROWS, reference=sampler, y=score(ROWS), alpha=0.3)
    model.calls = sampler.calls = 0
    result.select(alpha=0.4).summary()
    butfor.load(result.save(tmp_path / "r.butfor")).summary()
    assert result.to_json()
    assert result._repr_html_()
    assert (model.calls, sampler.calls) == (0, 0)


def test_a_result_holds_no_model_and_no_way_to_ask_one():
    result = Run(RUNS["irt"]).result
    held = {name for name in vars(result) if callable(getattr(result, name))}
    assert held == set()
    assert not any(hasattr(result, name) for name in ("model", "look", "view", "show"))
    assert result.hypotheses.watch is None


def test_what_the_model_said_of_the_inputs_is_there():
    result = Run(RUNS["few-shot"]).result
    np.testing.assert_array_equal(result.outputs, score(ROWS)[:, None])
