"""Is Q any good? Held-out rows against their own counterfactuals, with a verdict per subset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import process_time

import numpy as np

from butfor.core.checks import between, whole
from butfor.core.draw.blocks import Block, Job, Problem, draw, table_problem
from butfor.core.draw.samplers import ListsSupport, info_of
from butfor.core.draw.streams import stream
from butfor.core.evaluate.batches import Evaluator, evaluate
from butfor.core.evaluate.outputs import Target, pick
from butfor.core.evaluate.probe import probe
from butfor.core.select.rules import bh
from butfor.core.test.sampler_checks import RankCheck, Verdict, check_ranks, filled, told_apart
from butfor.core.test.shape import ShapeCheck, check_shape, pooled_shape
from butfor.core.types import Bools, Floats, InputError, Subset
from butfor.models import Wrapped
from butfor.tabular.bind import bind_model, bind_sampler
from butfor.tabular.check_result import SamplerCheck
from butfor.tabular.scores import Scores, score_draws
from butfor.tabular.subsets import column_subsets
from butfor.tabular.table import Table, items_of
from butfor.tabular.two_sample import score_ranks

LEAST_ROWS = 50
MOST_ROWS = 1000  # a fitted sampler is never exactly right: more rows would flag what does no harm
BATCH_ROWS = 10_000
SECONDS = 30.0  # of processor time; where all columns take longer, some are left out
TIMED = 3  # columns that tell how long the others take, after a first that loads libraries
COLUMNS_SHARE = 1 / 3  # of alpha, for the verdicts by subset; the rest is for the shape of all columns together
MOST_LEVELS = 32  # values of a column of numbers that is scored by the probabilities a sampler lists


def check_table(
    sampler: object,
    X_held_out: object,
    model: object = None,
    *,
    subsets: object = None,
    draws: int = 99,
    alpha: float = 0.03,
    seed: int = 0,
    done: Callable[[int, int], None] | None = None,
) -> SamplerCheck:
    """Whether a sampler of tables redraws features as they are; `butfor.check_sampler` has the words.

    `done` hears of rows that were drawn, and of how many there will be.
    """
    whole("draws", draws, 19)
    between("alpha", alpha, "0.03 is a good choice")
    whole("seed", seed, 0)
    wrapped = None if model is None else bind_model(model, X_held_out, "held-out data")
    table, fitted = bind_sampler(X_held_out, sampler, "held-out data")
    count = len(table.values)
    if count < LEAST_ROWS:
        raise InputError(f"check_sampler needs at least {LEAST_ROWS} held-out rows, got {count}; hold out more")
    kept = np.sort(stream(seed, "check", "rows").permutation(count)[:MOST_ROWS])
    groups = column_subsets(table, subsets)
    items = replace(items_of(table), values=table.values[kept])
    problem = table_problem(items, [table.index[i] for i in kept], groups, fitted, seed)
    statistic = None if wrapped is None else _statistic(wrapped, problem)
    plan = CheckPlan(problem, draws, _levels(table), statistic)
    found = _in_time(plan, groups, subsets is None, done)
    notes = [f"{len(kept)} of {count} held-out rows were used."] if len(kept) < count else []
    return _judged(plan, groups, found, alpha, notes)


Statistic = Callable[[Sequence[Job]], Iterator[Floats]]  # one number per version of each input, job by job


@dataclass(frozen=True, eq=False)
class CheckPlan:
    """What is asked of every subset."""

    problem: Problem
    draws: int
    levels: Bools  # (columns,) of the table
    statistic: Statistic | None


@dataclass(frozen=True, eq=False)
class SubsetCheck:
    """All that was found of one subset."""

    ranked: RankCheck
    shapes: tuple[ShapeCheck, ...]  # of its columns that have a shape
    apart: tuple[float, float]  # AUC of the trees and its p
    model_p: float | None
    scores: Scores

    @property
    def shape_p(self) -> float:
        """Bonferroni's over the columns."""
        return min([1.0, *(len(self.shapes) * shape.p for shape in self.shapes)])

    @property
    def pattern(self) -> Verdict:
        """What the clearest of the columns looks like."""
        return min(self.shapes, key=lambda shape: shape.p).pattern if self.shapes else "ok"


def _statistic(model: Wrapped, problem: Problem) -> Statistic:
    """The model's output, or that of the class it predicts, of what some jobs draw."""
    seen = probe(model.call, problem.items, BATCH_ROWS, lambda row: f"held-out row {row}")
    width = seen.outputs.shape[1]
    evaluator, target = Evaluator(model.call, BATCH_ROWS, width), Target("output" if width == 1 else "predicted")

    def values(jobs: Sequence[Job]) -> Iterator[Floats]:
        for _, outputs in evaluate(problem, evaluator, jobs):
            yield seen.rounding.merge_rounding_ties(pick(outputs, target, np.arange(len(outputs)))[0])

    return values


def _levels(table: Table) -> Bools:
    """Columns that have levels and no distances: categories, yes and no."""
    named = [column.kind in ("category", "flag") for column in table.kinds]
    few = [len(np.unique(column[~np.isnan(column)])) <= 2 for column in table.values.astype(np.float64).T]
    return np.asarray(np.logical_or(named, few))


def _in_time(
    plan: CheckPlan, groups: Sequence[Subset], sampled: bool, done: Callable[[int, int], None] | None
) -> dict[int, SubsetCheck]:
    """The checks by place; of columns that take too long (`sampled`) those that come first by chance."""
    places = range(len(groups))
    order = stream(plan.problem.seed, "check", "columns").permutation(len(groups)).tolist() if sampled else [*places]
    found: dict[int, SubsetCheck] = {}
    seconds: list[float] = []
    while order and len(found) < len(order):
        place, started = order[len(found)], process_time()
        blocks = [block for block in plan.problem.blocks if block.subset is groups[place]]
        found[place] = _check_subset(plan, blocks)
        seconds.append(process_time() - started)
        if sampled and len(found) == 1 + TIMED:
            order = order[: max(len(found), int(SECONDS * TIMED / max(sum(seconds[1:]), 1e-9)))]
        if done is not None:
            rows = len(plan.problem.items) * plan.draws
            done(len(found) * rows, len(order) * rows)
    return {place: found[place] for place in sorted(found)}


def _check_subset(plan: CheckPlan, blocks: list[Block]) -> SubsetCheck:
    """Ranks and shape of held-out values, how well trees tell them from draws, p of the model's outputs, scores."""
    problem, draws, subset = plan.problem, plan.draws, blocks[0].subset
    jobs, columns = [Job(block, draws, "check") for block in blocks], np.asarray(subset.index)
    given = np.concatenate([draw(problem, job).values for job in jobs]).astype(np.float64)
    given = given.reshape(len(problem.items), draws + 1, -1)
    pool, rng = filled(given), stream(problem.seed, "check", subset.name)
    info = info_of(problem.sampler)
    share = 0.0 if info.reference_rows is None else len(given) / info.reference_rows
    ranked = check_ranks(pool, rng, share)
    inputs = problem.items.block(0, len(problem.items))
    apart = told_apart(score_ranks(filled(inputs), columns, pool, rng), share)
    model_p = None
    if plan.statistic is not None:
        outputs = np.concatenate(list(plan.statistic(jobs)))
        model_p = check_ranks(outputs[:, :, None], rng, share).p
    levels = plan.levels[columns]
    donors = info.floor(subset) > 0  # it hands out values of reference rows: its shape is known from so many only
    shapes = [check_shape(given[:, :, k], share if donors else 0.0) for k in np.flatnonzero(~levels)]
    scores = score_draws(given, levels, _listed(problem, subset, given[:, 0]))
    return SubsetCheck(ranked, tuple(shape for shape in shapes if shape is not None), apart, model_p, scores)


def _listed(problem: Problem, subset: Subset, observed: Floats) -> Floats | None:
    """The probability of what is observed (rows,), where the sampler lists what it may draw and values come again."""
    sampler = problem.sampler
    few = len(np.unique(observed, axis=0)) <= min(MOST_LEVELS, len(observed) // 2)
    if not few or not isinstance(sampler, ListsSupport) or not sampler.lists(subset):
        return None
    inputs = problem.items.block(0, len(problem.items))
    values, mass = problem.items.support(sampler, inputs, subset, f"support of subset {subset.name!r}")
    real = observed[:, None, :]
    same = (values == real) | (np.isnan(values.astype(np.float64)) & np.isnan(real))
    return np.asarray((mass * same.all(axis=2)).sum(axis=1))


def _judged(
    plan: CheckPlan, groups: Sequence[Subset], found: dict[int, SubsetCheck], alpha: float, notes: list[str]
) -> SamplerCheck:
    """The verdicts, by subset and of all together."""
    checks = list(found.values())
    auc, auc_p = np.array([check.apart for check in checks]).T
    model_p = None if plan.statistic is None else np.array([check.model_p for check in checks], dtype=np.float64)
    others = [auc_p] if model_p is None else [auc_p, model_p]
    shapes = [shape for check in checks for shape in check.shapes]
    share = COLUMNS_SHARE if len(shapes) > 1 else 1.0
    called, _ = verdicts([check.ranked for check in checks], others, share * alpha, checks)
    said, together_p = pooled_shape(shapes)
    left_out = tuple(group.name for place, group in enumerate(groups) if place not in found)
    return SamplerCheck(
        subset_names=tuple(groups[place].name for place in found),
        ranked=tuple(check.ranked for check in checks),
        shape_p=np.array([check.shape_p for check in checks]),
        auc=auc,
        auc_p=auc_p,
        model_p=model_p,
        scores=tuple(check.scores for check in checks),
        verdicts=tuple(called),
        together=said if together_p <= (1 - share) * alpha else "ok",
        together_p=together_p,
        alpha=alpha,
        rows=len(plan.problem.items),
        draws=plan.draws,
        left_out=left_out,
        notes=(*notes, *_omitted(left_out, len(groups))),
    )


def _omitted(left_out: tuple[str, ...], count: int) -> list[str]:
    """What was not checked, in words."""
    if not left_out:
        return []
    return [
        f"Checking all {count} columns would take over {SECONDS:g} s: {count - len(left_out)} of them, picked at "
        f"random, were checked. Left out: {', '.join(left_out)}. Name columns in subsets= to check those."
    ]


def verdicts(
    checks: Sequence[RankCheck], others: Sequence[Floats], alpha: float, shapes: Sequence[SubsetCheck] = ()
) -> tuple[list[Verdict], Floats]:
    """A verdict per subset, and the p-value it rests on; `others` are more p-values per subset (classifier, model).

    Bonferroni within a subset and Benjamini-Hochberg over subsets: a right Q is called wrong anywhere in at most a
    share alpha of checks. A wrong one is called after its ranks where they are the clearest sign, else off-manifold;
    after its shape where that alone is wrong.
    """
    own = np.array([check.p for check in checks])
    tests = np.array([own, *others])  # (tests, subsets)
    shape_p = np.array([shape.shape_p for shape in shapes])
    count = len(tests) + bool(shapes)
    without = np.minimum(1.0, count * tests.min(axis=0))
    p = np.minimum(without, count * shape_p) if shapes else without
    wrong, clearest = bh(p, alpha), tests.argmin(axis=0) == 0
    found: list[Verdict] = [
        "ok"
        if not wrong[j]
        else shapes[j].pattern
        if without[j] > alpha
        else checks[j].pattern
        if clearest[j]
        else "off-manifold"
        for j in range(len(checks))
    ]
    return found, p
