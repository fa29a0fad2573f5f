"""Public truth: what the generator plants, the oracle's draws, the scores, and one small cell from end to end."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import truth
from benchmarks.__main__ import main
from benchmarks.figures import installed
from benchmarks.tetrominoes import GROUNDS, NUGGET, SCENARIOS, SIDE, STRENGTH, Tetrominoes, moved, output, trained
from butfor import Subset
from butfor.simulate.tables import known_normal
from butfor.streams import stream

T, L = (np.array(rows) for rows in ([[1, 0], [1, 1], [1, 0]], [[1, 0], [1, 0], [1, 1]]))


def images(scenario, ground="white", count=400):
    world = Tetrominoes(scenario, ground)
    return world, *world.images(stream(0, "test", scenario, ground), count)


@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_signals_are_tetrominoes(scenario, ground):
    world, rows, labels, patterns = images(scenario, ground)
    assert rows.shape == patterns.shape == (400, SIDE**2)
    assert set(labels) == {0, 1}
    assert set((patterns != 0).sum(axis=1)) == {8 if scenario == "xor" else 4}
    assert set(world.planted(patterns).sum(axis=1)) == {4 if scenario == "rigid" else 8}
    assert (world.planted(patterns) | (patterns == 0)).all()


def test_places_and_signs():
    _, _, labels, patterns = images("linear")
    first, second = (patterns[labels == label][0].reshape(SIDE, SIDE) for label in (0, 1))
    np.testing.assert_array_equal(first[1:4, 1:3], T)
    np.testing.assert_array_equal(second[4:7, 5:7], L)
    _, _, labels, patterns = images("xor")
    signs = patterns.reshape(-1, SIDE, SIDE)[:, [1, 4], [1, 5]]  # the corner of each shape
    np.testing.assert_array_equal(signs[:, 0] == signs[:, 1], labels == 0)
    assert {tuple(one) for one in signs} == {(1, 1), (-1, -1), (1, -1), (-1, 1)}


def test_tetrominoes_turn_and_move():
    _, _, labels, patterns = images("rigid")
    boxes = set()
    for image in patterns[labels == 0].reshape(-1, SIDE, SIDE):
        row, column = np.argwhere(image).min(axis=0)
        high, wide = np.argwhere(image).max(axis=0) + 1 - (row, column)
        inside = image[row : row + high, column : column + wide]
        assert any(np.array_equal(inside, np.rot90(T, k)) for k in range(4))
        boxes.add((row, column, high))
    assert len(boxes) > 50  # of 84: 6 x 7 places upright, as many lying


@pytest.mark.parametrize("ground", GROUNDS)
def test_signal_strength_is_the_published_one(ground):
    """alpha times the normed signal to 1 - alpha times the normed background, whose norm is that of 64 variances 1."""
    for scenario in ("linear", "rigid", "xor"):
        world, _, _, patterns = images(scenario, ground)
        signal = world.with_patterns(np.zeros_like(patterns), patterns)
        alpha = STRENGTH[ground][scenario]
        np.testing.assert_allclose(np.linalg.norm(signal, axis=1), alpha / (1 - alpha) * SIDE)
    world, _, _, patterns = images("multiplicative", ground)
    ones = world.with_patterns(np.ones_like(patterns), patterns)
    assert set(np.round(ones.ravel(), 6)) == {1.0, round(1 - STRENGTH[ground]["multiplicative"], 6)}


def test_backgrounds_have_the_covariance_that_is_said():
    for ground in GROUNDS:
        world = Tetrominoes("linear", ground)
        rows = world.background(stream(0, "many", ground), 20_000)
        np.testing.assert_allclose(np.cov(rows.T), world.covariance, atol=0.06)
    assert world.covariance.trace() == pytest.approx(SIDE**2 * (1 + NUGGET**2))
    assert world.covariance[0, 1] > 0.9


def test_the_oracle_draws_from_the_conditional_distribution():
    """Against regression on the covariance, written out; and a redrawn background is a background."""
    world = Tetrominoes("linear", "correlated")
    values, rows = known_normal(world.covariance).values, world.background(stream(0, "rows"), 3)
    columns, all_ = np.array([9, 10]), np.arange(64)
    rest = np.setdiff1d(all_, columns)
    c = world.covariance
    slope = np.linalg.solve(c[np.ix_(rest, rest)], c[np.ix_(rest, columns)])
    expected = c[np.ix_(columns, columns)] - c[np.ix_(columns, rest)] @ slope
    drawn = values(rows, Subset("x", columns), 20_000, stream(0, "draws")).reshape(3, 20_000, 2)
    spread = np.sqrt(np.diag(expected))
    np.testing.assert_allclose(drawn.mean(axis=1), rows[:, rest] @ slope, atol=float(5 * spread.max() / 20_000**0.5))
    for one in drawn:
        np.testing.assert_allclose(np.cov(one.T), expected, atol=float(0.06 * expected.max()))
    many = world.background(stream(0, "many"), 20_000)
    many[:, columns] = values(many, Subset("x", columns), 1, stream(0, "again"))
    np.testing.assert_allclose(np.cov(many.T), c, atol=0.06)


@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_pixels_called_usual_are_distributed_as_in_the_background(scenario, ground):
    """Their standardised distance from the oracle's mean is a standard normal; that of a strong signal is not."""
    world, rows, _, patterns = images(scenario, ground, 4000)
    z = rows @ world.precision / np.sqrt(np.diag(world.precision))
    unusual = world.unusual(rows, patterns)
    if (~unusual).sum() > 1000:  # in smooth backgrounds a signal is felt nearly everywhere
        usual = z[~unusual]
        assert abs(usual.mean()) < 5 / len(usual) ** 0.5 + 0.01
        assert usual.std() == pytest.approx(1, abs=0.05)
    here = patterns != 0
    assert unusual[here].all()
    assert abs((z[here] ** 2).mean() - 1) > 0.15


def test_both_truths_of_a_linear_model():
    """By brute force: pixels with weights; not the generator's, which are two tetrominoes."""
    pytest.importorskip("sklearn", minversion="1.8", reason="before, l1_ratio was for another solver")
    cell, _, accuracy = truth.image_cell("linear", "white", "logistic", 0)
    assert accuracy > 0.85
    weights = cell.weights[0][:, 0]
    assert cell.truths["used"][:, abs(weights) > 0.05 * abs(weights).max()].all()
    assert not cell.truths["used"][:, weights == 0].any()
    assert (weights == 0).sum() > 40
    assert not cell.truths["tested"][~cell.truths["used"]].any()
    assert cell.truths["planted"].sum() == 16 * 8


def test_a_dense_network_stands_for_the_convolution_that_was_trained():
    pytest.importorskip("torch")
    world, rows, labels, _ = images("rigid", count=1000)
    weights = trained("CNN", world, 0)
    first = weights[0].reshape(SIDE, SIDE, 4, 6, 6)
    np.testing.assert_allclose(first[2:5, 3:6, :, 2, 3], first[:3, :3, :, 0, 0], atol=1e-5)
    assert not first[3:, :, :, 0, 0].any()
    assert ((output(rows, weights) > 0) == labels).mean() > 0.9


@pytest.mark.parametrize("name", truth.UNITS)
def test_unit_cases_use_what_they_say(name):
    cell, values, _ = truth.unit_cell(name, 0)
    planted, used, tested = (cell.truths[one] for one in ("planted", "used", "tested"))
    assert 15 < planted.sum() < 70
    np.testing.assert_array_equal(tested, planted & used)
    if name != "pertinent negatives":  # redraws hardly ever miss
        far = moved(cell.model, cell.inputs, values, stream(0, "brute"))
        np.testing.assert_array_equal(far > 1e-9 * far.max(), used)
    else:
        flipped = [np.where(np.arange(12) == j, 1 - cell.inputs, cell.inputs) for j in range(12)]
        far = np.stack([cell.model(rows) != cell.model(cell.inputs) for rows in flipped], axis=1)
        np.testing.assert_array_equal(far, used)


def test_a_switch_in_the_same_subset_makes_its_column_count():
    """Column 0 is cancelled where column 3 is 1, but not in redraws of both."""
    cells = (truth.unit_cell("conflict", seed)[0] for seed in range(20))
    cell = next(one for one in cells if (one.truths["planted"] & ~one.truths["tested"])[:, 0].any())
    for columns, expected in (([0], "tested"), ([0, 3], "planted")):
        result = truth.tested(cell, cell.sampler, {"a": columns})
        everything = SimpleNamespace(
            **{name: getattr(result, name) for name in ("hypotheses", "subset_names", "subset_of", "input_of")},
            chosen=np.ones_like(result.chosen),
        )
        share = 1 - cell.truths[expected][:, 0].mean()
        assert truth.judged(everything, cell)["tested"]["fdr"] == pytest.approx(share)


def test_scores_by_hand():
    scores = np.array([[3.0, -9.0, 1.0, 2.0], [0.0, 1.0, 2.0, 3.0]])
    true = np.array([[True, True, False, False], [False, False, False, True]])
    assert truth.precision_at_n(abs(scores), true) == 1.0
    assert truth.precision_at_n(scores, true) == 0.75
    assert np.isnan(truth.precision_at_n(scores, np.zeros_like(true)))
    ties = truth.precision_at_n(np.zeros((400, 4)), np.tile(true[0], (400, 1)))
    assert ties == pytest.approx(0.5, abs=0.06)  # no credit for the order of the columns


def test_closeness_by_hand():
    pytest.importorskip("scipy", minversion="1.13")
    on, off = np.array([[0, 0, 0, 2.0]]), np.array([[1.0, 0, 0, 0]])
    corner = np.array([[False, False, False, True]])
    assert truth.closeness(on, corner, 2) == 1.0
    assert truth.closeness(off, corner, 2) == pytest.approx(0.0)  # the whole diagonal
    assert truth.closeness(on + off / 2, corner, 2) == pytest.approx(0.8)


def test_rank_accuracy_is_that_of_quantus():
    if installed("quantus") is None:
        pytest.skip("quantus is not installed")
    from quantus import RelevanceRankAccuracy

    rng = np.random.default_rng(0)
    scores, true = rng.standard_normal((5, 64)), rng.random((5, 64)) < 0.2
    metric = RelevanceRankAccuracy(disable_warnings=True, display_progressbar=False)
    theirs = metric.evaluate_batch(a_batch=scores[:, None], s_batch=true[:, None])
    assert truth.precision_at_n(scores, true) == pytest.approx(float(np.mean(theirs)))


def test_patterns_are_near_zero_on_suppressors(monkeypatch):
    """x0 = signal + noise, x1 = noise, model x0 - x1: saliency is equal on both, the pattern is not."""
    rng = np.random.default_rng(0)
    signal, noise = rng.standard_normal((2, 3000))
    rows = np.column_stack([signal + noise, noise])
    cell = truth.Cell("two", 0, rows[:4], lambda x: x[:, 0] - x[:, 1], None, None, usual=rows)
    np.testing.assert_allclose(abs(truth.gradients(cell)), 1.0, atol=1e-6)
    monkeypatch.setattr(
        truth, "lime_weights", lambda one, _: np.tile([1.0, -1.0] * rows.std(axis=0), (len(one.inputs), 1))
    )
    pattern = truth.pattern_local(cell)
    assert abs(pattern[:, 1]).max() < 0.3 * abs(pattern[:, 0]).min()


def test_methods_of_the_global_question():
    """Those written here, on columns of which three matter and nothing depends on anything else."""
    from sklearn.ensemble import RandomForestRegressor

    rng = np.random.default_rng(0)
    x, rows = rng.standard_normal((2, 300, 8))
    y, response = (np.clip(one[:, :3], -2, 2).sum(axis=1) * 2 + rng.standard_normal(300) / 4 for one in (x, rows))
    forest = RandomForestRegressor(30, min_samples_leaf=3, random_state=0).fit(x, y)
    for method in (truth.ours, truth.sobol_cpi, truth.aico, truth.split_kci):
        chosen = method(forest, x, y, rows, response, 0)
        assert chosen[:3].all(), method
        assert chosen[3:].sum() <= 1, method


def test_one_small_cell_from_end_to_end(tmp_path, monkeypatch, capsys):
    peers = {name: truth.PEERS[name] for name in ("saliency", "chance")}
    for name, value in {"PEERS": peers, "UNITS": {"weights": truth.UNITS["weights"]}}.items():
        monkeypatch.setattr(truth, name, value)
    assert main(["truth", "--runs", "1", "--scenarios", "units", "--tables", "0", "--out", str(tmp_path)]) == 0
    assert "| weights | fitted, zoom |" in capsys.readouterr().out
    figures = json.loads((tmp_path / "truth.json").read_text())["figures"]
    assert [row["sampler"] for row in figures["errors"]] == ["oracle", "fitted", "fitted, zoom"]
    for row in figures["errors"]:
        assert row["fdr, tested"] <= 0.2
        assert row["tpr, tested"] > 0.4
    scores = {row["method"]: row for row in figures["scores"]}
    assert set(scores) == {"butfor, oracle", "butfor, fitted", *peers}
    assert scores["butfor, oracle"]["precision, tested"] > 0.7 > scores["chance"]["precision, tested"]
    assert scores["saliency"]["precision, used"] == 1.0
    assert figures["global"] == []


def test_an_unknown_scenario_is_refused(tmp_path, capsys):
    assert main(["truth", "--scenarios", "nothing", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("scenarios must be some of linear, ")
