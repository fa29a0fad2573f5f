"""Subsets: boxes that a detector finds and random ones beside them, as in the paper's appendix on images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from butfor.core.checks import whole
from butfor.core.draw.proposers import unique
from butfor.core.draw.streams import stream
from butfor.core.types import Floats, InputError, ModelError, Subset
from butfor.image.region import Box, Image

Detector = Callable[[Image], Any]  # image -> boxes (n, 4) and scores (n,), and names (n) if it has them


@dataclass(frozen=True)
class RandomBoxes:
    """Random boxes that do not overlap. Made by `random_boxes`."""

    seed: int
    tries: int

    blind = True  # whatever is there

    def __call__(self, name: object, image: Image) -> list[Subset]:
        return self.beside([], str(name), image)

    def beside(self, kept: Sequence[Box], name: str, image: Image) -> list[Subset]:
        """`tries` times: sides uniform between a quarter and a half of the image's, placed uniformly where the box
        fits, kept if it overlaps nothing kept so far."""
        height, width = image.shape[:2]
        rng = stream(self.seed, "random boxes", name)
        taken = list(kept)
        found: list[Subset] = []
        for _ in range(self.tries):
            across, down = _side(width, rng), _side(height, rng)
            x, y = int(rng.integers(width - across + 1)), int(rng.integers(height - down + 1))
            box = (x, y, x + across, y + down)
            if not any(overlapping(box, other) for other in taken):
                taken.append(box)
                found.append(Subset(f"random {len(found) + 1}", box))
        return found


def _side(length: int, rng: np.random.Generator) -> int:
    least = -(-length // 4)
    return int(rng.integers(least, max(least, length // 2) + 1))


def overlapping(a: Box, b: Box) -> bool:
    """Whether two boxes share a pixel.

    >>> overlapping((0, 0, 2, 2), (2, 0, 4, 2)), overlapping((0, 0, 3, 2), (2, 0, 4, 2))
    (False, True)
    """
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def random_boxes(*, seed: int = 0, tries: int = 100) -> RandomBoxes:
    """Random boxes as in the paper: an image gets the same ones whatever images come before it.

    Parameters
    ----------
    seed : the same seed gives the same boxes.
    tries : boxes that are drawn; those that overlap none before them are kept.

    Examples
    --------
    >>> found = random_boxes(seed=1)("cat.jpg", np.zeros((100, 100, 3), np.uint8))
    >>> len(found) > 1 and not overlapping(found[0].index, found[1].index)
    True
    """
    return RandomBoxes(int(seed), whole("tries", tries, 1))


@dataclass(frozen=True)
class DetectedBoxes:
    """A detector's boxes, the surest first, then random ones. Made by `detected_boxes`."""

    detector: Detector
    area: tuple[float, float]
    random: RandomBoxes | None

    def __call__(self, name: object, image: Image) -> list[Subset]:
        height, width = image.shape[:2]
        boxes, scores, labels = detect(self.detector, str(name), image)
        kept: list[Box] = []
        found: list[Subset] = []
        for i in np.argsort(-scores, kind="stable"):
            box = _inside(boxes[i], height, width)
            share = (box[2] - box[0]) * (box[3] - box[1]) / (height * width)
            if self.area[0] <= share <= self.area[1] and not any(overlapping(box, other) for other in kept):
                kept.append(box)
                found.append(Subset(f"{labels[i]} {_two(scores[i])}" if labels else f"detected {len(kept)}", box))
        return unique(found + (self.random.beside(kept, str(name), image) if self.random else []))


def _two(score: float) -> str:
    """How sure a detector is: ".87"."""
    return f"{score:.2f}".removeprefix("0") if 0 <= score <= 1 else f"{score:.3g}"


def _inside(corners: Floats, height: int, width: int) -> Box:
    x1, y1, x2, y2 = (round(float(value)) for value in corners)
    x1, y1 = min(max(x1, 0), width), min(max(y1, 0), height)
    return x1, y1, max(x1, min(x2, width)), max(y1, min(y2, height))


def detected_boxes(
    detector: Detector, *, area: tuple[float, float] = (0.1, 0.5), random: bool = True, seed: int = 0, tries: int = 100
) -> DetectedBoxes:
    """Boxes as the paper's appendix chooses them, without a person.

    The detector's boxes by descending score, each kept if it overlaps none kept so far; then random ones that overlap
    nothing.

    Parameters
    ----------
    detector : image -> boxes (n, 4) in pixels and scores (n,), and names (n) if it has them: "dog .87".
    area : the least and the largest share of the image that a detector's box may cover.
    random : whether those of `random_boxes` come behind.
    seed, tries : of `random_boxes`.

    Examples
    --------
    >>> one = detected_boxes(lambda image: ([[0, 0, 40, 40], [10, 10, 50, 50]], [0.5, 0.9]), random=False)
    >>> [(s.name, s.index) for s in one("cat.jpg", np.zeros((100, 100, 3), np.uint8))]
    [('detected 1', (10, 10, 50, 50))]
    """
    if not callable(detector):
        raise InputError(f"detector must be a function image -> (boxes, scores), got {type(detector).__name__}")
    if not 0 <= area[0] < area[1] <= 1:
        raise InputError(f"area must be two shares of the image, smaller first, got {area!r}")
    return DetectedBoxes(
        detector, (float(area[0]), float(area[1])), random_boxes(seed=seed, tries=tries) if random else None
    )


def detect(detector: Detector, name: str, image: Image) -> tuple[Floats, Floats, list[str] | None]:
    """What a detector says of an image, checked: boxes (n, 4), scores (n,), and names if it gives them."""
    try:
        answer = detector(image)
        boxes, scores = (
            np.asarray(answer[0], np.float64).reshape(-1, 4),
            np.asarray(answer[1], np.float64).reshape(-1),
        )
        labels = [str(label) for label in answer[2]] if len(answer) > 2 and answer[2] is not None else None
    except Exception as error:
        raise ModelError(
            f"the detector failed on image {name!r} ({type(error).__name__}: {error}); it must return boxes (n, 4) and "
            "scores (n,)"
        ) from error
    if len(boxes) != len(scores) or (labels is not None and len(labels) != len(scores)):
        raise ModelError(f"the detector gave {len(boxes)} boxes but {len(scores)} scores for image {name!r}")
    if not (np.isfinite(boxes).all() and np.isfinite(scores).all()):
        raise ModelError(f"the detector gave boxes or scores that are not finite for image {name!r}")
    return boxes, scores, labels
