"""The public edge for one decision per feature over a whole data set."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np

from butfor._version import __version__
from butfor.core.checks import one_of, whole
from butfor.core.draw.blocks import Problem, round_sizes, table_problem
from butfor.core.draw.samplers import info_of, name_of
from butfor.core.evaluate.batches import Evaluator
from butfor.core.evaluate.memory import remembering
from butfor.core.evaluate.outputs import linked
from butfor.core.evaluate.probe import Probe, probe
from butfor.core.result.effects import Effects, mean_effects, no_effects
from butfor.core.result.global_result import GlobalResult, choose
from butfor.core.select.guarantees import P_RULES
from butfor.core.test import losses
from butfor.core.test.contrast import GlobalEvidence, Measure, contrast, holdout, passes_needed, randomise
from butfor.core.types import Alternative, Array, Bools, Floats, InputError, Ints, ReachWarning
from butfor.models import Wrapped
from butfor.models.rows import check_aligned
from butfor.run.progress import Meter, reporting, warn_user
from butfor.run.settings import Settings, takes
from butfor.run.targets import resolve, target_name
from butfor.tabular.bind import bind_model, bind_sampler
from butfor.tabular.explain import default_batch_rows, name_row
from butfor.tabular.subsets import column_subsets
from butfor.tabular.table import Table, items_of

DRAWS, EFFECT_DRAWS = 20, 20
PASSES, MOST_PASSES = 999, 9_999
SHARED = ("alpha", "rule", "alternative", "target", "link", "draws", "seed", "batch_rows", "progress", "rng")
Loss = Literal["squared", "log"] | Callable[[Array, Array], Any]


@takes(SHARED)
def global_importance(
    model: object,
    X: object,
    sampler: object,
    y: object = None,
    *,
    subsets: object = None,
    loss: Loss | None = None,
    passes: int | None = None,
    **options: object,
) -> GlobalResult:
    """Which features matter over the whole of `X`: one decision each, with the false discovery rate under control.

    With labels, the holdout randomisation test: "does the model's skill rest on this feature?" Without, the contrast:
    "is this feature as in the reference?" p-values are exactly valid at any number of draws and passes. The effect of a
    chosen subset is the mean increase of the loss when it is redrawn, or the mean output minus the mean counterfactual
    one, with a 95 % interval over inputs from fresh draws; the inputs are those that chose it, so a false discovery
    looks better than it is.

    Parameters
    ----------
    model : any black box, as in `butfor.explain`.
    X : an array or a frame with a row for each input.
    sampler : a sampler or reference data: with labels of the *population* of `X`; without, of what you compare against,
        since with one of the population of `X` nothing can be found.
    y : labels of rows that the model was not fitted on; `target`, `link` and `alternative` are for the contrast only.
    subsets : what to test: None for each column, a list of columns, or a mapping name -> columns.
    loss : "squared", "log" or a function `(y, outputs) -> (n,)`; None is "log" for class probabilities, else "squared".
    passes : recombinations of the draws, at no model rows; None is 999, or what a lone signal needs, to 9,999.
    rule : "bh", "by", "holm" or "bonferroni"; None is "bh".
    draws : of each input and subset, at `draws + 1` model rows; None is 20, "two-sided" needs at least 2.
    **options : settings.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows, noise = rng.normal(size=(200, 4)), rng.normal(size=200)
    >>> result = global_importance(lambda X: X[:, 0] + X[:, 1], rows, rows, y=rows[:, 0] + noise)
    >>> result.table[result.chosen].subset.tolist()
    ['x0']
    """
    one_of("rule", options.get("rule") or "bh", tuple(P_RULES))
    settings = Settings.of(options, test="irt", rule="bh", draws=DRAWS)
    passes = None if passes is None else whole("passes", passes, 1)
    wrapped = bind_model(model, X)  # what it cannot take is refused before anything is fitted
    table, fitted = bind_sampler(X, sampler)
    problem = table_problem(items_of(table), table.index, column_subsets(table, subsets), fitted, settings.seed)
    return _importance(problem, table, wrapped, partial(_measure, X, y, loss), settings, passes)


Measured = tuple[Measure, dict[str, Any]]  # what is summed, and words on it for the provenance


def _importance(
    problem: Problem,
    table: Table,
    wrapped: Wrapped,
    measure_of: Callable[[Settings, Probe, Wrapped], Measured],
    settings: Settings,
    passes: int | None,
) -> GlobalResult:
    size = settings.batch_rows or default_batch_rows(table)
    seen = probe(wrapped.call, problem.items, size, partial(name_row, table))
    measure, described = measure_of(settings, seen, wrapped)
    needed = passes_needed(settings.rule, settings.alpha, len(problem.subset_names))
    passes = int(np.clip(needed, PASSES, MOST_PASSES)) if passes is None else passes
    warned = _warn_of_reach(passes, needed, settings, len(problem.subset_names))
    with reporting(settings.progress) as report:
        meter, memory = Meter(report, seen.rows), remembering(problem, seen.outputs)
        evaluator = Evaluator(wrapped.call, size, seen.outputs.shape[1], meter, memory)
        evidence, chosen, effects = _tested(problem, evaluator, measure, settings, passes, meter)
    provenance = {
        "version": __version__,
        **described,
        "draws": evidence.draws,
        "seed": settings.seed,
        "columns": list(table.columns),
        "subsets": {subset.name: subset.index.tolist() for subset in problem.subsets},
        "frame": table.labels is not None,
        "sampler": repr(problem.sampler),
        "dependence_ignored": info_of(problem.sampler).ignores_dependence,
    }
    return GlobalResult(
        subset_names=problem.subset_names,
        mode=described["test"],
        inputs=len(problem.items),
        evidence=evidence,
        effects=effects,
        chosen=chosen,
        alpha=settings.alpha,
        rule=settings.rule,
        rows=meter.rows,
        warned=(*warned, *([seen.odd] if seen.odd else [])),
        provenance=provenance,
    )


def _tested(
    problem: Problem, evaluator: Evaluator, measure: Measure, settings: Settings, passes: int, meter: Meter
) -> tuple[GlobalEvidence, Bools, Effects]:
    """The evidence on each subset, which are chosen by it, and their effects from fresh draws."""
    draws, known = settings.draws_for(problem.size), evaluator.memory is None
    meter.stage("global", problem.size * (draws + len(round_sizes(draws, problem.round_draws))) if known else None)
    evidence = randomise(problem, evaluator, measure, draws, passes)
    chosen = choose(evidence, settings.alpha, settings.rule)
    found = int(chosen.sum())
    meter.set_chosen(found)
    meter.stage("effects", found * len(problem.items) * (EFFECT_DRAWS + 1) if known else None)
    if not found:
        return evidence, chosen, no_effects(len(chosen))
    return evidence, chosen, mean_effects(problem, evaluator, measure, chosen, evidence.classes, EFFECT_DRAWS)


def _measure(X: object, y: object, loss: Loss | None, settings: Settings, seen: Probe, wrapped: Wrapped) -> Measured:
    """What is summed over inputs: the loss where there are labels, else the output."""
    if y is None:
        return _contrast(loss, settings, seen, wrapped)
    for name in ("target", "link", "alternative"):
        value = vars(settings)[name]
        if value is not None:
            raise InputError(f"{name} is for the contrast without labels, got {name}={value!r} with y; drop it")
    return _holdout(_labels(y, X, len(seen.outputs)), loss, seen, wrapped)


def _labels(y: object, X: object, count: int) -> Array:
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
    observed = seen.outputs
    outputs = observed.shape[1]
    name = ("squared" if outputs == 1 else "log") if loss is None else loss
    if callable(name):
        measured = losses.own(name, y)
    else:
        one_of("loss", name, ("squared", "log"))
        log = name == "log"
        measured = losses.log(_classes(y, wrapped, observed)) if log else losses.squared(_numbers(y, outputs))
    every = np.arange(len(observed))
    whole_run, half = measured(every, observed[:, None, :]), measured(every[::2], observed[::2, None, :])
    if not np.allclose(whole_run[::2], half, rtol=1e-6, atol=1e-12):
        raise InputError("loss gives a row another value when other rows are left out; it must look at each row alone")
    return holdout(measured, seen.rounding), {"test": "holdout", "loss": name_of(name) if callable(name) else name}


def _numbers(y: Array, outputs: int) -> Floats:
    if outputs != 1:
        raise InputError(f"loss='squared' needs a model with one output, this one has {outputs}; use loss='log'")
    if y.ndim != 1 or y.dtype.kind not in "fiub":
        raise InputError(f"loss='squared' needs y of shape (n,) and numeric, got {y.dtype} of shape {y.shape}")
    return y.astype(np.float64)


def _classes(y: Array, wrapped: Wrapped, observed: Floats) -> Ints:
    """Labels as positions of the model's outputs; a single output is the probability of label 1."""
    outputs = observed.shape[1]
    if observed.min() < 0 or observed.max() > 1 or (outputs > 1 and np.abs(observed.sum(axis=1) - 1).max() > 1e-3):
        raise InputError("loss='log' needs class probabilities, the outputs are none; give a function as loss=")
    known = (0, 1) if outputs == 1 else (wrapped.classes or tuple(range(outputs)))
    places = {label: place for place, label in enumerate(known)}
    labels = y.tolist()
    strange = next((label for label in labels if isinstance(label, list) or label not in places), None)
    if strange is not None:
        raise InputError(f"y has the label {strange!r}, which the model does not know; it has {list(known[:8])}")
    return np.array([places[label] for label in labels])


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
    return contrast(aim, link, seen.rounding, direction), described


def _warn_of_reach(passes: int, needed: int, settings: Settings, subsets: int) -> list[str]:
    if passes >= needed:
        return []
    sentence = (
        f"A lone signal cannot be found: with {passes} passes no p-value is below 1/{passes + 1}; {settings.rule} over "
        f"{subsets} subsets at alpha={settings.alpha:g} needs passes={needed} for it, which cost no model rows."
    )
    warn_user(sentence, ReachWarning)
    return [sentence]
