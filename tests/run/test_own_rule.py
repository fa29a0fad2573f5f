"""What a model decides by: its largest output, a threshold of its own, or nothing where it predicts numbers."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier

import butfor

RNG = np.random.default_rng(0)
ROWS = pd.DataFrame(RNG.normal(size=(300, 2)), columns=["a", "b"])
FLAGGED = RNG.random(300) < 1 / (1 + np.exp(2 - 2 * ROWS.a))
WORDS = "own predict is not the class with the largest output for"


def notes(model, columns=("a", "b"), **options):
    rows = ROWS[list(columns)]
    result = butfor.explain(model, rows[rows.a > 0.5], rows[rows.a < 0.5], test="osft", control=False, **options)
    return [note for note in result.notes if WORDS in str(note)]


# Was silent once: the decision of such a model was taken to be the class with the largest probability.
@pytest.mark.parametrize("columns", [("a", "b"), ("b", "a")], ids=["its order", "another order"])
def test_a_model_with_a_threshold_of_its_own_is_said_to_have_one(columns):
    model = FixedThresholdClassifier(LogisticRegression(), threshold=0.15).fit(ROWS, FLAGGED)
    shown = ROWS[ROWS.a > 0.5]
    count = (model.predict(shown) != (model.predict_proba(shown)[:, 1] > 0.5)).sum()
    (note,) = notes(model, columns)
    assert f"{WORDS} {count} of {len(shown)} inputs" in str(note)
    assert "decide=lambda outputs: outputs[:, 1] >= 0.15" in str(note)
    assert notes(model, columns, decide=lambda outputs: outputs[:, 1] >= 0.15) == []
    assert notes(model.estimator_, columns) == []


def test_numbers_are_no_decision():
    model = LinearRegression().fit(ROWS, np.column_stack([ROWS.a, ROWS.b, ROWS.a]))
    with pytest.raises(butfor.InputError, match="predicts 3 numbers of each row; name the one to test: target"):
        butfor.explain(model, ROWS[:30], ROWS[30:])
    result = butfor.explain(model, ROWS[:30], ROWS[30:], target=0, test="osft", control=False)
    assert result.decided is None


@pytest.mark.parametrize("name", ["decide", "picked"])
def test_a_rule_for_several_outputs_is_shown_how_it_takes_one(name):
    model = LogisticRegression().fit(ROWS, FLAGGED)
    with pytest.raises(butfor.InputError, match=rf"for example {name}=lambda outputs: outputs\[:, 1\] >= 0"):
        butfor.explain(model, ROWS[:30], ROWS[30:], **{name: lambda outputs: outputs >= 0.4})


# Was wrong once: NaN is never equal to NaN, so every draw changed such a decision.
@pytest.mark.parametrize("nothing", [np.nan, None], ids=str)
def test_every_output_needs_a_decision(nothing):
    def decide(outputs):
        return np.array([1.0 if output < 1 else nothing for output in outputs])

    with pytest.raises(butfor.InputError, match=r"decide gave nothing .* for example for the output .*; give every"):
        butfor.explain(lambda rows: rows["a"], ROWS[:30], ROWS[30:], decide=decide)
