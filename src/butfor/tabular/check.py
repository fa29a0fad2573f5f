"""Is Q any good? Held-out rows against their own counterfactuals, with a verdict per subset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.evaluation.calls import probe
from butfor.evaluation.evaluator import Evaluator
from butfor.evaluation.hypotheses import Block, Job, Problem, draw, table_problem
from butfor.evaluation.samplers import ListsSupport, info_of
from butfor.inference.selection import bh
from butfor.inference.statistics import Target, pick
from butfor.models import Wrapped
from butfor.streams import stream
from butfor.tabular.calibration import (
    RankCheck,
    ShapeCheck,
    Verdict,
    check_ranks,
    check_shape,
    filled,
    pooled_shape,
    ranks,
    told_apart,
)
from butfor.tabular.splice import bind_model, bind_sampler
from butfor.tabular.subsets import column_subsets
from butfor.tabular.table import Table, items_of
from butfor.types import Bools, Floats, InputError, Ints, Subset, between, whole

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


SHIFTS = 8  # pairs of draws (k, k + 1) ... (k, k + 8) stand for all pairs of them
NONE = float("nan")


@dataclass(frozen=True)
class Scores:
    """Scores of one subset, the smaller the better, and those of the column's own margin; NaN where there are none.

    Parameters
    ----------
    crps : CRPS of the draws over the column's standard deviation; of several columns the energy score.
    crps_margin : the same of a draw that knows nothing of the rest of the row.
    log_score : mean -log Q(observed) of what has no distances: categories, yes and no, listed values.
    log_margin : the same of the margin.
    """

    crps: float = NONE
    crps_margin: float = NONE
    log_score: float = NONE
    log_margin: float = NONE

    @property
    def explained(self) -> float:
        """The share of the margin's score that the rest of the row takes away: 0 tells nothing, 1 tells all."""
        pairs = ((self.log_score, self.log_margin), (self.crps, self.crps_margin))
        return next((1 - own / margin for own, margin in pairs if margin > 0), NONE)  # NaN is not above 0


def score_draws(pool: Floats, levels: Bools, listed: Floats | None = None) -> Scores:
    """The scores of one subset from its pool (rows, 1 + draws, columns), version 0 being real; NaN is missing.

    The margin's are those of a held-out row against all the others, so both are without the row's own value.

    Parameters
    ----------
    pool : real values and their draws.
    levels : (columns,) whether a column has levels (categories, yes and no) and no distances.
    listed : (rows,) probability of the real value, where the sampler lists it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> known = rng.normal(size=(200, 1, 1))  # what the rest of the row tells
    >>> found = score_draws(known + 0.5 * rng.normal(size=(200, 100, 1)), np.array([False]))
    >>> found.explained > 0.4  # the noise is half as wide as what is known
    True
    """
    found = Scores()
    if listed is not None or levels.all():
        score, margin = _log_scores(pool, listed)
        found = replace(found, log_score=score, log_margin=margin)
    if not levels.all():
        score, margin = crps(pool[:, :, 0]) if pool.shape[2] == 1 else energy(pool, levels)
        found = replace(found, crps=score, crps_margin=margin)
    return found


def crps(pool: Floats) -> tuple[float, float]:
    """Mean CRPS of draws for their real value (rows, 1 + draws), and that of the margin, over its standard deviation.

    E|X - y| - E|X - X'| / 2 with pairs of different draws: as if there were any number of them. Rows without a real
    value are left out, and so are draws that are missing: how often they are is a matter of ranks.
    """
    real = pool[~np.isnan(pool[:, 0]), 0]
    draws = pool[~np.isnan(pool[:, 0]), 1:]
    kept = (~np.isnan(draws)).sum(axis=1) >= 2
    sd = float(real.std()) if len(real) > 1 else 0.0
    if sd == 0 or not kept.any():
        return NONE, NONE
    draws, values = draws[kept], real[kept]
    near = np.nanmean(np.abs(draws - values[:, None]), axis=1)
    return float((near - _half_apart(draws)).mean()) / sd, float(_half_apart(real[None])[0]) / sd


def _half_apart(values: Floats) -> Floats:
    """Half the mean distance of two different values of each row, (rows,); NaN is left out.

    >>> _half_apart(np.array([[0.0, 2.0, np.nan], [0.0, 1.0, 2.0]])).round(3).tolist()
    [1.0, 0.667]
    """
    ordered = np.sort(values, axis=1)  # NaN comes last
    count = (~np.isnan(values)).sum(axis=1, keepdims=True)
    weight = 2 * np.arange(values.shape[1]) + 1 - count
    return np.asarray(np.nansum(weight * ordered, axis=1) / (count * (count - 1))[:, 0])


def energy(pool: Floats, levels: Bools) -> tuple[float, float]:
    """Energy score of draws of several columns, and that of the margin, on columns of standard deviation 1."""
    held = [column[~np.isnan(column)] for column in pool[:, 0].T]
    sd = np.array([column.std() if len(column) else 0.0 for column in held])
    scaled = pool / np.where(levels | (sd == 0), 1.0, sd)
    real, draws = scaled[:, 0], scaled[:, 1:]
    near = _distance(draws, real[:, None], levels).mean()
    shifts = range(1, min(SHIFTS, draws.shape[1] - 1) + 1)
    apart = np.mean([_distance(draws, np.roll(draws, k, axis=1), levels).mean() for k in shifts])
    rows = np.mean([_distance(real, np.roll(real, k, axis=0), levels).mean() for k in range(1, len(real) // 2 + 1)])
    return float(near - apart / 2), float(rows / 2)


def _distance(a: Floats, b: Floats, levels: Bools) -> Floats:
    """Of rows (..., columns): levels that differ, and a missing value from one that is not, are 1 apart."""
    apart = np.where(levels, a != b, np.abs(a - b))
    missing = np.isnan(a).astype(np.int64) + np.isnan(b)
    return np.asarray(np.sqrt((np.where(missing > 0, missing == 1, apart) ** 2).sum(axis=-1)))


def _log_scores(pool: Floats, listed: Floats | None) -> tuple[float, float]:
    """Mean -log of the probability of the real levels, from draws or a list, and from the other rows' levels.

    One more draw is spread evenly over the levels that were seen: what was never drawn is not impossible.
    """
    codes = _codes(pool)  # (rows, 1 + draws)
    rows, draws, seen = len(codes), codes.shape[1] - 1, int(codes.max()) + 1
    own = (codes[:, 1:] == codes[:, :1]).sum(axis=1) if listed is None else draws * listed
    others = np.bincount(codes[:, 0])[codes[:, 0]] - 1
    score, margin = -np.log((own + 1 / seen) / (draws + 1)), -np.log((others + 1 / seen) / rows)
    return float(score.mean()), float(margin.mean())


def _codes(pool: Floats) -> Ints:
    """Each row of values (..., columns) as one number; missing is a level, too."""
    found = np.zeros(pool.shape[:2], dtype=np.int64)
    for k in range(pool.shape[2]):
        _, code = np.unique(pool[:, :, k], return_inverse=True)  # all NaN are one
        code = code.reshape(found.shape)
        _, joint = np.unique(found * (code.max() + 1) + code, return_inverse=True)
        found = joint.reshape(found.shape)
    return found


NAMED = 6  # subsets that the sentence names for each verdict
MEANING: dict[Verdict, str] = {
    "too narrow": "its draws scatter less than real values, so ordinary ones look surprising: expect false discoveries",
    "too wide": "its draws scatter more than real values, so signals are missed",
    "shifted": "its draws lie to one side of real values",
    "off-manifold": "its draws do not go with the rest of the row, or fall where real values never are: use a sampler "
    "that follows how columns hang together, or one for the shape of this column",
    "wrong skew": "its draws lean to another side than real values: expect false discoveries; use a sampler that takes "
    "the shape of columns from the reference (residual, copula, forest)",
    "tails too light": "real values lie far out more often than its draws: expect false discoveries; use a sampler "
    "that takes the shape of columns from the reference (residual, copula, forest)",
    "tails too heavy": "its draws lie far out more often than real values, so signals are missed",
}
SCORED = (
    "crps and log_score say how close draws come to real values (smaller is better); ..._margin is what one gets "
    "without the rest of the row, explained the share of it that the rest of the row takes away."
)
PASSED = "Passing means that nothing was found in this many rows, not that the sampler is exact."


@dataclass(frozen=True, eq=False)
class SamplerCheck:
    """What `check_sampler` found: one verdict per subset, one of all together, scores; `ok` if there is nothing."""

    subset_names: tuple[str, ...]
    ranked: tuple[RankCheck, ...]
    shape_p: Floats  # (subsets,)
    auc: Floats  # (subsets,)
    auc_p: Floats  # (subsets,)
    model_p: Floats | None  # (subsets,)
    scores: tuple[Scores, ...]
    verdicts: tuple[Verdict, ...]
    together: Verdict  # the shape of all columns together: a fault too small to be seen in one of them
    together_p: float
    alpha: float
    rows: int
    draws: int
    left_out: tuple[str, ...] = ()  # columns that were not checked, for lack of time
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<butfor.SamplerCheck: {self.headline}>"

    @property
    def ok(self) -> bool:
        """True if nothing is called wrong; a right sampler is called wrong in at most a share alpha of checks."""
        return self.together == "ok" and all(verdict == "ok" for verdict in self.verdicts)

    @property
    def headline(self) -> str:
        wrong = sum(verdict != "ok" for verdict in self.verdicts)
        found = f"{wrong} of {len(self.verdicts)} subsets look wrong" if wrong else "nothing against this sampler"
        if self.together != "ok":
            found = f"{found if wrong else 'no subset by itself looks wrong'}, all together: {self.together}"
        return f"{found} ({self.rows} held-out rows, {self.draws} draws each, alpha={self.alpha:g})"

    @property
    def sentence(self) -> str:
        """The check in one sentence without a full stop, for a caveat: what is wrong with which subsets."""
        if self.ok:
            return f"the check finds nothing against it ({len(self.verdicts)} subsets, {self.rows} held-out rows)"
        found = [f"{_listed_names(names)} {verdict}" for verdict, names in self._wrong.items()]
        if self.together != "ok":
            found.append(f"all columns together {self.together}")
        return f"the check rejects it on {self.rows} held-out rows: {'; '.join(found)}"

    @cached_property
    def _wrong(self) -> dict[Verdict, list[str]]:
        pairs = list(zip(self.subset_names, self.verdicts, strict=True))
        return {verdict: [n for n, v in pairs if v == verdict] for verdict in MEANING if verdict in self.verdicts}

    @cached_property
    def table(self) -> pd.DataFrame:
        """A DataFrame with one row per subset.

        p: uniform ranks; shape_p: skew and tails; auc: can trees tell real rows from counterfactuals; crps and
        log_score beside those of the column's own margin; explained: what the rest of the row tells.
        """
        import pandas as pd

        columns: dict[str, Any] = {
            "subset": list(self.subset_names),
            "p": [check.p for check in self.ranked],
            "shape_p": self.shape_p,
            "coverage_50": [check.coverage_50 for check in self.ranked],
            "coverage_90": [check.coverage_90 for check in self.ranked],
            "auc": self.auc,
            "auc_p": self.auc_p,
            **self._scored,
        }
        if self.model_p is not None:
            columns["model_p"] = self.model_p
        return pd.DataFrame({**columns, "verdict": list(self.verdicts)})

    @property
    def _scored(self) -> dict[str, list[float]]:
        """The scores that some subset has."""
        found = {
            "crps": [score.crps for score in self.scores],
            "crps_margin": [score.crps_margin for score in self.scores],
            "log_score": [score.log_score for score in self.scores],
            "log_margin": [score.log_margin for score in self.scores],
            "explained": [score.explained for score in self.scores],
        }
        return {name: values for name, values in found.items() if not np.isnan(values).all()}

    @cached_property
    def histogram(self) -> Floats:
        """Share of held-out values in each tenth of their draws, (subsets, 10): all about 0.1 if Q is right."""
        return np.array([np.histogram(check.ranks, 10, (0, 1))[0] / self.rows for check in self.ranked])

    def summary(self) -> str:
        """The check in words: the table, what each verdict means, notes."""
        shown = self.table.to_string(index=False, float_format=lambda value: f"{value:.3g}")
        return "\n".join([f"Sampler check: {self.headline}", "", shown, "", *self._sentences()])

    def _repr_html_(self) -> str:
        words = "".join(f"<p>{escape(sentence)}</p>" for sentence in self._sentences())
        shown = self.table.to_html(index=False, float_format=lambda value: f"{value:.3g}", border=0)
        return f"<p>Sampler check: {escape(self.headline)}</p>{shown}{words}"

    def _sentences(self) -> list[str]:
        found = [f"{verdict}: {', '.join(names)} - {MEANING[verdict]}." for verdict, names in self._wrong.items()]
        if self.together != "ok":
            found.append(
                f"{self.together}, in all columns together (p = {self.together_p:.2g}) - {MEANING[self.together]}."
            )
        return [*(found or [PASSED]), *([SCORED] if self._scored else []), *self.notes]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Where held-out values stand among their draws, one line per subset.

        Parameters
        ----------
        ax : the axes to draw on, which come back; None makes some.
        """
        from butfor.plots.evidence import rank_histograms

        return rank_histograms(self, ax)


def _listed_names(names: Sequence[str]) -> str:
    """Some names, and how many more.

    >>> _listed_names(["a", "b"]), _listed_names(list("abcdefgh"))
    ('a, b', 'a, b, c, d, e, f and 2 more')
    """
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


PARTS, TREES = 5, 50
TRAIN_DRAWS = 3  # counterfactuals a row to learn from
SCORE_DRAWS = 32  # counterfactuals a row to be ranked among
COMPANIONS = 20  # columns of the rest of the row: the trees would drown in a wide table


def score_ranks(rows: Floats, columns: Ints, pool: Floats, rng: np.random.Generator) -> Floats:
    """Ranks in (0, 1) of the trees' scores of held-out rows among those of their counterfactuals; large: told apart.

    `pool` is (n, 1 + draws, columns), version 0 held out. The rows are dealt into five parts, and each part is judged
    by trees that have seen the parts before it: a row and its draws are never learned from before they are judged, so
    under a right sampler the ranks are exactly uniform and independent. (Usual cross-validation makes them dependent.)
    """
    parts = np.array_split(rng.permutation(len(rows)), PARTS)
    found = []
    for k in range(1, PARTS):
        seen, judged = np.concatenate(parts[:k]), parts[k]
        beside = _companions(rows[seen], columns)
        trees = _trees(int(rng.integers(2**31)))
        drawn = pool[seen, : 1 + TRAIN_DRAWS]
        label = np.arange(len(seen) * drawn.shape[1]) % drawn.shape[1] == 0
        trees.fit(_described(rows[seen][:, beside], drawn, pool[seen]), label)
        drawn = pool[judged, : 1 + SCORE_DRAWS]
        scores = trees.predict_proba(_described(rows[judged][:, beside], drawn, pool[judged]))[:, 1]
        found.append(ranks(scores.reshape(drawn.shape[:2]), rng))
    return np.concatenate(found)


def _trees(seed: int) -> Any:
    from sklearn.ensemble import ExtraTreesClassifier

    return ExtraTreesClassifier(TREES, min_samples_leaf=5, class_weight="balanced", random_state=seed)


def _companions(rows: Floats, columns: Ints) -> Ints:
    """The columns of the rest of the row that go most with the subset."""
    rest = np.setdiff1d(np.arange(rows.shape[1]), columns)
    if len(rest) <= COMPANIONS:
        return rest
    centred = rows - rows.mean(axis=0)
    norm = np.sqrt((centred**2).sum(axis=0))
    scaled = centred / np.where(norm > 0, norm, 1.0)
    together = np.abs(scaled[:, rest].T @ scaled[:, columns]).max(axis=1)
    return np.sort(rest[np.argsort(-together, kind="stable")[:COMPANIONS]])


def _described(beside: Floats, drawn: Floats, pool: Floats) -> Floats:
    """What the trees see of each version: its values, their place among all versions (z), and the rest of the row.

    Place and scale come from the whole pool, which is symmetric in the held-out value and its draws.
    """
    middle, spread = pool.mean(axis=1, keepdims=True), pool.std(axis=1, keepdims=True)
    z = (drawn - middle) / np.where(spread > 0, spread, 1.0)
    rest = np.broadcast_to(beside[:, None, :], (*drawn.shape[:2], beside.shape[1]))
    return np.concatenate([drawn, z, rest], axis=2).reshape(drawn.shape[0] * drawn.shape[1], -1)


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
        for _, outputs in evaluator.outputs(problem, jobs):
            yield seen.rounding.merge_ties(pick(outputs, target, np.arange(len(outputs)))[0])

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
