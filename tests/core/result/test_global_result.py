"""Global importance: hand-worked values, full enumeration, invariances, and every error message."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import butfor
from butfor.results.record import CheckRecord
from butfor.results.words import NO_VARIATION
from butfor.run import holdout as contrast
from butfor.tabular import from_values, gaussian
from butfor.tabular.global_importance import global_importance
from butfor.types import InputError, ReachWarning

NORMAL = from_values(lambda inputs, subset, draws, rng: rng.standard_normal((len(inputs) * draws, len(subset.index))))


def rows(count=120, width=4, seed=0):
    return np.random.default_rng(seed).normal(size=(count, width))


def linear(X):
    return np.asarray(X)[:, 0] + 0.5 * np.asarray(X)[:, 1]


def labelled(count=120):
    X = rows(count)
    return X, linear(X) + np.random.default_rng(1).normal(size=count)


class Classifier:
    """Three classes from the first column alone."""

    def __init__(self, classes=("a", "b", "c")):
        self.classes_ = np.array(classes)

    def predict_proba(self, X):
        scores = np.outer(np.asarray(X)[:, 0], [-2.0, 0.0, 2.0])
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def labels(self, X, rng):
        share = self.predict_proba(X).cumsum(axis=1)
        return self.classes_[(rng.random((len(X), 1)) > share).sum(axis=1)]


def test_holdout_finds_what_skill_rests_on():
    X, y = labelled()
    result = global_importance(linear, X, reference=NORMAL, y=y)
    assert result.chosen.tolist() == [True, True, False, False]
    assert result.record.test == "holdout"
    table = result.table
    pd.testing.assert_frame_equal(
        global_importance(linear, X, y, reference=NORMAL).table, table
    )  # scikit-learn's order
    assert_allclose(table.statistic, ((y - linear(X)) ** 2).sum(), rtol=1e-6)  # the same loss whatever is redrawn
    assert table.status.tolist() == ["tested", "tested", "no variation", "no variation"]
    assert table.p[2] == table.p[3] == 1.0
    # E (y - f(x~))^2 - E (y - f(x))^2 = 2 w^2 for independent normal features
    assert table.effect_low[0] < 2 < table.effect_high[0]
    assert table.effect_low[1] < 0.5 < table.effect_high[1]
    assert table.effect[2:].isna().all()


def test_a_feature_the_model_uses_but_the_label_does_not_follow_is_not_chosen():
    X = rows(300)
    y = X[:, 0] + np.random.default_rng(2).normal(size=300)
    result = global_importance(lambda X: X[:, 0] + X[:, 3], X, reference=NORMAL, y=y)
    assert result.chosen.tolist() == [True, False, False, False]
    assert abs(result.difference[3]) < 0.3 < 1 < result.difference[0]  # redrawn, it is noise as before


def test_log_loss_and_labels():
    X, model = rows(150), Classifier()
    y = model.labels(X, np.random.default_rng(2))
    result = global_importance(model, X, reference=NORMAL, y=y)
    assert result.importance.loss == "log"
    assert result.chosen.tolist() == [True, False, False, False]
    own = global_importance(
        model,
        X,
        reference=NORMAL,
        y=y,
        loss=lambda labels, outputs: -np.log(outputs[np.arange(len(labels)), np.searchsorted(["a", "b", "c"], labels)]),
    )
    assert_allclose(own.evidence.values, result.evidence.values)
    assert_allclose(own.table.effect[0], result.table.effect[0], rtol=1e-6)
    numbered = global_importance(model.predict_proba, X, reference=NORMAL, y=np.searchsorted(["a", "b", "c"], y))
    assert_array_equal(numbered.evidence.values, result.evidence.values)


def test_single_probability_with_log_loss():
    def model(X):
        return 1 / (1 + np.exp(-2 * np.asarray(X)[:, 0]))

    X = rows(150)
    y = np.random.default_rng(2).random(150) < model(X)
    as_log = global_importance(model, X, reference=NORMAL, y=y, loss="log")
    both = global_importance(lambda X: np.column_stack([1 - model(X), model(X)]), X, reference=NORMAL, y=y.astype(int))
    assert as_log.chosen.tolist() == [True, False, False, False]
    assert_allclose(as_log.table.effect[0], both.table.effect[0], rtol=1e-9)
    assert global_importance(model, X, reference=NORMAL, y=y).importance.loss == "squared"


def test_labels_may_have_columns_for_a_loss_of_ones_own():
    X, y = labelled()
    both = np.column_stack([y, np.ones(len(y))])
    result = global_importance(linear, X, reference=NORMAL, y=both, loss=lambda y, f: y[:, 1] * (y[:, 0] - f) ** 2)
    assert_array_equal(result.chosen, global_importance(linear, X, reference=NORMAL, y=y).chosen)


def test_contrast_against_a_foil():
    X = rows()
    X[:40, 2] += 3
    result = global_importance(lambda X: X.sum(axis=1), X, reference=NORMAL, alternative="greater")
    assert result.record.test == "contrast"
    assert result.chosen.tolist() == [False, False, True, False]
    assert result.table.effect_low[2] < 1 < result.table.effect_high[2]
    assert_allclose(result.table.statistic, X.sum(), rtol=1e-6)
    flipped = global_importance(lambda X: -X.sum(axis=1), X, reference=NORMAL, alternative="less")
    assert_array_equal(flipped.evidence.values, result.evidence.values)
    assert_allclose(flipped.table.effect[2], -result.table.effect[2], rtol=1e-6)


def test_two_sided_contrast_finds_departures_in_both_directions():
    X = rows()
    X[:30, 2] += 4
    X[30:60, 2] -= 4
    result = global_importance(lambda X: X.sum(axis=1), X, reference=NORMAL)
    assert result.record.alternative == "two-sided"
    assert result.chosen.tolist() == [False, False, True, False]
    assert not global_importance(lambda X: X.sum(axis=1), X, reference=NORMAL, alternative="greater").chosen.any()


def test_contrast_of_a_classifier_tests_the_predicted_class():
    X = rows()
    X[:, 0] += 2
    result = global_importance(Classifier(), X, reference=NORMAL)
    assert (result.record.target, result.record.alternative) == ("predicted", "greater")
    assert result.chosen[0]
    fixed = global_importance(Classifier(), X, reference=NORMAL, target="c", link="logit", alternative="greater")
    assert fixed.chosen[0]
    assert_allclose(fixed.table.effect[0], 4.0, atol=2.0)


def test_population_sampler_without_labels_says_that_it_cannot_find_anything():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(400, 5)) @ rng.normal(size=(5, 5))
    result = global_importance(lambda X: np.abs(X).sum(axis=1), X[300:], reference=gaussian(X[:300]))
    assert not result.chosen.any()
    assert [note.code for note in result.notes] == ["ordinary-data"]
    assert "look like reference rows" in result.summary()
    assert "y=" in result.summary(full=True)


def test_notes_when_nothing_is_chosen():
    X = rows(40, 12)
    noise = np.random.default_rng(5).normal(size=40)
    blind = global_importance(lambda X: X.sum(axis=1), X, reference=NORMAL, y=noise)
    assert "no-skill-alone" in [note.code for note in blind.notes]
    weak = global_importance(lambda X: X.sum(axis=1), X + 0.2, reference=NORMAL, alternative="greater").select(
        alpha=1e-4
    )
    assert "weak-data" in [note.code for note in weak.notes]


def test_same_bits_whatever_the_batch_and_whatever_else_is_tested():
    X, y = labelled()
    whole = global_importance(linear, X, reference=NORMAL, y=y)
    for batch_rows in (1, 7, 100_000):
        other = global_importance(linear, X, reference=NORMAL, y=y, batch_rows=batch_rows)
        pd.testing.assert_frame_equal(other.table, whole.table)
    alone = global_importance(linear, X, reference=NORMAL, y=y, subsets=["x1"])
    assert alone.evidence.values[0] == whole.evidence.values[1]
    assert alone.table.effect[0] == whole.table.effect[1]
    assert global_importance(linear, X, reference=NORMAL, y=y, seed=1).table.effect[0] != whole.table.effect[0]


def test_many_inputs_and_many_draws_are_taken_in_parts(monkeypatch):
    X, y = labelled(600)  # three blocks
    whole = global_importance(linear, X, reference=NORMAL, y=y, draws=50)
    monkeypatch.setattr(contrast, "GROUP_VALUES", 51)  # 64 inputs at a time
    parts = global_importance(linear, X, reference=NORMAL, y=y, draws=50)
    assert_allclose(parts.table.statistic, whole.table.statistic)
    assert_allclose(parts.difference, whole.difference)
    assert_array_equal(parts.chosen, whole.chosen)
    assert_array_equal(parts.effects.effect, whole.effects.effect)


def test_more_draws_than_a_round_holds():
    X, y = labelled(20)
    result = global_importance(linear, X, reference=NORMAL, y=y, draws=5000, subsets=["x0"])
    assert (result.evidence.draws == 5000).all()
    assert result.chosen[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_feature_without_weight_has_p_one(dtype):
    weights = np.random.default_rng(0).normal(size=(30, 40)).astype(dtype)
    weights[3] = 0
    X = rows(200, 30).astype(dtype)

    def network(X):
        return np.maximum(X @ weights, 0).sum(axis=1)

    result = global_importance(network, X, reference=NORMAL, y=network(X).astype(float), batch_rows=333, draws=5)
    assert result.evidence.values[3] == 1.0
    assert result.table.status[3] == "no variation"
    assert result.chosen.sum() == 29


def test_groups_of_columns():
    X, y = labelled()
    result = global_importance(linear, X, reference=NORMAL, y=y, subsets={"both": ["x0", "x1"], "rest": [2, 3]})
    assert result.table.subset.tolist() == ["both", "rest"]
    assert result.chosen.tolist() == [True, False]


def test_frames_keep_their_names_and_labels_their_order():
    X, y = labelled()
    frame = pd.DataFrame(X, columns=list("abcd"), index=np.arange(120)[::-1])
    seen = []

    def model(data):
        seen.append(list(data.columns))
        return linear(data.to_numpy())

    result = global_importance(model, frame, reference=NORMAL, y=pd.Series(y, index=frame.index))
    assert seen[0] == list("abcd")
    assert result.subset_names == tuple("abcd")
    with pytest.raises(InputError, match="different indexes"):
        global_importance(model, frame, reference=NORMAL, y=pd.Series(y))


def test_rows_are_counted():
    asked = []

    def model(X):
        asked.append(len(X))
        return linear(X)

    X, y = labelled(50)
    result = global_importance(model, X, reference=NORMAL, y=y, draws=3)
    assert result.rows == sum(asked) == 50 + 26 + 4 * 50 * 4 + int(result.chosen.sum()) * 50 * 21


def test_draws_that_repeat_are_asked_once():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(80, 3)).astype(float)
    y = linear(X) + rng.normal(scale=0.3, size=80)
    reference = rng.integers(0, 2, size=(200, 3)).astype(float)
    result = global_importance(linear, X, reference=butfor.tabular.empirical(reference), y=y, draws=50)
    assert result.chosen.tolist() == [True, True, False]
    assert result.rows <= 80 + 3 * 80 * 2  # two values of each feature, whatever the number of draws and effects


def test_progress_tells_both_stages():
    told = []
    X, y = labelled(50)
    global_importance(linear, X, reference=NORMAL, y=y, progress=told.append)
    assert [stage for stage, _ in itertools.groupby(report.stage for report in told)] == ["global", "effects"]
    assert all(report.rows <= report.total for report in told)


def test_another_level_without_new_draws():
    X, y = labelled()
    result = global_importance(linear, X, reference=NORMAL, y=y)
    strict = result.select(alpha=0.001, rule="holm")
    assert (strict.alpha, strict.rule, strict.guarantee.controls) == (0.001, "holm", "FWER")
    assert not strict.chosen.any()
    assert strict.tested.all()  # only bh may drop what does not vary
    with pytest.raises(InputError, match="rule='knockoff\\+' has no guarantee with test='holdout'"):
        result.select(rule="knockoff+")
    with pytest.raises(InputError, match="alpha must lie strictly between 0 and 1"):
        result.select(alpha=2)


def test_saved_and_read_back(tmp_path):
    X, y = labelled()
    result = global_importance(linear, X, reference=NORMAL, y=y)
    back = butfor.load(result.save(tmp_path / "r.butfor"))
    assert back.is_global
    pd.testing.assert_frame_equal(back.table, result.table)
    assert back.summary() == result.summary()
    assert str(back.guarantee) == str(result.guarantee)


def test_words():
    X, y = labelled()
    result = global_importance(linear, X, reference=NORMAL, y=y)
    assert repr(result) == "<butfor.Result: 2 of 4 subsets chosen>"
    assert "2 of 4 subsets chosen over 120 inputs (holdout randomisation test, squared loss; 20 draws" in (
        result.summary(full=True).replace("\n", " ")
    )
    assert "model was not fitted on them" in str(result.guarantee)
    shown = result._repr_html_()
    assert "mean rise of the squared loss (now " in shown
    assert " when a column is redrawn given the others" in shown
    assert "<b>Matter:</b> x0 " in shown
    described = json.loads(result.to_json())
    assert described["chosen"] == 2
    assert len(described["table"]) == 4
    foil = global_importance(linear, X + 3, reference=NORMAL, link=None, alternative="greater")
    assert "contrast with the reference, greater" in foil.summary(full=True)
    assert "exchangeable with draws from Q" in str(foil.guarantee)


def test_one_input_has_an_effect_without_interval():
    X = np.array([[50.0, 0.0]])
    result = global_importance(linear, X, reference=NORMAL, alternative="greater", draws=500, passes=9999)
    assert result.chosen[0]
    assert_allclose(result.effects.effect[0], 50, atol=3)
    assert np.isnan(result.effects.low[0])
    assert "x0" in result.summary()


def test_reach_is_told_before_drawing():
    X, y = labelled(20)
    with pytest.warns(ReachWarning, match="with 20 passes: no p-value is below 1/21"):
        result = global_importance(linear, X, reference=NORMAL, y=y, passes=20)
    assert (result.notes[0].code, result.notes[0].values["passes"]) == ("passes-limit", 20)
    wide = rows(10, 150)
    assert (
        global_importance(linear, wide, reference=NORMAL, y=wide[:, 0]).importance.passes == 1499
    )  # as many as 150 subsets need


X0, Y0 = labelled(20)
REFUSED = [
    ({"alpha": 1.5}, "alpha must lie strictly between 0 and 1, got 1.5"),
    ({"rule": "knockoff+"}, "rule must be one of 'bh', 'by', 'holm', 'bonferroni', got 'knockoff\\+'"),
    ({"draws": 0}, "draws must be a whole number of at least 1, got 0"),
    ({"passes": 0}, "passes must be a whole number of at least 1, got 0"),
    ({"seed": -1}, "seed must be a whole number"),
    ({"batch_rows": 0}, "batch_rows must be a whole number"),
    ({"alternative": "up"}, "alternative must be one of None, 'greater'"),
    ({"link": "probit"}, "link must be one of None, 'logit', 'log'"),
    ({"draws": 1}, "alternative='two-sided' needs draws=2 or more"),
    ({"loss": "squared"}, "loss needs labels; give them as y="),
    ({"target": "truth"}, "target='truth' is not for global_importance"),
    ({"target": "observed-class"}, "target='observed-class' is not for global_importance"),
    ({"target": 7}, "unknown target 7"),
    ({"link": "logit"}, "link='logit' needs probabilities"),
    ({"y": Y0, "link": "log"}, "link is for the contrast without labels, got link='log' with y"),
    ({"y": Y0, "target": 0}, "target is for the contrast without labels"),
    ({"y": Y0, "alternative": "less"}, "alternative is for the contrast without labels"),
    ({"y": Y0[:5]}, "y has 5 labels for 20 rows of data"),
    ({"y": 3.0}, "y has one value for 20 rows of data"),
    ({"y": np.full(20, 3.0)}, r"y is 3\.0 in all 20 rows, so nothing can be told about the model's skill"),
    ({"y": np.append(Y0[:-1], np.nan)}, "y has a missing value in row 19"),
    ({"y": ["a", "b"] * 10}, "loss='squared' needs y of shape \\(n,\\) and numeric"),
    ({"y": Y0, "loss": "hinge"}, "loss must be one of 'squared', 'log', got 'hinge'"),
    ({"y": Y0, "loss": "log"}, "loss='log' needs class probabilities"),
    ({"y": Y0, "loss": lambda y, f: ((y - f) ** 2).mean()}, "expected \\(20,\\): one number per row, not their mean"),
    ({"y": Y0, "loss": lambda y, f: (y - f) * np.inf}, "expected finite numbers"),
    ({"y": Y0, "loss": lambda y, f: (f - f.mean()) ** 2}, "it must look at each row alone"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_errors_say_what_to_do(arguments, message):
    with pytest.raises(InputError, match=message):
        global_importance(linear, X0, reference=NORMAL, **arguments)


def test_errors_about_class_labels():
    with pytest.raises(
        InputError, match=r"y has the label 'z', which the model does not know; it has \['a', 'b', 'c'\]"
    ):
        global_importance(Classifier(), X0, reference=NORMAL, y=["z", "a"] * 10)
    with pytest.raises(InputError, match="y has the label 0"):  # a position is no label where labels are known
        global_importance(Classifier(classes=(1, 2, 3)), X0, reference=NORMAL, y=[0, 1] * 10)
    with pytest.raises(InputError, match="loss='squared' needs a model with one output, this one has 3"):
        global_importance(Classifier(), X0, reference=NORMAL, y=["a", "b"] * 10, loss="squared")
    with pytest.raises(InputError, match="y is 'a' in all 20 rows"):
        global_importance(Classifier(), X0, reference=NORMAL, y=["a"] * 20)
    with pytest.raises(InputError, match="sampler must be a sampler"):
        global_importance(linear, X0, reference=3, y=Y0)
    with pytest.raises(InputError, match="20 different rows of data are too few to fit a sampler on; give 20 or more"):
        global_importance(linear, X0, reference=None, y=Y0)
    with pytest.raises(InputError, match="without labels compares the data with a reference; give reference data"):
        global_importance(linear, X0)
    with pytest.raises(InputError, match="the reference has 15 rows, too few to tell how far off"):
        global_importance(linear, rows(30), reference=rows(15))


def product_of_columns(rng, count):
    """x1 = x0 x2 + noise: no sampler that is linear or additive in the other columns draws it right."""
    X = rng.normal(size=(count, 4))
    X[:, 1] = X[:, 0] * X[:, 2] + 0.3 * X[:, 1]
    return X


def test_a_subset_on_which_the_sampler_fails_its_check_is_never_chosen(tmp_path):
    rng = np.random.default_rng(0)
    reference, X = product_of_columns(rng, 400), product_of_columns(rng, 300)
    y = X[:, 0] * X[:, 2] + X[:, 3] + rng.normal(size=300)  # x1 tells nothing that x0 and x2 do not
    seen = global_importance(lambda X: X[:, 1] + X[:, 3], X, reference=reference, y=y)
    assert (set(seen.check.verdicts), seen.chosen.tolist()) == ({"ok"}, [False, False, False, True])
    result = global_importance(lambda X: X[:, 1] + X[:, 3], X, sampler=gaussian(reference), y=y)
    assert dict(zip(result.check.subset_names, result.check.verdicts, strict=True))["x1"] == "off-manifold"
    assert result.evidence.values[1] < 0.01  # a false discovery, were it chosen
    assert result.chosen.tolist() == [False, False, False, True]
    assert result.table.status.tolist() == ["no variation", "not calibrated", "no variation", "tested"]
    assert result.table.effect.isna().tolist() == [True, True, True, False]
    assert np.isnan(result.table.p[1])
    assert result.table.why.tolist() == [
        NO_VARIATION,
        "not tested: its draws do not go with the other columns",
        NO_VARIATION,
        "",
    ]
    (note,) = [note for note in result.notes if note.code == "subsets-not-tested"]
    assert note.values == {"verdicts": {"x1": "off-manifold"}}
    assert note.severity == "warning"
    assert "Not tested: x1 (its draws do not go with the other columns)" in result.summary()
    assert "The sampler did not pass its check on x1: nothing is said of it." in map(str, result.guarantee.caveats)
    assert not result.select(alpha=0.5, rule="bonferroni").chosen[1]
    back = butfor.load(result.save(tmp_path / "r.butfor"))
    assert (back.rejected.tolist(), back.notes) == (result.rejected.tolist(), result.notes)


def test_what_a_failed_check_leaves_of_the_promise():
    X, y = labelled()
    result = global_importance(linear, X, reference=rows(100, seed=5), y=y)
    checked = CheckRecord(
        result.subset_names, ("ok",) * 4, False, "the check rejects it: all columns together too wide"
    )
    together = replace(result, check=checked)
    assert "check-of-all" in [caveat.code for caveat in together.guarantee.caveats]
    assert together.select(alpha=0.1).chosen.tolist() == result.chosen.tolist()
    partly = replace(result, check=CheckRecord(("x0", "x1"), ("ok", "too wide"), False, "the check rejects it"))
    assert "on x1: nothing is said of it. 2 subsets were not checked." in str(partly.guarantee)
    assert partly.select(alpha=0.1).chosen.tolist() == [True, False, False, False]
    none = replace(partly, check=replace(checked, verdicts=("too wide",) * 4)).select(alpha=0.1)
    assert "no-skill-alone" not in [
        note.code for note in none.notes
    ]  # it would say that the skill does not rest on them
    idle = replace(result, check=replace(checked, verdicts=("ok", "ok", "too wide", "ok")))
    assert "did not pass" not in str(idle.guarantee)  # x2 never varied


def test_columns_that_hide_each_other_are_named_whatever_else_was_chosen(tmp_path):
    rng = np.random.default_rng(2)

    def stones(count):
        size = rng.normal(size=count)
        noise = 0.01 * rng.normal(size=(2, count))
        return pd.DataFrame({"carat": size + noise[0], "x": size + noise[1], "colour": rng.normal(size=count)})

    reference, X = stones(300), stones(200)
    y = X.carat / 2 + X.x / 2 + X.colour + rng.normal(size=200)
    result = global_importance(lambda X: X["carat"] / 2 + X["x"] / 2 + X["colour"], X, reference=reference, y=y)
    assert result.table.subset[result.chosen].tolist() == ["colour", "carat, x"]
    assert result.table.resolution.tolist() == [1, 1, 1, 0]
    (note,) = [note for note in result.notes if note.code == "told-groups"]
    assert str(note).startswith("carat, x tell each other; none is chosen alone, together they matter")
    assert "and, separately, over its groups of columns" in str(result.guarantee)
    assert "1 of 3 columns and 1 of 1 group of columns chosen" in result.summary(full=True)
    back = butfor.load(result.save(tmp_path / "r.butfor"))
    assert back.notes == result.notes
    assert back.select(alpha=0.05).chosen.tolist() == result.select(alpha=0.05).chosen.tolist()
    alone = global_importance(
        lambda X: X["carat"] / 2 + X["x"] / 2 + X["colour"], X, reference=reference, y=y, subsets="columns"
    )
    assert alone.table.subset[alone.chosen].tolist() == ["colour"]
    (note,) = [note for note in alone.notes if note.code == "hidden"]
    assert 'subsets={"carat, x": ["carat", "x"]}' in str(note)
    together = global_importance(
        lambda X: X.sum(axis=1), X, reference=reference, y=y, subsets={"carat, x": ["carat", "x"]}
    )
    assert together.chosen.all()
    assert "hidden" not in [note.code for note in together.notes]


def test_more_columns_than_rows_is_refused_before_anything_is_fitted():
    def never(X):
        raise AssertionError("the model was asked")

    with pytest.raises(InputError, match="there are 60 columns and only 40 different rows"):
        global_importance(never, rows(40, width=60), np.arange(40.0))
    with pytest.raises(InputError, match="y is 1 in all 40 rows"):
        global_importance(never, rows(40), np.ones(40, int))


def test_columns_that_tell_each_other_are_tested_together_and_matter_most():
    """Diabetes: s1 to s5 are parts and ratios of one another, and s5 alone says nothing."""
    from sklearn.datasets import load_diabetes
    from sklearn.linear_model import RidgeCV

    X, y = load_diabetes(return_X_y=True, as_frame=True)
    train = np.arange(len(X)) % 2 == 0
    model = RidgeCV().fit(X[train], y[train])
    result = global_importance(model.predict, X[~train], y[~train])
    table = result.table.set_index("subset")
    assert table.chosen["s1, s2, s3, s4, s5"]
    assert not table.chosen[["s1", "s2", "s3", "s4", "s5"]].any()
    assert table.effect.idxmax() == "s1, s2, s3, s4, s5"
    assert "Matter: s1 + s2 + s3 + s4 + s5 together +" in result.summary()
    assert "together they matter, more than anything else" in result.summary(full=True)
