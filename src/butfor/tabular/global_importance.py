"""The public edge for one decision per feature over a whole data set."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from butfor._version import __version__
from butfor.core.checks import between, one_of, whole
from butfor.core.draw.blocks import round_sizes, table_problem
from butfor.core.draw.samplers import info_of, name_of
from butfor.core.evaluate.batches import Evaluator
from butfor.core.evaluate.memory import remembering
from butfor.core.evaluate.outputs import Rounding, linked
from butfor.core.evaluate.probe import probe
from butfor.core.result.effects import mean_effects, no_effects
from butfor.core.result.global_result import GlobalResult, choose
from butfor.core.select.guarantees import P_RULES
from butfor.core.test import losses
from butfor.core.test.contrast import Measure, contrast, holdout, passes_needed, randomise
from butfor.core.types import Alternative, Array, Floats, InputError, Ints, ReachWarning
from butfor.models import Wrapped, wrap
from butfor.models.rows import check_aligned
from butfor.run.progress import Meter, Progress, reporting
from butfor.run.targets import resolve, target_name
from butfor.tabular.explain import default_batch_rows, name_row
from butfor.tabular.splice import bind_sampler
from butfor.tabular.subsets import column_subsets
from butfor.tabular.table import items_of

DRAWS, EFFECT_DRAWS = 20, 20
PASSES, MOST_PASSES = 999, 9_999


def global_importance(
    model: Any,
    X: Any,
    sampler: Any,
    y: Any = None,
    *,
    subsets: Sequence[Any] | Mapping[str, Any] | None = None,
    alpha: float = 0.1,
    rule: str = "bh",
    loss: Literal["squared", "log"] | Callable[[Any, Any], Any] | None = None,
    alternative: Alternative | None = None,
    target: Any = None,
    link: Literal["logit", "log"] | None = None,
    draws: int | None = None,
    passes: int | None = None,
    seed: int = 0,
    batch_rows: int | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
) -> GlobalResult:
    """Which features matter over the whole of `X`: one decision each, with the false discovery rate under control.

    With labels `y` of rows the model was not fitted on: the holdout randomisation test, "does the model's skill rest on
    this feature?". `sampler` then describes the *population* of `X`, and `loss` is "squared", "log" or a function
    `(y, outputs) -> (n,)`; None is "log" for several outputs (class probabilities), else "squared".

    Without labels: contrast, "is this feature as in the reference?". `sampler` then describes what you compare against;
    with one of the population of `X` nothing can be found. `target`, `link` and `alternative` are as in
    `butfor.explain`, though "two-sided" centres on the mean of an input's versions and so needs `draws` of 2 or more.

    Every input is redrawn `draws` times (None: 20) for each subset, at `draws + 1` model rows; `passes` (None: 999, or
    what a lone signal needs, to 9,999) recombine them at no further rows. p-values are exactly valid at any number of
    both. The effect of a chosen subset is the mean increase of the loss when it is redrawn, or the mean output minus
    the mean counterfactual one, with a 95 % interval over inputs from fresh draws; the inputs are those that chose it,
    so a false discovery looks better than it is.

    >>> rng = np.random.default_rng(0)
    >>> rows, noise = rng.normal(size=(200, 4)), rng.normal(size=200)
    >>> result = global_importance(lambda X: X[:, 0] + X[:, 1], rows, rows, y=rows[:, 0] + noise)
    >>> result.table[result.chosen].subset.tolist()
    ['x0']
    """
    settings = _checked(alpha, rule, alternative, link, draws, passes, seed, batch_rows)
    table, fitted = bind_sampler(X, sampler)
    groups = column_subsets(table, subsets)
    problem = table_problem(items_of(table), table.index, groups, fitted, settings.seed)
    wrapped = wrap(model)
    size = settings.batch_rows or default_batch_rows(table)
    seen = probe(wrapped.call, problem.items, size, partial(name_row, table))
    observed, rounding = seen.outputs, seen.rounding
    if y is None:
        measure, described = _contrast(target, loss, settings, observed, rounding, wrapped)
    else:
        _refuse(settings, target)
        measure, described = _holdout(_labels(y, X, len(observed)), loss, observed, rounding, wrapped)
    warned = _warn_of_reach(settings, len(groups))
    with reporting(progress) as report:
        meter = Meter(report, seen.rows)
        memory = remembering(problem, observed)
        evaluator = Evaluator(wrapped.call, size, observed.shape[1], meter, memory)
        total = problem.size * (settings.draws + len(round_sizes(settings.draws, problem.round_draws)))
        meter.stage("global", total if memory is None else None)
        evidence = randomise(problem, evaluator, measure, settings.draws, settings.passes_for(len(groups)))
        chosen = choose(evidence, settings.alpha, settings.rule)
        meter.set_chosen(int(chosen.sum()))
        meter.stage("effects", int(chosen.sum()) * len(observed) * (EFFECT_DRAWS + 1) if memory is None else None)
        effects = no_effects(len(groups))
        if chosen.any():
            effects = mean_effects(problem, evaluator, measure, chosen, evidence.classes, EFFECT_DRAWS)
    return GlobalResult(
        subset_names=problem.subset_names,
        mode="contrast" if y is None else "holdout",
        inputs=len(observed),
        evidence=evidence,
        effects=effects,
        chosen=chosen,
        alpha=settings.alpha,
        rule=settings.rule,
        rows=meter.rows,
        warned=(*warned, *([seen.odd] if seen.odd else [])),
        provenance={
            "version": __version__,
            **described,
            "draws": settings.draws,
            "seed": settings.seed,
            "columns": list(table.columns),
            "subsets": {group.name: group.index.tolist() for group in groups},
            "frame": table.labels is not None,
            "sampler": repr(problem.sampler),
            "dependence_ignored": info_of(fitted).ignores_dependence,
        },
    )


@dataclass(frozen=True)
class GlobalSettings:
    """Arguments after checking, with their defaults filled in."""

    alpha: float
    rule: str
    alternative: Alternative | None
    link: str | None
    draws: int
    passes: int | None
    seed: int
    batch_rows: int | None

    def passes_for(self, subsets: int) -> int:
        """Passes; by default enough for a lone signal, within reason."""
        needed = passes_needed(self.rule, self.alpha, subsets)
        return int(np.clip(needed, PASSES, MOST_PASSES)) if self.passes is None else self.passes


def _checked(
    alpha: Any, rule: Any, alternative: Any, link: Any, draws: Any, passes: Any, seed: Any, batch_rows: Any
) -> GlobalSettings:
    one_of("rule", rule, tuple(P_RULES))
    one_of("alternative", alternative, (None, *get_args(Alternative)))
    one_of("link", link, (None, "logit", "log"))
    return GlobalSettings(
        alpha=between("alpha", alpha, "0.1 is a common choice"),
        rule=rule,
        alternative=alternative,
        link=link,
        draws=DRAWS if draws is None else whole("draws", draws, 1),
        passes=None if passes is None else whole("passes", passes, 1),
        seed=whole("seed", seed, 0),
        batch_rows=None if batch_rows is None else whole("batch_rows", batch_rows, 1),
    )


def _refuse(settings: GlobalSettings, target: Any) -> None:
    given = {"target": target, "link": settings.link, "alternative": settings.alternative}
    for name, value in given.items():
        if value is not None:
            raise InputError(f"{name} is for the contrast without labels, got {name}={value!r} with y; drop it")


def _labels(y: Any, X: Any, count: int) -> Array:
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


def _holdout(
    y: Array, loss: Any, observed: Floats, rounding: Rounding, wrapped: Wrapped
) -> tuple[Measure, dict[str, Any]]:
    outputs = observed.shape[1]
    name = ("squared" if outputs == 1 else "log") if loss is None else loss
    if callable(name):
        measured = losses.own(name, y)
        name = name_of(name)
    else:
        one_of("loss", name, ("squared", "log"))
        measured = (
            losses.squared(_numbers(y, outputs)) if name == "squared" else losses.log(_classes(y, wrapped, observed))
        )
    every = np.arange(len(observed))
    whole_run, half = measured(every, observed[:, None, :]), measured(every[::2], observed[::2, None, :])
    if not np.allclose(whole_run[::2], half, rtol=1e-6, atol=1e-12):
        raise InputError("loss gives a row another value when other rows are left out; it must look at each row alone")
    return holdout(measured, rounding), {"test": "holdout", "loss": name}


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


def _contrast(
    target: Any, loss: Any, settings: GlobalSettings, observed: Floats, rounding: Rounding, wrapped: Wrapped
) -> tuple[Measure, dict[str, Any]]:
    name = target_name(target, observed.shape[1])
    if loss is not None:
        raise InputError("loss needs labels; give them as y=, or drop loss")
    if isinstance(name, str) and name in ("truth", "observed-class"):
        raise InputError(f"target={name!r} is not for global_importance; use 'predicted', a label, or y= for the loss")
    aim = resolve(name, None, observed, wrapped)
    linked(observed, settings.link)  # refuses a link that does not fit, before anything is drawn
    direction: Alternative = settings.alternative or ("greater" if aim.kind == "predicted" else "two-sided")
    if direction == "two-sided" and settings.draws < 2:
        raise InputError("alternative='two-sided' needs draws=2 or more: two versions are equally far from their mean")
    described = {"test": "contrast", "target": name, "link": settings.link, "alternative": direction}
    return contrast(aim, settings.link, rounding, direction), described


def _warn_of_reach(settings: GlobalSettings, subsets: int) -> list[str]:
    passes, needed = settings.passes_for(subsets), passes_needed(settings.rule, settings.alpha, subsets)
    if passes >= needed:
        return []
    sentence = (
        f"A lone signal cannot be found: with {passes} passes no p-value is below 1/{passes + 1}; {settings.rule} over "
        f"{subsets} subsets at alpha={settings.alpha:g} needs passes={needed} for it, which cost no model rows."
    )
    warnings.warn(sentence, ReachWarning, stacklevel=3)
    return [sentence]
