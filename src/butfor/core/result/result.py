"""Result: what was found and what it guarantees. Data only: nothing in it asks a model, or a sampler unasked."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from butfor.core.checks import whole
from butfor.core.draw.blocks import Problem, redraw
from butfor.core.draw.items import TableItems
from butfor.core.result import summary
from butfor.core.result.archive import pack
from butfor.core.result.controlled import Control
from butfor.core.result.decided import NEVER_VARIES, Decided
from butfor.core.result.effects import Effects
from butfor.core.result.features import Features
from butfor.core.result.kept import Kept
from butfor.core.result.later import later
from butfor.core.result.reasons import reasons
from butfor.core.result.storage import write
from butfor.core.result.table import LEAST_INPUTS, columns, family_members, feature_columns
from butfor.core.select.bounds import simes_bounds
from butfor.core.select.choice import Choice
from butfor.core.select.guarantees import Guarantee, check_alpha, check_rule, guarantee
from butfor.core.select.reach import Selected, notes_of_selection
from butfor.core.test.evidence import Evidence
from butfor.core.types import Batch, Bools, Family, Floats, InputError, Ints

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
    outputs: Floats  # (inputs, outputs) what the model said of the inputs
    kept: Kept = field(default_factory=Kept)
    rows_asked: int = 0  # evaluated or remembered: more than `rows` where draws repeat
    run_notes: tuple[str, ...] = ()  # what happened while drawing, and what is to be said of the sampler
    provenance: dict[str, Any] = field(default_factory=dict)
    output_names: tuple[Any, ...] | None = None
    choice: Choice | None = None  # how hypotheses are chosen; None: of a former version
    decided: Decided | None = None
    over_inputs: Features | None = None
    control: Control | None = None

    def __repr__(self) -> str:
        return f"<butfor.Result: {self.chosen.sum()} of {len(self.chosen)} hypotheses chosen>"

    @property
    def modality(self) -> str:
        """What the inputs are: table, image, text or multimodal."""
        unsaid = "table" if isinstance(self.problem.items, TableItems) else "multimodal"
        return str(self.provenance.get("modality", unsaid))

    @property
    def exact(self) -> bool:
        """Whether all p-values were computed, from trees or lists of all that may be drawn."""
        return 0 < len(self.chosen) <= int(self.provenance.get("exact", 0))

    @property
    def guarantee(self) -> Guarantee:
        """What this choice promises, under which assumption, proven by whom."""
        provenance = self.provenance
        promised = guarantee(
            "irt" if self.exact and provenance["test"] == "sequential" else provenance["test"],  # nothing was drawn
            self.rule,
            self.family,
            self.alpha,
            observed_class=provenance["target"] == "observed-class",
            filtered=self._unchanging > 0,
            dependence_ignored=provenance["dependence_ignored"],
            floor=provenance.get("floor", 0.0),
            data_dependent=provenance.get("data_dependent", provenance.get("looked", False)),  # its former name
            picked=provenance["picked"],
            deterministic=provenance.get("deterministic", False),
            delta=provenance["delta"],
            layered=self.problem.layers is not None,
            truth=provenance["target"] == "truth",
            controlled=provenance.get("controlled"),
            doubted=self._doubted,
            margin=provenance.get("min_effect"),
            few_inputs=len(self.input_names) < LEAST_INPUTS,
        )
        judged = provenance.get("judged")  # whether counterfactuals look real
        return promised if judged is None else replace(promised, caveats=(*promised.caveats, judged))

    @property
    def _doubted(self) -> tuple[str, ...]:
        """Subsets that the control found not calibrated."""
        control = self.control
        if control is None or control.calibrated is None:
            return ()
        return tuple(name for name, right in zip(self.subset_names, control.calibrated, strict=True) if not right)

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
        found = Selected(
            kind=self.evidence.kind,
            values=self.evidence.values,
            subset_of=self.subset_of,
            tested=self.tested,
            open=self.evidence.open,
            chosen=self.chosen,
            groups=self._choice(self.alpha, self.rule, self.family).groups,
            rule=self.rule,
            alpha=self.alpha,
            family=self.family,
            unchanging=self._unchanging,
            features=self.over_inputs is not None and bool(self.over_inputs.chosen.any()),
            pooled=not self.provenance["picked"],
        )
        before, after = notes_of_selection(found, self.provenance)
        return (*before, *self.run_notes, *after, *self._never_varies)

    @property
    def _never_varies(self) -> list[str]:
        """A sentence where the user's rule decides alike on all inputs and all of the reference: whole rows of it are
        drawn at resolution 0."""
        layers = self.problem.layers
        own_rule = self.decided is not None and self.provenance.get("own_rule", False)
        if not own_rule or layers is None or self.modality != "table":
            return []
        assert self.decided is not None
        whole_rows = self.decided.share[layers.resolution == 0]
        if not whole_rows.size or not (whole_rows == 0).all() or not (np.nan_to_num(self.decided.share) == 0).all():
            return []
        least, most = float(self.outputs.min()), float(self.outputs.max())
        return [NEVER_VARIES.format(least=least, most=most)]

    def bound(self, rows: ArrayLike | None = None, confidence: float = 0.95) -> int:
        """At least this many of these hypotheses are true discoveries, with this confidence for all sets at once.

        Needs p-values for which Simes' inequality holds: independent or positively dependent (METHODS 10). A sequential
        run stops drawing once a hypothesis is chosen, which leaves its p-value larger than it could be: `bounds=True`
        in the call goes on drawing for them.

        Parameters
        ----------
        rows : positions or a boolean mask of the table, picked before or after looking; None is all.
        confidence : of all such statements together.
        """
        if self.guarantee.controls == "nothing":
            raise InputError(f"no bound holds where nothing is controlled: {self.guarantee.assumption}")
        if self.evidence.kind != "p":
            raise InputError(
                f"bound needs p-values, this result has {self.evidence.kind}; use test='sequential' or 'irt'"
            )
        return simes_bounds(self.evidence.values, confidence)(np.arange(len(self.chosen)) if rows is None else rows)

    @cached_property
    def table(self) -> pd.DataFrame:
        """A DataFrame with one row per hypothesis."""
        frame: pd.DataFrame = later("pandas:DataFrame")(columns(self))
        return frame

    @cached_property
    def features(self) -> pd.DataFrame:
        """A DataFrame with one row per subset: does it set these inputs apart from the reference? (METHODS 7)

        `p` and `chosen` need reference data, 20 inputs and 20 reference rows; they are approximate, and the false
        discovery rate is over the subsets of each resolution.
        """
        frame: pd.DataFrame = later("pandas:DataFrame")(feature_columns(self))
        return frame

    def reasons(self, input: object, k: int = 4) -> pd.DataFrame:
        """The `k` strongest reasons of one input: what its decision is established to hang on, then what else is
        established, each in its finest parts, then the rest by the size of their effects.

        Column `order` says "established" where a reason is sure to be stronger than the next one (simultaneous
        intervals at 95 %), `sentence` says it in words.

        Parameters
        ----------
        input : its name, as in the table.
        k : how many.
        """
        frame: pd.DataFrame = later("pandas:DataFrame")(reasons(self, self.place(input), whole("k", k, 1)))
        return frame

    def nearest(self, input: object, subset: str) -> Batch | None:
        """The counterfactual nearest to the input among those that change the decision, or None.

        None means that no draw of this subset changed the decision: `flip` is 0 in the table, and `flip_high` says how
        often it could be otherwise all the same. A group that the subset is a part of may change it. What comes back
        was drawn from the sampler, so it is as plausible as that makes it. Distance is Gower's for tables.

        Parameters
        ----------
        input, subset : the names of both, as in the table.
        """
        if self.decided is None:
            raise InputError("this run asked about no decision; give decide=, such as lambda outputs: outputs >= 0.4")
        row = self.row(input, subset)
        found = self.decided.nearest.get(row)
        if found is None:
            return None
        items, block = self.problem.items, self.problem.block_of(row)
        inputs = items.block(int(self.input_of[row]), int(self.input_of[row]) + 1)
        made = items.unpack([found.piece], inputs[0], block.subset)
        return items.shown(items.whole(np.asarray(made) if items.shares_subsets else made, inputs, block.subset))

    def select(self, *, alpha: float | None = None, rule: str | None = None, family: Family | None = None) -> Result:
        """The same evidence at another level, rule or family: no new draws, effects kept where they were estimated.

        Parameters
        ----------
        alpha, rule, family : as in `butfor.explain`; None keeps what the result has.
        """
        alpha = check_alpha(self.alpha if alpha is None else alpha)
        rule = self.rule if rule is None else rule
        family = self.family if family is None else family
        self._check_selectable(alpha, rule, family)
        choice = self._choice(alpha, rule, family)
        tested = family_members(self.evidence, rule, family, len(self.input_names))
        chosen = choice.chosen(self.evidence.scaled, tested)
        found = self.effects.without(chosen)
        return replace(self, alpha=alpha, rule=rule, family=family, chosen=chosen, choice=choice, effects=found)

    def _choice(self, alpha: float, rule: str, family: str) -> Choice:
        """How the same hypotheses are chosen at another level or by another rule.

        Weights that a sequential run learned from its first draws stay as they are; others are learned anew.
        """
        families = self.input_of if family == "input" else None
        if self.choice is None:
            return Choice(rule, alpha, families, self.problem.layers, draws=self.provenance["draws"])
        return replace(self.choice, rule=rule, alpha=alpha, families=families)

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

    def counterfactuals(self, input: object, subset: str, n: int = 3) -> Batch:
        """The first `n` counterfactuals that this run drew for one hypothesis, as it kept them.

        What it did not keep is drawn again from the seed: that asks the sampler, never the model. Where they were
        listed, `n` are drawn from what they were listed from.

        Parameters
        ----------
        input, subset : the names of both, as in the table.
        n : how many.
        """
        if self.provenance["picked"]:
            raise InputError("a run with picked= notes no draws, since most are rejected; draw from the sampler itself")
        row, provenance = self.row(input, subset), self.provenance
        counts = isinstance(n, int | np.integer) and not isinstance(n, bool)
        drawn = counts and n > 0 and not self.kept.listed(row)
        found = self.kept.whole(self.problem, row, n) if drawn else []
        if not drawn or len(found) != n:
            found = redraw(self.problem, row, n, provenance["rounds"], provenance["set_aside"])
        return self.problem.items.shown(found)

    def row(self, input: object, subset: str) -> int:
        """Where a hypothesis stands in the table.

        Parameters
        ----------
        input, subset : the names of both, as in the table.
        """
        if subset not in self.subset_names:
            raise InputError(f"unknown subset {subset!r}; this result has {_some(self.subset_names)}")
        wanted = (self.input_of == self.place(input)) & (self.subset_of == self.subset_names.index(subset))
        return int(np.flatnonzero(wanted)[0])

    def place(self, input: object) -> int:
        """Where an input stands.

        Parameters
        ----------
        input : its name, as in the table.
        """
        if input not in self.input_names and str(input) in self.input_names:
            input = str(input)  # times and the like are text in a file
        if input not in self.input_names:
            raise InputError(f"unknown input {input!r}; this result has {_some(self.input_names)}")
        return self.input_names.index(input)

    def summary(self) -> str:
        """The result in words: how many, which subsets, what is promised, what to beware of."""
        return summary.summary(self)

    def _repr_html_(self) -> str:
        small: str = later("butfor.report.notebook:small_html")(self)
        return small

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

    @property
    def plot(self) -> Any:
        """The plots of this result: `result.plot.bar("loan 1502", ax=ax)`, `result.plot.decision()`, and so on.

        Each is the function of that name in `butfor.plots`; it returns the axes and never shows or saves anything.
        """
        return later("butfor.plots.accessor:ResultPlots")(self)

    def to_shap(self, *, groups: bool = False) -> Any:
        """The effects as a `shap.Explanation`, for SHAP's own plots; established ones have a star behind their value.

        Effects do not add up, so the base value of an input is its output minus the sum of its effects: it is no
        expectation, and the label "E[f(X)]" that SHAP's waterfall writes beside it is not true of it.

        Parameters
        ----------
        groups : whether groups of columns are columns of their own, beside the single ones.
        """
        return later("butfor.plots.shap_values:to_shap")(self, groups=groups)

    def report(self, path: str | Path) -> Path:
        """Write one offline HTML file and return its path.

        Parameters
        ----------
        path : of the file; its folder must exist.
        """
        written: Path = later("butfor.report:write")(self, Path(path))
        return written

    def save(self, path: str | Path) -> Path:
        """Write a zip of arrays (npz) and JSON; `butfor.load` reads it back. Nothing in it is ever executed.

        Parameters
        ----------
        path : of the file; its folder must exist.
        """
        return write(Path(path), *pack(self))


def _some(names: tuple[Any, ...], most: int = 8) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown}, ... ({len(names)} in all)"
