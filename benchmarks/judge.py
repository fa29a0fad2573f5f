"""Share of real patches and of planted faults that `butfor.image.judge` flags, on the paper's photographs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.figures import Figures, assets_folder, quietly
from benchmarks.images import NEEDED
from butfor.image.boxes import boxes
from butfor.image.files import folder
from butfor.image.plausibility import Judge, among, can_judge, judge
from butfor.image.region import Image, bounds, mask_of
from butfor.models.wrap import need
from butfor.types import Subset

STEP, SIGMAS, FADE = 20, (4.0, 2.0), 12  # grey levels, of blurs, and pixels over which a patch is faded in
RANDOM = 4  # random patches of each photograph
Case = tuple[Image, Subset]
KINDS = (
    "real",
    "brighter or darker",
    "blurred, sigma 4",
    "blurred, sigma 2",
    "another photograph's",
    "the same, faded in",
)


def run(assets: Path | None = None, *, seed: int = 0, images: int | None = None) -> Figures:
    """The share flagged of the boxes and of random patches, as a run judges them and by their own image alone."""
    place = assets_folder(assets, *NEEDED, image=True) / "paper"
    files = folder(place)[:images]
    pictures = dict(zip(files.names, files, strict=True))
    drawn = boxes(place / "boxes.json")
    rng = np.random.default_rng(seed)
    kinds = {
        "boxes": [list(quietly(drawn, name, image)) for name, image in pictures.items()],  # some reach over the edge
        "random patches": [_random(image, rng) for image in pictures.values()],
    }
    rows = [one for kind, subsets in kinds.items() for one in _both(kind, list(pictures.values()), subsets, rng)]
    return {"flagged": rows}


def _random(image: Image, rng: np.random.Generator) -> list[Subset]:
    """Patches of a tenth to four tenths of the sides."""
    height, width = image.shape[:2]
    made = []
    for number in range(RANDOM):
        across, down = (max(12, int(side * rng.uniform(0.1, 0.4))) for side in (width, height))
        x, y = int(rng.integers(0, width - across)), int(rng.integers(0, height - down))
        made.append(Subset(f"patch {number}", (x, y, x + across, y + down)))
    return made


def _both(kind: str, pictures: list[Image], subsets: list[list[Subset]], rng: np.random.Generator) -> list[Figures]:
    cases = [
        (image, subset)
        for image, of_image in zip(pictures, subsets, strict=True)
        for subset in of_image
        if can_judge(image, subset)
    ]
    others = rng.permutation(len(pictures)).tolist()
    ways: dict[str, Callable[[Image, Subset], Judge] | None] = {
        "as a run does": among(pictures, subsets),
        "by its own image alone": judge,
    }
    return [
        {"kind": kind, "way": way, **_shares(one, cases, [pictures[k] for k in others])}
        for way, one in ways.items()
        if one is not None
    ]


def _shares(judging: Callable[[Image, Subset], Judge], cases: list[Case], others: Sequence[Image]) -> Figures:
    """The share of each kind that is flagged at .05."""
    start, flags = time.process_time(), []
    for number, (image, subset) in enumerate(cases):
        judged = judging(image, subset)
        flags.append(
            [judged.look(made).flagged for made in faults(image, subset, others[number % len(others)], number)]
        )
    shares = np.mean(flags, axis=0).tolist()
    seconds = (time.process_time() - start) / len(cases)
    return {"regions": len(cases), "seconds": seconds, **dict(zip(KINDS, shares, strict=True))}


def faults(image: Image, subset: Subset, other: Image, number: int) -> list[Image]:
    """A photograph as it is, and with one fault of each kind in a region; `number` tells which way it is lit."""
    cv2 = need("cv2", "image")
    mask = mask_of(subset, *image.shape[:2])
    x1, y1, x2, y2 = bounds(mask)
    lit = image.astype(int) + (STEP if number % 2 else -STEP)
    blurred = [cv2.GaussianBlur(image, (0, 0), sigma) for sigma in SIGMAS]
    foreign = image.copy()
    foreign[y1:y2, x1:x2] = cv2.resize(other, (image.shape[1], image.shape[0]))[y1:y2, x1:x2]
    depth = cv2.distanceTransform(np.pad(mask, 1).astype(np.uint8), cv2.DIST_L2, 5)[1:-1, 1:-1]
    share = np.clip(depth / FADE, 0, 1)[..., None]
    faded = share * foreign + (1 - share) * image
    made = [np.clip(lit, 0, 255), *blurred, foreign, faded]
    return [image, *(np.where(mask[..., None], one, image).astype(np.uint8) for one in made)]
