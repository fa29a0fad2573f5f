"""The negative control: rows of the reference's own kind, by samplers that have not seen them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.inference.statistics import Target
from butfor.run.control import SEEN_Z, calibrated, seen_by_model
from butfor.tabular import residual
from butfor.tabular.explain import _told_apart, hold_out
from butfor.tabular.splice import TableSampler


def rows_of(rng, count):
    common = rng.normal(size=(count, 1))
    return common + 0.7 * rng.normal(size=(count, 4))


def model(rows):
    return rows @ np.array([1.0, -0.5, 0.5, 0.2])


class Narrow:
    """The conditional of a sampler, but that column 1 scatters half as much as it should."""

    takes_missing = True
    changes_subset_only = True
    calibrated = True

    def __init__(self, conditional):
        self.conditional = conditional

    def values(self, inputs, subset, draws, rng):
        drawn = self.conditional.values(inputs, subset, draws, rng)
        if subset.index.tolist() != [1]:
            return drawn
        middle = drawn.reshape(len(inputs), draws, 1).mean(axis=1, keepdims=True)
        return (middle + 0.5 * (drawn.reshape(len(inputs), draws, 1) - middle)).reshape(-1, 1)


def spoilt(table_or_reference):
    good = (
        residual(table_or_reference)
        if isinstance(table_or_reference, np.ndarray)
        else residual(table_or_reference.values)
    )
    return TableSampler(Narrow(good.conditional), "spoilt", good.reference, refit=spoilt)


def test_rows_are_held_out():
    for rows, share in ((20, 2), (100, 2), (499, 2), (500, 3), (3000, 3)):
        held, kept = hold_out(rows, np.random.default_rng(0))
        assert not set(held) & set(kept)
        assert len(held) == rows // share
        assert len(held) + len(kept) == rows


def test_rows_of_a_cluster_are_held_out_together():
    clusters = np.repeat([7, 3, 9, 1, 4], [30, 1, 20, 40, 9])
    for seed in range(10):
        held, kept = hold_out(100, np.random.default_rng(seed), clusters)
        assert held.size
        assert kept.size
        assert not set(clusters[held]) & set(clusters[kept])


def test_a_good_sampler_passes_and_the_result_says_so():
    rng = np.random.default_rng(0)
    result = butfor.explain(model, rows_of(rng, 60), rows_of(rng, 200))
    assert result.control.rows == 60  # as many as there are inputs, so that it costs what the run costs
    assert result.control.calibrated.all()
    assert not result.control.chosen.any()
    assert "Control: the same test on 60 held-out reference rows finds nothing" in result.summary()


def test_a_sampler_that_is_too_narrow_is_never_chosen_from():
    rng = np.random.default_rng(1)
    reference = rows_of(rng, 300)
    inputs = rows_of(rng, 30) + np.array([0, 3.0, 0, 0])
    result = butfor.explain(model, inputs, spoilt(reference), subsets="columns", rule="bh")
    assert result.control.calibrated.tolist() == [True, False, True, True]
    assert not result.chosen[result.table.subset == "x1"].any()
    assert (result.table.status[result.table.subset == "x1"] == "not calibrated").all()
    assert "x1" in str(result.guarantee)


def test_without_it_the_guarantee_says_so():
    rng = np.random.default_rng(0)
    result = butfor.explain(model, rows_of(rng, 5), rows_of(rng, 100), control=False)
    assert result.control is None
    assert "was not checked on rows of the reference" in str(result.guarantee)


def test_a_sampler_of_the_users_own_has_none():
    def noise(inputs, subset, draws, rng):
        rows = np.repeat(inputs, draws, axis=0)
        rows[:, subset.index] = rng.normal(size=(len(rows), len(subset.index)))
        return rows

    result = butfor.explain(model, np.zeros((3, 4)), noise)
    assert result.control is None
    assert "not checked" not in str(result.guarantee)


@pytest.mark.parametrize(("share", "expected"), [(0.05, True), (0.3, False)])
def test_the_verdict_is_binomial(share, expected):
    p = np.ones((200, 3))
    p[: int(200 * share), 1] = 0.01
    assert calibrated(p).tolist() == [True, expected, True]


def test_good_subsets_are_seldom_called_wrong():
    rng = np.random.default_rng(0)
    wrong = sum((~calibrated(rng.random((200, 30)))).sum() for _ in range(100))
    assert wrong <= 4  # one in a hundred runs, by Bonferroni


def test_other_columns_orders_and_types_go_through_it():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"a": rng.normal(size=150), "kind": rng.choice(["x", "y", "z"], 150), "b": rng.integers(0, 9, 150)}
    )
    seen = []

    def f(rows):
        seen.append((tuple(rows.columns), str(rows.dtypes["kind"])))
        return rows["a"] + (rows["kind"] == "x") + rows["b"]

    inputs = frame.iloc[:6][["b", "kind", "a"]]
    result = butfor.explain(f, inputs, frame)
    assert set(seen) == {(("b", "kind", "a"), str(frame.dtypes["kind"]))}
    assert result.control.rows == 40


def by_sex(rng, count):
    """Columns age, sex, and hb, whose slope on age differs by sex."""
    age, sex = rng.normal(size=count), (rng.random(count) < 0.5).astype(float)
    return np.column_stack([age, sex, age * np.where(sex > 0, 1.0, -0.4) + rng.normal(size=count)])


def additive(rows):
    """A sampler that knows straight lines only, and can be fitted again."""
    return replace(butfor.tabular.gaussian(rows), refit=lambda table: additive(table.values))


def test_draws_that_do_not_follow_the_other_columns_are_never_judged():
    rng = np.random.default_rng(0)
    result = butfor.explain(
        lambda rows: rows[:, 2],
        by_sex(rng, 30),
        additive(by_sex(rng, 600)),
        subsets="columns",
        decide=lambda outputs: outputs > 0,
        sufficient=True,
    )
    hb = result.table[result.table.subset == "x2"]
    assert not result.control.calibrated[2]
    assert result.control.told_by[2] in (0, 1)
    assert not (hb.chosen | hb.necessary | hb.sufficient).any()
    assert (hb.flip_low == 0).all()
    assert (hb.flip_high == 1).all()
    assert not result.features.chosen[result.features.subset == "x2"].any()
    assert "The draws of x2 do not follow how it depends on x" in str(result.guarantee)


def test_the_control_takes_no_more_model_rows_than_the_run_or_2000():
    rng = np.random.default_rng(0)
    reference, inputs = rows_of(rng, 300), rows_of(rng, 100)
    for count in (1, 10, 100):
        result = butfor.explain(model, inputs[:count], reference)
        assert result.rows == result.rows.run + result.rows.control
        assert result.rows <= 2 * result.rows.run + 2_000
        assert f"{result.rows.control:,} of them for the control" in result.summary(full=True)


def test_a_model_that_knows_the_reference_is_told(tmp_path):
    rng = np.random.default_rng(0)
    train, fresh = rows_of(rng, 200), rows_of(rng, 200)
    known = {row.tobytes() for row in train}

    def remembers(rows):
        return model(rows) - 3.0 * np.array([row.tobytes() in known for row in np.ascontiguousarray(rows)])

    seen, unseen = (butfor.explain(remembers, rows_of(rng, 40), reference) for reference in (train, fresh))
    codes = [[note.code for note in result.notes] for result in (seen, unseen)]
    assert ["reference-seen-by-model" in code for code in codes] == [True, False]
    root = seen.table[seen.table.resolution == 0]
    assert not root.chosen.any()
    assert (root.status == "not judged").all()
    assert not seen.features.chosen.any()
    assert seen.control.calibrated.all()  # its draws are fair: it is the model that tells them
    seen.save(tmp_path / "result.butfor")
    loaded = butfor.load(tmp_path / "result.butfor")
    assert (loaded.rows, loaded.rows.control) == (seen.rows, seen.rows.control)
    assert loaded.control.conditional_p.tolist() == seen.control.conditional_p.tolist()


def redrawn(rng, memory=0.0, shift=0.0):
    """Rows, eight redrawn versions of each, and outputs of a model that adds `memory` (n,) at the rows themselves."""
    rows = rng.normal(size=(150, 9, 3))
    rows[:, 1:] += shift  # draws that are not fair
    outputs = np.sin(rows[:, :, 0]) + rows[:, :, 1] ** 2
    outputs[:, 0] += memory
    return rows, outputs[:, :, None]


def seen_share(memory=lambda rng: 0.0, shift=0.0, runs=100):
    """The share of runs that tell, as a run does: not where trees tell redrawn rows from real ones."""
    told = []
    for rng in map(np.random.default_rng, range(runs)):
        rows, outputs = redrawn(rng, memory(rng), shift)
        told.append(not _told_apart(rows, rng) and abs(seen_by_model(rows, outputs, Target("output"), rng)) > SEEN_Z)
    return np.mean(told)


def test_fresh_rows_are_rarely_taken_for_rows_that_the_model_knows():
    assert seen_share() <= 0.05


def test_draws_that_are_off_the_data_are_seldom_taken_for_memory_of_a_smooth_model():
    outputs = np.array([redrawn(np.random.default_rng(seed), shift=0.5)[1][:, :, 0] for seed in range(100)])
    gaps = outputs[:, :, 0] - outputs[:, :, 1:].mean(axis=2)
    alone = np.mean(np.abs(gaps.mean(axis=1)) > SEEN_Z * gaps.std(axis=1) / np.sqrt(gaps.shape[1]))
    assert alone > 0.8  # by the mean difference alone
    assert seen_share(shift=0.5) < alone / 4


@pytest.mark.parametrize("kind", ["one side", "both sides"])
def test_memory_is_told_of_one_kind_and_of_several(kind):
    def memory(rng):
        return 0.5 * (np.ones(150) if kind == "one side" else rng.choice([-1.0, 1.0], size=150))

    assert seen_share(memory, runs=40) >= 0.9


def test_differences_that_do_not_matter_are_not_told():
    rng = np.random.default_rng(0)
    rows, outputs = redrawn(rng)
    outputs[:] = rng.normal(size=(150, 1, 1))  # the same for all versions of a row
    outputs[:, 0] += 1e-6 * rng.random((150, 1))  # but for that: the mean is far from 0 in standard errors
    assert seen_by_model(rows, outputs, Target("output"), rng) == 0.0
    assert seen_by_model(rows, np.zeros_like(outputs), Target("output"), rng) == 0.0
