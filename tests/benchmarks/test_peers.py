"""Costs side by side: what is counted is what was asked; a process of its own each; the global question."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from benchmarks import peers
from benchmarks.attributions import ATTRIBUTIONS, Task, required, task_of
from benchmarks.figures import Timed, installed, markdown
from butfor.types import InputError


@pytest.fixture(scope="module")
def copies() -> Task:
    return task_of("copies", 0, 4)


def needs(package: str) -> None:
    if installed(package) is None:
        pytest.skip(f"{package} is not installed")


def test_rows_are_counted() -> None:
    counted = Timed(lambda rows: rows.sum(axis=1))
    counted(np.ones((3, 2)))
    counted(np.ones((4, 2)))
    assert counted.rows == 7


def test_more_inputs_than_the_bed_has_are_fresh_ones(copies: Task) -> None:
    many = task_of("copies", 0, 150)
    assert many.inputs.shape == (150, 24)
    assert many.truth is None
    assert copies.truth is not None
    assert not np.isin(copies.inputs, many.inputs).any()


def test_our_rows_are_those_that_the_model_saw(copies: Task) -> None:
    found = peers.measured(copies, "few-shot")
    assert found["rows"] >= copies.inputs.size * 11  # ten draws and the observed row
    assert found["seconds"] > 0


@pytest.mark.parametrize(
    ("name", "least"),
    [("LIME", 4 * 5000), ("SHAP kernel", 4 * 2048 * 20), ("SHAP kernel, as in the paper", 4 * 100 * 4)],
)
def test_peers_rows_are_counted(copies: Task, name: str, least: int) -> None:
    needs(ATTRIBUTIONS[name].package)
    assert peers.measured(copies, name)["rows"] >= least


def test_scores_of_a_weighted_sum_follow_its_weights(copies: Task) -> None:
    """sum w |x| is additive: every Shapley value is w (|x| - mean |x|), and unused columns have none."""
    needs("shap")
    weights, mean = copies.model.keywords["weights"], np.abs(copies.reference(20)).mean(axis=0)[:12]
    with warnings.catch_warnings(action="ignore"):
        scores = ATTRIBUTIONS["SHAP kernel, l1_reg off"].score(copies)
    assert np.abs(scores[:, 12:]).max() < 1e-6
    np.testing.assert_allclose(scores[:, :12], weights * (np.abs(copies.inputs[:, :12]) - mean), atol=1e-6)


def test_a_process_of_its_own_and_one_line_where_it_cannot_be(monkeypatch) -> None:
    found = peers.in_process("copies", "osft", 3, 0)
    assert found["rows"] > 0
    assert found["before"] > 10
    assert peers.in_process("copies", "no such test", 3, 0)["why"].startswith("failed: KeyError")
    monkeypatch.setattr(peers, "installed", lambda _: None)
    assert peers.in_process("copies", "LIME", 3, 0) == {"why": "lime is not installed"}


def test_what_was_slow_is_not_run_on_more(monkeypatch) -> None:
    monkeypatch.setattr(peers, "in_process", lambda bed, name, inputs, seed: {"rows": 1, "seconds": 9.0 * inputs})
    first, second = peers.side_by_side("copies", ("osft",), (100, 1000), 0)
    assert first["seconds"] == 900
    assert second["why"] == "not run: 100 took 900 s"


def test_ratios_come_from_one_run() -> None:
    rows = [
        {"bed": "independent-network", "method": name, "inputs": 100, "seconds": seconds}
        for name, seconds in (("LIME", 8.0), ("few-shot", 0.1), ("sequential", 1.0))
    ]
    (found,) = peers.ratios(rows)
    assert found["ratio"] == pytest.approx(80)
    assert found["met"]
    (missed,) = peers.ratios([{**row, "seconds": 1.0} for row in rows][:2])
    assert not missed["met"]


def test_the_tables_of_a_small_run() -> None:
    needs("shap")
    asked = {"beds": ("boosted-trees",), "methods": ("few-shot", "SHAP tree", "SHAP deep"), "sizes": (5,)}
    figures = peers.run(runs=0, **asked)
    shown = {row["method"]: row for row in figures["costs"]}
    assert set(shown) == {"few-shot", "SHAP tree"}  # a tree is no deep network
    assert shown["SHAP tree"]["rows"] is None
    assert "| boosted-trees | SHAP tree | none | 5 |" in markdown(figures)
    assert figures["versions"]["shap"]


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError, match="beds must be some of"):
        peers.run(beds=("few",))
    with pytest.raises(InputError, match="needs a network"):
        required(task_of("copies", 0, 3), "network")


def test_the_global_question(monkeypatch) -> None:
    names = ["scikit-learn permutation importance", "hidimstat CFI"]
    monkeypatch.setattr(peers, "ANSWERS", {name: peers.ANSWERS[name] for name in names})
    monkeypatch.setattr(peers, "installed", lambda package: None if package == "hidimstat" else "1")
    found, missing = peers.global_question(runs=2)
    assert found["tpr"] > 0.5
    assert found["fdr"] > 0  # it promises nothing
    assert missing["why"] == "hidimstat is not installed"


@pytest.mark.parametrize("name", ["hidimstat CFI", "hidimstat D0CRT, all rows", "knockpy, training rows"])
def test_other_packages_answer(monkeypatch, name: str) -> None:
    needs(peers.ANSWERS[name][1])
    monkeypatch.setattr(peers, "ANSWERS", {name: peers.ANSWERS[name]})
    (found,) = peers.global_question(runs=1)
    assert 0 <= found["fdr"] <= 1
    assert found["seconds"] > 0
