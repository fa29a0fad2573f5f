"""Result: what was found and what it guarantees; frozen, re-selectable, saved without pickle."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from butfor.core import selection, storage
from butfor.core.bounds import simes_bounds
from butfor.core.diagnostics import AS_DRAWN, ORDINARY, STOPPED, largest_family, notes_after, reach, reach_of_sampler
from butfor.core.draws import Problem, redraw
from butfor.core.effects import Effects
from butfor.core.guarantees import check_alpha, check_rule, guarantee
from butfor.core.procedures import Evidence
from butfor.core.quick_check import nearly_all
from butfor.core.types import Batch, Bools, Family, Guarantee, InputError, Ints

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Result:
    """One row per hypothesis (input, subset), with what was chosen and the guarantee of that choice."""

    input_names: tuple[Any, ...]
    subset_names: tuple[str, ...]
    input_of: Ints  # (H,)
    subset_of: Ints  # (H,)
    evidence: Evidence
    effects: Effects
    chosen: Bools  # (H,)
    alpha: float
    rule: str
    family: Family
    rows: int
    problem: Problem
    show: Callable[[Batch], Batch]  # rows of the problem as the user would write them
    rows_asked: int = 0  # evaluated or remembered: more than `rows` where draws repeat
    run_notes: tuple[str, ...] = ()  # what happened while drawing
    look: Callable[[], list[str]] = list  # a quick look at the sampler, taken when notes are asked for
    provenance: dict[str, Any] = field(default_factory=dict)
    output_names: tuple[Any, ...] | None = None
    view: Callable[[Result], Any] | None = None  # what its modality adds to a report

    def __repr__(self) -> str:
        return f"<butfor.Result: {self.chosen.sum()} of {len(self.chosen)} hypotheses chosen>"

    @property
    def guarantee(self) -> Guarantee:
        """What this choice promises, under which assumption, proven by whom."""
        said = self.provenance
        return guarantee(
            said["test"],
            self.rule,
            self.family,
            self.alpha,
            observed_class=said["target"] == "observed-class",
            filtered=self._unchanging > 0,
            dependence_ignored=said["dependence_ignored"],
            floor=said.get("floor", 0.0),
            looked=said.get("looked", False),
            picked=said["picked"],
            deterministic=said.get("deterministic", False),
            delta=said["delta"],
        )

    @property
    def tested(self) -> Bools:
        """False where a hypothesis left the family before the selection (METHODS 6, zero variation)."""
        return family_members(self.evidence, self.rule, self.family, len(self.input_names))

    @property
    def _unchanging(self) -> int:
        """Hypotheses that left the family because nothing that was drawn changed anything."""
        return int((self.evidence.drawable & ~self.tested).sum())

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know: what was out of reach, what happened while drawing, what the evidence says."""
        said, evidence = self.provenance, self.evidence
        family = largest_family(self.input_of if self.family == "input" else None, len(self.chosen))
        before = reach(said["test"], self.rule, self.alpha, family, said["draws"], said["h"] or 1)
        if evidence.kind == "p" and not before:
            before = reach_of_sampler(self.rule, self.alpha, family, said.get("floor", 0.0))
        ordinary = AS_DRAWN if said.get("modality") in ("image", "text", "multimodal") else ORDINARY
        after = notes_after(
            evidence.kind, evidence.values, self.tested, self.chosen, said["draws"], self._unchanging, ordinary
        )
        if (stopped := self._stopped_elsewhere()) or any("Nothing can be chosen" in note for note in before):
            after = [note for note in after if note != ordinary]  # nothing could have been found
        after += [*stopped, *nearly_all(self.chosen)]
        return (*before, *self.run_notes, *self.look(), *(after if not said["interrupted"] else []))

    def _stopped_elsewhere(self) -> list[str]:
        """A sentence where a sequential run was made for another selection, in which it then stopped drawing."""
        said, made = self.provenance, self.provenance.get("selection")
        if said["test"] != "sequential" or made is None or made == [self.rule, self.alpha, self.family]:
            return []
        rule, alpha, family = made
        return [STOPPED.format(rule=rule, alpha=alpha, family=f"family={family!r}")]

    def bound(self, rows: Any = None, confidence: float = 0.95) -> int:
        """At least this many of these hypotheses are true discoveries, with this confidence for all sets at once.

        `rows` are positions or a boolean mask of the table, picked before or after looking (METHODS 10); None is all.
        Needs p-values for which Simes' inequality holds: independent or positively dependent.
        """
        if self.evidence.kind != "p":
            raise InputError(
                f"bound needs p-values, this result has {self.evidence.kind}; use test='sequential' or 'irt'"
            )
        return simes_bounds(self.evidence.values, confidence)(np.arange(len(self.chosen)) if rows is None else rows)

    @cached_property
    def table(self) -> pd.DataFrame:
        """A DataFrame with one row per hypothesis."""
        import pandas as pd

        columns: dict[str, Any] = {
            "input": _column(self.input_names)[self.input_of],
            "subset": _column(self.subset_names)[self.subset_of],
            "observed": self.evidence.observed,
            "draws": self.evidence.draws,
            self.evidence.kind: self.evidence.values,
            "chosen": self.chosen,
            "effect": self.effects.effect,
            "effect_low": self.effects.low,
            "effect_high": self.effects.high,
            "status": self._status(),
        }
        if self.output_names is not None:
            columns["output"] = _column(self.output_names)[self.evidence.classes]
        return pd.DataFrame(columns)

    def _status(self) -> np.ndarray[Any, Any]:
        evidence = self.evidence
        cases = [~evidence.drawable, ~self.tested, evidence.open]
        return np.select(cases, ["hardly picked", "no variation", "open"], default="tested").astype(object)

    def select(self, *, alpha: float | None = None, rule: str | None = None, family: Family | None = None) -> Result:
        """The same evidence at another level, rule or family: no new draws, effects kept where they were estimated."""
        alpha = self.alpha if alpha is None else alpha
        rule = self.rule if rule is None else rule
        family = self.family if family is None else family
        alpha = check_alpha(alpha)
        self._check_selectable(alpha, rule, family)
        groups = self.input_of if family == "input" else None
        tested = family_members(self.evidence, rule, family, len(self.input_names))
        draws = self.provenance["draws"]
        chosen = selection.select(self.evidence.scaled, alpha, rule, tested, groups, draws)
        return replace(self, alpha=alpha, rule=rule, family=family, chosen=chosen)

    def _check_selectable(self, alpha: float, rule: str, family: str) -> None:
        check_rule(self.provenance["test"], rule)
        if family not in get_args(Family):
            raise InputError(f"family must be one of 'run', 'input', got {family!r}")
        if (rule == "e-bh") != (self.evidence.kind == "e"):
            raise InputError(
                f"this result has {self.evidence.kind} evidence, rule={rule!r} needs another; run it again"
            )
        if self.provenance["delta"] is not None and (alpha, rule, family) != (self.alpha, self.rule, self.family):
            raise InputError(
                "a run with early_stop=True stopped drawing once its own decisions were settled; run it again with the "
                "new alpha, rule or family, or without early_stop"
            )

    def counterfactuals(self, input: Any, subset: str, n: int = 3) -> Batch:
        """The first `n` counterfactuals that this run drew for one hypothesis, drawn again from the seed.

        Where they were listed instead, `n` are drawn from what they were listed from.
        """
        if self.provenance["picked"]:
            raise InputError("a run with picked= notes no draws, since most are rejected; draw from the sampler itself")
        row, said = self.row(input, subset), self.provenance
        return self.show(redraw(self.problem, row, n, said["rounds"], said["set_aside"]))

    def row(self, input: Any, subset: str) -> int:
        """Where a hypothesis stands in the table."""
        if subset not in self.subset_names:
            raise InputError(f"unknown subset {subset!r}; this result has {_some(self.subset_names)}")
        if input not in self.input_names and str(input) in self.input_names:
            input = str(input)  # times and the like are text in a file
        if input not in self.input_names:
            raise InputError(f"unknown input {input!r}; this result has {_some(self.input_names)}")
        wanted = (self.input_of == self.input_names.index(input)) & (self.subset_of == self.subset_names.index(subset))
        return int(np.flatnonzero(wanted)[0])

    def summary(self) -> str:
        """The result in words: how many, which subsets, what is promised, what to beware of."""
        from butfor.core.summary import summary

        return summary(self)

    def _repr_html_(self) -> str:
        from butfor.core.summary import summary_html

        return summary_html(self)

    def to_json(self) -> str:
        """Settings, guarantee, notes and the table, as JSON."""
        rows = self.table.astype(object).where(self.table.notna(), None).to_dict("records")
        described = {
            "alpha": self.alpha,
            "rule": self.rule,
            "family": self.family,
            "rows": self.rows,
            "rows_asked": self.rows_asked,
            "hypotheses": len(self.chosen),
            "chosen": int(self.chosen.sum()),
            "guarantee": str(self.guarantee),
            "notes": list(self.notes),
            "provenance": self.provenance,
        }
        return json.dumps({**described, "table": rows}, default=str)

    def report(self, path: str | Path) -> Path:
        """Write one offline HTML file and return its path."""
        from butfor.report import write

        return write(self, Path(path))

    def save(self, path: str | Path) -> Path:
        """Write a zip of arrays (npz) and JSON; `butfor.load` reads it back. Nothing in it is ever executed."""
        return storage.write(Path(path), *_pack(self))


def _column(names: tuple[Any, ...]) -> np.ndarray[Any, Any]:
    """Names one by one, whatever they are: NumPy would make text of numbers among text, and rows of tuples."""
    column = np.empty(len(names), dtype=object)
    column[:] = [_writable(name) for name in names]
    kinds = {type(name) for name in names}
    return np.array(names) if len(kinds) == 1 and kinds <= {int, float, bool} else column


def _writable(name: Any) -> Any:
    """A name as tables and files can hold it: half a surrogate pair, which they cannot, is spelt out."""
    if not isinstance(name, str) or name.isascii():
        return name
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


LEAST_INPUTS = 10  # so many inputs, at least, and what leaves the family hardly depends on any one of them


def family_members(evidence: Evidence, rule: str, family: str, inputs: int) -> Bools:
    """Hypotheses the rule is applied to: those with evidence and, for BH over a run of many inputs, some variation.

    Dropping what does not vary needs independence (METHODS 6), and within one input there is none: under
    f = 1[max x > c] one large feature keeps the others from varying, and BH over what is left gave false discoveries in
    36 % of single inputs at alpha 0.1. The other rules promise their level under any dependence, so they never drop.
    """
    drops = rule == "bh" and family == "run" and inputs >= LEAST_INPUTS
    return evidence.varied & evidence.drawable if drops else evidence.drawable


KEPT = ("alpha", "rule", "family", "rows", "rows_asked", "provenance")


def _pack(result: Result) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    evidence, effects, problem = result.evidence, result.effects, result.problem
    arrays = {
        "input_of": result.input_of,
        "subset_of": result.subset_of,
        "chosen": result.chosen,
        "evidence": evidence.values,
        "varied": evidence.varied,
        "observed": evidence.observed,
        "classes": evidence.classes,
        "draws": evidence.draws,
        "open": evidence.open,
        "drawable": evidence.drawable,
        "scale": evidence.scale,
        "effect": effects.effect,
        "effect_low": effects.low,
        "effect_high": effects.high,
    }
    facts: dict[str, Any] = {
        "kind": evidence.kind,
        "input_names": [_plain(name) for name in result.input_names],
        "subset_names": list(result.subset_names),
        "output_names": None if result.output_names is None else [_plain(name) for name in result.output_names],
        "run_notes": [*result.run_notes, *result.look()],
        **{name: getattr(result, name) for name in KEPT},
    }
    if isinstance(problem.inputs, np.ndarray):
        arrays["inputs"] = problem.inputs
        facts["subsets"] = {block.subset.name: block.subset.index.tolist() for block in problem.blocks}
    else:
        facts["subsets"] = [[block.subset.name, storage.plain(block.subset.index)] for block in problem.blocks]
        facts["owners"] = [block.start for block in problem.blocks]
    return facts, arrays


def unpack(
    facts: dict[str, Any],
    arrays: dict[str, np.ndarray[Any, Any]],
    problem: Problem,
    show: Callable[[Batch], Batch],
) -> Result:
    """The inverse of what `save` wrote."""
    parts = (
        arrays[name] for name in ("evidence", "varied", "observed", "classes", "draws", "open", "drawable", "scale")
    )
    evidence = Evidence(facts["kind"], *parts)
    names = facts["output_names"]
    return Result(
        input_names=tuple(facts["input_names"]),
        subset_names=tuple(facts["subset_names"]),
        input_of=arrays["input_of"],
        subset_of=arrays["subset_of"],
        evidence=evidence,
        effects=Effects(arrays["effect"], arrays["effect_low"], arrays["effect_high"]),
        chosen=arrays["chosen"],
        run_notes=tuple(facts["run_notes"]),
        output_names=None if names is None else tuple(names),
        problem=problem,
        show=show,
        **{name: facts[name] for name in KEPT},
    )


def _plain(name: Any) -> str | int | float | bool | None:
    name = name.item() if isinstance(name, np.generic) else name
    return name if isinstance(name, str | int | float | bool) else str(name)


def _some(names: tuple[Any, ...], most: int = 8) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown}, ... ({len(names)} in all)"
