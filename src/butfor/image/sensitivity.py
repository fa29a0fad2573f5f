"""The whole run again with every region moved a little: how much of the selection stays (the paper's sensitivity)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from butfor.core.checks import whole
from butfor.core.result.result import Result
from butfor.core.types import Bools, InputError
from butfor.image.explain import explain
from butfor.image.inputs import load_items
from butfor.image.regions import as_proposer
from butfor.image.shifts import mean_pairwise_iou, shifted


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """The run as asked for and the four with its regions moved diagonally. Made by `sensitivity`.

    Parameters
    ----------
    results : of the five runs, that with the regions where they are first.
    pixels : how far they were moved.
    """

    results: tuple[Result, ...]
    pixels: int

    def __repr__(self) -> str:
        return f"<Sensitivity: mean pairwise IOU {self.iou:.3f} over {len(self.results)} runs>"

    @property
    def selections(self) -> list[Bools]:
        return [result.chosen for result in self.results]

    @property
    def iou(self) -> float:
        """Mean over pairs of runs: hypotheses chosen by both over those chosen by either; 1 if nothing ever is."""
        return mean_pairwise_iou(self.selections)

    @property
    def always(self) -> Bools:
        """Hypotheses that every run chose."""
        return np.asarray(np.all(self.selections, axis=0))

    def select(self, alpha: float) -> Sensitivity:
        """The same runs at another level, without new draws.

        Parameters
        ----------
        alpha : the level.
        """
        return Sensitivity(tuple(result.select(alpha=alpha) for result in self.results), self.pixels)

    def summary(self) -> str:
        """In one sentence."""
        counts = [int(chosen.sum()) for chosen in self.selections]
        moved = ", ".join(map(str, counts[1:]))
        return (
            f"Sensitivity: with every region moved by {self.pixels} {'pixel' if self.pixels == 1 else 'pixels'} "
            f"diagonally, {moved} are chosen instead of {counts[0]}; {int(self.always.sum())} are chosen every time; "
            f"mean pairwise IOU {self.iou:.3f}."
        )


def sensitivity(
    model: Any, images: object, sampler: Any, *, boxes: object = None, pixels: int = 1, **settings: Any
) -> Sensitivity:
    """Runs `explain` as it is and with every region moved in each diagonal direction: five runs.

    A selection that hangs on a pixel says little: the paper's OSFT had a mean pairwise IOU of .749.

    Parameters
    ----------
    model, images, sampler, boxes : as in `explain`.
    pixels : how far the regions are moved.
    **settings : those of `explain`; with `fills` the first run costs nothing if it was made before.

    Examples
    --------
    >>> from butfor.image import donor
    >>> noise = np.random.default_rng(0).integers(90, 110, (12, 24, 24, 3), dtype=np.uint8)
    >>> noise[:, :8, :8] += 100
    >>> dark = sensitivity(lambda batch: [x[:8, :8].mean() for x in batch], list(noise), donor(), boxes=[(0, 0, 8, 8)])
    >>> dark.iou
    1.0
    """
    whole("pixels", pixels, 1)
    given = load_items(images)
    regions = as_proposer(boxes, settings.get("seed", 0), given.names)
    results = [explain(model, given, sampler, boxes=regions, **settings)]
    settings |= {"test": settings.get("test") or results[0].provenance["test"]}  # the same for all, whatever it costs
    results += [explain(model, given, sampler, boxes=proposer, **settings) for proposer in shifted(regions, pixels)]
    if len({(result.input_names, tuple(result.subset_of.tolist())) for result in results}) > 1:
        raise InputError(
            "some regions were lost when they were moved, so selections cannot be compared; use fewer pixels"
        )
    return Sensitivity(tuple(results), pixels)
