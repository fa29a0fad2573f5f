"""Inputs that are no rows of a matrix: each with subsets of its own, opened when asked for."""

from string import ascii_letters

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.evaluation.hypotheses import list_hypotheses, redraw
from butfor.evaluation.items import ListItems
from butfor.load import load
from butfor.models import wrap
from butfor.results.io import plain_index, read_index
from butfor.results.record import MultimodalInputs
from butfor.run.run import RunContext, run
from butfor.settings import Settings
from butfor.types import Subset

WORDS = ascii_letters


class Opened:
    """A sequence that opens an input when it is asked for, and counts how many it holds out at most."""

    def __init__(self, items):
        self.items, self.most = items, 0

    def __len__(self):
        return len(self.items)

    def __getitem__(self, place):
        if isinstance(place, slice):
            self.most = max(self.most, len(self.items[place]))
            return [*self.items[place]]
        return self.items[place]


def letters(inputs, subset, draws, rng):
    """Redraws the letters of a span, each alike."""
    start, stop = subset.index
    return [
        text[:start] + "".join(rng.choice(list(WORDS), stop - start)) + text[stop:]
        for text in inputs
        for _ in range(draws)
    ]


def context(texts, sampler=letters, names=None):
    names = names or [f"t{i}" for i in range(len(texts))]
    subsets = [[Subset(f"letter {j}", (j, j + 1)) for j in range(len(text))] for text in texts]
    hypotheses = list_hypotheses(ListItems(texts), names, subsets, sampler, 0)
    return RunContext(
        hypotheses=hypotheses,
        wrapped=wrap(lambda batch: [float(WORDS.index(text[0])) + 0.01 * len(text) for text in batch]),
        model_name="first letter",
        batch_rows=64,
        describe=lambda row: names[row],
        sampler_notes=list,
        inputs=MultimodalInputs(()),
        keep=(3, 2**20),
    )


def explained(texts, names=None, **settings):
    return run(context(texts, names=names), Settings.of(settings))


TEXTS = ["Zab", "Zcd", "Zfg", "Zhi"] + ["Z" + c for c in WORDS[:6]]


@pytest.mark.parametrize("test", ["sequential", "irt", "few-shot", "osft"])
def test_every_test_runs_on_lists(test):
    result = explained(TEXTS, test=test, alternative="greater", alpha=0.3)
    assert len(result.table) == sum(map(len, TEXTS))
    assert set(result.table.subset[result.chosen]) <= {"letter 0"}
    assert result.chosen.sum() >= 8


def test_inputs_are_opened_one_at_a_time():
    texts = Opened(TEXTS)
    result = explained(texts, test="irt", draws=19)
    assert texts.most == 1
    pd.testing.assert_frame_equal(result.table, explained(TEXTS, test="irt", draws=19).table)


def test_an_input_keeps_its_draws_whatever_else_there_is():
    names = [f"t{i}" for i in range(len(TEXTS))]
    one = explained(TEXTS, test="irt", draws=39).table
    two = explained(TEXTS[::-1], names[::-1], test="irt", draws=39).table
    both = one.merge(two, on=["input", "subset"])
    assert len(both) == len(one)
    assert (both.p_x == both.p_y).all()


def test_counterfactuals_come_again_and_files_too(tmp_path):
    result = explained(TEXTS, test="irt", draws=39)
    drawn = result.counterfactuals("t1", "letter 0", n=3)
    assert all(text[1:] == "cd" for text in drawn)
    path = result.save(tmp_path / "r.butfor")
    bare = load(path)
    pd.testing.assert_frame_equal(bare.table, result.table)
    assert bare.counterfactuals("t1", "letter 0", n=3) == drawn
    with pytest.raises(butfor.InputError, match="loaded without its sampler"):
        bare.counterfactuals("t1", "letter 0", n=4)
    assert load(path, letters, TEXTS).counterfactuals("t1", "letter 0", n=3) == drawn
    with pytest.raises(butfor.InputError, match="has 10 inputs, got 2"):
        load(path, letters, TEXTS[:2])
    assert bare.select(alpha=0.5).alpha == 0.5


def test_a_sampler_that_raises_is_named():
    def broken(*_):
        raise OSError("no such file")

    with pytest.raises(butfor.ModelError, match="the sampler raised OSError on subset 'letter 0' of input 't0'"):
        run(context(TEXTS, broken), Settings.of({"test": "irt"}))


class Same:
    """A sampler without chance."""

    deterministic = True

    def __call__(self, inputs, subset, draws, rng):
        return [text[: subset.index[0]] + "a" + text[subset.index[1] :] for text in inputs for _ in range(draws)]

    def __repr__(self):
        return "same()"


@pytest.mark.parametrize("test", ["sequential", "irt", "few-shot", "osft"])
def test_a_sampler_without_chance_is_for_one_shot_only(test):
    settings = Settings.of({"test": test, "alternative": "greater", "effects": None})
    if test == "osft":
        result = run(context(TEXTS, Same()), settings)
        assert "No error rate is controlled" in str(result.guarantee)
        assert "Q is a single point" in str(result.guarantee)
    else:
        with pytest.raises(butfor.InputError, match=r"same\(\) always draws the same; .*diversify.*osft"):
            run(context(TEXTS, Same()), settings)


@pytest.mark.parametrize("index", [(1, 2, 3, 4), (0, 5), "texture", np.eye(5, dtype=bool)])
def test_indexes_of_every_kind_are_kept(index):
    again = read_index(plain_index(index))
    assert np.array_equal(again, index)


def test_redraw_skips_those_set_aside():
    hypotheses = context(TEXTS).hypotheses
    assert redraw(hypotheses, 0, 2, [8], 1) == redraw(hypotheses, 0, 3, [8])[1:]
