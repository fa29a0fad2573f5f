"""q, the least alpha at which a hypothesis would be chosen; and no hypothesis is chosen with p > alpha."""

from dataclasses import replace

import numpy as np
import pytest

import butfor
from butfor.inference import adaptive, selection
from butfor.inference.adaptive import weighted_p
from butfor.inference.selection import COMPETITIONS, Choice, LearningUnits, layers_of_table

LEVELS = (0.01, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.9)
RULES = ("bh", "by", "holm", "bonferroni", "adaptive", "adaptive-strict", "e-bh", *COMPETITIONS)
RESOLUTION, PARENT = np.array([0, 1, 1, 2, 2, 2, 2]), np.array([-1, 0, 0, 1, 1, 2, 2])


def problem(rule, layered, seed, inputs=None):
    """A choice, evidence with ties at every level, and what is tested."""
    rng = np.random.default_rng(seed)
    inputs = int(rng.integers(1, 30)) if inputs is None else inputs
    subsets = len(PARENT) if layered else int(rng.integers(1, 6))
    size = inputs * subsets
    draws = int(rng.choice([9, 19, 99, 999]))
    p = rng.integers(1, draws + 2, size) / (draws + 1)
    signal = rng.random(size) < rng.choice([0.1, 0.5, 0.9])
    p = np.where(signal, np.minimum(p, rng.integers(1, 4, size) / (draws + 1)), p)
    cluster, label = np.repeat(np.arange(inputs), subsets), np.tile(np.arange(subsets), inputs)
    choice = Choice(
        rule,
        float(rng.choice(LEVELS[:6])),
        families=cluster if seed % 3 == 0 and rule != "adaptive-strict" else None,
        layers=layers_of_table(RESOLUTION, PARENT, inputs) if layered else None,
        calibrated=label != 1 if seed % 4 == 0 else None,
        draws=int(rng.integers(1, 5)),
        floor=rng.choice([0.0, 0.02], size) if seed % 2 else None,
        units=LearningUnits(cluster, label),
        weights=(rng.choice([0.0, 0.5, 1.0, 3.0], size), np.full(size, rng.choice([1.0, 0.3])))
        if rule == "adaptive" and inputs < 30
        else None,
    )
    evidence = {"e-bh": np.where(signal, 1 / p, rng.integers(0, 9, size))}.get(rule, p)
    if rule in COMPETITIONS:
        evidence = rng.integers(-5, 12, size).astype(float)
    tested = rng.random(size) < 0.9 if seed % 2 and rule != "adaptive-strict" else np.ones(size, bool)
    return choice, evidence, tested


@pytest.mark.parametrize("layered", [False, True], ids=["flat", "layered"])
@pytest.mark.parametrize("rule", RULES)
def test_what_is_chosen_is_what_has_q_of_at_most_alpha(rule, layered):
    strict = rule == "adaptive-strict"
    for seed in range(8 if strict else 60):
        choice, evidence, tested = problem(rule, layered, seed, inputs=200 if strict else None)
        if layered and rule in COMPETITIONS:
            assert np.isnan(choice.least_alpha(evidence, tested)).all()
            continue
        q = choice.least_alpha(evidence, tested)
        np.testing.assert_array_equal(choice.chosen(evidence, tested), q <= choice.alpha)
        for alpha in () if strict else LEVELS:  # whose e-values are of one alpha
            other = replace(choice, alpha=alpha)
            again = other.least_alpha(evidence, tested)
            np.testing.assert_array_equal(other.chosen(evidence, tested), again <= alpha)
            np.testing.assert_allclose(again, q, rtol=1e-11)
        if rule not in ("e-bh", *COMPETITIONS):
            known = np.isfinite(q)
            assert (q[known] >= evidence[known]).all()
            assert not (choice.chosen(evidence, tested) & (evidence > choice.alpha)).any()


@pytest.mark.parametrize("layered", [False, True], ids=["flat", "layered"])
def test_weights_that_are_learned_choose_nothing_above_alpha(layered):
    above = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        choice, _, tested = problem("adaptive", layered, 30 + seed, inputs=40)
        units = choice.units
        p = np.where(rng.random(len(tested)) < 0.9, rng.random(len(tested)) * 0.3, rng.random(len(tested)))
        choice = replace(choice, alpha=0.1)
        chosen, q = choice.chosen(p, tested), choice.least_alpha(p, tested)
        np.testing.assert_array_equal(chosen, q <= 0.1)
        assert not (chosen & (p > 0.1)).any()
        weights, nulls = selection.Choice("adaptive", 0.1, units=units).learned(p, tested)
        ratio = weighted_p(p, weights, float(nulls[0]))
        above += int((selection.bh(np.minimum(ratio, 1.0), 0.1) & (p > 0.1)).sum())
    assert above > 10  # so many would be chosen without the rule


def test_strict_weights_choose_nothing_above_alpha(monkeypatch):
    rng = np.random.default_rng(0)
    p = np.column_stack([rng.random(300) * 0.14, rng.random(300)])
    chosen = butfor.selection.adaptive_strict(p, alpha=0.1)
    assert chosen.sum() > 50
    assert p[chosen].max() <= 0.1
    monkeypatch.setattr(adaptive, "SLACK", 1.5)  # planted: the bound on p is looser
    assert p[butfor.selection.adaptive_strict(p, alpha=0.1)].max() > 0.1


def test_a_part_has_at_least_the_q_of_what_it_is_a_part_of():
    for seed in range(40):
        choice, p, tested = problem("bh", True, seed)
        layers, q = choice.layers, choice.least_alpha(p, tested)
        above = layers.parent
        deep = (layers.resolution == 2) & np.isfinite(q)  # the whole is looked through
        passing = np.zeros(len(q), bool) if choice.calibrated is None else ~choice.calibrated
        deep &= ~passing[above] & np.isfinite(q[above])
        assert (q[deep] >= q[above[deep]]).all()


@pytest.fixture(scope="module")
def run():
    rng = np.random.default_rng(1)
    reference, inputs = rng.normal(size=(200, 4)), rng.normal([1.2, 0.5, 0, 0], 1, (60, 4))
    return butfor.explain(lambda x: x[:, 0] + x[:, 1], inputs, reference, control=False, seed=2)


def test_a_run_says_q_and_keeps_it(run, tmp_path):
    assert run.rule == "adaptive"
    table, features = run.table, run.features
    assert run.chosen.any()
    np.testing.assert_array_equal(table.chosen, table.q <= run.alpha)
    np.testing.assert_array_equal(features.chosen, features.q <= run.alpha)
    assert (features.q >= features.p).all()
    assert table.p[table.chosen].max() <= run.alpha
    again = butfor.load(run.save(tmp_path / "run.butfor"))
    np.testing.assert_array_equal(again.table.q, table.q)
    np.testing.assert_array_equal(again.features.q, features.q)
    for alpha in (0.02, 0.3):
        other = run.select(alpha=alpha)
        np.testing.assert_array_equal(other.chosen, table.q <= alpha)  # weights of a sequential run stay
    for rule in ("bh", "by", "holm", "bonferroni"):
        other = run.select(rule=rule, family="input")
        np.testing.assert_array_equal(other.chosen, other.q <= other.alpha)


def test_results_that_are_combined_have_q_over_all_of_them(run):
    combined = butfor.combine([run], alpha=0.2)
    assert (combined.table.q <= 0.2).all()
    np.testing.assert_array_equal(combined.table.q, run.select(alpha=0.2, rule="bh").q[combined.chosen[0]])


def table(**options):
    rng = np.random.default_rng(4)
    rows, inputs = rng.normal(size=(150, 3)), rng.normal([1.5, 0, 0], 1, (options.pop("inputs", 24), 3))
    return butfor.explain(lambda x: x[:, 0] + x[:, 1], inputs, rows, control=False, decide=False, **options)


def images(**options):
    rng = np.random.default_rng(5)
    given = [rng.integers(0, 255, (8, 8, 3), dtype=np.uint8) for _ in range(24)]
    for one in given:
        one[:4, :4] = np.maximum(one[:4, :4], 140)

    def noise(batch, subset, draws, rng):
        x1, y1, x2, y2 = subset.index
        out = [one.copy() for one in batch for _ in range(draws)]
        for one in out:
            one[y1:y2, x1:x2] = rng.integers(0, 255, (y2 - y1, x2 - x1, 3))
        return out

    def bright(batch):
        return np.array([one[:4, :4].mean() + 0.1 * one[4:, 4:].mean() for one in batch])

    quick = {"decide": False}
    return butfor.image.explain(bright, given, noise, boxes=butfor.image.grid(2), **quick, **options)


def texts(**options):
    rng = np.random.default_rng(6)
    words = np.array(["the", "cast", "was", "fine", "awful"])
    given = [" ".join(rng.choice(words, 3, p=[0.2, 0.2, 0.2, 0.1, 0.3])) for _ in range(24)]
    sampler = butfor.text.ngram([" ".join(rng.choice(words, 3, p=[0.3, 0.3, 0.2, 0.1, 0.1])) for _ in range(60)])
    return butfor.text.explain(lambda batch: [one.count("awful") for one in batch], given, sampler, **options)


@pytest.mark.parametrize("run_of", [table, images, texts])
@pytest.mark.parametrize(
    ("test", "rule"),
    [(test, rule) for test in ("sequential", "irt") for rule in ("adaptive", "bh", "by", "holm", "bonferroni")]
    + [("irt", "e-bh"), ("irt", "adaptive-strict"), ("osft", None), ("few-shot", None)],
)
@pytest.mark.filterwarnings("ignore::butfor.ReachWarning")
def test_nothing_is_chosen_above_alpha(run_of, test, rule):
    """In any modality, test and rule; `alpha` is large, so that there is something to choose."""
    more = {"draws": {"sequential": 600, "irt": 99}[test]} if test in ("sequential", "irt") else {}
    if rule == "adaptive-strict":
        if run_of is not table:
            pytest.skip("needs 200 inputs")
        more["inputs"] = 200
    found = run_of(test=test, rule=rule, alpha=0.3, seed=1, effects=None, **more)
    assert found.rule == (rule or found.rule)
    if not np.isnan(found.q).all():
        np.testing.assert_array_equal(found.chosen, found.q <= 0.3)
    if found.evidence.kind == "p":
        assert not (found.chosen & (found.evidence.values > 0.3)).any()
        assert found.chosen.any() or rule in ("by", "holm", "bonferroni")
