"""Rows of one person are one cluster of the reference: in the control, in variances, in folds; and they are noticed."""

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.tabular import auto, forest, residual
from butfor.tabular.explain import fit_of, held_out_hypotheses, hold_out, reference_notes
from butfor.tabular.global_importance import cross_fitted
from butfor.tabular.table import as_table

PEOPLE, EACH = 30, 6


def repeated(seed=0, people=PEOPLE, spread=0.2):
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(people), EACH)
    rows = rng.normal(size=(people, 3))[person] + spread * rng.normal(size=(people * EACH, 3))
    return pd.DataFrame(rows, columns=["a", "b", "c"]), person


def explained(reference, **settings):
    rows = pd.DataFrame(np.random.default_rng(5).normal(size=(25, 3)), columns=["a", "b", "c"])
    return butfor.explain(lambda x: x["a"] + x["b"], rows, reference, decide=lambda y: y > 0, effects=None, **settings)


def test_intervals_know_that_there_are_fewer_rows():
    reference, person = repeated()
    one, many = (explained(reference, reference_groups=groups, control=False) for groups in (person, None))
    width = [(result.decided.high - result.decided.low).mean() for result in (one, many)]
    assert width[0] > 1.2 * width[1]
    assert one.decided.necessary.sum() <= many.decided.necessary.sum()
    fits = [fit_of(result.hypotheses) for result in (one, many)]
    assert (fits[0].rows, fits[1].rows) == (PEOPLE, PEOPLE * EACH)


def test_of_a_person_one_row_is_tested_and_none_is_fitted_on():
    for people in (30, 600):
        person = np.repeat(np.arange(people), 3)
        held_out, kept = hold_out(3 * people, np.random.default_rng(0), person)
        assert len(np.unique(person[held_out])) == len(held_out)
        assert not set(person[held_out]) & set(person[kept])
        assert set(person[held_out]) | set(person[kept]) == set(range(people))
    reference, person = repeated()
    result = explained(reference, reference_groups=person)
    assert result.control.rows == PEOPLE // 2
    few, who = repeated(people=15)
    assert explained(few, reference_groups=who).record.controlled == "too few rows"


def test_rows_of_their_own_clusters_are_split_as_without_groups():
    for rows in (90, 700):
        alone, each = (hold_out(rows, np.random.default_rng(3), groups) for groups in (None, np.arange(rows)))
        for without, with_groups in zip(alone, each, strict=True):
            assert without.tolist() == with_groups.tolist()


def test_samplers_carry_their_clusters():
    reference, person = repeated()
    labels = [f"p{one}" for one in person]
    for sampler in (auto(reference, groups=labels), residual(reference).grouped(labels)):
        assert sampler.clusters.tolist() == person.tolist()
        assert sampler.conditional.rows.clusters is sampler.reference.clusters
    assert auto(reference, groups=labels) is auto(reference, groups=labels)
    assert auto(reference) is not auto(reference, groups=labels)
    part = held_out_hypotheses(auto(reference, groups=labels), as_table(reference, "data"), [], 0)
    assert part.sampler.clusters is not None


def test_folds_of_the_holdout_test_keep_a_person_together():
    reference, person = repeated()
    table = as_table(reference, "data")
    fits = cross_fitted(auto(reference, groups=person), table, np.arange(len(person)), 3, 0)
    assert all(len(np.unique(fits.folds[person == one])) == 1 for one in range(PEOPLE))
    for number, fit in enumerate(fits.fits):
        assert set(fit.clusters) == set(person[fits.folds != number])
    y = reference["a"].to_numpy()
    result = butfor.global_importance(lambda x: x["a"], reference, y, reference_groups=person, check=False)
    assert result.chosen.any()


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (["a"] * 180, "puts all rows of the reference into one cluster, 'a'"),
        (["a", "b"], "has 2 labels for 180 rows"),
        ([None] + ["a", "b"] * 89 + ["c"], "is missing for row 0"),
        ("person", "must be one label for each row of the reference"),
        (pd.Series(range(180), index=range(5, 185)), "different indexes"),
    ],
)
def test_labels_that_do_not_fit_are_refused(groups, message):
    with pytest.raises(butfor.InputError, match=message):
        explained(repeated()[0], reference_groups=groups)


def test_samplers_without_clusters_refuse_them():
    reference, person = repeated()
    with pytest.raises(butfor.InputError, match="forest does not know it"):
        explained(forest(reference), reference_groups=person)
    with pytest.raises(butfor.InputError, match="a sampler was given"):
        explained(lambda inputs, subset, draws, rng: inputs, reference_groups=person)
    with pytest.raises(butfor.InputError, match="is for tables"):
        butfor.explain(len, ["a text"], len, reference_groups=["a"])


def codes(reference, groups=None):
    notes = explained(reference, reference_groups=groups, control=False).notes
    return [note for note in notes if note.code == "clustered-reference"]


def noted(frame):
    return reference_notes(as_table(frame, "reference"), frame.to_numpy(dtype=float))


def test_a_key_is_noticed_and_named():
    reference, person = repeated()
    (note,) = noted(reference.assign(person=person))
    assert "reference_groups=reference['person']" in str(note)
    assert noted(reference.assign(person=np.random.default_rng(0).permutation(person))) == []
    independent = pd.DataFrame(np.random.default_rng(1).normal(size=(180, 4)), columns=list("abcd"))
    assert noted(independent.assign(d=independent.d.round())) == []


def test_rows_that_repeat_are_noticed_unless_they_are_named():
    rng = np.random.default_rng(0)
    reference, person = repeated(spread=0.0)
    reference["c"] = rng.normal(size=len(person))
    assert codes(reference)
    assert not codes(reference, person)
