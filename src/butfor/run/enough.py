"""The smallest part of an input that keeps its decision while all the rest is redrawn (METHODS 17).

    s(S) = P(decision(f(x_S, X~_rest)) = decision(f(x))),   X~_rest ~ Q(. | x_S)

A modality proposes sets of parts, one part first, then two and more for inputs that are still open; each is confirmed
on draws that the search has not seen. Tables search among rows of the reference (`butfor.tabular.enough`); for images,
texts and inputs of several parts there are none, and `KeptParts` searches on a few draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Protocol

import numpy as np

from butfor.evaluation.evaluator import Evaluator
from butfor.evaluation.hypotheses import (
    MOST_PARTS,
    CounterfactualBatch,
    Hypotheses,
    Job,
    Parts,
    list_hypotheses,
    round_sizes,
)
from butfor.evaluation.items import ListItems
from butfor.evaluation.samplers import info_of
from butfor.inference.decisions import Decision, FlipShare, changes
from butfor.inference.features import Fit
from butfor.results.result import KeptSet, Sets
from butfor.run.decisions import CONFIDENCE, FIRST_ADDED, FIRST_ROUNDS, decide, draw_for
from butfor.run.watchers import Flips
from butfor.settings import Settings
from butfor.types import Bools, Floats, Ints, Subset

SHARES = (0.5, 0.25, 0.125, 0.125)  # of alpha, for sets of one part, of two, three and four
# hypotheses in which all but a set is redrawn, which of them (H,) are worth drawing, and what each of them (H) keeps
Proposal = tuple[Hypotheses, Bools, Sequence[tuple[str, ...]]]


class Keeps(Protocol):
    """Proposes what to keep of each input, and redraws the rest."""

    @property
    def base(self) -> FlipShare: ...  # (n,) how often an input that is redrawn as a whole gets the decision
    @property
    def pooled(self) -> bool: ...  # whether it is redrawn from reference and inputs together
    @property
    def together(self) -> int: ...  # draws of an input that have one error of the fit; 0: draws have none
    @property
    def most_draws(self) -> int | None: ...  # of a set; None: as many as of a decision

    def fit(self, hypotheses: Hypotheses) -> Fit | None:
        """Return how well the sampler is known."""

    def propose(self, size: int, inputs: Ints) -> Iterator[Proposal]:
        """Yield sets of so many parts."""


def smallest_sets(keeps: Keeps, evaluator: Evaluator, decision: Decision, settings: Settings, tested: Bools) -> Sets:
    """Return the smallest sets that surely keep decisions of inputs `tested` (n,) more often than `settings.enough`.

    Of all statements at most a share alpha is wrong on average: each size spends its share of alpha (`spent_on`), and
    what is wrong among all is at most the sum of what is spent. None is made where inputs redrawn as a whole get the
    decision as often.
    """
    assert settings.enough is not None
    low, high = keeps.base.bounds(1 - CONFIDENCE)
    open_inputs = tested & ~(low > settings.enough)
    tried: list[KeptSet] = []
    evaluator.counter.stage("enough", None)
    for size, share in enumerate(SHARES, 1):
        proposals = list(keeps.propose(size, np.flatnonzero(open_inputs)))
        total = sum(int(mask.sum()) for _, mask, _ in proposals)
        for hypotheses, mask, kept in proposals:
            alpha = share * settings.alpha
            if settings.family == "run":  # else the families are single inputs
                alpha = spent_on(alpha, int(mask.sum()), total, sum(one.enough for one in tried))
            at_level = replace(settings, level=settings.enough, alpha=min(alpha, settings.alpha))
            stays = Flips(hypotheses.size, decision, stays=True, together=keeps.together)
            watching = replace(evaluator, memory=None, watchers=(stays,), failed={})
            most = keeps.most_draws
            first = FIRST_ADDED * (FIRST_ROUNDS if most is None else 1)
            for number, draws in enumerate(round_sizes(first, hypotheses.round_draws)):
                draw_for(hypotheses, watching, mask, f"enough {number}", draws)
            decided = decide(hypotheses, watching, stays, at_level, keeps.fit(hypotheses), usable=mask, most=most)
            for row in np.flatnonzero(mask & np.isfinite(decided.share)).tolist():
                i, lower = int(hypotheses.input_of[row]), float(decided.low[row])
                beyond_base = not lower <= high[i]  # true where the base rate is not known
                enough = bool(decided.necessary[row] and beyond_base)
                tried.append(KeptSet(i, kept[row], float(decided.share[row]), lower, float(decided.high[row]), enough))
                open_inputs[i] &= not enough
    telling: list[KeptSet] = []  # the confirmed sets of each input, the surest first, or the one that came closest
    for _, sets in groupby(sorted(tried, key=lambda one: (one.input, -one.stay, one.columns)), attrgetter("input")):
        ordered = list(sets)
        telling += [one for one in ordered if one.enough] or ordered[:1]
    return Sets(settings.enough, keeps.base.share, low, high, tuple(telling), keeps.pooled)


def spent_on(share: float, family: int, families: int, confirmed: int) -> float:
    """Return the alpha of a family of n sets, where `families` sets of several families spend a share of alpha.

    After R sets were confirmed, Benjamini & Hochberg over n at a (n + R) / n makes E[wrong / (confirmed + R)] at most
    a, since r / (r + R) is at most n / (n + R) (Zrnic, Jiang, Ramdas & Jordan 2020). What a family spends is fixed
    before its draws are made.

    >>> spent_on(0.05, 30, 30, 0), round(spent_on(0.025, 20, 40, 10), 5)
    (0.05, 0.01875)
    """
    return share * (family + confirmed) / families


SEARCH_DRAWS = 4
BEAM, BEST = 3, 4  # sets of an input that grow by one part, and the parts that they grow by
LIKELY = 0.9  # the share in the search from which on a set is confirmed
MOST_DRAWS, COSTLY_DRAWS = 200, 128  # the most of a set, and where each costs much
Part = int  # the position of a part among those of its input


@dataclass(eq=False)
class KeptParts:
    """Parts of images or texts to keep: searched on a few draws of each set, which are not used again."""

    source: Hypotheses
    parts: Parts
    evaluator: Evaluator
    decision: Decision
    most_draws: int
    base: FlipShare
    beams: dict[int, list[tuple[Part, ...]]] = field(default_factory=dict)  # sets by input, the best first
    singles: dict[int, list[Part]] = field(default_factory=dict)  # likewise

    pooled, together = False, 0

    def fit(self, hypotheses: Hypotheses) -> None:
        """Take the sampler as right."""

    def propose(self, size: int, inputs: Ints) -> Iterator[Proposal]:
        """Yield the sets of each input that keep its decision on nearly all draws of the search."""
        grown: dict[tuple[int, tuple[Part, ...]], None] = {}  # an input and a set of its parts, each once
        for i in inputs.tolist():
            if size == 1:
                grown |= dict.fromkeys((i, (k,)) for k in range(len(self.parts.of[i])))
            for before in self.beams.get(i, []) if size > 1 else []:
                others = [k for k in self.singles[i] if k not in before][:BEST]
                grown |= dict.fromkeys((i, tuple(sorted((*before, k)))) for k in others)
        hypotheses, sets = self.keeping(list(grown))
        if not sets:
            return
        scores = Scores(len(sets), self.decision)
        searching = replace(self.evaluator, memory=None, watchers=(scores,), failed={})
        draw_for(hypotheses, searching, np.ones(len(sets), bool), "enough search", SEARCH_DRAWS)
        best: dict[int, list[int]] = {}
        for row in np.lexsort((scores.change, -scores.stay)).tolist():
            best.setdefault(int(hypotheses.input_of[row]), []).append(row)
        self.beams = {i: [sets[row] for row in rows[:BEAM]] for i, rows in best.items()}
        if size == 1:
            self.singles = {i: [sets[row][0] for row in rows] for i, rows in best.items()}
        likely = [row for i in sorted(best) for row in best[i][:BEAM] if scores.stay[row] >= LIKELY]
        hypotheses, sets = self.keeping([(int(hypotheses.input_of[row]), sets[row]) for row in likely])
        if sets:
            names = [[part.name for part in of_input] for of_input in self.parts.of]
            kept = [tuple(names[i][k] for k in one) for i, one in zip(hypotheses.input_of, sets, strict=True)]
            yield hypotheses, np.ones(len(sets), bool), kept

    def keeping(self, pairs: Sequence[tuple[int, tuple[Part, ...]]]) -> tuple[Hypotheses, list[tuple[Part, ...]]]:
        """Return hypotheses in which all but a set is redrawn, of inputs in their order, and the set of each (H)."""
        items, subsets, sets = self.source.items, [list[Subset]() for _ in self.parts.of], list[tuple[Part, ...]]()
        assert isinstance(items, ListItems)
        for i, one in pairs:
            kept = [self.parts.of[i][k] for k in one]
            if (rest := self.parts.rest(items.inputs[i], kept)) is not None:
                subsets[i].append(Subset(f"all but {', '.join(part.name for part in kept)}", rest))
                sets.append(one)
        items = replace(items, check=None, packing=None)
        names, seed = self.source.input_names, self.source.seed
        return list_hypotheses(items, names, subsets, self.parts.sampler, seed), sets


def kept_parts(
    source: Hypotheses,
    parts: Parts,
    evaluator: Evaluator,
    decision: Decision,
    settings: Settings,
    tested: Bools,
    effect: Floats,
) -> KeptParts:
    """Return what may be kept of images or texts, with how often a new one as a whole gets the decision of each.

    Of many parts those with the largest `effect` (H,) in the run are taken.
    """
    count, size = len(tested), {id(block.subset): float(effect[block.rows[0]]) for block in source.blocks}
    few = []
    for of_input in parts.of:
        sizes = np.nan_to_num(np.abs([size.get(id(part), 0.0) for part in of_input]))
        few.append([of_input[k] for k in np.sort(np.argsort(-sizes, kind="stable")[:MOST_PARTS])])
    parts = replace(parts, of=few)
    costly = source.items.costly or info_of(source.sampler).dear
    base = FlipShare(np.zeros(count, np.int64), np.full(count, np.nan), np.zeros(count))
    keeps = KeptParts(source, parts, evaluator, decision, COSTLY_DRAWS if costly else MOST_DRAWS, base)
    if parts.fills_whole:
        evaluator.counter.stage("enough", None)
        hypotheses, _ = keeps.keeping([(i, ()) for i in np.flatnonzero(tested).tolist()])
        stays = Flips(hypotheses.size, decision, stays=True)
        watching = replace(evaluator, memory=None, watchers=(stays,), failed={})
        draw_for(hypotheses, watching, np.ones(hypotheses.size, bool), "enough 0", FIRST_ADDED)
        at_level = replace(settings, level=settings.enough or 0.0)
        decided = decide(hypotheses, watching, stays, at_level, None, most=keeps.most_draws)
        base.draws[hypotheses.input_of], base.share[hypotheses.input_of] = decided.draws, decided.share
    return keeps


class Scores:
    """How often draws of each hypothesis (H,) keep the decision, and by how much they change the outputs."""

    def __init__(self, size: int, decision: Decision) -> None:
        self.look = partial(look_at_scores, decision=decision)
        self.stay, self.change = np.zeros(size), np.full(size, np.inf)

    def note(self, job: Job, scores: Floats | None, *, listed: bool) -> None:  # noqa: ARG002
        if scores is not None:
            self.stay[job.rows], self.change[job.rows] = scores


def look_at_scores(
    hypotheses: Hypotheses,  # noqa: ARG001
    batch: CounterfactualBatch,
    outputs: Floats,
    decision: Decision,
) -> Floats:
    """Share of the draws that keep the decision, and the mean change of the outputs, (2, n)."""
    change = np.abs(outputs[:, 1:] - outputs[:, :1]).sum(axis=2).mean(axis=1)
    return np.stack([1 - changes(decision, outputs, batch.mass).mean(axis=1), change])
