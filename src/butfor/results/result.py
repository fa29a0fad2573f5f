"""Result: the evidence, what was chosen by it and what that guarantees. Data only: it asks no model, and a sampler only
for counterfactuals that were not kept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from butfor.evaluation.hypotheses import Hypotheses, redraw, table_hypotheses
from butfor.evaluation.items import TableItems
from butfor.inference.bounds import simes_bounds
from butfor.inference.decisions import Forecasts, Nearest
from butfor.inference.effects import Effects
from butfor.inference.features import Features
from butfor.inference.guarantees import check_alpha, check_rule
from butfor.inference.holdout import GlobalEvidence
from butfor.inference.irt import many_vary
from butfor.inference.selection import Choice, Layers
from butfor.inference.statistics import Evidence
from butfor.results.notes import notes_of
from butfor.results.record import CheckRecord, ImportanceRecord, RunRecord, TableInputs, plain
from butfor.results.where import Located
from butfor.results.words import FAULTS, NO_VARIATION, Guarantee, Note, guarantee, no_nearest
from butfor.settings import too_few_inputs
from butfor.types import Array, Batch, Bools, Family, Floats, InputError, Ints, ReachWarning, warn_user, whole

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from butfor.tabular.check import SamplerCheck

Direction = Literal["up", "down", 1, -1]
DIRECTIONS: dict[object, int] = {"up": 1, "down": -1, 1: 1, -1: -1}
CONDITIONAL_LEVEL = 0.05  # of calling draws wrong that follow the other columns, over all subsets of a run
NO_SETS = (
    "this run has not looked for what is enough: it needs a decision (a classifier, or decide=), and reference data "
    "of a table, or enough=0.9 for images and texts"
)


def drops_unvarying(rule: str, family: str) -> bool:
    """Return True if hypotheses that never vary may leave the family: other rules hold under any dependence."""
    return rule == "bh" and family == "run"


def family_members(evidence: Evidence, rule: str, family: str, input_of: Ints) -> Bools:
    """Return what the rule is applied to (H,): hypotheses with evidence and, for BH over many inputs, variation."""
    varied = evidence.varied & evidence.drawable
    return varied if drops_unvarying(rule, family) and many_vary(varied, input_of) else evidence.drawable


@dataclass(frozen=True, eq=False)
class Chunk:
    """The first counterfactuals of some hypotheses, made small by `Items.pack`."""

    rows: Ints  # (n,)
    pieces: Any  # (n, k, columns), or n lists of k
    outputs: Floats  # (n, k, outputs)
    listed: bool = False  # the likeliest of a list, of which none was drawn


@dataclass(frozen=True, eq=False)
class Kept:
    """Counterfactuals that were kept of a run, by hypothesis."""

    chunks: tuple[Chunk, ...] = ()

    @cached_property
    def _index(self) -> dict[int, tuple[Chunk, int]]:
        return {row: (chunk, i) for chunk in self.chunks for i, row in enumerate(chunk.rows.tolist())}

    def __contains__(self, row: int) -> bool:
        return row in self._index

    def listed(self, row: int) -> bool:
        """Return True if the counterfactuals of a hypothesis were listed, not drawn."""
        return row in self and self._index[row][0].listed

    def pieces(self, row: int) -> Any:
        """Return the counterfactuals of one hypothesis as they were made small."""
        chunk, i = self._index[row]
        return chunk.pieces[i]

    def outputs(self, row: int) -> Floats:
        """Return the outputs (k, outputs) of the model on the counterfactuals of one hypothesis."""
        chunk, i = self._index[row]
        return np.asarray(chunk.outputs[i])

    def whole(self, hypotheses: Hypotheses, row: int, count: int | None = None) -> Batch:
        """Return the first counterfactuals of one hypothesis as whole inputs; none if they were not kept."""
        if row not in self:
            return []
        subset = hypotheses.block_of(row).subset
        inputs = hypotheses.items.block(int(hypotheses.input_of[row]), int(hypotheses.input_of[row]) + 1)
        values = hypotheses.items.unpack(self.pieces(row)[:count], inputs[0], subset)
        return hypotheses.items.whole(values, inputs, subset)


@dataclass(frozen=True, eq=False)
class Control:
    """Rows of the reference that went through the same test, each by a sampler that has not seen it."""

    p: Floats  # (rows, subsets) or other evidence
    chosen: Bools  # (rows, subsets)
    calibrated: Bools | None = None  # (subsets,) False: by p-values or by ranks its draws are wrong
    off: Floats | None = None  # (subsets,) the statistic of a row minus the mean of its draws', on average over rows
    verified: Forecasts | None = None  # chances of decisions, where some are asked about; not in files
    conditional_p: Floats | None = None  # (subsets,) of ranks among draws being independent of the other columns
    told_by: Ints | None = None  # (subsets,) the column that tells the ranks best, where they are not; -1: none

    @property
    def rows(self) -> int:
        return len(self.chosen)

    @property
    def not_following(self) -> Bools:
        """Subsets (S,) whose draws do not follow how they depend on another column, all of them together at .05."""
        p = np.ones(self.chosen.shape[1]) if self.conditional_p is None else self.conditional_p
        return np.asarray(p * len(p) <= CONDITIONAL_LEVEL)

    def __repr__(self) -> str:
        return f"<butfor control: {int(self.chosen.sum())} chosen on {self.rows} rows of the reference{self._wrong}>"

    def __str__(self) -> str:
        if not self.rows:
            return f"draws were checked by the ranks of reference rows among them{self._wrong}"
        tested, subsets = int((~np.isnan(self.p)).any(axis=0).sum()), self.chosen.shape[1]
        part = f" (the largest {tested} of {subsets} subsets)" if tested < subsets else ""
        chosen = int(self.chosen.sum()) or "nothing"
        return f"the same test on {self.rows} held-out reference rows finds {chosen}{part}{self._wrong}"

    @property
    def _wrong(self) -> str:
        """Number of subsets that are not calibrated, in words; nothing if all are."""
        wrong = 0 if self.calibrated is None else int((~self.calibrated).sum())
        return f"; {wrong} of {len(self.chosen.T)} parts cannot be judged" if wrong else ""


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

    def only(self, calibrated: Bools) -> Decided:
        """Return the same, but that nothing is known where draws are not calibrated (H,)."""
        low, high, stay = np.where(calibrated, self.low, 0.0), np.where(calibrated, self.high, 1.0), self.stay
        if stay is not None:
            ends = np.where(calibrated, stay.low, 0.0), np.where(calibrated, stay.high, 1.0)
            stay = Stay(stay.share, *ends, stay.sufficient & calibrated)
        return replace(self, low=low, high=high, necessary=self.necessary & calibrated, stay=stay)


@dataclass(frozen=True, eq=False)
class Stay:
    """Of each hypothesis (H,): the probability that the decision stays when all but the subset is redrawn."""

    share: Floats
    low: Floats
    high: Floats
    sufficient: Bools  # surely more likely than the level


@dataclass(frozen=True, eq=False)
class Moved:
    """Of each hypothesis (H,): by how much it moves the output of its input, the 95 % interval, and whether by more
    than little."""

    drop: Floats  # the output minus its mean over the draws
    low: Floats
    high: Floats
    moves: Bools
    least: float  # a change of at most this is little


@dataclass(frozen=True, eq=False)
class Fills:
    """Verdicts on the fills of each region (H,)."""

    odd: Bools  # most of those that were looked at are odder than real patches
    confirmed: Bools  # with real patches in place of the fills it is found, too; False where that was not tried
    different: Ints  # draws that can be told apart

    @property
    def doubtful(self) -> Bools:
        """Regions (H,) of which a finding may be due to the fills: they are not counted."""
        return self.odd & ~self.confirmed


@dataclass(frozen=True)
class KeptSet:
    """Parts of an input that were kept: how often its decision stays when all the rest is redrawn, 95 % interval."""

    input: int  # its position
    columns: tuple[str, ...]  # or regions, words, sentences
    stay: float
    low: float
    high: float
    enough: bool


@dataclass(frozen=True, eq=False)
class Sets:
    """The smallest sets of each input that keep its decision, the surest first; where none is enough the best one."""

    level: float
    base: Floats  # (n,) share of rows, or of inputs drawn anew, that get the decision, with its 95 % interval
    base_low: Floats
    base_high: Floats
    sets: tuple[KeptSet, ...]
    pooled: bool = False  # these rows are reference and inputs together

    def enough(self, index: int) -> tuple[KeptSet, ...]:
        """Return the sets that are enough for an input; the empty one where most rows get its decision anyway."""
        if self.base_low[index] > self.level:
            ends = (float(self.base[index]), float(self.base_low[index]), float(self.base_high[index]))
            return (KeptSet(index, (), *ends, True),)
        return tuple(one for one in self.sets if one.input == index and one.enough)


@dataclass(frozen=True, eq=False)
class Result:
    """One row per hypothesis (input, subset), with what was chosen and the guarantee of that choice.

    That of `butfor.global_importance` has one row per subset, over all inputs: its one input is called "all inputs".
    """

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
    rows: int  # of the model; `Rows`, which knows those of the control
    hypotheses: Hypotheses
    outputs: Floats  # (inputs, outputs) of the model on the inputs
    record: RunRecord
    kept: Kept = field(default_factory=Kept)
    rows_asked: int = 0  # evaluated or remembered: more than `rows` where draws repeat
    run_notes: tuple[Note, ...] = ()  # on what happened while drawing, and on the sampler
    output_names: tuple[Any, ...] | None = None
    choice: Choice | None = None  # how hypotheses are chosen
    decided: Decided | None = None
    moved: Moved | None = None
    located: Located | None = None
    sets: Sets | None = None
    fills: Fills | None = None  # of images
    over_inputs: Features | None = None
    control: Control | None = None
    difference: Floats = field(default_factory=lambda: np.zeros(0))  # (H,) of the global question, on the test's draws
    check: SamplerCheck | CheckRecord | None = None  # of the global question: on rows that the fit has not seen

    def __repr__(self) -> str:
        if self.located is not None and self.moved is not None:
            return f"<butfor.Result: {self.moved.moves.sum()} of {len(self.chosen)} regions move the output>"
        what = "subsets" if self.is_global else "hypotheses"
        return f"<butfor.Result: {self.chosen.sum()} of {len(self.chosen)} {what} chosen>"

    def __str__(self) -> str:
        return self.summary()

    @property
    def modality(self) -> Literal["table", "image", "text", "multimodal"]:
        """Kind of the inputs: table, image, text or multimodal."""
        return self.record.inputs.modality

    @property
    def is_global(self) -> bool:
        """True if each subset was tested once, over all inputs."""
        return self.record.importance is not None

    @property
    def importance(self) -> ImportanceRecord:
        """Record of the global question."""
        if self.record.importance is None:
            raise InputError("this result is of single inputs; butfor.global_importance asks about all of them")
        return self.record.importance

    @property
    def n_inputs(self) -> int:
        """Number of inputs that were tested, one by one or together."""
        return self.importance.inputs if self.is_global else len(self.input_names)

    @property
    def exact(self) -> bool:
        """True if all p-values were computed, from trees or lists of all that may be drawn."""
        return 0 < len(self.chosen) <= self.record.exact

    @property
    def guarantee(self) -> Guarantee:
        """Promise of this choice: under which assumption, proven by whom."""
        record, check, names = self.record, self.check, np.array(self.subset_names, dtype=object)
        if self.exact and record.test == "sequential":
            record = replace(record, test="irt")  # nothing was drawn
        calibrated, check_failed = None if self.control is None else self.control.calibrated, None
        wrong, told_by = np.zeros(len(names), bool), np.full(len(names), -1)
        if self.control is not None and self.control.conditional_p is not None and self.control.told_by is not None:
            wrong, told_by = self.control.not_following, self.control.told_by
        if check is not None and not check.ok and (not self.rejected.any() or (self.rejected & self.tested).any()):
            check_failed = names[self.rejected & self.tested].tolist()  # what does not vary cannot be important
        return guarantee(
            record,
            self.rule,
            self.family,
            self.alpha,
            filtered=self.unchanging > 0,
            layered=self.hypotheses.layers is not None,
            few_inputs=too_few_inputs(len(self.input_names), self.hypotheses.size),
            doubted=() if calibrated is None else names[~calibrated & ~wrong].tolist(),
            not_following=[(names[k], self.record.columns[told_by[k]]) for k in np.flatnonzero(wrong)],
            check_failed=check_failed,
            unchecked=0 if check is None else len(names) - len(check.subset_names),
        )

    @property
    def tested(self) -> Bools:
        """False where a hypothesis left the family before the selection (METHODS 6, zero variation)."""
        return self._members(self.rule, self.family)

    def _members(self, rule: str, family: str) -> Bools:
        if self.is_global and drops_unvarying(rule, family):  # each subset stands for all inputs
            return self.evidence.varied & self.evidence.drawable
        return family_members(self.evidence, rule, family, self.input_of)

    @property
    def unchanging(self) -> int:
        """Number of hypotheses that left the family because no draw changed anything."""
        return int((self.evidence.drawable & ~self.tested).sum())

    @property
    def rejected(self) -> Bools:
        """Hypotheses (H,) whose subset the check of the sampler calls anything but ok: they count as p = 1."""
        return np.array([verdict not in ("", "ok") for verdict in self._verdicts], bool)[self.subset_of]

    @property
    def _calibrated(self) -> Bools:
        """Hypotheses (H,) whose draws the control does not find wrong."""
        known = None if self.control is None else self.control.calibrated
        return np.ones(len(self.chosen), bool) if known is None else known[self.subset_of]

    @property
    def _verdicts(self) -> list[str]:
        """The verdict on each subset; nothing where it was not checked."""
        check = self.check
        verdicts = {} if check is None else dict(zip(check.subset_names, map(str, check.verdicts), strict=True))
        return [verdicts.get(name, "") for name in self.subset_names]

    @cached_property
    def q(self) -> Floats:
        """The least alpha (H,) at which each hypothesis would be chosen: `chosen` is `q <= alpha`, and q is at least p.

        For the same rule and family, with the weights that the rule learned at the alpha of this result. 1 where no
        alpha will do, NaN where nothing was tested, and for osft and few-shot on several resolutions.
        """
        weighed = np.where(self.rejected, 1.0, self.evidence.scaled)
        return self._choice_for(self.alpha, self.rule, self.family).least_alpha(weighed, self.tested)

    @cached_property
    def notes(self) -> tuple[Note, ...]:
        """Notes for a reader: limits, what happened while drawing, what the evidence says.

        Each has a `code`, a `severity` ("warning", "limit" or "info") and `values`; `str(note)` is its sentence.
        """
        return notes_of(self)

    def bound(self, rows: ArrayLike | None = None, confidence: float = 0.95) -> int:
        """Return how many of these hypotheses are true discoveries at least, with this confidence for all sets at once.

        Needs p-values for which Simes' inequality holds: independent or positively dependent (METHODS 10). A sequential
        run stops drawing once a hypothesis is chosen, which leaves its p-value larger than it could be: `bounds=True`
        in the call goes on drawing for them.

        Parameters
        ----------
        rows : array-like of int or bool, optional
            Positions or a mask of rows of the table, picked before or after looking; None is all.
        confidence : float
            Of all such statements together.

        Returns
        -------
        int
        """
        if self.guarantee.controls == "nothing":
            raise InputError(f"no bound holds where nothing is controlled: {self.guarantee.assumption}")
        if (kind := self.evidence.kind) != "p":
            raise InputError(f"bound needs p-values, this result has {kind}; use test='sequential' or 'irt'")
        return simes_bounds(self.evidence.values, confidence)(np.arange(len(self.chosen)) if rows is None else rows)

    @cached_property
    def table(self) -> pd.DataFrame:
        """A DataFrame with one row per hypothesis.

        `q` is the least alpha at which the hypothesis would be chosen, by the same rule, family and weights.
        Of the global question `resolution` is 1 for columns and 0 for groups of columns that tell each other; `why`
        says why a subset was not tested, and then it has no `p`; `statistic` is the observed sum over inputs;
        `difference` the mean effect on the draws of the test, for every subset, flattered by the selection; `effect`
        and its interval come from fresh draws, for chosen subsets only, or count the error of the sampler's fit, for
        all.
        """
        import pandas as pd

        return pd.DataFrame(importance_columns(self) if self.is_global else columns(self))

    @cached_property
    def features(self) -> pd.DataFrame:
        """A DataFrame with one row per subset: does it set these inputs apart from the reference? (METHODS 7)

        `p`, `q` and `chosen` need reference data, 20 inputs and 20 reference rows; they are approximate, and the false
        discovery rate is over the subsets of each resolution. `q` is the least alpha at which a subset would be chosen.
        Of `butfor.global_importance` it has what is in `table`.
        """
        import pandas as pd

        return pd.DataFrame(feature_columns(self))

    def reasons(self, input: object = None, k: int = 4) -> pd.DataFrame:
        """Return the `k` strongest reasons of one input: decisive parts, then what is enough, then unusual parts, each
        as fine as they are known; then larger parts that are unusual or decisive, then what comes closest.

        Column `kind` says which of these a reason is, `order` whether its effect is sure to be larger than those after
        it (simultaneous intervals at 95 %), `sentence` all of it in words.

        Parameters
        ----------
        input : object, optional
            Its name, as in the table; a result of one input needs none.
        k : int
            How many.

        Returns
        -------
        pandas.DataFrame
        """
        import pandas as pd

        from butfor.results.summary import printed, reasons, reasons_text

        frame = pd.DataFrame(reasons(self, self.position(input), whole("k", k, 1)))
        return printed(frame, reasons_text(frame["kind"], frame["sentence"]))

    def enough(self, input: object = None) -> pd.DataFrame:
        """Return the smallest set of parts of each input that is enough for its decision (METHODS 17).

        Kept, with all the rest redrawn to go with it, the decision stays with a probability above `enough`. Sets of the
        same size that are enough, too, are `alternatives`: they stand for each other. What is enough tells the
        decision; the model need not read it itself. An empty set means that most rows (or
        images or texts, drawn anew as a whole) get this decision anyway.

        Parameters
        ----------
        input : object, optional
            Its name, as in the table; None is all inputs.

        Returns
        -------
        pandas.DataFrame
            A row per input that has such a set: input, columns, stay, stay_low, stay_high, alternatives.
        """
        import pandas as pd

        if self.sets is None:
            raise InputError(NO_SETS)
        positions = range(len(self.input_names)) if input is None else [self.position(input)]
        rows = []
        for i in positions:
            sets = self.sets.enough(i)
            if sets:
                first, *others = sets
                more = tuple(one.columns for one in others if len(one.columns) == len(first.columns))
                rows.append((self.input_names[i], first.columns, first.stay, first.low, first.high, more))
        return pd.DataFrame(rows, columns=["input", "columns", "stay", "stay_low", "stay_high", "alternatives"])

    def where(self, input: object = None) -> pd.DataFrame:
        """Return the cells of an image of a run without boxes, the largest effect first (METHODS 22).

        Parameters
        ----------
        input : object, optional
            Its name, as in the table; a result of one input needs none.

        Returns
        -------
        pandas.DataFrame
            A row per cell: its name, its centre x, y in pixels, the mean effect on the output over contexts in which
            20 to 50 % of the other cells are redrawn, an interval for all cells together, and whether it is `named`,
            surely above 0. `attrs["map"]` has by how much log-odds, or a score, fall where each place is redrawn.
        """
        import pandas as pd

        if self.located is None:
            raise InputError(
                "this run was asked about given parts; butfor.image.explain(..., boxes='where') finds some"
            )
        index = self.position(input)
        height, width = self.hypotheses.block_of(self.row(input, self.subset_names[0])).subset.index.shape
        frame = pd.DataFrame(self.located.frame(index, width, height))
        frame.attrs["map"] = self.located.maps[index].tolist()
        return frame

    def nearest(
        self,
        input: object = None,
        subset: str | None = None,
        fixed: Sequence[str] = (),
        direction: Mapping[str, Direction] | None = None,
    ) -> Batch | None:
        """Return the nearest draw of the run that changes the decision of one input; None, with a warning that says
        why, where there is none.

        It was drawn by the sampler and is as plausible as its draws are. Distance is Gower's for tables. A run keeps
        eight draws of each subset, the nearest of those in which other columns rise or fall.

        Parameters
        ----------
        input : object, optional
            Its name, as in the table; a result of one input needs none.
        subset : str, optional
            Its name, as in the table; None looks among all subsets whose draws are calibrated.
        fixed : sequence of str
            Columns that cannot change.
        direction : mapping, optional
            Columns that can only go "up" (or 1) or "down" (or -1): `{"income": "up"}`.

        Returns
        -------
        array, DataFrame, list or None
            One input, as the run's inputs were given.
        """
        import pandas as pd

        if self.decided is None:
            raise InputError("this run asked about no decision; give decide=, such as lambda outputs: outputs >= 0.4")
        ways = self._ways([fixed] if isinstance(fixed, str) else fixed, direction or {})
        position = self.position(input)
        rows = np.flatnonzero(self.input_of == position)
        if subset is not None:
            rows = np.array([self.row(self.input_names[position], subset)])
        else:
            rows = rows[self._calibrated[rows]]
        items, inputs = self.hypotheses.items, self.hypotheses.items.block(position, position + 1)
        kept, best, least = 0, None, np.inf
        for row in (row for row in rows.tolist() if row in self.decided.nearest):
            nearest, changed = self.decided.nearest[row], self.hypotheses.block_of(row).subset
            made = items.unpack(nearest.pieces, inputs[0], changed)
            made = items.whole(np.asarray(made) if items.shares_subsets else made, inputs, changed)
            for distance, one in zip(nearest.distances.tolist(), made, strict=True):
                if distance < least and all(_obeys(inputs[0][j], one[j], way) for j, way in ways.items()):
                    best, least = one, distance
            kept += len(made)
        if best is None:
            columns = [self.record.columns[j] for j in ways]
            high = float(np.max(self.decided.high[rows], initial=0.0))
            warn_user(no_nearest(self.input_names[position], subset, high, kept, columns), ReachWarning)
            return None
        shown = items.shown(best[None] if items.shares_subsets else [best])
        if not isinstance(shown, pd.DataFrame):
            return shown
        from butfor.results.summary import printed
        from butfor.results.view import nearest_text

        return printed(shown, nearest_text(self, position, best[None]))

    def _ways(self, fixed: Sequence[str], direction: Mapping[str, Direction]) -> dict[int, int]:
        """Return columns that are not free to change, by position: 0 must stay, 1 may rise, -1 may fall."""
        ways, inputs = dict[int, int](), self.record.inputs
        if (fixed or direction) and not isinstance(inputs, TableInputs):
            raise InputError(f"fixed and direction name columns of a table, these are {self.modality}s; drop them")
        for name in (*fixed, *direction):
            if name not in self.record.columns:
                raise InputError(f"unknown column {name!r}; columns are {_listed(self.record.columns)}")
            if name in fixed and name in direction:
                raise InputError(f"column {name!r} is in fixed and in direction; name it in one of them")
            position = self.record.columns.index(name)
            ways[position] = DIRECTIONS.get(direction.get(name), 0)
            if name in direction and not ways[position]:
                raise InputError(f"direction of {name!r} must be 'up' or 'down', or 1 or -1, got {direction[name]!r}")
            if ways[position] and isinstance(inputs, TableInputs) and inputs.kinds[position].kind == "category":
                raise InputError(f"column {name!r} holds categories, which have no direction; fixed= keeps it as it is")
        return ways

    def select(self, *, alpha: float | None = None, rule: str | None = None, family: Family | None = None) -> Result:
        """Return the same evidence at another level, rule or family: no new draws, effects kept where there are some.

        Parameters
        ----------
        alpha : float, optional
        rule : str, optional
        family : {"run", "input"}, optional
            As in `butfor.explain`; None keeps what the result has.

        Returns
        -------
        Result
        """
        if self.located is not None:
            raise InputError("regions of boxes='where' were drawn until one was open at the run's alpha; run it again")
        alpha = check_alpha(self.alpha if alpha is None else alpha)
        rule = self.rule if rule is None else rule
        family = self.family if family is None else family
        check_rule(self.record.test, rule)
        if family not in get_args(Family) or (self.is_global and family != "run"):
            expected = "'run'" if self.is_global else "one of 'run', 'input'"
            raise InputError(f"family must be {expected}, got {family!r}")
        if (rule == "e-bh") != ((kind := self.evidence.kind) == "e"):
            raise InputError(f"this result has {kind} evidence, rule={rule!r} needs another; run it again")
        if self.record.delta is not None and (alpha, rule, family) != (self.alpha, self.rule, self.family):
            raise InputError(
                "a run with early_stop=True stopped drawing once its own decisions were settled; run it again with the "
                "new alpha, rule or family, or without early_stop"
            )
        chosen, choice = self._choose(alpha, rule, family), self._choice_for(alpha, rule, family)
        effects = self.effects.without(chosen)
        return replace(self, alpha=alpha, rule=rule, family=family, chosen=chosen, choice=choice, effects=effects)

    def _choice_for(self, alpha: float, rule: str, family: str) -> Choice:
        """Return how the same hypotheses are chosen at another level or by another rule.

        Weights that a sequential run learned from its first draws stay as they are; others are learned anew.
        """
        families = self.input_of if family == "input" else None
        if self.choice is None:
            return Choice(rule, alpha, families, self.hypotheses.layers, draws=self.record.draws)
        return replace(self.choice, rule=rule, alpha=alpha, families=families)

    def _choose(self, alpha: float, rule: str, family: Family, *, withhold: bool = True) -> Bools:
        """Return what is chosen (H,); with `withhold` what the check rejects counts as p = 1, which keeps p valid."""
        tested = self._members(rule, family)
        weighed = np.where(self.rejected & withhold, 1.0, self.evidence.scaled)
        return self._choice_for(alpha, rule, family).chosen(weighed, tested)

    def counterfactuals(self, input: object, subset: str, n: int = 3) -> Batch:
        """Return the first `n` counterfactuals that this run drew for one hypothesis, as it kept them.

        What it did not keep is drawn again from the seed: that asks the sampler, never the model. Where they were
        listed, `n` are drawn from what they were listed from.

        Parameters
        ----------
        input : object
            Its name, as in the table.
        subset : str
            Its name, as in the table.
        n : int
            How many.

        Returns
        -------
        array, DataFrame or list
            `n` inputs, as the run's inputs were given.
        """
        if self.is_global:
            raise InputError("a result of global_importance keeps no draws; butfor.explain does, for each input")
        if self.record.picked:
            raise InputError("a run with picked= notes no draws, since most are rejected; draw from the sampler itself")
        row = self.row(input, subset)
        counts = isinstance(n, int | np.integer) and not isinstance(n, bool)
        drawn = counts and n > 0 and not self.kept.listed(row)
        batch = self.kept.whole(self.hypotheses, row, n) if drawn else []
        if not drawn or len(batch) != n:
            batch = redraw(self.hypotheses, row, n, list(self.record.rounds), self.record.set_aside)
        return self.hypotheses.items.shown(batch)

    def row(self, input: object, subset: str) -> int:
        """Return the position of a hypothesis in the table.

        Parameters
        ----------
        input : object
            Its name, as in the table.
        subset : str
            Its name, as in the table.

        Returns
        -------
        int
        """
        wanted = (self.input_of == self.position(input)) & (self.subset_of == self._place(subset))
        return int(np.flatnonzero(wanted)[0])

    def _place(self, subset: str) -> int:
        """Return the position of a subset among the names, by its name or its key."""
        if subset not in self.subset_names:
            named = [one.name for one in self.hypotheses.subsets if one.key == subset]
            if not named:
                raise InputError(f"unknown subset {subset!r}; subsets are {_listed(self.subset_names)}")
            subset = named[0]
        return self.subset_names.index(subset)

    def columns_of(self, subset: str) -> list[str]:
        """Return all columns of a subset of a table, whatever its name is short for.

        Parameters
        ----------
        subset : str
            Its name, as in the table.

        Returns
        -------
        list of str
        """
        name = self.subset_names[self._place(subset)]
        if self.modality != "table":
            raise InputError(f"columns_of is for tables, these are {self.modality}s")
        index = next(one.index for one in self.hypotheses.subsets if one.name == name)
        return [self.record.columns[j] for j in index.tolist()]

    def position(self, input: object = None) -> int:
        """Return the position of an input among the inputs.

        Parameters
        ----------
        input : object, optional
            Its name, as in the table; a result of one input needs none.

        Returns
        -------
        int
        """
        if input is None:
            if len(self.input_names) != 1:
                raise InputError(f"name an input; inputs are {_listed(self.input_names)}")
            return 0
        if input not in self.input_names and str(input) in self.input_names:
            input = str(input)  # times and the like are text in a file
        if input not in self.input_names:
            raise InputError(f"unknown input {input!r}; inputs are {_listed(self.input_names)}")
        return self.input_names.index(input)

    def summary(self, *, full: bool = False) -> str:
        """Return the answer in at most ten lines; `print(result)` shows the same.

        What the model says, what is decisive, the nearest change, what is unusual, where the inputs differ on average;
        notes that change what may be concluded, the control and the promise.

        Parameters
        ----------
        full : bool
            Whether the table of subsets, all notes, the guarantee and the settings come after it.

        Returns
        -------
        str
        """
        from butfor.results.summary import summary

        return summary(self, full=full)

    def with_sources(
        self, *, model: str | None = None, data: str | None = None, reference: str | None = None
    ) -> Result:
        """Return the same result that says in its report where model, data and reference came from.

        Parameters
        ----------
        model, data, reference : str, optional
            A few words on each; None keeps what the result has.

        Returns
        -------
        Result
        """
        given = {"model": model, "data": data, "reference": reference}
        record = replace(self.record, **{name: words for name, words in given.items() if words is not None})  # type: ignore[arg-type]
        return replace(self, record=record)

    def _repr_html_(self) -> str:
        from butfor.report.notebook import small_html

        return small_html(self)

    def to_json(self) -> str:
        """Return settings, guarantee, notes and the table, as JSON.

        Returns
        -------
        str
        """
        described = {
            "alpha": self.alpha,
            "rule": self.rule,
            "family": self.family,
            "rows": self.rows,
            "rows_asked": self.rows_asked,
            "hypotheses": len(self.chosen),
            "chosen": int(self.chosen.sum()),
            "guarantee": str(self.guarantee),
            "notes": [str(note) for note in self.notes],
            "record": plain(self.record),
            "table": self.table.astype(object).where(self.table.notna(), None).to_dict("records"),
        }
        return json.dumps(described, default=str)

    @property
    def plot(self) -> Any:
        """The plots of this result: `result.plot.bar("loan 1502", ax=ax)`, `result.plot.decision()`, and so on.

        Each is the function of that name in `butfor.plots`; it returns the axes and never shows or saves anything.
        """
        from butfor.plots.display import ResultPlots

        return ResultPlots(self)

    def to_shap(self, *, groups: bool = False, columns: bool = False) -> Any:
        """Return the effects as a `shap.Explanation`, for SHAP's plots; unusual ones have a star at their value.

        Effects do not add up, so the base value of an input is its output minus the sum of its effects: it is no
        expectation, and the label "E[f(X)]" that SHAP's waterfall writes beside it is not true of it.

        Parameters
        ----------
        groups : bool
            Whether groups of columns are columns of their own, beside the single ones.
        columns : bool
            Whether columns that are tested together only, as each can be told from the others, stand one by one: each
            with an equal share of the effect and with the `p` and `chosen` of all of them.

        Returns
        -------
        shap.Explanation
            With `p`, `q` and `chosen` as arrays like `values`.
        """
        from butfor.plots.shap_values import to_shap

        return to_shap(self, groups=groups, columns=columns)

    def report(self, path: str | Path) -> Path:
        """Write one offline HTML file and return its path.

        Parameters
        ----------
        path : str or Path
            Of the file; its folder must exist.

        Returns
        -------
        Path
        """
        from butfor.report import write

        return write(self, Path(path))

    def save(self, path: str | Path) -> Path:
        """Write a zip of arrays (npz) and JSON; `butfor.load` reads it back. Nothing in it is ever executed.

        Parameters
        ----------
        path : str or Path
            Of the file; its folder must exist.

        Returns
        -------
        Path
        """
        from butfor.results.io import pack, write

        return write(Path(path), *pack(self))


def _obeys(observed: float, new: float, way: int) -> bool:
    """Tell whether a value changes only as it may: 0 must stay, 1 may rise, -1 may fall.

    >>> _obeys(1.0, 2.0, 1), _obeys(1.0, 2.0, -1), _obeys(1.0, 1.0, 0), _obeys(np.nan, 1.0, 1)
    (True, False, True, False)
    """
    stays = new == observed or (np.isnan(new) and np.isnan(observed))
    return bool(stays or way * (new - observed) > 0)


def _listed(names: tuple[Any, ...], most: int = 8) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown}, ... ({len(names)} in all)"


def importance_result(
    hypotheses: Hypotheses,
    record: RunRecord,
    evidence: GlobalEvidence,
    effects: Effects,
    *,
    alpha: float,
    rule: str,
    check: SamplerCheck | None,
) -> Result:
    """Return the result of the global question: every subset of `hypotheses` once, on one pseudo-input."""
    count, name = len(evidence.p), "all inputs"
    alone = {int(subset.index[0]): j for j, subset in enumerate(hypotheses.subsets) if len(subset.index) == 1}
    parent = np.full(count, -1)
    for j, subset in enumerate(hypotheses.subsets):
        if len(subset.index) > 1:
            parent[[alone[column] for column in subset.index.tolist() if column in alone]] = j
    groups = np.isin(np.arange(count), parent)  # of columns: resolution 0; columns: 1; none: no column is in a group
    pseudo = TableItems(np.full((1, len(record.columns)), np.nan))
    tested = table_hypotheses(pseudo, (name,), hypotheses.subsets, hypotheses.sampler, record.seed)
    result = Result(
        input_names=(name,),
        subset_names=hypotheses.subset_names,
        input_of=np.zeros(count, np.int64),
        subset_of=np.arange(count),
        evidence=Evidence(
            kind="p",
            values=evidence.p,
            varied=evidence.varied,
            observed=evidence.statistic,
            classes=np.zeros(count, np.int64),
            draws=np.full(count, evidence.draws),
            open=np.zeros(count, bool),
            drawable=np.ones(count, bool),
            scale=np.ones(count),
            least=np.zeros(count),
            surprise=np.full(count, np.nan),
        ),
        effects=effects,
        chosen=np.zeros(count, bool),
        alpha=alpha,
        rule=rule,
        family="run",
        rows=0,
        hypotheses=replace(tested, layers=Layers((~groups).astype(np.int64), parent) if groups.any() else None),
        outputs=np.zeros((1, 0)),
        record=record,
        difference=evidence.difference,
        check=check,
    )
    return replace(result, chosen=result._choose(alpha, rule, "run"))


def columns(result: Result) -> dict[str, Array]:
    """Return what is known of every hypothesis, by column."""
    evidence, effects, decided, items = result.evidence, result.effects, result.decided, result.hypotheses.items
    values = np.full(len(result.chosen), None, dtype=object)  # observed, of single columns of a table
    if isinstance(items, TableItems):
        cells = np.asarray(items.shown(items.values), dtype=object)
        single = {one.name: int(one.index[0]) for one in result.hypotheses.subsets if len(one.index) == 1}
        for position, name in enumerate(result.subset_names):
            if name in single:
                rows = result.subset_of == position
                values[rows] = cells[result.input_of[rows], single[name]]
    shown: dict[str, Array] = {
        "input": names_column(result.input_names)[result.input_of],
        "subset": names_column(result.subset_names)[result.subset_of],
        "resolution": result.hypotheses.resolution,
        "value": values,
        "observed": evidence.observed,
        "draws": evidence.draws,
        evidence.kind: evidence.values,
        "q": result.q,
        "chosen": result.chosen,
        "effect": effects.effect,
        "effect_low": effects.low,
        "effect_high": effects.high,
        "surprise": evidence.surprise,
        "status": _status(result),
    }
    if decided is not None:
        shown |= {"flip": decided.share, "flip_low": decided.low, "flip_high": decided.high}
        shown["necessary"] = decided.necessary
        if (stay := decided.stay) is not None:
            shown |= {"stay": stay.share, "stay_low": stay.low, "stay_high": stay.high, "sufficient": stay.sufficient}
    if (moved := result.moved) is not None:
        shown |= {"move": moved.drop, "move_low": moved.low, "move_high": moved.high, "moves": moved.moves}
    if result.output_names is not None:
        shown["output"] = names_column(result.output_names)[evidence.classes]
    if result.located is not None:
        del shown["p"], shown["q"], shown["surprise"]  # whether the output is unusual was not tested
    return shown


STATUSES = (
    "not unusual", "unusual", "untested", "not calibrated", "not judged", "hardly picked", "no variation",
    "open", "moves", "not sure", "not drawn", "fills look odd", "not covered",
)  # fmt: skip


def _status(result: Result) -> Array:
    if result.located is not None and result.moved is not None:
        drawn = np.where(result.evidence.draws > 0, "not sure", "not drawn")
        return np.where(result.moved.moves, "moves", drawn).astype(object)
    wrong, untested = ~result._calibrated, np.zeros(len(result.chosen), bool)
    untested[list(result.record.untested)] = True
    choosable = None if result.choice is None else result.choice.calibrated
    withheld = np.zeros_like(wrong) if choosable is None else ~choosable
    evidence = result.evidence
    odd = wrong & False if result.fills is None else result.fills.doubtful
    given = False if result.decided is None else result.decided.necessary
    odd = odd & (result.chosen | given | (False if result.moved is None else result.moved.moves))
    cases = [odd, result.chosen, untested, wrong, withheld, ~evidence.drawable, ~result.tested, evidence.open]
    status = np.select(cases, ("fills look odd", *STATUSES[1 : len(cases)]), default=STATUSES[0]).astype(object)
    status[list(result.record.uncovered)] = "not covered"
    return status


def importance_columns(result: Result) -> dict[str, Array]:
    """Return what is known of every subset over all inputs, by column."""
    evidence, effects, states = result.evidence, result.effects, [~result.tested, result.rejected]
    faults = np.array([verdict and f"not tested: {FAULTS[verdict]}" for verdict in result._verdicts], dtype=object)
    return {
        "subset": np.array(result.subset_names, dtype=object),
        "statistic": evidence.observed,
        "difference": result.difference,
        "p": np.where(result.rejected, np.nan, evidence.values),
        "q": result.q,
        "chosen": result.chosen,
        "effect": effects.effect,
        "effect_low": effects.low,
        "effect_high": effects.high,
        "draws": evidence.draws,
        "passes": np.full(len(result.chosen), result.importance.passes),
        "resolution": result.hypotheses.resolution,
        "status": np.select(states, ["no variation", "not calibrated"], "tested"),
        "why": np.select(states, [NO_VARIATION, faults], "").astype(object),
    }


def feature_columns(result: Result) -> dict[str, Array]:
    """Return what is known of every subset over all inputs, by column."""
    size, effects, over = len(result.subset_names), result.effects, result.over_inputs
    resolution = np.zeros(size, np.int64)
    resolution[result.subset_of] = result.hypotheses.resolution
    shown: dict[str, Array] = {"subset": names_column(result.subset_names), "resolution": resolution}
    if result.is_global:
        p, count = np.where(result.rejected, np.nan, result.evidence.values), np.full(size, result.n_inputs)
        over = Features(effects.effect, effects.low, effects.high, p, result.q, result.chosen, count)
    elif over is None:
        known = ~np.isnan(effects.effect)
        total = np.bincount(result.subset_of[known], weights=effects.effect[known], minlength=size)
        count = np.bincount(result.subset_of[known], minlength=size)
        mean, nothing = np.divide(total, count, out=np.full(size, np.nan), where=count > 0), np.full(size, np.nan)
        over = Features(mean, nothing, nothing, nothing, nothing, np.zeros(size, bool), count)
    shown |= {"p": over.p, "q": over.q, "chosen": over.chosen, "effect": over.effect}
    shown |= {"effect_low": over.low, "effect_high": over.high}
    if result.is_global:
        return shown | {"inputs": over.inputs}
    counted = np.bincount(result.subset_of, weights=result.chosen, minlength=size).astype(np.int64)
    shown |= {"inputs_chosen": counted, "inputs": np.bincount(result.subset_of, minlength=size)}
    if result.decided is not None:
        needed = np.bincount(result.subset_of, weights=result.decided.necessary, minlength=size)
        shown["inputs_necessary"] = needed.astype(np.int64)
    return shown


def names_column(names: tuple[Any, ...]) -> Array:
    """Return names one by one, whatever they are: NumPy would make text of numbers among text, and rows of tuples.

    Half a surrogate pair, which tables and files cannot hold, is spelt out.
    """
    column = np.empty(len(names), dtype=object)
    column[:] = [
        name.encode("utf-8", "backslashreplace").decode("utf-8") if isinstance(name, str) else name for name in names
    ]
    kinds = {type(name) for name in names}
    return np.array(names) if len(kinds) == 1 and kinds <= {int, float, bool} else column


SMALL = 0.01  # chance of so many at one end, were everything real like its draws


@dataclass(frozen=True, eq=False)
class Places:
    """Counts of real ones that rank first, second, ... last among themselves and their draws."""

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
    def ok(self) -> bool:
        """True if nothing piles up at the bottom."""
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
        from scipy.stats import binom

        expected, p_top = self.total / len(self.counts), binom.sf(self.counts[0] - 1, self.total, 1 / len(self.counts))
        top = "those are what a run can find" if p_top < SMALL else "little is to be found"  # an excess at the top
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
        from butfor.plots import ranks

        return ranks(self, ax)
