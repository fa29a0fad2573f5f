"""Checks of a sampler and a selection: ranks of real patches among their draws, and runs with regions moved."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from butfor.evaluation.evaluator import Evaluator
from butfor.evaluation.hypotheses import Proposer, is_blind, list_hypotheses, rounds
from butfor.evaluation.items import ListItems
from butfor.evaluation.samplers import info_of
from butfor.image.boxes import as_proposer
from butfor.image.explain import batch_images, classifier, explain, prepared
from butfor.image.files import load_items, propose_regions
from butfor.image.region import Image, is_box, is_mask
from butfor.inference.statistics import Target, pick
from butfor.results.result import Places, Result
from butfor.settings import OnError
from butfor.types import Bools, InputError, Subset, whole


@dataclass(frozen=True, eq=False)
class Ranks(Places):
    """Counts of real patches that rank first (largest output), second, ... among their draws. Made by `ranks`."""

    median_spread: float  # over regions, of the standard deviation of the output over draws

    what = "patches"


def ranks(
    model: Any,
    images: object,
    sampler: Any,
    *,
    boxes: object = None,
    draws: int = 5,
    seed: int = 0,
    batch_rows: int | None = None,
    fills: str | Path | None = None,
    on_error: OnError = "raise",
) -> Ranks:
    """Rank each real patch among draws of the sampler, by the output of the symmetric predicted class.

    Important patches rank first, the others anywhere: an excess of low ranks says that fills are not like photographs,
    whatever the model relies on. Ties are broken at random; regions where no draw changes the output are left out.

    Parameters
    ----------
    model, images, sampler, boxes, fills : object
        As in `explain`.
    draws : int
        Draws for each patch, at least two: those of a few-shot run with this seed.
    seed : int
        The same seed gives the same draws.
    batch_rows : int, optional
        Images that the model is given at a time.
    on_error : {"raise", "skip"}
        Leave out images that cannot be used with "skip", with a warning.

    Returns
    -------
    Ranks
        With `.ok`, `.verdict` and `.plot()`.

    Examples
    --------
    >>> from butfor.simulate.images import textures
    >>> bed = textures(0)
    >>> real = ranks(bed.model, bed.inputs, bed.sampler, boxes=bed.boxes)
    >>> real.ok, real.total
    (True, 160)
    """
    whole("draws", draws, 2)
    if info_of(sampler).deterministic:
        raise InputError(f"ranks needs draws that differ, but {sampler!r} always draws the same; see diversify")
    given = load_items(images)
    proposed = propose_regions(given, as_proposer(boxes, seed, given.names), on_error)
    drawing = prepared(sampler, proposed, fills)
    hypotheses = list_hypotheses(ListItems(proposed.items), proposed.names, proposed.subsets, drawing, seed)
    call = classifier(model).call
    outputs = np.asarray(call([proposed.items[0]])).reshape(1, -1).shape[1]
    evaluator = Evaluator(call, batch_rows or batch_images(proposed), outputs)
    target = Target("output" if outputs == 1 else "predicted")
    order, spreads = [], []
    rng = np.random.default_rng(seed)
    for _, answers in evaluator.outputs(hypotheses, rounds(hypotheses.blocks, draws, draws)):
        values, _ = pick(answers, target, np.arange(1))
        above, ties = (values[:, 1:] > values[:, :1]).sum(), (values[:, 1:] == values[:, :1]).sum()
        if ties == draws:
            continue  # the model does not depend on it
        order.append(int(above + rng.integers(ties + 1)))
        spreads.append(float(values[:, 1:].std(ddof=1)))
    if not order:
        raise InputError("no draw changed any output: the model looks at none of these regions")
    return Ranks(np.bincount(order, minlength=draws + 1), float(np.median(spreads)))


DIAGONALS = ((-1, -1), (1, -1), (-1, 1), (1, 1))  # across, down: the paper's order


@dataclass(frozen=True)
class Shifted:
    """The subsets of another proposer, each moved by the same step."""

    subsets: Proposer
    across: int
    down: int

    @property
    def blind(self) -> bool:
        return is_blind(self.subsets)

    def __call__(self, name: object, image: Image) -> list[Subset]:
        return [shift(subset, self.across, self.down, *image.shape[:2]) for subset in self.subsets(name, image)]


def shift(subset: Subset, across: int, down: int, height: int, width: int) -> Subset:
    """Return the subset moved, as far as the image goes: a box keeps its size, so at an edge it moves less.

    A mask loses what is moved out of the image (unless that is all of it: then it stays); an attribute does not move.

    >>> shift(Subset("box 1", (0, 4, 3, 6)), -1, 1, 10, 10).index
    (0, 5, 3, 7)
    """
    index = subset.index
    if is_box(index):
        x1, y1, x2, y2 = index
        across = int(np.clip(across, -x1, width - x2))
        down = int(np.clip(down, -y1, height - y2))
        return Subset(subset.name, (x1 + across, y1 + down, x2 + across, y2 + down))
    if not is_mask(index):
        return subset
    rows, columns = np.nonzero(index)
    rows, columns = rows + down, columns + across
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    moved = np.zeros_like(index)
    moved[rows[inside], columns[inside]] = True
    return Subset(subset.name, moved if moved.any() else index)


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """A run and four with its regions moved diagonally. Made by `sensitivity`."""

    results: tuple[Result, ...]  # of the five runs, the one with the regions as given first
    pixels: int  # by which the regions were moved

    def __repr__(self) -> str:
        return f"<Sensitivity: mean pairwise IOU {self.iou:.3f} over {len(self.results)} runs>"

    @property
    def selections(self) -> list[Bools]:
        return [result.chosen for result in self.results]

    @property
    def iou(self) -> float:
        """Mean over pairs of runs: hypotheses chosen by both over those chosen by either; 1 if nothing ever is."""
        pairs = combinations(self.selections, 2)
        counts = [(int((one & other).sum()), int((one | other).sum())) for one, other in pairs]
        return float(np.mean([both / either if either else 1.0 for both, either in counts]))

    @property
    def always(self) -> Bools:
        return np.asarray(np.all(self.selections, axis=0))

    def select(self, alpha: float) -> Sensitivity:
        """Return the same runs at another alpha, without new draws."""
        return Sensitivity(tuple(result.select(alpha=alpha) for result in self.results), self.pixels)

    def summary(self) -> str:
        first, *moved = (int(chosen.sum()) for chosen in self.selections)
        return (
            f"Sensitivity: with every region moved by {self.pixels} {'pixel' if self.pixels == 1 else 'pixels'} "
            f"diagonally, {', '.join(map(str, moved))} are chosen instead of {first}; {int(self.always.sum())} are "
            f"chosen every time; mean pairwise IOU {self.iou:.3f}."
        )


def sensitivity(
    model: Any, images: object, sampler: Any, *, boxes: object = None, pixels: int = 1, **settings: Any
) -> Sensitivity:
    """Run `explain` as it is and with every region moved in each diagonal direction: five runs.

    A selection that depends on a pixel says little: the paper's OSFT had a mean pairwise IOU of .749.

    Parameters
    ----------
    model, images, sampler, boxes : object
        As in `explain`.
    pixels : int
        Distance by which the regions are moved.
    **settings : object
        Those of `explain`; with `fills` the first run costs nothing if it was made before.

    Returns
    -------
    Sensitivity
        The five results, with `.iou` and `.summary()`.

    Examples
    --------
    >>> from butfor.image import donor
    >>> noise = np.random.default_rng(0).integers(90, 110, (12, 24, 24, 3), dtype=np.uint8)
    >>> noise[:, :8, :8] += 100
    >>> model = lambda batch: [x[:8, :8].mean() for x in batch]
    >>> dark = sensitivity(model, list(noise), donor(own=1), boxes=[(0, 0, 8, 8)])
    >>> dark.iou
    1.0
    """
    step = whole("pixels", pixels, 1)
    given = load_items(images)
    regions = as_proposer(boxes, settings.get("seed", 0), given.names)
    settings["enough"] = None  # what is compared is the choice
    moved = [Shifted(regions, step * across, step * down) for across, down in DIAGONALS]
    results = [explain(model, given, sampler, boxes=proposer, **settings) for proposer in (regions, *moved)]
    if len({(result.input_names, tuple(result.subset_of.tolist())) for result in results}) > 1:
        raise InputError(
            "some regions were lost when they were moved, so selections cannot be compared; use fewer pixels"
        )
    return Sensitivity(tuple(results), pixels)
