"""The public edge for one decision per feature over a whole data set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from butfor._version import __version__
from butfor.core.checks import one_of, whole
from butfor.core.draw.blocks import Problem, round_sizes, table_problem
from butfor.core.draw.content import content_digest
from butfor.core.draw.samplers import info_of, name_of
from butfor.core.evaluate.batches import Evaluator
from butfor.core.evaluate.memory import remembering
from butfor.core.evaluate.outputs import linked
from butfor.core.evaluate.probe import Probe, probe
from butfor.core.evaluate.workplace import Tolerance
from butfor.core.result.effects import Effects, mean_effects, no_effects
from butfor.core.result.global_check import rejected_by
from butfor.core.result.global_result import FitKind, GlobalResult, choose
from butfor.core.select.guarantees import P_RULES
from butfor.core.test import losses
from butfor.core.test.contrast import GlobalEvidence, Measure, contrast, holdout, passes_needed, randomise
from butfor.core.test.covariance import LabelScore, log_score, randomise_covariance, squared_score
from butfor.core.test.outcomes import ReadModel
from butfor.core.types import Alternative, Array, Bools, Floats, InputError, Ints, Model, ReachWarning
from butfor.core.warn import warn_user
from butfor.engine.choose import engine_for, worker_states
from butfor.engine.journal import journal
from butfor.models import Wrapped
from butfor.models.wrap import model_name
from butfor.run.manifest import manifest
from butfor.run.progress import Meter, reporting
from butfor.run.settings import Settings, takes
from butfor.run.skipping import Patient, failing_inputs, reasons
from butfor.run.targets import resolve, target_name
from butfor.tabular.bind import bind_model, bind_sampler
from butfor.tabular.check_result import SamplerCheck
from butfor.tabular.control import held_out_problems
from butfor.tabular.explain import default_batch_rows, name_row, read_model
from butfor.tabular.fitted_contrast import LEAST_DRAWS, by_student, enough_inputs, fit_known, fit_on_enough, off_by
from butfor.tabular.holdout import CrossFitted, LabelRest, check_on, check_on_reference, cross_fitted, stand_ins_of
from butfor.tabular.labels import aligned_labels, class_labels, number_labels
from butfor.tabular.splice import TableSampler
from butfor.tabular.subsets import column_subsets
from butfor.tabular.table import Table, items_of

DRAWS, EFFECT_DRAWS = 20, 20
PASSES, MOST_PASSES = 999, 9_999
SHARED = (
    *("alpha", "rule", "alternative", "target", "link", "draws", "exact", "seed", "batch_rows", "workers", "progress"),
    *("rng", "run_dir", "on_error", "timeout"),
)
EXACT = "Exact: the model is an ensemble of trees; mean outputs come from its trees and the sampler, not from draws."
LEFT_OUT = "{bad} of {count} inputs were left out, since the model fails on them: {why}."
NO_EFFECT = "{failed} of {size} pairs of an input and a subset could not be evaluated, and count as no effect: {why}."
Loss = Literal["squared", "log"] | Callable[[Array, Array], Any]
NO_REFERENCE = (
    "global_importance without labels compares the data with a reference; give reference data or a sampler, or labels "
    "as y= to ask which features the model's skill rests on"
)


@takes(SHARED)
def global_importance(
    model: object,
    X: object,
    sampler: object = None,
    y: object = None,
    *,
    subsets: object = None,
    loss: Loss | None = None,
    passes: int | None = None,
    check: bool = True,
    **options: object,
) -> GlobalResult:
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
    sampler : a sampler or reference data: with labels of the *population* of `X`, None for `X` itself; without, of what
        you compare against, since with one of the population of `X` nothing can be found.
    y : labels of rows that the model was not fitted on; `target`, `link` and `alternative` are for the contrast only.
    subsets : what to test: None for each column, a list of columns, or a mapping name -> columns.
    loss : "squared", "log" or a function `(y, outputs) -> (n,)`; None is "log" for class probabilities, else "squared".
    passes : recombinations of the draws, at no model rows; None is 999, or what a lone signal needs, to 9,999.
    check : whether a fitted sampler is checked on rows that it has not seen: `result.check`. A subset on which it fails
        is never chosen. What it is off by there on average counts in the contrast as an error of the fit.
    rule : "bh", "by", "holm" or "bonferroni"; None is "bh".
    draws : of each input and subset, at `draws + 1` model rows; None is 20, "two-sided" needs at least 2. The contrast
        with a fitted sampler makes at least 32.
    exact : the contrast of an ensemble of trees with a fitted sampler takes the sampler's own mean in place of draws,
        where its chances are known; False turns that off.
    **options : settings.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows, noise = rng.normal(size=(200, 4)), rng.normal(size=200)
    >>> result = global_importance(lambda X: X[:, 0] + X[:, 1], rows, y=rows[:, 0] + noise)
    >>> result.table[result.chosen].subset.tolist()
    ['x0']
    """
    one_of("rule", options.get("rule") or "bh", tuple(P_RULES))
    settings = Settings.of(options, test="irt", rule="bh", draws=DRAWS)
    passes = None if passes is None else whole("passes", passes, 1)
    if sampler is None and y is None:
        raise InputError(NO_REFERENCE)
    wrapped = bind_model(model, X)  # what it cannot take is refused before anything is fitted
    table, fitted = bind_sampler(X, X if sampler is None else sampler)
    tested = column_subsets(table, subsets)
    alike = np.unique(table.values, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    if y is not None and isinstance(fitted, TableSampler) and fitted.again is not None:
        fitted = cross_fitted(fitted, table, alike, len(tested), settings.seed)
    problem = table_problem(items_of(table), table.index, tested, fitted, settings.seed)
    inside = read_model(model, wrapped, problem, table, settings) if y is None else None
    asked = ImportanceRun(problem, table, wrapped, alike, settings, passes, check, model_name(model), inside)
    told = {"labels": f"digest {content_digest([labels_digest(y), loss, passes]).hex():>40}"}
    if settings.on_error == "skip" and (bad := _failing(asked)):
        good = np.setdiff1d(np.arange(len(problem.items)), list(bad))
        own = {"subsets": subsets, "loss": loss, "passes": passes, "check": check, **options}
        found = global_importance(model, _rows(X, good), sampler, None if y is None else _rows(y, good), **own)  # type: ignore[arg-type]
        note = LEFT_OUT.format(bad=len(bad), count=len(problem.items), why=reasons(bad))
        return replace(found, warned=(note, *found.warned), rows=found.rows + len(problem.items))
    return _importance(asked, partial(_measured, X, y, loss), told)


def _failing(asked: ImportanceRun) -> dict[int, str]:
    """Inputs that the model fails on, and why. Left out they say nothing of any subset, as if all their versions were
    equal; so it is with draws that it fails on, and the observed row stays one of its draws."""
    settings, size = asked.settings, asked.settings.batch_rows or default_batch_rows(asked.table)
    tolerance = Tolerance(skip=True, timeout=settings.timeout)
    return failing_inputs(asked.problem, asked.wrapped.call, size, partial(name_row, asked.table), tolerance)


def _rows(given: Any, rows: Ints) -> Any:
    """Some rows of an array, a frame, a series or a list."""
    if hasattr(given, "iloc"):
        return given.iloc[rows]
    return given[rows.tolist()] if hasattr(given, "columns") else np.asarray(given)[rows]


def labels_digest(y: object) -> bytes | None:
    """What tells labels from others."""
    return None if y is None else content_digest(np.asarray(y, dtype=object).tolist())


@dataclass(frozen=True, eq=False)
class ImportanceRun:
    """All that a call says, read."""

    problem: Problem
    table: Table
    wrapped: Wrapped
    alike: Ints  # (n,) equal for equal rows
    settings: Settings
    passes: int | None
    check: bool
    model_name: str
    read_model: Callable[[Model, Floats], ReadModel] | None  # how to look into it; None: it has to be asked


@dataclass(frozen=True, eq=False)
class Measured:
    """What is summed over inputs, and words on it for the provenance."""

    measure: Measure
    described: dict[str, Any]
    score: LabelScore | None = None  # of a loss that is known


def _importance(
    asked: ImportanceRun, measured_of: Callable[[Settings, Probe, Wrapped], Measured], told: dict[str, str]
) -> GlobalResult:
    problem, settings, call = asked.problem, asked.settings, asked.wrapped.call
    size = settings.batch_rows or default_batch_rows(asked.table)
    tolerance = Tolerance(settings.on_error == "skip", settings.timeout)

    def all_told() -> dict[str, str]:
        return manifest(problem, asked.model_name, size, settings) | told

    answers = journal(engine_for(settings.workers), call, settings.run_dir, all_told)
    with answers as kept, reporting(settings.progress) as report:
        model = kept.model if tolerance == Tolerance() else Patient(kept.model, tolerance)
        seen = probe(model, problem.items, size, partial(name_row, asked.table))
        measured = measured_of(settings, seen, asked.wrapped)
        plan = _plan(asked, measured, seen)
        warned = [] if plan.passes == 0 else _warn_of_reach(plan.passes, settings, len(problem.subset_names))
        meter = Meter(report, seen.rows + plan.inside.rows, partial(worker_states, kept.engine))
        memory, failed = remembering(problem, seen.outputs), dict[int, str]()
        evaluator = Evaluator(call, size, seen.outputs.shape[1], meter, memory, engine=kept.engine)
        evaluator = replace(evaluator, tolerance=tolerance, failed=failed, remembered=model)
        found = _checked(asked, measured, meter)
        evidence, chosen, effects = _tested(asked, evaluator, measured.measure, plan, meter, found)
        kept.finish()
    if failed:
        warned.append(NO_EFFECT.format(failed=len(failed), size=problem.size, why=reasons(failed)))
    return GlobalResult(
        subset_names=problem.subset_names,
        mode=measured.described["test"],
        inputs=len(problem.items),
        evidence=evidence,
        effects=effects,
        chosen=chosen,
        alpha=settings.alpha,
        rule=settings.rule,
        rows=meter.rows,
        warned=(*warned, *([seen.odd] if seen.odd else []), *plan.inside.notes),
        provenance={**_provenance(asked, plan), **measured.described},
        check=found,
    )


def _provenance(asked: ImportanceRun, plan: Plan) -> dict[str, Any]:
    sampler, told = asked.problem.sampler, {}
    if plan.inside.outcomes is not None:
        told["exact"] = len({id(block.subset) for block in plan.inside.outcomes.split(asked.problem)[0]})
    return told | {
        "version": __version__,
        "draws": plan.draws,
        "seed": asked.settings.seed,
        "columns": list(asked.table.columns),
        "subsets": {subset.name: subset.index.tolist() for subset in asked.problem.subsets},
        "frame": asked.table.labels is not None,
        "sampler": repr(sampler),
        "dependence_ignored": info_of(sampler).ignores_dependence,
        "fit": plan.fit,
        "stand_ins": stand_ins_of(sampler, asked.table),
        "why": sampler.why if isinstance(sampler, TableSampler | CrossFitted) else None,
    }


def _checked(asked: ImportanceRun, measured: Measured, meter: Meter) -> SamplerCheck | None:
    """The check of a fitted sampler on rows that it has not seen: with labels those of the data."""
    sampler, seed = asked.problem.sampler, asked.settings.seed
    if not asked.check or not isinstance(sampler, TableSampler | CrossFitted):
        return None
    meter.stage("check", None)
    if measured.described["test"] == "contrast":
        return check_on_reference(sampler, asked.table, asked.problem.subsets, seed)
    return check_on(sampler, asked.table, asked.problem.subsets, seed)


UNREAD = ReadModel()


@dataclass(frozen=True, eq=False)
class Plan:
    """How subsets are tested; effects come from draws of their own where the test gives none."""

    run: Callable[[Evaluator], tuple[GlobalEvidence, Effects | None]]
    draws: int
    passes: int  # 0: by Student's t
    fit: FitKind
    inside: ReadModel = UNREAD


def _plan(asked: ImportanceRun, measured: Measured, seen: Probe) -> Plan:
    """The test that suits the sampler: known, or fitted."""
    problem, settings, measure = asked.problem, asked.settings, measured.measure
    draws = settings.draws_for(problem.size)
    fitted = isinstance(problem.sampler, CrossFitted) or fit_known(problem)
    if fitted and measured.described["test"] == "contrast" and enough_inputs(asked.alike):
        draws = max(draws, LEAST_DRAWS)
        fit = fit_on_enough(problem)
        inside = UNREAD if asked.read_model is None else asked.read_model(asked.wrapped.call, seen.outputs)
        outcomes = inside.outcomes
        if outcomes is not None:
            inside = replace(inside, notes=(EXACT,))
            draws = draws if outcomes.split(problem)[1] else 0

        def contrasted(made: Evaluator) -> tuple[GlobalEvidence, Effects]:
            held = (
                held_out_problems(problem.sampler, asked.table, problem.subsets, settings.seed) if asked.check else []
            )
            off = off_by(held, made, lambda own: _contrast(None, settings, own, asked.wrapped).measure, draws, outcomes)
            return by_student(problem, made, measure, fit, asked.alike, draws, outcomes, off)

        return Plan(contrasted, draws, 0, "counted", inside)
    needed = passes_needed(settings.rule, settings.alpha, len(problem.subset_names))
    passes = int(np.clip(needed, PASSES, MOST_PASSES)) if asked.passes is None else asked.passes
    score, kind = measured.score, _fit_kind(problem, fitted, measured.described["test"])
    if not fitted or score is None:
        return Plan(lambda made: (randomise(problem, made, measure, draws, passes), None), draws, passes, kind)
    rest = LabelRest(asked.table, problem.subsets)

    def run(made: Evaluator) -> tuple[GlobalEvidence, None]:
        return randomise_covariance(problem, made, measure, score, seen.rounding, rest, draws, passes), None

    return Plan(run, draws, passes, kind)


def _fit_kind(problem: Problem, fitted: bool, test: str) -> FitKind:
    if isinstance(problem.sampler, CrossFitted):
        return "cross-fitted"
    if not fitted:
        return "known"
    return "reference alone" if test == "holdout" else "taken as right"


def _tested(
    asked: ImportanceRun, evaluator: Evaluator, measure: Measure, plan: Plan, meter: Meter, found: SamplerCheck | None
) -> tuple[GlobalEvidence, Bools, Effects]:
    """The evidence on each subset, which are chosen by it, and their effects; none on which the check failed."""
    problem, settings, draws, known = asked.problem, asked.settings, plan.draws, evaluator.memory is None
    meter.stage("global", problem.size * (draws + len(round_sizes(draws, problem.round_draws))) if known else None)
    evidence, effects = plan.run(evaluator)
    chosen = choose(evidence, settings.alpha, settings.rule, rejected_by(found, problem.subset_names))
    count = int(chosen.sum())
    meter.set_chosen(count)
    if effects is not None:
        return evidence, chosen, effects
    meter.stage("effects", count * len(problem.items) * (EFFECT_DRAWS + 1) if known else None)
    if not count:
        return evidence, chosen, no_effects(len(chosen))
    return evidence, chosen, mean_effects(problem, evaluator, measure, chosen, evidence.classes, EFFECT_DRAWS)


def _measured(X: object, y: object, loss: Loss | None, settings: Settings, seen: Probe, wrapped: Wrapped) -> Measured:
    """What is summed over inputs: the loss where there are labels, else the output."""
    if y is None:
        return _contrast(loss, settings, seen, wrapped)
    for name in ("target", "link", "alternative"):
        value = vars(settings)[name]
        if value is not None:
            raise InputError(f"{name} is for the contrast without labels, got {name}={value!r} with y; drop it")
    return _holdout(aligned_labels(y, X, len(seen.outputs)), loss, seen, wrapped)


def _holdout(y: Array, loss: Loss | None, seen: Probe, wrapped: Wrapped) -> Measured:
    observed = seen.outputs
    outputs = observed.shape[1]
    name = ("squared" if outputs == 1 else "log") if loss is None else loss
    measured, score = _loss(name, y, wrapped, observed)
    every = np.arange(len(observed))
    whole_run, half = measured(every, observed[:, None, :]), measured(every[::2], observed[::2, None, :])
    if not np.allclose(whole_run[::2], half, rtol=1e-6, atol=1e-12):
        raise InputError("loss gives a row another value when other rows are left out; it must look at each row alone")
    described = {"test": "holdout", "loss": name_of(name) if callable(name) else name}
    return Measured(holdout(measured, seen.rounding), described, score)


def _loss(name: Loss, y: Array, wrapped: Wrapped, observed: Floats) -> tuple[losses.Loss, LabelScore | None]:
    if callable(name):
        return losses.own(name, y), None
    one_of("loss", name, ("squared", "log"))
    if name == "log":
        classes = class_labels(y, wrapped, observed)
        return losses.log(classes), log_score(classes, observed.shape[1])
    numbers = number_labels(y, observed.shape[1])
    return losses.squared(numbers), squared_score(numbers)


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
        described["called"] = [_label(wrapped, place) for place in np.unique(seen.outputs.argmax(axis=1)).tolist()]
    return Measured(contrast(aim, link, seen.rounding, direction), described)


def _label(wrapped: Wrapped, place: int) -> object:
    """What `target` names a class by."""
    label = place if wrapped.classes is None else wrapped.classes[place]
    return label.item() if isinstance(label, np.generic) else label


def _warn_of_reach(passes: int, settings: Settings, subsets: int) -> list[str]:
    needed = passes_needed(settings.rule, settings.alpha, subsets)
    if passes >= needed:
        return []
    sentence = (
        f"A lone signal cannot be found: with {passes} passes no p-value is below 1/{passes + 1}; {settings.rule} over "
        f"{subsets} subsets at alpha={settings.alpha:g} needs passes={needed} for it, which cost no model rows."
    )
    warn_user(sentence, ReachWarning)
    return [sentence]
