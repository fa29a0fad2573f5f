"""Global importance: one decision per feature over a data set.

With labels, Q is the population of the data, of which the data itself is a sample: a row is redrawn by a sampler that
was fitted on the reference and on all other folds of the data (METHODS 11 (12)).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from butfor._version import __version__
from butfor.evaluation.calls import Probe, answered, probe
from butfor.evaluation.evaluator import Evaluator, Tolerance, remembering
from butfor.evaluation.hypotheses import Hypotheses, round_sizes, table_hypotheses
from butfor.evaluation.items import content_digest
from butfor.evaluation.journal import journal
from butfor.evaluation.progress import Meter, Progress, reporting
from butfor.evaluation.samplers import SamplerInfo, info_of, name_of
from butfor.evaluation.workers import asked_where, opened, worker_states
from butfor.inference.effects import Effects, Estimates, no_effects
from butfor.inference.features import LEAST_INPUTS, Fit, features
from butfor.inference.features import LEAST_ROWS as features_LEAST_ROWS
from butfor.inference.guarantees import P_RULES
from butfor.inference.holdout import (
    GlobalEvidence,
    LabelScore,
    Measure,
    contrast,
    holdout,
    log_score,
    passes_needed,
    squared_score,
    user_loss,
)
from butfor.inference.holdout import Loss as LossFunction
from butfor.inference.statistics import linked
from butfor.models import Wrapped
from butfor.models.wrap import check_aligned, model_name
from butfor.results.notes import failures
from butfor.results.record import CheckRecord, FitKind, ImportanceRecord, RunRecord
from butfor.results.result import Result, importance_result
from butfor.results.words import Note, as_note
from butfor.run.holdout import deviations, mean_effects, randomise, randomise_covariance
from butfor.run.run import manifest, model_notes, patient, resolve, target_name
from butfor.run.tests import Outcomes, ReadModel
from butfor.settings import Link, OnError, RunOptions, Settings, documented
from butfor.streams import stream
from butfor.tabular.calibration import conditional_faults, draw_ranks
from butfor.tabular.check import SamplerCheck, check_table
from butfor.tabular.donors import reference_rows
from butfor.tabular.explain import default_batch_rows, fit_of, held_out_hypotheses, name_row, read_model
from butfor.tabular.forest import forest
from butfor.tabular.neighbours import neighbours
from butfor.tabular.residual.design import Design
from butfor.tabular.residual.regression import best_penalty, ridge
from butfor.tabular.splice import TableSampler, bind_model, bind_sampler, splice
from butfor.tabular.subsets import column_subsets, stand_ins, told_groups
from butfor.tabular.table import Table, items_of
from butfor.types import (
    Alternative,
    Array,
    Batch,
    Bools,
    Floats,
    InputError,
    Ints,
    Model,
    ReachWarning,
    Subset,
    one_of,
    warn_user,
    whole,
)

DRAWS, EFFECT_DRAWS = 20, 20
PASSES, MOST_PASSES = 999, 9_999
Loss = Literal["squared", "log"] | Callable[[Array, Array], Any]
NO_REFERENCE = (
    "global_importance without labels compares the data with a reference; give reference data or a sampler, or labels "
    "as y= to ask which features the model's skill rests on"
)


@documented
def global_importance(
    model: object,
    X: object,
    y: ArrayLike | None = None,
    *,
    reference: object = None,
    sampler: object = None,
    reference_groups: ArrayLike | None = None,
    subsets: str | Sequence[Any] | Mapping[Any, Any] | None = None,
    loss: Loss | None = None,
    passes: int | None = None,
    check: bool = True,
    alpha: float = 0.1,
    rule: str | None = None,
    alternative: Alternative | None = None,
    target: Hashable = None,
    link: Link | None = None,
    draws: int | None = None,
    exact: bool = True,
    seed: int = 0,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
    options: RunOptions | None = None,
    workers: object = None,
    run_dir: str | PathLike[str] | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
    batch_rows: int | None = None,
    timeout: float | None = None,
    on_error: OnError | None = None,
) -> Result:
    """Which features matter over the whole of `X`: one decision each, with the false discovery rate under control.

    With labels, the holdout randomisation test: "does the model's skill rest on this feature?" Without, the contrast:
    "is this feature as in the reference?" With a sampler of your own, which is taken to be right, p-values are exactly
    valid at any number of draws and passes. A sampler that is fitted is not: the contrast then counts the error of the
    fit (Student's t, approximate), and the holdout test redraws every row by a fit on the reference and the other folds
    of `X`. The effect of a subset is the mean increase of the loss when it is redrawn, or the mean output minus the
    mean counterfactual one, with a 95 % interval over inputs; the inputs are those that chose it, so a false discovery
    looks better than it is.

    Parameters
    ----------
    model : any black box, as in `butfor.explain`.
    X : an array or a frame with a row for each input.
    y : labels of rows that the model was not fitted on; `target`, `link` and `alternative` are for the contrast only.
    reference : reference data: with labels of the *population* of `X`, None for `X` itself; without, of what you
        compare against, since with one of the population of `X` nothing can be found.
    sampler : a sampler in place of reference data.
    reference_groups : a label for each row of the reference (of `X` where none is given), equal for rows that are not
        independent, such as those of one person: they are one cluster in fits, folds and checks.
    subsets : what to test: None for each column and for groups of columns that tell each other in the reference,
        "columns" for each column only, a list of columns, or a mapping name -> columns.
    loss : "squared", "log" or a function `(y, outputs) -> (n,)`; None is "log" for class probabilities, else "squared".
    passes : recombinations of the draws, at no model rows; None is 999, or what a lone signal needs, to 9,999.
    check : whether a fitted sampler is checked on rows that it has not seen: `result.check`. With labels, `forest` or
        `neighbours` take the place of `residual` where that fails and they do not; a subset on which all fail is not
        tested, and `result.table` says why. What the sampler is off by there on average counts in the contrast as an
        error of the fit.
    rule : "bh", "by", "holm" or "bonferroni"; None is "bh".
    draws : of each input and subset, at `draws + 1` model rows; None is 20, "two-sided" needs at least 2. The contrast
        with a fitted sampler makes at least 32.
    exact : the contrast of an ensemble of trees with a fitted sampler takes the sampler's own mean in place of draws,
        where its chances are known; False turns that off.
    {settings}

    Returns
    -------
    Result
        One row per subset: `table`, `chosen`, `features`, `guarantee`, `summary()`, `report(path)`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows, noise = rng.normal(size=(200, 4)), rng.normal(size=200)
    >>> result = global_importance(lambda X: X[:, 0] + X[:, 1], rows, y=rows[:, 0] + noise)
    >>> result.table[result.chosen].subset.tolist()
    ['x0']
    """
    named = locals()
    one_of("rule", rule or "bh", tuple(P_RULES))
    settings = Settings.of({**named, "y": None}, test="irt", rule="bh", draws=DRAWS)
    if sampler is not None and reference is not None:
        raise InputError("got a sampler and a reference; give one of them")
    sampler = reference if sampler is None else sampler
    passes = None if passes is None else whole("passes", passes, 1)
    if sampler is None and y is None:
        raise InputError(NO_REFERENCE)
    wrapped = bind_model(model, X)  # what it cannot take is refused before anything is fitted
    if y is not None:
        _check_labels(y, X, loss)
    table, fitted = bind_sampler(X, X if sampler is None else sampler, reference_groups=reference_groups)
    tested = column_subsets(table, subsets)
    alike = np.unique(table.values, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    if isinstance(fitted, TableSampler):
        values = fitted.reference_values
        if subsets is None:
            tested += told_groups(replace(table, values=values))
        if fitted.clusters is not None and np.array_equal(values, table.values, equal_nan=True):
            alike = fitted.clusters
    if y is not None and isinstance(fitted, TableSampler) and fitted.refit is not None:
        fitted = cross_fitted(fitted, table, alike, len(tested), settings.seed)
    hypotheses = table_hypotheses(items_of(table), table.index, tested, fitted, settings.seed)
    inside = read_model(model, wrapped, hypotheses, table, settings) if y is None else None
    task = ImportanceRun(hypotheses, table, wrapped, alike, settings, passes, check, model_name(model), inside)
    if settings.options.on_error == "skip":
        # Inputs that the model fails on are left out: they say nothing of any subset, as if all their versions were
        # equal. So it is with draws that it fails on, and the observed row stays one of its draws.
        with opened(settings.options.workers) as engine:
            model = asked_where(engine, wrapped.call, settings.options.timeout)
            _, bad = answered(hypotheses.items, model, task.batch_rows, partial(name_row, table))
        if bad:
            good = np.setdiff1d(np.arange(len(hypotheses.items)), list(bad))
            rest = named | {"X": _rows(X, good), "y": None if y is None else _rows(y, good)}
            result = global_importance(**rest)
            note = Note("inputs-left-out", "warning", failures(bad, len(hypotheses.items)))
            return replace(result, run_notes=(note, *result.run_notes), rows=result.rows + len(hypotheses.items))
    labels = None if y is None else content_digest(np.asarray(y, dtype=object).tolist())
    about = {"labels": f"digest {content_digest([labels, loss, passes]).hex():>40}"}
    return _importance(task, partial(_measured, X, y, loss), about)


def _rows(given: Any, rows: Ints) -> Any:
    if hasattr(given, "iloc"):
        return given.iloc[rows]
    return given[rows.tolist()] if hasattr(given, "columns") else np.asarray(given)[rows]


@dataclass(frozen=True, eq=False)
class ImportanceRun:
    hypotheses: Hypotheses
    table: Table
    wrapped: Wrapped
    alike: Ints  # (n,) equal for equal rows
    settings: Settings
    passes: int | None
    check: bool
    model_name: str
    read_model: Callable[[Model, Floats], ReadModel] | None  # how to read it; None: it has to be evaluated

    @property
    def batch_rows(self) -> int:
        return self.settings.options.batch_rows or default_batch_rows(self.table)


@dataclass(frozen=True, eq=False)
class Measured:
    """The measure that is summed over inputs, and its fields of the record."""

    measure: Measure
    described: dict[str, Any]
    score: LabelScore | None = None  # of a loss that is known


def _importance(
    task: ImportanceRun, measured_of: Callable[[Settings, Probe, Wrapped], Measured], about: dict[str, str]
) -> Result:
    hypotheses, settings, call, size = task.hypotheses, task.settings, task.wrapped.call, task.batch_rows
    options = settings.options
    tolerance = Tolerance(options.on_error == "skip", options.timeout)

    def described() -> dict[str, str]:
        return manifest(hypotheses, task.model_name, call, size, settings) | about

    with (
        opened(options.workers) as engine,
        journal(engine, asked_where(engine, call, options.timeout), options.run_dir, described) as kept,
        reporting(options.progress) as report,
    ):
        model = patient(kept.model, tolerance)
        seen = probe(model, hypotheses.items, size, partial(name_row, task.table))
        measured = measured_of(settings, seen, task.wrapped)
        meter = Meter(report, seen.rows, partial(worker_states, kept.engine))
        task, check = _checked(task, measured, meter)
        hypotheses, plan = task.hypotheses, _plan(task, measured, seen)
        if plan.inside.rows:
            meter.count(plan.inside.rows, plan.inside.rows, 0)
        warned, subsets = list[Note](), len(hypotheses.subset_names)
        needed = passes_needed(settings.rule, settings.alpha, subsets)
        if 0 < plan.passes < needed:
            values = {"passes": plan.passes, "least": plan.passes + 1, "rule": settings.rule, "subsets": subsets}
            warned.append(Note("passes-limit", "limit", {**values, "alpha": settings.alpha, "needed": needed}))
            warn_user(str(warned[0]), ReachWarning)
        memory, failed = remembering(hypotheses, seen.outputs), dict[int, str]()
        evaluator = Evaluator(call, size, seen.outputs.shape[1], meter, memory, engine=kept.engine)
        evaluator = replace(evaluator, tolerance=tolerance, failed=failed, remembered=model)
        result = _tested(task, evaluator, measured, plan, meter, check)
        kept.finish()
    if failed:
        warned.append(Note("pairs-left-out", "warning", failures(failed, hypotheses.size)))
    if isinstance(hypotheses.sampler, CrossFitted) and hypotheses.sampler.others:
        others = {name: other.fits[0].name for name, other in hypotheses.sampler.others.items()}
        warned.append(Note("sampler-by-column", "info", {"samplers": others}))
    notes = (*warned, *model_notes(seen), *map(as_note, plan.inside.notes))
    return replace(result, run_notes=notes, rows=meter.rows)


def _record(
    task: ImportanceRun, plan: Plan, described: dict[str, Any], passes: int, check: SamplerCheck | None
) -> RunRecord:
    hypotheses, sampler, outcomes = task.hypotheses, task.hypotheses.sampler, plan.inside.outcomes
    table, fitted = task.table, sampler.fits[0] if isinstance(sampler, CrossFitted) else sampler
    if isinstance(fitted, TableSampler):  # columns that repeat each other in its reference
        table = replace(table, values=fitted.reference_values)
    importance = ImportanceRecord(
        inputs=len(hypotheses.items),
        passes=passes,
        fit=plan.fit,
        loss=described.pop("loss", None),
        classes=described.pop("classes", ()),
        stand_ins=tuple(map(tuple, stand_ins(table))),
        why=str(sampler.why) if isinstance(sampler, TableSampler | CrossFitted) and sampler.why else None,
        check=None if check is None else CheckRecord(check.subset_names, check.verdicts, check.ok, check.sentence),
    )
    return RunRecord(
        draws=plan.draws,
        seed=task.settings.seed,
        inputs=task.table.record(),
        exact=0 if outcomes is None else len({id(block.subset) for block in outcomes.split(hypotheses)[0]}),
        sampler=repr(sampler),
        assumes=info_of(sampler).assumes,
        dependence_ignored=info_of(sampler).ignores_dependence,
        version=__version__,
        importance=importance,
        **described,
    )


def _checked(task: ImportanceRun, measured: Measured, meter: Meter) -> tuple[ImportanceRun, SamplerCheck | None]:
    """Check a fitted sampler on rows it has not seen; return the run with rivals for subsets on which it fails."""
    sampler, seed, subsets = task.hypotheses.sampler, task.settings.seed, task.hypotheses.subsets
    if not task.check or not isinstance(sampler, TableSampler | CrossFitted):
        return task, None
    meter.stage("check", None)
    if measured.described["test"] == "contrast":
        return task, check_on_reference(sampler, task.table, subsets, seed)
    check = check_on(sampler, task.table, subsets, seed)
    if check is None or not isinstance(sampler, CrossFitted):
        return task, check
    sampler, check = _replaced(task, sampler, check)
    return replace(task, hypotheses=replace(task.hypotheses, sampler=sampler)), check


RIVALS: tuple[Callable[[Any], TableSampler], ...] = (forest, neighbours)
NO_WORSE = 0.02  # share of the margin's score that a rival may explain less than the sampler that it replaces


def _replaced(task: ImportanceRun, sampler: CrossFitted, check: SamplerCheck) -> tuple[CrossFitted, SamplerCheck]:
    """Return the sampler, and its check, with a rival for each subset on which it fails and the rival passes.

    Of several the one with the best score; one that passes only because its draws are wide has a bad one. Rows decide,
    and neither labels nor the model are looked at, so the test is as valid as it is with each of the samplers.
    """
    names = [name for name, verdict in zip(check.subset_names, check.verdicts, strict=True) if verdict != "ok"]
    rejected = [subset for subset in task.hypotheses.subsets if subset.name in names]
    position = {name: k for k, name in enumerate(check.subset_names)}
    checks, verdicts, others = list(check.checks), list(check.verdicts), dict[str, CrossFitted]()
    for make in RIVALS if rejected and sampler.fits[0].name == "residual" else ():
        try:
            fits = tuple(replace(make(fit.reference), order=fit.order) for fit in sampler.fits)
        except InputError:  # too few rows for it
            continue
        rival = CrossFitted(fits, sampler.table, sampler.folds)
        judged = check_on(rival, task.table, rejected, task.settings.seed)
        assert judged is not None  # there are as many rows as before
        for name, verdict, one in zip(judged.subset_names, judged.verdicts, judged.checks, strict=True):
            k = position[name]
            least = checks[k].scores.explained - (0 if name in others else NO_WORSE)
            if verdict == "ok" and one.scores.explained >= least:
                others[name], checks[k], verdicts[k] = rival, one, verdict
    return replace(sampler, others=others), replace(check, checks=tuple(checks), verdicts=tuple(verdicts))


@dataclass(frozen=True, eq=False)
class Plan:
    """The test of the subsets; effects come from draws of their own where the test gives none."""

    run: Callable[[Evaluator], tuple[GlobalEvidence, Effects | None]]
    draws: int
    passes: int  # 0: by Student's t
    fit: FitKind
    inside: ReadModel = field(default_factory=ReadModel)


def _plan(task: ImportanceRun, measured: Measured, seen: Probe) -> Plan:
    """Return the test for the sampler: known, or fitted."""
    hypotheses, settings, measure = task.hypotheses, task.settings, measured.measure
    draws = settings.draws_for(hypotheses.size)
    crossed, test = isinstance(hypotheses.sampler, CrossFitted), measured.described["test"]
    fitted = crossed or isinstance(hypotheses.sampler, TableSampler)
    if fitted and test == "contrast" and len(np.unique(task.alike)) >= LEAST_INPUTS:  # a mean is nearly normal
        draws = max(draws, LEAST_DRAWS)
        fit = fit_of(hypotheses)
        assert fit is not None
        if fit.rows < features_LEAST_ROWS:
            raise InputError(
                f"the reference has {fit.rows} rows, too few to tell how far off a sampler fitted on them is; give at "
                f"least {features_LEAST_ROWS}, or a sampler of your own that is right"
            )
        fit = replace(fit, mean_leverage=np.maximum(fit.mean_leverage, 1 / fit.rows))  # a mean of m rows at the least
        inside = ReadModel() if task.read_model is None else task.read_model(task.wrapped.call, seen.outputs)
        outcomes = inside.outcomes
        if outcomes is not None:
            inside = replace(inside, notes=(Note("exact-means", "info"),))
            draws = draws if outcomes.split(hypotheses)[1] else 0

        def contrasted(made: Evaluator) -> tuple[GlobalEvidence, Effects]:
            off = _off(task, made, draws, outcomes) if task.check else None
            return _student(task, made, measure, fit, draws, outcomes, off)

        return Plan(contrasted, draws, 0, "counted", inside)
    needed = passes_needed(settings.rule, settings.alpha, len(hypotheses.subset_names))
    passes = int(np.clip(needed, PASSES, MOST_PASSES)) if task.passes is None else task.passes
    score = measured.score
    kind: FitKind = "cross-fitted" if crossed else "known"
    if fitted and not crossed:
        kind = "reference alone" if test == "holdout" else "taken as right"
    if not fitted or score is None:
        return Plan(lambda made: (randomise(hypotheses, made, measure, draws, passes), None), draws, passes, kind)
    rest = label_rest(task.table, hypotheses.subsets)
    others = hypotheses.sampler.others if isinstance(hypotheses.sampler, CrossFitted) else {}
    gated = np.isin(hypotheses.subset_names, list(others))

    def run(made: Evaluator) -> tuple[GlobalEvidence, None]:
        return randomise_covariance(hypotheses, made, measure, score, seen.rounding, rest, draws, passes, gated), None

    return Plan(run, draws, passes, kind)


def _tested(
    task: ImportanceRun, evaluator: Evaluator, measured: Measured, plan: Plan, meter: Meter, check: SamplerCheck | None
) -> Result:
    """Return the evidence on each subset, which are chosen by it, and their effects; none on which the check failed."""
    hypotheses, settings, draws, known = task.hypotheses, task.settings, plan.draws, evaluator.memory is None
    versions = draws + len(round_sizes(draws, hypotheses.round_draws))
    meter.stage("global", hypotheses.size * versions if known else None)
    evidence, effects = plan.run(evaluator)
    record = _record(task, plan, measured.described, evidence.passes, check)
    first = no_effects(len(evidence.p)) if effects is None else effects
    result = importance_result(
        hypotheses, record, evidence, first, alpha=settings.alpha, rule=settings.rule, check=check
    )
    count = int(result.chosen.sum())
    meter.set_chosen(count)
    if effects is not None:
        return result
    meter.stage("effects", count * len(hypotheses.items) * (EFFECT_DRAWS + 1) if known else None)
    if not count:
        return result
    classes, chosen = evidence.classes, result.chosen
    return replace(result, effects=mean_effects(hypotheses, evaluator, measured.measure, chosen, classes, EFFECT_DRAWS))


def _measured(X: object, y: object, loss: Loss | None, settings: Settings, seen: Probe, wrapped: Wrapped) -> Measured:
    """Return what is summed over inputs: the loss where there are labels, else the output."""
    if y is None:
        return _contrast(loss, settings, seen, wrapped)
    for name in ("target", "link", "alternative"):
        if (value := vars(settings)[name]) is not None:
            raise InputError(f"{name} is for the contrast without labels, got {name}={value!r} with y; drop it")
    return _holdout(_aligned(y, X, len(seen.outputs)), loss, seen, wrapped)


def _check_labels(y: object, X: object, loss: Loss | None) -> None:
    """Refuse labels that no loss can be told from, before anything is fitted or evaluated."""
    labels = _aligned(y, X, len(X) if isinstance(X, Sized) else len(np.asarray(X)))
    if callable(loss) or labels.ndim != 1 or len(labels) < 2:
        return
    first = labels[0]
    if (labels == first).all():
        value = first.item() if isinstance(first, np.generic) else first
        raise InputError(
            f"y is {value!r} in all {len(labels)} rows, so nothing can be told about the model's skill; give rows with "
            "different labels"
        )


def _aligned(y: object, X: object, count: int) -> Array:
    import pandas as pd

    labels = np.asarray(y)
    if labels.ndim == 0 or len(labels) != count:
        got = "one value" if labels.ndim == 0 else f"{len(labels)} labels"
        raise InputError(f"y has {got} for {count} rows of data; give one for each row")
    check_aligned(y, X)
    missing = pd.isna(labels).reshape(count, -1).any(axis=1)
    if missing.any():
        raise InputError(f"y has a missing value in row {int(np.flatnonzero(missing)[0])}; drop rows without a label")
    return labels


def _holdout(y: Array, loss: Loss | None, seen: Probe, wrapped: Wrapped) -> Measured:
    observed, outputs = seen.outputs, seen.outputs.shape[1]
    name = ("squared" if outputs == 1 else "log") if loss is None else loss
    measured: LossFunction
    score: LabelScore | None = None
    if callable(name):
        measured = user_loss(name, y)
    elif name == "log":  # a single output is the probability of label 1
        if observed.min() < 0 or observed.max() > 1 or (outputs > 1 and np.abs(observed.sum(axis=1) - 1).max() > 1e-3):
            raise InputError("loss='log' needs class probabilities, the outputs are none; give a function as loss=")
        known = (0, 1) if outputs == 1 else (wrapped.classes or tuple(range(outputs)))
        position = {label: k for k, label in enumerate(known)}
        strange = [label for label in y.tolist() if isinstance(label, list) or label not in position]
        if strange:
            raise InputError(f"y has the label {strange[0]!r}, which the model does not know; it has {list(known[:8])}")
        score = log_score(np.array([position[label] for label in y.tolist()]), outputs)
        measured = score.losses
    else:
        one_of("loss", name, ("squared", "log"))
        if outputs != 1:
            raise InputError(f"loss='squared' needs a model with one output, this one has {outputs}; use loss='log'")
        if y.ndim != 1 or y.dtype.kind not in "fiub":
            raise InputError(f"loss='squared' needs y of shape (n,) and numeric, got {y.dtype} of shape {y.shape}")
        score = squared_score(y.astype(np.float64))
        measured = score.losses
    every = np.arange(len(observed))
    all_rows, half = measured(every, observed[:, None, :]), measured(every[::2], observed[::2, None, :])
    if not np.allclose(all_rows[::2], half, rtol=1e-6, atol=1e-12):
        raise InputError("loss gives a row another value when other rows are left out; it must look at each row alone")
    described = {"test": "holdout", "loss": name_of(name) if callable(name) else name}
    return Measured(holdout(measured, seen.rounding), described, score)


def _contrast(loss: Loss | None, settings: Settings, seen: Probe, wrapped: Wrapped) -> Measured:
    name, link = target_name(settings.target, seen.outputs.shape[1]), settings.link
    if loss is not None:
        raise InputError("loss needs labels; give them as y=, or drop loss")
    if isinstance(name, str) and name in ("truth", "observed-class"):
        raise InputError(f"target={name!r} is not for global_importance; use 'predicted', a label, or y= for the loss")
    aim = resolve(name, None, seen.outputs, wrapped)
    linked(seen.outputs, link)  # refuses a link that does not fit, before anything is drawn
    direction: Alternative = settings.alternative or ("greater" if aim.kind == "predicted" else "two-sided")
    if direction == "two-sided" and settings.draws == 1:
        raise InputError("alternative='two-sided' needs draws=2 or more: two versions are equally far from their mean")
    described = {"test": "contrast", "target": name, "link": link, "alternative": direction}
    if aim.kind == "predicted":
        called = np.unique(seen.outputs.argmax(axis=1)).tolist()
        labels = [k if wrapped.classes is None else wrapped.classes[k] for k in called]
        described["classes"] = tuple(label.item() if isinstance(label, np.generic) else label for label in labels)
    return Measured(contrast(aim, link, seen.rounding, direction), described)


LEAST_DRAWS = 32  # of each input


def _student(
    task: ImportanceRun,
    evaluator: Evaluator,
    measure: Measure,
    fit: Fit,
    draws: int,
    outcomes: Outcomes | None,
    off: Floats | None,
) -> tuple[GlobalEvidence, Effects]:
    """Return p-values and effects with intervals of all subsets by Student's t; equal inputs count as one.

    `off` (S,) is how far rows of the reference's own kind are from their draws on average.
    """
    moved = deviations(task.hypotheses, evaluator, measure, draws, outcomes)
    gain, spread = moved.gain.reshape(-1), moved.spread.reshape(-1)  # hypotheses stand input by input
    over = features(Estimates(gain, gain, gain, gain, spread), None, fit, 0.5, task.alike, off=off)
    assert over is not None  # there are enough inputs and rows
    p = np.where(moved.varied, one_sided(over.p, over.effect, measure.alternative), 1.0)
    evidence = GlobalEvidence(p, moved.varied, moved.statistic, over.effect, moved.classes, draws, passes=0)
    return evidence, Effects(over.effect, over.low, over.high)


def _off(task: ImportanceRun, evaluator: Evaluator, draws: int, outcomes: Outcomes | None) -> Floats | None:
    """Return how far rows that their samplers have not seen are from their draws on average (S,); None: no rows."""
    sampler, subsets, seed = task.hypotheses.sampler, task.hypotheses.subsets, task.settings.seed
    held_out = held_out_hypotheses(sampler, task.table, subsets, seed)
    if held_out is None:
        return None
    names, size = held_out.input_names, evaluator.batch_rows
    seen = probe(evaluator.direct, held_out.items, size, lambda row: f"row {names[row]!r} of the reference")
    evaluator.counter.count_evaluated(seen.rows)
    apart = replace(evaluator, memory=None, failed={})  # hypotheses of its own
    measure = _contrast(None, task.settings, seen, task.wrapped).measure
    return np.asarray(deviations(held_out, apart, measure, draws, outcomes).gain.mean(axis=0))


def one_sided(p: Floats, effect: Floats, alternative: Alternative) -> Floats:
    """Return p-values of one direction from two-sided ones of a symmetric distribution.

    >>> one_sided(np.array([0.02, 0.02]), np.array([1.0, -1.0]), "greater")
    array([0.01, 0.99])
    """
    if alternative == "two-sided":
        return p
    agrees = effect > 0 if alternative == "greater" else effect < 0
    return np.where(agrees, p / 2, 1 - p / 2)


FOLDS, FEWEST_FOLDS = 5, 2
MOST_FITS = 400  # subsets x folds: wide tables get fewer folds
LEAST_ROWS = 20  # of what a sampler is fitted on
LEAST_CHECKED, MOST_CHECKED, CHECK_DRAWS = 50, 400, 49  # rows of a check, and draws of each
MOST_SUBSETS = 30  # that are checked: about 10 s


@dataclass(frozen=True, eq=False, repr=False)
class CrossFitted:
    """A sampler for rows that are known: each is redrawn by the fit of a fold that it is not in."""

    fits: tuple[TableSampler, ...]
    table: Table
    folds: Ints  # (n,) the same for equal rows
    others: Mapping[str, CrossFitted] = field(default_factory=dict)  # by subset name, where another one is better

    def __repr__(self) -> str:
        first = self.fits[0]
        others = "".join(f"; {name!r}: {other.fits[0].name}" for name, other in self.others.items())
        return f"{first.name}({first.rows} rows of reference and other folds, {len(self.fits)} folds{others})"

    @property
    def why(self) -> Note | None:
        return self.fits[0].why

    @property
    def info(self) -> SamplerInfo:
        return replace(info_of(self.fits[0]), identity=repr(self))

    @cached_property
    def _fold_of(self) -> dict[bytes, int]:
        return dict(zip(_keys(self.table.values), self.folds.tolist(), strict=True))

    def __call__(self, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator) -> Batch:
        return splice(inputs, subset, draws, rng, self)

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Array:
        if subset.name in self.others:
            return self.others[subset.name].values(inputs, subset, draws, rng)
        folds = np.array([self._fold_of.get(key, 0) for key in _keys(inputs)], np.int64)  # no fit knows other rows
        drawn = np.empty((len(inputs), draws, len(subset.index)), inputs.dtype)
        for fold in np.unique(folds):
            rows = np.flatnonzero(folds == fold)
            drawn[rows] = self.fits[fold].values(inputs[rows], subset, draws, rng).reshape(len(rows), draws, -1)
        return drawn.reshape(-1, len(subset.index))

    def repeats(self, subset: Subset) -> bool:
        return self.others[subset.name].repeats(subset) if subset.name in self.others else self.fits[0].repeats(subset)


def cross_fitted(sampler: TableSampler, table: Table, alike: Ints, subsets: int, seed: int) -> CrossFitted:
    """Return a sampler of the same kind for the rows of `table`: fitted on its reference and the other folds.

    `alike` (n,) is equal for equal rows, which stay together, as do those of one cluster of the reference. Where the
    data stand in the reference, they leave it.
    """
    reference = sampler.reference
    assert sampler.refit is not None
    data = sampler.in_reference_order(table.values).astype(reference.values.dtype)
    kept = ~_repeated(reference.values, data)
    other = reference.values[kept]
    if reference.clusters is not None:
        known = dict(zip(_keys(reference.values), reference.clusters.tolist(), strict=True))
        new = int(reference.clusters.max()) + 1
        alike = np.array([known.get(key, new + row) for key, row in zip(_keys(data), alike.tolist(), strict=True)])
    _, first, unit = np.unique(alike, return_index=True, return_inverse=True)
    units = np.argsort(np.argsort(first))[unit.reshape(-1)]  # numbered as they come, whatever the order of columns
    different = len(first)
    count = int(np.clip(MOST_FITS // max(subsets, 1), FEWEST_FOLDS, FOLDS))
    if len(other) + different * (count - 1) // count < LEAST_ROWS or different < count:
        raise InputError(
            f"{len(other)} reference rows and {different} different rows of data are too few to fit a sampler on; "
            f"give {LEAST_ROWS} or more rows of the population as reference, or a sampler of your own"
        )
    width, rows = data.shape[1], len(other) + different
    if width > rows:
        raise InputError(
            f"there are {width} columns and only {rows} different rows: what one column says given all the others "
            "cannot be told; give more rows of the population as reference, fewer columns, or a sampler of your own"
        )
    folds = stream(seed, "holdout", "folds").permutation(np.arange(different) % count)[units]
    fits = []
    for fold in range(count):
        values = np.concatenate([other, data[folds != fold]])
        pooled = replace(reference, values=values, index=tuple(range(len(values))), row_labels=None)
        if reference.clusters is not None:
            pooled = replace(pooled, clusters=np.concatenate([reference.clusters[kept], alike[folds != fold]]))
        fits.append(replace(sampler.refit(pooled), order=sampler.order, why=sampler.why))
    return CrossFitted(tuple(fits), table, folds)


def _repeated(reference: Array, data: Array) -> Bools:
    """Return which reference rows (m,) are data: it is the data, or holds every row of data whose rows differ."""
    if reference.shape == data.shape and np.array_equal(reference, data, equal_nan=True):
        return np.ones(len(reference), bool)
    known, keys = set(_keys(data)), _keys(reference)
    mostly_different = len(known) > 0.9 * len(data)  # equal rows are then the same ones, and not equal by chance
    if mostly_different and known <= set(keys):
        return np.array([key in known for key in keys], bool)
    return np.zeros(len(reference), bool)


def _keys(values: Array) -> list[bytes]:
    """Return keys by which rows are compared; all missing values are one."""
    plain = np.where(np.isnan(values), np.nan, values.astype(np.float64) + 0.0)
    return [row.tobytes() for row in np.ascontiguousarray(plain)]


def check_on(
    sampler: TableSampler | CrossFitted, table: Table, subsets: Sequence[Subset], seed: int
) -> SamplerCheck | None:
    """Check a sampler on rows that it has not seen; None with too few of them."""
    if len(table.values) < LEAST_CHECKED:
        return None
    rows = np.sort(stream(seed, "holdout", "check").permutation(len(table.values))[:MOST_CHECKED])
    picked = np.sort(stream(seed, "holdout", "subsets").permutation(len(subsets))[:MOST_SUBSETS])
    checked = [subsets[k] for k in picked]
    check = check_table(sampler, table.show(table.values[rows], rows), subsets=checked, draws=CHECK_DRAWS, seed=seed)
    if isinstance(sampler, CrossFitted):  # do the other columns predict ranks among draws?
        # Each row is left out of its own fit only, as in leave-one-out: the check sees less, since it counts the error
        # of one fit that all rows share.
        items, every = replace(items_of(table), values=table.values[rows]), np.arange(len(rows))
        ranked = partial(draw_ranks, table_hypotheses(items, rows.tolist(), checked, sampler, seed))
        values = table.values[rows].astype(np.float64)
        right = conditional_faults(values, checked, lambda one: (every, ranked(one)), seed).calibrated
        pairs = zip(right, check.verdicts, strict=True)
        check = replace(check, verdicts=tuple(verdict if fine else "off-manifold" for fine, verdict in pairs))
    left_out = tuple(subsets[k].name for k in np.setdiff1d(np.arange(len(subsets)), picked))
    if not left_out:
        return check
    note = Note("check-subsets", "info", {"checked": len(checked), "subsets": len(subsets)})
    return replace(check, left_out=left_out, notes=(*check.notes, note))


def check_on_reference(
    sampler: TableSampler | CrossFitted, table: Table, subsets: Sequence[Subset], seed: int
) -> SamplerCheck | None:
    """Check a sampler on rows of its own reference, each redrawn by a fit without it; shown as `table` is."""
    import pandas as pd

    if isinstance(sampler, CrossFitted) or sampler.refit is None or sampler.rows < LEAST_CHECKED:
        return None
    rows = replace(
        table,
        values=sampler.reference_values.astype(table.values.dtype),
        index=tuple(range(sampler.rows)),
        row_labels=None if table.labels is None else pd.RangeIndex(sampler.rows),
    )
    alike = np.unique(rows.values, axis=0, return_inverse=True)[1].reshape(-1)
    return check_on(cross_fitted(sampler, rows, alike, len(subsets), seed), rows, subsets, seed)


def label_rest(table: Table, subsets: Sequence[Subset]) -> Callable[[int, Floats, Floats], Floats]:
    """Return how labels are freed of predictions and of the rest of each row: by ridge regression, on splines."""
    design = Design(reference_rows(table))

    def residuals(subset: int, left: Floats, predicted: Floats) -> Floats:
        """Return the residuals (n, C) of labels less predictions, (n, C) both; it never sees the subset's columns."""
        count = len(left)
        scaled = [(column - column.mean()) / (float(column.std()) or 1.0) for column in predicted.T]
        _, rest = design.rows.parts(subsets[subset])
        form = design.forms(rest, count)[-1]
        features, _ = design.reference(rest, form, np.arange(count))
        regressions = ridge(np.column_stack([features, *scaled]))
        freed = np.empty_like(left)
        for k, wanted in enumerate(left.T):
            penalty = np.array([best_penalty(regressions, wanted)])
            missed, leverage = (part[:, 0] for part in regressions.left_out(wanted[:, None], penalty))
            freed[:, k] = missed * (1 - leverage)
        return freed

    return residuals
