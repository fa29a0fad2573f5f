"""The embedded example: a patient with a decisive column, all malignant ones, and (nearly) nothing in benign ones."""

import pytest

from butfor.tabular.demo import COLUMNS, tabular_demo

pytestmark = pytest.mark.filterwarnings("ignore::butfor.ReachWarning")


@pytest.fixture(scope="module")
def demo():
    return tabular_demo()


def test_malignant_patients(demo):
    result = demo.malignant
    assert result.chosen.shape == (149 * 7,)
    assert len(set(result.table.input[result.chosen])) >= 120
    area = result.table[result.table.subset == "area"]
    assert area.chosen.sum() >= 100
    assert (area.effect[area.chosen] > 0).all()
    assert area.necessary.sum() >= 30


def test_benign_patients_are_ordinary(demo):
    result = demo.benign
    assert result.chosen.shape == (70 * 7,)
    assert not result.chosen.any()
    assert not demo.malignant.control.chosen.any()


def test_the_model_is_worth_explaining(demo):
    assert demo.accuracy > 0.9
    assert demo.reference_rows == 180
    assert demo.malignant.record.reference == "180 benign patients, new to the model"


def test_one_screen_shows_a_patient_a_decision_a_decisive_column_what_is_enough_and_a_picture(demo):
    lines = demo.summary().splitlines()
    assert len(lines) + 4 <= 30  # with the names of the files
    assert max(map(len, lines)) <= 110
    text, shown = " ".join(demo.summary().split()), demo.malignant.table.iloc[demo.shown]
    assert shown.necessary
    assert shown.subset in COLUMNS
    assert f"It calls {shown.input} malignant (probability {shown.observed:.2f}): the clearest of 149, picked" in text
    assert f"{shown.subset}: decisive ({round(100 * shown.flip)} % of draws decide otherwise" in text
    enough = demo.malignant.enough(shown.input)
    assert f"{', '.join(enough['columns'][0])}: enough (" in text
    assert f"Nearest change: {shown.subset} " in text
    assert "the same call on 70 other benign patients chooses 0 of 490" in text


def test_the_bars_are_as_long_as_the_shares(demo):
    table = demo.malignant.table
    rows = table[(table.input == table.input[demo.shown]) & table.subset.isin(COLUMNS)]
    bars = {line.split(" = ")[0].strip(): line for line in demo.summary().splitlines() if " = " in line}
    assert {name: line.count("█") for name, line in bars.items()} == {
        row.subset: round(30 * row.flip) for row in rows.itertuples()
    }
    assert [name for name, line in bars.items() if "decisive" in line] == rows.subset[rows.necessary].tolist()
