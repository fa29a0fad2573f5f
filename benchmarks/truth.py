"""Public truth: false discoveries, and precision beside peers, on images and unit cases whose answer is known.

Images are those of benchmarks/tetrominoes.py; unit cases are written after XAI-Units (weighted columns, interactions,
pertinent negatives, conflicts, uncertainty). Three truths are kept apart, each a bool for every input and column:

- planted: the generator put signal there. Suppressors, which help a model to subtract the background, are false.
- used: redrawing the column moves the output of this model at this input. Suppressors are true.
- tested: the null hypothesis of our tests is false, that is, the column is used and, given the other columns, is not
  distributed as in the reference. Only for this one is an error rate proven.

The global question (which columns tell of the response, given the others?) has tables whose columns hold lognormals and
products, and a normal linear sampler, which is wrong there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from benchmarks.attributions import Task, applies, captum_scores, lime_weights, shap_kernel, shap_permutation
from benchmarks.figures import Figures, ProgressTo, checked_names, installed, mean_error, mean_rates, quietly, rates
from benchmarks.tetrominoes import (
    GROUNDS,
    MODELS,
    REDRAWS,
    SCENARIOS,
    SIDE,
    USED,
    Ground,
    Scenario,
    Tetrominoes,
    moved,
    output,
    trained,
)
from benchmarks.where import kept
from butfor import Progress, Result, explain, global_importance
from butfor.evaluation.progress import reporting
from butfor.inference.selection import bh
from butfor.simulate.tables import known_normal
from butfor.streams import stream
from butfor.tabular import from_values, gaussian, residual
from butfor.types import Bools, Floats

ALPHA, INPUTS, EXPLAINED, REFERENCE = 0.1, 16, 5, 300
PACKAGES = ("shap", "lime", "captum", "hidimstat", "quantus", "scikit-learn", "torch")
Truths = dict[str, Bools]  # planted, used, tested: (n, d) each
Values = Callable[..., Floats]
Samplers = dict[tuple[str, int], Any]


@dataclass(frozen=True, eq=False)
class Cell(Task):
    """A model with inputs of known truth; `truth` is what is tested."""

    truths: Truths | None = None
    plain: Any = None  # reference rows
    usual: Any = None  # rows that are made as the inputs are
    side: int | None = None  # of an image
    reads: Callable[[Floats], Bools] | None = None  # which columns the model uses at any rows, where that is known

    def reference(self, count: int) -> Floats:
        return np.asarray(self.plain[:count])

    def training(self, count: int) -> Floats:
        return np.asarray(self.usual[:count])


Made = tuple[Cell, Values, float | None]  # with what a sampler draws, and the accuracy of an image model


def run(
    runs: int = 3,
    seed: int = 0,
    scenarios: Sequence[str] = (*SCENARIOS, "units"),
    tables: int = 10,
    lines: Path | None = None,
    progress: ProgressTo = None,
) -> Figures:
    """Train `runs` models a cell; measure our false discoveries, scores beside peers, and `tables` for the global one.

    A cell is a scenario, a background and a model that can learn it, or a unit case. `lines` is a file that gets a line
    for each cell as soon as it is done; what it has is not measured again.
    """
    scenarios = checked_names("scenarios", scenarios, (*SCENARIOS, "units"))
    makers = [maker for name in scenarios for maker in _makers(name)]
    cells: list[Figures] = []
    samplers: Samplers = {}
    with reporting(progress) as report:
        for done, (names, maker) in enumerate(makers):
            report(Progress(", ".join(names.values()), done, len(makers)))
            given: Figures = {**names, "runs": runs, "seed": seed}
            cells.append(kept(lines, given, partial(one_cell, maker, names, range(seed, seed + runs), samplers)))
        report(Progress("global question", len(makers), len(makers)))
        asked: list[Figures] = [{"columns": name, "tables": tables, "seed": seed} for name in WORLDS if tables]
        answered = [kept(lines, one, partial(global_question, **one)) for one in asked]
    errors, scores = ([row for cell in cells for row in cell[part]] for part in ("errors", "scores"))
    versions = {name: version for name in PACKAGES if (version := installed(name)) is not None}
    sizes = {"alpha": ALPHA, "inputs": INPUTS, "explained": EXPLAINED, "reference": REFERENCE}
    figures: Figures = {"fdr_within_bound": all(row["met"] for row in errors), "sizes": sizes, "versions": versions}
    return {
        **figures,
        "errors": errors,
        "scores": scores,
        "global": [row for one in answered for row in one["methods"]],
    }


def _makers(scenario: str) -> list[tuple[dict[str, str], Callable[[int], Made]]]:
    if scenario == "units":
        return [({"scenario": name}, partial(unit_cell, name)) for name in UNITS]
    made: list[tuple[dict[str, str], Callable[[int], Made]]] = []
    for ground in GROUNDS:
        for model in MODELS:
            if model != "logistic" or scenario == "linear":  # the other scenarios are beyond a linear model
                names = {"scenario": scenario, "ground": ground, "model": model}
                made.append((names, partial(image_cell, cast(Scenario, scenario), ground, model)))
    return made


def one_cell(maker: Callable[[int], Made], names: dict[str, str], seeds: Sequence[int], samplers: Samplers) -> Figures:
    """Return our error rates, a row a sampler, and the scores of all methods, a row a method."""
    chosen: dict[str, list[dict[str, dict[str, float]]]] = {}
    scored: dict[str, list[Figures]] = {}
    accuracy = []
    for seed in seeds:
        cell, values, right = maker(seed)
        accuracy += [] if right is None else [right]
        key = names.get("ground", names["scenario"]), seed  # what is fitted depends on the background alone
        fitted = samplers.setdefault(key, residual(cell.plain))
        tests = {"oracle": (from_values(values), "columns"), "fitted": (fitted, "columns")}
        for name, (sampler, subsets) in {**tests, "fitted, zoom": (fitted, None)}.items():
            result = tested(cell, sampler, subsets)
            chosen.setdefault(name, []).append(judged(result, cell))
            if subsets:
                scored.setdefault(f"butfor, {name}", []).append(scores_of(by_column(result, cell), cell))
        for name, method in PEERS.items():
            if name != "DeepLIFT" or applies(cell, name):
                scores = method(replace(cell, inputs=cell.inputs[:EXPLAINED]))
                scored.setdefault(name, []).append(scores_of(scores, cell))
    errors = []
    for name, each in chosen.items():
        row: Figures = {**names, "sampler": name}
        for truth in each[0]:
            for rate in ("fdr", "tpr"):
                row[f"{rate}, {truth}"], row[f"{rate}_se, {truth}"] = mean_error([one[truth][rate] for one in each])
        errors.append(row | {"met": row["fdr, tested"] <= ALPHA + 2 * row["fdr_se, tested"]})
    learnt = {"accuracy": float(np.mean(accuracy))} if accuracy else {}
    return {
        "errors": errors,
        "scores": [{**names, **learnt, "method": name, **_mean(of)} for name, of in scored.items()],
    }


def tested(cell: Cell, sampler: Any, subsets: Any) -> Result:
    """Run the default test; None: zoom, the default where there is reference data."""
    options = {"alpha": ALPHA, "seed": cell.seed, "control": False, "decide": False}
    return quietly(explain, cell.model, cell.inputs, sampler, subsets=subsets, **options)


def judged(result: Result, cell: Cell) -> dict[str, dict[str, float]]:
    """Return FDR and TPR by truth: a subset is true for an input where one of its columns is.

    A column that is not used at an input may be used once the others of its subset are redrawn with it, as one that a
    switch in the same subset turns on: then the null hypothesis of the subset is false.
    """
    assert cell.truths is not None
    index = {block.subset.name: block.subset for block in result.hypotheses.blocks}
    true = {name: np.zeros(len(result.chosen), bool) for name in cell.truths}
    for j in np.unique(result.subset_of):
        subset, here = index[result.subset_names[j]], np.flatnonzero(result.subset_of == j)
        columns, inputs = np.asarray(subset.index), result.input_of[here]
        for name, truth in cell.truths.items():
            true[name][here] = truth[np.ix_(inputs, columns)].any(axis=1)
        if cell.reads is not None and len(columns) > 1:
            redrawn = np.asarray(cell.sampler(cell.inputs, subset, REDRAWS, stream(cell.seed, "judged", subset.name)))
            used = cell.reads(redrawn).reshape(len(cell.inputs), REDRAWS, -1).any(axis=1)
            true["tested"][here] |= (used & cell.truths["planted"])[np.ix_(inputs, columns)].any(axis=1)
    return {name: rates(np.asarray(result.chosen), truth) for name, truth in true.items()}


def by_column(result: Result, cell: Cell) -> Floats:
    """Return the effects of an input's columns (n, d); columns that are redrawn together share theirs."""
    index = {block.subset.name: np.asarray(block.subset.index) for block in result.hypotheses.blocks}
    made, effects = np.zeros(cell.inputs.shape), result.table.effect.to_numpy(np.float64)
    for i, j, effect in zip(result.input_of, result.subset_of, np.nan_to_num(effects), strict=True):
        made[i, index[result.subset_names[j]]] = effect
    return made[:EXPLAINED]


# Scores


def scores_of(scores: Floats, cell: Cell) -> Figures:
    """Return precision at n for each truth, and rank accuracy and earth mover's closeness to what was planted."""
    assert cell.truths is not None
    made = {f"precision, {name}": precision_at_n(abs(scores), truth) for name, truth in cell.truths.items()}
    made["rank accuracy"] = precision_at_n(scores, cell.truths["planted"])
    made["closeness"] = closeness(scores, cell.truths["planted"], cell.side) if cell.side else np.nan
    return made


def precision_at_n(scores: Floats, truth: Bools) -> float:
    """Return the share of true columns among the n that score highest, n being their number; mean over inputs.

    Of signed scores it is the relevance rank accuracy of Quantus with its defaults. Inputs without a true column, for
    which Quantus returns nan, are left out; ties are broken at random.

    >>> precision_at_n(np.array([[3.0, 1.0, 2.0]]), np.array([[True, True, False]]))
    0.5
    """
    truth = truth[: len(scores)]
    shuffled = np.random.default_rng(0).permuted(np.tile(np.arange(scores.shape[1]), (len(scores), 1)), axis=1)
    order = np.take_along_axis(shuffled, np.argsort(-np.take_along_axis(scores, shuffled, 1), axis=1), 1)
    top = [row[best[: row.sum()]].mean() for row, best in zip(truth, order, strict=True) if row.any()]
    return float(np.mean(top)) if top else float("nan")


def closeness(scores: Floats, truth: Bools, side: int) -> float:
    """Return 1 - earth mover's distance from |scores| to the true pixels, in units of the diagonal of the image."""
    from scipy.stats import wasserstein_distance_nd

    places = np.indices((side, side)).reshape(2, -1).T.astype(np.float64)
    apart = []
    for one, true in zip(np.abs(scores), truth, strict=False):
        heavy = one > 1e-3 * one.max()
        apart.append(wasserstein_distance_nd(places[heavy], places[true], one[heavy]) if heavy.any() else np.nan)
    return float(1 - np.nanmean(apart) / ((side - 1) * 2**0.5)) if np.isfinite(apart).any() else float("nan")


def _mean(rows: list[Figures]) -> Figures:
    made: Figures = {}
    for name in rows[0]:
        known = [row[name] for row in rows if np.isfinite(row[name])]
        made[name], made[f"{name}_se"] = mean_error(known) if known else (None, None)
    return made


# Images


def image_cell(scenario: Scenario, ground: Ground, model: str, seed: int) -> Made:
    """Return a trained model with images and their truths, the oracle's values, and the accuracy on 2,000 images."""
    world = Tetrominoes(scenario, ground)
    rng = stream(seed, "truth", scenario, ground, model)
    predict = partial(output, weights=(weights := trained(model, world, seed)))
    images, _, patterns = world.images(rng, INPUTS)
    others, labels, _ = world.images(rng, 2000)
    plain = world.background(stream(seed, "reference", ground), REFERENCE)
    values = known_normal(world.covariance).values
    far = moved(predict, images, values, rng)
    used = far > USED * far.max(axis=1, keepdims=True)
    truths = _truths(world.planted(patterns), used, world.unusual(images, patterns))
    given = (f"{scenario}, {ground}, {model}", seed, images, predict, from_values(values), truths["tested"], weights)
    cell = Cell(*given, truths=truths, plain=plain, usual=others, side=SIDE)
    return cell, values, float(np.mean((predict(others) > 0) == labels))


def _truths(planted: Bools, used: Bools, unusual: Bools) -> Truths:
    return {"planted": planted, "used": used, "tested": used & unusual}


# Unit cases: 12 independent columns, of which some inputs have some that are unusual

WIDTH, SHARE, SHIFT, RARE = 12, 0.2, 4.0, 0.002
WEIGHTS = np.array([1.0, 1.5, 2.0, 2.5, 3.0, 3.5])


@dataclass(frozen=True)
class Unit:
    """A model of 12 columns, which of them are 0 or 1 (and how often 1), and which it uses at an input."""

    model: Callable[[Any], Floats]
    used: Callable[[Floats], Bools]  # (n, 12) -> (n, 12), by construction
    ones: Floats  # the share of ones; nan: a standard normal column


def _softmax(rows: Any) -> Floats:
    """Three logits from a column each; three more columns add to all of them, which no probability shows."""
    logits = rows[:, :3] * 2 + rows[:, 3:6].sum(axis=1, keepdims=True)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers[:, 0] / powers.sum(axis=1))


_NORMAL = np.full(WIDTH, np.nan)
_FIRST = np.arange(WIDTH) < 6
UNITS: dict[str, Unit] = {
    "weights": Unit(lambda x: x[:, :6] @ WEIGHTS, lambda x: np.tile(_FIRST, (len(x), 1)), _NORMAL),
    "interaction": Unit(  # columns 3 to 5 are switches
        lambda x: (x[:, :3] * (x[:, 3:6] > 0)) @ WEIGHTS[3:],
        lambda x: np.hstack([x[:, 3:6] > 0, np.ones((len(x), 3), bool), np.zeros((len(x), 6), bool)]),
        _NORMAL,
    ),
    "pertinent negatives": Unit(  # what counts is that a column that is nearly always there is missing
        lambda x: (x[:, :6] == 0) @ WEIGHTS, lambda x: np.tile(_FIRST, (len(x), 1)), np.full(WIDTH, 1 - RARE)
    ),
    "conflict": Unit(  # columns 3 to 5 cancel those before them
        lambda x: (x[:, :3] * (1 - x[:, 3:6])) @ WEIGHTS[3:],
        lambda x: np.hstack([x[:, 3:6] == 0, np.ones((len(x), 3), bool), np.zeros((len(x), 6), bool)]),
        np.where((np.arange(WIDTH) >= 3) & _FIRST, 0.5, np.nan),
    ),
    "uncertainty": Unit(_softmax, lambda x: np.tile(np.arange(WIDTH) < 3, (len(x), 1)), _NORMAL),
}


def usual_rows(ones: Floats, rng: np.random.Generator, count: int) -> Floats:
    """Return rows of the reference: independent columns, normal or binary."""
    uniform, normal = rng.random((count, len(ones))), rng.standard_normal((count, len(ones)))
    return np.where(np.isnan(ones), normal, uniform < np.nan_to_num(ones)).astype(np.float64)


def unit_cell(name: str, seed: int) -> Made:
    """Return a unit case with its inputs: a normal column is moved up, a rarely missing one is missing."""
    unit, rng = UNITS[name], stream(seed, "unit", name)

    def values(inputs: Any, subset: Any, draws: int, rng: np.random.Generator) -> Floats:
        return usual_rows(unit.ones[subset.index], rng, len(inputs) * draws)

    inputs = usual_rows(unit.ones, rng, INPUTS)
    planted = (rng.random(inputs.shape) < SHARE) & (np.isnan(unit.ones) | (unit.ones > 0.9))
    inputs = np.where(planted, np.where(np.isnan(unit.ones), inputs + SHIFT, 0.0), inputs)
    truths = _truths(planted, unit.used(inputs), planted)
    plain, others = (usual_rows(unit.ones, stream(seed, "unit", name, what), 2000) for what in ("plain", "others"))
    given = (name, seed, inputs, unit.model, from_values(values), truths["tested"])
    return Cell(*given, truths=truths, plain=plain[:REFERENCE], usual=others, reads=unit.used), values, None


# Peers: each gives a number to every column of every input, and no error rate


def pattern_local(cell: Cell) -> Floats:
    """PatternLocal (Gjolbye, Haufe & Hansen 2025): a local linear model's weights, times the inputs' local covariance.

    Written anew from its idea: LIME's weights w around x, the covariance S of rows weighted by a Gaussian kernel around
    x (as wide as the median distance), and the pattern S w / (w' S w), which is near 0 for suppressors.
    """
    made = lime_weights(cell, rows := cell.training(2000))
    spread = rows.std(axis=0)
    for row, score in zip(cell.inputs, made, strict=True):
        apart = np.linalg.norm((rows - row) / spread, axis=1)
        local = np.cov(rows.T, aweights=np.exp(-((apart / np.median(apart)) ** 2) / 2))
        weights = score / spread
        score[:] = local @ weights / max(weights @ local @ weights, 1e-12)
    return made


def gradients(cell: Cell, step: float = 1e-4) -> Floats:
    """Saliency: gradients with their signs, by central differences."""
    apart = step * np.eye(cell.width)
    up, down = (cell.model((cell.inputs[:, None] + way).reshape(-1, cell.width)) for way in (apart, -apart))
    return np.asarray((up - down).reshape(cell.inputs.shape) / (2 * step))


PEERS: dict[str, Callable[[Cell], Floats]] = {
    "KernelSHAP": shap_kernel,
    "permutation SHAP": shap_permutation,
    "LIME": lambda cell: lime_weights(cell, cell.training(2000)),  # rows made as the inputs are, for its scale
    "saliency": gradients,
    "DeepLIFT": partial(captum_scores, method="DeepLift", baseline=REFERENCE),
    "PatternLocal": pattern_local,
    "chance": lambda cell: stream(cell.seed, "chance").standard_normal(cell.inputs.shape),
}


# The global question, with a sampler that is wrong

ROWS, COLUMNS, DRAWS = 300, 8, 20
WORLDS: dict[str, Bools] = {"lognormal": np.arange(COLUMNS) % 3 == 0, "product": np.arange(COLUMNS) < 3}


def world(name: str, rng: np.random.Generator, count: int) -> tuple[Floats, Floats]:
    """Return rows and a response that depends on the columns in WORLDS; the others depend on those, not linearly."""
    x, noise = rng.standard_normal((count, COLUMNS)), rng.standard_normal(count)
    if name == "lognormal":
        for column in range(1, COLUMNS):
            x[:, column] = 0.8 * x[:, column - 1] + 0.6 * x[:, column]
        return np.exp(x), x[:, WORLDS[name]].sum(axis=1) + noise
    x[:, 3] = x[:, 0] * x[:, 1] + 0.3 * x[:, 3]
    x[:, 4] = np.abs(x[:, 2]) + 0.3 * x[:, 4]
    return x, 1.5 * x[:, 0] * x[:, 1] + 1.5 * np.abs(x[:, 2]) + noise


def global_question(columns: str, tables: int, seed: int) -> Figures:
    """Return FDR and TPR of each method over tables of 300 rows, with a forest of 300 others."""
    from sklearn.ensemble import RandomForestRegressor

    pairs: dict[str, list[tuple[Bools, Bools]]] = {method: [] for method in GLOBAL}
    for table in range(tables):
        rng = stream(seed, "global", columns, table)
        (x, y), (rows, response) = world(columns, rng, ROWS), world(columns, rng, ROWS)
        forest = RandomForestRegressor(50, min_samples_leaf=3, random_state=table, n_jobs=1).fit(x, y)
        for method, chosen in GLOBAL.items():
            pairs[method].append((quietly(chosen, forest, x, y, rows, response, table), WORLDS[columns]))
    return {"methods": [{"columns": columns, "method": name, **mean_rates(of)} for name, of in pairs.items()]}


def ours(forest: Any, x: Floats, _: Floats, rows: Floats, y: Floats, seed: int, fitted: Any = residual) -> Bools:
    """Our holdout test, with one sampler or the other."""
    made = global_importance(
        forest.predict, rows, y, reference=fitted(x), alpha=ALPHA, seed=seed, subsets="columns", check=False
    )
    return np.asarray(made.chosen)


def cfi(forest: Any, x: Floats, _: Floats, rows: Floats, y: Floats, seed: int) -> Bools:
    """Conditional feature importance of hidimstat with its defaults: ridge plus permuted residuals, a t-test."""
    from hidimstat import CFI

    made = CFI(forest, random_state=seed).fit(x)
    made.importance(rows, y)
    return bh(np.nan_to_num(made.pvalues_, nan=1.0), ALPHA)


def sobol_cpi(forest: Any, x: Floats, _: Floats, rows: Floats, y: Floats, seed: int) -> Bools:
    """Sobol-CPI (Reyero Lobo, Neuvial & Thirion 2025): the loss of the mean output over linear redraws, a t-test."""
    from scipy.stats import ttest_1samp

    rng, p = np.random.default_rng(seed), np.ones(COLUMNS)
    loss = (y - forest.predict(rows)) ** 2
    for column in range(COLUMNS):
        rest, others = (np.column_stack([np.ones(len(a)), np.delete(a, column, axis=1)]) for a in (x, rows))
        fit = np.linalg.lstsq(rest, x[:, column], rcond=None)[0]
        residuals, redrawn = rows[:, column] - others @ fit, np.tile(rows, (DRAWS, 1))
        redrawn[:, column] = np.concatenate([others @ fit + rng.permutation(residuals) for _ in range(DRAWS)])
        without = (y - forest.predict(redrawn).reshape(DRAWS, -1).mean(axis=0)) ** 2
        p[column] = ttest_1samp(without - loss, 0.0, alternative="greater").pvalue
    return bh(np.nan_to_num(p, nan=1.0), ALPHA)


def aico(forest: Any, x: Floats, _: Floats, rows: Floats, y: Floats, __: int) -> Bools:
    """AICO (Giesecke, Horel & Jirachotkulthorn 2025): a sign test of the loss with a column set to its mean."""
    from scipy.stats import binomtest

    p, loss = np.ones(COLUMNS), (y - forest.predict(rows)) ** 2
    for column in range(COLUMNS):
        masked = rows.copy()
        masked[:, column] = x[:, column].mean()
        gain = (y - forest.predict(masked)) ** 2 - loss
        gain = gain[gain != 0]
        p[column] = binomtest(int((gain > 0).sum()), len(gain), alternative="greater").pvalue if len(gain) else 1.0
    return bh(p, ALPHA)


def shap_inference(forest: Any, x: Floats, _: Floats, rows: Floats, __: Floats, ___: int) -> Bools:
    """Intervals of mean squared SHAP values, without bias: products of values from two disjoint backgrounds."""
    import shap
    from scipy.stats import ttest_1samp

    halves = [
        shap.TreeExplainer(forest, part, feature_perturbation="interventional").shap_values(
            rows, check_additivity=False
        )
        for part in (x[:50], x[50:100])
    ]
    return bh(ttest_1samp(halves[0] * halves[1], 0.0, alternative="greater").pvalue, ALPHA)


def split_kci(_: Any, x: Floats, response: Floats, rows: Floats, y: Floats, seed: int, wild: int = 500) -> Bools:
    """A kernel test of conditional independence with regressions from other rows (after Pogodin et al., 2402.13196).

    Kernel ridge regressions, fitted on the first rows, take out of the features of a column and of the response what
    the other columns tell; the product of what is left, times a kernel of the others, is compared with random signs.
    """
    from sklearn.metrics.pairwise import linear_kernel, rbf_kernel

    rng, p = np.random.default_rng(seed), np.ones(COLUMNS)
    mean, spread = x.mean(axis=0), x.std(axis=0)
    x, rows, response, y = (x - mean) / spread, (rows - mean) / spread, response - response.mean(), y - response.mean()
    for column in range(COLUMNS):
        rest, others = np.delete(x, column, axis=1), np.delete(rows, column, axis=1)
        kernels, far = rbf_kernel(others, gamma=1 / COLUMNS), rbf_kernel(rest, others, gamma=1 / COLUMNS)
        ridge = rbf_kernel(rest, gamma=1 / COLUMNS) + 0.1 * np.eye(len(rest))
        smooth = np.linalg.solve(ridge, far).T
        columns = (rbf_kernel, x[:, [column]], rows[:, [column]]), (linear_kernel, response[:, None], y[:, None])
        for kernel, known, seen in columns:
            crossed = smooth @ kernel(known, seen)
            kernels = kernels * (kernel(seen) - crossed - crossed.T + smooth @ kernel(known) @ smooth.T)
        np.fill_diagonal(kernels, 0.0)
        signs = rng.choice([-1.0, 1.0], (wild, len(rows)))
        null = np.einsum("wi,ij,wj->w", signs, kernels, signs, optimize=True)
        p[column] = (1 + (null >= kernels.sum()).sum()) / (wild + 1)  # ties count against us
    return bh(p, ALPHA)


GLOBAL: dict[str, Callable[..., Bools]] = {
    "butfor, residual": ours,
    "butfor, gaussian": partial(ours, fitted=gaussian),
    "CFI": cfi,
    "Sobol-CPI": sobol_cpi,
    "split KCI": split_kci,
    "AICO": aico,
    "SHAP inference": shap_inference,
}
