"""The public edge: one call from a model and its inputs to discoveries with a guarantee."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from butfor._arguments import Asked, checked
from butfor._edge import Meter, default_batch_rows, name_row, on_tables, remembering
from butfor._progress import Progress, reporting
from butfor._targets import output_names, resolve, target_name
from butfor._version import __version__
from butfor.core import procedures, selection
from butfor.core.calls import Calls
from butfor.core.diagnostics import largest_family, reach, scales
from butfor.core.draws import Problem, round_sizes, table_problem
from butfor.core.early_stop import early_stop as stop_early
from butfor.core.effects import Effects, effects, no_effects
from butfor.core.exact import exact, split_listed
from butfor.core.outputs import Probe, Target, linked, probe
from butfor.core.picking import Picked, check_drawable
from butfor.core.procedures import Evidence, Question
from butfor.core.quick_check import quick_check
from butfor.core.result import Result, family_members
from butfor.core.sequential import Stopping, batches, sequential
from butfor.core.types import Alternative, Bools, Family, Floats, InputError, Ints, ReachWarning, Subset, Test
from butfor.models import wrap
from butfor.tabular import gaussian
from butfor.tabular.splice import Checked, is_data, table_sampler
from butfor.tabular.subsets import column_subsets
from butfor.tabular.table import Table, as_table

EFFECT_DRAWS = {"sequential": 200, "irt": 200, "osft": 16, "few-shot": 16}


def explain(
    model: Any,
    X: Any,
    sampler: Any,
    *,
    subsets: Sequence[Any] | Mapping[str, Any] | None = None,
    test: Test = "sequential",
    alternative: Alternative | None = None,
    rule: str | None = None,
    family: Family = "run",
    target: Any = None,
    y: Any = None,
    link: Literal["logit", "log"] | None = None,
    alpha: float = 0.1,
    draws: int | None = None,
    center: int | None = None,
    h: int = 10,
    early_stop: bool = False,
    delta: float = 0.01,
    scale: Literal["shrunk"] | None = None,
    picked: Callable[[Any], Any] | None = None,
    seed: int = 0,
    batch_rows: int | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
    keep_effects: bool = True,
) -> Result:
    """Which features of each row of `X` matter to the model: those whose output would be surprising but for them.

    `sampler` redraws features as they look when there is nothing to report: one of `butfor.tabular`, any callable
    `(inputs, subset, draws, rng) -> rows`, or reference data (then a Gaussian is fitted to it). If `X` comes from the
    very population of the reference, nothing is there to be found.

    `test` is "sequential" (draws until each hypothesis is decided: `h` exceedances, a rejection, or `draws` at the
    most; Ctrl-C returns what is decided so far), "irt" (a p-value from `draws` counterfactuals each; `early_stop` gives
    the same answer for fewer rows, wrong with probability `delta` at most), "few-shot" (a few counterfactuals, for
    expensive samplers; `scale="shrunk"` where subsets differ in scale) or "osft" (one counterfactual).

    `alternative` None is "greater" for the predicted class of a classifier, else "two-sided"; `center` counts the pilot
    draws whose mean is the centre of a two-sided statistic. `target` is an output's index or label, "predicted" (the
    default where there are several), "truth" (with `y`), or "observed-class" (the paper's way, for comparison only).
    `picked` is the rule, outputs -> booleans, by which the inputs were picked, if their outputs had a say. Effects come
    from fresh draws for the chosen hypotheses; `keep_effects=False` saves those rows.

    The same seed gives the same result whatever `batch_rows` is. The result's `guarantee` says what is promised.

    >>> rng = np.random.default_rng(0)
    >>> reference, patients = rng.normal(size=(500, 4)), rng.normal([3, 0, 0, 0], 1, size=(20, 4))
    >>> result = explain(lambda rows: rows[:, 0] + rows[:, 1], patients, gaussian(reference))
    >>> result.table[result.chosen].subset.unique().tolist()
    ['x0']
    """
    asked = checked(
        test=test,
        alternative=alternative,
        rule=rule,
        family=family,
        link=link,
        alpha=alpha,
        draws=draws,
        center=center,
        h=h,
        early_stop=early_stop,
        delta=delta,
        scale=scale,
        picked=picked,
        seed=seed,
        batch_rows=batch_rows,
    )
    table = as_table(X, "data")
    groups = column_subsets(table, subsets)
    fitted = table_sampler(gaussian(sampler) if is_data(sampler) else sampler, table)
    problem = table_problem(table.values, table.index, groups, fitted, asked.seed)
    wrapped = wrap(model)
    black_box = on_tables(wrapped, table)
    _warn_of_reach(problem, asked)

    size = asked.batch_rows or default_batch_rows(table)
    seen = probe(black_box, table.values, size, partial(name_row, table))
    observed = seen.outputs
    name = target_name(target, observed.shape[1])
    question = _question(asked, name, resolve(name, y, observed, wrapped), seen, table)
    with reporting(progress) as report:
        meter = Meter(report, seen.rows)
        memory = remembering(problem, observed)
        calls = Calls(black_box, size, observed.shape[1], meter.tick, memory, meter.ask)
        evidence, notes, interrupted = _run(problem, calls, question, asked, meter)
        chosen = _select(problem, asked, evidence)
        meter.tell(int(chosen.sum()))
        wanted = chosen & (keep_effects and not interrupted)
        found, told = _effects(problem, calls, question, evidence, wanted, asked, meter)
    return Result(
        input_names=problem.input_names,
        subset_names=problem.subset_names,
        input_of=problem.input_of,
        subset_of=problem.subset_of,
        evidence=evidence,
        effects=found,
        chosen=chosen,
        alpha=asked.alpha,
        rule=asked.rule,
        family=asked.family,
        rows=meter.rows,
        rows_asked=meter.asked,
        problem=problem,
        show=table.show,
        run_notes=(*([seen.odd] if seen.odd else []), *notes, *told),
        look=partial(_look, problem, table, groups),
        provenance=_provenance(problem, asked, question, name, table) | {"interrupted": interrupted},
        output_names=output_names(wrapped, observed.shape[1]),
    )


def _families(problem: Problem, asked: Asked) -> Ints | None:
    return problem.input_of if asked.family == "input" else None


def _warn_of_reach(problem: Problem, asked: Asked) -> None:
    size = largest_family(_families(problem, asked), problem.size)
    steps = asked.h if asked.test == "sequential" else 1
    for sentence in reach(asked.test, asked.rule, asked.alpha, size, asked.draws_for(problem.size), steps):
        warnings.warn(sentence, ReachWarning, stacklevel=3)


def _question(asked: Asked, name: Any, target: Target, seen: Probe, table: Table) -> Question:
    linked(seen.outputs, asked.link)  # refuses a link that does not fit, before anything is drawn
    aimed = name in ("predicted", "observed-class")
    alternative = asked.alternative or ("greater" if aimed else "two-sided")
    if asked.early_stop and target.kind == "predicted":
        raise InputError("early_stop needs a fixed target, since 'predicted' looks at all draws; give target=")
    center = asked.center_for(alternative, target.kind == "predicted")
    picked = None if asked.picked is None else Picked(asked.picked)
    if picked is not None and not (passed := picked.passes(seen.outputs)).all():
        row = int(np.flatnonzero(~passed)[0])
        raise InputError(f"picked does not pass {name_row(table, row)}; explain only inputs that the rule has picked")
    return Question(target, seen.rounding, alternative, asked.link, center, picked)


def _run(
    problem: Problem, calls: Calls, question: Question, asked: Asked, meter: Meter
) -> tuple[Evidence, list[str], bool]:
    """The test that was asked for: its evidence, what is to be said about it, and whether it was interrupted."""
    draws = asked.draws_for(problem.size)
    total = question.center + draws
    known = asked.test != "sequential" and not asked.early_stop and question.picked is None and calls.memory is None
    meter.stage(asked.test, problem.size * (total + len(round_sizes(total, problem.round_draws))) if known else None)
    notes: list[str] = []
    interrupted = False
    if asked.test == "osft":
        evidence = procedures.osft(problem, calls, question)
    elif asked.test == "few-shot":
        evidence, spread = procedures.few_shot(problem, calls, question, draws, shrunk=asked.scale == "shrunk")
        notes += scales(spread, problem.subset_of, problem.subset_names) if asked.scale is None else []
    elif asked.rule == "e-bh":
        evidence = procedures.soft_rank(problem, calls, question, draws)
    else:
        evidence, interrupted = _p_values(problem, calls, question, asked, meter)
    if interrupted:
        notes.append(INTERRUPTED.format(left=int(evidence.open.sum())))
    if question.picked is not None and question.picked.tally.drawn:
        rate = question.picked.tally.accepted / question.picked.tally.drawn
        notes.append(f"{rate:.1%} of the counterfactuals drawn passed picked; the others were rejected.")
        notes += check_drawable(evidence.drawable)
    return evidence, notes, interrupted


INTERRUPTED = (
    "Interrupted: {left} hypotheses are still open. What is chosen stands: these p-values are valid whenever drawing "
    "stops."
)


def _p_values(problem: Problem, calls: Calls, question: Question, asked: Asked, meter: Meter) -> tuple[Evidence, bool]:
    """p-values, exact where the sampler lists its support, by drawing elsewhere; and whether that was interrupted."""
    draws = asked.draws_for(problem.size)
    listed, others = split_listed(problem)
    rest = replace(problem, blocks=tuple(others))
    first = partial(exact, problem, calls, question, listed)
    if asked.test == "sequential":
        cap = draws * 20 if question.picked is not None else draws  # most draws may be rejected
        stopping = Stopping(asked.h, cap, asked.alpha, asked.rule, _families(problem, asked))
        return sequential(rest, calls, question, stopping, meter.tell, first)
    if asked.early_stop:
        choose = partial(_choose, problem, asked)
        return stop_early(rest, calls, question, draws, asked.delta, choose, meter.tell, first), False
    evidence = procedures.irt(rest, calls, question, draws)
    first(evidence)
    return evidence, False


def _look(problem: Problem, table: Table, groups: Sequence[Subset]) -> list[str]:
    """What looks wrong about the sampler on a quick look at its draws, and what it says of itself."""
    notes = quick_check(problem)
    sampler = problem.sampler.sampler if isinstance(problem.sampler, Checked) else problem.sampler
    if hasattr(sampler, "notes"):
        notes += sampler.notes(table.show(table.values), groups, problem.seed)
    return notes


def _choose(problem: Problem, asked: Asked, p: Floats) -> Bools:
    return selection.select(p, asked.alpha, asked.rule, np.ones(len(p), bool), _families(problem, asked))


def _select(problem: Problem, asked: Asked, evidence: Evidence) -> Bools:
    tested, draws = (
        family_members(evidence, asked.rule, asked.family, len(problem.input_names)),
        asked.draws_for(problem.size),
    )
    return selection.select(evidence.scaled, asked.alpha, asked.rule, tested, _families(problem, asked), draws)


def _effects(
    problem: Problem, calls: Calls, question: Question, evidence: Evidence, wanted: Bools, asked: Asked, meter: Meter
) -> tuple[Effects, list[str]]:
    """Effects of the hypotheses wanted; an interruption costs them, not the result."""
    if not wanted.any():
        return no_effects(problem.size), []
    draws = EFFECT_DRAWS[asked.test]
    known = question.picked is None and calls.memory is None
    meter.stage("effects", int(wanted.sum()) * (draws + 1) if known else None)
    try:
        return effects(problem, calls, question.link, wanted, evidence.classes, draws, question.picked), []
    except KeyboardInterrupt:
        return no_effects(problem.size), ["Interrupted while effects were estimated: there are none."]


def _provenance(problem: Problem, asked: Asked, question: Question, name: Any, table: Table) -> dict[str, Any]:
    """What is needed to say again how the result came about."""
    draws = asked.draws_for(problem.size)
    if asked.test == "sequential":
        sizes, aside = [next(batches(asked.h, draws))], 0
    else:
        sizes, aside = round_sizes(question.center + draws, problem.round_draws), question.center
    return {
        "version": __version__,
        "test": asked.test,
        "alternative": question.alternative,
        "target": name,
        "link": asked.link,
        "center": question.center,
        "h": asked.h if asked.test == "sequential" else None,
        "delta": asked.delta if asked.early_stop else None,
        "scale": asked.scale,
        "picked": asked.picked is not None,
        "draws": draws,
        "rounds": sizes,
        "set_aside": aside,
        "seed": asked.seed,
        "columns": list(table.columns),
        "labels": None if table.labels is None else [x.item() if hasattr(x, "item") else x for x in table.labels],
        "frame": table.labels is not None,
        "sampler": repr(problem.sampler),
        "dependence_ignored": bool(getattr(problem.sampler, "ignores_dependence", False)),
    }
