"""The negative control of a run: rows of the reference's own kind go through the same test (METHODS 15)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from butfor.evaluation.calls import probe
from butfor.evaluation.evaluator import Evaluator, Watcher
from butfor.evaluation.hypotheses import Hypotheses, with_stand_ins
from butfor.inference.decisions import Decision
from butfor.inference.effects import mean_beyond_chance
from butfor.inference.selection import COMPETITIONS, Choice, LearningUnits, layers_of_table
from butfor.inference.statistics import StatisticSpec, Target
from butfor.results.result import Control
from butfor.run.tests import Outcomes, choice_of, floors_of, perform
from butfor.run.watchers import DecisionChances, FirstDraws
from butfor.settings import Settings, sequential
from butfor.types import Bools, Floats

LEVEL = 0.01  # of calling any good subset wrong, over all of them
TAILS = (0.05, 0.1)  # where control p-values are counted
MOST_CONTROLS, LEAST_CONTROLS = 200, 40  # rows of the reference that go through the test
LEAST_ROWS = 2_000  # of the model that the control may take, however few the run takes
FEW = {"h": 2, "draws": 39, "center": 4}  # a sequential test whose p-values reach .05, at about 20 rows each
ROWS_EACH, ROWS_FEW = {"sequential": 80, "osft": 3, "few-shot": 12}, 20  # of the model for a null hypothesis, about
SEEN_DRAWS, SEEN_Z, SEEN_SIZE = 8, 2.6, 0.02  # of each row; what tells that the model knows it, of the spread
MOST_KERNELS, RIDGE = 400, 0.1


@dataclass(frozen=True)
class Size:
    """How large a control is: its rows, how many of the subsets (the coarsest), and whether its p-values are rough."""

    rows: int
    subsets: int
    rough: bool = False


def size_of(settings: Settings, inputs: int, subsets: int, *, read: bool) -> Size:
    """Return the largest control that takes no more model rows than the run itself, or 2,000 (METHODS 15).

    Where 40 rows are too many for that, p-values of few draws do, and of the coarsest subsets only. A model that is
    `read` (trees) is not evaluated, so all is done.

    >>> from butfor.settings import Settings
    >>> settings = Settings.of({}, test="sequential")
    >>> size_of(settings, 100, 50, read=False), size_of(settings, 1, 50, read=False)
    (Size(rows=100, subsets=50, rough=False), Size(rows=40, subsets=5, rough=True))
    """
    if read:
        return Size(MOST_CONTROLS, subsets)
    name, e_values = settings.test.name, settings.rule == "e-bh"
    p_values = name in ("sequential", "irt") and not e_values
    run_each = settings.draws_for(inputs * subsets) + 1 if name == "irt" else ROWS_EACH[name]
    each = ROWS_EACH["sequential"] if p_values else run_each
    most = max(LEAST_ROWS // 2, inputs * subsets * run_each)  # the other half is for `seen_by_model`
    rows = most // (subsets * each)
    if rows >= LEAST_CONTROLS:
        return Size(min(rows, MOST_CONTROLS), subsets)
    each = ROWS_FEW if p_values else each
    rows = min(most // (subsets * each), MOST_CONTROLS)
    if rows >= LEAST_CONTROLS:
        return Size(rows, subsets, rough=p_values)
    return Size(LEAST_CONTROLS, int(np.clip(most // (LEAST_CONTROLS * each), 1, subsets)), rough=p_values)


def control(
    hypotheses: Hypotheses,
    evaluator: Evaluator,
    spec: StatisticSpec,
    settings: Settings,
    averaged: Target,
    subsets: int,
    *,
    decision: Decision | None = None,
    outcomes: Outcomes | None = None,
    weights: Floats | None = None,
    rough: bool = False,
) -> Control:
    """The test on rows that their sampler has not seen, of the first of all `subsets` of the run.

    `averaged` is what features are of, which are told by how much these rows are off on average; a `decision` is told
    whether its chances come true. Rows count by their `weights` (n, S), which say how much they are like the inputs. A
    subset whose control p-values are too often small (binomial, all subsets together at .01) is not calibrated.
    """
    quiet = _quiet(settings, rough=rough)
    stopping = replace(quiet, rule="bh") if quiet.rule == "adaptive" else quiet  # weights need all rows together
    width = len(hypotheses.subset_names)
    choice = choice_of(hypotheses, stopping, np.arange(len(hypotheses.items)))
    failed, name = dict[int, str](), "row {} of the reference".format
    if evaluator.tolerance.skip:
        hypotheses, failed = with_stand_ins(hypotheses, evaluator.direct, evaluator.batch_rows, name)
        evaluator.counter.count_evaluated(len(hypotheses.items))
    seen = probe(evaluator.direct, hypotheses.items, evaluator.batch_rows, name)
    evaluator.counter.count_evaluated(seen.rows)
    control_spec = replace(spec, picked=None, rounding=seen.rounding, center=min(spec.center, quiet.test.center or 16))
    first = FirstDraws(hypotheses.size, spec.target, settings.link, seen.rounding, averaged)
    chances = None if decision is None else DecisionChances(hypotheses.size, decision)
    watching: tuple[Watcher, ...] = (first,) if chances is None else (first, chances)
    apart = replace(evaluator, failed=failed, watchers=watching)  # hypotheses of its own
    done = perform(hypotheses, apart, control_spec, stopping, choice, "control", outcomes=outcomes)
    if done.interrupted:
        raise KeyboardInterrupt  # nothing is decided yet that could be returned
    evidence, tested, rows = done.evidence.scaled, done.evidence.drawable, len(hypotheses.items)
    chosen = _pooled(hypotheses, quiet, rows).chosen(evidence, tested).reshape(-1, width)
    gain = first.estimates().gain
    gain[apart.untested(hypotheses.size)] = np.nan
    gain = gain.reshape(-1, width)
    off = mean_beyond_chance(gain, np.ones_like(gain) if weights is None else weights)
    made = None if decision is None else decision(seen.outputs)
    verified = None if chances is None or made is None else chances.forecasts(made, width, weights)
    values = evidence.reshape(-1, width)
    good = calibrated(values) if done.evidence.kind == "p" else None
    rest = (0, subsets - width)  # what was not tested has no p-values and nothing against it
    return Control(
        np.pad(values, ((0, 0), rest), constant_values=np.nan),
        np.pad(chosen, ((0, 0), rest)),
        None if good is None else np.pad(good, rest, constant_values=True),
        np.pad(off, rest),
        verified,
    )


def seen_by_model(rows: Floats, outputs: Floats, target: Target, rng: np.random.Generator) -> float:
    """Return z of the difference between outputs (n, versions, outputs) of reference rows, the first, and redrawn ones.

    Rows and redrawn rows (n, versions, columns) are exchangeable, so that the mean difference of outputs is 0 unless
    the model was fitted on the very rows (METHODS 19). The part of it that a smooth function explains, a kernel ridge
    regression of outputs on the other half of the rows, is taken out as a control variate: memory of single rows is
    what it cannot explain. A model that remembers rows of several kinds has larger residuals there, of either sign. 0
    where the difference is below a fiftieth of the outputs' spread. A reference that was picked by the output (those
    whom the model approves) has no row beyond a threshold that redrawn rows cross: pairs of which both lie within the
    range of the rows' outputs, and are of a class that some row has, are exchangeable again; the others count as no
    difference.
    """
    called = np.zeros(outputs.shape[:2], np.int64)
    if target.kind == "predicted":  # of each version by itself: a model is surer of rows that it knows
        values, called = outputs.max(axis=2), outputs.argmax(axis=2)
    else:
        values = outputs[:, :, 0 if target.classes is None or outputs.shape[2] == 1 else target.classes[0]]
    smooth, half, spread = np.empty_like(values), np.arange(len(values)) % 2, values.std()
    for part in (0, 1):
        smooth[half == part] = _kernel_ridge(rows[half != part], values[half != part], rows[half == part], rng)
    within = (values >= values[:, 0].min()) & (values <= values[:, 0].max()) & np.isin(called, called[:, 0])

    def difference(each: Floats) -> Floats:
        return np.asarray(((each[:, :1] - each[:, 1:]) * within[:, 1:]).mean(axis=1))

    apart, explained, larger = (difference(each) for each in (values, smooth, np.abs(values - smooth)))
    design = np.column_stack([np.ones(len(values)), explained])
    mean, size = (_intercept(y, x, SEEN_SIZE * spread) for y, x in ((apart, design), (larger, design[:, :1])))
    return size if size > SEEN_Z > abs(mean) else mean


def _kernel_ridge(rows: Floats, values: Floats, at: Floats, rng: np.random.Generator) -> Floats:
    """Return predictions (m, versions) at rows (m, versions, columns) of variance 1, from values at other rows."""
    width = rows.shape[2]
    some = rng.permutation(values.size)[:MOST_KERNELS]
    known, y = rows.reshape(-1, width)[some], values.reshape(-1)[some]

    def kernel(points: Floats) -> Floats:
        squares = (points**2).sum(axis=1)[:, None] + (known**2).sum(axis=1) - 2 * points @ known.T
        return np.asarray(np.exp(-squares / (2 * width)))

    weights = np.linalg.solve(kernel(known) + RIDGE * np.eye(len(known)), y - y.mean())
    return np.asarray(y.mean() + kernel(at.reshape(-1, width)) @ weights).reshape(at.shape[:2])


def _intercept(y: Floats, design: Floats, least: float) -> float:
    """Return z of the first coefficient of a linear regression; 0 where it is smaller than `least`."""
    inverse = np.linalg.pinv(design.T @ design)
    first = float((inverse @ (design.T @ y))[0])
    error = y - design @ (inverse @ (design.T @ y))
    variance = inverse[0, 0] * (error**2).sum() / max(len(y) - design.shape[1], 1)
    return first / float(np.sqrt(variance)) if abs(first) > least and variance > 0 else 0.0


def _quiet(settings: Settings, *, rough: bool) -> Settings:
    """The settings of the run for rows of the reference: not picked, all together, with the fewest model rows."""
    rule = "adaptive" if settings.rule == "adaptive-strict" else settings.rule  # of fewer rows than that needs
    test, draws = settings.test, settings.draws
    if rough:
        test, draws = sequential(**FEW), None
    elif test.name == "irt" and rule != "e-bh":  # the same p-values at a fraction of the rows
        test, draws = sequential(center=test.center), None
    return replace(
        settings, test=test, draws=draws, picked=None, family="run", weights_by=None, rule=rule, bounds=False
    )


def _pooled(hypotheses: Hypotheses, settings: Settings, rows: int) -> Choice:
    """The choice over all control rows together, whichever sampler they had."""
    layers, size = hypotheses.layers, len(hypotheses.subset_names)
    if layers is not None:
        layers = layers_of_table(layers.resolution[:size], layers.parent[:size], rows)
    floor = floors_of(hypotheses) if settings.rule in COMPETITIONS else None
    return Choice(
        rule=settings.rule,
        alpha=settings.alpha,
        layers=layers,
        draws=settings.draws_for(hypotheses.size),
        floor=None if floor is None else np.tile(floor[:size], rows),
        units=LearningUnits(np.repeat(np.arange(rows), size), np.tile(hypotheses.subset_of[:size], rows)),
    )


def calibrated(p: Floats) -> Bools:
    """Subsets (S,) whose control p-values (n, S) are not too often small.

    >>> calibrated(np.full((50, 1), 0.01)).tolist(), calibrated(np.linspace(0, 1, 50)[:, None]).tolist()
    ([False], [True])
    """
    from scipy.special import bdtrc

    count, subsets = p.shape
    tails = [bdtrc((p <= tail).sum(axis=0) - 1, count, tail) for tail in TAILS]  # P(as many or more), binomial
    return np.asarray(len(TAILS) * np.min(tails, axis=0) > LEVEL / subsets)
