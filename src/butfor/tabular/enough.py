"""Which columns may be enough for a decision, and the redrawing of all others given them (METHODS 17).

A row whose other columns are redrawn given x_S is a row like those of the reference that have x_S. How often reference
rows near x_S get the decision therefore tells which sets are worth drawing for: nothing is fitted, no row evaluated.
A reference without any such row (a foil) tells nothing: there rows are shifted to x_S along straight lines, and the
model is tested. Either way this is only the search; sets are confirmed on draws of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from butfor.evaluation.hypotheses import Hypotheses, table_hypotheses
from butfor.evaluation.items import Items, TableItems
from butfor.evaluation.samplers import Sampler, method
from butfor.inference.decisions import FlipShare
from butfor.inference.features import Fit
from butfor.streams import stream
from butfor.tabular.splice import TableSampler
from butfor.tabular.table import Table
from butfor.types import Array, Bools, Floats, Ints, Subset

Parts = tuple[int, ...]  # positions of what is kept
LEAST_POOLED, RARE = 50, 0.05  # inputs that join a reference in which their decisions are so rare
MOST_SEARCHED, MOST_NEAR, SHIFTED = 100, 1_000, 12  # inputs and reference rows of the search; inputs of a foil's
BEAM, MOST_SETS = 3, 8  # sets of an input that grow by one part, and that are drawn for, of one size
LIKELY = 0.7  # the share in the search from which on a set is drawn for
NEAR_SHARE, LEAST_NEAR, MOST_NEAREST = 0.05, 8, 50  # of the rows
DONORS = 32  # rows that are shifted, of a foil


@dataclass(eq=False)
class KeptColumns:
    """Columns to keep, and samplers of the rest: one, or one of each half of the inputs."""

    source: Hypotheses
    units: Sequence[Subset]
    same: Bools  # (n, m) whether a row gets the decision of an input; never a row of the input's own cluster
    rows: Ints  # (n,) that these are, of other clusters
    distances: Callable[[Ints, int], Floats]  # inputs (k,), a column -> (k, m)
    samplers: Sequence[tuple[Sampler, Bools]]  # with the inputs (n,) that each draws for
    pooled: bool
    shifted: Callable[[Ints, Sequence[Ints]], Floats] | None  # inputs, columns of sets -> share (k, sets); a foil
    together: int  # draws of an input that have one error of the fit; 0: draws have none
    known_by: Callable[[Hypotheses], Fit | None]
    beams: dict[tuple[int, int], list[Parts]] = field(default_factory=dict)  # by size and input

    most_draws = None

    @property
    def base(self) -> FlipShare:
        return FlipShare(self.rows, np.asarray(self.same.sum(axis=1) / self.rows), np.zeros(len(self.rows)))

    def propose(self, size: int, inputs: Ints) -> Iterator[tuple[Hypotheses, Bools, list[tuple[str, ...]]]]:
        """Yield sets that go furthest for most inputs, with hypotheses in which all columns but theirs are redrawn."""
        sets, wanted = self._best(size, inputs) if size < len(self.units) else ([], np.zeros((0, 0), bool))
        kept = [tuple(self.units[k].name for k in one) for one in sets]
        items = self.source.items
        assert isinstance(items, TableItems)
        every = np.arange(items.values.shape[1])
        rest = [
            Subset(f"all but {', '.join(names)}", np.setdiff1d(every, self._columns(one)))
            for names, one in zip(kept, sets, strict=True)
        ]
        for fold, (sampler, members) in enumerate(self.samplers if sets else ()):
            mask = (wanted.T & members[:, None]).reshape(-1)  # inputs x sets, as hypotheses stand
            if mask.any():
                seed = int(stream(self.source.seed, "enough", "fold", fold).integers(2**62))
                yield table_hypotheses(items, self.source.input_names, rest, sampler, seed), mask, kept * len(members)

    def _best(self, size: int, inputs: Ints) -> tuple[list[Parts], Bools]:
        """Return the sets that go furthest for most inputs, and for which inputs (sets, n) each is worth drawing."""
        wanted = np.zeros((0, len(self.same)), bool)
        if not inputs.size:
            return [], wanted
        every = stream(self.source.seed, "enough", "inputs", size).permutation(inputs)
        some = np.sort(every[: SHIFTED if self.shifted is not None else MOST_SEARCHED])
        grown = {i: self._grown(size, i) for i in some.tolist()}
        sets = list(dict.fromkeys(one for sets in grown.values() for one in sets))
        if not sets:
            return [], wanted
        place = {one: k for k, one in enumerate(sets)}
        may = np.zeros((len(some), len(sets)), bool)
        for row, i in enumerate(some.tolist()):
            may[row, [place[one] for one in grown[i]]] = True
        scores = np.where(may, self._scores(some, sets), -1.0)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :BEAM]
        for row, i in enumerate(some.tolist()):
            self.beams[size, i] = [sets[k] for k in order[row] if scores[row, k] >= 0]
        chosen = _cover(scores, order, min(MOST_SETS, BEAM + len(inputs) // 4))
        if len(some) < len(inputs):
            scores = self._scores(inputs, [sets[k] for k in chosen])
            first = [sets[k] for k in chosen[:BEAM]]
            self.beams |= {(size, i): first for i in np.setdiff1d(inputs, some).tolist()}
        else:
            scores = scores[:, chosen]
        wanted = np.zeros((len(chosen), len(self.same)), bool)
        best = -np.sort(-scores, axis=1)[:, min(BEAM, len(chosen)) - 1 :][:, :1]  # the third best of an input
        wanted[:, inputs] = ((scores >= LIKELY) & (scores >= best)).T
        kept = np.flatnonzero(wanted.any(axis=1))
        return [sets[chosen[k]] for k in kept], wanted[kept]

    def _grown(self, size: int, index: int) -> list[Parts]:
        if size == 1:
            return [(k,) for k in range(len(self.units))]
        grown: dict[Parts, None] = {}
        for before in self.beams.get((size - 1, index), []):
            taken = set().union(*(self.units[k].index.tolist() for k in before))
            for k, unit in enumerate(self.units):
                new, width = set(unit.index.tolist()), self.source.items.block(0, 1).shape[1]
                if not taken & new and len(taken | new) < width:
                    grown[tuple(sorted((*before, k)))] = None
        return list(grown)

    def _columns(self, parts: Parts) -> Ints:
        return np.unique(np.concatenate([self.units[k].index for k in parts]))

    def _scores(self, inputs: Ints, sets: Sequence[Parts]) -> Floats:
        """Share (k, sets) of rows near an input in what is kept, or shifted to it, that get its decision."""
        columns = [self._columns(parts) for parts in sets]
        if self.shifted is not None:
            return self.shifted(inputs, columns)
        same, scores = self.same[inputs], np.empty((len(inputs), len(sets)))
        each = {j: self.distances(inputs, j) for j in {int(j) for one in columns for j in one}}
        near = min(int(np.clip(NEAR_SHARE * same.shape[1], LEAST_NEAR, MOST_NEAREST)), same.shape[1]) - 1
        for k, one in enumerate(columns):
            distance = sum(each[int(j)] for j in one)
            assert isinstance(distance, np.ndarray)
            within = distance <= np.partition(distance, near, axis=1)[:, [near]]
            scores[:, k] = (same & within).sum(axis=1) / within.sum(axis=1)
        return scores

    def fit(self, hypotheses: Hypotheses) -> Fit | None:
        """Return how well the sampler is known; of draws that have the error of the fit, by the number of its rows."""
        sampler = hypotheses.sampler
        if not self.together or not isinstance(sampler, TableSampler):
            return self.known_by(hypotheses)
        nothing = np.zeros(hypotheses.size)
        return Fit(max(int(sampler.rows / sampler.copies), 1), nothing, nothing)


def _cover(scores: Floats, order: Ints, most: int) -> list[int]:
    """Return sets so that as many inputs as can be have one of their best; those that serve most come first."""
    count = np.zeros(scores.shape[1])
    np.add.at(count, order.reshape(-1), np.take_along_axis(scores, order, axis=1).reshape(-1) > 0)
    chosen: list[int] = []
    missing = np.ones(len(scores), bool)
    while missing.any() and len(chosen) < most:
        votes = np.zeros(scores.shape[1])
        np.add.at(votes, order[missing].reshape(-1), 1.0)
        votes[chosen] = 0
        total = np.where(votes > 0, votes + count / (count.max() + 1) + scores.mean(axis=0) / len(scores), 0.0)
        if not total.max() > 0:
            break
        chosen.append(int(total.argmax()))
        missing &= ~(order == chosen[-1]).any(axis=1)
    rest = [k for k in np.argsort(-count, kind="stable").tolist() if k not in chosen and count[k] > 0]
    return chosen + rest[: most - len(chosen)]


def kept_columns(
    hypotheses: Hypotheses,
    table: Table,
    groups: Sequence[Subset],
    positions: Ints,
    items_at: Callable[[Ints], TableItems],
    known_by: Callable[[Hypotheses], Fit | None],
    decisions: Array,
    row_decisions: Array,
    clusters: Ints,
    tested: Bools,
    ask: Callable[[Items], Array | None],
) -> KeptColumns | None:
    """Return what may be kept of rows of a table; None: the sampler has no reference to learn from.

    The rows at these `positions` (m,) of the reference get the decisions `row_decisions` (m,), the inputs `decisions`
    (n,) and are in `clusters` (n,); those not `tested` (n,) have none. `ask` returns the decisions on rows made of
    others, or None where the model cannot.
    """
    sampler, items = hypotheses.sampler, hypotheses.items
    if not isinstance(sampler, TableSampler) or sampler.refit is None:
        return None
    assert isinstance(items, TableItems)
    rows = items_at(positions).values
    some = np.sort(stream(hypotheses.seed, "enough", "rows").permutation(len(rows))[:MOST_NEAR])
    same = np.asarray(decisions[:, None] == row_decisions[some])
    rare = same[tested].mean(axis=1) < RARE
    foil, pooled = bool(rare.mean() > 0.5), False
    inputs = items.values.astype(np.float64)
    pool = rows[some].astype(np.float64)
    many = _of_many(sampler)
    samplers: list[tuple[Sampler, Bools]] = [(many, np.ones(len(inputs), bool))]
    mine = np.zeros(same.shape, bool)  # (n, m) rows that no input may learn from: of its own cluster, or skipped
    if foil and len(np.unique(clusters[tested])) >= LEAST_POOLED:
        pooled, foil = True, False
        samplers = _halves(sampler, inputs, clusters, tested, hypotheses.seed)
        pool = np.concatenate([pool, inputs])
        mine = np.concatenate([mine, (clusters[:, None] == clusters) | ~tested], axis=1)
        same = np.concatenate([same, decisions[:, None] == decisions], axis=1) & ~mine
    varying = np.array([len(np.unique(column[~np.isnan(column)])) > 1 for column in pool.T])
    units = [Subset(table.columns[j], np.array([j])) for j in np.flatnonzero(varying).tolist()]
    named = {unit.name for unit in units}
    units += [group for group in groups if 1 < len(group.index) < inputs.shape[1] and group.name not in named]
    if len(units) < 2:
        return None
    scale = np.nanstd(pool, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    category = np.array([column.kind == "category" for column in table.kinds])

    def distances(which: Ints, column: int) -> Floats:
        here, there = inputs[which, column][:, None], pool[:, column]
        gap = np.abs(here - there) / scale[column]
        gap = np.where(np.isnan(gap), np.isnan(here) != np.isnan(there), gap)
        apart = np.where(category[column], here != there, gap).astype(np.float64)
        return np.where(mine[which], np.inf, apart)

    shifted = None
    if foil:
        donors = some[stream(hypotheses.seed, "enough", "donors").permutation(len(some))[:DONORS]]
        movable = varying & ~category & ~np.isnan(rows).any(axis=0)

        values = rows.astype(np.float64)
        spread = np.where(values.std(axis=0) > 0, values.std(axis=0), 1.0)
        z = np.nan_to_num((values - values.mean(axis=0)) / spread)
        products = z.T @ z / len(z)

        def shifted(which: Ints, sets: Sequence[Ints]) -> Floats:
            """Share (k, sets) of rows shifted along straight lines to what an input keeps that get its decision."""
            scores, like = np.zeros((len(which), len(sets))), items_at(positions[np.tile(donors, len(which))])
            for k, kept in enumerate(sets):
                rest = np.setdiff1d(np.flatnonzero(movable), kept)
                ridge = products[np.ix_(kept, kept)] + 0.01 * np.eye(len(kept))
                made = np.repeat(values[None, donors], len(which), axis=0)
                gap = np.nan_to_num((inputs[which][:, None, kept] - made[:, :, kept]) / spread[kept])
                made[:, :, rest] += (gap @ np.linalg.solve(ridge, products[np.ix_(kept, rest)])) * spread[rest]
                made[:, :, kept] = inputs[which][:, None, kept]
                answers = ask(replace(like, values=made.reshape(-1, made.shape[2]).astype(like.values.dtype)))
                if answers is not None:
                    scores[:, k] = (answers.reshape(len(which), -1) == decisions[which][:, None]).mean(axis=1)
            return scores

    together = getattr(many.conditional, "unsure", 0)
    count = np.asarray((~mine).sum(axis=1))
    return KeptColumns(hypotheses, units, same, count, distances, samplers, pooled, shifted, together, known_by)


def _of_many(sampler: TableSampler) -> TableSampler:
    of_many = method(sampler.conditional, "of_many")
    return sampler if of_many is None else replace(sampler, conditional=of_many())


def _halves(
    sampler: TableSampler, inputs: Floats, clusters: Ints, tested: Bools, seed: int
) -> list[tuple[Sampler, Bools]]:
    """Samplers fitted on the reference and one half of the inputs (of clusters) each, with those they draw for."""
    assert sampler.refit is not None
    names, cluster = np.unique(clusters, return_inverse=True)
    half = (stream(seed, "enough", "halves").permutation(len(names)) % 2 == 0)[cluster.reshape(-1)]
    reference, made = sampler.reference, list[tuple[Sampler, Bools]]()
    alone = reference.clusters is None and len(names) == len(inputs)
    for mine in (half, ~half):
        theirs = tested & ~mine
        others = sampler.in_reference_order(inputs[theirs]).astype(reference.values.dtype)
        known = np.arange(len(reference.values)) if reference.clusters is None else reference.clusters
        joined = replace(
            reference,
            values=np.concatenate([reference.values, others]),
            index=tuple(range(len(reference.values) + len(others))),
            row_labels=None,
            clusters=None if alone else np.concatenate([known, known.max() + 1 + cluster.reshape(-1)[theirs]]),
        )
        made.append((_of_many(replace(sampler.refit(joined), order=sampler.order)), mine))
    return made
