"""Is the sampler any good? Where the real patch stands among its own draws, in the eyes of the model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from butfor.run.settings import whole
from butfor.core.evaluate.batches import Calls, evaluate
from butfor.core.draw.blocks import list_problem, rounds
from butfor.core.evaluate.outputs import Target, pick
from butfor.core.result.places import Places
from butfor.core.types import InputError
from butfor.image.explain import classifier, prepared, rows_at_a_time
from butfor.image.opened import opened
from butfor.image.proposed import OnError, as_subsets, proposed


@dataclass(frozen=True, eq=False)
class Ranks(Places):
    """How many real patches stand first (largest output), second, ... last among their draws. Made by `ranks`."""

    median_spread: float  # median over regions of the standard deviation of the output over draws

    what = "patches"


def ranks(
    model: Any,
    images: Any,
    sampler: Any,
    *,
    boxes: Any = None,
    draws: int = 5,
    seed: int = 0,
    batch_rows: int | None = None,
    fills: str | Path | None = None,
    on_error: OnError = "raise",
) -> Ranks:
    """Where each real patch stands among `draws` draws of the sampler, by the output of the symmetric predicted class.

    Important patches stand first. What is not important stands anywhere, so an excess at the bottom says that fills
    are not like photographs, whatever the model relies on. The draws are those of a few-shot run with this seed; ties
    are broken at random, and regions where nothing that is drawn changes the output are left out.

    >>> from butfor.simulate.images import textures
    >>> bed = textures(0)
    >>> found = ranks(bed.model, bed.inputs, bed.sampler, boxes=bed.boxes)
    >>> found.ok, found.total
    (True, 160)
    """
    whole("draws", draws, 2)
    if getattr(sampler, "deterministic", False):
        raise InputError(f"ranks needs draws that differ, but {sampler!r} always draws the same; see diversify")
    found = proposed(opened(images), as_subsets(boxes, seed), on_error)
    problem = list_problem(found.images, found.images.names, found.subsets, prepared(sampler, found, fills), seed)
    call = classifier(model).call
    outputs = np.asarray(call([found.images[0]])).reshape(1, -1).shape[1]
    calls = Calls(call, batch_rows or rows_at_a_time(found), outputs, lambda _: None)
    target = Target("output" if outputs == 1 else "predicted")
    places, spreads = [], []
    rng = np.random.default_rng(seed)
    for _, answers in evaluate(problem, calls, rounds(problem.blocks, draws, draws)):
        values, _ = pick(answers, target, np.arange(1))
        above, ties = (values[:, 1:] > values[:, :1]).sum(), (values[:, 1:] == values[:, :1]).sum()
        if ties == draws:
            continue  # the model does not look there
        places.append(int(above + rng.integers(ties + 1)))
        spreads.append(float(values[:, 1:].std(ddof=1)))
    if not places:
        raise InputError("no draw changed any output: the model looks at none of these regions")
    return Ranks(np.bincount(places, minlength=draws + 1), float(np.median(spreads)))
