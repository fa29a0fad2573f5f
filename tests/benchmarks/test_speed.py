"""Speed: what is measured, on a small hypotheses; the real figures come from `python -m benchmarks speed`."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import butfor
from benchmarks import speed
from benchmarks.figures import Timed, markdown, record, write
from butfor import simulate
from butfor.evaluation.samplers import info_of


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("BUTFOR_ASSETS", raising=False)
        patch.setattr(speed, "REPEATS", 3)
        patch.setattr(speed, "DRAWS", 10)
        patch.setattr(speed, "table_cases", small_cases)
        patch.setattr(speed, "FIRST", {"control=False": ", control=False"})
        patch.setattr(speed, "FIRST_RUNS", 1)
        patch.setattr(speed, "one_shot", lambda: {**MEMORY})
        return speed.run(seed=1)


def small_cases(seed: int, _: Path) -> list[speed.Case]:
    bed = simulate.bed("few", seed)
    run = partial(speed._explained, bed, seed)
    return [speed.Case(name, bed.model, run, {"irt": most}) for name, most in (("few", 1e9), ("few again", 0.5))]


MEMORY = {
    "hypotheses": 10**6,
    "peak_bytes": 2 * 10**9,
    "before_bytes": 10**8,
    "seconds": 1.0,
    "target_bytes": 1_500_000_000,
    "met": False,
}


def test_overhead_is_a_ratio_of_one_run(figures: dict[str, Any]) -> None:
    first, second = figures["overhead"]
    for one in (first, second):
        assert one["ratio"] == pytest.approx(one["seconds"] / one["bare_seconds"])
        assert one["least"] <= one["ratio"] <= one["most"]
        assert one["ratio"] > 1
    assert (first["met"], second["met"]) == (True, False)


def test_a_first_result_is_that_of_a_fresh_process(figures: dict[str, Any]) -> None:
    (one,) = figures["first"]
    assert 0.1 < one["seconds"] <= one["most"] < 60
    assert one["met"] == (one["seconds"] <= speed.FIRST_TARGET)


def test_time_inside_a_model_adds_up_over_calls() -> None:
    watch = Timed(lambda rows: time.sleep(0.01) or rows.sum(axis=1))
    np.testing.assert_array_equal(watch(np.ones((2, 3))), [3, 3])
    watch(np.ones((2, 3)))
    assert 0.02 <= watch.seconds < 1
    assert watch.calls == 2
    assert watch.work < watch.seconds  # asleep it costs nothing


def test_a_timed_sampler_is_the_sampler_that_it_times() -> None:
    class Own:
        deterministic, listed, ignores_dependence = True, 3, True

        def __call__(self, inputs: list[str], *_: object) -> list[str]:
            return inputs

        def unfit(self, item: str) -> str | None:
            return "empty" if not item else None

    timed = Timed(Own())
    assert timed.info == replace(info_of(timed.inner), listed=0)  # only draws are timed
    assert (timed.unfit(""), timed.unfit("a"), Timed(len).unfit("")) == ("empty", None, None)
    assert repr(timed) == repr(timed.inner)


def test_markdown_says_what_was_missed(figures: dict[str, Any]) -> None:
    shown = markdown(figures)
    assert "| few | irt |" in shown
    assert "| 0.5 | **no** |" in shown
    assert "| 1,000,000 | 2,000,000,000 | 100,000,000 | 1 | 1,500,000,000 | **no** |" in shown


def test_write(figures: dict[str, Any], tmp_path: Path) -> None:
    path = write(record("speed", "python -m benchmarks speed --seed 1", {"seed": 1}, figures), tmp_path)
    assert path.name == "speed.json"
    written = json.loads(path.read_text())
    assert written["settings"]["seed"] == 1
    assert written["version"] == butfor.__version__
    assert written["command"].endswith("--seed 1")


def test_memory_is_of_a_fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "MEMORY_INPUTS", 50)
    before, after, seconds = speed.one_shot_peak()
    assert 1e6 < before <= after < 1e11
    assert seconds > 0


def test_a_failed_memory_run_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "false")
    with pytest.raises(butfor.ModelError, match="the memory run failed"):
        speed.one_shot()
