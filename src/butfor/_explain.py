"""The public edge: one call from a model and its inputs to discoveries with a guarantee."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from butfor._progress import Progress, Report, reporting
from butfor._version import __version__
from butfor.core import procedures, selection
from butfor.core.diagnostics import largest_family, notes_after, reach
from butfor.core.draws import Problem, table_problem
from butfor.core.effects import effects, no_effects
from butfor.core.guarantees import guarantee
from butfor.core.outputs import Calls, Target, linked, probe
from butfor.core.procedures import Evidence, Question
from butfor.core.result import Result, family_members
from butfor.core.types import Alternative, Family, Floats, InputError, ReachWarning, Test
from butfor.models import Wrapped, wrap
from butfor.tabular import gaussian
from butfor.tabular.splice import is_data, table_sampler
from butfor.tabular.subsets import column_subsets
from butfor.tabular.table import Table, as_table

EFFECT_DRAWS = {"irt": 200, "osft": 16}


def explain(
    model: Any,
    X: Any,
    sampler: Any,
    *,
    subsets: Sequence[Any] | Mapping[str, Any] | None = None,
    test: Test = "irt",
    alternative: Alternative | None = None,
    rule: str | None = None,
    family: Family = "run",
    target: Any = None,
    y: Any = None,
    link: Literal["logit", "log"] | None = None,
    alpha: float = 0.1,
    draws: int | None = None,
    center: int | None = None,
    seed: int = 0,
    batch_rows: int | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
    keep_effects: bool = True,
) -> Result:
    """Which features of each row of `X` matter to the model: those whose output would be surprising but for them.

    `sampler` redraws features as they look when there is nothing to report: one of `butfor.tabular`, any callable
    `(inputs, subset, draws, rng) -> rows`, or reference data (then a Gaussian is fitted to it). If `X` comes from the
    very population of the reference, nothing is there to be found.

    `test` is "irt" (p-values from `draws` counterfactuals each) or "osft" (one counterfactual each). `alternative`
    None is "greater" for the predicted class of a classifier, else "two-sided"; `center` counts the pilot draws whose
    mean is the centre of a two-sided statistic. `target` is an output's index or label, "predicted" (the default where
    there are several), "truth" (with `y`), or "observed-class" (the paper's way, for comparison only). Effects come
    from fresh draws for the chosen hypotheses; `keep_effects=False` saves those rows.

    The same seed gives the same result whatever `batch_rows` is. The result's `guarantee` says what is promised.

    >>> rng = np.random.default_rng(0)
    >>> reference, patients = rng.normal(size=(500, 4)), rng.normal([3, 0, 0, 0], 1, size=(20, 4))
    >>> result = explain(lambda rows: rows[:, 0] + rows[:, 1], patients, gaussian(reference), draws=999)
    >>> result.table[result.chosen].subset.unique().tolist()
    ['x0']
    """
    asked = _checked(test, alternative, rule, family, link, alpha, draws, center, seed, batch_rows)
    table = as_table(X, "data")
    groups = column_subsets(table, subsets)
    fitted = table_sampler(gaussian(sampler) if is_data(sampler) else sampler, table)
    problem = table_problem(table.values, table.index, groups, fitted, asked.seed)
    batch_rows = asked.batch_rows or int(np.clip(2**19 // table.values.shape[1], 256, 10_000))
    wrapped = wrap(model)
    black_box = _on_tables(wrapped, table)

    warned = reach(test, asked.rule, alpha, largest_family(_groups(problem, family), problem.size), asked.draws)
    for sentence in warned:
        warnings.warn(sentence, ReachWarning, stacklevel=2)
    observed, rounding, odd = probe(
        black_box, table.values, batch_rows, lambda row: f"row {row} of the data (index {table.index[row]!r})"
    )
    aim = _target(target, y, observed, wrapped)
    direction = alternative or ("greater" if target_name(target, observed) in AIMED else "two-sided")
    middle = _center(center, direction, test)
    linked(observed, link)  # refuses a link that does not fit, before anything is drawn
    question = Question(aim, rounding, direction, link, middle)

    counted = _Counter(rows=len(observed) + min(16, len(observed), batch_rows))
    with reporting(progress) as report:
        calls = Calls(
            black_box, batch_rows, observed.shape[1], counted.stage(report, test, _rows(problem, question, asked))
        )
        evidence = _run(problem, calls, question, asked)
        tested = family_members(evidence, asked.rule)
        chosen = selection.select(evidence.values, alpha, asked.rule, tested, _groups(problem, family))
        found = no_effects(problem.size)
        if keep_effects and chosen.any():
            extra = EFFECT_DRAWS[test]
            tick = counted.stage(report, "effects", int(chosen.sum()) * (extra + 1), chosen=int(chosen.sum()))
            calls = Calls(black_box, batch_rows, observed.shape[1], tick)
            found = effects(problem, calls, link, chosen, evidence.classes, extra)
    notes = (*warned, *([odd] if odd else []), *notes_after(evidence.kind, evidence.values, tested, chosen))
    return Result(
        input_names=problem.input_names,
        subset_names=problem.subset_names,
        input_of=problem.input_of,
        subset_of=problem.subset_of,
        evidence=evidence,
        effects=found,
        chosen=chosen,
        alpha=alpha,
        rule=asked.rule,
        family=family,
        rows=counted.rows,
        notes=notes,
        provenance={
            "version": __version__,
            "test": test,
            "alternative": direction,
            "target": _plain_target(target, observed),
            "link": link,
            "center": middle,
            "seed": asked.seed,
            "columns": list(table.columns),
            "frame": table.labels is not None,
            "sampler": repr(sampler)
            if hasattr(sampler, "columns") and not is_data(sampler)
            else type(sampler).__name__,
            "dependence_ignored": bool(getattr(fitted, "ignores_dependence", False)),
            "reach": warned,
        },
        output_names=_output_names(wrapped, observed),
        problem=problem,
        show=table.show,
    )


@dataclass(frozen=True)
class Asked:
    """Arguments after checking, with their defaults filled in."""

    test: Test
    rule: str
    draws: int
    seed: int
    batch_rows: int | None


def _checked(
    test: Any,
    alternative: Any,
    rule: Any,
    family: Any,
    link: Any,
    alpha: Any,
    draws: Any,
    center: Any,
    seed: Any,
    batch_rows: Any,
) -> Asked:
    _one_of("test", test, get_args(Test))
    _one_of("alternative", alternative, (None, *get_args(Alternative)))
    _one_of("family", family, get_args(Family))
    _one_of("link", link, (None, "logit", "log"))
    if isinstance(alpha, bool) or not isinstance(alpha, int | float | np.number) or not 0 < alpha < 1:
        raise InputError(f"alpha must lie strictly between 0 and 1, got {alpha!r}; 0.1 is a common choice")
    rule = {"irt": "bh", "osft": "knockoff+"}[test] if rule is None else rule
    guarantee(test, rule, family, float(alpha))  # refuses what has no guarantee, and names what fits
    draws = {"irt": 1000, "osft": 1}[test] if draws is None else _whole("draws", draws, 1)
    if test == "osft" and draws != 1:
        raise InputError(f"test='osft' takes one draw, got draws={draws}; use test='irt' for more")
    if center is not None:
        _whole("center", center, 1)
    return Asked(
        test,
        rule,
        draws,
        _whole("seed", seed, 0),
        None if batch_rows is None else _whole("batch_rows", batch_rows, 1),
    )


def _one_of(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    if value not in allowed:
        raise InputError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)


def _on_tables(wrapped: Wrapped, table: Table) -> Callable[[Any], Any]:
    """The model on rows of the matrix: it sees the type and the column names that the user gave."""
    if table.labels is None:
        return wrapped.call
    return lambda rows: wrapped.call(table.show(rows))


def _groups(problem: Problem, family: str) -> Any:
    return problem.input_of if family == "input" else None


AIMED = ("predicted", "observed-class")  # targets that are the predicted class of a classifier


def target_name(target: Any, observed: Floats) -> Any:
    """The target, with its default filled in: the output itself, or the predicted class where there are several."""
    return ("output" if observed.shape[1] == 1 else "predicted") if target is None else target


def _plain_target(target: Any, observed: Floats) -> Any:
    name = target_name(target, observed)
    return name.item() if isinstance(name, np.generic) else name


def _target(target: Any, y: Any, observed: Floats, wrapped: Wrapped) -> Target:
    name, outputs = target_name(target, observed), observed.shape[1]
    if y is not None and not (isinstance(name, str) and name == "truth"):
        raise InputError("y is used with target='truth' only; drop it or ask for target='truth'")
    if isinstance(name, str) and name in ("output", "predicted", "observed-class", "truth"):
        if outputs == 1 and name != "output":
            raise InputError(f"target={name!r} needs a model with several outputs, this one has one; use target=None")
        if name == "output" and outputs > 1:
            raise InputError(f"the model has {outputs} outputs; choose one with target= or use target='predicted'")
        if name == "observed-class":
            return Target("per-input", observed.argmax(axis=1))
        if name == "truth":
            return Target("per-input", _truth(y, observed, wrapped))
        return Target(name)  # type: ignore[arg-type]
    return Target("fixed", np.array([_class_index(name, outputs, wrapped)]))


def _truth(y: Any, observed: Floats, wrapped: Wrapped) -> Any:
    if y is None:
        raise InputError("target='truth' needs the true labels: y=")
    labels = np.asarray(y).tolist()
    if len(labels) != len(observed):
        raise InputError(f"y has {len(labels)} labels for {len(observed)} rows of data; give one for each row")
    return np.array([_class_index(label, observed.shape[1], wrapped) for label in labels])


def _class_index(label: Any, outputs: int, wrapped: Wrapped) -> int:
    if wrapped.classes is not None and label in wrapped.classes:
        return wrapped.classes.index(label)
    if isinstance(label, int | np.integer) and not isinstance(label, bool) and 0 <= label < outputs:
        return int(label)
    known = f"labels {list(wrapped.classes[:8])}" if wrapped.classes is not None else f"outputs 0 to {outputs - 1}"
    raise InputError(f"unknown target {label!r}; the model has {known}, or use 'predicted' or 'truth'")


def _output_names(wrapped: Wrapped, observed: Floats) -> tuple[Any, ...] | None:
    if observed.shape[1] == 1:
        return None
    return wrapped.classes if wrapped.classes is not None else tuple(range(observed.shape[1]))


def _center(center: int | None, direction: str, test: str) -> int:
    if direction != "two-sided":
        if center is not None:
            raise InputError(f"center is for two-sided tests, this one is {direction!r}; drop it")
        return 0
    return {"irt": 16, "osft": 1}[test] if center is None else center  # 1 is the paper's


class _Counter:
    """Counts model rows over the stages of a run and tells the user's callback."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def stage(self, report: Report, name: str, total: int, chosen: int | None = None) -> Callable[[int], None]:
        done = 0

        def tick(rows: int) -> None:
            nonlocal done
            done += rows
            self.rows += rows
            report(Progress(name, done, total, chosen))

        return tick


def _rows(problem: Problem, question: Question, asked: Asked) -> int:
    total = question.center + asked.draws
    return problem.size * (total + -(-total // problem.round_draws))


def _run(problem: Problem, calls: Calls, question: Question, asked: Asked) -> Evidence:
    if asked.test == "osft":
        return procedures.osft(problem, calls, question)
    return procedures.irt(problem, calls, question, asked.draws)
