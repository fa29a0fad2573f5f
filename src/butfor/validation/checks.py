"""Checks of a model, its table and its reference, one function a section; each gives requirements with their figures.

Every check says what was done in numbers that a reader can follow, compares one figure with one limit, and leaves the
verdict to `Requirement.status`. Splits, planted effects and simulated references are drawn from streams of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations
from typing import Any, Literal
from warnings import catch_warnings

import numpy as np

from butfor.evaluation.calls import ask
from butfor.explain import explain
from butfor.inference.decisions import Decision
from butfor.inference.statistics import Target, averaged_target
from butfor.models import Wrapped
from butfor.results.result import Result
from butfor.run.control import SEEN_Z, seen_by_model
from butfor.run.run import resolve
from butfor.streams import stream
from butfor.tabular.calibration import filled
from butfor.tabular.check import LEAST_ROWS as LEAST_CHECKED
from butfor.tabular.check import check_table
from butfor.tabular.explain import hold_out, rank_faults, redrawn_rows, reference_notes, subset_tree
from butfor.tabular.splice import TableSampler, from_values
from butfor.tabular.table import Table
from butfor.types import Array, Batch, Bools, Floats, InputError, Ints, ModelError, Subset
from butfor.validation import core

Status = Literal["passed", "failed", "not tested"]
Cell = str | float | int | None


@dataclass(frozen=True)
class Requirement:
    """One requirement, how it was tested, and what came out."""

    id: str  # such as "N-1"; it never changes with the wording
    section: str  # its name
    required: str
    tested: str  # how
    figure: float | None  # what came out; None: it could not be tested
    relation: Literal["<=", ">="]  # where the figure has to lie
    limit: float  # of the figure
    why: str = ""  # it was not tested, or what a failure means
    failed: bool = False  # it could not be tested because the model or an earlier requirement failed

    @property
    def status(self) -> Status:
        """Whether the figure keeps the limit."""
        return status_of(self.figure, self.relation, self.limit, failed=self.failed)


def status_of(figure: float | None, relation: str, limit: float, *, failed: bool = False) -> Status:
    """Return whether a figure keeps its limit.

    >>> status_of(0.5, "<=", 1.0), status_of(0.5, ">=", 1.0), status_of(None, "<=", 1.0)
    ('passed', 'failed', 'not tested')
    """
    if failed:
        return "failed"
    if figure is None:
        return "not tested"
    return "passed" if (figure <= limit if relation == "<=" else figure >= limit) else "failed"


@dataclass(frozen=True)
class Figures:
    """A table of a section: a caption, names of columns, rows."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


SHOWN = {"flip": "flips", "move": "moves", "stay": "enough"}  # intervals
STAGES: dict[
    str, tuple[str, dict[str, str]]
] = {  # title of each section, and its requirements by id where it did not run
    "core": ("Self-test of the statistics", {}),
    "model": ("The model is a function of a row", {"M-1": "The same rows get the same outputs."}),
    "data": ("The data beside the reference", {"D-1": "Columns of the data are those of the reference."}),
    "sampler": ("The sampler of counterfactuals", {"S-2": "Counterfactuals look like left-out rows."}),
    "memory": ("Memory of the reference", {"K-1": "The model was not fitted on the reference."}),
    "size": ("Size under the null, on this reference", {"N-1": "Nothing is chosen where nothing differs."}),
    "power": ("Power at planted effects, on this reference", {"P-1": "Planted effects are found."}),
    "coverage": (
        "Coverage of intervals",
        {f"V-{k}": f"Intervals of {what} hold the truth." for k, what in enumerate(SHOWN.values(), 1)},
    ),
    "stability": ("Stability over seeds", {"T-1": "Seeds agree."}),
}


@dataclass(frozen=True)
class Section:
    """One section of the pack: text, requirements, tables."""

    name: str
    text: tuple[str, ...]
    requirements: tuple[Requirement, ...]
    tables: tuple[Figures, ...] = ()


def untested(name: str, why: str, *, failed: bool = False) -> Section:
    """Return the section of a stage that did not run, or `failed`."""
    requirements = tuple(
        Requirement(id, name, required, "Not tested.", None, "<=", 0, why, failed=failed)
        for id, required in STAGES[name][1].items()
    )
    return Section(name, (why,), requirements)


@dataclass(frozen=True)
class Sizes:
    """How much is simulated."""

    splits: int  # random splits of the reference
    inputs: int  # rows that are explained, of a split and of the data
    planted: int  # columns that an effect is planted in
    worlds: int  # simulated references for the coverage of flips and moves; half as many for that of enough
    seeds: int  # runs on the data that are compared


SIZES = {
    "quick": Sizes(splits=12, inputs=30, planted=3, worlds=6, seeds=2),
    "standard": Sizes(splits=40, inputs=50, planted=6, worlds=12, seeds=3),
    "thorough": Sizes(splits=200, inputs=50, planted=20, worlds=40, seeds=5),
}
LEVEL = 0.01  # of failing one sound requirement by chance, where its limit is one of chance


@dataclass(frozen=True, eq=False)
class Case:
    """The model, the data and the reference that are validated, and how."""

    model: object
    wrapped: Wrapped
    table: Table  # the data
    sampler: TableSampler  # in the order of the data's columns
    target: Any
    decide: Callable[[Any], Any] | None
    alpha: float
    sizes: Sizes
    seed: int
    report: Callable[[str, int, int], None]
    evaluated: list[int] = field(default_factory=list)  # rows of the model, call by call

    @property
    def reference(self) -> Table:
        return self.sampler.reference

    @cached_property
    def rows(self) -> Floats:
        """The reference (m, d) in the order of the data's columns."""
        return self.sampler.in_data_order(self.reference.values).astype(np.float64)

    def shown(self, values: Array) -> Batch:
        return self.table.show(np.ascontiguousarray(values, self.table.values.dtype))

    def outputs(self, values: Array) -> Floats:
        self.evaluated.append(len(values))
        made = ask(self.wrapped.call, self.shown(values), len(values), "row {}".format)
        return made.astype(np.float64).reshape(len(values), -1)

    def refit(self, rows: Ints | None = None, values: Floats | None = None) -> TableSampler:
        """Return the sampler fitted to some rows of the reference, or to simulated values (m, d) of all of them."""
        assert self.sampler.refit is not None
        table = self.reference if rows is None else self.reference.take(rows)
        if values is not None:
            stored = values if self.sampler.order is None else self.sampler.in_reference_order(values)
            table = replace(table, values=stored.astype(table.values.dtype))
        return self.sampler.refit(table)

    def split(self, *key: str | int) -> tuple[Ints, Ints]:
        """Return rows of the reference to explain, and rows to fit on; rows of one cluster stay together."""
        held_out, kept = hold_out(len(self.rows), stream(self.seed, "validation", *key), self.reference.clusters)
        return held_out[: self.sizes.inputs], kept

    @cached_property
    def numeric(self) -> Ints:
        """Columns of numbers with at least ten values in the reference."""
        many = [len(np.unique(column[~np.isnan(column)])) >= 10 for column in self.rows.T]
        numbers = [column.kind == "number" for column in self.table.kinds]
        return np.flatnonzero(np.logical_and(many, numbers))


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if 0 < share < 1 else f"{100 * share:.0f} %"


def core_section(case: Case) -> Section:
    """Test the statistics of this installation on known answers."""
    known, counts = core.known_answers(), core.null_simulations(case.seed)
    wrong = sum(not one.ok for one in known)
    beyond = sum(not one.ok for one in counts)
    rng = stream(case.seed, "validation", "known run")
    rows = rng.normal([4.0, 0.0, 0.0], 1.0, size=(60, 3))

    def draw(inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Floats:
        return rng.normal(size=(len(inputs) * draws, len(subset.index)))

    with catch_warnings(action="ignore"):
        sums = explain(lambda batch: np.asarray(batch).sum(axis=1), rows, from_values(draw), alpha=0.1, seed=case.seed)
    right, name = sums.subset_of == 0, "core"
    requirements = (
        Requirement("C-1", name, "The statistics give answers that were worked out by hand.",
                    f"{len(known)} values of p-values, rules, intervals and random streams; wrong ones are counted.",
                    wrong, "<=", 0),
        Requirement("C-2", name, "Where there is nothing to find, rejections are as frequent as promised.",
                    f"{len(counts)} simulations of known nulls, continuous and tied; counts beyond binomial limits "
                    f"(chance {core.TAIL:g} on each side) are counted.",
                    beyond, "<=", 0),
        Requirement("C-3", name, "A run with a known sampler finds what was planted.",
                    "60 rows x 3 columns of normal numbers, one column moved by 4 standard deviations, known sampler; "
                    "share of rows in which that column is chosen.",
                    float(sums.chosen[right].mean()), ">=", 0.8),
        Requirement("C-4", name, "It finds little else.",
                    "The same run; share of the chosen that were not planted.",
                    float((sums.chosen & ~right).sum() / max(int(sums.chosen.sum()), 1)), "<=", 0.2),
    )  # fmt: skip
    tables = (
        Figures(
            "Answers worked out by hand",
            ("value", "expected", "computed", "right"),
            tuple((one.what, one.expected, one.computed, "yes" if one.ok else "no") for one in known),
        ),
        Figures(
            "Null simulations",
            ("counted", "count", "of", "at least", "at most"),
            tuple((one.what, one.count, one.of, one.least, one.most) for one in counts),
        ),
    )
    text = ("The statistics that all other sections rest on, tested in this installation before anything else.",)
    return Section(name, text, requirements, tables)


SAME, MODEL_ROWS, ONE_BY_ONE = 1e-4, 64, 16  # of the spread of outputs; rows; rows that are evaluated one by one


def model_section(case: Case) -> Section:
    """Evaluate the same rows twice, in another order and in other batches."""
    rng = stream(case.seed, "validation", "model")
    rows = np.concatenate([case.table.values.astype(np.float64), case.rows])
    rows = rows[rng.permutation(len(rows))[:MODEL_ROWS]]
    first = case.outputs(rows)
    spread = np.ptp(first, axis=0)
    size = np.where(spread > 0, spread, np.maximum(np.abs(first).max(axis=0), 1e-12))

    def apart(other: Floats, at: Floats = first) -> float:
        return float((np.abs(other - at) / size).max()) if other.shape == at.shape else float("inf")

    order = rng.permutation(len(rows))
    back, shuffled = np.empty_like(first), np.empty_like(first)
    back[::-1], shuffled[order] = case.outputs(rows[::-1]), case.outputs(rows[order])
    sevens = np.concatenate([case.outputs(rows[i : i + 7]) for i in range(0, len(rows), 7)])
    few = min(ONE_BY_ONE, len(rows))
    single = np.concatenate([case.outputs(rows[i : i + 1]) for i in range(few)])
    doubled = case.outputs(np.repeat(rows, 2, axis=0))[1::2]
    again = max(apart(case.outputs(rows)), apart(case.outputs(rows)))
    ordered = max(apart(back), apart(shuffled))
    batched = max(apart(sevens), apart(single, first[:few]), apart(doubled))
    name, limit = "model", f"largest difference over {len(rows)} rows, as a share of the spread of outputs"
    requirements = (
        Requirement("M-1", name, "The same rows get the same outputs.", f"Evaluated three times; {limit}.",
                    again, "<=", SAME, "A random model has no one output that could be explained."),
        Requirement("M-2", name, "The order of rows does not matter.", f"Evaluated backwards and shuffled; {limit}.",
                    ordered, "<=", SAME, "The output of a row depends on the rows before it."),
        Requirement("M-3", name, "The size of the batch does not matter.",
                    f"In batches of 7, each row twice, and {few} rows one by one; {limit}.",
                    batched, "<=", SAME, "The output of a row depends on the rows evaluated with it."),
    )  # fmt: skip
    decisions = "for the coverage of flips, whether the output is above the median of the reference; none otherwise"
    if case.decide is not None:
        decisions = "those of the rule given (decide)"
    elif case.wrapped.classes is not None or case.outputs(case.rows[:1]).shape[1] > 1:
        decisions = "the predicted class"
    text = (
        "A model is a function of a row. Outputs may differ by rounding; 1 part in 10,000 of their spread is allowed.",
        f"It gives {first.shape[1]} output{'s' if first.shape[1] > 1 else ''} a row; decisions explained here: "
        f"{decisions}.",
    )
    return Section(name, text, requirements)


BEYOND, SQUEEZED, SWAPPED, LEAST_SHIFTED = 0.5, 20.0, (0.9, 0.3), 10
CLOSER = 0.75  # share of rows that lie closer to another row than their redrawn versions do
REPEATED = 0.02  # share of rows of the reference that repeat another, from which on equal rows are no news


def data_section(case: Case) -> Section:
    """Look for columns in other units or order, rows that are in both tables, and rows that are not independent."""
    name, groups, flagged = "data", case.reference.clusters, shifted_columns(case)
    data, known = ([row.tobytes() for row in np.ascontiguousarray(part, np.float64) + 0.0]
                   for part in (case.table.values, case.rows))  # fmt: skip
    there, shared = set(known), None
    if len(there) >= (1 - REPEATED) * len(known):  # else rows are equal by chance
        shared = float(np.mean([row in there for row in data]))
    closer, pairs = _closer(case)
    clustered = [] if groups is not None else reference_notes(replace(case.table, values=case.rows), case.rows)
    requirements = (
        Requirement("D-1", name, "Columns of the data are those of the reference: same order, units and types.",
                    "Columns counted whose values lie mostly beyond the reference's range by half of it, spread 20 "
                    "times more or less, have unknown categories, or fit another column of the reference far better.",
                    float(len(flagged)), "<=", 0,
                    "; ".join(flagged.values()) + "." * bool(flagged)),
        Requirement("D-2", name, "Rows of the data are not rows of the reference.",
                    "Share of rows of the data that are in the reference, too.",
                    shared, "<=", 0.05, "" if shared is not None else "Rows of the reference repeat each other, too."),
        Requirement("D-3", name, "Rows of the reference are independent, or reference_groups says which are not.",
                    f"Share of {pairs} rows that lie closer to a row of another group than their redrawn version does "
                    "(a half is expected); repeated rows and columns that name clusters are looked for.",
                    1.0 if clustered else closer, "<=", CLOSER,
                    "; ".join(map(str, clustered))
                    or ("Rows lie too close together, or the sampler is wrong." if pairs else "Too few columns.")),
    )  # fmt: skip
    count = "" if groups is None else f" in {len(np.unique(groups))} groups (reference_groups)"
    text = (
        f"The data has {len(case.table.values):,} rows, the reference {len(case.rows):,}{count}; both have "
        f"{case.rows.shape[1]} columns.",
        "The reference may well differ from the data: that is what is asked about. A column far beyond it is rather a "
        "matter of units or order.",
    )
    table = Figures("Columns that do not fit the reference", ("column", "why"), tuple(flagged.items()))
    return Section(name, text, requirements, (table,) if flagged else ())


def shifted_columns(case: Case) -> dict[str, str]:
    """Return the columns of the data that do not fit the reference, each with the reason."""
    flagged: dict[str, str] = {}
    values, rows = case.table.values.astype(np.float64), case.rows
    for j, (name, kind) in enumerate(zip(case.table.columns, case.table.kinds, strict=True)):
        here, there = (part[:, j][~np.isnan(part[:, j])] for part in (values, rows))
        if not len(here) or not len(there):
            continue
        if kind.kind in ("category", "flag"):
            unknown = float(np.mean(~np.isin(here, np.unique(there))))
            if unknown > 0.05:
                flagged[name] = f"{name}: {_percent(unknown)} of the values are categories that the reference lacks"
            continue
        low, high = there.min(), there.max()
        room = BEYOND * (high - low)
        outside = float(np.mean((here < low - room) | (here > high + room)))
        spread, usual = (float(np.subtract(*np.quantile(part, [0.95, 0.05]))) for part in (here, there))
        if outside > 0.5 and high > low:
            flagged[name] = (
                f"{name}: median {np.median(here):.4g}, but {low:.4g} to {high:.4g} in the reference "
                f"({_percent(outside)} of the rows lie far beyond it)"
            )
        elif len(here) >= LEAST_SHIFTED and usual > 0 and not usual / SQUEEZED <= spread <= usual * SQUEEZED:
            flagged[name] = f"{name}: spreads over {spread:.4g}, but over {usual:.4g} in the reference"
    if len(values) >= LEAST_SHIFTED:
        for one, other in _swapped(case):
            flagged.setdefault(one, f"{one}: looks like column {other} of the reference")
    return flagged


def _swapped(case: Case) -> list[tuple[str, str]]:
    """Return columns of numbers that fit each other's reference far better than their own (Kolmogorov's distance)."""
    from scipy.stats import ks_2samp

    names, values = case.table.columns, case.table.values.astype(np.float64)

    def distance(data: int, reference: int) -> float:
        here, there = (column[~np.isnan(column)] for column in (values[:, data], case.rows[:, reference]))
        return float(ks_2samp(here, there, method="asymp").statistic) if len(here) else 1.0

    far = [j for j in case.numeric.tolist() if distance(j, j) > SWAPPED[0]]
    return [
        (names[one], names[other])
        for pair in combinations(far, 2)
        if max(distance(pair[0], pair[1]), distance(pair[1], pair[0])) < SWAPPED[1]
        for one, other in (pair, pair[::-1])
    ]


MOST_PAIRS = 400


def _closer(case: Case) -> tuple[float | None, int]:
    """Return the share of rows that lie closer to the others than a redrawn version does; and of how many.

    Versions are redrawn part by part given the rest, so that under a right sampler and independent rows a row and its
    version are exchangeable beside the others. Rows of one person lie close together, redrawn ones do not. Rows of the
    same group count for neither.
    """
    columns = case.numeric
    if len(columns) < 2:
        return None, 0
    subsets = subset_tree(case.table, case.sampler, "columns").subsets
    rows, rng = case.rows, stream(case.seed, "validation", "closer")
    some = rng.permutation(len(rows))[:MOST_PAIRS]
    versions = rows[some].copy()
    for _ in range(2):
        for subset in subsets:
            versions[:, subset.index] = case.sampler.values(versions, subset, 1, rng)
    sd = np.nanstd(rows[:, columns], axis=0)
    scaled = [filled(part[:, columns]) / np.where(sd > 0, sd, 1.0) for part in (rows, rows[some], versions)]
    groups = np.arange(len(rows)) if case.reference.clusters is None else case.reference.clusters
    others = groups[some][:, None] != groups[None, :]
    real, new = (_nearest(scaled[k], scaled[0], others) for k in (1, 2))
    known = np.isfinite(real) & np.isfinite(new)
    if not known.any():
        return None, 0
    return float(np.mean(np.where(real == new, 0.5, real < new)[known])), int(known.sum())


def _nearest(rows: Floats, others: Floats, counts: Bools) -> Floats:
    """Return the distance (n,) of each row to the nearest of those that count."""
    squares = (rows**2).sum(axis=1)[:, None] + (others**2).sum(axis=1) - 2 * rows @ others.T
    return np.asarray(np.sqrt(np.maximum(np.where(counts, squares, np.inf), 0)).min(axis=1))


HELD_OUT_ALPHA = 0.01


def sampler_section(case: Case) -> Section:
    """Check whether counterfactuals look like held-out rows of the reference, and follow the other columns."""
    name = "sampler"
    subsets = subset_tree(case.table, case.sampler, "columns").subsets
    with catch_warnings(action="ignore"):
        faults = rank_faults(case.sampler, case.table, subsets, case.seed)
        rng = stream(case.seed, "validation", "held out")
        held_out, kept = hold_out(len(case.rows), rng, case.reference.clusters)
        checked = None
        if len(held_out) >= LEAST_CHECKED:
            columns = {one.name: [case.table.columns[j] for j in one.index] for one in subsets}
            checked = check_table(
                case.refit(kept), case.shown(case.rows[held_out]), None, subsets=columns, alpha=HELD_OUT_ALPHA,
                seed=case.seed,
            )  # fmt: skip
    tested = None if faults is None or (faults.told_by < 0).all() else float(min(1.0, faults.p.min() * len(faults.p)))
    worst = "" if tested is None else subsets[int(faults.p.argmin())].name  # type: ignore[union-attr]
    wrong = (
        None if checked is None else float(sum(one != "ok" for one in checked.verdicts) + (checked.together != "ok"))
    )
    requirements = (
        Requirement("S-1", name, "Counterfactuals follow how each column depends on the others.",
                    "Conditional control: can trees predict the rank of left-out values among their draws from the "
                    "other columns? Smallest p-value over columns (Bonferroni).",
                    tested, ">=", LEVEL, f"The clearest is {worst}." if tested is not None else "Too few rows."),
        Requirement("S-2", name, "Counterfactuals look like rows that the sampler has not seen.",
                    f"{len(held_out)} left-out rows against 99 draws each: ranks, shape, trees; columns called wrong "
                    f"(a right sampler is called wrong in at most {_percent(HELD_OUT_ALPHA)} of checks).",
                    wrong, "<=", 0, "Fewer than 50 rows can be left out." if checked is None
                    else "" if checked.ok else f"In words: {checked.sentence}."),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    for k, one in enumerate(subsets):
        p = None if faults is None or faults.told_by[k] < 0 else float(faults.p[k])
        by = "" if p is None else case.table.columns[int(faults.told_by[k])]  # type: ignore[union-attr]
        verdict = "" if checked is None else str(checked.verdicts[k])
        ranked = None if checked is None else float(checked.checks[k].ranked.p)
        rows.append((one.name, p, by, ranked, verdict))
    text = (
        f"Sampler: {case.sampler!r}. Left-out ranks must be uniform, whatever the other columns say.",
        "Passing means that nothing was found in so many rows, not that the sampler is exact.",
    )
    table = Figures("Each column", ("column", "conditional p", "best told by", "p of ranks", "verdict"), tuple(rows))
    return Section(name, text, requirements, (table,))


def memory_section(case: Case) -> Section:
    """Ask whether the model knows the rows of the reference (METHODS 19)."""
    name = "memory"
    subsets = subset_tree(case.table, case.sampler, None).subsets
    faults = rank_faults(case.sampler, case.table, subsets, case.seed)
    usable = np.ones(len(subsets), bool) if faults is None else faults.calibrated
    scores = []
    for k in range(3):
        redrawn = redrawn_rows(case.sampler, case.table, subsets, case.seed + k, usable, 2_000)
        if redrawn is None:
            continue
        outputs = case.outputs(redrawn.items.block(0, len(redrawn.items)))
        values = outputs.reshape(*redrawn.rows.shape[:2], -1)
        target = averaged_target(_target(case, outputs), values[:, 0], None)
        scores.append(seen_by_model(redrawn.rows, values, target, stream(case.seed, "seen", k)))
    figure = float(np.median(np.abs(scores))) if scores else None
    requirement = Requirement(
        "K-1", name, "The model was not fitted on the rows of the reference.",
        f"Outputs on up to 200 reference rows against up to 8 redrawn versions of each, {len(scores)} times; median of "
        "|z| of the part that no smooth function explains.",
        figure, "<=", SEEN_Z,
        "No parts can be redrawn, or trees tell redrawn rows from real ones." if figure is None
        else "A model is too sure of rows it was fitted on; give rows that it has not seen.",
    )  # fmt: skip
    text = (
        "Rows on which a model was fitted look unlike new rows to that model, so ordinary new rows would look unusual "
        "beside them. Memory that does not show in outputs cannot be seen.",
    )
    return Section(name, text, (requirement,))


def _target(case: Case, outputs: Floats) -> Target:
    """Return the output that is asked about, of outputs (n, outputs)."""
    name = case.target if case.target is not None else "output" if outputs.shape[1] == 1 else "predicted"
    return resolve(name, None, outputs, case.wrapped)


TAIL_P, TAIL_LIMIT = 0.05, 0.075


def size_section(case: Case) -> Section:
    """Split the reference against itself: there is nothing to find, so how often is something?"""
    from scipy.stats import binom

    name, splits = "size", case.sizes.splits
    rows_hit, features_hit, shares, drawn = [], [], [], 0
    for k in range(splits):
        held_out, kept = case.split("split", k)
        result = _run(case, case.rows[held_out], case.refit(kept), seed=case.seed + k, decide=False, enough=None,
                      effects=None)  # fmt: skip
        drawn = len(held_out)
        p = result.evidence.values[result.tested]
        rows_hit.append(int(result.chosen.sum()))
        if result.over_inputs is not None:
            features_hit.append(int(result.features.chosen.sum()))
        shares.append(float(np.mean(p <= TAIL_P)) if len(p) else 0.0)
        case.report(name, k + 1, splits)
    most = int(binom.isf(LEVEL, splits, case.alpha))
    judged = len(features_hit)
    most_features = int(binom.isf(LEVEL, judged, case.alpha)) if judged else 0
    any_rows, any_features = sum(hit > 0 for hit in rows_hit), sum(hit > 0 for hit in features_hit)
    low, sees = _end_of_mean(np.array(shares), -1), _detectable(splits, most)
    requirements = (
        Requirement("N-1", name, f"Rows: where nothing differs, something is chosen in at most {_percent(case.alpha)} "
                    "of runs.",
                    f"{splits} random splits of the reference, {drawn} rows against the others; splits in which any "
                    f"row is chosen. Binomial limit at chance {LEVEL:g}.",
                    any_rows, "<=", most),
        Requirement("N-2", name, "Features: the same for result.features.",
                    f"The same splits; splits in which any feature is chosen. Binomial limit at chance {LEVEL:g}.",
                    any_features if judged else None, "<=", most_features,
                    "" if judged else "Features need 20 rows on either side."),
        Requirement("N-3", name, f"p-values at or below {TAIL_P:g} are not frequent.",
                    f"Share of them in each split; one-sided lower limit of the mean over splits (Student's t, level "
                    f"{LEVEL:g}). Mean: {_percent(float(np.mean(shares)))}.",
                    low, "<=", TAIL_LIMIT),
    )  # fmt: skip
    text = (
        f"Nothing distinguishes one half of a reference from the other, so a run at alpha = {case.alpha:g} chooses "
        f"anything at all in at most {_percent(case.alpha)} of splits. Splits are independent given the reference; "
        "what is tested is this reference, not the population behind it.",
        f"{splits} splits with a limit of {most} fail four times in five if the true rate is {_percent(sees)} or more; "
        "smaller faults need more splits (size='thorough').",
    )
    table = Figures(
        "Splits",
        ("", "splits", "with any choice", "limit", "share"),
        (
            ("rows", splits, any_rows, most, any_rows / splits),
            ("features", judged, any_features, most_features, any_features / max(judged, 1)),
        ),
    )
    return Section(name, text, requirements, (table,))


def _run(case: Case, rows: Floats, sampler: TableSampler, **more: Any) -> Result:
    """Explain rows with the user's model; the control is that of the run, not of a validation."""
    options = {"target": case.target, "alpha": case.alpha, "decide": case.decide, "control": False} | more
    with catch_warnings(action="ignore"):
        result = explain(case.model, case.shown(rows), sampler, **options)
    case.evaluated.append(int(result.rows))
    return result


def _end_of_mean(shares: Floats, side: Literal[-1, 1]) -> float:
    """Return the lower or upper end of a one-sided interval for the mean (Student's t)."""
    from scipy.special import stdtrit

    if len(shares) < 2:
        return float(shares.mean())
    half = float(stdtrit(len(shares) - 1, 1 - LEVEL)) * float(shares.std(ddof=1)) / np.sqrt(len(shares))
    return float(shares.mean() + side * half)


def _detectable(splits: int, most: int) -> float:
    """Return the rate at which four in five repetitions would go beyond the limit.

    >>> round(_detectable(40, 9), 2)
    0.3
    """
    from scipy.stats import beta

    return float(beta.ppf(0.8, most + 1, splits - most))


DISTANCES = (0.0, 3.0, 6.0)
BESIDE = 4  # columns that are tested beside the planted one


def power_section(case: Case) -> Section:
    """Plant an effect of known size in one column: is it found, and is anything else?"""
    from scipy.stats import binom

    name = "power"
    rng = stream(case.seed, "validation", "planted")
    single = [one.index[0] for one in subset_tree(case.table, case.sampler, "columns").subsets if len(one.index) == 1]
    plain = np.intersect1d(case.numeric, single)  # columns that others fix have no effect of their own
    picked = rng.permutation(plain)[: case.sizes.planted]
    hit = {distance: list[float]() for distance in DISTANCES}
    wide = {distance: list[bool]() for distance in DISTANCES}
    false, chosen, rows = 0, 0, list[tuple[Cell, ...]]()
    for k, column in enumerate(picked.tolist()):
        held_out, kept = case.split("planted", k)
        sampler, inputs = case.refit(kept), case.rows[held_out]
        inputs = inputs[~np.isnan(inputs[:, column])]
        planted_in = Subset(case.table.columns[column], np.array([column]))
        draws = _draws(case, inputs, planted_in, 100, rng)
        spread = float(np.median(np.nanstd(draws.reshape(len(inputs), 100), axis=1)))
        others = rng.permutation(np.setdiff1d(plain, [column]))[:BESIDE].tolist()
        names = [case.table.columns[j] for j in [column, *others]]
        line: list[Cell] = [planted_in.name, spread]
        for distance in DISTANCES:
            moved = inputs.copy()
            moved[:, column] += distance * spread
            with catch_warnings(action="ignore"):
                result = explain(
                    _planted(column), case.shown(moved), sampler, subsets=names, alpha=case.alpha, decide=False,
                    effects=None, control=False, alternative="greater", seed=case.seed + k,
                )  # fmt: skip
            there = np.array(result.subset_names)[result.subset_of] == planted_in.name
            hit[distance].append(float(result.chosen[there].mean()))
            over = None if result.over_inputs is None else result.features.set_index("subset").chosen
            wide[distance].append(bool(over is not None and over[planted_in.name]))
            false, chosen = false + int((result.chosen & ~there).sum()), chosen + int(result.chosen.sum())
            line.append(hit[distance][-1])
        rows.append(tuple(line))
        case.report(name, k + 1, len(picked))
    count = len(picked)
    null_runs = sum(share > 0 for share in hit[0.0])
    most = int(binom.isf(LEVEL, count, case.alpha)) if count else 0
    none = "The reference has no column of numbers with ten values." if not count else ""
    planted = (
        f"Of {count} columns, one at a time: a planted model whose output is that column alone, and left-out rows of "
        "the reference in which it is raised by {} of its standard deviations given the other columns"
    )
    requirements = (
        Requirement("P-1", name, "An effect of 6 standard deviations is found in rows.",
                    planted.format("6") + "; median over columns of the share of rows in which it is chosen.",
                    float(np.median(hit[6.0])) if count else None, ">=", 0.8, none),
        Requirement("P-2", name, "It is found over all rows.", "The same; share of columns chosen by result.features.",
                    float(np.mean(wide[6.0])) if count else None, ">=", 0.8, none),
        Requirement("P-3", name, "Nothing is found where nothing is planted.",
                    planted.format("0") + f"; columns in which any row is chosen. Binomial limit at chance {LEVEL:g}.",
                    null_runs if count else None, "<=", most, none),
        Requirement("P-4", name, "Columns that the planted model does not read are not chosen.",
                    f"All of these runs, up to {BESIDE} other columns in each; share of all that was chosen.",
                    false / max(chosen, 1) if count else None, "<=", case.alpha, none),
    )  # fmt: skip
    text = (
        "The model here is planted and so is the effect: the output is one column, raised by a known amount. A column "
        "that the others tell closely has a small standard deviation given them, and 6 of those may be little.",
    )
    columns = ("column", "one standard deviation given the others", *(f"chosen at {d:g}" for d in DISTANCES))
    table = Figures("Share of rows in which the planted column is chosen", columns, tuple(rows))
    return Section(name, text, requirements, (table,) if rows else ())


def _planted(column: int) -> Callable[[Batch], Floats]:

    def model(batch: Batch) -> Floats:
        values = batch.iloc[:, column].to_numpy() if hasattr(batch, "iloc") else np.asarray(batch)[:, column]
        return np.nan_to_num(np.asarray(values, dtype=np.float64))

    return model


TRUTH_DRAWS, WORLD_ROWS, NOMINAL, FLOOR = 2_000, 10, 0.95, 0.85
MOST_BESIDES = 24  # columns that are redrawn where the kept ones are to be enough


@dataclass(frozen=True)
class Covered:
    """Of one simulated reference: how many intervals hold the truth, of how many, and how wide they are."""

    hits: int
    of: int
    width: float
    middle: int  # truths strictly between 2 and 98 %


def coverage_section(case: Case) -> Section:
    """Draw references from the fitted sampler, fit it to each, and compare intervals with the truth known there."""
    name, worlds, width = "coverage", case.sizes.worlds, case.rows.shape[1]
    rng, decide = stream(case.seed, "validation", "worlds"), case.decide
    if decide is None and (outputs := case.outputs(case.rows[:2_000])).shape[1] == 1:
        decide = partial(np.less_equal, float(np.median(outputs)))  # is it above the median of the reference?
    results: dict[str, list[Covered]] = {"flip": [], "move": [], "stay": []}
    halves = (worlds + 1) // 2 if width > 1 else 0
    for k in range(worlds + halves):
        rows = case.table.values[rng.permutation(len(case.table.values))[:WORLD_ROWS]].astype(np.float64)
        keep = k >= worlds
        size = max(1, width - MOST_BESIDES, min(3, width // 2)) if keep else 1
        for what, one in _world(case, rng.permutation(width)[:size], rows, decide, k, keep=keep).items():
            results[what].append(one)
        case.report(name, k + 1, worlds + halves)
    words = {
        "flip": ("V-1", "Flips: intervals for the share of redraws that change the decision hold the truth.",
                 "one column is redrawn given the others"),
        "move": ("V-2", "Moves: intervals for what a column moves the output by hold the truth.",
                 "one column is redrawn given the others"),
        "stay": ("V-3", "Enough: intervals for the share of redraws that keep the decision hold the truth.",
                 f"some columns are kept and the others, at most {MOST_BESIDES}, redrawn given them"),
    }  # fmt: skip
    requirements = tuple(
        _covers(name, *words[what], covered=covered, rows=len(rows)) for what, covered in results.items()
    )
    table = Figures(
        "Simulated references",
        ("interval", "references", "intervals", "hold the truth", "mean width", "truth between 2 and 98 %"),
        tuple(
            (
                SHOWN[what], len(covered), sum(one.of for one in covered),
                _share(covered), float(np.mean([one.width for one in covered])) if covered else None,
                sum(one.middle for one in covered) if what != "move" else None,
            )
            for what, covered in results.items()
        ),
    )  # fmt: skip
    text = (
        "Parametric bootstrap: the sampler fitted to your reference stands for the truth. In each simulated reference "
        "the redrawn columns are drawn by it, given the columns that are kept; a sampler is then fitted to that "
        f"reference as usual, and its intervals are compared with the truth, {TRUTH_DRAWS:,} draws of the first "
        "sampler. It shows whether intervals allow for the finite reference. It cannot show whether the form of the "
        "regression is right: that is the section on the sampler.",
    )
    return Section(name, text, requirements, (table,))


def _share(covered: Sequence[Covered]) -> float | None:
    total = sum(one.of for one in covered)
    return sum(one.hits for one in covered) / total if total else None


def _covers(name: str, id: str, required: str, how: str, *, covered: Sequence[Covered], rows: int) -> Requirement:
    """Require that coverage is not clearly below 95 %, references being the clusters, and never below 85 %."""
    shares = np.array([one.hits / one.of for one in covered if one.of])
    if len(shares) < 2:
        why = "Fewer than two simulated references gave intervals."
        return Requirement(id, name, required, how, None, ">=", NOMINAL, why)
    mean = float(shares.mean())
    figure = mean if mean < FLOOR else min(_end_of_mean(shares, 1), 1.0)
    return Requirement(
        id, name, required,
        f"{len(shares)} simulated references, in each {how}, {rows} rows of the data; upper limit of the mean coverage "
        f"(Student's t over references, level {LEVEL:g}), the mean itself where that is below {_percent(FLOOR)}. Mean: "
        f"{_percent(mean)}.",
        figure, ">=", NOMINAL,
    )  # fmt: skip


def _world(
    case: Case, index: Ints, rows: Floats, decide: Callable[[Any], Any] | None, k: int, *, keep: bool
) -> dict[str, Covered]:
    """Simulate one reference; compare intervals of a refitted sampler with the truth there."""
    rng, index = stream(case.seed, "validation", "world", k), np.sort(index)
    named = Subset(_called(case, index), index)
    redrawn = np.setdiff1d(np.arange(case.rows.shape[1]), index) if keep else index
    subset = Subset(_called(case, redrawn), redrawn)
    simulated = case.rows.copy()
    simulated[:, redrawn] = _draws(case, case.rows, subset, 1, rng)
    fitted = case.refit(values=simulated)
    columns = {named.name: [case.table.columns[j] for j in index]}
    result = _run(case, rows, fitted, subsets=columns, decide=decide, seed=case.seed + k, enough=None, sufficient=keep,
                  effects=None if keep else "all", control=True)  # fmt: skip
    versions = np.repeat(rows, TRUTH_DRAWS, axis=0)
    versions[:, redrawn] = _draws(case, rows, subset, TRUTH_DRAWS, rng)
    before = case.outputs(rows)
    after = case.outputs(versions).reshape(len(rows), TRUTH_DRAWS, -1)
    decision = Decision(decide)
    changed = decision(after.reshape(-1, after.shape[2])).reshape(len(rows), -1) != decision(before)[:, None]
    truth = {"stay": 1 - changed.mean(axis=1)} if keep else {"flip": changed.mean(axis=1)}
    error = {name: np.sqrt(share * (1 - share) / TRUTH_DRAWS) for name, share in truth.items()}
    table = result.table
    if not keep and "move_low" in table:  # of the output asked about, or that of the class a row has
        output, target = before.argmax(axis=1)[:, None], None if before.shape[1] == 1 else _target(case, before)
        if target is not None and target.classes is not None:
            output = np.full((len(rows), 1), target.classes[0])
        drop = np.take_along_axis(before, output, 1) - np.take_along_axis(after, output[..., None], 2)[..., 0]
        truth["move"], error["move"] = drop.mean(axis=1), drop.std(axis=1) / np.sqrt(TRUTH_DRAWS)
    covered = {}
    for what, value in truth.items():
        if f"{what}_low" not in table:
            continue
        low, high = (table[f"{what}_{end}"].to_numpy(dtype=np.float64) for end in ("low", "high"))
        known, slack = np.isfinite(low) & np.isfinite(high), 2 * error[what] + 1e-9  # the truth is drawn, too
        holds = (low - slack <= value) & (value <= high + slack)
        width, middle = float((high - low)[known].mean()) if known.any() else 0.0, (value > 0.02) & (value < 0.98)
        covered[what] = Covered(int((holds & known).sum()), int(known.sum()), width, int((middle & known).sum()))
    return covered


def _called(case: Case, index: Ints) -> str:
    return ", ".join(case.table.columns[j] for j in index[:4]) + (" ..." if len(index) > 4 else "")


def _draws(case: Case, rows: Floats, subset: Subset, draws: int, rng: np.random.Generator) -> Floats:
    values = case.sampler.values(rows.astype(case.table.values.dtype), subset, draws, rng)
    return np.asarray(values, dtype=np.float64).reshape(len(rows) * draws, -1)


AGREE, FEW = 0.7, 0.05


def stability_section(case: Case, rows: Ints) -> tuple[Section, Result]:
    """Explain the same rows with other seeds: are the same parts chosen, decisive, moving?"""
    name, seeds = "stability", case.sizes.seeds
    results: list[Result] = []
    inputs = case.table.take(rows)
    for k in range(seeds):
        with catch_warnings(action="ignore"):
            shown = inputs.show(inputs.values, np.arange(len(rows)))
            same: dict[str, Any] = {"target": case.target, "alpha": case.alpha, "decide": case.decide}
            results.append(explain(case.model, shown, case.sampler, **same, seed=case.seed + k))
        case.evaluated.append(int(results[-1].rows))
        case.report(name, k + 1, seeds)
    kinds = {"chosen": [one.chosen for one in results]}
    if all(one.decided is not None for one in results):
        kinds["decisive"] = [one.decided.necessary for one in results]  # type: ignore[union-attr]
    if all(one.moved is not None for one in results):
        kinds["moves"] = [one.moved.moves for one in results]  # type: ignore[union-attr]
    ids = {"chosen": ("T-1", "unusual"), "decisive": ("T-2", "decisive"), "moves": ("T-3", "moving the output")}
    requirements, table = list[Requirement](), list[tuple[Cell, ...]]()
    for kind, (id, words) in ids.items():
        how = (
            f"{seeds} runs on {len(rows)} rows of the data with other seeds and the same fit: share of what one calls "
            f"{words} that another does, too (mean over pairs); 1 where at most {_percent(FEW)} of all parts differ."
        )
        required = f"Seeds agree on what is {words}."
        if kind not in kinds:
            why = "There is no decision (decide)."
            requirements.append(Requirement(id, name, required, how, None, ">=", AGREE, why))
            continue
        agreement, differ = agreement_of(kinds[kind])
        figure = 1.0 if differ <= FEW else agreement
        requirements.append(Requirement(id, name, required, how, figure, ">=", AGREE))
        table.append((words, *(int(one.sum()) for one in kinds[kind]), agreement, differ))
    columns = ("", *(f"seed {case.seed + k}" for k in range(seeds)), "shared", "differ, of all")
    text = (
        "Draws are random, so two seeds may differ on what is close to a limit. The fit of the sampler is the same in "
        "all runs. The first run is in the pack as result.butfor.",
    )
    figures = Figures("Parts in each run", columns, tuple(table))
    return Section(name, text, tuple(requirements), (figures,)), results[0]


def agreement_of(sets: Sequence[Bools]) -> tuple[float, float]:
    """Return which share of what a run calls another calls, too (Dice, mean over pairs), and of all parts that differ.

    >>> agreement_of([np.array([True, True, False]), np.array([True, False, False])])
    (0.6666666666666666, 0.3333333333333333)
    """
    pairs = list(combinations(sets, 2))
    if not pairs:
        return 1.0, 0.0
    shared = [2 * (a & b).sum() / (a.sum() + b.sum()) if (a | b).any() else 1.0 for a, b in pairs]
    return float(np.mean(shared)), float(np.mean([(a != b).mean() for a, b in pairs]))


def guarded(name: str, section: Callable[[], Section]) -> Section:
    """Run a section; where the model or the sampler fails on the rows it needs, say so."""
    try:
        return section()
    except (InputError, ModelError) as error:
        return untested(name, f"It ended with an error: {error}", failed=True)
