"""What no type checker would let through gets one sentence, too (found by a breaker)."""

import numpy as np
import pytest

import butfor
from butfor import selection

RNG = np.random.default_rng(0)
ROWS, REFERENCE = RNG.normal(1, 1, size=(4, 3)), RNG.normal(size=(40, 3))


def explain(rows=ROWS, reference=REFERENCE, **options):
    settings = {"subsets": "columns", "control": False, "effects": None, "draws": 30, **options}
    return butfor.explain(lambda batch: np.asarray(batch)[:, 0] * 1.0, rows, reference, **settings)


@pytest.mark.parametrize("scale", [1e155, 1e200, 1e-200, [1, 1e200, 1], [1, 1, 1e-160]])
def test_columns_whose_powers_are_no_numbers(scale):
    with pytest.raises(butfor.InputError, match=r"column 'x[012]' of the .* whose powers cannot be computed; multiply"):
        explain(ROWS * scale, REFERENCE * scale)


def test_columns_just_within():
    assert explain(ROWS * 1e68, REFERENCE * 1e68).table.p.notna().all()
    assert explain(ROWS * [1, 0, 1], REFERENCE * [1, 0, 1]).table.p.notna().all()


@pytest.mark.parametrize("what", ["data", "reference"])
def test_masked_values_are_not_taken_for_data(what):
    rows, reference = ROWS, REFERENCE
    if what == "data":
        rows = np.ma.masked_array(ROWS, mask=ROWS > 1.5)
    else:
        reference = np.ma.masked_array(REFERENCE, mask=REFERENCE > 1.5)
    with pytest.raises(butfor.InputError, match=f"the {what} is a masked array with .* masked values; give .*filled"):
        explain(rows, reference)
    assert explain(np.ma.masked_array(ROWS, mask=False)).table.p.notna().all()


@pytest.mark.parametrize("progress", ["x", 5])
def test_progress_that_is_none(progress):
    with pytest.raises(butfor.InputError, match="progress must be True, False or a function"):
        explain(progress=progress)


@pytest.mark.parametrize(
    ("rule", "values"),
    [(selection.by, "x"), (selection.bh, ["a"]), (selection.knockoff_plus, ["a"]), (selection.e_bh, object())],
)
def test_evidence_that_is_no_numbers(rule, values):
    with pytest.raises(butfor.InputError, match="must be an array of numbers, got"):
        rule(values, 0.1)


def test_an_answer_that_is_no_text():
    prompt = butfor.context.prompt({"passage 1": "a", "passage 2": "b"}, question="c?")
    with pytest.raises(butfor.InputError, match="answer must be a text for each of 1 prompts"):
        butfor.context.explain(lambda texts: ["x"] * len(texts), prompt, ["d", "e", "f"], answer=5)
