"""GlobalResult: one row per subset, decided over all inputs; frozen, re-selectable, saved without pickle."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from butfor.inference import selection
from butfor.inference.effects import Effects
from butfor.inference.guarantees import FILTER, FIXED, IGNORED, P_RULES, Guarantee
from butfor.inference.holdout import GlobalEvidence
from butfor.results import storage
from butfor.results import summary as global_summary
from butfor.results.result import LEAST_INPUTS
from butfor.results.storage import later
from butfor.results.summary import departs
from butfor.types import Array, Bools, InputError

if TYPE_CHECKING:
    import pandas as pd


REJECTED = "The sampler did not pass its check on {names}: nothing is said of {them}."
UNCHECKED = "{count} subsets were not checked."
TOGETHER = (
    "The check of the sampler calls no single subset wrong, but the shape of all columns together: a fault too small "
    "to be seen in one of them, by which p-values may be somewhat too small or too large."
)
WITHHELD = (
    "Not chosen, whatever {their} p-value, since the sampler did not pass its check there: {names}. A sampler that "
    "draws {them} as the data has {them} may tell more (check_sampler says what is wrong)."
)
MOST_NAMED = 6  # subsets that a sentence names


class Check(Protocol):
    """What was found of the sampler on rows that it has not seen, as `butfor.check_sampler` gives it."""

    @property
    def subset_names(self) -> tuple[str, ...]: ...
    @property
    def verdicts(self) -> tuple[Any, ...]: ...
    @property
    def ok(self) -> bool: ...
    @property
    def sentence(self) -> str: ...


@dataclass(frozen=True)
class SavedCheck:
    """What a file keeps of a check."""

    subset_names: tuple[str, ...]
    verdicts: tuple[str, ...]
    ok: bool
    sentence: str


def kept_check(check: Check | None) -> dict[str, Any] | None:
    """A check as plain words, for a file."""
    if check is None:
        return None
    kept = SavedCheck(check.subset_names, tuple(map(str, check.verdicts)), check.ok, check.sentence)
    return {**asdict(kept)}


def read_check(subset_names: list[str], verdicts: list[str], ok: bool, sentence: str) -> SavedCheck:
    return SavedCheck(tuple(subset_names), tuple(verdicts), ok, sentence)


def rejected_by(check: Check | None, subset_names: tuple[str, ...]) -> Bools:
    """Subsets (S,) that a check calls anything but ok; one that was not checked is not rejected."""
    wrong = set()
    if check is not None:
        wrong = {name for name, said in zip(check.subset_names, check.verdicts, strict=True) if str(said) != "ok"}
    return np.array([name in wrong for name in subset_names], bool)


def shortened(names: list[str]) -> str:
    """The name of a group: its columns, or the first of them."""
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def them(marked: Bools) -> str:
    return "it" if marked.sum() == 1 else "them"


Mode = Literal["holdout", "contrast"]
FitKind = Literal["known", "counted", "cross-fitted", "reference alone", "taken as right"]

ASSUMED: dict[Mode, str] = {
    "holdout": (
        "under the null the label does not depend on the feature given the other columns, the sampler draws the "
        "feature as it is distributed in the population given them, the rows are independent of each other and the "
        "model was not fitted on them"
    ),
    "contrast": (
        "under the null the feature of every input is exchangeable with draws from Q given the rest of that input, "
        "the inputs are independent of each other and were not picked by their output"
    ),
}
APPROXIMATE = (
    "the inputs are independent of each other and were not picked by their output, their mean is nearly normal and the "
    "form of the sampler's fit is right (approximate: the error of the fit is counted by its leverage, checked by "
    "simulation)"
)
FITTED: dict[FitKind, str] = {
    "cross-fitted": (
        "The sampler is fitted, on the reference and the other folds of the data, so this is approximate (checked by "
        "simulation)."
    ),
    "reference alone": (
        "The sampler is fitted, on its reference alone, so this is approximate: a reference that is small beside the "
        "data or a fit that is off makes false discoveries; reference data in place of the sampler is fitted together "
        "with the other folds of the data."
    ),
    "taken as right": (
        "The sampler is fitted and was taken to be right: with {inputs} inputs the error of its fit is not counted, "
        "which makes false discoveries where the reference is not much larger."
    ),
}
OWN_LOSS = (
    "A loss of your own is compared as a whole: a sampler that draws a little too widely raises it, whatever the label "
    "does; loss='squared' and 'log' leave out that part."
)
PROVEN: dict[Mode, str] = {
    "holdout": "Tansey, Veitch, Zhang, Rabadan & Blei 2018; Hemerik & Goeman 2018",
    "contrast": "Hemerik & Goeman 2018",
}
BLIND = (
    "A sampler fitted on the population that the inputs come from cannot find anything here, by construction: give "
    "labels (y=) to ask which features the model's skill rests on, or fit the sampler on what you compare against "
    "(controls, the other class, last year)."
)
ORDINARY = f"These inputs are ordinary for this reference: no feature departs from the null at all. {BLIND}"
WEAK = (
    "Nothing was chosen, though the p-values as a whole depart from the null: more inputs, or fewer and larger subsets "
    f"may help. {BLIND}"
)
MIXED = (
    "The inputs are called {called}, and each is asked about its own class: what speaks for one of them and against "
    "the other averages out. Name one, target={first!r} say, to ask about it for all inputs."
)
NO_SKILL_ALONE = (
    "Nothing was chosen: on these rows the model's skill does not visibly rest on any subset given the others."
)
NO_SKILL = (
    f"{NO_SKILL_ALONE} Columns that stand in for each other hide each other; test them together "
    "(subsets={name: columns})."
)
HIDDEN = (
    "Columns that stand in for each other hide each other, and these were not chosen: {groups}. Whether they matter "
    "together is another question: subsets={call}."
)
MOST_GROUPS = 2  # that are named


@dataclass(frozen=True, eq=False)
class GlobalResult:
    """One row per subset, with what was chosen over the whole data set and the guarantee of that choice."""

    subset_names: tuple[str, ...]
    mode: Mode
    inputs: int
    evidence: GlobalEvidence
    effects: Effects
    chosen: Bools  # (S,)
    alpha: float
    rule: str
    rows: int
    warned: tuple[str, ...] = ()
    provenance: dict[str, Any] = field(default_factory=dict)
    check: Check | None = None  # of a fitted sampler, on rows that it has not seen

    def __repr__(self) -> str:
        return f"<butfor.GlobalResult: {self.chosen.sum()} of {len(self.chosen)} subsets chosen>"

    @property
    def guarantee(self) -> Guarantee:
        """What this choice promises, under which assumption, proven by whom."""
        promise, counted = P_RULES[self.rule], self.fit == "counted"
        return Guarantee(
            promise.controls,
            self.alpha,
            "the subsets of this data set",
            f"{APPROXIMATE if counted else ASSUMED[self.mode]}, and {promise.needs}",
            f"{'Student; Satterthwaite 1946' if counted else PROVEN[self.mode]}; {promise.proven_by}",
            (*self._caveats, FIXED),
        )

    @property
    def _caveats(self) -> list[str]:
        caveats = [FILTER] * (not self.tested.all()) + [IGNORED] * bool(self.provenance.get("dependence_ignored"))
        if self.fit in FITTED:
            caveats.append(FITTED[self.fit].format(inputs=self.inputs))
            own = self.mode == "holdout" and self.provenance.get("loss") not in ("squared", "log")
            caveats += [OWN_LOSS] * own
        return caveats + self._check_caveats

    @property
    def _check_caveats(self) -> list[str]:
        """What the check of the sampler takes away from the promise: of the subsets that it rejects."""
        if self.check is None or self.check.ok:
            return []
        if not self.rejected.any():
            return [TOGETHER]
        silent = self.rejected & self.tested  # what showed no variation cannot be important, whatever was drawn
        if not silent.any():
            return []
        caveat = REJECTED.format(names=self._listed(silent), them=them(silent))
        left_out = len(self.subset_names) - len(self.check.subset_names)
        return [f"{caveat} {UNCHECKED.format(count=left_out)}" if left_out else caveat]

    @property
    def rejected(self) -> Bools:
        """Subsets (S,) on which the sampler did not pass its check: they are never chosen."""
        return rejected_by(self.check, self.subset_names)

    def _listed(self, marked: Bools) -> str:
        return shortened([name for name, is_marked in zip(self.subset_names, marked, strict=True) if is_marked])

    @property
    def fit(self) -> FitKind:
        """What is known of the sampler's fit, and how that was allowed for."""
        kind: FitKind = self.provenance.get("fit", "known")
        return kind

    @property
    def why(self) -> str | None:
        """Why this sampler was taken, where it was not named."""
        return self.provenance.get("why")

    @property
    def tested(self) -> Bools:
        """False where a subset left the family before the selection: no draw of it ever changed anything."""
        return family_members(self.evidence, self.rule)

    @property
    def notes(self) -> tuple[str, ...]:
        """What to beware of."""
        said = list(self.warned)
        unchanging = int((~self.tested).sum())
        if unchanging:
            said.append(
                f"{unchanging} of {len(self.chosen)} subsets showed no variation: whatever was drawn, nothing changed "
                "to the last digit, since the model does not read them or the other columns leave them no choice (as "
                "yes/no columns of which just one is yes). They left the family; columns that fix each other can be "
                "tested together: subsets={name: columns}."
            )
        if self.check is not None:
            said.append(f"Of the sampler, {self.check.sentence}.")
        if len(called := self.provenance.get("called", ())) > 1:
            said.append(MIXED.format(called=" or ".join(map(str, called)), first=called[0]))
        hidden = self._hidden[:MOST_GROUPS]
        withheld = choose(self.evidence, self.alpha, self.rule) & self.rejected
        if withheld.any():
            several = withheld.sum() > 1
            words = {"their": "their" if several else "its", "them": them(withheld)}
            said.append(WITHHELD.format(names=self._listed(withheld), **words))
        if not self.chosen.any() and not withheld.any():
            ordinary = BLIND if len(called) > 1 else ORDINARY
            lone = WEAK if departs("p", self.evidence.p, self.tested) else ordinary
            alone = any(len(own) == 1 for own in self.provenance.get("subsets", {}).values())
            skill = NO_SKILL if alone and not hidden else NO_SKILL_ALONE
            said.append(skill if self.mode == "holdout" else lone)
        if hidden:
            call = {shortened(group): group for group in hidden}
            groups = "; ".join(f"({name})" for name in call)
            said.append(HIDDEN.format(groups=groups, call=json.dumps(call, ensure_ascii=False)))
        return tuple(said)

    @property
    def _hidden(self) -> list[list[str]]:
        """Groups of columns none of which was chosen, each by itself, and which tell each other in the reference."""
        columns, subsets = self.provenance.get("columns", []), self.provenance.get("subsets", {})
        tested = [{columns[j] for j in subsets.get(name, ())} for name in self.subset_names]
        chosen = {name for inside, found in zip(tested, self.chosen, strict=True) if found for name in inside}
        alone = {name for inside in tested if len(inside) == 1 for name in inside} - chosen
        moves = {name for inside, varied in zip(tested, self.evidence.varied, strict=True) if varied for name in inside}
        groups = [[name for name in group if name in alone] for group in self.provenance.get("stand_ins", ())]
        return [group for group in groups if len(group) > 1 and moves & set(group)]

    @cached_property
    def table(self) -> pd.DataFrame:
        """A DataFrame with one row per subset.

        `statistic` is the observed sum over inputs; `difference` the mean effect on the draws of the test, for every
        subset, flattered by the selection; `effect` and its interval come from fresh draws, for chosen subsets only,
        or count the error of the sampler's fit, for all.
        """
        found = self.evidence
        frame: pd.DataFrame = later("pandas:DataFrame")(
            {
                "subset": np.array(self.subset_names, dtype=object),
                "statistic": found.statistic,
                "difference": found.difference,
                "p": found.p,
                "chosen": self.chosen,
                "effect": self.effects.effect,
                "effect_low": self.effects.low,
                "effect_high": self.effects.high,
                "draws": found.draws,
                "passes": found.passes,
                "status": np.select([~self.tested, self.rejected], ["no variation", "not calibrated"], "tested"),
            }
        )
        return frame

    @cached_property
    def features(self) -> pd.DataFrame:
        """A DataFrame with one row per subset, as that of `butfor.explain`: p, chosen, effect and its interval."""
        columns = ["subset", "p", "chosen", "effect", "effect_low", "effect_high"]
        frame = self.table[columns].assign(inputs=self.inputs)
        frame.insert(1, "resolution", 0)
        return frame

    def select(self, *, alpha: float | None = None, rule: str | None = None) -> GlobalResult:
        """The same evidence at another level or rule: no new draws, effects kept where they were estimated.

        Parameters
        ----------
        alpha, rule : as in `butfor.global_importance`; None keeps what the result has.
        """
        alpha = self.alpha if alpha is None else alpha
        rule = self.rule if rule is None else rule
        return replace(self, alpha=alpha, rule=rule, chosen=choose(self.evidence, alpha, rule, self.rejected))

    def summary(self) -> str:
        """The result in words: how many, which subsets, what is promised, what to beware of."""
        return global_summary.global_summary(self)

    def _repr_html_(self) -> str:
        small: str = later("butfor.report.notebook:small_global_html")(self)
        return small

    def to_json(self) -> str:
        """Settings, guarantee, notes and the table, as JSON."""
        described = {
            "mode": self.mode,
            "alpha": self.alpha,
            "rule": self.rule,
            "inputs": self.inputs,
            "rows": self.rows,
            "chosen": int(self.chosen.sum()),
            "guarantee": str(self.guarantee),
            "notes": list(self.notes),
            "check": kept_check(self.check),
            "provenance": self.provenance,
        }
        return json.dumps({**described, "table": json.loads(self.table.to_json(orient="records"))}, default=str)

    def plot(self, ax: Any = None) -> Any:
        """Bars of the effects, as `butfor.plots.importance`; returns the axes.

        Parameters
        ----------
        ax : axes to draw on; None makes some.
        """
        return later("butfor.plots:importance")(self, ax=ax)

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
        found, effects = self.evidence, self.effects
        arrays = {name: getattr(found, name) for name in ("p", "varied", "statistic", "difference", "classes")}
        arrays |= {"chosen": self.chosen, "effect": effects.effect, "low": effects.low, "high": effects.high}
        metadata = {name: getattr(self, name) for name in PLAIN} | {"check": kept_check(self.check)}
        return storage.write(
            Path(path), {"class": "GlobalResult", "draws": found.draws, "passes": found.passes, **metadata}, arrays
        )


PLAIN = ("subset_names", "mode", "inputs", "alpha", "rule", "rows", "warned", "provenance")


def unpack_global(metadata: dict[str, Any], arrays: dict[str, Array]) -> GlobalResult:
    """The inverse of what `save` wrote."""
    evidence = GlobalEvidence(
        p=arrays["p"],
        varied=arrays["varied"],
        statistic=arrays["statistic"],
        difference=arrays["difference"],
        classes=arrays["classes"],
        draws=metadata["draws"],
        passes=metadata["passes"],
    )
    plain = {name: metadata[name] for name in PLAIN}
    check = metadata.get("check")
    return GlobalResult(
        check=None if check is None else read_check(**check),
        **plain | {"subset_names": tuple(metadata["subset_names"]), "warned": tuple(metadata["warned"])},
        evidence=evidence,
        effects=Effects(arrays["effect"], arrays["low"], arrays["high"]),
        chosen=arrays["chosen"],
    )


def choose(evidence: GlobalEvidence, alpha: float, rule: str, rejected: Bools | None = None) -> Bools:
    """Chosen subsets (S,): the rule over all that were tested; those `rejected` (S,) count as p = 1."""
    if rule not in P_RULES:
        fits = ", ".join(repr(name) for name in P_RULES)
        raise InputError(f"rule={rule!r} has no guarantee with global_importance; use one of {fits}")
    tested = family_members(evidence, rule)
    chosen = np.zeros(len(tested), bool)
    p = evidence.p if rejected is None else np.where(rejected, 1.0, evidence.p)  # p only grows: as valid as before
    chosen[tested] = selection.RULES[rule](p[tested], alpha)
    return chosen


def family_members(evidence: GlobalEvidence, rule: str) -> Bools:
    """Subsets the rule is applied to. Only BH over many inputs may drop those without variation: the other rules
    promise their level under any dependence, and dropping needs independence (see `result.family_members`)."""
    drops = rule == "bh" and len(evidence.classes) >= LEAST_INPUTS
    return evidence.varied if drops else np.ones(len(evidence.p), bool)
