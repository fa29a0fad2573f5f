"""Inputs x subsets x sampler -> blocks of counterfactuals."""

import numpy as np
import pytest

import butfor
from butfor.evaluation import hypotheses as draws
from butfor.evaluation.hypotheses import Job, draw, redraw, rounds, table_hypotheses
from butfor.evaluation.items import TableItems
from butfor.types import Subset


def normal_values(inputs, subset, count, rng):
    return rng.normal(size=(len(inputs) * count, len(subset.index)))


NORMAL = butfor.tabular.from_values(normal_values)


def hypotheses(rows=5, width=3, sampler=NORMAL, subsets=None, seed=0):
    inputs = np.random.default_rng(1).normal(size=(rows, width))
    subsets = subsets or [Subset(f"x{j}", np.array([j])) for j in range(width)]
    return table_hypotheses(TableItems(inputs), range(rows), subsets, sampler, seed)


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (5, 3), (256, 2), (257, 2), (700, 4), (3, 2**18), (5, 200_000)])
def test_blocks_hold_every_hypothesis_once(rows, width):
    subsets = [Subset("a", np.array([0])), Subset("b", np.array([width - 1]))]
    asked = table_hypotheses(TableItems(np.zeros((rows, width), np.float32)), range(rows), subsets, NORMAL, 0)
    held = np.concatenate([block.rows for block in asked.blocks])
    assert sorted(held) == list(range(asked.size)) == list(range(rows * 2))
    for block in asked.blocks:
        assert block.stop - block.start == len(block.rows) <= 256
        assert (asked.input_of[block.rows] == np.arange(block.start, block.stop)).all()
        assert (asked.subset_of[block.rows] == asked.subset_names.index(block.subset.name)).all()
        assert (block.stop - block.start) * width <= max(draws.BLOCK_VALUES, width)


def test_appending_inputs_keeps_the_blocks_where_they_were():
    short, long = hypotheses(rows=300), hypotheses(rows=900)
    where = {(block.subset.name, block.key): block.start for block in long.blocks}
    assert all(where[block.subset.name, block.key] == block.start for block in short.blocks)
    assert short.round_draws == long.round_draws


@pytest.mark.parametrize(("count", "most"), [(1, 16), (16, 16), (17, 16), (100, 16), (5, 100)])
def test_rounds_add_up_and_have_their_own_names(count, most):
    asked = hypotheses(rows=300)
    for block in asked.blocks:
        jobs = rounds([block], count, most)
        assert sum(job.draws for job in jobs) == count
        assert all(1 <= job.draws <= most for job in jobs)
        assert len({job.round for job in jobs}) == len(jobs)


def test_a_job_gives_the_same_bits_again_and_the_observed_input_first():
    asked = hypotheses()
    for block in asked.blocks:
        one, two = draw(asked, Job(block, 4, 0)), draw(asked, Job(block, 4, 0))
        assert (one.values == two.values).all()
        values = one.values.reshape(5, 5, 1)
        assert (values[:, 0] == asked.items.values[block.start : block.stop][:, block.subset.index]).all()


def test_blocks_rounds_subsets_and_seeds_have_draws_of_their_own():
    asked, other = hypotheses(rows=600), hypotheses(rows=600, seed=1)
    first = {
        (block.subset.name, block.key, number, which.seed): draw(which, Job(block, 3, number)).values[1, 0]
        for which in (asked, other)
        for block in which.blocks
        for number in (0, 1, "effect")
    }
    assert len(set(first.values())) == len(first)


@pytest.mark.parametrize("wrong", [0, 1, -1])
def test_a_sampler_with_the_wrong_count_is_named(wrong):
    def sampler(inputs, subset, count, rng):
        size = 0 if wrong == 0 else len(inputs) * count + wrong
        return rng.normal(size=(size, 1))

    with pytest.raises(butfor.ModelError, match=r"counterfactuals for subset 'x0', expected 20 \(5 inputs x 4 draws"):
        draw(hypotheses(sampler=butfor.tabular.from_values(sampler)), Job(hypotheses().blocks[0], 4, 0))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_sampler_that_draws_nan_is_named(bad):
    sampler = butfor.tabular.from_values(lambda inputs, subset, count, rng: np.full((len(inputs) * count, 1), bad))
    with pytest.raises(butfor.ModelError, match="drew NaN or infinity for subset 'x0'"):
        draw(hypotheses(sampler=sampler), Job(hypotheses().blocks[0], 4, 0))


@pytest.mark.parametrize("count", [3, 4096, 5000])
def test_redraw_is_what_the_run_gave_the_model(count):
    """One input and one subset, so that the model sees the draws in order; 5,000 draws take two rounds."""
    seen = []

    def model(rows):
        seen.append(rows.copy())
        return rows[:, 1]

    inputs = np.array([[1.0, 2.0, 3.0]])
    result = butfor.explain(
        model, inputs, NORMAL, subsets=["x1"], test="irt", alternative="greater", draws=count, effects=None
    )
    rows = np.concatenate(seen)
    assert result.rows == len(rows)
    drawn = rows[rows[:, 1] != 2.0]  # all others are the observed row
    assert len(drawn) == count
    again = result.counterfactuals(0, "x1", n=count)
    np.testing.assert_array_equal(again, drawn)
    np.testing.assert_array_equal(result.counterfactuals(0, "x1", n=2), drawn[:2])
    assert (drawn[:, [0, 2]] == [1.0, 3.0]).all()


def test_redraw_of_any_hypothesis_gives_its_p_value():
    """Over block edges and groups: the counterfactuals, looked at by hand, give the run's own p-value."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(260, 4))
    sampler = butfor.tabular.gaussian(rng.normal(size=(50, 4)) @ rng.normal(size=(4, 4)))
    result = butfor.explain(
        lambda rows: rows @ [1.0, 2.0, -1.0, 0.5],
        inputs,
        sampler,
        subsets={"g": [0, 2], "h": [1]},
        test="irt",
        alternative="greater",
        draws=40,
        effects=None,
    )
    for input_name, subset in [(0, "g"), (255, "h"), (256, "g"), (259, "h")]:
        counterfactuals = result.counterfactuals(input_name, subset, n=40) @ [1.0, 2.0, -1.0, 0.5]
        observed = inputs[input_name] @ [1.0, 2.0, -1.0, 0.5]
        assert result.table.p[result.row(input_name, subset)] == (1 + (counterfactuals >= observed).sum()) / 41


@pytest.mark.parametrize("count", [0, -1, 6])
def test_more_counterfactuals_than_were_drawn_are_refused(count):
    with pytest.raises(butfor.InputError, match="n must be"):
        redraw(hypotheses(), 0, count, [5])
