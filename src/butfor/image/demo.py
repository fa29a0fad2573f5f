"""The embedded example of images: which strokes make a handwritten 3 a 3 and not an 8, to a small network."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from butfor.evaluation.progress import Progress
from butfor.image.boxes import boxes
from butfor.image.explain import explain
from butfor.image.files import folder
from butfor.image.inpainters import onnx_inpainter
from butfor.image.models import onnx_classifier
from butfor.image.region import Image, at, grid
from butfor.results.result import Result
from butfor.results.summary import WIDTH
from butfor.settings import few_shot
from butfor.types import Array, Floats, InputError, Ints, Subset

Reporting = bool | Callable[[Progress], None] | None

ENLARGED = 4  # each of the 8 x 8 pixels becomes so many squared: pictures are to be looked at
LIKE = 60  # reference digits that a patch may come from
PHOTOGRAPHS = 12


@dataclass(frozen=True)
class ImageDemo:
    """What was found, a check on images in which nothing is to be found (None: there is none), and words before it."""

    found: Result
    check: Result | None
    before: str

    def summary(self) -> str:
        """What the demo did and found, for a terminal."""
        parts = [textwrap.fill(self.before, WIDTH), "", self.found.summary()]
        if self.check is not None:
            after = (
                f"Check: the same call on {len(self.check.input_names)} held-out eights chooses "
                f"{int(self.check.chosen.sum())} of {len(self.check.chosen)} squares. They come from the reference's "
                "own population, so a valid test finds (nearly) nothing there."
            )
            parts += ["", textwrap.fill(after, WIDTH)]
        return "\n".join(parts)


def image_demo(
    seed: int = 0, progress: Reporting = None, assets: Path | None = None, fills: Path | None = None
) -> ImageDemo:
    """Digits where no assets are given; the paper's photographs with real networks where they are."""
    return digits(seed, progress) if assets is None else photographs(assets, progress, fills)


def named_assets() -> Path | None:
    """The folder that BUTFOR_ASSETS names, if it does."""
    given = os.environ.get("BUTFOR_ASSETS")
    if given is None:
        return None
    place = Path(given) / "image"
    if not (place / "paper").is_dir():
        raise InputError(f"BUTFOR_ASSETS is {given}, which has no image/paper; unset it to run on digits")
    return place


def digits(seed: int = 0, progress: Reporting = None, count: int = 24) -> ImageDemo:
    """A network trained on half of scikit-learn's digits; squares of held-out threes, with eights as the reference."""
    model, seen, held_out, known, truth = trained(seed)
    sampler = Alike(seen[known == 8])
    asked: dict[str, Any] = {"boxes": grid(4), "target": 3, "test": few_shot(scale="shrunk")}
    asked |= {"seed": seed, "progress": progress}
    source = {"model": "MLPClassifier, 64 hidden units", "reference": "eights of the training half"}
    found, check = (
        _sourced(explain(model, _named(held_out[truth == digit][:count], digit), sampler, **asked), **source)
        for digit in (3, 8)
    )
    right = float((model(list(held_out)).argmax(axis=1) == truth).mean())
    before = (
        f"Scikit-learn's handwritten digits. A network with 64 hidden units is right on {right:.0%} of the held-out "
        f"half. The reference is the {int((known == 8).sum())} eights it was trained on: a square of a three is "
        'redrawn as it looks in eights that are alike elsewhere. Which squares make the threes look "3" to the '
        "network, beyond what an eight's would?"
    )
    return ImageDemo(found, check, before)


def trained(seed: int) -> tuple[Digits, Image, Image, Ints, Ints]:
    """The network, the pictures that it was trained on, those that it was not, and what digits both are."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPClassifier

    pixels, labels = load_digits(return_X_y=True)
    pictures = np.stack([enlarged(row) for row in pixels])
    seen, held_out, known, truth = train_test_split(pictures, labels, test_size=0.5, stratify=labels, random_state=seed)
    network = MLPClassifier((64,), alpha=1.0, max_iter=1000, random_state=seed).fit(features(seen), known)
    return Digits(network), seen, held_out, known, truth


def _named(images: Sequence[Image], digit: int) -> dict[str, Image]:
    return {f"{digit}, number {number}": image for number, image in enumerate(images, start=1)}


def _sourced(result: Result, **source: str) -> Result:
    return result.with_sources(**source)


def enlarged(row: Floats) -> Image:
    """64 shades from 0 to 16 -> a picture, black on white.

    >>> enlarged(np.zeros(64)).shape, int(enlarged(np.full(64, 16.0)).max())
    ((32, 32, 3), 0)
    """
    grey = (255 - np.rint(row.reshape(8, 8) * 255 / 16)).astype(np.uint8)
    return np.repeat(np.kron(grey, np.ones((ENLARGED, ENLARGED), np.uint8))[:, :, None], 3, axis=2)


def features(images: Sequence[Image]) -> Floats:
    """The 64 shades of each picture, between 0 and 1, (n, 64)."""
    small = np.stack(list(images))[:, ::ENLARGED, ::ENLARGED, 0]
    return np.asarray((255.0 - small.reshape(len(small), -1)) / 255)


@dataclass(frozen=True)
class Digits:
    """The network as a classifier of pictures: log-probabilities of the ten digits."""

    network: Any

    classes = tuple(range(10))

    def __call__(self, batch: Sequence[Image]) -> Floats:
        return np.asarray(self.network.predict_log_proba(features(batch)))


@dataclass(frozen=True, eq=False)
class Alike:
    """Sampler: the same place in one of the reference pictures that are most alike everywhere else."""

    reference: Array  # (n, height, width, 3)

    changes_subset_only = True

    def __repr__(self) -> str:
        return f"Alike({len(self.reference)} pictures)"

    def __call__(self, inputs: Sequence[Image], subset: Subset, draws: int, rng: np.random.Generator) -> list[Image]:
        where = at(subset.index)
        out = []
        for image in inputs:
            apart = np.abs(self.reference.astype(np.int16) - image.astype(np.int16)).astype(np.int64)
            apart[:, *where] = 0
            likest = np.argsort(apart.sum(axis=(1, 2, 3)), kind="stable")[:LIKE]
            for donor in rng.choice(likest, draws):
                made = image.copy()
                made[where] = self.reference[donor][where]
                out.append(made)
        return out


def photographs(assets: Path, progress: Reporting = None, fills: Path | None = None) -> ImageDemo:
    """A few of the paper's photographs and boxes, as in the paper: one fill a box, OSFT at .2."""
    names = assets / "paper" / "imagenet_class_names.json"
    found = explain(
        onnx_classifier(assets / "efficientnet_lite0.onnx", classes=names),
        folder(assets / "paper")[:PHOTOGRAPHS],
        onnx_inpainter(assets / "migan_pipeline_v2.onnx"),
        boxes=boxes(assets / "paper" / "boxes.json"),
        alpha=0.2,
        fills=fills,
        progress=progress,
    )
    before = (
        f"{PHOTOGRAPHS} of the paper's photographs with its boxes. EfficientNet-Lite0 names what is on them; MI-GAN "
        "fills a box from its surroundings, always alike, so this shows the paper's way and promises nothing. For a "
        "guarantee: butfor image --sampler migan.onnx --diversify."
    )
    return ImageDemo(_sourced(found, model="EfficientNet-Lite0", data="the paper's photographs"), None, before)
