"""The report: complete, escaped, offline, and there whole or not at all."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.core.result.kept import Kept
from butfor.core.result.numbers import number
from butfor.core.types import InputError
from butfor.report.content import by_evidence, content
from butfor.report.folder import REPORT, RESULT, TABLE, check_folder, write_folder
from butfor.report.write import render

EVIL = "<script>alert('x')</script>"


def found(count=40, shift=4.0, **asked):
    rng = np.random.default_rng(0)
    names = [EVIL, "b", "c"]
    reference = pd.DataFrame(rng.normal(size=(300, 3)), columns=names)
    data = pd.DataFrame(rng.normal([shift, 0, 0], 1, size=(count, 3)), columns=names)
    data.index = [f"patient & {i}" for i in range(count)]
    asked = {"draws": 499, "test": "irt", **asked}
    return butfor.explain(lambda rows: rows[EVIL] + 0.5 * rows["b"], data, butfor.tabular.gaussian(reference), **asked)


@pytest.fixture(scope="module")
def result():
    return found()


def words(html):
    """The text of a page, as a reader sees it."""
    from html import unescape

    body = re.sub(r"<(style|title)>.*?</\1>", "", html, flags=re.S)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())


def test_says_what_is_promised_and_found(result):
    text = words(render(result))
    promise = result.guarantee
    assert " ".join(str(promise).split(" (")[0].split()) in text
    assert all(caveat in text for caveat in promise.caveats)
    assert all(" ".join(note.split()) in text for note in result.notes)
    assert f"{int(result.chosen.sum())} discoveries among 120 hypotheses" in text
    for value in ("Seed 0", "gaussian(300 reference rows, 3 columns)", f"{result.rows:,}", butfor.__version__):
        assert value in text


def test_escapes_names(result):
    html = render(result)
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "patient &amp; " in html


def test_needs_nothing_from_elsewhere(result):
    html = render(result)
    assert not re.search(r"https?://|src=|@import|url\(|<link|<iframe", html)


def test_the_same_result_gives_the_same_page(result):
    assert render(result) == render(result)


def test_strongest_evidence_first(result):
    order = by_evidence(result)
    assert (np.diff(result.evidence.values[order]) >= 0).all()
    shown = content(result)["discoveries"]
    assert shown[0].subset == result.subset_names[result.subset_of[order[0]]]
    assert all(0 <= line.low <= line.middle <= line.high <= 100 for line in shown)


def test_one_shot_evidence_is_largest_first():
    result = found(test="osft", draws=None, alpha=0.2)
    assert result.chosen.any()
    assert (np.diff(result.evidence.values[by_evidence(result)]) <= 0).all()
    assert "Counterfactuals to look at" in render(result)


def test_shows_counterfactuals_of_this_run(result):
    example = content(result)["examples"][0]
    drawn = result.counterfactuals(example.input, example.subset, n=3)
    assert example.columns[0][2] == tuple(number(value) for value in drawn[EVIL])
    assert "Counterfactuals to look at" in render(result)


def test_a_loaded_result_has_the_same_report(result, tmp_path):
    result.save(tmp_path / "r.butfor")
    assert render(butfor.load(tmp_path / "r.butfor")) == render(result)


def test_without_kept_counterfactuals_there_are_none(result):
    html = render(replace(result, kept=Kept()))
    assert "Counterfactuals to look at" not in html
    assert "discoveries among" in html


def test_no_discoveries():
    result = found(shift=0.0)
    text = words(render(result))
    assert not result.chosen.any()
    assert "No discoveries among 120 hypotheses" in text
    assert "ordinary for this reference" in text
    assert "The discoveries" not in text


def test_no_effects():
    text = words(render(found(effects=None)))
    assert text.count("interval") == 2  # of the table over all inputs, which needs no fresh draws
    assert "The discoveries" in text


def test_over_all_inputs_and_the_control():
    rng = np.random.default_rng(0)
    reference, inputs = rng.normal(size=(60, 2)), rng.normal([3, 0], 1, size=(25, 2))
    result = butfor.explain(lambda rows: rows[:, 0], inputs, reference, decide=lambda outputs: outputs > 1)
    text = words(render(result))
    for part in (
        "Over all inputs",
        "What each decision hangs on",
        "held-out rows of the reference chose",
        "But for x0",
    ):
        assert part in text
    assert result.summary().splitlines()[3].split(".")[0] in text


def test_many_discoveries_are_cut_short():
    result = found(count=260)
    left = int(result.chosen.sum()) - 200
    assert left > 1
    assert f"{left} more discoveries are in the table of the result" in words(render(result))


def test_several_outputs_are_named():
    rng = np.random.default_rng(1)
    model = lambda rows: np.column_stack([rows[:, 0], -rows[:, 0]])  # noqa: E731
    inputs = rng.normal([3, 0], 1, size=(20, 2)) * np.array([[1, 1]] * 10 + [[-1, 1]] * 10)
    result = butfor.explain(model, inputs, rng.normal(size=(200, 2)), test="irt", draws=499)
    assert {line.output for line in content(result)["discoveries"]} == {"0", "1"}
    assert "Output" in words(render(result))


def test_report_by_the_public_name(result, tmp_path):
    path = result.report(tmp_path / "r.html")
    assert path.read_text(encoding="utf-8") == render(result)
    assert [file.name for file in tmp_path.iterdir()] == ["r.html"]
    with pytest.raises(InputError, match=r"cannot write .*choose a folder that exists"):
        result.report(tmp_path / "none" / "r.html")


def test_folder(result, tmp_path):
    write_folder(result, tmp_path / "a" / "b")
    assert sorted(file.name for file in (tmp_path / "a" / "b").iterdir()) == sorted([REPORT, RESULT, TABLE])
    table = pd.read_csv(tmp_path / "a" / "b" / TABLE)
    pd.testing.assert_frame_equal(table, result.table, check_dtype=False)


def test_a_folder_is_written_whole_or_not_at_all(result, tmp_path, monkeypatch):
    def fails(*_):
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("butfor.report.folder.write", fails)
    with pytest.raises(RuntimeError):
        write_folder(result, tmp_path / "new")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / RESULT).write_text("before", encoding="utf-8")
    with pytest.raises(RuntimeError):
        write_folder(result, tmp_path / "old")
    assert [path.name for path in tmp_path.rglob("*")] == ["old", RESULT]
    assert (tmp_path / "old" / RESULT).read_text(encoding="utf-8") == "before"


def test_folders_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="is a file; name a folder"):
        check_folder(tmp_path / "file")
    with pytest.raises(InputError, match=r"cannot be made: .*file is not a folder"):
        check_folder(tmp_path / "file" / "below")
    check_folder(tmp_path / "new" / "newer")
    assert not (tmp_path / "new").exists()
