"""Contexts with every null true: passages and foils of one pool, and a model that depends on all of them a little.

The answer with the largest score is given. The naive score, of the answer that the observed prompt produced, is the
planted fault: it must fail the bound that the symmetric and the given answer keep.
"""

import sys
from hashlib import blake2b

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.context import null
from butfor import context
from butfor.inference.staged import Stages
from butfor.streams import stream

explaining = sys.modules["butfor.context.explain"]  # the module, whose name the function has
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("decoding", ["greedy", "sampled"])
@pytest.mark.parametrize(("answers", "prompts"), [(2, 50), (20, 50), (1000, 20)])
def test_where_nothing_matters(answers, prompts, decoding):
    runs = [null(answers, seed, sampled=decoding == "sampled")[0] for seed in range(prompts)]
    seen = {name: np.concatenate([run[name] for run in runs]) for name in runs[0]}

    def kept(name):
        return seen[name].sum() <= binom.isf(1e-4, len(seen[name]), 0.05)

    assert seen["necessary"].mean() <= 0.05
    assert kept("symmetric")
    assert kept("given")
    assert seen["given"].any()  # not mute
    if answers >= 20:
        assert not kept("naive")


@pytest.mark.parametrize("share", [0.5, 0.45])
def test_shares_at_the_level_are_rarely_called_decisive(share):
    """The model answers otherwise for a share of the foils at the level: the boundary of the null."""
    runs, wrong, samples = 300, 0, np.random.default_rng(0)
    for seed in range(runs):
        cut = {f"foil {k}": samples.random() < share for k in range(4_000)}

        def model(prompts, cut=cut):
            return [str(any(cut.get(line, False) for line in prompt.split("\n"))) for prompt in prompts]

        prompt = context.prompt({f"passage {k}": "observed" for k in range(6)}, question="q")
        wrong += context.explain(model, prompt, list(cut), enough=None, seed=seed).table.necessary.any()
    assert wrong <= binom.isf(1e-6, runs, 0.1)


def test_answers_by_chance_that_do_not_depend_on_the_context():
    class Noisy:
        identity = "noisy"

        def answer(self, prompts, seeds):
            return ["a" if np.random.default_rng(seed).random() < 0.7 else "b" for seed in seeds]

    prompt = context.prompt({f"passage {k}": f"text {k}" for k in range(6)}, question="q")
    pool, runs = [f"foil {k}" for k in range(200)], 60
    wrong = sum(
        context.explain(Noisy(), prompt, pool, samples=3, enough=None, seed=seed).table.necessary.any()
        for seed in range(runs)
    )
    assert wrong <= binom.isf(1e-6, runs, 0.1)


def texts(run, parts, spread=10**9):
    """A prompt of parts that are drawn as their foils are, and a function that draws foils of it."""
    prompt = context.prompt({f"passage {k}": f"own {run} {k}" for k in range(parts)}, question="q")
    return prompt, lambda prompt, part, draws, rng: [f"foil {k}" for k in rng.integers(spread, size=draws)]


def coin(run, prompt, share):
    """Yes or no, fixed by the text of a prompt."""
    return int.from_bytes(blake2b(f"{run} {prompt}".encode(), digest_size=4).digest()) < share * 2**32


def answers_but(run, kept, share, base):
    """A model whose answer stays with probability `share` where a part is kept, else with probability `base`."""

    def model(prompts):
        return ["A" if one.count("own") == kept or coin(run, one, share if "own" in one else base) else "B"
                for one in prompts]  # fmt: skip

    return model


def found_enough(runs, share, base, parts=3, **settings):
    """Shares of runs in which a set is enough, and in which no part is needed."""
    some = none = 0
    for run in range(runs):
        prompt, foils = texts(run, parts)
        sets = context.explain(answers_but(run, parts, share, base), prompt, foils, seed=run, **settings).sets
        some += any(one.columns for one in sets)
        none += any(not one.columns for one in sets)
    return some, none


def test_sets_of_all_sizes_share_one_alpha(monkeypatch):
    """Every set keeps the answer in as many draws as the level: a false one in at most alpha of runs."""
    runs, settings = 100, {"draws": 30, "enough": 0.8, "alpha": 0.2}
    bound = binom.isf(0.001, runs, 0.2)
    assert found_enough(runs, 0.8, 0.2, 8, **settings)[0] <= bound
    assert found_enough(10, 0.95, 0.2, 8, **settings)[0] >= 9  # not mute
    monkeypatch.setattr(explaining, "SPENT", (1.0,) * 6)  # the fault: alpha anew in each round
    assert found_enough(runs, 0.8, 0.2, 8, **settings)[0] > bound


def test_no_part_is_needed_is_tested():
    """All replaced, the answer stays in as many draws as the level: 10 of 20 draws would say so in half of the runs."""
    runs = 150
    assert found_enough(runs, 1.0, 0.5, draws=1, enough=0.5)[1] <= binom.isf(1e-4, runs, 0.1 / 4)
    assert found_enough(20, 1.0, 0.95, draws=1, enough=0.5)[1] >= 15  # not mute


@pytest.mark.parametrize("size", [4, 6, 8, 12])
def test_pools_that_are_small_stand_for_no_more_texts_than_they_have(size, monkeypatch):
    """Of all texts like them half change the answer; a pool has few."""
    runs = 150

    def wrong():
        found = 0
        for run in range(runs):
            prompt, _ = texts(run, 4)
            model = answers_but(run, 4, 0.5, 0.5)
            pool = [f"foil {run} {k}" for k in range(size)]
            found += context.explain(model, prompt, pool, enough=None, seed=run).table.necessary.any()
        return found

    bound = binom.isf(1e-4, runs, 0.1)
    assert wrong() <= bound
    if size == 4:  # the fault: the same texts again, as if they were others
        monkeypatch.setattr(explaining._Run, "_stages", lambda self, i, members: Stages(self.draws, self.level, 0.125))

        class Again:
            def __init__(self, rng):
                self.rng = rng

            def choice(self, n, size, replace):
                return self.rng.integers(n, size=size)

            def __getattr__(self, name):
                return getattr(self.rng, name)

        monkeypatch.setattr(explaining, "stream", lambda *key: Again(stream(*key)))
        assert wrong() > bound


@pytest.mark.parametrize("rates", [(0.4, 0.6), (0.8, 0.2), (0.1,) * 10])
def test_answers_by_chance_that_are_taken_for_fixed(rates):
    """Asked once each, such answers look decisive; every prompt is asked twice, and then nothing is promised."""
    runs, promised, rng = 150, 0, np.random.default_rng(0)
    for run in range(runs):
        prompt, foils = texts(run, 4)
        result = context.explain(
            lambda prompts: [str(one) for one in rng.choice(len(rates), size=len(prompts), p=rates)],
            prompt, foils, enough=None, seed=run,
        )  # fmt: skip
        promised += bool(result.promised and result.table.necessary.any())
    assert promised <= binom.isf(1e-4, runs, 0.1)
