"""Is the sampler any good? Where the real patch stands among its own draws, in the eyes of the model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from butfor.core.checks import whole
from butfor.core.draw.blocks import Problem, list_problem, rounds
from butfor.core.draw.items import ListItems
from butfor.core.draw.samplers import info_of
from butfor.core.evaluate.batches import Evaluator, evaluate
from butfor.core.evaluate.outputs import Target, pick
from butfor.core.result.places import Places
from butfor.core.types import InputError
from butfor.image.explain import classifier, prepared, rows_at_a_time
from butfor.image.inputs import load_items, propose_regions
from butfor.image.regions import as_proposer
from butfor.run.proposed import OnError


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
