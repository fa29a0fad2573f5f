"""The embedded example of images: which strokes make a handwritten 3 a 3 and not an 8, to a small network."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from butfor.evaluation.progress import Progress
from butfor.image.explain import explain
from butfor.image.region import Image, at, grid
from butfor.results.result import Result
from butfor.results.summary import WIDTH
from butfor.settings import few_shot
from butfor.types import Array, Floats, Ints, Subset

ENLARGED = 4  # factor by which the 8 x 8 pixels are enlarged, to be looked at


@dataclass(frozen=True)
class ImageDemo:
    """The result on threes, a check on eights, in which nothing is to be discovered, and an introduction."""

    result: Result
    check: Result
    before: str

    def summary(self) -> str:
        after = (
            f"Check: the same call on {len(self.check.input_names)} held-out eights chooses "
            f"{int(self.check.chosen.sum())} of {len(self.check.chosen)} squares. They come from the reference's "
            "own population, so a valid test finds (nearly) nothing there."
        )
        before, after = textwrap.fill(self.before, WIDTH), textwrap.fill(after, WIDTH)
        return "\n".join([before, "", self.result.summary(), "", after])


def digits(seed: int = 0, progress: bool | Callable[[Progress], None] | None = None, count: int = 24) -> ImageDemo:
    """Explain a network trained on half of scikit-learn's digits: squares of held-out threes, eights as reference."""
    model, seen, held_out, known, truth = trained(seed)
    sampler, test = Alike(seen[known == 8]), few_shot(scale="shrunk")
    results = []
    for digit in (3, 8):
        images = {f"{digit}, number {k}": image for k, image in enumerate(held_out[truth == digit][:count], start=1)}
        result = explain(model, images, sampler, boxes=grid(4), target=3, test=test, seed=seed, progress=progress)
        source = {"model": "MLPClassifier, 64 hidden units", "reference": "eights of the training half"}
        results.append(result.with_sources(**source))
    right = float((model(list(held_out)).argmax(axis=1) == truth).mean())
    before = (
        f"Scikit-learn's handwritten digits. A network with 64 hidden units is right on {right:.0%} of the held-out "
        f"half. The reference is the {int((known == 8).sum())} eights it was trained on: a square of a three is "
        'redrawn as it looks in eights that are alike elsewhere. Which squares make the threes look "3" to the '
        "network, beyond what an eight's would?"
    )
    return ImageDemo(results[0], results[1], before)


def trained(seed: int) -> tuple[Digits, Image, Image, Ints, Ints]:
    """Return the network, the pictures it was trained on, the others, and the digits of both."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPClassifier

    pixels, labels = load_digits(return_X_y=True)  # 64 shades from 0 to 16
    grey = (255 - np.rint(pixels.reshape(-1, 8, 8) * 255 / 16)).astype(np.uint8)  # black on white
    pictures = np.repeat(grey.repeat(ENLARGED, axis=1).repeat(ENLARGED, axis=2)[..., None], 3, axis=3)
    seen, held_out, known, truth = train_test_split(pictures, labels, test_size=0.5, stratify=labels, random_state=seed)
    network = MLPClassifier((64,), alpha=1.0, max_iter=1000, random_state=seed).fit(features(seen), known)
    return Digits(network), seen, held_out, known, truth


def features(images: Sequence[Image]) -> Floats:
    """Return the 64 shades of each picture, between 0 and 1, (n, 64)."""
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
    """Sampler: the same square of one of the reference pictures that are most alike everywhere else."""

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
            likest = np.argsort(apart.sum(axis=(1, 2, 3)), kind="stable")[:60]
            for donor in rng.choice(likest, draws):
                made = image.copy()
                made[where] = self.reference[donor][where]
                out.append(made)
        return out
