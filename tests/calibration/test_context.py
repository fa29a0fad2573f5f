"""Contexts with every null true: passages and foils of one pool, and a model that depends on all of them a little.

The answer with the largest score is given. The naive score, of the answer that the observed prompt produced, is the
planted fault: it must fail the bound that the symmetric and the given answer keep.
"""

import numpy as np
import pytest
from scipy.stats import binom

from butfor import context

pytestmark = pytest.mark.slow
DRAWS, PROMPTS, PASSAGES = 39, 40, 5


class Scorer:
    """Scores of each answer: a sum of normal values of the lines, fixed by their text."""

    def __init__(self, kinds, seed, idle=False):
        self.kinds, self.seed, self.idle, self.identity = kinds, seed, idle, f"scorer {kinds} {seed} {idle}"
        self.known = {}

    def logits(self, prompt):
        total = np.zeros(self.kinds)
        for line in prompt.split("\n"):
            if line.startswith("text") and not self.idle:
                number = int(line.removeprefix("text "))
                if number not in self.known:
                    self.known[number] = np.random.default_rng([self.seed, number]).normal(size=self.kinds)
                total = total + self.known[number]
        return total if not self.idle else np.arange(self.kinds, dtype=float)

    def answer(self, prompts):
        return [str(self.logits(prompt).argmax()) for prompt in prompts]

    def score(self, prompts, answers):
        rows = np.stack([self.logits(prompt) for prompt in prompts])
        rows = rows - np.logaddexp.reduce(rows, axis=1, keepdims=True)
        return rows[np.arange(len(rows)), [int(one) for one in answers]]


def null_run(kinds, seed, *, answer=None, level=0.02):
    """One prompt whose passages are drawn as its foils are; at this level nothing is given up early."""
    rng = np.random.default_rng([seed, kinds])
    texts = [f"text {k}" for k in rng.permutation(100_000)[: PASSAGES + 2_000]]
    prompt = context.prompt({f"passage {k}": text for k, text in enumerate(texts[:PASSAGES])}, question="q")
    model = Scorer(kinds, seed)
    result = context.explain(model, prompt, texts[PASSAGES:], draws=DRAWS, level=level, enough=None, answer=answer)
    return model, prompt, result


def naive(model, prompt, result):
    """The p-value of the score of the answer that the observed prompt gives."""
    answer, p = result.answers[0], []
    for part in result.parts:
        versions = [prompt.render(), *(prompt.render({part.name: foil}) for foil in part.foils)]
        scores = model.score(versions, [answer] * len(versions))
        p.append((1 + (scores[1:] >= scores[0]).sum()) / len(scores))
    return p


def kept(p, u=0.05):
    return (np.array(p) <= u).sum() <= binom.isf(1e-6, len(p), u)


@pytest.mark.parametrize("kinds", [2, 20, 1000])
def test_p_values_where_nothing_matters(kinds):
    prompts = PROMPTS if kinds < 1000 else 16
    symmetric, given, fault = [], [], []
    for seed in range(prompts):
        model, prompt, result = null_run(kinds, seed)
        symmetric += [part.p for part in result.parts if part.draws == DRAWS]
        fault += naive(model, prompt, result)
        given += [part.p for part in null_run(kinds, seed, answer="0")[2].parts if part.draws == DRAWS]
    assert len(symmetric) > 0.8 * prompts * PASSAGES
    assert kept(symmetric)
    assert kept(given)
    assert np.mean(given) < 0.65  # not mute
    if kinds >= 20:
        assert not kept(fault)


def test_nothing_is_decisive_where_nothing_matters():
    runs, wrong = 100, 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        texts = [f"text {k}" for k in rng.permutation(100_000)[:80]]
        prompt = context.prompt({f"passage {k}": text for k, text in enumerate(texts[:20])}, question="q")
        wrong += context.explain(Scorer(20, seed, idle=True), prompt, texts[20:], enough=None).table.necessary.any()
    assert wrong == 0


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
