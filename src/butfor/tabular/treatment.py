"""Treatment: per person, would the decision have been otherwise but for a protected attribute (METHODS 16, 17, 18)?

The attribute is set to each other value that occurs in the reference and is plausible beside the person's legitimate
columns; declared proxies, columns that tell it, are redrawn together with it. See `inference.treatment` for the test.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from butfor.evaluation.calls import Probe, ask, probe
from butfor.evaluation.evaluator import Evaluator
from butfor.evaluation.hypotheses import CounterfactualBatch, Hypotheses, Job, table_hypotheses
from butfor.evaluation.items import TableItems, content_digest
from butfor.evaluation.journal import journal
from butfor.evaluation.progress import Meter, Progress, reporting
from butfor.evaluation.samplers import Sampler, info_of
from butfor.evaluation.workers import asked_where, opened, worker_states
from butfor.inference.decisions import LEAST_P, Decision, FlipShare
from butfor.inference.statistics import Rounding
from butfor.inference.treatment import FlipContrast, accuse, mean_contrast, p_of_people, p_otherwise
from butfor.models.wrap import Wrapped, check_aligned, is_frame, is_series, model_name
from butfor.results.treatment import Rates, Roles, Treatment, fixed_note
from butfor.results.words import RIGHT, SAMPLERS, Guarantee, Note, shortened
from butfor.run.decisions import watch_decisions
from butfor.run.run import manifest, model_notes, output_names
from butfor.settings import RunOptions, Settings, documented
from butfor.tabular.explain import default_batch_rows, fit_of, name_row, rank_faults, reference_notes, row_notes
from butfor.tabular.explain import explain as explain_table
from butfor.tabular.splice import TableSampler, bind_model, bind_sampler, is_data, table_sampler
from butfor.tabular.table import Table, as_frame, as_table, items_of
from butfor.types import Array, Batch, Bools, Floats, InputError, Ints, Model, Subset, labels_of

DRAWS, FIRST = 200, 50  # of each person and value: the most, and those after which it is seen who may be accused
PLAUSIBLE = 0.01  # the least share of a value, given the legitimate columns
LEAST_STRATUM = 50  # rows of each value that get a fit by themselves
LEAST_ROWS = 10  # of the reference with a value, where the proxies are redrawn given it
MOST_VALUES, MOST_COMBINATIONS = 20, 40  # of an attribute, of several together
ERROR = 0.05  # of the intervals that are shown


@documented
def treatment(
    model: object,
    X: object,
    reference: object,
    *,
    attribute: str | Sequence[str] | ArrayLike,
    reference_attribute: ArrayLike | None = None,
    legitimate: str | Sequence[str] | None = None,
    proxies: str | Sequence[str] | None = None,
    favourable: Hashable | Callable[[Any], Any] = None,
    sampler: object = None,
    groups: ArrayLike | None = None,
    reference_groups: ArrayLike | None = None,
    reason_codes: Mapping[Any, str] | None = None,
    decide: Callable[[Any], Any] | None = None,
    level: float = 0.5,
    alpha: float = 0.1,
    draws: int | None = None,
    seed: int = 0,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
    options: RunOptions | None = None,
    workers: object = None,
    run_dir: str | PathLike[str] | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
    batch_rows: int | None = None,
    timeout: float | None = None,
) -> Treatment:
    """Who would have been decided otherwise but for a protected attribute, with the false discovery rate over people.

    Each person's row is fixed but for the attribute, which is set to each other value that occurs in the reference and
    is plausible beside the legitimate columns: of people like that 1 % have it. Nothing is random there: the decision
    changes, and the person is accused whatever proxies are declared, or it does not.
    Proxies are redrawn as people with that value have them. A noisy proxy that is redrawn changes borderline decisions
    of any model; so a person is accused through them only if the decision is otherwise in more than `level` of the
    draws under another value *and* more often than under the person's value with the proxies redrawn as well. What is
    found is a fact about the model, not about the law.

    Parameters
    ----------
    model : callable or estimator
        Any black box, as in `butfor.explain`.
    X : array-like or DataFrame
        The people, a row each.
    reference : array-like or DataFrame
        Rows of the population that decisions are made of, with the same columns: how proxies go with the attribute is
        learned from them. Rows that the model was not fitted on are best.
    attribute : str, list of str, or array-like of shape (n,)
        The column with the protected attribute; several columns, whose combinations are then its values; or a value for
        each person where the model does not get it. Categories or a few numbers; of age give bands.
    reference_attribute : array-like of shape (m,), optional
        A value for each row of the reference, where the attribute is given beside `X`.
    legitimate : list of str, optional
        Columns that may differ between people for good reasons: they always stay as they are. None: all columns but the
        attribute and its proxies. Columns that are neither stay as they are, too, and the result says so; they have no
        say in which values are plausible.
    proxies : list of str, optional
        Columns that tell the attribute: they are redrawn together with it.
    favourable : label or callable, optional
        The decision that people hope for: a class, a value that `decide` returns, or a function decisions -> booleans.
        Only people without it are asked about, and only a change to it counts. None: any change of the decision.
    sampler : callable, optional
        Draws the proxies in place of `butfor.tabular.residual`, from rows of `X` without the attribute's columns and
        with its value as one last column, a category.
    groups : array-like of shape (n,), optional
        A label for each row of `X`, equal for rows of one person, who is then counted once.
    reference_groups : array-like of shape (m,), optional
        The same for rows of the reference: they are one cluster in the fit.
    reason_codes : mapping, optional
        Words for columns, or for tuples of columns, as in your table of reason codes: `result.reasons(person)` then has
        the strongest reasons. An empty mapping gives them by the names of columns.
    level : float, default 0.5
        The decision is otherwise if it is in more than this share of the draws: more likely than not.
    alpha : float, default 0.1
        At most this share of the people accused is accused wrongly, on average; and of those accused through proxies.
    draws : int, optional
        Of each person and value, at most. None is 200.
    {settings}

    Returns
    -------
    Treatment
        `accused` has a bool per person; `table`, `groups`, `summary()`, `report(path)` and `reasons(person)` the rest.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = np.column_stack([rng.integers(2, size=300), rng.normal(size=(300, 2))])  # sex, income, debt
    >>> result = treatment(
    ...     lambda rows: rows[:, 1] - rows[:, 2] - rows[:, 0] * (rows[:, 2] < 0), rows[:50], rows[50:], attribute="x0",
    ...     decide=lambda score: np.where(score > 0, "approved", "declined"), favourable="approved",
    ... )
    >>> int(result.accused.sum()), result.table[result.accused].value.unique().tolist()
    (7, ['1'])
    """
    named = locals()
    if decide is not None and not callable(decide):
        raise InputError(f"treatment asks about a decision; decide is None or a function of outputs, got {decide!r}")
    settings = Settings.of(named, test="irt", rule="bh", draws=DRAWS)
    if settings.options.on_error == "skip":
        raise InputError("treatment does not leave people out: on_error='skip' is not for it; drop it")
    if isinstance(sampler, TableSampler):
        raise InputError(f"{sampler!r} does not know the attribute; give a function, or no sampler at all")
    people = _people(model, X, reference, attribute, reference_attribute, legitimate, proxies)
    check_aligned(groups, as_frame(X, "data"), "groups")
    if groups is not None and len(np.asarray(groups)) != len(people.value_of):
        raise InputError(
            f"groups has {len(np.asarray(groups))} labels for {len(people.value_of)} rows; give one for each"
        )
    result = _measured(model, people, settings, sampler, reference_groups, favourable)
    if reason_codes is None:
        return result
    explained, codes = _reasons(model, X, reference, result, people, reason_codes, settings)
    return replace(result, explained=explained, codes=codes, rows=result.rows + explained.rows)


# The people, and the part that each column plays


@dataclass(frozen=True, eq=False)
class People:
    """The people and the reference with their attribute, and frames for the sampler: its value is the last column."""

    wrapped: Wrapped
    table: Table
    reference: Table
    roles: Roles
    labels: tuple[str, ...]  # (V,)
    value_of: Ints  # (n,)
    reference_values: Ints  # (m,)
    columns: Ints  # of the attribute in the table; none where it is given beside
    lookup: Floats  # (V, columns) what a value is there
    kept: Ints  # all other columns
    frame: Any
    reference_frame: Any

    @property
    def proxies(self) -> Ints:  # positions in the frame
        names = [self.table.columns[j] for j in self.kept]
        return np.array([names.index(name) for name in self.roles.proxies], np.int64)


def _people(
    model: object,
    X: object,
    reference: object,
    attribute: Any,
    reference_attribute: Any,
    legitimate: str | Sequence[str] | None,
    proxies: str | Sequence[str] | None,
) -> People:
    """Return everything about people that can be checked before anything is fitted or asked."""
    if callable(attribute):
        raise InputError(
            "attribute is a function, and treatment is for tables; of images ask butfor.image.explain(..., "
            "boxes=butfor.image.attributes(name=function)), which tells how often the decision changes"
        )
    if not is_data(reference):
        raise InputError(f"reference must be rows to learn from, got {type(reference).__name__}; a sampler is sampler=")
    X, reference = as_frame(X, "data"), as_frame(reference, "reference")
    wrapped = bind_model(model, X)
    compared = as_table(reference, "reference")
    table = as_table(X, "data", like=compared.named_kinds)
    if set(table.columns) != set(compared.columns):
        other = sorted(set(table.columns) ^ set(compared.columns))
        raise InputError(f"the data and the reference have different columns ({shortened(other)}); give both the same")
    order = np.array([compared.columns.index(name) for name in table.columns])
    named = _named(attribute, len(table.values), table)
    if named is None:
        name, labels, value_of, reference_values = _beside(
            attribute, reference_attribute, X, reference, table, compared
        )
        columns, lookup = np.zeros(0, np.int64), np.zeros((len(labels), 0))
    else:
        if reference_attribute is not None:
            raise InputError("reference_attribute goes with an attribute given beside X; drop it")
        columns = np.array([table.columns.index(one) for one in named])
        name, labels, value_of, reference_values, lookup = _in_columns(columns, table, compared, order)
    given = {"legitimate": _names("legitimate", legitimate, table), "proxies": _names("proxies", proxies, table)}
    for role, names in given.items():
        if both := [one for one in names if one in (named or ())]:
            raise InputError(f"column {both[0]!r} is the attribute and among {role}; leave it out there")
    if both := [one for one in given["proxies"] if one in given["legitimate"]]:
        raise InputError(f"column {both[0]!r} is both legitimate and a proxy; a legitimate column is never redrawn: "
                         "decide which it is")  # fmt: skip
    if named is None and not given["proxies"]:
        raise InputError(
            f"the model does not get {name}, and no proxies are declared, so nothing could change; name the columns "
            "that tell it: proxies=[...]"
        )
    kept = np.setdiff1d(np.arange(len(table.columns)), columns)
    if not kept.size:
        raise InputError("the table has no column beside the attribute; give the rows that the model gets")
    declared = {*given["legitimate"], *given["proxies"]}
    undeclared = tuple(table.columns[j] for j in kept if table.columns[j] not in declared)
    last = name
    while last in table.columns:
        last += " "
    return People(
        wrapped,
        table,
        compared,
        Roles(name, named or (), given["proxies"], given["legitimate"], undeclared),
        labels,
        value_of,
        reference_values,
        columns,
        lookup,
        kept,
        _with_value(X, table, kept, value_of, len(labels), last),
        _with_value(reference, compared, order[kept], reference_values, len(labels), last),
    )


def _named(attribute: Any, rows: int, table: Table) -> tuple[str, ...] | None:
    """Return the attribute's columns; None: values were given beside the table."""
    if isinstance(attribute, str):
        names: Sequence[Any] = [attribute]
    elif isinstance(attribute, list | tuple) and len(attribute) and all(isinstance(one, str) for one in attribute):
        if len(attribute) == rows and not set(attribute) <= set(table.columns):
            return None
        names = attribute
    else:
        return None
    if len(set(names)) < len(names):
        raise InputError(f"attribute names a column twice: {', '.join(names)}; name each once")
    return _names("attribute", names, table)


def _names(role: str, given: str | Sequence[str] | None, table: Table) -> tuple[str, ...]:
    names = [given] if isinstance(given, str) else list(given or ())
    for one in names:
        if one not in table.columns:
            raise InputError(f"{role}: there is no column {one!r}; columns are {shortened(table.columns, 8)}")
    return tuple(dict.fromkeys(names))


def _few(name: str, count: int, most: int) -> None:
    if count > most:
        raise InputError(
            f"attribute {name} has {count} values in the reference, at most {most} can be asked about; give it in "
            f"bands beside the columns, such as attribute=pd.cut(X[{name!r}], [0, 40, 62, 120]) and likewise "
            "reference_attribute=, and name the column itself among the proxies"
        )
    if count < 2:
        raise InputError(
            f"attribute {name} has one value in the reference, so nobody is known who has another; give a reference "
            "with two values or more"
        )


def _beside(
    attribute: Any, reference_attribute: Any, X: object, reference: object, table: Table, compared: Table
) -> tuple[str, tuple[str, ...], Ints, Ints]:
    """Return the name, labels, and codes of an attribute that is given beside the columns."""
    if reference_attribute is None:
        raise InputError(
            "attribute was given beside X; give reference_attribute, its value for each row of the reference"
        )
    lists, name = [], str(getattr(attribute, "name", None) or "the attribute")
    for values, what, data, rows in (
        (attribute, "attribute", X, table), (reference_attribute, "reference_attribute", reference, compared)
    ):  # fmt: skip
        check_aligned(values, data, what)
        one = labels_of(what, values.to_numpy() if is_series(values) else values, "row")
        if len(one) != len(rows.values):
            raise InputError(f"{what} has {len(one)} values for {len(rows.values)} rows; give one for each row")
        missing = [place for place, label in enumerate(one) if label is None or label != label]
        if missing:
            raise InputError(_missing(name, rows, missing[0], what))
        lists.append(one)
    people, others = lists
    known = list(dict.fromkeys(others))
    if all(isinstance(one, str) for one in known) or all(isinstance(one, int | float) for one in known):
        known = sorted(known)
    _few(name, len(known), MOST_VALUES)
    code = {label: k for k, label in enumerate(known)}
    strange = [place for place, label in enumerate(people) if label not in code]
    if strange:
        raise InputError(_unknown(name, people[strange[0]], table, strange[0]))
    labels = tuple(_word(one) for one in known)
    return name, labels, np.array([code[one] for one in people]), np.array([code[one] for one in others])


def _missing(name: str, rows: Table, place: int, what: str) -> str:
    where = "reference" if what.startswith("reference") else "data"
    return (
        f"attribute {name} is missing in row {rows.index[place]!r} of the {where}; fill it in, leave the row out, or "
        "make 'missing' a value of its own"
    )


def _unknown(name: str, value: object, table: Table, place: int) -> str:
    return (
        f"attribute {name} is {value} in row {table.index[place]!r}, which no row of the reference has; give a "
        "reference with such rows, or leave them out"
    )


def _word(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _in_columns(
    columns: Ints, table: Table, compared: Table, order: Ints
) -> tuple[str, tuple[str, ...], Ints, Ints, Floats]:
    """Return the name, labels, codes and numbers of an attribute in columns of the table."""
    names = [table.columns[j] for j in columns]
    people, others = table.values[:, columns].astype(np.float64), compared.values[:, order[columns]].astype(np.float64)
    for values, rows, what in ((people, table, "data"), (others, compared, "reference")):
        if np.isnan(values).any():
            row, j = np.argwhere(np.isnan(values))[0]
            raise InputError(_missing(names[j], rows, int(row), what))
    for name, values in zip(names, others.T, strict=True):
        _few(name, len(np.unique(values)), MOST_VALUES)
    known, codes = np.unique(others, axis=0, return_inverse=True)
    together = " x ".join(names)
    _few(together, len(known), MOST_COMBINATIONS)
    same = (people[:, None, :] == known).all(axis=2)
    labels = tuple(" / ".join(_cell(table, j, value) for j, value in zip(columns, row, strict=True)) for row in known)
    if (strange := np.flatnonzero(~same.any(axis=1))).size:
        cells = [_cell(table, j, value) for j, value in zip(columns, people[strange[0]], strict=True)]
        raise InputError(_unknown(together, " / ".join(cells), table, int(strange[0])))
    return together, labels, same.argmax(axis=1), codes.reshape(-1), known


def _cell(table: Table, column: int, value: float) -> str:
    kind = table.kinds[column]
    if kind.levels is not None:
        return str(kind.levels[int(value)])
    return str(bool(value)) if kind.kind == "flag" else f"{value:g}"


def _with_value(data: Any, table: Table, kept: Ints, value_of: Ints, count: int, name: str) -> Any:
    """Return the columns that are kept as a frame, with the value of the attribute as its last column, a category."""
    import pandas as pd

    frame = data.iloc[:, kept].copy() if is_frame(data) else pd.DataFrame(table.values[:, kept])
    frame.columns = [table.columns[j] for j in kept]
    frame[name] = pd.Categorical.from_codes(value_of, categories=pd.RangeIndex(count))
    return frame


# What is drawn, and what the model decides


@dataclass(frozen=True)
class Deciding:
    """Outputs (..., outputs) -> decisions, their names, and whether they are what is asked for (`favourable`)."""

    decision: Decision
    classes: tuple[Any, ...] | None
    favourable: Any = None

    def named(self, outputs: Floats) -> Array:
        made = self.decision(outputs)
        if self.decision.rule is None and self.classes is not None:
            names = np.empty(len(self.classes), object)
            names[:] = self.classes
            made = names[made]
        return made

    def favours(self, named: Array) -> Bools:
        """Return which decisions are favourable; all of them where no decision is named as such."""
        if self.favourable is None:
            return np.ones(named.shape, bool)
        if callable(self.favourable):
            made = np.asarray(self.favourable(named.reshape(-1)))
            if made.shape != (named.size,) or made.dtype != bool:
                raise InputError(
                    f"favourable must return a boolean for each decision, got {made.dtype} of shape {made.shape} for "
                    f"{named.size} decisions"
                )
            return made.reshape(named.shape)
        return np.asarray(np.equal(named, self.favourable, dtype=object), bool)

    def word(self, decision: object) -> str:
        if isinstance(decision, str):
            return decision
        return f"{'class' if self.decision.rule is None else 'decision'} {_word(decision)}"


@dataclass(frozen=True)
class LookForOtherwise:
    """How many of the draws of each input of a batch get another decision than the input has, as it is."""

    deciding: Deciding
    outputs: Floats  # (n, outputs) on the people as they are
    rounding: Rounding

    def __call__(self, hypotheses: Hypotheses, batch: CounterfactualBatch, outputs: Floats) -> tuple[int, Ints]:  # noqa: ARG002
        flips = self.otherwise(batch.job.inputs, outputs[:, 1:])
        return flips.shape[1], flips.sum(axis=1)

    def otherwise(self, inputs: Ints, outputs: Floats) -> Bools:
        """Return which outputs (n, draws, outputs) give another decision, and not by the model's rounding alone."""
        observed = self.outputs[inputs][:, None]
        named = self.deciding.named(observed.reshape(-1, observed.shape[2]))[:, None]
        drawn = self.deciding.named(outputs.reshape(-1, outputs.shape[2])).reshape(outputs.shape[:2])
        same = self.rounding.same(np.concatenate([observed, outputs], axis=1), inputs)[:, 1:]
        return np.asarray((drawn != named) & self.deciding.favours(drawn) & ~same, bool)


class Otherwise:
    """Counts the draws of every person under one value (n,)."""

    def __init__(self, look: LookForOtherwise) -> None:
        self.look = look
        self.draws, self.flips = np.zeros((2, len(look.outputs)), np.int64)

    def note(self, job: Job, numbers: tuple[int, Ints] | None, *, listed: bool) -> None:  # noqa: ARG002
        if numbers is not None:
            self.draws[job.rows] += numbers[0]
            self.flips[job.rows] += numbers[1]


@dataclass(frozen=True, eq=False)
class Arms:
    """The same people under each value (V,): rows of the sampler's frame, and how well the fit is known there."""

    people: People
    table: Table  # of the frame
    samplers: tuple[Sampler, ...]  # of each value: the same, or each fitted on the rows with that value
    seed: int

    def items(self, value: int) -> TableItems:
        people = self.people
        values = self.table.values.copy()
        values[:, -1] = value
        return TableItems(values, partial(_as_given, people.table, people.kept, people.columns, people.lookup))

    def hypotheses(self, value: int) -> Hypotheses:
        """Return their proxies as what is redrawn, from a stream by the name of the value."""
        roles, index = self.people.roles, self.people.proxies
        index = index if index.size else np.array([self.table.values.shape[1] - 1])
        key = f"{roles.attribute} is {self.people.labels[value]}"
        subset = Subset(", ".join(roles.proxies) or roles.attribute, index, key)
        return table_hypotheses(self.items(value), self.table.index, [subset], self.samplers[value], self.seed)


def _as_given(table: Table, kept: Ints, columns: Ints, lookup: Floats, values: Array, rows: Ints | None) -> Batch:
    """Return rows of the sampler's frame as the model gets them: without the value, or with what it stands for."""
    made = np.empty((len(values), len(table.columns)), table.values.dtype)
    made[:, kept] = values[:, :-1]
    if columns.size:
        made[:, columns] = lookup[values[:, -1].astype(np.int64)]
    return table.show(made, rows)


def _plausible(people: People, reference_groups: object) -> Bools:
    """Return which values (n, V) are not rare, given the legitimate columns (none declared: all but the proxies)."""
    names, roles = [people.table.columns[j] for j in people.kept], people.roles
    counts = [name in roles.legitimate if roles.legitimate else name not in roles.proxies for name in names]
    stays = np.append(np.flatnonzero(counts), len(names))
    margin = np.bincount(people.reference_values, minlength=len(people.labels)) / len(people.reference_values)
    margin = np.broadcast_to(margin >= PLAUSIBLE, (len(people.value_of), len(people.labels)))
    if len(stays) == 1:
        return np.asarray(margin)
    data, compared = (frame.iloc[:, stays] for frame in (people.frame, people.reference_frame))
    table, fitted = bind_sampler(data, compared, reference_groups=reference_groups)
    subset = Subset(people.roles.attribute, np.array([len(stays) - 1]))
    if not isinstance(fitted, TableSampler) or not fitted.lists(subset):
        return np.asarray(margin)
    values, mass = fitted.support(table.values, subset)
    values, mass = values[:, 1:, 0], mass[:, 1:]  # the first is the observed one
    shares = np.stack([np.where(values == v, mass, 0.0).sum(axis=1) for v in range(len(people.labels))], axis=1)
    return np.asarray(shares / mass.sum(axis=1, keepdims=True) >= PLAUSIBLE)


def _measured(
    model: object, people: People, settings: Settings, sampler: object, reference_groups: object, favourable: Any
) -> Treatment:
    """Return who is treated otherwise: look at the model, set the attribute, redraw the proxies, compare."""
    wrapped, options, table = people.wrapped, settings.options, people.table
    size = options.batch_rows or default_batch_rows(table)
    if sampler is None:
        framed, fitted = bind_sampler(people.frame, people.reference_frame, reference_groups=reference_groups)
    else:
        framed = as_table(people.frame, "data", like=as_table(people.reference_frame, "reference").named_kinds)
        fitted = table_sampler(sampler, framed)
    arms = Arms(people, framed, (fitted,) * len(people.labels), settings.seed)
    first = arms.hypotheses(0)

    def described() -> dict[str, str]:
        compared = (people.value_of, people.labels, vars(people.roles), people.reference.values, repr(favourable))
        about = {"treatment": content_digest([str(one) if isinstance(one, dict) else one for one in compared]).hex()}
        return manifest(first, model_name(model), wrapped.call, size, settings) | about

    with (
        opened(options.workers) as engine,
        journal(engine, asked_where(engine, wrapped.call, options.timeout), options.run_dir, described) as kept,
        reporting(options.progress) as report,
    ):
        seen = probe(kept.model, items_of(table), size, partial(name_row, table))
        deciding = _deciding(first, settings, seen, wrapped, favourable)
        if seen.odd == "random" and not people.roles.proxies:
            raise InputError(
                "the model gives a row another output when it is asked again, so setting the attribute shows nothing; "
                "fix its seed"
            )
        meter = Meter(report, seen.rows, partial(worker_states, kept.engine))
        plain = Evaluator(wrapped.call, size, seen.outputs.shape[1], meter, engine=kept.engine, remembered=kept.model)
        named = deciding.named(seen.outputs)
        eligible = ~deciding.favours(named) if favourable is not None else np.ones(len(named), bool)
        compared, notes = _compared(people, eligible, _plausible(people, reference_groups), sampler)
        alone = compared
        if people.roles.proxies and people.roles.columns:  # declaring them takes nothing away
            bare = replace(people, roles=replace(people.roles, proxies=()))
            alone = compared | _compared(bare, eligible, _plausible(bare, reference_groups), sampler)[0]
        look = LookForOtherwise(deciding, seen.outputs, seen.rounding)
        direct = np.zeros(compared.shape, bool)
        if people.roles.columns and seen.odd != "random":  # the attribute alone is set to each value
            for v, rows in enumerate(map(np.flatnonzero, alone.T)):
                if rows.size:
                    outputs = _outputs_at(kept.model, table, size, meter, arms.items(v), rows)
                    direct[rows, v] = look.otherwise(rows, outputs[:, None])[:, 0]
        if people.roles.proxies:
            arms, of_draws = _calibrated(arms, compared)
            notes += of_draws
            other, rates_kept = _drawn(arms, compared, look, plain, settings)
        else:
            zeros = np.zeros(int(compared.sum()))
            other = FlipShare(zeros.astype(np.int64), direct[compared].astype(float), zeros)
            rates_kept = FlipShare(zeros.astype(np.int64), zeros, zeros)
        kept.finish()
    silent = any(note.code == "treatment-not-calibrated" for note in notes)
    notes = [*model_notes(seen), *notes, *fixed_note(people.roles), *_notes_on_rows(people, settings)]
    rates, contrast = _rates(people, compared, other, rates_kept, direct, settings.level, silent=silent)
    clusters = None
    if settings.groups is not None:
        labels = labels_of("groups", settings.groups, "row")
        code = {label: k for k, label in enumerate(dict.fromkeys(labels))}
        clusters = np.array([code[label] for label in labels])
    accusation = accuse(p_of_people(rates.p), settings.alpha, 1 - ERROR, clusters, np.asarray(direct.any(axis=1)))
    of_person = np.nonzero(compared)[0]
    pairs_of = [np.flatnonzero(people.value_of[of_person] == v) for v in range(compared.shape[1])]
    return Treatment(
        people=tuple(table.index),
        roles=people.roles,
        values=people.labels,
        value_of=people.value_of,
        decisions=tuple(deciding.word(one) for one in named.tolist()),
        favourable=None if favourable is None else "favourable" if callable(favourable) else deciding.word(favourable),
        eligible=eligible,
        rates=rates,
        accusation=accusation,
        mean=np.array([mean_contrast(contrast.take(pairs)) for pairs in pairs_of]),
        alpha=settings.alpha,
        level=settings.level,
        notes=tuple(notes),
        guarantee=_promise(people, arms, settings, accusation.p, computed=bool(direct.any()), silent=silent),
        rows=meter.rows,
    )


def _deciding(hypotheses: Hypotheses, settings: Settings, seen: Probe, wrapped: Wrapped, favourable: Any) -> Deciding:
    """Return how the model decides; refuse one that does not, and a favourable decision that there is not."""
    if watch_decisions(hypotheses, settings, seen.outputs, decides=wrapped.decides) is None:
        raise InputError(
            "the model has one output, or predicts numbers, and so makes no decision; give the rule, such as "
            "decide=lambda outputs: outputs >= 0.4"
        )
    made = Decision(settings.decide if callable(settings.decide) else None)
    deciding = Deciding(made, output_names(wrapped, seen.outputs.shape[1]), favourable)
    named = deciding.named(seen.outputs)
    if favourable is None or callable(favourable):
        return deciding
    known = set(named.tolist()) if made.rule is not None else set(deciding.classes or ())
    if favourable not in known and (made.rule is None or len(known) > 1):  # all may have been declined
        raise InputError(
            f"favourable={favourable!r} is no decision that is made here; these are: "
            f"{shortened([repr(one) for one in sorted(known, key=str)])}"
        )
    return deciding


def _compared(people: People, eligible: Bools, plausible: Bools, sampler: object) -> tuple[Bools, list[Note]]:
    """Return which other values (n, V) are asked of whom, and what is said of the others."""
    rows, notes, name = np.arange(len(people.value_of)), list[Note](), people.roles.attribute
    compared = np.broadcast_to(eligible[:, None], plausible.shape).copy()
    compared[rows, people.value_of] = False
    if people.roles.proxies and sampler is None:
        rare = np.bincount(people.reference_values, minlength=len(people.labels)) < LEAST_ROWS
        if rare.any():
            named = [people.labels[v] for v in np.flatnonzero(rare)]
            notes.append(Note("treatment-rare", "limit", {"attribute": name, "values": named, "least": LEAST_ROWS}))
        compared[:, rare] = False
        compared[rare[people.value_of]] = False
    wanted = compared.any(axis=1)
    compared &= plausible
    if left := int((wanted & ~compared.any(axis=1)).sum()):
        values = {"attribute": name, "count": left, "total": int(wanted.sum()), "share": PLAUSIBLE}
        notes.append(Note("treatment-implausible", "warning" if left == wanted.sum() else "limit", values))
    return compared, notes


def _outputs_at(model: Model, table: Table, size: int, meter: Meter, items: TableItems, rows: Ints) -> Floats:
    parts = []
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        outputs = ask(model, items.given(some), len(some), lambda row, some=some: name_row(table, int(some[row])))  # type: ignore[misc]
        parts.append(outputs.astype(np.float64).reshape(len(some), -1))
    meter.count(len(rows), len(rows), 0)
    return np.concatenate(parts)


def _drawn(
    arms: Arms, compared: Bools, look: LookForOtherwise, plain: Evaluator, settings: Settings
) -> tuple[FlipShare, FlipShare]:
    """Return how often decisions are otherwise under other values, of the pairs that are asked, and under one's value.

    After a first round those go on who may yet be accused; what is said of the others is what that round has shown, and
    their p-value is 1 unless even that accuses them.
    """
    value_of, most = arms.people.value_of, settings.test.draws or DRAWS
    hypotheses = [arms.hypotheses(v) for v in range(compared.shape[1])]
    counts = [Otherwise(look) for _ in hypotheses]
    first, open_ = min(FIRST, most), compared
    slack = 2 * np.sqrt(settings.level * (1 - settings.level) / first)
    plain.counter.stage("decision", None)
    for number, size in enumerate((first, most - first)):
        drawn = open_.copy()
        drawn[np.arange(len(drawn)), value_of] = open_.any(axis=1)
        for one, counted, wanted in zip(hypotheses, counts, drawn.T, strict=True):
            jobs = [
                Job(block, size, f"treatment {number}", ask=None if ask.size == block.stop - block.start else ask)
                for block in one.blocks
                if (ask := np.flatnonzero(wanted[block.start : block.stop])).size
            ]
            if jobs and size:
                replace(plain, watchers=(counted,)).watch(one, jobs)
        shares = np.stack([one.flips / np.maximum(one.draws, 1) for one in counts], axis=1)
        open_ = compared & (shares > settings.level - slack)
    fits = [fit_of(one) for one in hypotheses]
    error = np.stack([np.zeros(len(value_of)) if fit is None else 1 / fit.rows + fit.leverage for fit in fits], axis=1)
    draws = np.stack([one.draws for one in counts], axis=1)
    person, other = np.nonzero(compared)
    return tuple(  # type: ignore[return-value]
        FlipShare(draws[person, v], shares[person, v], error[person, v]) for v in (other, value_of[person])
    )


def _calibrated(arms: Arms, compared: Bools) -> tuple[Arms, list[Note]]:
    """Return arms whose draws follow the other columns of the reference (METHODS 18 b), with a note where none do.

    The model is not asked. Where the fit on all rows fails, each value gets a fit on the rows that have it: those know
    a slope and a spread of their own, and bands of a number that is among the proxies.
    """
    sampler, people = arms.samplers[0], arms.people
    if not isinstance(sampler, TableSampler) or (fault := _fault(arms, [0])) is None:
        return arms, []
    named, values = {"proxies": list(people.roles.proxies)}, range(compared.shape[1])
    used = {*np.flatnonzero(compared.any(axis=0)).tolist(), *people.value_of[compared.any(axis=1)].tolist()}
    rows = [np.flatnonzero(people.reference_values == v) for v in values]
    if sampler.refit is not None and all(len(rows[v]) >= LEAST_STRATUM for v in used):
        known = {v: replace(sampler.refit(sampler.reference.take(rows[v])), order=sampler.order) for v in sorted(used)}
        strata = replace(arms, samplers=tuple(known.get(v, sampler) for v in values))
        if _fault(strata, sorted(used)) is None:
            return strata, [Note("treatment-by-value", "info", {**named, "attribute": people.roles.attribute})]
    column = arms.table.columns[fault].strip()
    return arms, [Note("treatment-not-calibrated", "warning", {**named, "column": column})]


def _fault(arms: Arms, values: Sequence[int]) -> int | None:
    """Return the column (position) that tells how draws are off under any of some values; None: none does."""
    for v in values:
        hypotheses = arms.hypotheses(v)
        assert isinstance(hypotheses.sampler, TableSampler)
        faults = rank_faults(hypotheses.sampler, arms.table, hypotheses.subsets, arms.seed)
        if faults is not None and faults.p[0] * len(values) <= ERROR:
            return int(faults.told_by[0])
    return None


def _rates(
    people: People, compared: Bools, other: FlipShare, kept: FlipShare, direct: Bools, level: float, *, silent: bool
) -> tuple[Rates, FlipContrast]:
    """Return everything by person and value, and the pairs that were asked."""
    contrast = FlipContrast(other, kept)
    person = np.nonzero(compared)[0]

    def full(of_pairs: Floats, of_person: Floats | None = None) -> Floats:
        made = np.full(compared.shape, np.nan)
        made[compared] = of_pairs
        if of_person is not None:
            made[person, people.value_of[person]] = of_person
        return made

    (low, high), (kept_low, kept_high) = other.bounds(ERROR), kept.bounds(ERROR)
    least, most = contrast.bounds(ERROR)
    p = full(np.ones(len(person)) if silent else p_otherwise(contrast, level))
    if people.roles.proxies:
        p[direct] = LEAST_P  # computed
    return Rates(
        share=full(other.share, kept.share),
        low=full(low, kept_low),
        high=full(high, kept_high),
        difference=full(contrast.difference),
        difference_low=full(least),
        difference_high=full(most),
        p=p,
        direct=direct,
        draws=np.nan_to_num(full(other.draws.astype(float), kept.draws.astype(float))).astype(np.int64),
    ), contrast


def _notes_on_rows(people: People, settings: Settings) -> list[Note]:
    """Return notes on people who repeat each other, and on those who are rows of the reference."""
    order = [people.reference.columns.index(name) for name in people.table.columns]
    rows = people.reference.values[:, order]
    notes = [note for note in row_notes(people.table, None, settings.groups) if note.code == "repeated-inputs"]
    if settings.reference_groups is None:
        notes += reference_notes(people.table, rows.astype(np.float64))
    many = any(2 * len(np.unique(column)) >= len(rows) for column in rows.T)  # else rows may be equal by chance
    known = {row.tobytes() for row in np.ascontiguousarray(rows, np.float64)} if many else set()
    count = sum(row.tobytes() in known for row in np.ascontiguousarray(people.table.values, np.float64))
    if count:
        notes.append(Note("treatment-in-reference", "warning", {"count": count, "total": len(people.value_of)}))
    return notes


def _promise(people: People, arms: Arms, settings: Settings, p: Floats, *, computed: bool, silent: bool) -> Guarantee:
    family, again = f"the {int((~np.isnan(p)).sum()):,} people asked about", "the model decides as it did here"
    if silent and computed:
        proven = (
            "everybody named is named by a computation; the draws of the proxies are not calibrated and name nobody"
        )
        return Guarantee("FDR", 0.0, family, again, proven)
    if silent:
        return Guarantee("nothing", settings.alpha, family, "the draws of the proxies are not calibrated", "")
    if not people.roles.proxies:
        proven = "nothing is estimated: every decision was computed"
        return Guarantee("FDR", 0.0, family, again, proven)
    sampler = arms.samplers[0]
    fitted = info_of(sampler).assumes if isinstance(sampler, TableSampler) else ""
    proven = (
        "Benjamini & Hochberg 1995, on intersection-union p-values of two shares that hold whenever drawing stops"
        + ("; approximate, since the sampler is fitted" if fitted else "")
    )
    if computed:
        proven += f". Whom {people.roles.attribute} alone decides otherwise is computed, as long as {again}: it holds "
        proven += "over the others by themselves, and so over all"
    return Guarantee("FDR", settings.alpha, family, RIGHT, proven, sampler=SAMPLERS.get(fitted, fitted))


def _reasons(
    model: object,
    X: object,
    reference: object,
    result: Treatment,
    people: People,
    reason_codes: Mapping[Any, str],
    settings: Settings,
) -> tuple[Any, dict[str, str]]:
    """Return the explanation of those without the favourable decision, and words for its parts; never the attribute."""
    if not isinstance(reason_codes, Mapping):
        raise InputError(f"reason_codes must be a mapping from columns to words, got {type(reason_codes).__name__}")
    parts: dict[str, list[str]] = {}
    codes: dict[str, str] = {}
    for key, words in reason_codes.items():
        columns = list(_names("reason_codes", key if isinstance(key, tuple) else (key,), people.table))
        if taken := [one for one in columns if people.table.columns.index(one) in people.columns]:
            raise InputError(f"reason_codes has {taken[0]!r}, which is the attribute and never a reason; drop it")
        parts[", ".join(columns)] = columns
        codes[", ".join(columns)] = str(words)
    coded = {one for columns in parts.values() for one in columns}
    parts |= {one: [one] for one in (people.table.columns[j] for j in people.kept) if one not in coded}
    rows = np.flatnonzero(result.eligible)
    if not rows.size:
        raise InputError(
            "nobody is without the favourable decision, so there are no reasons to give; drop reason_codes"
        )
    X = as_frame(X, "data")
    some = X.iloc[rows] if is_frame(X) else people.table.values[rows]
    given = {name: vars(settings)[name] for name in ("decide", "level", "alpha", "seed", "reference_groups")}
    given |= {"effects": None, "options": replace(settings.options, run_dir=None)}
    explained = explain_table(model, some, as_frame(reference, "reference"), parts, given)
    if not is_frame(X):
        explained = replace(explained, hypotheses=replace(explained.hypotheses, input_names=tuple(rows.tolist())))
    return explained, codes
