"""Notes are codes, severities and values: no name in the data changes what they are, and every code has its English."""

import json
import string

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.results.words import SENTENCES, Note, as_note

PLANTED = ["failed_payments", "not reached", "beware", "chooses nothing", "No error rate {x} {0}"]


def notes(columns, run):
    rng = np.random.default_rng(0)
    inputs = pd.DataFrame(rng.normal(size=(12, len(columns))), columns=columns)
    reference = pd.DataFrame(rng.normal(size=(60, len(columns))), columns=columns)
    inputs[columns[0]] += 4
    return run(inputs, reference).notes


def explained(inputs, reference):
    return butfor.explain(model, inputs, reference, test="irt", draws=19)


def spread(inputs, reference):
    return butfor.explain(model, inputs, reference, test="few-shot", control=False)


def over_all(inputs, reference):
    return butfor.global_importance(model, inputs, reference=reference)


def model(rows):
    return rows.iloc[:, 0] + 9 * rows.iloc[:, 1]


@pytest.mark.parametrize("run", [explained, spread, over_all])
@pytest.mark.filterwarnings("ignore::butfor.ReachWarning")
def test_names_of_columns_change_no_severity(run):
    plain, planted = (notes(columns, run) for columns in (["a", "b", "c", "d", "e"], PLANTED))
    assert [(note.code, note.severity) for note in plain] == [(note.code, note.severity) for note in planted]
    assert all(str(note) for note in planted)


@pytest.mark.filterwarnings("ignore::butfor.ReachWarning")
def test_notes_are_saved_as_codes_and_values(tmp_path):
    rng = np.random.default_rng(0)
    result = butfor.explain(lambda rows: rows[:, 0], rng.normal(3, 1, (6, 2)), rng.normal(size=(60, 2)), control=False)
    assert any(note.code == "picked-by-output" for note in result.run_notes)
    again = butfor.load(result.save(tmp_path / "r.butfor"))
    assert again.run_notes == result.run_notes
    assert again.notes == result.notes
    assert all(isinstance(note, Note) for note in again.notes)
    assert json.loads(result.to_json())["notes"] == [str(note) for note in result.notes]


def test_a_sentence_of_a_users_sampler_is_a_note_too():
    assert str(as_note("Draws are {rounded}.")) == "Draws are {rounded}."
    assert as_note(Note("random-model", "warning")) == Note("random-model", "warning")


@pytest.mark.parametrize("code", [code for code, sentence in SENTENCES.items() if isinstance(sentence, str)])
def test_templates_name_their_values(code):
    named = [name for _, name, _, _ in string.Formatter().parse(SENTENCES[code]) if name is not None]
    assert all(name.isidentifier() for name in named)
