"""The embedded example finds something sensible for malignant patients and (nearly) nothing for benign ones."""

import pytest

from butfor.tabular.demo import ALPHA, measurements, patients, tabular_demo

pytestmark = pytest.mark.filterwarnings("ignore::butfor.ReachWarning")


@pytest.fixture(scope="module")
def demo():
    return tabular_demo()


def test_malignant_patients(demo):
    result = demo.malignant
    assert result.chosen.shape == (850,)
    assert 80 <= result.chosen.sum() <= 160  # a trial with a copula chose 116 (METHODS 0)
    often = result.table[result.chosen].subset.value_counts()
    assert {"perimeter", "concave points"} == set(often.index[:2])
    assert (result.table.effect[result.chosen] > 0).mean() > 0.95


def test_benign_patients_are_ordinary(demo):
    result = demo.benign
    assert result.chosen.shape == (1430,)
    assert result.chosen.sum() <= ALPHA * demo.malignant.chosen.sum()
    assert any("ordinary for this reference" in note for note in result.notes) or result.chosen.any()


def test_the_model_is_worth_explaining(demo):
    assert demo.accuracy > 0.93
    assert demo.reference_rows == 214


def test_says_what_the_reference_is(demo):
    text = demo.summary()
    assert "The reference is the 214 benign" in text
    assert f"chooses {demo.benign.chosen.sum()} of 1430" in " ".join(text.split())
    assert demo.malignant.provenance["reference"] == "214 benign training patients"


def test_ten_measurements_of_three_columns():
    groups = measurements(patients()[0])
    assert len(groups) == 10
    assert {len(columns) for columns in groups.values()} == {3}
