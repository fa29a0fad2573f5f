"""What to test in a text: words of any script, sentences, spans, patterns, pieces, phrases."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import butfor.text as bt
from butfor import InputError
from butfor.text.segment import splits_character


def read(text, proposer):
    return [text[a:b] for a, b in (subset.index for subset in proposer("t", text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don't stop, it’s 'quoted'!", ["Don't", "stop", "it’s", "quoted"]),
        ("rock'n'roll good-hearted snake_case", ["rock'n'roll", "good", "hearted", "snake_case"]),
        ("3.14 1,000.5 3:30 2nd C++", ["3.14", "1,000.5", "3", "30", "2nd", "C"]),
        ("the U.S.A. and e.g. this.That", ["the", "U.S.A", "and", "e.g", "this", "That"]),
        ("good<br /><br/>bad</p><b class='x'>bold</b>", ["good", "bad", "bold"]),
        ("fish &amp; chips &#39;s &nbsp;now", ["fish", "chips", "s", "now"]),
        ("a < b and c > d <3", ["a", "b", "and", "c", "d", "3"]),
        ("<!-- a comment --> <!DOCTYPE html> word", ["word"]),
        ("<script>alert('x')</script>", ["alert", "x"]),
        ("cafe\u0301 nai\u0308ve é", ["cafe\u0301", "nai\u0308ve", "é"]),
        ("Größe ĳs Straße İstanbul", ["Größe", "ĳs", "Straße", "İstanbul"]),
        ("שלום עולם", ["שלום", "עולם"]),
        ("مرحبا بالعالم می‌خواهم", ["مرحبا", "بالعالم", "می\u200cخواهم"]),
        ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
        ("这部电影很好。", list("这部电影很好")),
        ("日本語のテスト", ["日", "本", "語", "の", "テスト"]),
        ("한국어 말", ["한국어", "말"]),
        ("ภาษาไทย", ["ภา", "ษา", "ไท", "ย"]),
        ("ที่นี่ กำลัง", ["ที่", "นี่", "กำ", "ลั", "ง"]),
        ("ພາສາລາວ", ["ພາ", "ສາ", "ລາ", "ວ"]),
        ("👩‍👩‍👧 ok 👍🏽 🇩🇪", ["ok"]),
        ("!!! ... — ¿? <br /> ,;", []),
        ("", []),
        ("\ud800 a \udfffb", ["a", "b"]),
        ("one\r\ntwo\x00three\u2028four", ["one", "two", "three", "four"]),
        ("Word", ["Word"]),
    ],
)
def test_words_of_any_script(text, expected):
    assert read(text, bt.words()) == expected


def test_names_are_the_words_and_unique():
    found = bt.words()("t", "so so good #2 so")
    assert [subset.name for subset in found] == ["so", "so #2", "good", "2", "so #3"]
    assert len({subset.name for subset in bt.words()("t", "a " * 500)}) == 500


anything = st.text(alphabet=st.characters(), max_size=40) | st.text(
    alphabet=list("ab'’.,3\u0301\u200d👩🏽🇩🇪ไทยกำ好のア<br/>&; \r\n_-é\ud800"), max_size=30
)


@settings(max_examples=300, deadline=None)
@given(anything)
def test_words_are_spans_in_order_that_part_no_character(text):
    spans = bt.word_spans(text)
    end = 0
    for a, b in spans:
        assert end <= a < b <= len(text)
        assert any(letter.isalnum() for letter in text[a:b])
        assert not any(letter.isspace() for letter in text[a:b])
        assert not splits_character(text, b)
        end = b
    for a, b in bt.sentence_spans(text):
        assert text[a:b].strip() == text[a:b] != ""


@settings(max_examples=100, deadline=None)
@given(anything)
def test_a_words_neighbours_do_not_change_it(text):
    """Words stand alone: what is cut out reads as the same words again."""
    for a, b in bt.word_spans(text):
        assert bt.word_spans(text[a:b])[0][0] == 0


def test_a_hundred_thousand_characters_are_quick():
    for text in ("good film, " * 9000, "<" * 100_000, "<!--" * 25_000, "&" * 100_000, "a" * 100_000, "." * 100_000):
        bt.word_spans(text)
        bt.sentence_spans(text)
    assert len(bt.words()("t", "good film, " * 9000)) == 18_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It was fun. Really! Was it?", ["It was fun.", "Really!", "Was it?"]),
        ("Mr. Smith met J. R. Moore at 3.5 p.m. today.", ["Mr. Smith met J. R. Moore at 3.5 p.m. today."]),
        ('He said "No." Then he left...', ['He said "No."', "Then he left..."]),
        ("One<br /><br />two\n\nthree\r\n\r\nfour\nfive", ["One", "two", "three", "four\nfive"]),
        ("很好。真的！是吗？", ["很好。", "真的！", "是吗？"]),
        ("... !!", []),
        ("no end", ["no end"]),
        ("", []),
        ("Well ... yes. ", ["Well ... yes."]),
    ],
)
def test_sentences(text, expected):
    assert read(text, bt.sentences()) == expected


def test_matches():
    text = "Not good, not bad, notable. cafe\u0301"
    assert read(text, bt.matches(r"\bnot\b")) == ["Not", "not"]
    assert read(text, bt.matches(r"not (\w+)")) == ["good", "bad"]
    assert read(text, bt.matches("cafe")) == ["cafe\u0301"]  # a letter and its accent stay together
    assert read(text, bt.matches(re.compile("NOT"))) == []
    assert read(text, bt.matches("x*")) == []
    with pytest.raises(InputError, match="needs a regular expression"):
        bt.matches("(")


TEXT = "A truly great film, truly."


@pytest.mark.parametrize(
    "source",
    [
        [(2, 13), (14, 18)],
        [["praise", 2, 13], [14, 18]],
        [{"start": 2, "end": 13, "name": "praise"}, {"start": 14, "end": 18}],
        {"praise": (2, 13), "film": (14, 18)},
        {"t": [(2, 13), (14, 18)], "u": []},
        {"t": {"praise": (2, 13), "film": [14, 18]}},
    ],
)
def test_spans_in_any_form(source, tmp_path):
    assert read(TEXT, bt.spans(source)) == ["truly great", "film"]
    file = tmp_path / "spans.json"
    for content in (source, {"spans": source}):
        file.write_text(json.dumps(content))
        assert read(TEXT, bt.spans(file)) == ["truly great", "film"]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ([(2, 13), (8, 18)], r"overlap; draw them apart, or .*: butfor\.text\.spans\(\.\.\., overlap='alone'\)"),
        ({}, "spans is empty"),
        ([(2, 99)], "not within its 26 characters"),
        ([(5, 5)], "not within its 26 characters"),
        ([("a", "b")], "one of the spans of every text is"),
        ([], "spans is empty"),
        ({"u": [(1, 2)]}, "there are no spans for text 't'; spans are given for u"),
        ((2, 13), "expected a list of them"),
        ("nowhere.json", "cannot be read"),
    ],
)
def test_spans_that_cannot_be(source, said):
    with pytest.raises(InputError, match=said):
        bt.spans(source)("t", TEXT)


def test_overlapping_spans_can_be_tested_each_alone():
    assert len(bt.spans([(2, 13), (8, 18)], overlap="alone")("t", TEXT)) == 2
    with pytest.raises(InputError, match="overlap must be"):
        bt.spans([(2, 13)], overlap="maybe")
    with pytest.raises(InputError, match="overlap"):
        bt.spans([(2, 13), (8, 18)])("t", TEXT)


def test_a_span_may_not_part_a_character():
    with pytest.raises(InputError, match="inside one character"):
        bt.spans([(0, 4)])("t", "cafe\u0301")
    with pytest.raises(InputError, match="inside one character"):
        bt.spans([(0, 2)])("t", "👩‍👩‍👧")
    assert read("🇩🇪🇫🇷", bt.spans([(0, 2)])) == ["🇩🇪"]


def test_wordpieces_by_offsets_of_any_tokenizer(tiny):
    import transformers
    from tokenizers import Tokenizer

    text = "The unlikeable FILM,  was\r\n好 bad 👍🏽!"
    expected = ["The", "un", "like", "able", "FILM", "was", "好", "b", "ad"]
    fast = transformers.AutoTokenizer.from_pretrained(tiny / "bert")
    for tokenizer in (fast, Tokenizer.from_file(str(tiny / "bert" / "tokenizer.json")), tiny / "bert"):
        found = read(text, bt.wordpieces(tokenizer))
        assert "".join(found) == "TheunlikeableFILMwas好bad"
        assert found[:4] == expected[:4]
    bytes_ = read(text, bt.wordpieces(tiny / "roberta"))
    assert all(piece == piece.strip() for piece in bytes_)
    assert "".join(bytes_) == "TheunlikeableFILMwas好bad"


def test_wordpieces_are_never_cut_short(tiny):
    import transformers

    fast = transformers.AutoTokenizer.from_pretrained(tiny / "bert")
    fast("the film", truncation=True, max_length=4, padding="max_length")  # which leaves the tokenizer set to it
    assert len(bt.wordpieces(fast)("t", "film " * 100)) == 100
    with pytest.raises(InputError, match="expected a tokenizers"):
        bt.wordpieces(len)


def test_phrases_say_how_they_were_found():
    by_rules = bt.phrases(rules=True)
    assert read("The old man was tired, and his boat had a small sail.", by_rules) == [
        "The old man", "tired", "his boat", "a small sail"
    ]  # fmt: skip
    assert "by rules" in repr(by_rules)
    assert [note.code for note in by_rules.notes([], [], 0)] == ["phrases-by-rules"]
    assert "found by rules" in str(by_rules.notes([], [], 0)[0])
    assert read("", by_rules) == read("...", by_rules) == []


def test_phrases_of_spacy():
    """spaCy with a model where it is there; without, the sentence that says what to install."""
    from butfor.text.subsets import installed

    model = installed()
    if model is None:
        with pytest.raises(InputError, match="spacy"):
            bt.phrases(model="en_core_web_sm")
        assert "by rules" in repr(bt.phrases())
        return
    found = read("The old man saw a small boat.", bt.phrases())
    assert found == ["The old man", "a small boat"]
    assert model in repr(bt.phrases())
