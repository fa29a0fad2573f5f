"""What is said once of the fills of a run: how many look odd, beside how many real regions do."""

from __future__ import annotations

import numpy as np

from butfor.core.draw.blocks import Problem
from butfor.core.result.kept import Kept
from butfor.core.types import Subset
from butfor.image.plausibility import FLAG, Judge, RunJudge, among, can_judge, judge
from butfor.image.region import Image

MOST_REGIONS = 200  # that are looked at, spread evenly over the run


def fills_judged(problem: Problem, kept: Kept) -> str | None:
    """A sentence for the promise; None where no fill was kept that can be judged."""
    rows = [row for row in range(problem.size) if row in kept and can_judge(*_region(problem, row))]
    if not rows:
        return None
    rows = [rows[k] for k in np.unique(np.linspace(0, len(rows) - 1, MOST_REGIONS).astype(int)).tolist()]
    found = _run_judge(problem, rows)
    odd = fills = real = same = 0
    for row in rows:
        image, subset = _region(problem, row)
        look: Judge = (judge if found is None else found)(image, subset)
        made = list(kept.whole(problem, row))
        new = [one for one in made if not np.array_equal(one, image)]
        same += len(made) - len(new)
        scores = look([image, *new]) < FLAG
        real, odd, fills = real + int(scores[0]), odd + int(scores[1:].sum()), fills + len(new)
    return _said(odd, fills, real, len(rows), same, own=found is None)


def _said(odd: int, fills: int, real: int, regions: int, same: int, *, own: bool) -> str:
    by = "real patches of the same image" if own else "what really is in regions of other images"
    left = f" {same} of the fills kept are the region as it is." if same else ""
    warning = ""
    if fills and odd / fills > 0.1 + 2 * real / regions:
        warning = (
            " Where fills do not look real, a region may be chosen for that alone: use another sampler, or "
            "butfor.plausible(sampler, butfor.image.judge, 0.05)."
        )
    return (
        f"Do fills look real? By texture and edge, beside {by}, {odd} of {fills} fills look odder than 95 of 100 real "
        f"ones, and so do {real} of {regions} regions as they are.{left}{warning}"
    )


def _region(problem: Problem, row: int) -> tuple[Image, Subset]:
    place = int(problem.input_of[row])
    return problem.items.block(place, place + 1)[0], problem.block_of(row).subset


def _run_judge(problem: Problem, rows: list[int]) -> RunJudge | None:
    images: dict[int, tuple[Image, list[Subset]]] = {}
    for row in rows:
        image, subset = _region(problem, row)
        images.setdefault(int(problem.input_of[row]), (image, []))[1].append(subset)
    return among([image for image, _ in images.values()], [own for _, own in images.values()])
