"""Result: what was found and what it guarantees. Data only: nothing in it asks a model, or a sampler unasked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from butfor.evaluation.evaluator import Seen
from butfor.evaluation.hypotheses import CounterfactualBatch, Problem, redraw
from butfor.evaluation.items import TableItems, size
from butfor.inference.bounds import simes_bounds
from butfor.inference.decisions import Nearest, Verified
from butfor.inference.effects import Effects
from butfor.inference.features import Features
from butfor.inference.guarantees import Guarantee, check_alpha, check_rule, guarantee
from butfor.inference.selection import Choice
from butfor.inference.statistics import Evidence
from butfor.results import summary
from butfor.results.storage import later, pack, write
from butfor.results.summary import Selected, notes_of_selection, reasons
from butfor.types import Array, Batch, Bools, Family, Floats, InputError, Ints, whole

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


LEAST_INPUTS = 10  # so many inputs, at least, and what leaves the family hardly depends on any one of them


def columns(result: Result) -> dict[str, Array]:
    """What is known of every hypothesis, by column."""
    found: dict[str, Array] = {
        "input": names_column(result.input_names)[result.input_of],
        "subset": names_column(result.subset_names)[result.subset_of],
        "resolution": resolution_of(result),
        "value": _values(result),
        "observed": result.evidence.observed,
        "draws": result.evidence.draws,
        result.evidence.kind: result.evidence.values,
        "chosen": result.chosen,
        "effect": result.effects.effect,
        "effect_low": result.effects.low,
        "effect_high": result.effects.high,
        "surprise": result.evidence.surprise,
        "status": _status(result),
    }
    if result.decided is not None:
        decided = result.decided
        found |= {"flip": decided.share, "flip_low": decided.low, "flip_high": decided.high}
        found["necessary"] = decided.necessary
        if decided.stay is not None:
            stay = decided.stay
            found |= {"stay": stay.share, "stay_low": stay.low, "stay_high": stay.high, "sufficient": stay.sufficient}
    if result.output_names is not None:
        found["output"] = names_column(result.output_names)[result.evidence.classes]
    return found


def resolution_of(result: Result) -> Ints:
    """The resolution of every hypothesis (H,): 0 where there is one only."""
    layers = result.problem.layers
    return np.zeros(len(result.chosen), np.int64) if layers is None else layers.resolution


def _values(result: Result) -> Array:
    """What is observed in the subset: of single columns of a table; None elsewhere."""
    problem, found = result.problem, np.full(len(result.chosen), None, dtype=object)
    if not isinstance(problem.items, TableItems):
        return found
    cells = np.asarray(problem.items.shown(problem.items.values), dtype=object)
    single = {name: int(index[0]) for name, index in subset_index(problem).items() if len(index) == 1}
    for place, name in enumerate(result.subset_names):
        if name in single:
            rows = result.subset_of == place
            found[rows] = cells[result.input_of[rows], single[name]]
    return found


def subset_index(problem: Problem) -> dict[str, Any]:
    """The index of every subset of a table, by name."""
    return {block.subset.name: block.subset.index for block in problem.blocks}


def _status(result: Result) -> Array:
    """Why a hypothesis is not established, where that is known better than "not established"."""
    control = result.control
    wrong = np.zeros(len(result.chosen), bool)
    if control is not None and control.calibrated is not None:
        wrong = ~control.calibrated[result.subset_of]
    told = result.provenance.get("untested", ())
    untested = np.isin(np.arange(len(result.chosen)), np.array([row for row in told if isinstance(row, int)], np.int64))
    cases = [result.chosen, untested, wrong, ~result.evidence.drawable, ~result.tested, result.evidence.open]
    words = ["established", "untested", "not calibrated", "hardly picked", "no variation", "open"]
    return np.select(cases, words, default="not established").astype(object)


def feature_columns(result: Result) -> dict[str, Array]:
    """What is known of every subset over all inputs, by column."""
    size = len(result.subset_names)
    resolution = np.zeros(size, np.int64)
    resolution[result.subset_of] = resolution_of(result)
    counted = np.bincount(result.subset_of, weights=result.chosen, minlength=size).astype(np.int64)
    found: dict[str, Array] = {"subset": names_column(result.subset_names), "resolution": resolution}
    over = result.over_inputs
    if over is None:
        known = ~np.isnan(result.effects.effect)
        total = np.bincount(result.subset_of[known], weights=result.effects.effect[known], minlength=size)
        count = np.bincount(result.subset_of[known], minlength=size)
        mean = np.divide(total, count, out=np.full(size, np.nan), where=count > 0)
        nothing = np.full(size, np.nan)
        found |= {"p": nothing, "chosen": np.zeros(size, bool), "effect": mean, "effect_low": nothing}
        found["effect_high"] = nothing
    else:
        found |= {"p": over.p, "chosen": over.chosen, "effect": over.effect, "effect_low": over.low}
        found["effect_high"] = over.high
    found |= {"inputs_chosen": counted, "inputs": np.bincount(result.subset_of, minlength=size)}
    if result.decided is not None:
        needed = np.bincount(result.subset_of, weights=result.decided.necessary, minlength=size)
        found["inputs_necessary"] = needed.astype(np.int64)
    return found


def names_column(names: tuple[Any, ...]) -> Array:
    """Names one by one, whatever they are: NumPy would make text of numbers among text, and rows of tuples."""
    column = np.empty(len(names), dtype=object)
    column[:] = [_writable(name) for name in names]
    kinds = {type(name) for name in names}
    return np.array(names) if len(kinds) == 1 and kinds <= {int, float, bool} else column


def _writable(name: object) -> object:
    """A name as tables and files can hold it: half a surrogate pair, which they cannot, is spelt out."""
    if not isinstance(name, str) or name.isascii():
        return name
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def family_members(evidence: Evidence, rule: str, family: str, inputs: int) -> Bools:
    """Hypotheses the rule is applied to: those with evidence and, for BH over a run of many inputs, some variation.

    Dropping what does not vary needs independence (METHODS 6), and within one input there is none: under
    f = 1[max x > c] one large feature keeps the others from varying, and BH over what is left gave false discoveries in
    36 % of single inputs at alpha 0.1. The other rules promise their level under any dependence, so they never drop.
    """
    return evidence.varied & evidence.drawable if drops_unvarying(rule, family, inputs) else evidence.drawable


def drops_unvarying(rule: str, family: str, inputs: int) -> bool:
    """Whether hypotheses that never vary leave the family before the selection."""
    return rule == "bh" and family == "run" and inputs >= LEAST_INPUTS


@dataclass(frozen=True, eq=False)
class Chunk:
    """The first counterfactuals of some hypotheses, made small by `Items.pack`."""

    rows: Ints  # (n,)
    pieces: Any  # (n, k, columns), or n lists of k
    outputs: Floats  # (n, k, outputs)
    listed: bool = False  # the likeliest of a list, of which none was drawn


@dataclass(frozen=True, eq=False)
class Kept:
    """What was kept of a run, by hypothesis."""

    chunks: tuple[Chunk, ...] = ()

    @cached_property
    def _places(self) -> dict[int, tuple[int, int]]:
        return {row: (c, i) for c, chunk in enumerate(self.chunks) for i, row in enumerate(chunk.rows.tolist())}

    def __contains__(self, row: int) -> bool:
        return row in self._places

    def listed(self, row: int) -> bool:
        """Whether what was kept of a hypothesis was listed, not drawn."""
        return row in self and self.chunks[self._places[row][0]].listed

    def pieces(self, row: int) -> Any:
        """What was kept of one hypothesis, as it was made small."""
        chunk, place = self._places[row]
        return self.chunks[chunk].pieces[place]

    def outputs(self, row: int) -> Floats:
        """What the model said of the counterfactuals of one hypothesis, (k, outputs)."""
        chunk, place = self._places[row]
        return np.asarray(self.chunks[chunk].outputs[place])

    def whole(self, problem: Problem, row: int, count: int | None = None) -> Batch:
        """The first counterfactuals of one hypothesis, whole; none if they were not kept."""
        if row not in self:
            return []
        subset = problem.block_of(row).subset
        inputs = problem.items.block(int(problem.input_of[row]), int(problem.input_of[row]) + 1)
        return problem.items.whole(problem.items.unpack(self.pieces(row)[:count], inputs[0], subset), inputs, subset)


@dataclass(frozen=True)
class KeepFirst:
    """Looks at the counterfactuals of a job, and takes the first `count`, those set aside left out."""

    count: int
    skip: int

    def __call__(self, problem: Problem, batch: CounterfactualBatch, outputs: Floats) -> tuple[Any, Floats] | None:
        """Them and their outputs (n, k, outputs), where this is the first round."""
        if batch.job.round != 0 and batch.mass is None:
            return None
        wanted = self._wanted(batch)
        if not wanted.size:
            return None
        pieces = problem.items.pack(batch.values, wanted, batch.versions, batch.job.block.subset)
        return pieces, outputs[np.arange(len(wanted))[:, None], wanted]

    def _wanted(self, batch: CounterfactualBatch) -> Ints:
        """Versions to keep of each input (n, k): the first draws, or the likeliest of those that are listed."""
        if batch.mass is not None:
            return 1 + np.sort(np.argsort(-batch.mass, axis=1, kind="stable")[:, : self.count], axis=1)
        first = self.skip - (batch.job.part[0] if batch.job.part else 0)
        versions = np.arange(1 + max(first, 0), min(batch.versions, 1 + first + self.count))
        return np.broadcast_to(versions, (len(batch.inputs), len(versions)))


class Keeper:
    """Hears of every job of a run; keeps the first counterfactuals of each hypothesis.

    `room` counts values: when it is used up nothing more is kept, and what is asked for later is drawn again.
    """

    def __init__(self, count: int, set_aside: int, room: int) -> None:
        self._first, self._room = KeepFirst(count, set_aside), room
        self._chunks: list[Chunk] = []

    @property
    def look(self) -> KeepFirst | None:
        """What to take of the counterfactuals; nothing when there is no room."""
        return self._first if self._room > 0 else None

    def note(self, seen: Seen, found: tuple[Any, Floats] | None) -> None:
        """Keep what was taken of a job."""
        if found is None or self._room <= 0:
            return
        pieces, said = found
        self._chunks.append(Chunk(seen.job.rows, pieces, said, seen.mass is not None))
        self._room -= size(pieces) + said.size

    def kept(self) -> Kept:
        """What was kept."""
        return Kept(tuple(self._chunks))


@dataclass(frozen=True, eq=False)
class Control:
    """Rows of the reference that went through the same test, each by a sampler that has not seen it."""

    p: Floats  # (rows, subsets) or other evidence
    chosen: Bools  # (rows, subsets)
    calibrated: Bools | None = None  # (subsets,) False: p-values are too often small; None: the test has no p-values
    off: Floats | None = None  # (subsets,) the statistic of a row minus the mean of its draws', on average over rows
    verified: Verified | None = None  # chances of decisions, where some are asked about; not in files

    @property
    def rows(self) -> int:
        """How many rows."""
        return len(self.chosen)

    def __repr__(self) -> str:
        wrong = 0 if self.calibrated is None else int((~self.calibrated).sum())
        more = f", {_subsets(wrong)} not calibrated" if wrong else ""
        return f"<butfor control: {int(self.chosen.sum())} chosen on {self.rows} rows of the reference{more}>"

    def __str__(self) -> str:
        said = f"The same test on {self.rows} held-out rows of the reference chose {int(self.chosen.sum())}."
        if self.calibrated is None or self.calibrated.all():
            return said
        wrong = int((~self.calibrated).sum())
        return f"{said} {_subsets(wrong)} of {len(self.calibrated)} not calibrated, and never chosen."


def _subsets(count: int) -> str:
    return "1 subset" if count == 1 else f"{count} subsets"


NEVER_VARIES = (
    "The rule of the decision (decide=) never varies: it says the same of every input, of every row of the reference "
    "and of every draw, so nothing can be said of what it hangs on. Outputs of the inputs lie between {least:.4g} and "
    "{most:.4g}."
)


@dataclass(frozen=True, eq=False)
class Decided:
    """Of each hypothesis (H,): the probability q of another decision, its interval, and whether q > level is sure."""

    share: Floats
    low: Floats
    high: Floats
    necessary: Bools
    draws: Ints
    added: Ints  # of them, those made for the decision alone
    level: float
    nearest: Mapping[int, Nearest] = field(default_factory=dict)  # by hypothesis
    stay: Stay | None = None


@dataclass(frozen=True, eq=False)
class Stay:
    """Of each hypothesis (H,): the probability that the decision stays when all but the subset is redrawn."""

    share: Floats
    low: Floats
    high: Floats
    sufficient: Bools  # more likely than the level, established


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


SMALL = 0.01  # chance of so many at one end, were everything real like its draws


@dataclass(frozen=True, eq=False)
class Places:
    """How many real ones stand first, second, ... last among themselves and their draws."""

    counts: Ints  # (draws + 1,)

    what = "inputs"  # what is ranked, in words

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    @property
    def lower(self) -> tuple[int, int]:
        """Those in the lowest third of places, and in as many places just above: what is important is in neither."""
        third = max(1, len(self.counts) // 3)
        return int(self.counts[-third:].sum()), int(self.counts[-2 * third : -third].sum())

    @property
    def p_bottom(self) -> float:
        """Chance of so many more in the lowest third than above it, were each exchangeable with its draws.

        What does not matter stands anywhere alike and what does stands high, so lower places hold no more than higher
        ones.
        """
        from scipy.stats import binom

        bottom, above = self.lower
        return float(binom.sf(bottom - 1, bottom + above, 0.5))

    @property
    def p_top(self) -> float:
        """Chance of so many in the first place, were nothing important; an excess there is what a run is to find."""
        from scipy.stats import binom

        return float(binom.sf(self.counts[0] - 1, self.total, 1 / len(self.counts)))

    @property
    def ok(self) -> bool:
        """Whether nothing piles up at the bottom."""
        return self.p_bottom >= SMALL

    @property
    def verdict(self) -> str:
        """One sentence, or two."""
        bottom, above = self.lower
        seen = f"{bottom} of {self.total} real {self.what} stand in the lowest third among their draws"
        if not self.ok:
            return (
                f"The fills are not exchangeable with real {self.what}: {seen} and only {above} in the third above "
                f"(p = {self.p_bottom:.1g}). Where fills move the output too easily one way they may do so the other "
                "way elsewhere, so discoveries say in part how fills differ from what is real; use a better sampler, "
                "or filter its draws with butfor.plausible."
            )
        expected = self.total / len(self.counts)
        top = "those are what a run can find" if self.p_top < SMALL else "little is to be found"
        return (
            f"No sign against the sampler: {seen}, {above} in the third above. {self.counts[0]} stand first where "
            f"{expected:.0f} would by chance: {top}."
        )

    def summary(self) -> str:
        """The counts and the verdict, for a terminal."""
        counts = " ".join(map(str, self.counts))
        return f"Places of {self.total} real {self.what}, first to last: {counts}\n{self.verdict}"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Bars of the counts, as `butfor.plots.ranks`; returns the axes.

        Parameters
        ----------
        ax : axes to draw on; None makes a figure.
        """
        drawn: Axes = later("butfor.plots:ranks")(self, ax)
        return drawn
