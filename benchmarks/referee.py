"""The default call attacked as a referee would: columns that hang on others in ways an additive regression cannot see.

In every bed a column `target` has a known distribution given the other columns; the model reads it and an idle column.
Inputs come from the reference's population, or from a corner of it where columns that the target hangs on are
distributed otherwise: a subset is null unless it holds the target and one of those. The public result is compared with
the truth: decision intervals, `necessary`, rows, features, and the holdout test.
"""

from __future__ import annotations

import inspect
import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import expit
from scipy.stats import norm

from benchmarks.beds import credit
from benchmarks.figures import Figures, ProgressTo, checked_names, each, mean_error, quietly, rates, record, write
from butfor import Result, explain, global_importance
from butfor.streams import stream
from butfor.types import Array, Bools, Floats

ALPHA, LEVEL, INPUTS = 0.1, 0.5, 50
Rest = Callable[[Any, int, bool], tuple[Any, ...]]  # rng, rows, whether from the corner -> columns


# Beds


@dataclass(frozen=True, eq=False)
class Mixture:
    """Distributions of (n,) values with weights (n, parts), called as those of SciPy are."""

    parts: Sequence[Any]
    weights: Floats

    def rvs(self, size: int, random_state: Any) -> Floats:
        part = (random_state.random(size)[:, None] > self.weights.cumsum(axis=1)[:, :-1]).sum(axis=1)
        values = [one.rvs(size=size, random_state=random_state) for one in self.parts]
        return np.asarray(np.stack(values, axis=1)[np.arange(size), part])

    def _average(self, values: list[Floats]) -> Floats:
        return np.asarray((np.stack(values, axis=1) * self.weights).sum(axis=1))

    def sf(self, x: Floats) -> Floats:
        return self._average([one.sf(x) for one in self.parts])

    def mean(self) -> Floats:
        return self._average([one.mean() for one in self.parts])

    def std(self) -> Floats:
        squares = self._average([one.std() ** 2 + one.mean() ** 2 for one in self.parts])
        return np.asarray(np.sqrt(squares - self.mean() ** 2))


@dataclass(frozen=True)
class Bed:
    """Columns `rest`, and the distribution `given(*rest)` of the target given them."""

    rest: Rest
    given: Callable[..., Any]
    moved: tuple[int, ...] = (0,)  # columns that are distributed otherwise in the corner
    scale: float = 1.0  # of the idle column in the model
    step: float = 1e-9  # the target is rounded to
    visits: int = 1  # reference rows of one person

    def model(self, rows: pd.DataFrame) -> Floats:
        return np.asarray(rows["target"] + 0.3 * self.scale * rows["idle"])

    def table(self, rng: np.random.Generator, count: int, corner: bool = False, visits: int = 1) -> tuple[Any, Any]:
        """Rows, and the distribution of their target."""
        rest = self.rest(rng, count, corner)
        given = self.given(*rest)
        target = self.step * np.round(given.rvs(size=count, random_state=rng) / self.step) + 0.0
        columns = {**dict(zip("abc", rest, strict=False)), "target": target, "idle": rng.standard_normal(count)}
        rows = pd.DataFrame(columns)
        if visits > 1:  # of normal rows: the sum is distributed as they are
            people = self.table(rng, -(-count // visits))[0].to_numpy().repeat(visits, axis=0)[:count]
            rows = np.sqrt(0.7) * people + np.sqrt(0.3) * rows
        return rows, given

    def flips(self, rows: pd.DataFrame, given: Any, edge: float) -> Floats:
        """q (n,): the probability that `model(rows) >= edge` is decided otherwise when the target is redrawn."""
        least = (edge - 0.3 * self.scale * rows["idle"].to_numpy()) / self.step
        above = given.sf(self.step * (np.floor(least) + 0.5))  # what is rounded to the next step begins there
        return np.asarray(np.where(self.model(rows) >= edge, 1 - above, above))


def normals(*shifts: float) -> Rest:
    """Independent normal columns, in the corner shifted by so much."""
    return lambda g, n, corner: tuple(g.standard_normal(n) + corner * shift for shift in shifts)


def exps(*shifts: float) -> Rest:
    """Log-normal columns, in the corner shifted by so many standard deviations of their logarithm."""
    return lambda *given: tuple(np.exp(0.5 * column) for column in normals(*shifts)(*given))


def column(usual: tuple[Any, ...], corner: tuple[Any, ...]) -> Rest:
    """One column by the names and parameters of two methods of a generator."""
    return lambda g, n, there: (getattr(g, (corner if there else usual)[0])(*(corner if there else usual)[1:], n),)


def sex_and_age(g: Any, n: int, corner: bool) -> tuple[Floats, Floats]:
    """The corner is older men."""
    return (g.random(n) < (1.0 if corner else 0.5)).astype(float), g.standard_normal(n) + corner


def by_sex(sex: Floats, age: Floats) -> Floats:
    """A slope on age that differs by sex."""
    return (2 * sex - 1) * age


def height_and_weight(g: Any, n: int, corner: bool) -> tuple[Floats, Floats]:
    """The corner weighs half as much again."""
    height = g.normal(1.7, 0.1, n)
    return height, 70 * height / 1.7 * np.exp(0.18 * g.standard_normal(n) + 0.4 * corner)


def levels(effects: Floats, one: int, uneven: float = 0.6, category: bool = False, slopes: bool = False) -> Bed:
    """Levels, as numbers from 1 or as a category, that decide the mean or the slope on age; the corner is one level."""
    share = np.arange(1, len(effects) + 1) ** -uneven
    names = pd.Index([f"c{level}" for level in range(len(effects))])

    def rest(g: Any, n: int, corner: bool) -> tuple[Any, ...]:
        codes = np.full(n, one) if corner else g.choice(len(effects), n, p=share / share.sum())
        level = pd.Categorical.from_codes(codes, names) if category else codes + 1.0
        return (level, g.standard_normal(n) + corner) if slopes else (level,)

    def given(level: Any, age: Any = 1.0) -> Any:
        return norm(effects[level.codes if category else level.astype(int) - 1] * age, 1)

    return Bed(rest, given, (0, 1) if slopes else (0,))


def missing_if_large(g: Any, n: int, corner: bool) -> tuple[Floats, Floats]:
    """A column that is missing in most rows where it is above .8."""
    a = g.standard_normal(n) + corner
    return np.where((a > 0.8) & (g.random(n) < 0.8), np.nan, a), g.standard_normal(n)


def given_missing(a: Floats, b: Floats) -> Mixture:
    """Where `a` is missing, a mixture over what it may be."""
    unseen = norm.isf(np.linspace(0.21, 0.01, 20))
    weights = np.where(np.isnan(a)[:, None], [0.0] + 20 * [0.05], [1.0] + 20 * [0.0])
    return Mixture([norm(1.5 * x + 0.5 * b, 0.5) for x in (np.nan_to_num(a), *unseen)], weights)


def zero_or_more(sex: Floats, age: Floats) -> Mixture:
    """0 with a probability that an interaction decides, else log-normal."""
    none, more = expit(2 * by_sex(sex, age)), stats.lognorm(0.5, scale=np.exp(1 + 0.3 * age))
    return Mixture([norm(0 * age, 1e-12), more], np.stack([none, 1 - none], axis=1))


def two_clusters(a: Floats, b: Floats) -> Mixture:
    """Two distant modes; a product decides which."""
    return Mixture(
        [norm(0 * a - 2, 0.5), norm(0 * a + 2, 0.5)], np.stack([expit(-2 * a * b), expit(2 * a * b)], axis=1)
    )


CODES = np.array([0, 1.5, -1, 0.5, -1.5, 2, -0.5, 0, 1, -2, 0.5, -0.5])
FAIR: dict[str, Callable[[Any], Bed]] = {  # additive, or so after a transform that the sampler tries
    "linear": lambda _: Bed(normals(3, 0), lambda a, b: norm(0.8 * a - 0.6 * b, 1)),
    "additive": lambda _: Bed(normals(3, 0), lambda a, b: norm(a - 0.5 * b**2, 1)),
    "log-normal": lambda _: Bed(exps(3, 0), lambda a, b: stats.lognorm(0.4, scale=a**0.8 / b**0.4)),
}
PAIR, THREE = (0, 1), (0, 1, 2)
BEDS: dict[str, Callable[[Any], Bed]] = {  # of a generator: some have effects that differ from run to run
    **FAIR,
    # those of METHODS 18
    "slope by sex": lambda _: Bed(sex_and_age, lambda *x: norm(by_sex(*x), 1), PAIR),
    "codes": lambda rng: levels(CODES, rng.integers(12), uneven=0.0),
    "hour of day": lambda _: Bed(
        column(("uniform", 0, 24), ("uniform", 15, 19)), lambda h: norm(1.5 * np.sin(h * np.pi / 6), 1)
    ),
    "step": lambda _: Bed(normals(1.5), lambda a: norm(np.where(a > 0, 1.5, -1.5), 1)),
    "spread": lambda _: Bed(column(("standard_normal",), ("uniform", 1.5, 2.3)), lambda a: norm(1, 0.3 + a**2)),
    "bmi": lambda _: Bed(height_and_weight, lambda h, w: norm(w / h**2, 1e-12), PAIR, scale=4.0),
    "exp": lambda _: Bed(normals(3), lambda a: norm(np.exp(a / 1.5), 0.5)),
    "product": lambda _: Bed(normals(2, 2), lambda a, b: norm(a * b, 1), PAIR),
    "40 clinics": lambda rng: levels(rng.standard_normal(40), rng.integers(16, 40), category=True),
    "region as a number": lambda rng: levels(rng.standard_normal(20), rng.integers(20)),
    "15 rows a person": lambda _: Bed(normals(2, 0), lambda a, b: norm(0.5 * a + 0.5 * b, 1), visits=15),
    "5 rows a person": lambda _: Bed(normals(2, 0), lambda a, b: norm(0.5 * a + 0.5 * b, 1), visits=5),
    # further ones
    "product of three": lambda _: Bed(normals(1, 1, 1), lambda a, b, c: norm(a * b * c, 1), THREE),
    "slope by site": lambda rng: levels(1.2 * rng.standard_normal(8), 3, 0.0, category=True, slopes=True),
    "counts": lambda _: Bed(normals(1, 1), lambda a, b: stats.poisson(np.exp(0.5 + 0.4 * a * b)), PAIR),
    "heavy tails": lambda _: Bed(sex_and_age, lambda *x: stats.t(3, by_sex(*x)), PAIR),
    "skewed noise": lambda _: Bed(sex_and_age, lambda *x: stats.gamma(2, scale=np.exp(0.5 * by_sex(*x))), PAIR),
    "zero-inflated": lambda _: Bed(sex_and_age, zero_or_more, PAIR),
    "missing not at random": lambda _: Bed(missing_if_large, given_missing),
    "rounded to 5": lambda _: Bed(sex_and_age, lambda *x: norm(120 + 10 * by_sex(*x), 8), PAIR, scale=10.0, step=5.0),
    "two clusters": lambda _: Bed(normals(1, 1), two_clusters, PAIR),
    "cycle and trend": lambda _: Bed(
        column(("uniform", 0, 6), ("uniform", 5, 6)), lambda t: norm(t / 2 + 1.5 * np.sin(6.28 * t), 0.7)
    ),
    "ratio": lambda _: Bed(exps(0, -2), lambda a, b: stats.lognorm(0.15, scale=a / b), (1,)),
    "exclusive or": lambda _: Bed(normals(0.7, 0.7), lambda a, b: norm(np.where(a * b > 0, 1.5, -1.5), 1), PAIR),
    "long-tailed rest": lambda _: Bed(
        column(("standard_t", 2), ("uniform", 3, 9)), lambda a: norm(1.5 * np.arcsinh(a), 1)
    ),
    "larger of two": lambda _: Bed(normals(1, 1), lambda a, b: norm(1.5 * np.maximum(a, b), 0.5), PAIR),
    "switch": lambda _: Bed(normals(1, 1, 1), lambda a, b, c: norm(np.where(c > 0, a, b), 0.5), THREE),
}


# One run


def one_run(name: str, size: int, where: str | float, seed: int, **options: Any) -> list[Figures]:
    """What a run says of the target, rows and features, beside what is true.

    A number in place of `where` shifts the target of half of the inputs by so many standard deviations given the rest.
    """
    rng = stream(seed, "referee", name, size, str(where))
    bed, corner, shift = BEDS[name](rng), where == "corner", 0.0 if isinstance(where, str) else where
    known, (inputs, given) = bed.table(rng, size, visits=bed.visits)[0], bed.table(rng, INPUTS, corner)
    edge = float(np.quantile(bed.model(bed.table(rng, 1000, corner)[0]), 0.7))
    shifted = (np.arange(INPUTS) < INPUTS // 2) & (shift > 0)
    inputs["target"] += shift * shifted * given.std()
    options["reference_groups"] = np.arange(size) // bed.visits if bed.visits > 1 else None
    start = time.process_time()
    result = explained(bed, inputs, known, seed, edge, **options)
    seconds, index, target = time.process_time() - start, columns_of(result), inputs.shape[1] - 2
    measured = decided(result, index.index({target}) if {target} in index else -1, bed.flips(inputs, given, edge))
    moved = bed.moved if corner else (target,) if shift else ()
    true = np.array([target in one and not one.isdisjoint(moved) for one in index])
    measured |= compared(result, true, shifted | corner)
    return [{**measured, "seconds": seconds}]


def one_holdout(name: str, size: int, where: str, seed: int) -> list[Figures]:
    """What the holdout test chooses, beside what is true."""
    rng = stream(seed, "referee", "holdout", name, size, where)
    bed = BEDS[name](rng)
    return [{"holdout": tested(bed, rng, bed.table(rng, size)[0], where == "corner", seed)}]


def explained(bed: Bed, inputs: Any, known: Any, seed: int, edge: float, **options: Any) -> Result:
    """The default call with a decision; options that this version does not have are left out."""
    options = {name: value for name, value in options.items() if name in inspect.signature(explain).parameters}
    options |= {"alpha": ALPHA, "level": LEVEL, "seed": seed, "decide": lambda y: y >= edge}
    return quietly(explain, bed.model, inputs, known, enough=None, **options)


def columns_of(result: Result) -> list[set[int]]:
    """Columns of each subset, in the order of `subset_names`."""
    index = {block.subset.name: set(map(int, block.subset.index)) for block in result.hypotheses.blocks}
    return [index[name] for name in result.subset_names]


def decided(result: Result, alone: int, q: Floats) -> Figures:
    """Intervals and `necessary` of one subset beside the true q; -1 where the column is not tested by itself."""
    calibrated = None if result.control is None else result.control.calibrated
    rows = result.table[result.subset_of == alone].sort_values("input")
    low, high = (rows[name].to_numpy(dtype=float, na_value=np.nan) for name in ("flip_low", "flip_high"))
    q, known, sure = q[: len(rows)], np.isfinite(low), rows.necessary.isin([True]).to_numpy()
    held = ((low <= q + 1e-9) & (q - 1e-9 <= high))[known]
    flagged = not known.any() or (calibrated is not None and not calibrated[alone])
    return {
        "held": None if flagged else float(held.mean()),
        "all_held": None if flagged else bool(held.all()),
        "wrong": float((sure & (q < LEVEL)).sum() / max(1, sure.sum())),
        "necessary": int(sure.sum()),
        "flagged": flagged,  # not calibrated: no statement is made
        "alarm": calibrated is not None and not calibrated.all(),
    }


def compared(result: Result, true: Bools, moved: Bools) -> Figures:
    """FDP at each resolution and TPR below the root, where subsets `true` (S,) of inputs `moved` (n,) are no nulls."""
    of_rows = result.table.resolution.to_numpy(), result.chosen, true[result.subset_of] & moved[result.input_of]
    of_features = result.features.resolution.to_numpy(), result.features.chosen.isin([True]).to_numpy(), true
    out: Figures = {}
    for what, (level, chosen, right) in (("rows", of_rows), ("features", of_features)):
        out[what] = [rates(chosen & (level == k), right)["fdr"] for k in range(int(level.max()) + 1)]
        out[f"{what}_tpr"] = rates(chosen[level > 0], right[level > 0])["tpr"]
    return out


def tested(bed: Bed, rng: np.random.Generator, known: Any, corner: bool, seed: int) -> float:
    """False discovery proportion of the holdout test where the target is but a proxy of what labels hang on.

    From the population the rows are all there is; from the corner there are 200, and the reference.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor

    (train, of_train), (rows, of_rows) = bed.table(rng, 500), bed.table(rng, 200 if corner else len(known), corner)
    means = [given.mean() + given.std() for given in (of_train, of_rows)]
    labels, y = (mean / (np.std(means[0]) + 1e-9) + rng.standard_normal(len(mean)) for mean in means)
    model = HistGradientBoostingRegressor(max_iter=50, random_state=0, categorical_features="from_dtype")
    with warnings.catch_warnings(action="ignore"):
        model.fit(train, labels)
        result = global_importance(model, rows, y, reference=known if corner else None, alpha=ALPHA, seed=seed)
    true = [not one <= {rows.shape[1] - 2, rows.shape[1] - 1} for one in columns_of(result)]
    return rates(result.chosen, np.array(true))["fdr"]


# A model that was fitted on the reference (METHODS 19)

TABLES, MODELS = ("diabetes", "wine", "breast_cancer", "credit", "friedman"), ("forest", "boosting", "network")


def table_of(name: str) -> tuple[Array, Array, Bools]:
    """Rows of at most ten columns, labels, and which rows are of one kind."""
    from sklearn import datasets

    if name == "credit":
        frame, defaulted, _ = credit(600)
        return frame.select_dtypes("number").dropna(axis=1).to_numpy(float), 1 * defaulted, ~defaulted
    if name == "friedman":
        rows, y = datasets.make_friedman1(500, 6, noise=2.0, random_state=0)
    else:
        rows, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    y = y if y.dtype.kind == "i" else y / y.std()
    return rows[:, :10], y, {"wine": y != 0, "breast_cancer": y == 1}.get(name, y <= np.median(y))


def one_seen(table: str, model: str, seen: bool, seed: int) -> list[Figures]:
    """Inputs of the reference's kind: is any chosen, and does the run note that the model knows the reference?"""
    from sklearn import ensemble, neural_network

    rows, y, own = table_of(table)
    order = stream(seed, "referee", table).permutation(len(rows))
    rows, y, own = ((rows - rows.mean(axis=0)) / rows.std(axis=0))[order], y[order], own[order]
    a, b = int(0.4 * len(rows)), int(0.7 * len(rows))
    kind, known = "Classifier" if y.dtype.kind == "i" else "Regressor", slice(0, a) if seen else slice(a, b)
    with warnings.catch_warnings(action="ignore"):
        fitted = {
            "forest": getattr(ensemble, f"RandomForest{kind}")(100, random_state=0),
            "boosting": getattr(ensemble, f"HistGradientBoosting{kind}")(max_iter=60, random_state=0),
            "network": getattr(neural_network, f"MLP{kind}")(hidden_layer_sizes=(50,), max_iter=800, random_state=0),
        }[model].fit(rows[:a], y[:a])
        options: Figures = {"target": 0 if kind == "Classifier" else None, "alpha": ALPHA, "seed": seed}
        start = time.process_time()
        result = explain(fitted, rows[b:][own[b:]][:INPUTS], rows[known][own[known]], enough=None, **options)
    told = any(note.code == "reference-seen-by-model" for note in result.notes)
    chose = {"rows": bool(result.chosen.any()), "features": bool(result.features.chosen.isin([True]).any())}
    return [{**chose, "told": told, "seconds": time.process_time() - start}]


# Cells


def run(
    runs: int = 100,
    seed: int = 0,
    workers: int = 2,
    parts: tuple[str, ...] = ("beds",),
    beds: tuple[str, ...] = tuple(BEDS),
    sizes: tuple[int, ...] = (150, 300, 500, 1000),
    where: tuple[str, ...] = ("population", "corner"),
    again: bool = False,
    out: Path | None = None,
    progress: ProgressTo = None,
) -> Figures:
    """Measure `runs` data sets a cell; cells that `out`/referee.json has with as many runs are kept, unless `again`.

    Parts: "beds" (single intervals, shares that are wrong, rows, features), "holdout" (the holdout test),
    "simultaneous" (all intervals of a run together), "seen" (a reference that the model was fitted on), "power" (on
    additive beds). Intervals count where the target is not called not calibrated; `necessary` counts everywhere. Of
    resolutions, the worst is shown.
    """
    parts = checked_names("parts", parts, ("beds", "holdout", "simultaneous", "seen", "power"))
    beds, where = checked_names("beds", beds, BEDS), checked_names("where", where, ("population", "corner"))
    file = None if out is None else out / "referee.json"
    figures: Figures = json.loads(file.read_text("utf-8"))["figures"] if file and file.exists() else {}
    commit = record("referee", "", {}, {})["commit"]
    for part in parts:
        kept: list[Figures] = figures.setdefault(part, [])
        for cell, one in cells(part, beds, sizes, where):
            same = [old for old in kept if cell.items() <= old.items()]
            if not again and any(old["runs"] >= runs and old["seed"] == seed for old in same):
                continue
            tasks = [partial(one, *cell.values(), seed=number) for number in range(seed, seed + runs)]
            found = each(tasks, workers, f"{part}: {', '.join(map(str, cell.values()))}", progress)
            kept[:] = [old for old in kept if old not in same]
            kept.append({**cell, "runs": runs, "seed": seed, "commit": commit, **judged(part, cell, summary(found))})
            if out is not None:
                write(record("referee", "python -m benchmarks referee", {"seed": seed, "runs": runs}, figures), out)
    return figures


def cells(part: str, beds: Sequence[str], sizes: Sequence[int], where: Sequence[str]) -> list[tuple[Figures, Any]]:
    """The cells of a part, each with the function that runs it once."""
    special: dict[str, dict[str, Any]] = {
        "seen": {"table": TABLES, "model": MODELS, "fitted": (True, False)},
        "power": {"bed": [bed for bed in beds if bed in FAIR], "reference": sizes, "shift": (0.7, 3.0, 5.0)},
    }
    axes = special.get(part, {"bed": beds, "reference": sizes, "where": where})
    if part == "holdout":
        axes["bed"] = [bed for bed in beds if "a person" not in bed]
    one = {"holdout": one_holdout, "seen": one_seen}.get(part, partial(one_run, simultaneous=part == "simultaneous"))
    return [(dict(zip(axes, cell, strict=True)), one) for cell in product(*axes.values())]


def summary(found: list[Figures]) -> Figures:
    """Means over runs and their standard errors; of proportions by resolution, those of the worst."""
    out: Figures = {}
    for name in found[0]:
        values = [np.atleast_1d(run[name]) for run in found if run[name] is not None]
        most = max(map(len, values), default=1)
        padded = np.array([np.pad(value.astype(float), (0, most - len(value))) for value in values])
        worst = padded[:, padded.mean(axis=0).argmax()].tolist() if values else []
        mean, error = mean_error(worst) if worst else (None, None)
        out |= {name: mean and round(mean, 4), f"{name}_se": error and round(error, 4)}
    return out


def judged(part: str, cell: Figures, means: Figures) -> Figures:
    """The means with what they miss of issue 24: valid statements, or a column that is called not calibrated."""

    def below(name: str, most: float = ALPHA) -> bool:
        return means[name] is None or bool(means[name] <= most + 2 * means[f"{name}_se"])

    def above(name: str, least: float) -> bool:
        return means[name] is None or bool(means[name] >= least)

    met: dict[str, bool] = {name: below(name) for name in ("rows", "features", "holdout") if name in means}
    if part == "seen":
        met["told"] = above("told", 0.9) if cell["fitted"] else below("told", 0.05)
    elif part == "simultaneous":
        met["all together"] = above("all_held", 0.93) or above("flagged", 0.9)
    elif part == "beds":
        met["decision"] = (above("held", 0.95) and below("wrong")) or above("flagged", 0.9)
        met["silence"] = cell["bed"] not in FAIR or below("alarm", 0.05)
    missed = ", ".join(name for name, ok in met.items() if not ok)
    return {**means, "verdict": f"missed: {missed}" if missed else "met"}
