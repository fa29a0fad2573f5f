"""Is the sampler any good? Where the real patch stands among its own draws, in the eyes of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from butfor.evaluation.evaluator import Evaluator, evaluate
from butfor.evaluation.hypotheses import Problem, Proposer, is_blind, list_problem, rounds
from butfor.evaluation.items import ListItems
from butfor.evaluation.samplers import info_of
from butfor.image.explain import classifier, explain, prepared, rows_at_a_time
from butfor.image.inputs import as_proposer, load_items, propose_regions
from butfor.image.region import Image, is_box, is_mask
from butfor.inference.statistics import Target, pick
from butfor.results.result import Places, Result
from butfor.settings import OnError
from butfor.types import Bools, InputError, Subset, whole


@dataclass(frozen=True, eq=False)
class Ranks(Places):
    """How many real patches stand first (largest output), second, ... last among their draws. Made by `ranks`.

    Parameters
    ----------
    counts : of real patches in each place.
    median_spread : median over regions of the standard deviation of the output over draws.
    """

    median_spread: float

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
    """Where each real patch stands among draws of the sampler, by the output of the symmetric predicted class.

    Important patches stand first. What is not important stands anywhere, so an excess at the bottom says that fills
    are not like photographs, whatever the model relies on. Ties are broken at random, and regions where nothing that
    is drawn changes the output are left out.

    Parameters
    ----------
    model, images, sampler, boxes, fills : as in `explain`.
    draws : of each patch, at least two: those of a few-shot run with this seed.
    seed : the same seed gives the same draws.
    batch_rows : images that the model is given at a time.
    on_error : "skip" leaves out images that cannot be used, with a warning.

    Examples
    --------
    >>> from butfor.simulate.images import textures
    >>> bed = textures(0)
    >>> found = ranks(bed.model, bed.inputs, bed.sampler, boxes=bed.boxes)
    >>> found.ok, found.total
    (True, 160)
    """
    whole("draws", draws, 2)
    if info_of(sampler).deterministic:
        raise InputError(f"ranks needs draws that differ, but {sampler!r} always draws the same; see diversify")
    given = load_items(images)
    found = propose_regions(given, as_proposer(boxes, seed, given.names), on_error)
    drawing = prepared(sampler, found, fills)
    problem = list_problem(ListItems(found.items), found.names, found.subsets, drawing, seed)
    call = classifier(model).call
    outputs = np.asarray(call([found.items[0]])).reshape(1, -1).shape[1]
    evaluator = Evaluator(call, batch_rows or rows_at_a_time(found), outputs)
    return _ranked(problem, evaluator, draws)


def _ranked(problem: Problem, evaluator: Evaluator, draws: int) -> Ranks:
    target = Target("output" if evaluator.outputs == 1 else "predicted")
    places, spreads = [], []
    rng = np.random.default_rng(problem.seed)
    for _, answers in evaluate(problem, evaluator, rounds(problem.blocks, draws, draws)):
        values, _ = pick(answers, target, np.arange(1))
        above, ties = (values[:, 1:] > values[:, :1]).sum(), (values[:, 1:] == values[:, :1]).sum()
        if ties == draws:
            continue  # the model does not look there
        places.append(int(above + rng.integers(ties + 1)))
        spreads.append(float(values[:, 1:].std(ddof=1)))
    if not places:
        raise InputError("no draw changed any output: the model looks at none of these regions")
    return Ranks(np.bincount(places, minlength=draws + 1), float(np.median(spreads)))


DIAGONALS = ((-1, -1), (1, -1), (-1, 1), (1, 1))  # left up, right up, left down, right down: the paper's order


@dataclass(frozen=True)
class Shifted:
    """The subsets of another proposer, each moved by the same step. Made by `shifted`."""

    subsets: Proposer
    across: int
    down: int

    @property
    def blind(self) -> bool:
        """Whether they are laid blindly: what is tested was then not picked by what it holds."""
        return is_blind(self.subsets)

    def __call__(self, name: object, image: Image) -> list[Subset]:
        return [shift(subset, self.across, self.down, *image.shape[:2]) for subset in self.subsets(name, image)]


def shifted(subsets: Proposer, pixels: int = 1) -> list[Shifted]:
    """Four versions of `subsets`, moved diagonally: the paper's perturbations of its boxes.

    Parameters
    ----------
    subsets : a function (name, image) -> subsets such as `boxes(...)`.
    pixels : how far they move.

    Examples
    --------
    >>> from butfor.image import boxes
    >>> image = np.zeros((10, 10, 3), np.uint8)
    >>> [moved("a", image)[0].index for moved in shifted(boxes([(2, 2, 5, 5)]))]
    [(1, 1, 4, 4), (3, 1, 6, 4), (1, 3, 4, 6), (3, 3, 6, 6)]
    """
    step = whole("pixels", pixels, 1)
    return [Shifted(subsets, step * across, step * down) for across, down in DIAGONALS]


def shift(subset: Subset, across: int, down: int, height: int, width: int) -> Subset:
    """The subset moved, as far as the image goes: a box keeps its size, so at an edge it moves less, or not at all.

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
    if is_mask(index):
        moved = np.zeros_like(index)
        to_rows, from_rows = _overlap(down, height)
        to_columns, from_columns = _overlap(across, width)
        moved[to_rows, to_columns] = index[from_rows, from_columns]
        return Subset(subset.name, moved if moved.any() else index)
    return subset


def _overlap(step: int, length: int) -> tuple[slice, slice]:
    step = int(np.clip(step, -length, length))
    return slice(max(step, 0), length + min(step, 0)), slice(max(-step, 0), length + min(-step, 0))


def iou(first: ArrayLike, second: ArrayLike) -> float:
    """Hypotheses that both selections chose over those that either chose; two empty selections agree: 1.

    >>> iou([True, True, False], [True, False, True])
    0.3333333333333333
    """
    a, b = np.asarray(first, np.bool_), np.asarray(second, np.bool_)
    if a.shape != b.shape or a.ndim != 1:
        raise InputError(f"iou compares two selections of the same hypotheses, got shapes {a.shape} and {b.shape}")
    either = int((a | b).sum())
    return int((a & b).sum()) / either if either else 1.0


def mean_pairwise_iou(selections: Sequence[ArrayLike]) -> float:
    """Hypotheses that both of two selections chose over those that either chose, on average over all pairs.

    The paper's five selections by OSFT have .749.

    Parameters
    ----------
    selections : booleans over the same hypotheses, at least two of them.

    Examples
    --------
    >>> mean_pairwise_iou([np.array([True, True]), np.array([True, False]), np.array([True, False])])
    0.6666666666666666
    """
    if len(selections) < 2:
        raise InputError(f"mean_pairwise_iou needs at least two selections, got {len(selections)}")
    return float(np.mean([iou(a, b) for a, b in combinations(selections, 2)]))


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
    settings |= {"test": settings.get("test") or results[0].record.test}  # the same for all, whatever it costs
    results += [explain(model, given, sampler, boxes=proposer, **settings) for proposer in shifted(regions, pixels)]
    if len({(result.input_names, tuple(result.subset_of.tolist())) for result in results}) > 1:
        raise InputError(
            "some regions were lost when they were moved, so selections cannot be compared; use fewer pixels"
        )
    return Sensitivity(tuple(results), pixels)
