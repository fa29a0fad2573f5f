"""How a run on texts is shown: marks at the right characters, everything escaped, counts as in the result."""

import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

import butfor
from butfor.evaluation.hypotheses import Block
from butfor.report.write import render, write_folder
from butfor.results.result import Kept
from butfor.text.view import (
    Gap,
    directions,
    found_in,
    harmless,
    kind_of,
    marked,
    marked_texts,
    often,
    pieces,
    rendered,
    shortened,
    window,
)
from butfor.types import Subset

GOOD, BAD, PLAIN = ("lovely", "superb", "fine"), ("dreadful", "boring", "awful"), ("long", "new", "french", "short")
EVIL = "<script>alert('x')</script>"


def model(texts):
    """Good words less bad ones."""
    return np.array(
        [sum(text.lower().count(w) for w in GOOD) - sum(text.lower().count(w) for w in BAD) for text in texts], float
    )


def plain(texts, subset, draws, rng):
    """Sampler: one of four words that say nothing."""
    start, end = subset.index
    return [text[:start] + PLAIN[k] + text[end:] for text in texts for k in rng.integers(0, len(PLAIN), draws)]


TEXTS = {
    "a": "A lovely film, and LOVELY music.\nBut a dreadful ending.",
    "b": f"{EVIL} A boring start <b>and</b> an awful & boring rest.<br /><br />The end.",
    "c": "Superb! A superb cast in a lovely house.",
    "d": "Nothing happens.",
    "<i>e</i>": "هذا فيلم lovely جدا",
    "f": "這部電影 superb 很好 e\u0301\u0301 \U0001f469\u200d\U0001f469\u200d\U0001f467 fine \ud800 half",
    **{f"more {k}": f"It was a {word} film number {k}." for k, word in enumerate((*GOOD, *BAD) * 2)},
}


def explained(texts=None, units="word", **settings):
    return butfor.text.explain(
        model, TEXTS if texts is None else texts, plain, units=units, **{"alpha": 0.1, "test": "few-shot", **settings}
    )


@pytest.fixture(scope="module")
def result():
    return explained()


@pytest.fixture(scope="module")
def page(result):
    return render(result)


def stretches(result, name):
    view = marked_texts(result)
    return next(text for text in view.texts if text.name == name).stretches


def words_marked(result, name):
    return [
        ("".join(part for part, _ in s.parts), s.kind) for s in stretches(result, name) if s.kind not in ("", "tested")
    ]


def test_the_words_that_count_are_marked_with_their_direction(result):
    assert words_marked(result, "a") == [("lovely", "up"), ("LOVELY", "up"), ("dreadful", "down")]
    assert words_marked(result, "d") == []
    assert words_marked(result, "<i>e</i>") == [("lovely", "up")]
    assert words_marked(result, "f") == [("superb", "up"), ("fine", "up")]


def test_a_marked_text_is_the_text_to_the_character(result):
    for name, text in TEXTS.items():
        shown = "".join(part for stretch in stretches(result, name) for part, _ in stretch.parts)
        assert shown == text


def body(page):
    """The texts of a page as a browser reads them: without tips and tags, entities as characters."""
    found = re.findall(r'<div class="words[^"]*" dir="auto">(.*?)</div>', page, re.DOTALL)
    return [
        unescape(re.sub(r"<[^>]+>", "", re.sub(r'<span class="tip".*?</span>', "", part, flags=re.DOTALL)))
        for part in found
    ]


def test_the_page_reads_as_the_texts_with_line_breaks_kept(page):
    assert body(page) == [text.replace("\ud800", "\ufffd") for text in TEXTS.values()]
    assert "white-space: pre-wrap" in page


def test_nothing_of_a_text_or_a_name_is_markup(page):
    assert page.count("<script") == 3  # data, and our own
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;" in page
    assert "<i>e</i>" not in page
    assert set(re.findall(r'(?:src|href)="([^"]*)"', page)) <= {"#answer"}  # within the page only
    assert "default-src 'none'" in page


def test_words_are_escaped_as_subsets_and_fills_too():
    def nasty(texts, subset, draws, rng):
        start, end = subset.index
        return [
            text[:start] + f"<img src=x onerror={k}>" + text[end:] for text in texts for k in rng.integers(0, 9, draws)
        ]

    texts = [f"So {EVIL} lovely{k}" for k in range(12)]
    found = butfor.text.explain(model, texts, nasty, units=butfor.text.matches(r"<script>.*?lovely\d+"))
    assert found.chosen.all()
    page = render(found)
    assert page.count("<script") == 3  # data, and our own
    assert "<img" not in page
    assert "<script" not in marked(found)._repr_html_()
    assert "<img" not in marked(found)._repr_html_()


def test_evidence_effect_and_output_are_on_hover(result):
    tips = [s.tip for s in stretches(result, "a") if s.kind == "down"]
    assert len(tips) == 1
    (tip,) = tips[0]
    assert re.fullmatch(r"dreadful: chosen, w \S+, q 0\.\d+, effect −1 \(−\S+ to −\S+\), output 1", tip)
    assert all(len(s.tip) == 1 and s.tip[0].startswith("w ") for s in stretches(result, "a") if s.kind == "tested")


def test_counterfactual_sentences_have_the_changed_word_and_the_change(result):
    view = marked_texts(result)
    words = {word.name: word for word in view.texts[0].words}
    assert list(words) == ["lovely", "LOVELY", "dreadful"]
    line = words["dreadful"].changed[0]
    assert line.word in PLAIN
    assert line.before.endswith("But a ")
    assert line.after == " ending."
    assert (words["dreadful"].original.value, line.value, line.change, line.way) == ("1", "2", "+1.000", "up")
    drawn = result.counterfactuals("a", "dreadful", n=8)
    shown = {text[len(TEXTS["a"][: TEXTS["a"].index("dreadful")]) : -len(" ending.")] for text in drawn}
    assert {line.word for line in words["dreadful"].changed} <= shown
    times = [int(line.times.split()[0]) for line in words["dreadful"].changed]
    assert times == sorted(times, reverse=True)
    assert all(line.times.endswith(" of 8") for line in words["dreadful"].changed)


def test_a_long_text_has_a_window_around_the_change():
    texts = [f"{'plain words here ' * 40}a lovely day{' and so on' * 40} {k}" for k in range(12)]
    found = explained(texts, butfor.text.matches("lovely"))
    word = marked_texts(found).texts[0].words[0]
    assert word.original.before.startswith("… ")
    assert word.original.before.endswith(" a ")
    assert word.original.after.endswith(" …")
    assert len(word.original.before + word.original.after) < 150


def test_breaks_of_html_stand_apart_and_are_one_line_in_sentences():
    found = explained([f"So long.<br /><br />A lovely<br>end {k}." for k in range(12)], butfor.text.matches("lovely"))
    (word,) = marked_texts(found).texts[0].words
    assert word.original.before == "So long. ⏎ A "
    assert word.original.after.startswith(" ⏎ end")
    assert '<span class="break">&lt;br /&gt;</span>' in render(found)


def test_the_table_of_words_has_the_counts_of_the_result(result):
    counts = {count.word.lower(): count for count in butfor.text.word_counts(result)}
    table = result.table
    names = table.subset.str.replace(r" #\d+$", "", regex=True).str.lower()
    assert sum(count.chosen for count in counts.values()) == result.chosen.sum()
    assert sum(count.tested for count in counts.values()) == len(result.chosen)
    for word, own in table.groupby(names):
        count = counts[word]
        assert (count.chosen, count.tested) == (own.chosen.sum(), len(own))
        assert (count.up, count.down) == ((own.effect[own.chosen] > 0).sum(), (own.effect[own.chosen] < 0).sum())
    ordered = [count.chosen for count in butfor.text.word_counts(result)]
    assert ordered == sorted(ordered, reverse=True)
    assert counts["lovely"].tested == 6
    page = " ".join(unescape(re.sub(r"<[^>]+>", " ", render(result))).split())
    first = butfor.text.word_counts(result)[0]
    assert f"{first.word} {first.chosen} of {first.tested}" in page


def test_overlapping_spans_that_were_tested_alone():
    texts = [f"A lovely day and a dreadful night {k}" for k in range(12)]
    spans = butfor.text.spans([(0, 12), (2, 8), (9, 27)], overlap="alone")
    found = explained(texts, spans)
    assert found.chosen.all()
    cut = pieces(found, 0, [0, 1, 2], directions(found))
    assert [(texts[0][p.start : p.end], p.rows, p.kind) for p in cut] == [
        ("A ", (0,), "up"),
        ("lovely", (0, 1), "up"),
        (" ", (0,), "up"),
        ("day", (0, 2), "both"),
        (" and a dreadful", (2,), "down"),
        (" night 0", (), ""),
    ]
    assert body(render(found))[0] == texts[0]
    assert rendered(found, found.input_names[0], colour=False).endswith(
        "[+A ][+lovely][+ ][±day][− and a dreadful] night 0"
    )


def test_wordpieces_are_joined_back_into_words():
    texts = [f"An unlovely day, isn't it, number {k}?" for k in range(12)]

    def cut(name, text):
        place = text.index("unlovely")
        return [
            Subset(w, (a, b))
            for w, a, b in (
                ("An", 0, 2),
                ("un", place, place + 2),
                ("lovely", place + 2, place + 8),
                ("day", place + 9, place + 12),
            )
        ]

    found = explained(texts, cut)
    found = replace(
        found, record=replace(found.record, inputs=replace(found.record.inputs, units="wordpieces(tokenizer)"))
    )
    view = marked_texts(found)
    (stretch,) = (s for s in view.texts[0].stretches if s.kind == "up")
    assert stretch.parts == (("un", "tested"), ("lovely", "up"))
    assert [tip.split(",")[0] for tip in stretch.tip] == ["un: not chosen", "lovely: chosen"]
    counts = {count.word: (count.chosen, count.tested) for count in butfor.text.word_counts(found)}
    assert counts == {"unlovely": (12, 12), "An": (0, 12), "day": (0, 12)}
    assert "un<b>lovely</b>" in render(found)
    assert "[+unlovely]" in rendered(found, found.input_names[0], colour=False)


def test_the_embedded_tokenizer_s_pieces_are_joined():
    texts = [f"An unclear Kurosawa {k}" for k in range(12)]
    found = butfor.text.explain(lambda batch: ["uncle" in text for text in batch], texts, plain, units="wordpiece")
    assert set(found.table.subset) >= {"uncle", "ar"}
    assert {count.word for count in butfor.text.word_counts(found)} >= {"unclear"}


@pytest.mark.parametrize("text", ["這部電影很好", "ภาพยนตร์เรื่องนี้", "ひらがな"])
def test_scripts_without_spaces_are_not_joined(text):
    found = explained(
        [f"{text} lovely {k}" for k in range(12)], lambda name, whole: [Subset(str(k), (k, k + 1)) for k in range(3)]
    )
    found = replace(
        found, record=replace(found.record, inputs=replace(found.record.inputs, units="wordpieces(tokenizer)"))
    )
    assert all(len(count.word) <= 2 for count in butfor.text.word_counts(found) if count.tested)


def test_right_to_left_and_isolated(page):
    assert page.count('class="words" dir="auto"') == len(TEXTS)
    assert '<bdi class="m up">lovely</bdi>' in page


def test_lone_surrogates_can_be_written(tmp_path):
    found = explained({"half \ud800": "A lovely \ud801 day", **{f"t{k}": "A lovely day" for k in range(11)}})
    write_folder(found, tmp_path)
    assert "half �" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "half \\ud800" in (tmp_path / "table.csv").read_text(encoding="utf-8")
    assert butfor.load(tmp_path / "result.butfor").hypotheses.items.inputs[0] == "A lovely \ud801 day"
    rendered(found, "half \ud800", colour=False).encode("utf-8")


def test_a_saved_result_is_shown_again_with_what_the_run_kept(result, tmp_path):
    again = butfor.load(result.save(tmp_path / "r.butfor"))
    assert render(again) == render(result)
    assert "What the sampler drew instead" in render(again)
    assert marked_texts(again) == marked_texts(result)
    assert rendered(again, "a", colour=False) == rendered(result, "a", colour=False)
    assert repr(butfor.text.word_counts(again)) == repr(butfor.text.word_counts(result))


def test_a_file_of_an_earlier_version_is_shown_without_the_model_s_answers(result):
    """It has neither outputs nor counterfactuals."""
    bare = replace(result, kept=Kept(), outputs=np.full((len(result.input_names), 0), np.nan))
    assert "What the sampler drew instead" not in render(bare)
    assert body(render(bare)) == body(render(result))
    assert marked_texts(bare).texts[0].output == ""
    assert not marked_texts(bare).drawn


def test_without_discoveries(tmp_path):
    found = explained(dict.fromkeys("abcdefghijkl", TEXTS["d"]))
    assert not found.chosen.any()
    page = render(found)
    assert "<dt>Unusual</dt><dd>no input in any part<br>" in page
    assert "<mark" not in page
    assert "chosen most often" not in page
    assert often(found) == ""
    assert rendered(found, "a", colour=False) == "a: 0 of 2 chosen, output 0\nNothing happens."


def with_empty(result):
    """The result with one text more that is empty, as a user's own modality might have it."""
    hypotheses = result.hypotheses
    items = replace(hypotheses.items, inputs=[*hypotheses.items.inputs, ""])
    hypotheses = replace(hypotheses, items=items, input_names=(*hypotheses.input_names, "empty"))
    outputs = np.vstack([result.outputs, [[0.0]]])
    return replace(result, hypotheses=hypotheses, input_names=hypotheses.input_names, outputs=outputs)


def test_an_empty_text(result):
    found = with_empty(result)
    assert "(an empty text)" in render(found)
    assert rendered(found, "empty", colour=False) == "empty: 0 of 0 chosen\n(an empty text)"
    assert "empty" in marked(found, "empty")._repr_html_()


def test_directions_without_effects_are_those_of_the_alternative():
    two = explained(effects=None)
    assert "up" not in marked_texts(two).kinds
    assert "in a direction that is not known without effects" in render(two)
    assert "[*lovely]" in rendered(two, "a", colour=False)
    one = explained(effects=None, alternative="less")
    assert set(directions(one)) == {-1}
    assert "[−dreadful]" in rendered(one, "a", colour=False)


def test_large_runs_are_paged_and_no_text_is_left_out():
    texts = [f"A lovely, superb and fine film number {k}" for k in range(60)]
    found = explained(texts)
    view = marked_texts(found)
    assert (len(view.texts), view.more) == (60, 0)
    page = render(found)
    assert page.count('<section class="text"') == 60
    assert page.count('<template class="page">') == 2
    assert page.count("<details open>") < 60


def test_counterfactuals_have_a_budget(monkeypatch):
    monkeypatch.setattr("butfor.text.view.MOST_CHANGED", 5)
    found = explained([f"A lovely and superb film number {k}" for k in range(12)])
    words = [len(text.words) for text in marked_texts(found).texts]
    assert words == [2, 2, 1, *[0] * 9]


def test_a_very_long_text_is_shown_around_its_chosen_words():
    text = "plain " * 3000 + "a lovely day " + "plain " * 3000
    found = explained([f"{text}{k}" for k in range(12)], butfor.text.matches("lovely|dreadful"))
    shown = marked_texts(found).texts[0].stretches
    seen = sum(len(part) for stretch in shown for part, _ in stretch.parts)
    assert seen < 700
    assert [bool(stretch.gap) for stretch in shown] == [True, False, False, False, True]
    page = render(found)
    assert len(page) < 70_000  # of a text of 36,000 characters twelve times, and the page itself
    assert re.search(r"\[… 17,\d\d\d characters …\]", page)
    assert len(rendered(found, found.input_names[0], colour=False)) < 900


def test_shortened_accounts_for_every_character():
    rng = np.random.default_rng(0)
    text = "".join(rng.choice(list("ab  e\u0301\n"), 9000))
    found = explained([text + "lovely"], butfor.text.matches(r"ab+"), test="osft", effects=None)
    found = replace(found, chosen=rng.random(len(found.chosen)) < 0.4)
    rows = np.flatnonzero(found.input_of == 0).tolist()
    cut = pieces(found, 0, rows, np.ones(len(found.chosen), int))
    for most in (50, 500, 5000):
        short = shortened(found.hypotheses.items.inputs[0], cut, most)
        kept = sum(piece.end - piece.start for piece in short if not isinstance(piece, Gap))
        assert kept <= most
        gaps = [gap for gap in short if isinstance(gap, Gap)]
        assert kept + sum(gap.characters for gap in gaps) == len(found.hypotheses.items.inputs[0])
        marks = {row for piece in short if not isinstance(piece, Gap) for row in piece.rows if found.chosen[row]}
        assert len(marks) + sum(gap.chosen for gap in gaps) == found.chosen[rows].sum()


def test_windows_never_part_a_character():
    text = "e\u0301" * 200 + "lovely" + "e\u0301" * 200
    start = text.index("lovely")
    a, b = window(text, start, start + 6, 31)
    assert text[a] == "e"
    assert text[b] == "e"


def test_several_outputs_are_named_and_their_probabilities_shown():
    class Two:
        classes = ("<b>bad</b>", "good")

        def __call__(self, texts):
            score = model(texts)
            return np.stack([-score, score], axis=1)

    found = butfor.text.explain(Two(), TEXTS, plain, target="good")
    view = marked_texts(found)
    assert view.output == "good"
    assert view.texts[0].output.startswith("the model says good, probability 0.8")
    assert view.texts[0].words[0].changed[0].value.startswith("0.")
    assert "<b>bad</b>" not in render(found)


def test_a_result_of_another_modality_has_no_texts():
    table = butfor.explain(
        lambda x: x[:, 0], np.ones((12, 2)), np.random.default_rng(0).normal(size=(99, 2)), test="osft"
    )
    assert marked_texts(table) is None


def test_what_was_tested_is_underlined_where_that_is_little():
    texts = [f"A lovely film, number {k}, a film for a long winter night" for k in range(12)]
    few = explained(texts, butfor.text.matches("lovely|winter"))
    assert marked_texts(few).sparse
    assert not marked_texts(explained(texts)).sparse
    assert 'class="words sparse"' in render(few)


def test_the_terminal_gets_no_control_characters_and_colour_only_when_asked(result):
    found = explained({f"a{k}": f"\x1b[2J A lovely\r\nday\x07 {k}" for k in range(12)})
    plain_text = rendered(found, "a0", colour=False)
    assert plain_text == "a0: 1 of 5 chosen, output 1\n�[2J A [+lovely]\nday� 0"
    coloured = rendered(result, "a", colour=True)
    assert "\x1b[1;34m[+lovely]\x1b[0m" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == rendered(result, "a", colour=False)
    assert harmless("a\u202eb\x9b") == "a�b�"


def test_the_terminal_lists_the_words_chosen_most_often(result):
    lines = often(result, most=3).splitlines()
    first = butfor.text.word_counts(result)[0]
    assert lines[1].split()[:4] == [first.word, str(first.chosen), "of", str(first.tested)]
    assert lines[-1].startswith("... and ")


def test_what_was_found_for_the_command_line(result):
    said = found_in(result)
    assert said.count(" chosen, output ") == 3
    assert "... and 14 more texts with chosen words" in said
    assert found_in(explained(dict.fromkeys("abcdefghijkl", TEXTS["d"]))) == ""


def test_an_unknown_input_or_a_result_of_a_table_is_one_sentence(result):
    with pytest.raises(butfor.InputError, match="unknown input 'z'"):
        rendered(result, "z")
    with pytest.raises(butfor.InputError, match="unknown input"):
        marked(result, "z")
    table = butfor.explain(
        lambda x: x[:, 0], np.ones((12, 2)), np.random.default_rng(0).normal(size=(99, 2)), test="osft"
    )
    with pytest.raises(butfor.InputError, match="is no text"):
        marked(table, 0)


def test_marked_texts_in_a_notebook(result):
    html = marked(result)._repr_html_()
    assert html.count("<mark ") == result.chosen.sum()
    assert "<small>▲</small>lovely</mark>" in html
    assert 'dir="auto"' in html
    assert "<script" not in html
    assert str(marked(result, "c")) == "c: 3 of 8 chosen, output 3\n[+Superb]! A [+superb] cast in a [+lovely] house."


def test_a_plot_of_the_words(result):
    import matplotlib

    matplotlib.use("agg")
    from butfor.plots import chosen_words

    ax = chosen_words(result, most=4)
    counts = butfor.text.word_counts(result)[:4]
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        f"{c.word}  {c.chosen} of {c.tested}" for c in counts
    ]
    assert sum(patch.get_width() for patch in ax.patches) == sum(c.up - c.down for c in counts)
    assert chosen_words(result, ax=ax) is ax
    ax.figure.canvas.draw()
    matplotlib.pyplot.close("all")
    odd = explained(
        {f"t{k}": "A $lovely$ \ud800superb day" for k in range(12)}, butfor.text.matches(r"\$lovely\$|.superb")
    )
    ax = chosen_words(odd)
    ax.figure.canvas.draw()
    matplotlib.pyplot.close("all")


def test_kinds():
    assert kind_of({1, 0}) == "up"
    assert kind_of({-1, 0}) == "down"


def test_the_report_of_a_large_run_does_not_search_for_every_word():
    """Redrawing looks at one block, not at all of them."""
    looked = []

    class Counting(Block):
        @property
        def rows(self):
            looked.append(1)
            return self.__dict__["rows"]

        @rows.setter
        def rows(self, value):
            self.__dict__["rows"] = value

    found = explained([f"A lovely film number {k} of many and more" for k in range(60)])
    blocks = tuple(Counting(b.subset, b.start, b.stop, b.key, b.rows) for b in found.hypotheses.blocks)
    found = replace(found, hypotheses=replace(found.hypotheses, blocks=blocks))
    looked.clear()
    marked_texts(found)
    assert len(looked) < 10 * len(blocks)


def test_the_demo_shows_words_of_opinion_beside_plain_ones_and_next_to_nothing_beside_any():
    from butfor.text.demo import REVIEWS, text_demo

    demo = text_demo()
    chosen = set(demo.result.table[demo.result.chosen].subset)
    assert len(chosen & {"wonderful", "excellent", "loved", "perfect", "waste", "mess", "awful", "worst", "poor"}) >= 6
    assert demo.check.chosen.mean() < 0.03
    told = demo.marked(colour=False)
    assert all(name in told for name in REVIEWS)
    assert f"chooses {demo.check.chosen.sum()} of {len(demo.check.chosen)} words" in " ".join(told.split())


def test_the_command_of_the_demo(tmp_path, capsys):
    from butfor.cli.app import main

    assert main(["demo", "text", "--out", str(tmp_path / "out"), "--quiet"]) == 0
    said = capsys.readouterr()
    assert "[+" in said.out
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"report.html", "table.csv", "result.butfor"}
    assert main(["demo", "poetry", "--out", str(tmp_path / "other")]) == 2
    assert "tabular, image, text or context" in capsys.readouterr().err
