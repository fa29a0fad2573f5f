"""The public edge: one call from a model and its inputs to discoveries with a guarantee."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from butfor._arguments import Asked, checked
from butfor._progress import Progress, Report, reporting, silent
from butfor._targets import output_names, resolve, target_name
from butfor._version import __version__
from butfor.core import procedures, selection
from butfor.core.calls import Calls, Memory
from butfor.core.diagnostics import largest_family, notes_after, reach, scales
from butfor.core.draws import Problem, round_sizes, table_problem
from butfor.core.early_stop import early_stop as stop_early
from butfor.core.effects import Effects, effects, no_effects
from butfor.core.exact import exact, split_listed
from butfor.core.outputs import Rounding, Target, linked, probe
from butfor.core.picking import Picked, check_drawable
from butfor.core.procedures import Evidence, Question
from butfor.core.result import Result, family_members
from butfor.core.sequential import Stopping, batches, sequential
from butfor.core.types import Alternative, Bools, Family, Floats, InputError, Ints, ReachWarning, Test
from butfor.models import Wrapped, wrap
from butfor.tabular import gaussian
from butfor.tabular.splice import is_data, table_sampler
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
    black_box = _on_tables(wrapped, table)
    warned = _warn_of_reach(problem, asked)

    size = asked.batch_rows or int(np.clip(2**19 // table.values.shape[1], 256, 10_000))
    repeats = _repeats(problem)
    observed, rounding, odd = probe(black_box, table.values, size, partial(_name_row, table), 0 if repeats else 16)
    name = target_name(target, observed.shape[1])
    question = _question(asked, name, resolve(name, y, observed, wrapped), observed, rounding, table)
    with reporting(progress) as report:
        meter = Meter(report, len(observed) + (0 if repeats else min(16, len(observed), size)))
        calls = Calls(black_box, size, observed.shape[1], meter.tick, Memory(observed) if repeats else None)
        evidence, notes = _run(problem, calls, question, asked, meter)
        chosen = _select(problem, asked, evidence)
        meter.tell(int(chosen.sum()))
        found = _effects(problem, calls, question, evidence, chosen, asked, meter) if keep_effects else None
    decoys = int(evidence.draws.max(initial=1))
    tested = family_members(evidence, asked.rule)
    after = notes_after(evidence.kind, evidence.values, tested, chosen, decoys)
    return Result(
        input_names=problem.input_names,
        subset_names=problem.subset_names,
        input_of=problem.input_of,
        subset_of=problem.subset_of,
        evidence=evidence,
        effects=found or no_effects(problem.size),
        chosen=chosen,
        alpha=asked.alpha,
        rule=asked.rule,
        family=asked.family,
        rows=meter.rows,
        problem=problem,
        show=table.show,
        notes=(*warned, *([odd] if odd else []), *notes, *after),
        provenance=_provenance(problem, asked, question, name, table),
        output_names=output_names(wrapped, observed.shape[1]),
    )


def _on_tables(wrapped: Wrapped, table: Table) -> Callable[[Any], Any]:
    """The model on rows of the matrix: it sees the type and the column names that the user gave."""
    if table.labels is None:
        return wrapped.call
    return lambda rows: wrapped.call(table.show(rows))


def _name_row(table: Table, row: int) -> str:
    return f"row {row} of the data (index {table.index[row]!r})"


def _families(problem: Problem, asked: Asked) -> Ints | None:
    return problem.input_of if asked.family == "input" else None


def _warn_of_reach(problem: Problem, asked: Asked) -> list[str]:
    size = largest_family(_families(problem, asked), problem.size)
    steps = asked.h if asked.test == "sequential" else 1
    sentences = reach(asked.test, asked.rule, asked.alpha, size, asked.draws_for(problem.size), steps)
    for sentence in sentences:
        warnings.warn(sentence, ReachWarning, stacklevel=3)
    return sentences


def _question(asked: Asked, name: Any, target: Target, observed: Floats, rounding: Rounding, table: Table) -> Question:
    linked(observed, asked.link)  # refuses a link that does not fit, before anything is drawn
    aimed = name in ("predicted", "observed-class")
    alternative = asked.alternative or ("greater" if aimed else "two-sided")
    if asked.early_stop and target.kind == "predicted":
        raise InputError("early_stop needs a fixed target, since 'predicted' looks at all draws; give target=")
    center = asked.center_for(alternative, target.kind == "predicted")
    picked = None if asked.picked is None else Picked(asked.picked)
    if picked is not None and not (passed := picked.passes(observed)).all():
        row = int(np.flatnonzero(~passed)[0])
        raise InputError(f"picked does not pass {_name_row(table, row)}; explain only inputs that the rule has picked")
    return Question(target, rounding, alternative, asked.link, center, picked)


def _repeats(problem: Problem) -> bool:
    """Whether the sampler says that its draws of some subset repeat (or lists them)."""
    says = getattr(problem.sampler, "repeats", getattr(problem.sampler, "lists", None))
    return says is not None and any(says(block.subset) for block in problem.blocks[: len(problem.subset_names)])


class Meter:
    """Counts the model's rows over a run and tells the user's callback how far it is."""

    def __init__(self, report: Report, rows: int) -> None:
        self.rows = rows
        self._report = report
        self._stage, self._total, self._done, self._chosen = "", None, 0, None  # type: tuple[str, int | None, int, int | None]

    def stage(self, name: str, total: int | None) -> None:
        """What follows is another stage, of `total` rows where that is known."""
        self._stage, self._total, self._done = name, total, 0

    def tick(self, rows: int) -> None:
        """So many rows more are done."""
        self.rows += rows
        self._done += rows
        if self._report is not silent:
            self._report(Progress(self._stage, self._done, self._total, self._chosen))

    def tell(self, chosen: int) -> None:
        """So many are chosen by now."""
        self._chosen = chosen


def _run(problem: Problem, calls: Calls, question: Question, asked: Asked, meter: Meter) -> tuple[Evidence, list[str]]:
    """The test that was asked for: its evidence, and what is to be said about it."""
    draws = asked.draws_for(problem.size)
    total = question.center + draws
    known = asked.test != "sequential" and not asked.early_stop and question.picked is None
    meter.stage(asked.test, problem.size * (total + len(round_sizes(total, problem.round_draws))) if known else None)
    notes: list[str] = []
    if asked.test == "osft":
        evidence = procedures.osft(problem, calls, question)
    elif asked.test == "few-shot":
        evidence, spread = procedures.few_shot(problem, calls, question, draws, shrunk=asked.scale == "shrunk")
        notes += scales(spread, problem.subset_of, problem.subset_names) if asked.scale is None else []
    elif asked.rule == "e-bh":
        evidence = procedures.soft_rank(problem, calls, question, draws)
    else:
        evidence, notes = _p_values(problem, calls, question, asked, meter)
    if question.picked is not None and question.picked.tally.drawn:
        rate = question.picked.tally.accepted / question.picked.tally.drawn
        notes.append(f"{rate:.1%} of the counterfactuals drawn passed picked; the others were rejected.")
        notes += check_drawable(evidence.drawable)
    return evidence, notes


def _p_values(
    problem: Problem, calls: Calls, question: Question, asked: Asked, meter: Meter
) -> tuple[Evidence, list[str]]:
    """p-values: exact where the sampler lists its support, by drawing elsewhere."""
    draws = asked.draws_for(problem.size)
    listed, others = split_listed(problem)
    rest = replace(problem, blocks=tuple(others))
    notes = []
    if asked.test == "sequential":
        cap = draws * 20 if question.picked is not None else draws  # most draws may be rejected
        stopping = Stopping(asked.h, cap, asked.alpha, asked.rule, _families(problem, asked))
        first = partial(exact, problem, calls, question, listed)
        evidence, interrupted = sequential(rest, calls, question, stopping, meter.tell, first)
        if interrupted:
            notes.append(
                f"Interrupted: {int(evidence.open.sum())} hypotheses are still open. What is chosen stands: these "
                "p-values are valid whenever drawing stops."
            )
        return evidence, notes
    if asked.early_stop:
        evidence = stop_early(rest, calls, question, draws, asked.delta, partial(_choose, problem, asked), meter.tell)
    else:
        evidence = procedures.irt(rest, calls, question, draws)
    exact(problem, calls, question, listed, evidence)
    return evidence, notes


def _choose(problem: Problem, asked: Asked, p: Floats) -> Bools:
    return selection.select(p, asked.alpha, asked.rule, np.ones(len(p), bool), _families(problem, asked))


def _select(problem: Problem, asked: Asked, evidence: Evidence) -> Bools:
    decoys = int(evidence.draws.max(initial=1))
    tested = family_members(evidence, asked.rule)
    return selection.select(evidence.values, asked.alpha, asked.rule, tested, _families(problem, asked), decoys)


def _effects(
    problem: Problem, calls: Calls, question: Question, evidence: Evidence, chosen: Bools, asked: Asked, meter: Meter
) -> Effects:
    draws = EFFECT_DRAWS[asked.test]
    meter.stage("effects", int(chosen.sum()) * (draws + 1))
    return effects(problem, calls, question.link, chosen, evidence.classes, draws)


def _provenance(problem: Problem, asked: Asked, question: Question, name: Any, table: Table) -> dict[str, Any]:
    """What is needed to say again how the result came about."""
    draws = asked.draws_for(problem.size)
    first = next(batches(asked.h, draws)) if asked.test == "sequential" else question.center + draws
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
        "redrawable": first,
        "seed": asked.seed,
        "columns": list(table.columns),
        "frame": table.labels is not None,
        "sampler": repr(problem.sampler),
        "dependence_ignored": bool(getattr(problem.sampler, "ignores_dependence", False)),
    }
