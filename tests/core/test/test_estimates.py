"""Effects and gains from the first draws, and means over inputs, against plain loops (METHODS 6, 7, 15)."""

import math

import numpy as np
import pytest
from scipy.stats import t as student

from butfor.inference.effects import (
    Effects,
    class_interval,
    first_estimates,
    interval,
    mean_interval,
    own_changes,
    pooled_extremes,
)
from butfor.inference.statistics import Rounding, Target

RNG = np.random.default_rng(0)
OUTPUTS = RNG.dirichlet([1, 1, 1], size=(3, 7))  # inputs, versions, classes
INPUTS = np.arange(3)
EXACT = Rounding(0.0, 0.0)
FIXED, PREDICTED = Target("fixed", np.array([1])), Target("predicted")
MASS = RNG.dirichlet(np.ones(6), size=3)
MASS[0, 0] = 0.0


def class_of(target, outputs):
    """The class whose output effects are of: the fixed one, or the one that the input itself has."""
    return 1 if target is FIXED else int(np.argmax(outputs[0]))


def own_numbers(outputs, weights):
    """Of each version the output of the class it has itself, less the mean output of that class over all versions."""
    draws = len(outputs) - 1
    mean = [sum(w * row[c] for w, row in zip(weights, outputs[1:], strict=True)) for c in range(3)]
    middle = [(outputs[0][c] + draws * mean[c]) / (draws + 1) for c in range(3)]
    return [row[np.argmax(row)] - middle[np.argmax(row)] for row in outputs]


@pytest.mark.parametrize("mass", [None, MASS / 2], ids=["drawn", "listed"])
@pytest.mark.parametrize(("target", "averaged"), [(FIXED, FIXED), (PREDICTED, FIXED), (PREDICTED, PREDICTED)])
def test_first_estimates_are_those_of_a_plain_loop(mass, target, averaged):
    found = first_estimates(OUTPUTS, mass, INPUTS, target, averaged, None, EXACT)
    for i, outputs in enumerate(OUTPUTS.tolist()):
        weights = [1 / 6] * 6 if mass is None else (mass[i] / mass[i].sum()).tolist()
        shown = [row[class_of(target, outputs)] for row in outputs]
        gaps = [shown[0] - value for value in shown[1:]]
        effect = sum(w * gap for w, gap in zip(weights, gaps, strict=True))
        half = student.ppf(0.975, 5) * np.std(gaps, ddof=1) / math.sqrt(6) if mass is None else 0.0
        numbers = own_numbers(outputs, weights) if averaged is PREDICTED else [row[1] for row in outputs]
        apart = [numbers[0] - value for value in numbers[1:]]
        gain = sum(w * gap for w, gap in zip(weights, apart, strict=True))
        spread = sum(w * (gap - gain) ** 2 for w, gap in zip(weights, apart, strict=True))
        np.testing.assert_allclose(found[:, i], [effect, effect - half, effect + half, gain, spread])


def test_one_draw_has_an_effect_and_no_interval():
    effect, low, high, gain, spread = first_estimates(OUTPUTS[:, :2], None, INPUTS, FIXED, FIXED, None, EXACT)
    np.testing.assert_allclose(effect, OUTPUTS[:, 0, 1] - OUTPUTS[:, 1, 1])
    assert np.isnan([low, high]).all()
    np.testing.assert_array_equal(gain, effect)
    assert not spread.any()


def test_draws_that_differ_by_rounding_alone_have_no_effect():
    near = np.repeat(OUTPUTS[:, :1], 3, axis=1) + np.array([0.0, 1e-9, -1e-9])[None, :, None]
    found = first_estimates(near, None, INPUTS, FIXED, FIXED, None, Rounding(0.0, 1e-8))
    assert not found[[0, 3, 4]].any()
    assert not own_changes(near, INPUTS, FIXED, None, Rounding(0.0, 1e-8)).any()


def test_changes_are_of_the_class_that_the_input_has():
    found = own_changes(OUTPUTS, INPUTS, PREDICTED, None, EXACT)
    best = OUTPUTS[:, 0].argmax(axis=1)
    for i in range(3):
        np.testing.assert_allclose(found[i], OUTPUTS[i, 0, best[i]] - OUTPUTS[i, 1:, best[i]])


def test_the_mean_over_inputs_has_students_interval():
    gains = RNG.normal(size=(5, 4))
    chosen = np.array([True, False, True, False])
    found = mean_interval(gains, chosen)
    half = student.ppf(0.975, 4) * gains.std(axis=0, ddof=1) / math.sqrt(5)
    np.testing.assert_allclose(found.effect[chosen], gains.mean(axis=0)[chosen])
    np.testing.assert_allclose(found.low[chosen], (gains.mean(axis=0) - half)[chosen])
    np.testing.assert_allclose(found.high[chosen], (gains.mean(axis=0) + half)[chosen])
    assert np.isnan([found.effect[~chosen], found.low[~chosen]]).all()
    one = mean_interval(gains[:1], chosen)
    assert np.isfinite(one.effect[chosen]).all()
    assert np.isnan(one.low[chosen]).all()


def test_normal_draws_have_at_least_students_interval_around_the_effect():
    values = np.concatenate([[[3.0], [0.0]], RNG.normal(size=(2, 40))], axis=1)
    effect, low, high = interval(values, 0.9)
    half = student.ppf(0.95, 39) * values[:, 1:].std(axis=1, ddof=1) / math.sqrt(40)
    np.testing.assert_allclose(effect, values[:, 0] - values[:, 1:].mean(axis=1))
    assert (low <= effect - half + 1e-12).all()
    assert (high >= effect + half - 1e-12).all()
    assert (high - low < 6 * half).all()
    alone = interval(np.array([[2.0, 0.5]]))  # one draw: its value and the observed one are all there is
    assert [end.item() for end in alone[:1]] == [1.5]
    assert alone[1].item() < 1.5 <= alone[2].item() + 1e-12


def test_the_same_weights_serve_every_input_and_others_every_block_of_draws():
    from butfor.inference import effects

    first, second = effects._weights(1, 8), effects._weights(2, 8)
    assert (first == effects._weights(1, 8)).all()
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.05


def test_pooled_extremes_are_the_nearer_of_two_scales():
    values = np.array([[9.0, 0, 1, 2, 3, 4], [9.0, 0, 10, 20, 30, 140]])  # medians 2 and 20, quartiles 2 and 20 apart
    low, high = pooled_extremes(values)
    # the largest gap of all: 120 upwards, or 120 / 20 = 6 widths; downwards 20, or 1 width
    assert high.tolist() == [2 + 12, 20 + 120]
    assert low.tolist() == [0, 0]


def test_pooled_extremes_of_many_inputs_leave_the_largest_out():
    values = np.tile([9.0, 0, 1, 2, 3, 4], (11, 1))
    values[0, 1:] = [0, 1, 2, 3, 104]
    assert pooled_extremes(values)[1].tolist() == [4.0] * 11  # of 11 inputs the second largest


def test_an_interval_of_a_class_is_that_of_its_outputs():
    classes = np.array([0, 2, 1])
    values = np.stack([OUTPUTS[i, :, c] for i, c in enumerate(classes)])
    expected = interval(values, extremes=pooled_extremes(values))
    np.testing.assert_array_equal(class_interval(OUTPUTS, classes, None), expected)


def test_only_what_has_no_width_is_widened_and_no_interval_leaves_the_ends():
    effects = Effects(np.array([0.5, 0.5, 0.2]), np.array([0.5, 0.1, -2.0]), np.array([0.5, 0.9, 3.0]))
    found = effects.widened(np.array([0.3, 0.0, 0.0]), np.array([0.6, 1.0, 1.0]), None)
    assert (found.low.tolist(), found.high.tolist()) == ([0.3, 0.1, -2.0], [0.6, 0.9, 3.0])
    bounded = effects.widened(np.array([0.7, 0.0, 0.0]), np.full(3, np.nan), np.array([[-1.0] * 3, [1.0] * 3]))
    assert (bounded.low.tolist(), bounded.high.tolist()) == ([0.5, 0.1, -1.0], [0.5, 0.9, 1.0])


def test_effects_of_the_draws_that_chose_are_left_out():
    effects = Effects(np.ones(3), np.zeros(3), 2 * np.ones(3), np.array([True, False, False]))
    found = effects.without(np.array([True, True, False]))
    np.testing.assert_array_equal(found.effect, [1, np.nan, 1])
    np.testing.assert_array_equal(found.low, [0, np.nan, 0])
    assert effects.without(np.array([True, False, False])) is effects
