"""The plausible sampler: conforms like any other, draws only what is plausible, and keeps p-values valid."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import butfor
from butfor.multimodal.plausible import plausible
from butfor.tabular import empirical, from_values, gaussian
from butfor.types import InputError, Subset

COVARIANCE = np.array([[1.0, 0.6, 0.0], [0.6, 1.0, 0.3], [0.0, 0.3, 1.0]])
X1 = Subset("x1", np.array([1]))
X02 = Subset("x0+x2", np.array([0, 2]))


def rows(count, seed=0):
    return np.random.default_rng(seed).multivariate_normal(np.zeros(3), COVARIANCE, size=count)


def inside(batch):
    """A score: high near the origin."""
    return -np.square(np.asarray(batch)).sum(axis=1)


def whole_rows(inputs, subset, draws, rng):
    """A user's sampler of whole rows."""
    out = np.repeat(np.asarray(inputs), draws, axis=0)
    out[:, subset.index] = rng.normal(size=(len(out), len(subset.index)))
    return out


def noise_values(inputs, subset, draws, rng):
    return rng.normal(size=(len(inputs) * draws, len(subset.index)))


def words(inputs, subset, draws, rng):
    """A sampler of texts: the subset's span becomes another word."""
    start, end = subset.index
    new = rng.choice(["good", "bad", "xqzw"], size=len(inputs) * draws)
    return [text[:start] + new[i * draws + k] + text[end:] for i, text in enumerate(inputs) for k in range(draws)]


def readable(texts):
    return np.array([0.0 if "xqzw" in text else 1.0 for text in texts])


SAMPLERS = {
    "gaussian": gaussian(rows(300)),
    "empirical": empirical(rows(300)),
    "values": from_values(noise_values),
    "whole rows": whole_rows,
}


def rng():
    return np.random.default_rng(7)


@pytest.mark.parametrize("inner", SAMPLERS.values(), ids=SAMPLERS)
@pytest.mark.parametrize("subset", [X1, X02], ids=lambda subset: subset.name)
@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize("draws", [0, 1, 40])
def test_conforms_like_any_sampler(inner, subset, count, draws):
    sampler = plausible(inner, inside, -4.0)
    inputs = rows(400, 1)
    inputs = inputs[inside(inputs) > -3][:count]
    before = inputs.copy()
    out = sampler(inputs, subset, draws, rng())
    assert isinstance(out, np.ndarray)
    assert out.shape == (count * draws, 3)
    np.testing.assert_array_equal(inputs, before)
    rest = np.setdiff1d(range(3), subset.index)
    np.testing.assert_array_equal(out[:, rest], np.repeat(inputs, draws, axis=0)[:, rest])
    assert (inside(out) >= -4).all()
    np.testing.assert_array_equal(out, sampler(inputs, subset, draws, rng()))
    np.testing.assert_array_equal(out, pickle.loads(pickle.dumps(sampler))(inputs, subset, draws, rng()))
    if hasattr(sampler, "values"):
        np.testing.assert_array_equal(out[:, subset.index], sampler.values(inputs, subset, draws, rng()))
        assert sampler.values(inputs[:0], subset, draws, rng()).shape == (0, len(subset.index))


def test_values_are_there_only_where_the_inner_sampler_has_them():
    assert hasattr(plausible(SAMPLERS["gaussian"], inside, 0), "values")
    assert not hasattr(plausible(whole_rows, inside, 0), "values")


def test_texts_are_filtered_too():
    sampler = plausible(words, readable, 0.5)
    out = sampler(["a fine film", "a long film"], Subset("fine", (2, 6)), 30, rng())
    assert len(out) == 60
    assert set(out[:30]) == {"a good film", "a bad film"} == set(out[30:])
    assert out == sampler(["a fine film", "a long film"], Subset("fine", (2, 6)), 30, rng())


def test_frames_stay_frames_and_the_score_sees_their_columns():
    frame = pd.DataFrame(rows(20, 2) / 4, columns=["a", "b", "c"])
    frame["b"] = frame["b"].clip(-0.15, 0.15)
    seen = []

    def score(batch):
        seen.append(list(batch.columns))
        return -np.abs(batch["b"])

    sampler = plausible(gaussian(frame), score, -0.2)
    out = sampler(frame, X1, 3, rng())
    assert list(out.columns) == ["a", "b", "c"]
    assert (out["b"].abs() <= 0.2).all()
    butfor.explain(lambda batch: batch["a"] + batch["b"], frame, sampler, test="osft", alpha=0.2)
    assert all(columns == ["a", "b", "c"] for columns in seen)


def test_columns_in_another_order_are_found_by_name():
    reference = pd.DataFrame(rows(300) + np.array([0, 5, 10]), columns=["a", "b", "c"])
    frame = pd.DataFrame(np.full((4, 3), [10.0, 5.0, 0.0]), columns=["c", "b", "a"])
    out = plausible(gaussian(reference), lambda batch: batch["c"], 9.0)(frame, Subset("c", np.array([0])), 20, rng())
    assert (out["c"] >= 9).all()
    assert out["c"].mean() < 13


def test_later_inputs_do_not_change_the_draws_of_earlier_ones():
    inputs = rows(30, 3) / 2
    sampler = plausible(SAMPLERS["gaussian"], inside, -3.0)
    few, all_of_them = sampler(inputs[:10], X1, 8, rng()), sampler(inputs, X1, 8, rng())
    np.testing.assert_array_equal(few, all_of_them[:80])


def test_draws_have_the_law_of_the_truncated_sampler():
    """N(0, 1) given |x| <= 1, by rejection: the distribution function is known."""
    from scipy.stats import kstest, truncnorm

    sampler = plausible(from_values(noise_values), lambda batch: -np.abs(batch[:, 1]), -1.0)
    drawn = sampler(np.zeros((4, 3)), X1, 1000, rng())[:, 1]
    assert kstest(drawn, truncnorm(-1, 1).cdf).pvalue > 1e-4


def test_the_note_has_the_share_of_plausible_draws():
    sampler = plausible(from_values(noise_values), lambda batch: -np.abs(batch[:, 1]), -1.0)
    (note,) = sampler.notes(np.zeros((64, 3)), [X1], 0)
    np.testing.assert_allclose(note.values["mean"], 0.683, atol=0.06)


def test_notes_tell_the_rate_and_the_inputs_that_would_not_pass():
    sampler = plausible(SAMPLERS["gaussian"], inside, -4.0)
    inputs = np.zeros((40, 3))
    assert len(sampler.notes(inputs, [X1, X02], 0)) == 1
    inputs[:3] = 2.5
    share, below = sampler.notes(inputs, [X1, X02], 0)
    assert (share.code, share.severity, share.values["subset"]) == ("plausible-share", "info", "x0+x2")
    assert 0 < share.values["least"] < share.values["mean"] < 1
    assert "of the counterfactuals drawn are plausible (least:" in str(share)
    assert (below.code, below.severity, below.values) == ("implausible-inputs", "warning", {"below": 3, "inputs": 40})
    assert str(below).startswith("3 of 40 inputs are not plausible themselves")


@pytest.mark.parametrize(("filtered", "valid"), [(True, True), (False, False)])
def test_p_values_stay_valid_under_the_filter(filtered, valid):
    """Inputs that pass, every null true: p-values of the filtered sampler are valid, those of the plain one are not."""
    truth = from_values(lambda inputs, subset, draws, rng: _conditional(inputs, int(subset.index[0]), draws, rng))

    def score(batch):
        return batch[:, 0] + batch[:, 1] - batch[:, 2]

    inputs = rows(6000, 4)
    inputs = inputs[score(inputs) >= 1.5][:600]
    sampler = plausible(truth, score, 1.5, tries=2000) if filtered else truth
    result = butfor.explain(
        lambda batch: batch.sum(axis=1),
        inputs,
        sampler,
        test="irt",
        draws=99,
        alternative="greater",
        effects=None,
    )
    p = result.table["p"].to_numpy()
    kept = all((p <= u).sum() <= binom.isf(1e-6, len(p), u) for u in (0.01, 0.05, 0.1, 0.2, 0.5))
    assert kept == valid
    if filtered:
        assert (p <= 0.2).mean() > 0.15  # valid, and not by being large


def _conditional(inputs, column, draws, rng):
    rest = np.delete(np.arange(3), column)
    slope = np.linalg.solve(COVARIANCE[np.ix_(rest, rest)], COVARIANCE[rest, column])
    spread = np.sqrt(1 - COVARIANCE[rest, column] @ slope)
    mean = np.repeat(inputs[:, rest] @ slope, draws)
    return (mean + spread * rng.normal(size=len(mean)))[:, None]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: plausible(3, inside, 0), "needs a sampler and a function"),
        (lambda: plausible(whole_rows, "high", 0), "needs a sampler and a function"),
        (lambda: plausible(whole_rows, inside, np.nan), "threshold must be a number, got nan"),
        (lambda: plausible(whole_rows, inside, 0, tries=0), "tries must be a whole number of at least 1"),
        (lambda: draw(plausible(whole_rows, inside, 1.0, tries=5)), "accepted 0 of 82 counterfactuals of subset 'x1'"),
        (lambda: draw(plausible(SAMPLERS["gaussian"], inside, 1.0)), "lower the threshold, raise tries=100"),
        (lambda: draw(plausible(whole_rows, lambda batch: batch, 0)), "one number for each of 4 counterfactuals"),
        (lambda: draw(plausible(whole_rows, lambda batch: np.full(len(batch), np.nan), 0)), "with NaN"),
        (lambda: draw(plausible(whole_rows, lambda batch: batch["b"], 0)), "score raised IndexError"),
        (lambda: draw(plausible(lambda *_: np.zeros((1, 3)), inside, 0)), "returned 1 counterfactuals .* expected 4"),
    ],
)
def test_refuses_with_a_sentence(call, said):
    with pytest.raises(InputError, match=said):
        call()


def test_says_if_the_input_itself_does_not_pass():
    with pytest.raises(InputError, match="nor does the input itself pass"):
        plausible(SAMPLERS["gaussian"], inside, -4.0, tries=3)(np.full((1, 3), 9.0), X1, 5, rng())


def draw(sampler):
    return sampler(np.zeros((2, 3)), X1, 2, rng())


def test_repr_names_the_parts():
    assert repr(plausible(SAMPLERS["gaussian"], inside, 2)) == (
        "plausible(gaussian(300 reference rows, 3 columns), inside >= 2)"
    )
