"""Coarse to fine: at every resolution the error rate holds, and leaving out what is not drawn is caught."""

import numpy as np
import pytest
from scipy.special import ndtr

from benchmarks.zoom import by_resolution, image_run, text_run
from butfor.evaluation.hypotheses import Layers
from butfor.inference.selection import Choice, bh
from butfor.tabular.subsets import column_tree
from butfor.tabular.table import as_table

ALPHA, INPUTS, RUNS = 0.1, 20, 300
PARENTS = INPUTS * 4
LAYERS = Layers(
    np.repeat([1, 2], [PARENTS, 4 * PARENTS]),
    np.concatenate([np.full(PARENTS, -1), np.repeat(np.arange(PARENTS), 4)]),
    stepwise=True,
)


def sums(rng, height, share):
    """A model that adds up: exact p-values of cells and of their quarters, and which of them are signals."""
    true = np.zeros((INPUTS, 4, 4), bool)
    true[..., 0] = rng.random((INPUTS, 4)) < share
    z = rng.normal(size=true.shape) + height * true
    p = np.concatenate([ndtr(-z.sum(axis=2) / 2).ravel(), ndtr(-z).ravel()])
    return p, np.concatenate([true.any(axis=2).ravel(), true.ravel()])


def stepwise(p):
    return Choice("bh", ALPHA, layers=LAYERS).chosen(p, np.ones(len(p), bool))


def left_out(p):
    """The fault: the family of quarters of cells is made of those alone that are drawn."""
    chosen = stepwise(p) & (LAYERS.resolution == 1)
    drawn = LAYERS.reached(chosen) & (LAYERS.resolution == 2)
    chosen[drawn] = bh(p[drawn], ALPHA) if drawn.any() else False
    return chosen


def filtered(p):
    """The fault: all are chosen as if none waited for another, and what has no chosen parent is dropped after that."""
    alone = Choice("bh", ALPHA, layers=LAYERS).in_families(p, np.ones(len(p), bool))
    return LAYERS.top_down(lambda level, reached: alone & level)


def false_shares(choose, height, share):
    """Shares of false ones among those chosen, (runs, resolutions)."""
    found = []
    for seed in range(RUNS):
        p, truth = sums(np.random.default_rng(seed), height, share)
        chosen = choose(p)
        levels = [chosen & (LAYERS.resolution == level) for level in (1, 2)]
        found.append([(own & ~truth).sum() / max(1, own.sum()) for own in levels])
    return np.array(found)


def exceeds(shares):
    return shares.mean(axis=0) > ALPHA + 2 * shares.std(axis=0) / np.sqrt(RUNS)


@pytest.mark.parametrize(("height", "share"), [(1.5, 1.0), (2.0, 0.5), (2.0, 1.0), (3.0, 0.5), (3.0, 1.0)])
def test_the_error_rate_holds_at_both_resolutions(height, share):
    assert not exceeds(false_shares(stepwise, height, share)).any()


@pytest.mark.parametrize(("fault", "height", "share"), [(left_out, 2.0, 0.5), (filtered, 2.0, 1.0)])
def test_a_family_that_was_picked_by_the_outputs_is_caught(fault, height, share):
    assert exceeds(false_shares(fault, height, share))[1]


def test_runs_on_documents_keep_the_rate_and_find_something():
    rows = by_resolution([text_run(seed, inputs=8, draws=200, h=2) for seed in range(5)])
    assert all(row["fdr"] <= ALPHA + 4 * max(row["fdr_se"], 0.02) for row in rows)
    assert rows[2]["power"] > 0.15  # sentences
    assert [row["resolution"] for row in rows] == list(range(len(rows)))


def test_runs_on_images_keep_the_rate_and_find_something():
    rows = by_resolution([image_run(seed, inputs=6, draws=200, h=2) for seed in range(4)])
    assert all(row["fdr"] <= ALPHA + 4 * max(row["fdr_se"], 0.02) for row in rows)
    assert rows[1]["power"] > 0.2  # quarters


@pytest.mark.parametrize("rule", ["bh", "knockoff+", "e-bh"])
def test_parts_of_what_is_not_chosen_count_in_their_family(rule):
    """One strong part whose larger part is chosen, many as strong whose larger parts are not: more would be chosen."""
    kinds = {"bh": (1e-3, 0.9), "knockoff+": (5.0, -1.0), "e-bh": (50.0, 0.0)}
    strong, weak = kinds[rule]
    evidence = np.full(5 * PARENTS, weak)
    evidence[: PARENTS // 8] = strong  # some parents
    evidence[PARENTS::4] = strong  # a child of each
    own = Choice(rule, ALPHA, layers=LAYERS)
    chosen, alone = (
        own.chosen(evidence, np.ones(5 * PARENTS, bool)),
        own.in_families(evidence, np.ones(5 * PARENTS, bool)),
    )
    parents = chosen[LAYERS.parent] & (LAYERS.parent >= 0)
    assert alone[PARENTS:].sum() == PARENTS
    assert not (chosen & (LAYERS.resolution == 2) & ~parents).any()
    assert chosen[:PARENTS].sum() in (0, PARENTS // 8)


WIDTH, FEW = 60, 8
SUMS = np.sort(np.cumsum(np.abs(np.random.default_rng(9).normal(size=(50_000, WIDTH))), axis=1), axis=0)


def runs_with_a_discovery(of_inputs, runs=100):
    """Shares of null runs with a discovery at resolution 2, 3 and 4: sums of sizes of independent normal columns."""
    found = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        inputs, reference = rng.normal(size=(FEW, WIDTH)), rng.normal(size=(100, WIDTH))
        tree = column_tree(as_table(inputs if of_inputs else reference, "reference"))
        sizes = [(np.abs(inputs[:, subset.index]).sum(axis=1), len(subset.index)) for subset in tree.subsets]
        p = np.column_stack([1 - np.searchsorted(SUMS[:, width - 1], size) / len(SUMS) for size, width in sizes])
        found.append([bh(p[:, tree.resolution == level].ravel(), ALPHA).any() for level in (2, 3, 4)])
    return np.mean(found, axis=0)


def test_a_tree_of_the_inputs_themselves_is_caught():
    """Columns that are extreme in the same inputs by chance are put together there; in the reference's tree not."""
    most = ALPHA + 2 * np.sqrt(ALPHA * (1 - ALPHA) / 100)
    assert (runs_with_a_discovery(of_inputs=False) <= most).all()
    assert (runs_with_a_discovery(of_inputs=True) > most).any()
