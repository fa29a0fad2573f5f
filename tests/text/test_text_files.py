"""Files of texts: every form gives the same texts to the character, and every mistake one sentence."""

import io
import json

import pytest

import butfor.text as bt
from butfor import InputError

TEXTS = ['He said "no",\r\nthen left.', "好 👩‍👩‍👧 é <br />", "", "plain"]


def test_every_form_gives_the_same_texts(tmp_path, monkeypatch):
    import csv

    with open(tmp_path / "a.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["id", "text"], *([str(n), text] for n, text in enumerate(TEXTS))])
    with open(tmp_path / "a.tsv", "w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file, delimiter="\t").writerows([["id", "text"], *([n, text] for n, text in enumerate(TEXTS))])
    lines = "\n".join(json.dumps({"id": n, "text": text}) for n, text in enumerate(TEXTS))
    (tmp_path / "a.jsonl").write_text(lines + "\n\n", encoding="utf-8")
    (tmp_path / "a.json").write_text(json.dumps([{"id": n, "text": text} for n, text in enumerate(TEXTS)]))
    (tmp_path / "b.json").write_text(json.dumps(dict(enumerate(TEXTS))))
    named = {str(n): text for n, text in enumerate(TEXTS)}
    for name in ("a.csv", "a.tsv", "a.jsonl", "a.json"):
        assert bt.read_texts(tmp_path / name, name="id") == named
        assert bt.read_texts(tmp_path / name, column="text") == dict(enumerate(TEXTS, start=1))
    assert bt.read_texts(tmp_path / "b.json") == named
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    assert bt.read_texts("-", column="text", name="id") == named
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("one é\n\ntwo\r\n".encode())))
    assert bt.read_texts("-") == {1: "one é", 2: "two"}


def test_a_directory_in_natural_order_and_one_file(tmp_path):
    for name, content in (("b10.txt", "ten\r\n"), ("b2.txt", "two"), (".hidden.txt", "x"), ("c.md", "no")):
        (tmp_path / name).write_bytes(content.encode())
    assert bt.read_texts(tmp_path) == {"b2.txt": "two", "b10.txt": "ten\r\n"}
    assert bt.read_texts(tmp_path / "b10.txt") == {1: "ten"}


def test_a_file_of_lines_and_standard_input_are_read_alike(tmp_path, monkeypatch):
    """Was wrong once: a .txt file was one text, and the same lines from standard input were many."""
    content = "One é.\n\nTwo, with\ttabs.\r\nThree.\n"
    (tmp_path / "a.txt").write_bytes(content.encode())

    def piped(**options):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
        return list(bt.read_texts("-", **options).values())

    assert piped() == list(bt.read_texts(tmp_path / "a.txt").values()) == ["One é.", "Two, with\ttabs.", "Three."]
    assert piped(whole=True) == list(bt.read_texts(tmp_path / "a.txt", whole=True).values()) == [content]
    (tmp_path / "a.csv").write_text("text\na\n")
    with pytest.raises(InputError, match=r"whole is for \.txt files and standard input"):
        bt.read_texts(tmp_path / "a.csv", whole=True)


def test_a_file_of_a_directory_that_cannot_be_read_is_left_out_when_asked(tmp_path):
    for name, content in (("a.txt", b"good film"), ("b.txt", b"\xff\xfe"), ("c.txt", b"bad film")):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=r"b.txt is not UTF-8 \(line 1\); save it as UTF-8"):
        bt.read_texts(tmp_path)
    settings = {"test": "irt", "draws": 50, "alpha": 0.5}
    with pytest.raises(InputError, match=r"b.txt is not UTF-8"):
        bt.explain(lambda texts: list(map(len, texts)), tmp_path, bt.small_infiller(), **settings)
    with pytest.warns(bt.TextWarning, match=r"1 text was skipped: 'b.txt' \(.* is not UTF-8"):
        result = bt.explain(
            lambda texts: list(map(len, texts)), tmp_path, bt.small_infiller(), on_error="skip", **settings
        )
    assert result.input_names == ("a.txt", "c.txt")


@pytest.mark.parametrize(
    ("name", "content", "settings", "said"),
    [
        ("a.csv", "x,y\n1,2\n", {}, "say which holds the texts"),
        ("a.csv", "x,y\n1,2\n", {"column": "z"}, "has no column 'z'; it has x, y"),
        ("a.csv", "text\na, b\n", {}, "has 2 fields, the header 1; quote the texts"),
        ("a.csv", "", {}, "is empty"),
        ("a.csv", "id;text\n1;a good film\n", {}, "is one column, 'id;text'; separate columns by commas"),
        ("a.tsv", "id,text\n1,a good film\n", {}, "is one column, 'id,text'; separate columns by tabs"),
        ("a.csv", "text,text\na,b\n", {}, "has two columns called 'text'; give every column its own name"),
        ("a.json", '{"a": "x", "a": "y"}', {}, "a.json has the key 'a' twice in one object; keys must differ"),
        ("a.jsonl", '{"text": "x"}\n{"text": "x", "text": "y"}', {}, "line 2 of .* has the key 'text' twice"),
        ("a.csv", "id,text\n1,a\n1,b\n", {"name": "id"}, "are called '1'; names must differ"),
        ("a.csv", b"text\n\xff\xfe\n", {}, "is not UTF-8 \\(line 2\\)"),
        ("a.jsonl", '{"text": "a"}\n{oops\n', {}, "line 2 of .* is not JSON"),
        ("a.jsonl", '{"text": 3}\n', {}, "holds int where a text is expected"),
        ("a.json", '"text"', {}, "expected a list of texts or objects"),
        ("a.json", "{", {}, "is not JSON"),
        ("a.docx", "x", {}, "no file of texts by its name"),
    ],
)
def test_one_sentence_for_every_mistake(tmp_path, name, content, settings, said):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=said):
        bt.read_texts(tmp_path / name, **settings)


def test_what_is_not_there(tmp_path):
    with pytest.raises(InputError, match="do not exist"):
        bt.read_texts(tmp_path / "nothing.csv")
    with pytest.raises(InputError, match="has no"):
        bt.read_texts(tmp_path)
