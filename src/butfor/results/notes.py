"""Notes on a result, made from its evidence: what could not be found, what departs, who may have been picked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.inference.selection import bh
from butfor.results.words import Note
from butfor.types import Bools, Floats, Ints

if TYPE_CHECKING:
    from butfor.results.result import Result

SELDOM = 0.02  # share of the reference beyond the inputs, from which on they look picked


def notes_of(result: Result) -> tuple[Note, ...]:
    """Return what a reader should know: the limits, what happened while drawing, what the evidence says."""
    record, chosen = result.record, result.chosen
    if record.importance is not None:
        return (*result.run_notes, *_of_importance(result))
    if record.test == "where":
        return result.run_notes
    size = largest_family(result._choice_for(result.alpha, result.rule, result.family).groups, len(chosen))
    limits = reach(record.test, result.rule, result.alpha, size, record.draws, record.h or 1, record.floor)
    if record.interrupted:
        return (*limits, *result.run_notes, *_never_varies(result))
    evidence, tested = result.evidence, result.tested
    notes = []
    if result.unchanging:
        notes.append(Note("no-variation", "info", {"count": result.unchanging, "size": len(chosen)}))
    stopped = record.test == "sequential" and record.selection not in (None, (result.rule, result.alpha, result.family))
    if len(chosen) and not chosen.any():
        over = result.over_inputs
        pooled = over is not None and bool(over.chosen.any())
        finished = not (evidence.open & tested).any()  # an upper end of a p-value says nothing
        if pooled or departs(evidence.kind, evidence.values, tested, result.subset_of, record.draws):
            notes.append(Note("weak", "limit", {"pooled": not record.picked}))
        elif any(note.code == "few-candidates" for note in result.run_notes):
            pass  # there was no power: what was not found says nothing
        elif finished and not stopped and not any(chooses_nothing(note) for note in limits):
            notes.append(Note("ordinary" if result.modality == "table" else "as-drawn", "info"))
    if stopped and record.selection is not None:
        rule, alpha, family = record.selection
        notes.append(Note("stopped-for", "warning", {"rule": rule, "alpha": alpha, "family": family}))
    return (*limits, *result.run_notes, *notes, *nearly_all(chosen), *_never_varies(result))


def chooses_nothing(limit: Note) -> bool:
    """Return True if a note of `reach` says that nothing can be chosen at all."""
    return limit.values.get("together", 0) is None


def _never_varies(result: Result) -> list[Note]:
    """Return a note where the user's rule decides alike on all inputs and on all of the reference, whole rows of which
    are drawn at resolution 0."""
    layers, decided = result.hypotheses.layers, result.decided
    if decided is None or not result.record.decisions or layers is None or result.modality != "table":
        return []
    whole_rows = decided.share[layers.resolution == 0]
    if not whole_rows.size or not (whole_rows == 0).all() or not (np.nan_to_num(decided.share) == 0).all():
        return []
    values = {"least": float(result.outputs.min()), "most": float(result.outputs.max())}
    return [Note("never-varies", "warning", values)]


def reach(test: str, rule: str, alpha: float, family: int, draws: int, h: int = 1, floor: float = 0.0) -> list[Note]:
    """Return the one limit that binds before anything is drawn, or nothing.

    `family` is the size of one family, `floor` the least p-value that the sampler itself allows, one over its donors.

    >>> reach("irt", "bh", 0.1, 10, 100)
    []
    >>> reach("sequential", "bh", 0.1, 100, 100_000, h=10, floor=0.2)[0].code
    'reference-limits'
    """
    if test in ("osft", "few-shot"):
        least = math.ceil(1 / (alpha * (1 if test == "osft" else draws)) - 1e-9)
        if family < least:
            values = {"test": test, "alpha": alpha, "draws": draws, "least": least, "family": family}
            return [Note("competition-empty", "limit", values)]
        return [Note("competition-least", "limit", {"test": test, "alpha": alpha, "least": least})] * (least > 1)
    if rule == "e-bh":
        together = math.ceil(family / (alpha * (draws + 1)) - 1e-9)
        values = {"draws": draws, "together": together, "family": family}
        return [Note("e-values-together", "limit", values)] * (together > 1)
    harmonic = sum(1 / i for i in range(1, family + 1)) if rule == "by" else 1.0
    smallest = h / (draws + h)  # 1 / (K + 1) for fixed draws, h / (n + h) for sequential ones
    together = math.ceil(family * harmonic * max(smallest, floor) / alpha - 1e-9)
    if together <= 1:
        return []
    nothing = rule in ("holm", "bonferroni") or together > family
    limited = {"rule": rule, "family": family, "alpha": alpha, "together": None if nothing else together}
    if floor >= smallest:
        return [Note("reference-limits", "limit", {"floor": floor, **limited})]
    enough = floor == 0 or family * harmonic * floor <= alpha
    needed = math.ceil(h * (family * harmonic / alpha - 1) - 1e-9) if enough else None
    return [Note("draws-limit", "limit", {**limited, "draws": draws, "h": h, "needed": needed})]


def reach_of_list(most: int, least: Floats) -> list[Note]:
    """Return a note where exact p-values cannot be small: `least` (H,) of each, `most` to be chosen were all at theirs.

    >>> reach_of_list(2, np.array([0.0, 0.01]))
    []
    """
    if most == len(least) or not least.any():
        return []
    values = {"most": most, "size": len(least), "least": float(np.median(least[least > 0]))}
    return [Note("list-limits", "limit", values)]


def reach_of_layers(resolution: Ints, draws: Ints, is_open: Bools, most: int) -> list[Note]:
    """Return a note for each resolution where drawing ended, for nothing more could be chosen there with `most` draws.

    >>> reach_of_layers(np.array([0, 1, 1]), np.array([60, 8, 0]), np.array([False, True, False]), 60)[0].values["open"]
    1
    """
    early, notes = is_open & (draws < most), []
    for number in np.unique(resolution[early]).tolist():
        inside = resolution == number
        counts = {"drawn": draws[inside] > 0, "family": inside, "open": early & inside}
        values = {"resolution": number, "draws": most} | {name: int(marked.sum()) for name, marked in counts.items()}
        notes.append(Note("drawing-ended", "limit", values))
    return notes


LEAST_REPEATS = 3  # inputs with a subset, from which on its spread is compared with that of others


def scales(spread: Floats, subset_of: Ints, names: tuple[str, ...]) -> list[Note]:
    """Return a note where subsets differ so much in spread that few-shot scores favour the wide ones (METHODS 4)."""
    counts = np.bincount(subset_of, minlength=len(names))
    medians = np.array([np.median(spread[subset_of == j]) if counts[j] else 0.0 for j in range(len(names))])
    positive = np.flatnonzero((medians > 0) & (counts >= LEAST_REPEATS))  # a word that stands once says nothing
    if positive.size < 2:
        return []
    wide, narrow = (int(positive[f(medians[positive])]) for f in (np.argmax, np.argmin))
    ratio = float(medians[wide] / medians[narrow])
    if ratio < 2.5:  # from here on few-shot finds a fraction of what the sequential test finds
        return []
    return [Note("spreads-differ", "limit", {"wide": names[wide], "narrow": names[narrow], "ratio": ratio})]


def departs(kind: str, evidence: Floats, tested: Bools, subset_of: Ints | None = None, decoys: int = 1) -> bool:
    """Return False if no subset's p-values (or signs) depart from what they would be if every null were true.

    Each subset by itself (one-sided Kolmogorov-Smirnov or binomial, Benjamini-Hochberg at 5 % over subsets): one that
    matters is not seen among many that do not. A test over all of them together counts as well.
    """
    from scipy.stats import binomtest, kstest, norm

    def departure(values: Floats) -> float:
        """The p-value of "these look as they would if every null were true"."""
        values = values[values != 0] if kind in "zw" else values
        if not values.size:
            return 1.0
        if kind == "e":
            return float(norm.sf((values.mean() - 1) * math.sqrt(values.size) / max(float(values.std()), 1e-300)))
        if kind in "zw":
            wins = int((values > 0).sum())
            return float(binomtest(wins, values.size, 1 / (decoys + 1), alternative="greater").pvalue)
        return float(kstest(values, "uniform", alternative="greater").pvalue)

    if departure(evidence[tested]) < 0.05:
        return True
    if subset_of is None:
        return False
    p = [departure(evidence[tested & (subset_of == j)]) for j in np.unique(subset_of[tested])]
    return bool(bh(np.array(p), 0.05).any())


def largest_family(groups: Ints | None, size: int) -> int:
    """Return the size of the largest family: the one that needs most draws."""
    return size if groups is None else int(np.bincount(groups).max(initial=0))


def nearly_all(chosen: Bools) -> list[Note]:
    """Return a note where most hypotheses are chosen.

    >>> nearly_all(np.ones(4, bool))
    []
    """
    if len(chosen) < 20 or chosen.mean() <= 0.5:
        return []
    return [Note("nearly-all", "warning", {"share": float(chosen.mean())})]


PICKED = ("picked-by-class", "picked-by-output")  # codes of notes that inputs look as if picked by their output


def called_alike(decisions: Ints, reference: Ints, name: object, *, decided: bool | None = True) -> list[Note]:
    """Return a note where all inputs (n,) are given one class that hardly a row of the reference (m,) is given.

    `decided` is as in `looks_picked`.

    >>> called_alike(np.ones(5, int), np.zeros(100, int), "declined")[0].values
    {'inputs': 5, 'name': 'declined', 'share': 0.0, 'decided': True}
    """
    if not len(decisions) or (decisions != decisions[0]).any():
        return []
    share = float((reference == decisions[0]).mean())
    name = name.item() if isinstance(name, np.generic) else name
    values = {"inputs": len(decisions), "name": name, "share": share, "decided": decided}
    return [Note("picked-by-class", "warning", values)] * (share <= SELDOM)


def looks_picked(
    outputs: Floats, reference: Floats, output: int | None = None, *, decided: bool | None = False
) -> list[Note]:
    """Return a note where a threshold of the output tells the inputs (n,) from nearly all of the reference (m,).

    `output` is the position of that output among several. `decided` is True where the run asks about a decision, False
    where it does not and one may be proposed, None where the user wants none.

    >>> looks_picked(np.arange(5.0) + 10, np.arange(100.0) / 100)[0].values["edge"]
    10.0
    """
    if not len(outputs):
        return []
    above, below = float((reference >= outputs.min()).mean()), float((reference <= outputs.max()).mean())
    if min(above, below) > SELDOM:
        return []
    side, edge = ("above", float(outputs.min())) if above <= below else ("below", float(outputs.max()))
    values = {"inputs": len(outputs), "side": side, "edge": edge, "share": min(above, below)}
    return [Note("picked-by-output", "warning", {**values, "output": output, "decided": decided})]


def failures(failed: Mapping[int, str], size: int) -> dict[str, Any]:
    """Return the values of a note on what failed: how many of how many, and why, the most frequent reasons first."""
    return {"failed": len(failed), "size": size, "why": [list(one) for one in Counter(failed.values()).most_common()]}


MOST_GROUPS = 2  # groups of columns that are named


def _of_importance(result: Result) -> list[Note]:
    importance, check, chosen, notes = result.record.importance, result.check, result.chosen, []
    assert importance is not None
    if result.unchanging:
        notes.append(Note("no-variation-subsets", "info", {"count": result.unchanging, "size": len(chosen)}))
    rejected = np.flatnonzero(result.rejected & result.tested)
    if rejected.size:
        verdicts = {result.subset_names[j]: result._verdicts[j] for j in result.subset_of[rejected]}
        notes.append(Note("subsets-not-tested", "warning", {"verdicts": verdicts}))
    elif check is not None:
        notes.append(Note("sampler-check", "info" if check.ok else "warning", {"sentence": check.sentence}))
    if len(importance.classes) > 1:
        notes.append(Note("mixed-classes", "limit", {"classes": list(importance.classes)}))
    columns = result.record.columns
    inside = [{columns[j] for j in subset.index.tolist()} for subset in result.hypotheses.subsets]
    withheld = result._choose(result.alpha, result.rule, result.family, withhold=False) & result.rejected
    in_chosen = set().union(*(inside[j] for j in np.flatnonzero(chosen)))
    varied = set().union(*(inside[j] for j in np.flatnonzero(result.evidence.varied)))
    alone = set().union(*(names for names in inside if len(names) == 1))
    groups = [[name for name in group if name in alone - in_chosen] for group in importance.stand_ins]
    hidden = [group for group in groups if len(group) > 1 and varied & set(group)][:MOST_GROUPS]
    if result.hypotheses.layers is not None:
        hidden = []  # they have a test of their own
        finest = result.hypotheses.layers.finest(chosen) & (result.hypotheses.layers.resolution == 0)
        size = np.where(chosen, np.abs(np.nan_to_num(result.effects.effect)), 0.0)
        if finest.any():
            p, names, first = result.evidence.values, result.subset_names, (size == size.max()) & (size > 0)
            named = [{"name": names[j], "p": float(p[j]), "largest": bool(first[j])} for j in np.flatnonzero(finest)]
            notes.append(Note("told-groups", "info", {"groups": named}))
    if not chosen.any() and not withheld.any():
        if result.record.test == "holdout":
            notes.append(Note("no-skill-alone" if alone and not hidden else "no-skill", "limit"))
        elif departs("p", result.evidence.values, result.tested):
            notes.append(Note("weak-data", "limit"))
        else:
            notes.append(Note("blind" if len(importance.classes) > 1 else "ordinary-data", "info"))
    if hidden:
        notes.append(Note("hidden", "limit", {"groups": hidden}))
    return notes
