"""Check a sampler: held-out rows against their own counterfactuals, with a verdict for each subset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.evaluation.calls import probe
from butfor.evaluation.evaluator import Evaluator
from butfor.evaluation.hypotheses import Hypotheses, Job, draw, table_hypotheses
from butfor.evaluation.samplers import ListsSupport, info_of
from butfor.inference.selection import bh
from butfor.inference.statistics import Target, pick
from butfor.models import Wrapped
from butfor.results.words import Note
from butfor.streams import stream
from butfor.tabular.calibration import (
    RankCheck,
    ShapeCheck,
    Verdict,
    check_ranks,
    check_shape,
    conditional_fault,
    filled,
    pooled_shape,
    ranks,
    told_apart,
)
from butfor.tabular.splice import bind_model, bind_sampler
from butfor.tabular.subsets import column_subsets
from butfor.tabular.table import items_of
from butfor.types import Bools, Floats, InputError, Ints, Subset, between, whole

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


NONE = float("nan")


@dataclass(frozen=True)
class Scores:
    """Proper scores of one subset, smaller is better, beside those of its margin; NaN where there are none."""

    crps: float = NONE  # of the draws over the column's standard deviation; of several columns the energy score
    crps_margin: float = NONE  # the same of a draw that knows nothing of the rest of the row
    log_score: float = NONE  # mean -log Q(observed) of what has no distances: categories, yes and no, listed values
    log_margin: float = NONE

    @property
    def explained(self) -> float:
        """The share of the margin's score that the rest of the row explains: 0 is nothing, 1 is all."""
        pairs = ((self.log_score, self.log_margin), (self.crps, self.crps_margin))
        return next((1 - score / margin for score, margin in pairs if margin > 0), NONE)  # NaN is not above 0


def score_draws(pool: Floats, levels: Bools, listed: Floats | None = None) -> Scores:
    """Score the draws of one subset from its pool (rows, 1 + draws, columns), version 0 being real; NaN is missing.

    `levels` (columns,) have no distances (categories, yes and no); `listed` (rows,) is the probability of the real
    value, where it is known. The margin's scores are those of a held-out row against all the others, so both are
    without the row's own value.

    >>> rng = np.random.default_rng(0)
    >>> known = rng.normal(size=(200, 1, 1))  # what the rest of the row explains
    >>> scores = score_draws(known + 0.5 * rng.normal(size=(200, 100, 1)), np.array([False]))
    >>> scores.explained > 0.4  # the noise is half as wide as what is known
    True
    """
    distance = (NONE, NONE)
    if not levels.all():
        distance = crps(pool[:, :, 0]) if pool.shape[2] == 1 else energy(pool, levels)
    if listed is None and not levels.all():
        return Scores(*distance)
    codes: Ints = np.zeros(pool.shape[:2], dtype=np.int64)  # each row of values as one number; missing is a level, too
    for k in range(pool.shape[2]):
        _, code = np.unique(pool[:, :, k], return_inverse=True)  # all NaN are one
        _, joint = np.unique(codes * (code.max() + 1) + code.reshape(codes.shape), return_inverse=True)
        codes = joint.reshape(codes.shape)
    rows, draws, seen = len(codes), codes.shape[1] - 1, int(codes.max()) + 1
    same = (codes[:, 1:] == codes[:, :1]).sum(axis=1) if listed is None else draws * listed
    others = np.bincount(codes[:, 0])[codes[:, 0]] - 1
    # one more draw is spread evenly over the levels that were seen: what was never drawn is not impossible
    score, margin = -np.log((same + 1 / seen) / (draws + 1)), -np.log((others + 1 / seen) / rows)
    return Scores(*distance, float(score.mean()), float(margin.mean()))


def crps(pool: Floats) -> tuple[float, float]:
    """Return the mean CRPS of draws for their real value (rows, 1 + draws), and the margin's, over its sd.

    E|X - y| - E|X - X'| / 2 over pairs of different draws: as if there were any number of them. Rows without a real
    value are left out, and so are draws that are missing: how often they are is a matter of ranks.
    """
    real = pool[~np.isnan(pool[:, 0]), 0]
    draws = pool[~np.isnan(pool[:, 0]), 1:]
    kept = (~np.isnan(draws)).sum(axis=1) >= 2
    sd = float(real.std()) if len(real) > 1 else 0.0
    if sd == 0 or not kept.any():
        return NONE, NONE
    near = np.nanmean(np.abs(draws[kept] - real[kept, None]), axis=1)
    return float((near - _half_apart(draws[kept])).mean()) / sd, float(_half_apart(real[None])[0]) / sd


def _half_apart(values: Floats) -> Floats:
    """Return half the mean distance of two different values of each row, (rows,); NaN is left out.

    >>> _half_apart(np.array([[0.0, 2.0, np.nan], [0.0, 1.0, 2.0]])).round(3).tolist()
    [1.0, 0.667]
    """
    ordered = np.sort(values, axis=1)  # NaN comes last
    count = (~np.isnan(values)).sum(axis=1, keepdims=True)
    weight = 2 * np.arange(values.shape[1]) + 1 - count
    return np.asarray(np.nansum(weight * ordered, axis=1) / (count * (count - 1))[:, 0])


def energy(pool: Floats, levels: Bools) -> tuple[float, float]:
    """Return the energy score of draws of several columns, and the margin's, on columns of standard deviation 1."""

    def distance(a: Floats, b: Floats) -> float:
        """Different levels, and a missing value and one that is not, are 1 apart."""
        missing = np.isnan(a).astype(np.int64) + np.isnan(b)
        apart = np.where(missing > 0, missing == 1, np.where(levels, a != b, np.abs(a - b)))
        return float(np.sqrt((apart**2).sum(axis=-1)).mean())

    sd = np.array([np.nanstd(column) if (~np.isnan(column)).any() else 0.0 for column in pool[:, 0].T])
    scaled = pool / np.where(levels | (sd == 0), 1.0, sd)
    real, draws = scaled[:, 0], scaled[:, 1:]
    shifts = range(1, min(8, draws.shape[1] - 1) + 1)  # pairs of draws (k, k + 1) ... (k, k + 8) stand for all
    apart = np.mean([distance(draws, np.roll(draws, k, axis=1)) for k in shifts])
    rows = np.mean([distance(real, np.roll(real, k, axis=0)) for k in range(1, len(real) // 2 + 1)])
    return float(distance(draws, real[:, None]) - apart / 2), float(rows / 2)


MEANING: dict[Verdict, str] = {
    "too narrow": "its draws scatter less than real values, so ordinary ones look surprising: expect false discoveries",
    "too wide": "its draws scatter more than real values, so signals are missed",
    "shifted": "its draws lie to one side of real values",
    "off-manifold": "its draws do not go with the rest of the row, or fall where real values never are: use a sampler "
    "that follows how columns depend on each other, or one for the shape of this column",
    "wrong skew": "its draws lean to another side than real values: expect false discoveries; use a sampler that takes "
    "the shape of columns from the reference (residual, copula, forest)",
    "tails too light": "real values lie far out more often than its draws: expect false discoveries; use a sampler "
    "that takes the shape of columns from the reference (residual, copula, forest)",
    "tails too heavy": "its draws lie far out more often than real values, so signals are missed",
}
SCORED = (
    "crps and log_score say how close draws come to real values (smaller is better); ..._margin is the score without "
    "the rest of the row, explained the share of it that the rest of the row explains."
)
PASSED = "Passing means that nothing was found in this many rows, not that the sampler is exact."


@dataclass(frozen=True, eq=False)
class SubsetCheck:
    ranked: RankCheck
    shapes: tuple[ShapeCheck, ...]  # of its columns that have a shape
    auc: float
    auc_p: float
    model_p: float | None
    scores: Scores
    conditional_p: float = 1.0  # of ranks being independent of the other columns
    told_by: str | None = None  # the column that tells the ranks best

    @property
    def shape_p(self) -> float:
        """Bonferroni's over the columns."""
        return min([1.0, *(len(self.shapes) * shape.p for shape in self.shapes)])


@dataclass(frozen=True, eq=False)
class SamplerCheck:
    """The check of a sampler: a verdict for each subset, one for all together, scores; `ok` if nothing is wrong."""

    subset_names: tuple[str, ...]
    checks: tuple[SubsetCheck, ...]
    verdicts: tuple[Verdict, ...]
    together: Verdict  # the shape of all columns together: a fault too small to be seen in one of them
    together_p: float
    alpha: float
    rows: int
    draws: int
    left_out: tuple[str, ...] = ()  # columns that were not checked: there are too many
    notes: tuple[Note, ...] = ()

    def __repr__(self) -> str:
        return f"<butfor.SamplerCheck: {self.headline}>"

    @property
    def ok(self) -> bool:
        """True if nothing is called wrong; a right sampler is called wrong in at most a share alpha of checks."""
        return self.together == "ok" and all(verdict == "ok" for verdict in self.verdicts)

    @property
    def headline(self) -> str:
        wrong = sum(verdict != "ok" for verdict in self.verdicts)
        words = f"{wrong} of {len(self.verdicts)} subsets look wrong" if wrong else "nothing against this sampler"
        if self.together != "ok":
            words = f"{words if wrong else 'no subset by itself looks wrong'}, all together: {self.together}"
        return f"{words} ({self.rows} held-out rows, {self.draws} draws each, alpha={self.alpha:g})"

    @property
    def sentence(self) -> str:
        """The check in one sentence without a full stop, for a caveat: what is wrong with which subsets."""
        if self.ok:
            return f"the check finds nothing against it ({len(self.verdicts)} subsets, {self.rows} held-out rows)"
        words = []
        for verdict, names in self._wrong.items():
            more = f" and {len(names) - 6} more" if len(names) > 6 else ""
            words.append(f"{', '.join(names[:6])}{more} {verdict}")
        if self.together != "ok":
            words.append(f"all columns together {self.together}")
        return f"the check rejects it on {self.rows} held-out rows: {'; '.join(words)}"

    @cached_property
    def _wrong(self) -> dict[Verdict, list[str]]:
        pairs = list(zip(self.subset_names, self.verdicts, strict=True))
        return {verdict: [n for n, v in pairs if v == verdict] for verdict in MEANING if verdict in self.verdicts}

    @property
    def scores(self) -> tuple[Scores, ...]:
        return tuple(check.scores for check in self.checks)

    @property
    def auc(self) -> Floats:
        """How well trees tell real rows from counterfactuals, (subsets,)."""
        return np.array([check.auc for check in self.checks])

    @property
    def model_p(self) -> Floats | None:
        """p-values of the model's outputs (subsets,); None without a model."""
        p_values = np.array([check.model_p for check in self.checks], dtype=np.float64)
        return None if np.isnan(p_values).any() else p_values

    @cached_property
    def table(self) -> pd.DataFrame:
        """A DataFrame with one row per subset.

        p: uniform ranks; shape_p: skew and tails; auc: can trees tell real rows from counterfactuals; conditional_p:
        ranks independent of the other columns, of which told_by tells them best; crps and log_score beside those of the
        column's own margin; explained: the share that the rest of the row explains.
        """
        import pandas as pd

        names = ("crps", "crps_margin", "log_score", "log_margin", "explained")
        scores = {name: [getattr(score, name) for score in self.scores] for name in names}
        columns: dict[str, Any] = {
            "subset": list(self.subset_names),
            "p": [check.ranked.p for check in self.checks],
            "shape_p": [check.shape_p for check in self.checks],
            "coverage_50": [check.ranked.coverage_50 for check in self.checks],
            "coverage_90": [check.ranked.coverage_90 for check in self.checks],
            "auc": self.auc,
            "auc_p": [check.auc_p for check in self.checks],
            "conditional_p": [check.conditional_p for check in self.checks],
            "told_by": [check.told_by or "" for check in self.checks],
            **{name: values for name, values in scores.items() if not np.isnan(values).all()},
        }
        if self.model_p is not None:
            columns["model_p"] = self.model_p
        return pd.DataFrame({**columns, "verdict": list(self.verdicts)})

    @cached_property
    def histogram(self) -> Floats:
        """Share of held-out values in each tenth of their draws, (subsets, 10): all about 0.1 if Q is right."""
        return np.array([np.histogram(check.ranked.ranks, 10, (0, 1))[0] / self.rows for check in self.checks])

    def summary(self) -> str:
        """The check in words: the table, the meaning of each verdict, notes."""
        shown = self.table.to_string(index=False, float_format=lambda value: f"{value:.3g}")
        return "\n".join([f"Sampler check: {self.headline}", "", shown, "", *self._sentences()])

    def _repr_html_(self) -> str:
        words = "".join(f"<p>{escape(sentence)}</p>" for sentence in self._sentences())
        shown = self.table.to_html(index=False, float_format=lambda value: f"{value:.3g}", border=0)
        return f"<p>Sampler check: {escape(self.headline)}</p>{shown}{words}"

    def _sentences(self) -> list[str]:
        words = [f"{verdict}: {', '.join(names)} - {MEANING[verdict]}." for verdict, names in self._wrong.items()]
        words += [
            f"The draws of {name} do not follow how it depends on {check.told_by} (p = {check.conditional_p:.2g})."
            for name, check, verdict in zip(self.subset_names, self.checks, self.verdicts, strict=True)
            if verdict != "ok" and check.conditional_p * len(self.checks) <= self.alpha
        ]
        if self.together != "ok":
            p, meaning = self.together_p, MEANING[self.together]
            words.append(f"{self.together}, in all columns together (p = {p:.2g}) - {meaning}.")
        scored = {"crps", "log_score"} & set(self.table.columns)
        return [*(words or [PASSED]), *([SCORED] if scored else []), *map(str, self.notes)]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw where held-out values stand among their draws, one line per subset.

        Parameters
        ----------
        ax : the axes to draw on, which come back; None makes some.
        """
        from butfor.plots.evidence import rank_histograms

        return rank_histograms(self, ax)


PARTS, TREES = 5, 50
TRAIN_DRAWS = 3  # counterfactuals a row to learn from
SCORE_DRAWS = 32  # counterfactuals a row to be ranked among
COMPANIONS = 20  # columns of the rest of the row


def score_ranks(rows: Floats, columns: Ints, pool: Floats, rng: np.random.Generator) -> Floats:
    """Return ranks in (0, 1) of the trees' scores of held-out rows among those of their counterfactuals.

    `pool` is (n, 1 + draws, columns), version 0 held out. The rows are dealt into five parts, and each part is judged
    by trees that have seen the parts before it: a row and its draws are never learned from before they are judged, so
    under a right sampler the ranks are exactly uniform and independent. (Usual cross-validation makes them dependent.)
    """
    from sklearn.ensemble import ExtraTreesClassifier

    parts = np.array_split(rng.permutation(len(rows)), PARTS)
    p_values = []
    for k in range(1, PARTS):
        seen, judged = np.concatenate(parts[:k]), parts[k]
        beside = _companions(rows[seen], columns)  # the trees would drown in a wide table
        seed = int(rng.integers(2**31))
        trees = ExtraTreesClassifier(TREES, min_samples_leaf=5, class_weight="balanced", random_state=seed)
        drawn = pool[seen, : 1 + TRAIN_DRAWS]
        label = np.arange(len(seen) * drawn.shape[1]) % drawn.shape[1] == 0
        trees.fit(_described(rows[seen][:, beside], drawn, pool[seen]), label)
        drawn = pool[judged, : 1 + SCORE_DRAWS]
        scores = trees.predict_proba(_described(rows[judged][:, beside], drawn, pool[judged]))[:, 1]
        p_values.append(ranks(scores.reshape(drawn.shape[:2]), rng))
    return np.concatenate(p_values)


def _companions(rows: Floats, columns: Ints) -> Ints:
    """Return the columns of the rest of the row that correlate most with the subset."""
    rest = np.setdiff1d(np.arange(rows.shape[1]), columns)
    if len(rest) <= COMPANIONS:
        return rest
    centred = rows - rows.mean(axis=0)
    norm = np.sqrt((centred**2).sum(axis=0))
    scaled = centred / np.where(norm > 0, norm, 1.0)
    together = np.abs(scaled[:, rest].T @ scaled[:, columns]).max(axis=1)
    return np.sort(rest[np.argsort(-together, kind="stable")[:COMPANIONS]])


def _described(beside: Floats, drawn: Floats, pool: Floats) -> Floats:
    """Return the features of each version: its values, their z-scores among all versions, and the rest of the row."""
    middle, spread = pool.mean(axis=1, keepdims=True), pool.std(axis=1, keepdims=True)  # symmetric in all versions
    z = (drawn - middle) / np.where(spread > 0, spread, 1.0)
    rest = np.broadcast_to(beside[:, None, :], (*drawn.shape[:2], beside.shape[1]))
    return np.concatenate([drawn, z, rest], axis=2).reshape(drawn.shape[0] * drawn.shape[1], -1)


LEAST_ROWS = 50
MOST_ROWS = 1000  # a fitted sampler is never exactly right: more rows would flag what does no harm
MOST_COLUMNS = 60  # that are checked where none are named: some 30 s
BATCH_ROWS = 10_000
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
    done: Callable[[int, int], None] | None = None,  # called with the rows that were drawn, and with those in all
) -> SamplerCheck:
    """Check a sampler of tables; `butfor.check_sampler` documents it."""
    whole("draws", draws, 19)
    between("alpha", alpha, "0.03 is a good choice")
    whole("seed", seed, 0)
    wrapped = None if model is None else bind_model(model, X_held_out, "held-out data")
    table, fitted = bind_sampler(X_held_out, sampler, "held-out data")
    count = len(table.values)
    if count < LEAST_ROWS:
        raise InputError(f"check_sampler needs at least {LEAST_ROWS} held-out rows, got {count}; hold out more")
    kept = np.sort(stream(seed, "check", "rows").permutation(count)[:MOST_ROWS])
    groups = every = column_subsets(table, subsets)
    if subsets is None and len(every) > MOST_COLUMNS:
        order = stream(seed, "check", "columns").permutation(len(every))
        groups = [every[place] for place in np.sort(order[:MOST_COLUMNS])]
    items = replace(items_of(table), values=table.values[kept])
    hypotheses = table_hypotheses(items, [table.index[i] for i in kept], groups, fitted, seed)
    output = None if wrapped is None else _output(wrapped, hypotheses)
    named = [column.kind in ("category", "flag") for column in table.kinds]
    few = [len(np.unique(column[~np.isnan(column)])) <= 2 for column in table.values.astype(np.float64).T]
    levels = np.logical_or(named, few)  # (d,) columns without distances: categories, yes and no
    checks = []
    for group in groups:
        checks.append(_check_subset(hypotheses, group, draws, levels, output, table.columns))
        if done is not None:
            rows = len(kept) * draws
            done(len(checks) * rows, len(groups) * rows)
    names = {group.name for group in groups}
    left_out = tuple(group.name for group in every if group.name not in names)
    notes = []
    if len(kept) < count:
        notes.append(Note("check-rows", "info", {"used": len(kept), "rows": count}))
    if left_out:
        notes.append(Note("check-columns", "info", {"checked": len(groups), "left_out": list(left_out)}))
    shapes = [shape for check in checks for shape in check.shapes]
    share = COLUMNS_SHARE if len(shapes) > 1 else 1.0
    verdict, together_p = pooled_shape(shapes)
    return SamplerCheck(
        subset_names=tuple(group.name for group in groups),
        checks=tuple(checks),
        verdicts=tuple(_verdicts(checks, share * alpha)),
        together=verdict if together_p <= (1 - share) * alpha else "ok",
        together_p=together_p,
        alpha=alpha,
        rows=len(kept),
        draws=draws,
        left_out=left_out,
        notes=tuple(notes),
    )


def _output(model: Wrapped, hypotheses: Hypotheses) -> Callable[[Sequence[Job]], Floats]:
    """Return a function of jobs: the model's output, or that of the class it predicts, of every version they draw."""
    seen = probe(model.call, hypotheses.items, BATCH_ROWS, lambda row: f"held-out row {row}")
    width = seen.outputs.shape[1]
    evaluator, target = Evaluator(model.call, BATCH_ROWS, width), Target("output" if width == 1 else "predicted")

    def values(jobs: Sequence[Job]) -> Floats:
        parts = (outputs for _, outputs in evaluator.outputs(hypotheses, jobs))
        return np.concatenate([seen.rounding.merge_ties(pick(x, target, np.arange(len(x)))[0]) for x in parts])

    return values


def _check_subset(
    hypotheses: Hypotheses,
    subset: Subset,
    draws: int,
    table_levels: Bools,
    output: Callable[[Sequence[Job]], Floats] | None,
    names: Sequence[str],
) -> SubsetCheck:
    """Check ranks and shape of held-out values, trees that tell them from draws, the model's output; score draws."""
    jobs = [Job(block, draws, "check") for block in hypotheses.blocks if block.subset is subset]
    columns, levels = np.asarray(subset.index), table_levels[subset.index]
    given = np.concatenate([draw(hypotheses, job).values for job in jobs]).astype(np.float64)
    given = given.reshape(len(hypotheses.items), draws + 1, -1)
    pool, rng = filled(given), stream(hypotheses.seed, "check", subset.key)
    info = info_of(hypotheses.sampler)
    share = 0.0 if info.reference_rows is None else len(given) / info.reference_rows
    ranked = check_ranks(pool, rng, share)
    inputs = hypotheses.items.block(0, len(hypotheses.items))
    auc, auc_p = told_apart(score_ranks(filled(inputs), columns, pool, rng), share)
    model_p = None if output is None else check_ranks(output(jobs)[:, :, None], rng, share).p
    donors = info.floor(subset) > 0  # it hands out values of reference rows: its shape is known from so many only
    shapes = [check_shape(given[:, :, k], share if donors else 0.0) for k in np.flatnonzero(~levels)]
    scores = score_draws(given, levels, _listed(hypotheses, subset, given[:, 0]))
    conditional_p, told_by = 1.0, None
    rest = np.setdiff1d(np.arange(inputs.shape[1]), columns)
    if rest.size:
        rng = stream(hypotheses.seed, "check", "conditional", subset.key)
        among = np.stack([ranks(pool[:, :, k], rng) for k in range(len(columns))], axis=1)
        conditional_p, at = conditional_fault(filled(inputs.astype(np.float64))[:, rest], among, rng, share)
        told_by = names[rest[at]]
    varied = tuple(shape for shape in shapes if shape is not None)
    return SubsetCheck(ranked, varied, auc, auc_p, model_p, scores, conditional_p, told_by)


def _listed(hypotheses: Hypotheses, subset: Subset, observed: Floats) -> Floats | None:
    """Return the probability of the observed values (rows,), where the sampler lists its support and values repeat."""
    sampler = hypotheses.sampler
    few = len(np.unique(observed, axis=0)) <= min(MOST_LEVELS, len(observed) // 2)
    if not few or not isinstance(sampler, ListsSupport) or not sampler.lists(subset):
        return None
    inputs = hypotheses.items.block(0, len(hypotheses.items))
    values, mass = hypotheses.items.support(sampler, inputs, subset, f"support of subset {subset.name!r}")
    real = observed[:, None, :]
    same = (values == real) | (np.isnan(values.astype(np.float64)) & np.isnan(real))
    return np.asarray((mass * same.all(axis=2)).sum(axis=1))


def _verdicts(checks: Sequence[SubsetCheck], alpha: float) -> list[Verdict]:
    """Return a verdict for each subset.

    Bonferroni within a subset and Benjamini-Hochberg over subsets: a right Q is called wrong anywhere in at most a
    share alpha of checks. A wrong one is called after its ranks where they are the clearest sign, else off-manifold;
    after its shape where that alone is wrong.
    """
    each = [(check.ranked.p, check.auc_p, check.conditional_p, check.model_p) for check in checks]
    tests = np.array([[p for p in ps if p is not None] for ps in each]).T
    count = len(tests) + 1
    without = np.minimum(1.0, count * tests.min(axis=0))
    wrong = bh(np.minimum(without, count * np.array([check.shape_p for check in checks])), alpha)
    verdicts: list[Verdict] = []
    for check, is_wrong, p, clearest in zip(checks, wrong, without, tests.argmin(axis=0), strict=True):
        if not is_wrong:
            verdicts.append("ok")
        elif p > alpha:
            verdicts.append(min(check.shapes, key=lambda shape: shape.p).pattern if check.shapes else "ok")
        else:
            verdicts.append(check.ranked.pattern if clearest == 0 else "off-manifold")
    return verdicts
