"""Several masked places of a text -> what stands there, from left to right: drawn, or the likeliest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from butfor.core.types import Floats, Ints
from butfor.text.distribution import drawn, likeliest

Mass = Callable[[Ints, int], Floats]  # rows of pieces (n, length), which place -> probabilities (n, options there)


def drawn_rows(ids: Ints, places: Sequence[int], options: Sequence[Ints], numbers: Floats, mass: Mass) -> Ints:
    """Rows (draws, length) with the places filled from left to right, and again in each further sweep.

    `options` are the pieces that may stand at each place, `numbers` uniform (draws, places * sweeps).
    """
    rows = np.tile(ids, (len(numbers), 1))
    for step in range(numbers.shape[1]):
        which = step % len(places)
        distinct, back = np.unique(rows, axis=0, return_inverse=True)
        found = mass(distinct, which)
        for row, (own, number) in enumerate(zip(back.ravel(), numbers[:, step], strict=True)):
            rows[row, places[which]] = options[which][drawn(found[own], number[None])[0]]
    return rows


def likeliest_rows(
    ids: Ints, places: Sequence[int], options: Sequence[Ints], count: int, mass: Mass
) -> tuple[Ints, Floats]:
    """The likeliest rows that keeping `count` beginnings at a time finds, and their probabilities of being drawn."""
    rows, total = ids[None].copy(), np.ones(1)
    for which, place in enumerate(places):
        joint = total[:, None] * mass(rows, which)
        best = likeliest(joint.ravel(), count)
        row, piece = np.divmod(best, joint.shape[1])
        rows, total = rows[row], joint.ravel()[best]
        rows[:, place] = options[which][piece]
    return rows, total


def stacked(texts: Sequence[str], versions: list[list[str]], masses: list[Floats]) -> tuple[list[list[str]], Floats]:
    """Lists of fills of different lengths as one array of probabilities: short ones go on without mass."""
    width = max((len(mass) for mass in masses), default=0)
    out = np.zeros((len(masses), width))
    for row, (text, own, mass) in enumerate(zip(texts, versions, masses, strict=True)):
        out[row, : len(mass)] = mass
        own += [text] * (width - len(own))
    return versions, out
