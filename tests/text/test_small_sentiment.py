"""The embedded classifier reads sentences once: its answers are those of the whole network on the whole text."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from butfor import text
from butfor.text.small import UNK, ask, numbers_of

module = sys.modules["butfor.text.small"]
MODEL = text.small_sentiment(threads=1)
LONG = " ".join(
    f"This was the {number}th time that I saw such a dull film, and it went on and on." for number in range(40)
)


def whole(one):
    """The probability that the network gives when it reads all of a text at once."""
    ids = numbers_of([one])[0]
    return ask("sentiment", 1, {"ids": (ids if len(ids) else np.array([UNK]))[None]}, output="probability")[0]


WORDS = st.sampled_from(
    [
        "good",
        "awful",
        "plot",
        "the",
        "Unbelievably",
        "3.5",
        "e.g.",
        "U.S.A.",
        "...",
        "?!",
        ".",
        "!",
        "<br />",
        "\n\n",
        "好",
    ]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(WORDS, max_size=120))
def test_sentences_read_by_themselves_give_what_the_whole_gives(words):
    one = " ".join(words)
    assert MODEL([one])[0] == pytest.approx(whole(one), abs=1e-6)


def test_every_piece_is_in_one_sentence():
    for one in ("", "Dull", "Dull.", ". . .", LONG, LONG.replace(".", "")):
        row = numbers_of([one])[0] if one else np.array([UNK])
        parts = [np.frombuffer(part, np.int16) for part in module._sentences(row)]
        inner = [part[module.MARGIN_STATE : -module.MARGIN_STATE] for part in parts]
        assert np.concatenate(inner).tolist() == row.tolist()
        assert all(len(part) for part in inner)


def test_a_shorter_reach_would_be_noticed(monkeypatch):
    monkeypatch.setattr(module, "MARGIN_STATE", 2)
    monkeypatch.setattr(module, "POOLED", {})
    monkeypatch.setattr(module, "PIECES", {})
    assert abs(MODEL([LONG])[0] - whole(LONG)) > 1e-5


def test_only_what_changed_is_read(monkeypatch):
    read = []

    def counted(name, threads, feeds, **options):
        read.append(feeds["ids"].size if "ids" in feeds else 0)
        return ask(name, threads, feeds, **options)

    known = {}
    monkeypatch.setattr(module, "POOLED", known)
    monkeypatch.setattr(module, "PIECES", {})
    monkeypatch.setattr(module, "ask", counted)
    MODEL([LONG])
    assert sum(read) > 700
    read.clear()
    changed = [LONG.replace("20th", word) for word in ("last", "best", "worst")]
    MODEL([LONG, *changed])
    assert 0 < sum(read) < 250
    monkeypatch.setattr(module, "MOST_SENTENCES", 1)  # what is known is forgotten
    MODEL([LONG, "Dull."])
    assert len(known) == 1


def test_a_text_has_the_same_bits_in_any_company():
    others = [LONG.replace("20th", f"{number}st") for number in range(130)]
    assert MODEL([LONG])[0] == MODEL([*others, LONG])[-1] == MODEL([LONG, *others])[0]
