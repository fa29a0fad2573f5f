"""The embedded example finds something sensible for malignant patients and (nearly) nothing for benign ones."""

import pytest

from butfor.report.content import methods_paragraph
from butfor.tabular.demo import measurements, patients, tabular_demo

pytestmark = pytest.mark.filterwarnings("ignore::butfor.ReachWarning")


@pytest.fixture(scope="module")
def demo():
    return tabular_demo()


def test_malignant_patients(demo):
    result = demo.malignant
    assert result.chosen.shape == (149 * 13,)
    answered = set(result.table.input[result.chosen])
    assert len(answered) >= 120
    finer = result.table[result.chosen & (result.table.resolution > 0)]
    assert len(finer) >= 30
    assert (finer.effect > 0).all()
    assert result.decided.necessary.sum() >= 120


def test_benign_patients_are_ordinary(demo):
    result = demo.benign
    assert result.chosen.shape == (70 * 13,)
    assert not result.chosen.any()
    assert not demo.malignant.control.chosen.any()


def test_the_model_is_worth_explaining(demo):
    assert demo.accuracy > 0.9
    assert demo.reference_rows == 180


def test_says_what_the_reference_is(demo):
    text = " ".join(demo.summary().split())
    assert "The reference is 180 benign patients" in text
    assert "the same call on 70 other benign patients chooses 0 of 910" in text
    assert demo.malignant.record.reference == "180 benign patients, new to the model"


def test_the_promise_names_no_sequence_where_nothing_was_drawn(demo):
    assert "exact, no draws" in demo.malignant.summary(full=True)
    assert "Besag" not in str(demo.malignant.guarantee)
    assert "Evidence is by exact p-values" in methods_paragraph(demo.malignant)


def test_all_columns_are_a_limit_and_no_headline(demo):
    says, decisive, *_ = demo.malignant.summary().splitlines()
    assert says.startswith("149 inputs: malignant 140, benign 9; mean probability 0.9")
    assert "of 149 not resolved below all columns; closest: " in decisive


def test_ten_measurements_of_three_columns():
    groups = [columns for kind in measurements(patients()[0]).values() for columns in kind.values()]
    assert len(groups) == 10
    assert {len(columns) for columns in groups} == {3}
    assert len({name for columns in groups for name in columns}) == 30
