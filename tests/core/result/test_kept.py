"""Counterfactuals that a run keeps are those that the seed gives again, with what the model said of them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.evaluation import hypotheses as blocks
from butfor.evaluation.hypotheses import list_hypotheses, redraw
from butfor.evaluation.items import ListItems
from butfor.load import load
from butfor.models import wrap
from butfor.results.record import MultimodalInputs
from butfor.results.result import Kept
from butfor.run.run import RunContext, run
from butfor.settings import Settings
from butfor.tabular import empirical, from_values, gaussian
from butfor.types import Subset

RNG = np.random.default_rng(0)
REFERENCE = RNG.normal(size=(60, 4))
ROWS = RNG.normal([3.0, 0.0, 0.0, 0.0], 1.0, size=(9, 4))
NORMAL = from_values(lambda rows, subset, count, rng: rng.normal(size=(len(rows) * count, len(subset.index))))
SUBSETS = {"a": [0], "b": [1, 3], "c": [2]}
TESTS = {
    "irt": {"test": "irt", "draws": 40, "alternative": "greater"},
    "irt two-sided": {"test": "irt", "draws": 40, "alternative": "two-sided"},
    "irt two-sided, one pilot": {"test": butfor.irt(40, center=1), "alternative": "two-sided"},
    "irt two-sided, more rounds": {"test": butfor.irt(300, center=20), "alternative": "two-sided"},
    "e-values": {"test": "irt", "draws": 40, "rule": "e-bh"},
    "early stop": {"test": butfor.irt(200, early_stop=True), "alternative": "greater"},
    "early stop two-sided": {"test": butfor.irt(200, early_stop=True), "alternative": "two-sided"},
    "sequential": {"test": "sequential", "draws": 90, "alternative": "greater"},
    "sequential two-sided": {"test": "sequential", "draws": 90, "alternative": "two-sided"},
    "sequential, few": {"test": butfor.sequential(h=2, draws=3)},
    "osft": {"test": "osft", "alternative": "greater"},
    "osft two-sided": {"test": "osft", "alternative": "two-sided"},
    "osft, five pilots": {"test": butfor.osft(center=5), "alternative": "two-sided"},
    "few-shot": {"test": "few-shot"},
    "few-shot two-sided": {"test": butfor.few_shot(2, scale="shrunk"), "alternative": "two-sided"},
}
SAMPLERS = {"gaussian": gaussian(REFERENCE), "values": NORMAL, "repeating": empirical(REFERENCE.round())}


def score(rows):
    return np.asarray(rows) @ np.array([1.0, 0.5, -0.5, 0.25])


def explained(rows=ROWS, sampler=NORMAL, model=score, **settings):
    return butfor.explain(model, rows, sampler, **{"subsets": SUBSETS, "alpha": 0.3, "effects": None, **settings})


def again(result, row, n):
    """The first draws of a hypothesis, from the seed alone."""
    return redraw(result.hypotheses, row, n, result.record.rounds, result.record.set_aside)


def check(result, expected=3):
    """Every hypothesis has kept its first draws and their outputs; a result that kept nothing draws the same."""
    bare = replace(result, kept=Kept())
    n = min(expected, result.record.draws)
    for row in range(len(result.chosen)):
        kept = result.kept.whole(result.hypotheses, row)
        assert len(kept) == len(result.kept.outputs(row)) == n
        np.testing.assert_array_equal(kept, again(result, row, n))
        np.testing.assert_allclose(result.kept.outputs(row)[:, 0], score(kept), rtol=0, atol=1e-12)
        one, subset = result.input_names[result.input_of[row]], result.subset_names[result.subset_of[row]]
        for count in range(1, n + 1):
            given, drawn = (r.counterfactuals(one, subset, n=count) for r in (result, bare))
            np.testing.assert_array_equal(given, drawn)


@pytest.mark.parametrize("sampler", ["gaussian", "values"])
@pytest.mark.parametrize("name", TESTS)
def test_what_is_kept_is_what_the_seed_gives_again(name, sampler):
    check(explained(sampler=SAMPLERS[sampler], **TESTS[name]))


@pytest.mark.parametrize("name", [name for name in TESTS if TESTS[name]["test"] in ("osft", "few-shot")])
def test_so_it_is_where_draws_repeat(name):
    check(explained(sampler=SAMPLERS["repeating"], **TESTS[name]))


@pytest.mark.parametrize("name", TESTS)
def test_they_are_among_what_the_model_was_asked(name):
    seen = set()

    def model(rows):
        seen.update(row.tobytes() for row in rows)
        return score(rows)

    result = explained(model=model, **TESTS[name])
    for row in range(len(result.chosen)):
        assert all(one.tobytes() in seen for one in result.kept.whole(result.hypotheses, row))


@pytest.mark.parametrize("batch_rows", [1, 7, 64])
@pytest.mark.parametrize("name", ["irt two-sided", "early stop", "sequential two-sided", "few-shot"])
def test_the_batch_size_changes_nothing(name, batch_rows):
    one, two = explained(**TESTS[name]), explained(batch_rows=batch_rows, **TESTS[name])
    for row in range(len(one.chosen)):
        np.testing.assert_array_equal(one.kept.pieces(row), two.kept.pieces(row))
        np.testing.assert_allclose(one.kept.outputs(row), two.kept.outputs(row), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", TESTS)
def test_several_blocks_and_inputs_in_parts(name, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_VALUES", 8)  # two inputs to a block
    monkeypatch.setattr("butfor.run.tests.GROUP_VALUES", 1)  # and few of them at once
    result = explained(**TESTS[name])
    assert len(result.hypotheses.blocks) == 15
    check(result)


def test_draws_that_come_in_later_rounds_are_drawn_again(monkeypatch):
    """A first round of pilot draws only: nothing of it is shown, and nothing else was kept."""
    monkeypatch.setattr(blocks, "ROUND_VALUES", 1)
    result = explained(test="irt", draws=40, alternative="two-sided")
    assert result.record.rounds[0] == result.record.set_aside == 16
    assert 0 not in result.kept
    np.testing.assert_array_equal(result.counterfactuals(0, "a", n=3), again(result, 0, 3))


def test_more_than_was_kept_begin_with_what_was_kept():
    result = explained(test="irt", draws=40, alternative="two-sided")
    np.testing.assert_array_equal(result.counterfactuals(4, "b", n=40)[:3], result.counterfactuals(4, "b", n=3))


# Was wrong once: a first batch larger than a round comes in parts, which a redraw of the whole batch does not give.
def test_a_first_batch_in_parts_is_not_drawn_again_as_a_whole(monkeypatch):
    monkeypatch.setattr(blocks, "ROUND_VALUES", 1)  # sixteen draws to a round
    seen = set()

    def model(rows):
        seen.update(row.tobytes() for row in rows)
        return score(rows)

    result = explained(model=model, test=butfor.sequential(h=50, draws=200), alternative="greater")
    for row in result.counterfactuals(2, "a", n=16):
        assert row.tobytes() in seen
    check(result)
    with pytest.raises(butfor.InputError, match="between 1 and 16"):
        result.counterfactuals(2, "a", n=17)


@pytest.mark.parametrize("test", ["sequential", "irt", "few-shot", "osft"])
def test_where_a_rule_rejects_draws_nothing_is_kept(test):
    """The first draws are not those that the test has counted."""
    result = explained(ROWS, test=test, picked=lambda outputs: outputs > -9)
    assert all(row not in result.kept for row in range(len(result.chosen)))


def test_when_the_room_is_used_up_the_rest_is_drawn_again(monkeypatch):
    monkeypatch.setattr("butfor.tabular.explain.KEEP", (3, 20))
    monkeypatch.setattr(blocks, "BLOCK_VALUES", 8)
    result = explained(test="irt", draws=40)
    kept = [row in result.kept for row in range(len(result.chosen))]
    assert any(kept)
    assert not all(kept)
    full = explained(test="irt", draws=40, seed=0)
    for row in range(len(kept)):
        one, subset = result.input_names[result.input_of[row]], result.subset_names[result.subset_of[row]]
        np.testing.assert_array_equal(*(r.counterfactuals(one, subset, n=3) for r in (result, full)))


def test_a_selection_keeps_what_was_kept():
    result = explained(test="irt", draws=40)
    assert result.select(alpha=0.5).kept is result.kept


# Files


@pytest.mark.parametrize("framed", [False, True])
@pytest.mark.parametrize("name", TESTS)
def test_saved_and_loaded_again(name, framed, tmp_path):
    columns = {"subsets": {"a": ["a"], "b": ["b", "d"], "c": ["c"]}} if framed else {}
    rows = pd.DataFrame(ROWS, columns=list("abcd"), index=[f"p{i}" for i in range(9)]) if framed else ROWS
    result = explained(rows, **TESTS[name], **columns)
    loaded = butfor.load(result.save(tmp_path / "r.butfor"))
    n = min(3, result.record.draws)
    for row in range(len(result.chosen)):
        np.testing.assert_array_equal(loaded.kept.pieces(row), result.kept.pieces(row))
        np.testing.assert_array_equal(loaded.kept.outputs(row), result.kept.outputs(row))
        one, subset = result.input_names[result.input_of[row]], result.subset_names[result.subset_of[row]]
        given, back = (r.counterfactuals(one, subset, n=n) for r in (result, loaded))
        if framed:
            pd.testing.assert_frame_equal(back, given)
        else:
            np.testing.assert_array_equal(back, given)
    np.testing.assert_array_equal(loaded.outputs, result.outputs)


def test_a_table_is_in_the_file_and_not_given_again(tmp_path):
    local = explained().save(tmp_path / "r.butfor")
    with pytest.raises(
        butfor.InputError, match=r"^inputs= is for images and texts, .* of a table, which is in the file"
    ):
        butfor.load(local, inputs=ROWS + 1)
    found = butfor.global_importance(lambda X: X[:, 0], ROWS, reference=ROWS + 1, draws=9).save(tmp_path / "g.butfor")
    with pytest.raises(butfor.InputError, match=" of global_importance, which needs none; leave inputs= out"):
        butfor.load(found, inputs=ROWS)


def test_a_file_holds_those_of_the_chosen_first(tmp_path, monkeypatch):
    monkeypatch.setattr("butfor.results.io.MOST_KEPT", 4)
    result = explained(test="irt", draws=99)
    assert 4 <= result.chosen.sum() < len(result.chosen)
    loaded = butfor.load(result.save(tmp_path / "r.butfor"))
    held = [row for row in range(len(result.chosen)) if row in loaded.kept]
    assert held == np.flatnonzero(result.chosen)[:4].tolist()


# Lists of what may be drawn


class Levels:
    """A user's sampler of whole rows that lists what it may draw."""

    levels, mass = np.array([-2.0, -1.0, 0.0, 1.0, 2.0]), np.array([0.05, 0.3, 0.35, 0.2, 0.1])

    def __call__(self, rows, subset, draws, rng):
        out = np.repeat(rows, draws, axis=0)
        out[:, subset.index] = rng.choice(self.levels, p=self.mass, size=len(out))[:, None]
        return out

    def support(self, rows, subset):
        values = np.repeat(self.levels[:, None], len(subset.index), axis=1)
        return np.tile(values, (len(rows), 1, 1)), np.tile(self.mass, (len(rows), 1))


@pytest.mark.parametrize("test", ["irt", "sequential"])
def test_of_a_list_the_likeliest_are_kept_and_counterfactuals_are_drawn(test, tmp_path):
    levels = Levels()
    result = explained(sampler=levels, test=test)
    files = result.save(tmp_path / "r.butfor")
    for found in (result, butfor.load(files), butfor.load(files, levels)):
        for row in range(len(result.chosen)):
            assert found.kept.listed(row)
            likeliest = found.kept.whole(found.hypotheses, row)
            column = result.hypotheses.block_of(row).subset.index[0]
            assert likeliest[:, column].tolist() == [-1.0, 0.0, 1.0]
            np.testing.assert_allclose(found.kept.outputs(row)[:, 0], score(likeliest), rtol=0, atol=1e-12)
    drawn = again(result, result.row(2, "a"), 5)
    np.testing.assert_array_equal(result.counterfactuals(2, "a", n=5), drawn)
    np.testing.assert_array_equal(result.counterfactuals(2, "a", n=3), drawn[:3])
    np.testing.assert_array_equal(butfor.load(files, levels).counterfactuals(2, "a", n=3), drawn[:3])
    with pytest.raises(butfor.InputError, match="loaded without its sampler"):
        butfor.load(files).counterfactuals(2, "a", n=1)


def test_listed_and_drawn_columns_side_by_side():
    reference = np.column_stack([np.arange(60) % 5, REFERENCE[:, 1:]])
    rows = np.column_stack([np.arange(9) % 5, ROWS[:, 1:]])
    result = explained(rows, empirical(reference), test="irt", draws=40, subsets={"level": [0], "number": [1]})
    for row in range(len(result.chosen)):
        listed = result.subset_names[result.subset_of[row]] == "level"
        assert result.kept.listed(row) == listed
        one, subset = result.input_names[result.input_of[row]], result.subset_names[result.subset_of[row]]
        np.testing.assert_array_equal(result.counterfactuals(one, subset, n=3), again(result, row, 3))


# Lists of inputs, each with subsets of its own

TEXTS = ["abc", "bca", "cab", "bbb"]


class Span:
    """Keeps only the letter that is new."""

    def cut(self, observed, counterfactual, subset):
        return counterfactual[slice(*subset.index)]

    def restore(self, observed, piece, subset):
        return observed[: subset.index[0]] + piece + observed[subset.index[1] :]


def letters(texts, subset, draws, rng):
    start, stop = subset.index
    return [text[:start] + rng.choice(list("abcdef")) + text[stop:] for text in texts for _ in range(draws)]


def spelt(batch):
    return [sum(map(ord, text)) + 0.1 * ord(text[0]) for text in batch]


def written(packing=None, **settings):
    names = [f"t{i}" for i in range(len(TEXTS))]
    subsets = [[Subset(f"letter {j}", (j, j + 1)) for j in range(3)] for _ in TEXTS]
    items = ListItems(TEXTS) if packing is None else ListItems(TEXTS, packing=packing)
    hypotheses = list_hypotheses(items, names, subsets, letters, 0)
    context = RunContext(
        hypotheses, wrap(spelt), "spelt", 64, lambda row: names[row], list, MultimodalInputs(()), (3, 2**20)
    )
    return run(context, Settings.of({"effects": None, **settings}))


@pytest.mark.parametrize("packing", [None, Span()])
@pytest.mark.parametrize("name", TESTS)
def test_texts_are_kept_whole_or_small_and_come_back_whole(name, packing, tmp_path):
    result = written(packing, **TESTS[name])
    n = min(3, result.record.draws)
    for row in range(len(result.chosen)):
        whole = result.kept.whole(result.hypotheses, row)
        assert whole == again(result, row, n)
        assert result.kept.outputs(row)[:, 0].tolist() == spelt(whole)
        assert packing is None or set(map(len, result.kept.pieces(row))) == {1}
    if packing is None:
        loaded = load(result.save(tmp_path / "r.butfor"))
        for row in range(len(result.chosen)):
            one, subset = result.input_names[result.input_of[row]], result.subset_names[result.subset_of[row]]
            assert loaded.counterfactuals(one, subset, n=n) == result.counterfactuals(one, subset, n=n)
