"""Fills that tell on themselves: odd ones are tried again with real patches; some show the object again.

The model's outputs tell the latter: where most fills take the class of the photograph away and a few leave it, the
inpainter may have painted there what was removed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from butfor.evaluation.evaluator import Evaluator
from butfor.evaluation.hypotheses import Hypotheses
from butfor.evaluation.samplers import Sampler
from butfor.results.result import Decided, Fills, Moved
from butfor.results.words import Note
from butfor.run.decisions import draw_for
from butfor.run.watchers import Flips, Moves
from butfor.types import Bools, Floats, InputError, ModelError

LEAST_FILLS = 5
OTHER_DRAWS = 10  # real patches that are put in place of odd fills
LEAVES, TAKES = 0.8, 0.4  # share of an output that a fill with the object leaves at least, and other fills at most


def tried_again(
    hypotheses: Hypotheses,
    evaluator: Evaluator,
    sampler: Sampler | None,
    again: tuple[Moves, Flips | None],
    chosen: Bools,
    decided: Decided | None,
    moved: Moved,
    fills: Fills,
) -> Fills:
    """Return which findings on regions with odd fills hold with draws of another sampler; `again` watches those.

    They do if the mean change is above what is little there, too, in the same direction; and, where a region was called
    decisive, if the share of other decisions is above the level.
    """
    moves, flips = again
    needed = np.zeros_like(chosen) if decided is None else decided.necessary
    findings, nothing = fills.odd & (moved.moves | needed | chosen), np.zeros(len(chosen))
    if sampler is None or not findings.any():
        return fills
    watching = replace(evaluator, memory=None, watchers=(moves,) if flips is None else (moves, flips), failed={})
    try:
        draw_for(replace(hypotheses, sampler=sampler, watch=None), watching, findings, "other fills", OTHER_DRAWS)
    except (InputError, ModelError):  # no room for a patch, say
        return fills
    far = np.full((2, len(chosen)), np.inf) * np.array([[-1.0], [1.0]])
    confirmed = findings & (np.nan_to_num(moves.means(nothing, far).mean * np.sign(moved.drop)) > moved.least)
    if flips is not None and decided is not None:
        confirmed &= ~needed | (np.nan_to_num(flips.shares(nothing).share) > decided.level)
    return replace(fills, confirmed=confirmed)


def fill_notes(hypotheses: Hypotheses, moves: Moves, fills: Fills, outputs: Floats, findings: Bools) -> list[Note]:
    """Return notes on findings that are not counted, on fills that are alike, and on some that show the object again.

    `outputs` (n,) are those of the images that their regions change.
    """
    notes, doubtful = [], int((fills.doubtful & findings).sum())
    if doubtful:
        notes.append(Note("fills-doubtful", "warning", {"count": doubtful, "findings": int(findings.sum())}))
    alike = (fills.different < 0.5 * moves.draws) & (moves.draws > 1)
    if alike.any():
        values = {"regions": int(alike.sum()), "size": hypotheses.size, "draws": int(moves.draws[alike].sum())}
        notes.append(Note("fills-alike", "warning", {**values, "different": int(fills.different[alike].sum())}))
    names, counts = list[str](), list[int]()
    for row in range(hypotheses.size if moves.look.each else 0):
        left = outputs[hypotheses.input_of[row]] - moves.each(row)
        whole = float(outputs[hypotheses.input_of[row]])
        again = int((left >= LEAVES * whole).sum())
        if whole > 0 and left.size >= LEAST_FILLS and again and np.median(left) <= TAKES * whole:
            names.append(
                f"{hypotheses.subset_names[hypotheses.subset_of[row]]} of "
                f"{hypotheses.input_names[hypotheses.input_of[row]]}"
            )
            counts.append(again)
    if names:
        notes.append(Note("painted-again", "info", {"regions": names, "fills": sum(counts)}))
    return notes
