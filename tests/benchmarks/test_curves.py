"""Figure 2: the oracle's arithmetic, beds whose truth is about the model, and a tiny run that can be gone on with."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks import attributions, curves
from benchmarks.attributions import one_test, task_of
from benchmarks.beds import POPULATIONS, population
from benchmarks.figures import installed, markdown, rates
from butfor import simulate
from butfor.simulate import network, tables
from butfor.types import InputError, Subset

LEVELS = np.array([0.0, 0.1, 0.25, 0.5])


def test_oracle_by_hand() -> None:
    scores, truth = np.array([5.0, 4.0, 3.0, 2.0, 1.0]), np.array([True, True, False, True, False])
    # FDP after 1 to 5: 0, 0, 1/3, 1/4, 2/5
    np.testing.assert_allclose(curves.per_run([(scores, truth)], LEVELS), [[2 / 3, 2 / 3, 1, 1]])
    np.testing.assert_allclose(curves.on_mean_curve([(scores, truth)], LEVELS), [2 / 3, 2 / 3, 1, 1])


def test_equal_scores_are_not_told_apart() -> None:
    truth = np.array([True] * 5 + [False] * 5)
    (found,) = curves.per_run([(np.zeros(10), truth)], np.array([0.49, 0.5]))
    assert found.tolist() == [0, 1]
    split = np.where(truth, 1.0, 0.0)  # the fault: ties broken with an eye on the truth
    assert curves.per_run([(split, truth)], np.array([0.0]))[0, 0] == 1
    np.testing.assert_allclose(curves.on_mean_curve([(np.zeros(10), truth)], np.array([0.49, 0.5])), [0, 1])


def test_a_cut_for_each_run_finds_more_than_one_for_all() -> None:
    rng = np.random.default_rng(0)
    runs = []
    for shift in (0.5, 1.0, 3.0):
        truth = rng.random(500) < 0.3
        runs.append((rng.standard_normal(500) + shift * truth, truth))
    mean, each = curves.on_mean_curve(runs, curves.LEVELS), curves.per_run(runs, curves.LEVELS).mean(axis=0)
    assert (np.diff(mean) >= 0).all()
    assert (np.diff(each) >= 0).all()
    assert each[10] > mean[10]


def test_levels_are_rounded_in_favour_of_the_peer() -> None:
    ramp = curves.LEVELS.tolist()
    assert [curves.at_level(ramp, level) for level in (0.0, 0.1, 0.1001, 0.9)] == [0.0, 0.1, 0.11, 0.5]


@pytest.mark.parametrize("name", ["copies", "boosted-trees"])
def test_null_p_values_of_the_new_beds_are_valid(name: str) -> None:
    tasks = [task_of(name, seed) for seed in range(2)]
    found = [one_test(task, "exact" if task.lists_support else "irt", "greater") for task in tasks]
    truth = [task.truth.ravel() for task in tasks]
    nulls = np.concatenate([one.evidence.values[~true] for one, true in zip(found, truth, strict=True)])
    for level in (0.05, 0.1):
        assert (nulls <= level).sum() <= binom.isf(1e-6, len(nulls), level)
    powers = [rates(one.chosen, true) for one, true in zip(found, truth, strict=True)]
    assert min(one["tpr"] for one in powers) >= 0.5
    assert max(one["fdr"] for one in powers) <= 0.15


def test_a_copy_contradicts_its_column_but_is_never_chosen() -> None:
    task = task_of("copies", 0)
    chosen = one_test(task, "sequential").chosen.reshape(task.inputs.shape)
    assert chosen[:, : tables.COPY_PAIRS].sum() > 100
    assert not chosen[:, tables.COPY_PAIRS :].any()


def test_grid_draws_have_the_listed_law() -> None:
    law = tables.GridPairs(2, 0.5)
    inputs = np.array([[0.0, 1.0, 2.0, -1.0]])
    subset = Subset("x0", np.array([0]))
    values, mass = law.support(inputs, subset)
    drawn = law.values(inputs, subset, 50_000, np.random.default_rng(0))[:, 0]
    shares = (drawn[:, None] == values[0, :, 0]).mean(axis=0)
    assert np.abs(shares - mass[0]).max() < 5 * np.sqrt(0.25 / 50_000)
    assert abs(drawn.mean() - 0.5 * inputs[0, 2]) < 0.02
    with pytest.raises(InputError, match="one column at a time"):
        law.partner(Subset("both", np.array([0, 1])))


@pytest.mark.parametrize("name", [name for name in POPULATIONS if "network" not in name])
def test_populations_are_of_the_beds_kind_and_none_of_its_rows(name: str) -> None:
    bed = simulate.bed(name, 1)
    rows, plain = population(name, 1, 400, signals=True), population(name, 1, 400, signals=False)
    assert rows.shape[1] == plain.shape[1] == bed.inputs.shape[1]
    assert abs(rows.mean() - bed.inputs.mean()) < 0.25
    assert plain.mean() < rows.mean() - 0.3
    if name != "boosted-trees":  # whose values stand on a grid
        assert not np.isin(bed.inputs, rows).any()
    with pytest.raises(InputError, match="population knows"):
        population("few", 0, 3, signals=True)


def test_a_run_is_gone_on_with_and_plotted_again(tmp_path, monkeypatch) -> None:
    pytest.importorskip("lime", reason="lime is not installed")
    asked = {"beds": ("copies",), "methods": ("osft", "LIME"), "scores": tmp_path / "scores"}
    monkeypatch.setattr(curves, "_task", lambda bed, seed: task_of(bed, seed, 12))
    stages = []
    first = curves.run(runs=1, progress=lambda now: stages.append(now.stage), **asked)
    assert stages == ["copies", "copies: osft", "copies: LIME"]
    assert len(list((tmp_path / "scores" / "copies").glob("*.npz"))) == 2
    monkeypatch.setattr(curves, "computed", lambda *_: pytest.fail("computed again"))
    again = curves.run(runs=1, pictures=tmp_path, **asked)
    assert again["methods"] == first["methods"]
    (lime,) = [row for row in first["methods"] if row["method"] == "LIME"]
    assert lime["greater, 0.2"][0] > 0.3
    assert "| copies | LIME |" in markdown(first)
    paths = sorted(tmp_path.glob("*.svg"))
    assert [path.name for path in paths] == ["curves-model-light.svg"]
    assert all("<svg" in path.read_text(encoding="utf-8") for path in paths)


def test_a_missing_peer_is_one_line(monkeypatch) -> None:
    monkeypatch.setattr(curves, "installed", lambda _: None)
    figures = curves.run(runs=1, beds=("copies",), methods=("osft", "SHAP kernel"))
    assert figures["missing"] == {"SHAP kernel": "shap is not installed"}
    assert "missing, SHAP kernel: shap is not installed" in markdown(figures)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError, match="beds must be some of"):
        curves.run(beds=("few",))
    with pytest.raises(InputError, match="methods must be some of"):
        curves.run(methods=("Grad-CAM",))
    with pytest.raises(InputError, match="runs must be"):
        curves.run(runs=0)


def test_methods_apply_where_they_can_read_the_model() -> None:
    task = task_of("copies", 0)
    assert curves.computed(task, "SHAP tree") is None
    assert curves.computed(task, "Saliency") is None
    assert curves.computed(task, "exact") is None


def test_the_default_is_set_beside_each_peer() -> None:
    point = {"alpha": 0.1, "fdr": 0.055, "fdr_se": 0.0, "tpr": 0.5, "tpr_se": 0.0}
    levels = curves.LEVELS
    better, worse = np.where(levels >= 0.06, 0.7, 0.0).tolist(), np.where(levels >= 0.07, 0.9, 0.0).tolist()
    shared = {"bed": "copies", "alternative": "greater"}
    cells = [
        {**shared, "method": "sequential", "points": [point]},
        {**shared, "method": "LIME", "per_run": better, "mean_curve": worse},
        {**shared, "method": "SHAP kernel", "per_run": worse, "mean_curve": worse},
    ]
    (row,) = curves.beside_default(cells)
    assert (row["per_run"], row["per_run_by"], row["per_run_above"]) == (0.7, "LIME", ["LIME"])
    assert (row["mean_curve"], row["mean_curve_above"]) == (0.0, [])


def test_the_torch_network_is_the_network() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    rng = np.random.default_rng(0)
    shapes = [(25, 100), (100,), (100, 100), (100,), (100, 1), (1,)]
    weights = tuple(0.2 * rng.standard_normal(shape) for shape in shapes)
    rows = rng.standard_normal((7, 25))
    made = attributions.torch_network(weights)(torch.as_tensor(rows)).detach().numpy()[:, 0]
    np.testing.assert_allclose(made, network.predict(rows, weights), rtol=1e-12)


def test_l2x_finds_what_the_output_hangs_on() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    task = task_of("copies", 0)
    scores = attributions.l2x(task, rows=20_000)
    assert scores.shape == task.inputs.shape
    best = task.truth[np.arange(len(scores)), scores.argmax(axis=1)].mean()
    assert best > 2 * task.truth.mean()


def test_every_method_of_the_figure_is_known() -> None:
    assert set(curves.PEERS) <= set(attributions.ATTRIBUTIONS)
    assert set(curves.OURS) == set(attributions.TESTS)
    assert installed("numpy") == np.__version__
