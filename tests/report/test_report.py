"""The report: complete, escaped, offline, and there whole or not at all."""

import base64
import hashlib
import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.report.content import as_json, content, index
from butfor.report.write import REPORT, RESULT, TABLE, check_folder, render, write_folder
from butfor.results.result import Kept
from butfor.results.summary import number
from butfor.results.view import LABELS, by_evidence, view
from butfor.results.words import Note, as_note
from butfor.types import InputError

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

    body = re.sub(r"<(style|title|script)\b.*?</\1>", "", html, flags=re.S)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())


def read(html):
    """What the script of a page is given: the list of inputs, and the hypotheses of each."""
    found = dict(re.findall(r'<script type="application/json" id="([^"]+)">(.*?)</script>', html, flags=re.S))
    index = json.loads(found.pop("data"))
    return index, [own for k in range(len(found)) for own in json.loads(found[f"part-{k}"])]


def test_says_what_is_promised_and_found(result):
    text = words(render(result))
    promise = result.guarantee
    assert " ".join(str(promise).split(" (")[0].split()) in text
    assert all(str(caveat) in text for caveat in promise.caveats)
    assert all(" ".join(str(note).split()) in text for note in view(result).notes)
    for value in ("Seed 0", "gaussian(300 reference rows, 3 columns)", f"{result.rows:,}", butfor.__version__):
        assert value in text


def test_the_answer_comes_first_then_features_inputs_counterfactuals_promise_notes_methods(result):
    html = render(result)
    parts = ("<h1>", "Which features", "Which inputs", "One input in full", "Counterfactuals to look at")
    parts += ("What is promised", "<h2>Notes", "Methods, to paste", "How this was made")
    places = [html.index(part) for part in parts]
    assert places == sorted(places)
    assert html.index('<details class="promise"><summary>') > html.index("<h1>")
    assert "Burns, C., Thomason" in html
    assert "butfor.explain(model, inputs, sampler, test=&#39;irt&#39;" in html


def test_every_hypothesis_is_in_the_data_of_the_script(result):
    index, own = read(render(result))
    assert index["inputs"]["name"] == [str(name) for name in result.input_names]
    assert len(own) == len(result.input_names)
    for place in (0, 7, 39):
        rows = np.flatnonzero(result.input_of == place)
        assert [bool(sure) for sure in own[place]["sure"]] == result.chosen[rows].tolist()
        assert own[place]["effect"] == pytest.approx(result.effects.effect[rows], rel=6e-3)
        assert [index["subsets"][j] for j in own[place]["subset"]] == [
            result.subset_names[j] for j in result.subset_of[rows]
        ]


def test_only_its_own_script_may_run(result):
    html = render(result)
    (script,) = re.findall(r"<script>(.*?)</script>", html, flags=re.S)
    hashed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', html).group(1)
    assert f"script-src 'sha256-{hashed}'" in policy
    assert policy.startswith("default-src 'none'; base-uri 'none'; form-action 'none'")


def test_escapes_names(result):
    html = render(result)
    assert html.count("<script") == 3  # the data, one part of it, our own
    assert EVIL not in html
    assert "&lt;script&gt;" in html
    assert "patient &amp; " in html
    assert "<" not in as_json({"<": "</script>"})


def test_a_probability_is_never_called_p():
    rng = np.random.default_rng(0)
    model = lambda rows: np.column_stack([1 / (1 + np.exp(rows[:, 0])), 1 / (1 + np.exp(-rows[:, 0]))])  # noqa: E731
    found = butfor.explain(model, rng.normal([4, 0], 1, (30, 2)), rng.normal(size=(200, 2)))
    text = words(render(found))
    assert "probability of class 1" in text
    assert not re.search(r"\bp ?=", text.split("What is promised")[0])


def test_needs_nothing_from_elsewhere(result):
    html = render(result)
    spaces = html.replace("http://www.w3.org/2000/svg", "")  # the name of SVG, which nobody asks for
    assert not re.search(r"https?://|src=|@import|url\(|<link|<iframe|fetch\(|XMLHttp|import\(", spaces)


def test_the_same_result_gives_the_same_page(result):
    assert render(result) == render(result)


def test_strongest_evidence_first(result):
    order = by_evidence(result)
    assert (np.diff(result.evidence.values[order]) >= 0).all()
    shown = content(result)["full"]
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
    assert example.outputs == tuple(number(value) for value in drawn[EVIL] + 0.5 * drawn["b"])
    assert "Counterfactuals to look at" in render(result)


def test_a_loaded_result_has_the_same_report(result, tmp_path):
    result.save(tmp_path / "r.butfor")
    assert render(butfor.load(tmp_path / "r.butfor")) == render(result)


def test_without_kept_counterfactuals_there_are_none(result):
    html = render(replace(result, kept=Kept()))
    assert "Counterfactuals to look at" not in html
    assert "One input in full" in html


def test_a_run_that_found_nothing_shows_effects_percentiles_and_the_next_call():
    result = found(shift=0.0)
    text = words(render(result))
    assert not result.chosen.any()
    assert "Unusual no input in any part" in text
    assert "of its counterfactuals" in text
    assert "look like reference rows" in text
    assert "Counterfactuals to look at" not in text


def test_no_effects():
    text = words(render(found(effects=None)))
    assert "Which inputs" in text
    assert "unusual" in text


def test_over_all_inputs_and_the_control():
    rng = np.random.default_rng(0)
    reference, inputs = rng.normal(size=(60, 2)), rng.normal([3, 0], 1, size=(25, 2))
    result = butfor.explain(lambda rows: rows[:, 0], inputs, reference, decide=lambda outputs: outputs > 1)
    text = words(render(result))
    for part in (
        "Which features",
        "Decisive x0 for",
        "held-out reference rows finds",
        "The nearest case in which the decision changes",
    ):
        assert part in text


def test_many_inputs_are_paged_and_none_is_left_out():
    result = found(count=260)
    html = render(result)
    index, own = read(html)
    assert html.count('id="part-') == 3
    assert len(own) == len(index["inputs"]["name"]) == 260
    assert "The first 20 of 260 are shown" in words(html)  # where no script may run


def test_an_input_without_hypotheses_has_no_reason_of_another():
    texts = ["a fine film", "short", "words are fine"]
    result = butfor.multimodal.explain(
        lambda batch: np.array([len(one["caption"]) for one in batch]),
        [{"caption": text} for text in texts],
        samplers={"caption": butfor.text.ngram(["a fine film", "words are fine", "all is good"] * 4)},
        subsets={"caption": lambda _, text: [butfor.Subset("first", (0, text.index(" ")))] if " " in text else []},
    )
    assert set(result.input_of.tolist()) == {0, 2}
    listed = {entry.name: entry for entry in content(result)["entries"]}
    assert listed[str(result.input_names[1])].reason is None
    assert "nothing was tested" in render(result)
    shown = index(result)["inputs"]
    assert shown["reason"][1] == -1
    assert shown["effect"][1] is None
    assert min(shown["reason"][0], shown["reason"][2]) >= 0


def test_one_input_with_a_decision():
    rng = np.random.default_rng(0)
    result = butfor.explain(
        lambda rows: rows[:, 0], rng.normal([6, 0], 0.1, (1, 2)), rng.normal(size=(200, 2)), decide=lambda out: out > 3
    )
    shown = view(result)
    assert re.match(r"Decisive: x0 \(\d+ % of draws decide otherwise; 95 %: \d+ to 100\)$", str(shown.lines[1]))
    assert shown.nearest.changes[0][0] == "x0"
    assert float(shown.nearest.after) < 3
    assert "Which inputs" not in render(result)
    small = result._repr_html_()
    assert shown.lines[1].text in small
    assert len(small) < 20_000


def test_a_notebook_shows_names_and_runs_nothing(result):
    small = result._repr_html_()
    assert "<script" not in small
    assert "&lt;script&gt;" in small


def test_report_by_the_public_name(result, tmp_path):
    path = result.report(tmp_path / "r.html")
    assert path.read_text(encoding="utf-8") == render(result)
    assert [file.name for file in tmp_path.iterdir()] == ["r.html"]
    for write in (result.report, result.save):
        for name in ("", ".", "/"):
            with pytest.raises(InputError, match=r"^'[./]' is a folder; name a file in it$"):
                write(name)
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

    monkeypatch.setitem(write_folder.__globals__, "write", fails)
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


def test_a_large_result_lists_the_inputs_with_most_to_show(monkeypatch):
    from butfor.report import content as data
    from butfor.report.write import render

    rows = np.random.default_rng(0).normal(size=(60, 3))
    rows[7:9, 0] += 9
    sampler = butfor.tabular.from_values(lambda n, s, k, r: r.normal(size=(len(n) * k, len(s.index))))
    result = butfor.explain(lambda rows: rows[:, 0], rows, sampler, test="irt", draws=999)
    assert data.shown_inputs(result).tolist() == list(range(60))
    assert "The list has" not in render(result)
    monkeypatch.setattr(data, "MOST_HYPOTHESES", 30)
    shown = data.shown_inputs(result).tolist()
    assert len(shown) == 10
    assert {7, 8} <= set(shown)
    assert data.index(result)["inputs"]["name"] == [str(place) for place in shown]
    assert [len(part) for part in data.parts(result)] == [10]
    page = render(result)
    assert "The list has 10 of 60 inputs, those with most findings; result.table has all of them." in page


# Was wrong once: the limit for runs of a million hypotheses cut the list to 1,666 of the 5,000 inputs.
def test_all_of_5000_inputs_with_30_features_are_listed():
    from butfor.report import content as data

    rows, sampler = np.zeros((5000, 30)), butfor.tabular.from_values(lambda n, s, k, r: r.normal(size=(len(n) * k, 1)))
    result = butfor.explain(lambda rows: rows[:, 0], rows, sampler, test="osft")
    assert len(data.shown_inputs(result)) == 5000


def test_a_global_result_has_a_report_that_asks_nothing(tmp_path):
    """One line per feature, those chosen first; what came from the user is escaped."""
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 3)), columns=["<b>", "noise", "idle"])
    skill = butfor.global_importance(lambda rows: rows["<b>"] + 0.1 * rows["noise"], rows, y=rows["<b>"])
    page = skill.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<dt>Matter</dt><dd>&lt;b&gt; +" in page
    assert page.index('<th scope="row">&lt;b&gt;</th>') < page.index('<th scope="row">noise</th>')
    assert "no variation" in page
    assert "Tansey, W., Veitch, V." in page
    assert "y=labels" in page
    assert "<script" not in page
    again = butfor.load(skill.save(tmp_path / "r.butfor"))
    assert again.report(tmp_path / "again.html").read_text(encoding="utf-8") == page


def test_the_report_of_a_contrast_says_what_averages_out(tmp_path):
    class Model:
        classes_ = np.array(["no", "yes"])

        def predict_proba(self, rows):
            chance = 1 / (1 + np.exp(-np.asarray(rows)[:, 0]))
            return np.column_stack([1 - chance, chance])

    rng = np.random.default_rng(0)
    inputs, reference = rng.normal(0, 2, (60, 2)), rng.normal(size=(100, 2))
    found = butfor.global_importance(Model(), inputs, reference=reference)
    codes = {note.code: note for note in found.notes}
    assert list(codes["mixed-classes"].values["classes"]) == ["no", "yes"]
    assert "target='no'" in str(codes["mixed-classes"])
    assert "ordinary-data" not in codes
    assert "<dd>nothing, of 2</dd>" in found.report(tmp_path / "r.html").read_text(encoding="utf-8")
    one = butfor.global_importance(Model(), inputs + 3, reference=reference, target="yes")
    assert "mixed-classes" not in {note.code for note in one.notes}
    assert "<dt>Differ on average</dt><dd>x0 +" in one.report(tmp_path / "r.html").read_text("utf-8")


@pytest.fixture(scope="module")
def decided():
    """A decision asked from coarse to fine: the first column is all that matters."""
    rng = np.random.default_rng(0)
    names = ["a", "b", "c", "d"]
    reference = pd.DataFrame(rng.normal(size=(200, 4)), columns=names)
    inputs = pd.DataFrame(rng.normal([4, 0, 0, 0], 1, (24, 4)), columns=names)
    return butfor.explain(lambda rows: rows["a"], inputs, reference, decide=lambda outputs: outputs > 2)


def test_the_promise_is_one_line_and_claims_no_more_than_the_guarantee(decided):
    assert "each resolution" in decided.guarantee.family
    line = str(view(decided).lines[-1])
    assert "Promise: of each kind of finding at most 10 % is wrong on average; each 95 % interval holds by" in line
    assert "of other findings at most 10 %" in str(view(decided.select(alpha=0.3)).lines[-1])
    assert "with 90 % confidence nothing called unusual is wrong" in str(view(decided.select(rule="holm")).lines[-1])
    shown = words(render(decided))
    assert "each 95 % interval holds by itself" in shown
    assert shown.count("the same distribution wherever the others are") == 3  # of rows, decisions and features
    together = replace(decided, record=replace(decided.record, simultaneous=True))
    assert "all 95 % intervals hold together" in str(view(together).lines[-1])
    assert "all 95 % intervals at each level of detail hold together" in words(render(together))


def test_the_lead_says_nothing_twice(decided):
    for result in (decided, found(), found(shift=0.0)):
        sentences = [str(line) for line in view(result).lines]
        assert len(set(sentences)) == len(sentences)


def test_what_is_nothing_beside_the_largest_effect_reads_zero():
    rng = np.random.default_rng(0)
    model = lambda rows: rows[:, 0] + 1e-9 * rows[:, 1]  # noqa: E731
    result = butfor.explain(model, rng.normal([4, 0], 1, (25, 2)), rng.normal(size=(200, 2)), subsets="columns")
    before = words(render(result)).split("What is promised")[0]
    assert not re.search(r"\de[−-]\d", before)
    shown = {line.name: line.text for line in content(result)["full"]}
    assert shown["x1"] == "0"
    index, own = read(render(result))
    assert own[0]["effect"][index["subsets"].index("x1")] == 0
    assert index["statuses"][own[0]["status"][0]] == result.table["status"][0]


# Was wrong once: a status that the report did not know stopped it.
def test_columns_that_are_not_judged_are_shown():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(260, 2))
    rows = np.column_stack([rows, rows.sum(axis=1)])
    result = butfor.explain(lambda x: x[:, 2], rows[200:], rows[:200], subsets=["x2"], control=False)
    assert set(result.table.status) == {"not judged"}
    shown, inputs = read(render(result))
    assert [shown["statuses"][k] for k in inputs[0]["status"]] == ["not judged"] * len(inputs[0]["status"])


def test_a_single_input_has_no_buttons_to_other_inputs():
    rng = np.random.default_rng(0)
    result = butfor.explain(lambda rows: rows[:, 0], rng.normal([6, 0], 0.1, (1, 2)), rng.normal(size=(200, 2)))
    assert "Next input" not in render(result)
    assert "Next input" in render(found())


def test_a_long_table_is_folded_and_only_a_script_may_fold_it():
    rng = np.random.default_rng(0)
    result = butfor.explain(
        lambda rows: rows[:, 0], rng.normal([4] + 15 * [0], 1, (25, 16)), rng.normal(size=(200, 16)), subsets="columns"
    )
    page = content(result)
    assert [line.folded for line in page["full"]].count(False) == 12
    assert any(line.sure for line in page["features"])
    assert not any(line.folded and line.sure for line in (*page["features"], *page["full"]))
    assert ".js .folded tr.deep" in render(result)
    assert "Show 4 more: no findings" in words(render(result))


def test_one_input_is_spoken_of_by_its_own_class():
    class Model:
        classes_ = np.array(["red", "green", "blue"])

        def predict_proba(self, rows):
            raised = np.exp(np.asarray(rows) * 3)
            return raised / raised.sum(axis=1, keepdims=True)

    rng = np.random.default_rng(0)
    result = butfor.explain(Model(), rng.normal(0, 1, (24, 3)), rng.normal(size=(200, 3)), subsets="columns")
    outputs = read(render(result))[0]["inputs"]["outputs"]
    assert set(outputs) == {"probability of red", "probability of green", "probability of blue"}
    assert "the class asked about" not in view(result).chart.title


def test_a_global_result_in_a_notebook_is_a_sentence_a_picture_and_the_promise():
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 3)), columns=["<b>", "noise", "idle"])
    skill = butfor.global_importance(lambda rows: rows["<b>"] + 0.1 * rows["noise"], rows, y=rows["<b>"])
    small = skill._repr_html_()
    assert "<b>Matter:</b> &lt;b&gt; +" in small
    assert small.count("<svg") == 3
    assert "at most 10 % is wrong on average" in small
    assert "<script" not in small
    assert len(small) < 10_000


def test_the_picture_counts_what_the_sentence_says(decided):
    shown = view(decided)
    assert shown.chart.kind == "count"  # of all inputs, and not of one
    name, count = re.search(r"Decisive: (.+?) for (\d+) of 24", str(shown.lines[1])).groups()
    assert {line.name: line.text for line in shown.chart.lines}[name] == f"{count} of 24"


def test_severity_is_that_of_the_note_whatever_columns_are_called():
    """Was wrong once: a column called failed_payments made a warning of good news."""
    names = ["failed_payments", "not reached", "beware"]
    rng = np.random.default_rng(0)
    reference = pd.DataFrame(rng.normal(size=(200, 3)), columns=names)
    inputs = pd.DataFrame(rng.normal([4, 0, 0], 1, (24, 3)), columns=names)
    severities = []
    for columns in (names, ["a", "b", "c"]):
        result = butfor.explain(
            lambda rows: rows.iloc[:, 0], inputs.set_axis(columns, axis=1), reference.set_axis(columns, axis=1)
        )
        severities.append([note.severity for note in view(result).notes])
    assert severities[0] == severities[1]
    for name in names:
        notes = (as_note(f"{name} stands out."), Note("interrupted-effects", "warning", {"name": name}))
        shown = view(replace(result, run_notes=notes)).notes
        assert [note.severity for note in shown] == sorted((note.severity for note in shown), key=list(LABELS).index)
        assert {note.code: LABELS[note.severity] for note in notes} == {
            "text": "Detail",
            "interrupted-effects": "Beware",
        }
        page = words(render(replace(result, run_notes=notes)))
        assert "Beware. Interrupted while effects" in page
        assert f"Beware. {name}" not in page


def test_terminal_notebook_and_report_say_the_same_sentences(decided, result):
    for one in (decided, result, found(shift=0.0)):
        terminal, page, cell = one.summary().splitlines(), words(render(one)), words(one._repr_html_())
        assert terminal == [str(line) for line in view(one).lines]
        for line in view(one).lines:
            assert " ".join(line.full.split()) in page  # with whole names
            assert " ".join(line.text.split()) in cell
