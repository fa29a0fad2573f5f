"""Files made to do harm: one sentence each, in bounded memory and time."""

import io
import json
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor import image, text
from butfor.models.files import load_model
from butfor.tabular.files import evaluated, read_subsets
from butfor.types import InputError
from butfor.untrusted import parse_json

RNG = np.random.default_rng(0)
RESULT = butfor.explain(
    lambda rows: rows[:, 0],
    RNG.normal(size=(6, 2)),
    butfor.tabular.from_values(
        lambda rows, subset, draws, rng: rng.normal(size=(len(rows) * draws, len(subset.index)))
    ),
    test="irt",
    draws=19,
)


@pytest.fixture
def saved(tmp_path):
    return RESULT.save(tmp_path / "r.butfor")


def repacked(path, change=None, arrays=None, **how):
    """The file with other facts or arrays, all checksums right."""
    with zipfile.ZipFile(path) as archive:
        facts, packed = json.loads(archive.read("facts.json")), archive.read("arrays.npz")
    with zipfile.ZipFile(path, "w", **how) as archive:
        archive.writestr("facts.json", change(facts) if change else json.dumps(facts))
        archive.writestr("arrays.npz", packed if arrays is None else arrays)
    return path


def header_of(shape):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def npz(**parts):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def encrypted(path):
    raw = bytearray(path.read_bytes())
    raw[raw.find(b"PK\x03\x04") + 6] |= 1  # of the first part
    raw[raw.rfind(b"PK\x01\x02") + 8] |= 1  # in the list of parts at the end: arrays.npz inside has a list of its own
    path.write_bytes(bytes(raw))
    return path


BOMB = header_of((5 * 10**7,)) + bytes(4 * 10**8)


def told(**changed):
    return lambda facts: json.dumps(facts | changed)


HOSTILE = {
    "800 GB": (lambda path: repacked(path, arrays=npz(evidence=header_of((10**11,)))), "claims 800,000,000,000 bytes"),
    "bomb": (lambda path: repacked(path, arrays=npz(evidence=BOMB)), "unpack to 400 MB"),
    "twice packed": (lambda path: repacked(path, compression=zipfile.ZIP_DEFLATED), "is packed twice"),
    "deep": (lambda path: repacked(path, lambda facts: "[" * 10**6 + "]" * 10**6), "nested 1000000 deep"),
    "wide": (lambda path: repacked(path, lambda facts: "[" + "[]," * 9 * 10**6 + "1]"), "would take about"),
    "encrypted": (encrypted, "is encrypted"),
    "list": (lambda path: repacked(path, lambda facts: "[1]"), "is not a saved butfor result"),
    "alpha": (lambda path: repacked(path, told(alpha="x")), "its alpha is 'x'"),
    "rule": (lambda path: repacked(path, told(rule="seqstep")), "does not go with the test"),
    "subset": (lambda path: repacked(path, told(subsets=[["x0", [0], "x0"], ["x1", [7], "x1"]])), "not there"),
    "empty": (lambda path: (path.write_bytes(b"") and path) or path, "is not a saved butfor result"),
}  # fmt: skip


@pytest.mark.parametrize("harm", HOSTILE)
def test_hostile_results(saved, harm):
    make, message = HOSTILE[harm]
    with pytest.raises(InputError, match=message) as raised:
        butfor.load(make(saved))
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 600


def of_global(**changed):
    def change(facts):
        record = facts["record"]
        return json.dumps(facts | {"record": record | {"importance": record["importance"] | changed}})

    return change


def of_record(**changed):
    return lambda facts: json.dumps(facts | {"record": facts["record"] | changed})


GARBLED = {
    "subsets of columns that are not there": (
        told(subsets=[["x0", [7], "x0"], ["x1", [1], "x1"]]),
        "of columns that are not there",
    ),
    "subsets of no columns": (told(subsets=[["x0", 1, "x0"], ["x1", [1], "x1"]]), "of no columns"),
    "no loss": (of_record(test="holdout"), "its loss or its differences are missing"),
    "a test of single inputs": (of_record(test="irt"), "does not go with its other settings"),
    "stand-ins": (of_global(stand_ins=[0.5]), "its record.importance.stand_ins is"),
    "classes": (of_global(classes=[{}]), "its record.importance.classes is"),
    "verdicts": (
        lambda facts: of_global(check=facts["record"]["importance"]["check"] | {"verdicts": []})(facts),
        "its check of the sampler is garbled",
    ),
    "a note without its values": (
        told(run_notes=[{"code": "interrupted", "severity": "warning", "values": {}}]),
        "is not a whole butfor result",
    ),
    "a note of no code": (
        told(run_notes=[{"code": "?", "severity": "warning", "values": {}}]),
        "is not a whole butfor result",
    ),
    "a note of no severity": (
        told(run_notes=[{"code": "interrupted-effects", "severity": "odd", "values": {}}]),
        "its run_notes.severity is 'odd'",
    ),
}


# Was wrong once: what a global result says of stand-ins and of its check was believed, and summary() raised.
@pytest.mark.parametrize("harm", GARBLED, ids=str)
def test_global_results_that_are_garbled(tmp_path, harm):
    rows, reference = RNG.normal([3, 0], 1, (40, 2)), RNG.normal(size=(80, 2))
    result = butfor.global_importance(lambda rows: rows[:, 0], rows, reference=reference)
    change, said = GARBLED[harm]
    path = repacked(result.save(tmp_path / "g.butfor"), change)
    with pytest.raises(InputError, match=said):
        butfor.load(path)


def test_a_result_of_images_that_calls_itself_one_of_a_table(tmp_path):
    noise = RNG.integers(0, 255, (2, 32, 32, 3), dtype=np.uint8)
    boxes = {"a": (0, 0, 8, 8)}
    result = image.explain(lambda batch: [x.mean() for x in batch], [*noise], image.donor(), boxes=boxes, test="osft")
    path = repacked(
        result.save(tmp_path / "i.butfor"), of_record(inputs={"modality": "table", "columns": [], "kinds": []})
    )
    with pytest.raises(InputError, match="its table of inputs is missing"):
        butfor.load(path)


def test_the_same_file_unharmed(saved):
    assert butfor.load(repacked(saved)).summary() == RESULT.summary()


def test_a_large_result_is_read_where_that_is_asked_for(saved):
    with pytest.raises(InputError, match=r"larger most_bytes= to butfor\.load"):
        butfor.load(saved, most_bytes=1000)
    assert butfor.load(saved, most_bytes=10**7).chosen.tolist() == RESULT.chosen.tolist()


def test_parents_that_go_round_in_circles(tmp_path):
    rng = np.random.default_rng(1)
    result = butfor.explain(lambda rows: rows[:, 0], rng.normal(size=(6, 3)), rng.normal(size=(40, 3)), draws=19)
    path = result.save(tmp_path / "r.butfor")
    with zipfile.ZipFile(path) as archive:
        arrays = dict(np.load(io.BytesIO(archive.read("arrays.npz"))))
    arrays["layers.parent"] = np.arange(len(arrays["layers.parent"]))
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    with pytest.raises(InputError, match="as large as what it is a part of"):
        butfor.load(repacked(path, arrays=buffer.getvalue()))


OBJECT = "<object><name>a</name><bndbox><xmin>{}</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox></object>"
VOC = "<annotation><filename>p</filename><size><width>{}</width><height>9</height></size>{}</annotation>"
LAUGHS = '<!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "&b;&b;">]><annotation>&c;</annotation>'
XML = {
    "inf": (VOC.format("9", OBJECT.format("inf")).encode(), "the number 'inf'"),
    "nan": (VOC.format("9", OBJECT.format("NaN")).encode(), "the number 'NaN'"),
    "width": (VOC.format("inf", OBJECT.format("1")).encode(), "the number 'inf'"),
    "negative": (VOC.format("-9", OBJECT.format("1")).encode(), "the side '-9'"),
    "entities": (LAUGHS.encode(), "declares a document type"),
    "entities in UTF-16": (LAUGHS.encode("utf-16"), "declares a document type"),
    "encoding": (b'<?xml version="1.0" encoding="klingon"?><a/>', "unknown encoding"),
    "encoding of many bytes": (b'<?xml version="1.0" encoding="shift_jis"?><a/>', "not VOC"),
    "not even text": (b"\xff\xfe\x00\x01", "not VOC"),
    "large": (b"<annotation>" + b"<a/>" * 3 * 10**6 + b"</annotation>", "more than 8 MB"),
}  # fmt: skip


@pytest.mark.parametrize("harm", XML)
def test_voc_files(tmp_path, harm):
    content, message = XML[harm]
    (tmp_path / "b.xml").write_bytes(content)
    with pytest.raises(InputError, match=message):
        image.boxes(tmp_path / "b.xml")


def test_a_good_voc_file(tmp_path):
    (tmp_path / "b.xml").write_text(VOC.format("9", OBJECT.format("1")), encoding="utf-16")
    (subset,) = image.boxes(tmp_path / "b.xml")("p", np.zeros((9, 9, 3), np.uint8))
    assert subset.index == (0, 0, 9, 9)


def nested(depth):
    inner = [1, 2, 3, 4]
    for _ in range(depth):
        inner = [inner]
    return inner


BOXES = {
    "ragged": [[1, 2, 3], [1, 2, 3, 4, 5]],
    "one too deep": [[[1, 2, 3, 4]]],
    "deep": nested(40),
    "huge": [[1, 2, 10**400, 4]],
    "infinite": [[1, 2, float("inf"), 4]],
    "text": [["1", "2", "3", "4"]],
    "mapping": [{"name": [], "box": {}}],
}


@pytest.mark.parametrize("harm", BOXES)
def test_boxes_in_json_and_in_python(tmp_path, harm):
    (tmp_path / "b.json").write_text(json.dumps({"boxes": {"p": BOXES[harm]}}))
    for source in (tmp_path / "b.json", {"p": BOXES[harm]}):
        with pytest.raises(InputError, match=r"box"):
            image.boxes(source)("p", np.zeros((9, 9, 3), np.uint8))
    with pytest.raises(InputError, match=r"a list inside lists without end|box"):
        image.boxes(nested(5000))


@pytest.mark.parametrize("read", [read_subsets, text.spans, image.boxes, text.read_texts])
def test_deep_json(tmp_path, read):
    (tmp_path / "deep.json").write_text("[" * 100_000 + "]" * 100_000)
    with pytest.raises(InputError, match="nested 100000 deep"):
        read(tmp_path / "deep.json")


def test_brackets_inside_strings_are_no_depth():
    assert parse_json(json.dumps({"a": "[" * 1000 + '\\"' + "{" * 1000})) == {"a": "[" * 1000 + '\\"' + "{" * 1000}


def skops_with(tmp_path, schema):
    with zipfile.ZipFile(tmp_path / "m.skops", "w") as archive:
        archive.writestr("schema.json", json.dumps(schema))
    return str(tmp_path / "m.skops")


def doubled(depth):
    """Each part holds the one below it twice: skops would look at 2^depth of them."""
    node = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "__id__": 1, "content": []}
    for number in range(2, depth + 2):
        again = {key: node[key] for key in ("__class__", "__module__", "__loader__", "__id__")}
        node = {**again, "__id__": number, "content": [node, again]}
    return {**node, "protocol": 2, "_skops_version": "0.13"}


def test_a_skops_file_that_never_ends(tmp_path):
    with pytest.raises(InputError, match=r"m.skops is not a skops file that can be read: ValueError: it is made of"):
        load_model(skops_with(tmp_path, doubled(60)))


def test_a_skops_file_that_unpacks_to_gigabytes(tmp_path):
    with zipfile.ZipFile(tmp_path / "m.skops", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", "{}")
        archive.writestr("1.npy", bytes(3 * 10**8))
    with pytest.raises(InputError, match="unpack to 300 MB"):
        load_model(str(tmp_path / "m.skops"))


PEOPLE = pd.DataFrame({"age": [30, 60], "group": ["a" * 40 + "b", "x"], "name": ["y", None]})
EXPRESSIONS = {
    "10**10**10 > age": "cannot be evaluated",
    "age ** 10**10**10 > 3": "cannot be evaluated",
    "((10**10)**10)**10 > age": "is not true or false|matches|cannot be evaluated",
    "group * 10**9 == 'x'": "only numbers can be computed with",
    "'x' * 10**10 == group": "only numbers can be computed with",
    "group.isin(['x'] * 10**10)": "only numbers can be computed with",
    "group.str.contains('(a|aa)+$')": r"the pattern '\(a\|aa\)\+\$' took more than 5 s",
    "(" * 300 + "age" + ")" * 300 + " > 3": "is not an expression",
    "age > 3" + " and age > 3" * 2000: "is not an expression",
    "not " * 200 + "age > 3": "is not an expression",
    "(lambda: age)() > 3": "cannot be evaluated",
    "[age for age in group] == 3": "cannot be evaluated",
    "age.str.contains('x')": "is for a column of text",
    "print(age) == 3": "cannot be evaluated",
    "1 << 10**9 > age": "is not allowed here",
}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions_end(expression):
    def matched():
        if not evaluated(PEOPLE, expression, "--reference-where").any():
            raise InputError("matches nothing")

    with pytest.raises(InputError, match=EXPRESSIONS[expression]):
        matched()


def test_expressions_that_are_meant_well():
    for expression, expected in {
        "age ** 2 > 1000": [False, True],
        "20 < age <= 30": [True, False],
        "group in ['x', 'z']": [False, True],
        "group.str.contains('^A+B$', case=False)": [True, False],
        "name.str.startswith('y') or name.isna()": [True, True],
        "~(age == 30) & age % 7 == 4": [False, True],
        "age.between(10, 40)": [True, False],
        "-age < -40": [False, True],
    }.items():
        assert evaluated(PEOPLE, expression, "--where").tolist() == expected, expression


def test_patterns_end():
    with pytest.raises(InputError, match=r"'\(a\|aa\)\+\$' took more than 5 s; write it without repeats"):
        text.matches("(a|aa)+$")("review", "a" * 60 + "b")


@pytest.mark.parametrize("pattern", ["(?:(?:a{1000}){1000}){1000}", "(?:a?){1000000}b", "((a{9}){99,999}){,9999}"])
def test_patterns_that_would_fill_the_memory_are_refused(pattern):
    with pytest.raises(InputError, match="needs too much memory; repeat fewer times"):
        text.matches(pattern)


def test_patterns_are_those_of_python():
    text.matches(r"\b\d{4}-\d{2}-\d{2}T\d{2}:\d{2}\b|\w{1,20} \w{1,20} \w{1,20} \w{1,20}")
    for other in (r"\p{L}+", "(?:fuzzy){e<=2}(", "(?R)"):
        with pytest.raises(InputError, match="is not a regular expression"):
            text.matches(other)


def test_shared_results_open_no_other_pictures(tmp_path):
    from PIL import Image

    private, shared = tmp_path / "private", tmp_path / "shared"
    private.mkdir()
    Image.fromarray(RNG.integers(0, 255, (32, 32, 3)).astype(np.uint8)).save(private / "p.png")
    found = image.explain(lambda some: np.array([x.mean() for x in some]), private, image.donor(), boxes=image.grid(2))
    shared.mkdir()
    found.save(shared / "result.butfor")

    def report(*options):
        command = [sys.executable, "-m", "butfor.cli", "report", str(shared), *options]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    refused = report()
    assert refused.returncode == 2
    assert f"--images {private}" in refused.stderr
    assert not (shared / "report.html").exists()
    (shared / "link").symlink_to(private)
    with pytest.raises(InputError, match="in none of the folders given"):
        butfor.load(shared / "result.butfor", images_in=[shared, private / "deeper"])
    assert report("--images", str(private)).returncode == 0
    assert "data:image/jpeg" in (shared / "report.html").read_text()
