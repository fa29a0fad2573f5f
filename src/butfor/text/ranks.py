"""Is the sampler any good? Where real words stand among its draws by the model's output, and among its fills by Q."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from butfor.evaluation.evaluator import Evaluator, evaluate
from butfor.evaluation.hypotheses import Problem, list_problem, rounds
from butfor.evaluation.items import ListItems
from butfor.evaluation.samplers import ListsSupport, Sampler, info_of
from butfor.results.result import SMALL, Places
from butfor.text.explain import as_proposer, load_items, propose_spans, rows_at_a_time
from butfor.text.models import text_model
from butfor.types import Floats, InputError, Subset, whole


@dataclass(frozen=True, eq=False)
class WordRanks(Places):
    """How many real words stand first (output furthest from the mean of all), ... last. Made by `ranks`."""

    what = "words"


def ranks(
    model: Any, texts: Any, sampler: Sampler, *, units: Any = "word", draws: int = 5, seed: int = 0, each: int = 10
) -> WordRanks:
    """Where real words stand among draws of their own, by how far the output is from the mean of all of them.

    Important words stand first. What is not important stands anywhere, so an excess at the bottom says that fills are
    not like real words, whatever the model relies on. Ties are broken at random, and words that no draw changes the
    output of are left out.

    Parameters
    ----------
    model, texts, sampler, units : as in `butfor.text.explain`; the model has one output.
    draws : that each word is ranked among.
    seed : the same seed gives the same ranks.
    each : words of a text that are asked at most, picked at random.

    Examples
    --------
    >>> from butfor.simulate.texts import sentences
    >>> bed = sentences(seed=0, inputs=60)
    >>> found = ranks(bed.model, bed.inputs, bed.sampler)
    >>> found.ok, found.total > 300
    (True, True)
    """
    whole("draws", draws, 2)
    problem, batch_rows = _some_words(texts, sampler, units, seed, each)
    call = text_model(model).call
    outputs = np.asarray(call(problem.items.block(0, 1))).reshape(1, -1).shape[1]
    if outputs > 1:
        raise InputError(f"the model has {outputs} outputs; wrap it to return one: lambda texts: model(texts)[:, 1]")
    places, rng = [], np.random.default_rng(seed)
    for _, answers in evaluate(problem, Evaluator(call, batch_rows, 1), rounds(problem.blocks, draws, draws)):
        distance = np.abs(answers[0, :, 0] - answers[0, :, 0].mean())  # symmetric in the word and its draws
        if np.ptp(answers) > 0:
            further, ties = int((distance[1:] > distance[0]).sum()), int((distance[1:] == distance[0]).sum())
            places.append(further + int(rng.integers(ties + 1)))
    if not places:
        raise InputError("no draw changed any output: the model looks at none of these words")
    return WordRanks(np.bincount(places, minlength=draws + 1))


@dataclass(frozen=True, eq=False)
class WordFit:
    """Where real words stand among the fills of a sampler in the order of their probability. Made by `fit`."""

    places: Floats  # (words,) from 0, the likeliest, to 1; uniform if the words have the law Q

    @property
    def p(self) -> float:
        """Chance of places as uneven as these, were Q the law of the words (Kolmogorov & Smirnov)."""
        from scipy.stats import kstest

        return float(kstest(self.places, "uniform").pvalue)

    @property
    def ok(self) -> bool:
        """Whether Q may be the law of the words."""
        return self.p >= SMALL

    @property
    def verdict(self) -> str:
        """One sentence."""
        mean = float(self.places.mean())
        seen = f"the mean place of {len(self.places)} real words is {mean:.2f} where .50 is right (p = {self.p:.1g})"
        if self.ok:
            return f"No sign against the sampler: {seen}."
        if mean > 0.5:
            return (
                f"The sampler is too sure of itself: {seen}; real words are rarer than it thinks, and look surprising."
            )
        return f"The sampler is too vague: {seen}; real words are likelier than it thinks, and the test has less power."


def fit(sampler: Sampler, texts: Any, *, units: Any = "word", seed: int = 0, each: int = 3) -> WordFit:
    """The probability integral transform of real words: is Q their law, whatever the model?

    For each word the probability of all fills that are likelier, plus a random part of its own, is uniform on (0, 1) if
    the word was drawn from Q.

    Parameters
    ----------
    sampler : must list its fills (`listed=`); what it does not list stands last.
    texts : of the reference, not those that the sampler was fitted on.
    units : as in `butfor.text.explain`.
    seed : the same seed gives the same places.
    each : words of a text that are asked at most, picked at random: neighbours tell of each other.

    Examples
    --------
    >>> from butfor.simulate.texts import sentences
    >>> bed = sentences(seed=1, inputs=60, share=0.0, listed=40)
    >>> fit(bed.sampler, bed.inputs).ok
    True
    """
    problem, _ = _some_words(texts, sampler, units, seed, each)
    rng = np.random.default_rng(seed)
    places = [_place(problem, block.start, block.subset, rng.random()) for block in problem.blocks]
    return WordFit(np.array(places))


def _place(problem: Problem, row: int, subset: Subset, chance: float) -> float:
    sampler = problem.sampler
    if not isinstance(sampler, ListsSupport) or not sampler.lists(subset):
        raise InputError(f"{sampler!r} does not list its fills; make it with listed=, as many as you can afford")
    (text,) = problem.items.block(row, row + 1)
    (versions,), (mass,) = sampler.support([text], subset)
    totals: dict[str, float] = {}
    for version, share in zip(versions, np.asarray(mass, np.float64).tolist(), strict=True):
        totals[version] = totals.get(version, 0.0) + share
    if not totals.get(text):
        listed = min(1.0, float(np.sum(mass)))
        return listed + chance * (1 - listed)
    shares = np.array([*totals.values()])
    own = totals[text]
    return float(shares[shares > own].sum() + chance * shares[shares == own].sum())


def _some_words(texts: Any, sampler: Sampler, units: Any, seed: int, each: int) -> tuple[Problem, int]:
    """Some of the words of each text, and how many texts the model gets at a time."""
    whole("each", each, 1)
    found = propose_spans(load_items(texts), as_proposer(units, info_of(sampler).tokenizer), "raise", [])
    rng = np.random.default_rng([seed, 1])
    some = [_some(own, each, rng) for own in found.subsets]
    return list_problem(ListItems(tuple(found.items)), found.names, some, sampler, seed), rows_at_a_time(found)


def _some(own: Sequence[Subset], each: int, rng: np.random.Generator) -> list[Subset]:
    return [own[i] for i in sorted(rng.permutation(len(own))[:each].tolist())]
