"""The contrast of `global_importance` on trees against the long way: every value enumerated, the model asked."""

import numpy as np
import pytest

from brute_force import every_value, outputs_of
from butfor import global_importance, tabular
from butfor.run.holdout import Deviations
from butfor.tabular import global_importance as fitted_contrast
from butfor.tabular.splice import bind_sampler
from tree_models import COLUMNS, asked, fitted, on_thresholds, reasons, tables

SUBSETS = {"first two": [0, 1], "x2": [2], "last two": [3, 4]}


def the_long_way(model, X, sampler, fixed_class=None):
    """What the contrast is made of: each input less its mean counterfactual, and their variance."""
    table, bound = bind_sampler(X, sampler)
    rows, ask = table.values, asked(model)
    observed = outputs_of(ask, table, rows)

    def deviations(hypotheses, *_):
        count, size = len(rows), len(hypotheses.subsets)
        gain, spread, classes = np.zeros((count, size)), np.zeros((count, size)), np.zeros((count, size), int)
        for s, subset in enumerate(hypotheses.subsets):
            drawn, mass = every_value(bound, rows, subset)
            every = np.repeat(rows[:, None], mass.shape[1], axis=1)
            every[:, :, subset.index] = drawn
            said = outputs_of(ask, table, every.reshape(-1, rows.shape[1])).reshape(*mass.shape, -1)
            best = np.maximum(observed, said.max(axis=1)).argmax(axis=1)
            classes[:, s] = best if fixed_class is None else fixed_class
            own = np.take_along_axis(observed, classes[:, [s]], axis=1)[:, 0]
            values = np.take_along_axis(said, classes[:, [s], None], axis=2)[..., 0]
            mean = (mass * values).sum(axis=1)
            gain[:, s] = own - mean
            spread[:, s] = (mass * (values - mean[:, None]) ** 2).sum(axis=1)
        return Deviations(gain, spread, classes, np.zeros(size), spread.max(axis=0) > 0)

    return deviations


def case(name, *, missing=False):
    model = fitted(name, missing=missing)
    X, reference = tables(inputs=30, rows=40, missing=missing)
    return model, on_thresholds(model, X), on_thresholds(model, reference)


@pytest.mark.parametrize("subsets", [None, SUBSETS])
@pytest.mark.parametrize("sampler", ["residual", "empirical", "neighbours"])
@pytest.mark.parametrize("name", ["hist", "hist of three", "forest of numbers"])
def test_the_contrast_is_that_of_the_long_way(name, sampler, subsets, monkeypatch):
    model, X, reference = case(name)
    made = getattr(tabular, sampler)(reference)
    result = global_importance(model, X, reference=made, subsets=subsets, check=False)
    assert result.record.exact == len(result.table)
    assert result.record.draws == 0
    assert result.rows <= 2_000  # the inputs and the self-check, nothing more
    assert any(str(note).startswith("Exact") for note in result.notes)
    monkeypatch.setattr(fitted_contrast, "deviations", the_long_way(model, X, made))
    long = global_importance(model, X, reference=made, subsets=subsets, check=False)
    for column in ("p", "effect", "effect_low", "effect_high"):
        np.testing.assert_allclose(result.table[column], long.table[column], rtol=1e-7, atol=1e-9, err_msg=column)
    assert (np.abs(result.table.effect) > 1e-3).any()
    assert result.table.p.nunique() > 1


def test_a_class_that_is_named_and_missing_values(monkeypatch):
    model, X, reference = case("hist of three", missing=True)
    made, options = tabular.empirical(reference), {"target": 1, "alternative": "two-sided", "check": False}
    result = global_importance(model, X, reference=made, **options)
    assert result.record.exact == COLUMNS
    monkeypatch.setattr(fitted_contrast, "deviations", the_long_way(model, X, made, fixed_class=1))
    long = global_importance(model, X, reference=made, **options)
    np.testing.assert_allclose(result.table.p, long.table.p, rtol=1e-7)
    np.testing.assert_allclose(result.table.effect, long.table.effect, rtol=1e-7, atol=1e-12)


def test_draws_agree_and_can_be_asked_for():
    model, X, reference = case("hist of numbers")
    made = tabular.residual(reference)
    exact = global_importance(model, X, reference=made, check=False)
    drawn = global_importance(model, X, reference=made, check=False, exact=False, draws=2_000)
    assert not drawn.record.exact
    assert drawn.rows > 100 * exact.rows
    np.testing.assert_allclose(drawn.table.effect, exact.table.effect, atol=0.02)
    np.testing.assert_allclose(drawn.table.p, exact.table.p, atol=0.02)


def test_what_cannot_be_read_is_drawn_and_labels_are(monkeypatch):
    model, X, reference = case("hist")
    monkeypatch.setattr("butfor.tabular.exact_trees.in_columns", lambda *_: {}["read"])
    result = global_importance(model, X, reference=tabular.residual(reference), check=False)
    assert not result.record.exact
    assert result.record.draws == 32
    assert reasons(result.notes) == ["raised"]
    with_labels = global_importance(model, X, y=np.arange(len(X)) % 2, check=False)
    assert not any("trees" in str(note) for note in with_labels.notes)
