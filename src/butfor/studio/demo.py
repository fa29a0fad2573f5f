"""A model and inputs of each modality for a newcomer: all made or embedded here, nothing is fetched."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from butfor.core.draw.streams import stream
from butfor.core.types import Floats, InputError, Ints
from butfor.image.region import Image

TISSUE_SIZE = (280, 420)  # height, width
STROMA, NUCLEUS, DARK = (228, 176, 200), (164, 118, 178), (78, 40, 110)
MEASURED = [  # of the thirty columns those that tell different things
    *("worst radius", "worst texture", "worst smoothness", "worst concave points", "worst symmetry"),
    *("texture error", "smoothness error", "mean fractal dimension"),
]
CLUSTER = (300, 95)  # x, y of the middle of the atypical nuclei


def tissue(seed: int = 0) -> Image:
    """A made picture of stained tissue: pale nuclei all over, and one cluster of large dark ones.

    >>> tissue().shape
    (280, 420, 3)
    """
    rng = stream(seed, "studio tissue")
    height, width = TISSUE_SIZE
    rough = rng.normal(0, 1, (height // 7, width // 7))
    coarse = np.kron(rough, np.ones((7, 7)))
    image = np.array(STROMA) + 5 * coarse[:, :, None] + rng.normal(0, 3, (height, width, 1))
    for x, y in rng.uniform((0, 0), (width, height), (110, 2)):
        _nucleus(image, (x, y), rng.uniform(5, 8), NUCLEUS, rng)
    for x, y in rng.normal(CLUSTER, (24, 19), (16, 2)):
        _nucleus(image, (x, y), rng.uniform(7, 11), DARK, rng)
    return np.asarray(np.clip(np.rint(image), 0, 255), np.uint8)


def _nucleus(
    image: Floats, place: tuple[float, float], radius: float, colour: tuple[int, int, int], rng: np.random.Generator
) -> None:
    down, across = np.ogrid[: image.shape[0], : image.shape[1]]
    wide = rng.uniform(0.75, 1.25)
    inside = ((across - place[0]) / wide) ** 2 + ((down - place[1]) * wide) ** 2 < radius**2
    image[inside] = np.array(colour) + rng.normal(0, 5, (int(inside.sum()), 1))


@dataclass(frozen=True)
class TissueModel:
    """Two classes of a picture of tissue, by the share of dark violet pixels."""

    classes = ("atypical", "typical")

    def __call__(self, batch: Sequence[Image]) -> Floats:
        share = np.array([_dark(image) for image in batch])
        atypical = 1 / (1 + np.exp(-(share - 0.012) * 250))
        return np.stack([atypical, 1 - atypical], axis=1)


def _dark(image: Image) -> float:
    red, green, blue = np.moveaxis(image.astype(np.int16), 2, 0)
    return float(((red < 120) & (green < 85) & (blue > green + 20)).mean())


def tumour_halves() -> tuple[Any, Any, Ints]:
    """Eight columns of scikit-learn's patients, their diagnoses, and 1 for those that the demo's model is fitted on."""
    from butfor.tabular.demo import patients

    rows, labels = patients()
    return rows[MEASURED], labels, stream(0, "studio tumours").permutation(len(rows)) % 2


def tumour_model() -> Any:
    """A logistic regression, fitted on one half of the patients."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rows, labels, fitted = tumour_halves()
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(rows[fitted == 1], labels[fitted == 1])


def tumour_table() -> bytes:
    """The other half as CSV, with its diagnoses: the first 20 malignant patients, and all benign ones."""
    rows, labels, fitted = tumour_halves()
    half = rows[fitted == 0].assign(diagnosis=labels[fitted == 0])
    some = half.groupby("diagnosis").cumcount() < half.diagnosis.map({"malignant": 20, "benign": len(half)})
    return bytes(half[some].to_csv(index=False).encode())


def reviews() -> str:
    """Three of the embedded reviews of films, a line each."""
    found = json.loads((Path(__file__).parents[1] / "text" / "reviews.json").read_text(encoding="utf-8"))
    return "\n".join(list(found.values())[:3])


def tissue_png() -> bytes:
    """The picture as a file."""
    from PIL import Image as Pictures

    held = BytesIO()
    Pictures.fromarray(tissue()).save(held, "PNG")
    return held.getvalue()


MODELS: dict[str, Callable[[], Any]] = {"demo:tissue": TissueModel, "demo:tumours": tumour_model}


def demo_model(spec: str) -> Any:
    """The model of a name such as demo:tissue."""
    if spec not in MODELS:
        raise InputError(f"there is no demo model {spec!r}; there are {', '.join(MODELS)}")
    return MODELS[spec]()
