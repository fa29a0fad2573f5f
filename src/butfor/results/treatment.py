"""The result of `butfor.treatment`: who would have been decided otherwise but for a protected attribute, and its words.

Numbers and names only: nothing here calls the model or the sampler.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from butfor.inference.bounds import _positions as positions_of
from butfor.inference.treatment import Accusation
from butfor.results.words import Guarantee, Note, listed, shortened
from butfor.types import Bools, Floats, InputError, Ints, whole

if TYPE_CHECKING:
    import pandas as pd

    from butfor.results.result import Result

WIDTH, LEGAL = 110, "A statement about the model, not legal advice."
NO_REASONS = "this run has no reasons; ask for them with treatment(..., reason_codes={'income': 'R12 Income too low'})"
NOT_DECLINED = "{person!r} has no reasons: the decision is {decision}, which is favourable"


@dataclass(frozen=True, eq=False)
class Roles:
    """The part that each column plays."""

    attribute: str
    columns: tuple[str, ...]  # of the attribute, among those that the model gets; none: it does not get it
    proxies: tuple[str, ...]
    legitimate: tuple[str, ...]
    undeclared: tuple[str, ...]  # neither: they stay as they are


@dataclass(frozen=True, eq=False)
class Rates:
    """Of each person and each value (n, V): how often the decision is otherwise under it, with 95 % intervals; NaN:
    not asked. Under the person's value it is what redrawing the proxies alone does."""

    share: Floats
    low: Floats
    high: Floats
    difference: Floats  # from the person's value
    difference_low: Floats
    difference_high: Floats
    p: Floats
    direct: Bools  # the attribute set to the value, all else as it is, changes the decision
    draws: Ints


@dataclass(frozen=True, eq=False)
class Treatment:
    """Who would have been decided otherwise but for a protected attribute. Made by `butfor.treatment`.

    Attributes
    ----------
    guarantee : Guarantee
        The promise, with its assumption.
    notes : tuple of Note
        Warnings and limits.
    rows : int
        Rows of the model that the run took.
    """

    people: tuple[Any, ...]
    roles: Roles
    values: tuple[str, ...]  # (V,) of the attribute
    value_of: Ints  # (n,)
    decisions: tuple[str, ...]  # (n,) in words
    favourable: str | None  # what is asked for, in words; None: any other decision
    eligible: Bools  # (n,) without the favourable decision
    rates: Rates
    accusation: Accusation
    mean: Floats  # (V, 3) mean difference over those asked, and its 95 % interval
    alpha: float
    level: float
    notes: tuple[Note, ...]
    guarantee: Guarantee
    rows: int
    explained: Result | None = None
    codes: Mapping[str, str] | None = None  # name of a part -> words of the user's code table

    def __repr__(self) -> str:
        return self.summary()

    @property
    def accused(self) -> Bools:
        """Who is treated otherwise (n,), in the order of the data; a share alpha of them wrongly, on average.

        Who is so by the attribute alone, which is computed, and who is shown to be together with the proxies.
        """
        return self.accusation.accused

    @property
    def compared(self) -> Bools:
        """Who was asked about (n,): without a favourable decision, and with another value that is plausible."""
        return np.asarray(~np.isnan(self.accusation.p))

    @property
    def strongest(self) -> Ints:
        """The other value (n,) with the strongest evidence; -1: none was asked."""
        p, share = np.where(np.isnan(self.rates.p), 2.0, self.rates.p), np.nan_to_num(self.rates.share)
        order = np.lexsort((-share, p), axis=1)[:, 0]
        return np.where(self.compared, order, -1)

    @property
    def table(self) -> pd.DataFrame:
        """A row per person: value, decision, the other value with the strongest evidence, and whether accused.

        `flip` is how often the decision is otherwise under the other value, `kept` how often under the person's value
        (the proxies redrawn in both), `difference` the one less the other; each with a 95 % interval. `direct`: the
        attribute alone, set to the other value, changes the decision.
        """
        import pandas as pd

        rows, best, rates = np.arange(len(self.people)), self.strongest, self.rates
        none = best < 0
        columns: dict[str, Any] = {
            "person": list(self.people),
            "value": [self.values[v] for v in self.value_of],
            "decision": list(self.decisions),
            "asked": self.compared,
            "other": [None if v < 0 else self.values[v] for v in best],
        }
        for name, value in (("flip", best), ("kept", self.value_of)):
            for end, array in (("", rates.share), ("_low", rates.low), ("_high", rates.high)):
                columns[name + end] = np.where(none, np.nan, array[rows, value])
        for name in ("difference", "difference_low", "difference_high"):
            columns[name] = np.where(none, np.nan, vars(rates)[name][rows, best])
        columns["direct"] = ~none & rates.direct[rows, best]
        columns |= {"p": self.accusation.p, "accused": self.accused}
        return pd.DataFrame(columns)

    @property
    def by_value(self) -> pd.DataFrame:
        """A row per person and other value that was asked; `p` is of this value alone."""
        import pandas as pd

        rows, other = np.nonzero(~np.isnan(self.rates.p))
        columns = {"person": [self.people[i] for i in rows], "other": [self.values[v] for v in other]}
        names = ("share", "low", "high", "difference", "difference_low", "difference_high", "direct", "draws", "p")
        return pd.DataFrame(columns | {name: vars(self.rates)[name][rows, other] for name in names})

    @property
    def groups(self) -> pd.DataFrame:
        """A row per value of the attribute: people, asked, accused, `at_least` so many (95 %), and the mean difference.

        The mean difference is over all who were asked, accused or not, and their other values, with a 95 % interval.
        """
        import pandas as pd

        table = []
        for v, label in enumerate(self.values):
            members = self.value_of == v
            counts = (int(members.sum()), int((members & self.compared).sum()), int((members & self.accused).sum()))
            table.append((label, *counts, self.bound(members & self.compared), *self.mean[v]))
        names = ["value", "people", "asked", "accused", "at_least", "difference", "difference_low", "difference_high"]
        return pd.DataFrame(table, columns=names)

    def others(self, position: int) -> list[str]:
        """Return the other values under which one person surely is decided otherwise (Holm within the person)."""
        p, cut = self.rates.p[position], float(np.max(self.accusation.p[self.accused], initial=-1.0))
        order = [v for v in np.argsort(p, kind="stable").tolist() if not np.isnan(p[v])]
        sure = takewhile(lambda k: p[order[k]] * (len(order) - k) <= cut, range(len(order)))
        return [self.values[order[k]] for k in sure]

    def bound(self, rows: ArrayLike) -> int:
        """Return how many of any people at least are treated otherwise, with 95 % confidence, however they were picked.

        Parameters
        ----------
        rows : array-like
            Positions in the data, or a boolean for each person.

        Returns
        -------
        int
            The lower bound, for all sets of people at once (closed testing with Simes, METHODS 10).
        """
        return self.accusation.at_least(positions_of(rows, len(self.people)))

    def reasons(self, person: object, k: int = 4) -> pd.DataFrame:
        """Return the strongest reasons of one person's decision, in the words of `reason_codes`; never the attribute.

        Parameters
        ----------
        person : object
            The label of the row, or its position where rows have none.
        k : int
            How many at most.

        Returns
        -------
        pandas.DataFrame
            Parts that are decisive, then those that are enough: code, part, kind, flip with its interval, sentence.
        """
        import pandas as pd

        k = whole("k", k, 1)
        if self.explained is None:
            raise InputError(NO_REASONS)
        if person not in self.people:
            raise InputError(f"there is no person {person!r}; people are {shortened(list(map(str, self.people)))}")
        if person not in self.explained.input_names:
            raise InputError(NOT_DECLINED.format(person=person, decision=self.decisions[self.people.index(person)]))
        explained, attribute = self.explained, set(self.roles.columns)
        every = explained.reasons(person, k + len(explained.subset_names))
        rows = [
            (*self._worded(str(one.subset)), one.kind, one.flip, one.flip_low, one.flip_high, one.sentence)
            for one in every[every.kind == "decisive"].itertuples()
        ]
        sets = () if explained.sets is None else explained.sets.enough(explained.position(person))
        free = next((one for one in sets if one.columns and not attribute & set(one.columns)), None)
        if free is not None:
            code, part = self._worded(", ".join(free.columns))
            sentence = f"{part}: enough ({round(100 * free.stay)} % of draws decide alike)."
            rows.append((code, part, "enough", np.nan, np.nan, np.nan, sentence))
        return pd.DataFrame(rows[:k], columns=["code", "part", "kind", "flip", "flip_low", "flip_high", "sentence"])

    def _worded(self, part: str) -> tuple[str, str]:
        """Return the words of a part, or of each of its columns, and its name."""
        codes = self.codes or {}
        return codes.get(part, "; ".join(codes.get(one, one) for one in part.split(", "))), part

    def lines(self) -> tuple[str, ...]:
        """Return the answer, the decision first: at most ten lines."""
        roles, compared, count = self.roles, self.compared, int(self.accused.sum())
        decided = [(sum(one == name for one in self.decisions), name) for name in sorted(set(self.decisions))]
        lines = [f"{len(self.people):,} people: {', '.join(f'{number:,} {name}' for number, name in decided)}."]
        of = f"{int(compared.sum()):,}" + ("" if self.favourable is None else f" not {self.favourable}")
        least = self.bound(np.flatnonzero(compared)) if compared.any() else 0
        surely = f" (at least {least:,} with 95 % confidence)" if count else ""
        lines.append(f"Treated otherwise but for {roles.attribute}: {count:,} of {of}{surely}.")
        directly = int(self.rates.direct.any(axis=1).sum())
        uncalibrated = any(note.code == "treatment-not-calibrated" for note in self.notes)
        if roles.proxies and roles.columns:
            more = f"{count - directly:,}{' more' if directly else ''}" if count > directly else "none shown"
            more = "cannot be shown" if uncalibrated else more
            drawn = f"Together with {shortened(roles.proxies, 3)} (estimated): {more}."
            lines.append(f"By {roles.attribute} alone (computed): {directly:,} of {int(compared.sum()):,}. {drawn}")
        if count:
            most = self.groups.sort_values("accused", ascending=False, kind="stable").head(4)
            numbers = zip(most.value, most.accused, most.asked, strict=True)
            each = [f"{value}: {number:,} of {total:,}" for value, number, total in numbers if total]
            lines.append(f"With {roles.attribute} = {'; '.join(each)}{' ...' if len(self.values) > 4 else ''}.")
            if not roles.proxies:
                how = f"the model reads {roles.attribute}; set to another value, it changes the decision."
                lines.append(f"How: {how}")
            elif not roles.columns:
                beside = "" if roles.attribute in roles.proxies else f"; the model does not get {roles.attribute}"
                lines.append(f"How: through {shortened(roles.proxies, 4)}{beside}.")
        if roles.proxies and compared.any():
            members = np.bincount(self.value_of[compared], minlength=len(self.values))
            means = [
                f"{self.values[v]}: {{:+.0f}} ({{:+.0f}} to {{:+.0f}})".format(*100 * self.mean[v])
                for v in np.argsort(-members, kind="stable")[:3].tolist()
                if members[v]
            ]
            lines.append(f"Mean difference in 100 decisions (95 %): {', '.join(means)}.")
        fixed = [f"{shortened(roles.legitimate, 4)} (legitimate)"] * bool(roles.legitimate)
        declared = " (not declared)" if roles.legitimate else ""
        fixed += [f"{shortened(roles.undeclared, 4)}{declared}"] * bool(roles.undeclared)
        proxies = f" Redrawn with it: {shortened(roles.proxies, 4)}." if roles.proxies else ""
        lines.append(f"As they are: {', '.join(fixed) or 'nothing'}.{proxies}")
        left = int((self.eligible & ~compared).sum())
        if left:
            lines.append(f"Not asked: {left:,}, for whom no other value of {roles.attribute} is plausible.")
        if not roles.proxies:
            promise = "nothing is estimated; each decision was computed with the attribute set."
        elif uncalibrated:
            named = f"by {roles.attribute} alone nobody is named wrongly" if directly else "none"
            promise = f"{named}; the draws of the proxies are not as reference rows are (see the notes)."
        else:
            fitted = "; approximate, the sampler is fitted" if self.guarantee.sampler else ""
            named = "the others" if directly else "those"
            promise = f"on average at most {100 * self.alpha:g} % of {named} named are named wrongly (BH{fitted})."
            if directly:
                promise = f"none computed is wrong; {promise}"
        lines += [f"Promise: {promise}", LEGAL]
        return tuple(line if len(line) <= WIDTH else line[: WIDTH - 4] + " ..." for line in lines)

    def summary(self, full: bool = False) -> str:
        """Return the answer in words.

        Parameters
        ----------
        full : bool
            With the guarantee and all notes.

        Returns
        -------
        str
            At most ten lines without `full`.
        """
        more = (str(self.guarantee), *map(str, self.notes)) if full else ()
        return "\n".join((*self.lines(), *more))

    def to_json(self) -> str:
        """Return the answer, the table and the groups as JSON."""
        table, groups = (json.loads(one.to_json(orient="records")) for one in (self.table, self.groups))
        notes = [{"code": note.code, "severity": note.severity, "text": str(note)} for note in self.notes]
        answer = {"summary": list(self.lines()), "guarantee": str(self.guarantee), "rows": int(self.rows)}
        return json.dumps({**answer, "notes": notes, "groups": groups, "table": table})

    def report(self, path: str | Path) -> Path:
        """Write one HTML file that needs nothing else: the answer, groups, and a row for each accused person.

        Parameters
        ----------
        path : path-like
            Where to.

        Returns
        -------
        Path
            The file.
        """
        from butfor.report import write

        return write(self, Path(path))


def fixed_note(roles: Roles) -> list[Note]:
    """Return a note where columns are neither legitimate nor proxies although some were declared legitimate."""
    if not (roles.legitimate and roles.undeclared):
        return []
    return [Note("treatment-undeclared", "limit", {"columns": listed(roles.undeclared)})]
