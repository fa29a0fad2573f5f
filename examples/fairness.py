"""Does a classifier of faces look at skin, hair or clothes? One training, whose bias we planted and know.

Faces are rendered; the label says whether a person smiles. In the training set the colour of one part goes with the
label in nine of ten faces. Skin tone, hair colour, clothes, brightness and sharpness are then changed, each by itself:
which of them changes the probability of "smiles" by more than .05 on average? The reference is the range of each
attribute among people: nothing is said of a colour that nobody has.

python examples/fairness.py
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LogisticRegression

import butfor
from butfor.image import attributes, donor, explain

SIDE = 64
ROWS, COLUMNS = np.mgrid[:SIDE, :SIDE] + 0.5
PARTS = ("skin", "hair", "clothes")
TONES = {  # two colours of each part; in between they mix
    "skin": ((242, 205, 180), (104, 66, 48)),
    "hair": ((206, 166, 96), (38, 26, 22)),
    "clothes": ((66, 110, 176), (178, 70, 62)),
}


@dataclass(frozen=True)
class Face:
    image: np.ndarray
    masks: dict[str, np.ndarray]
    smiles: bool


def ellipse(x: float, y: float, across: float, down: float) -> np.ndarray:
    """Return a soft mask of an ellipse."""
    outside = np.hypot((COLUMNS - x) / across, (ROWS - y) / down) - 1
    return np.asarray(np.clip(0.5 - outside * min(across, down), 0, 1))


def face(rng: np.random.Generator, smiles: bool, shares: dict[str, float]) -> Face:
    """Render a face; `shares` says how much of its second colour each part has."""
    x, y = 32 + rng.uniform(-2, 2), 31 + rng.uniform(-2, 2)
    wide, high = rng.uniform(13, 15), rng.uniform(16.5, 18.5)
    skin = np.maximum(ellipse(x, y, wide, high), ellipse(x, y + high, 6, 8))
    fringe = ellipse(x, y - 14, wide + 3, 10) * (np.arange(SIDE)[:, None] < y - 6)
    hair = np.maximum(fringe, ellipse(x, y - 1, wide + 4, high + 4) * (1 - ellipse(x, y + 3, wide, high)))
    hair = hair * (np.arange(SIDE)[:, None] < y + rng.uniform(4, 16))
    clothes = ellipse(x, 71, 27, 20)
    light = 1 + 0.12 * (np.arange(SIDE) - 32) / 32 * rng.choice([-1, 1])
    image = np.full((SIDE, SIDE, 3), rng.uniform(150, 215), float) + rng.uniform(-12, 12, 3)
    masks = {"skin": skin * (1 - hair) * (1 - clothes), "hair": hair, "clothes": clothes * (1 - hair)}
    for part, mask in masks.items():
        one, two = np.array(TONES[part], float)
        colour = (1 - shares[part]) * one + shares[part] * two
        image += mask[..., None] * (colour * light[None, :, None] - image)
    for side in (-1, 1):
        eye = ellipse(x + side * 5.5, y - 1, 1.8, 1.6)
        image *= 1 - 0.85 * eye[..., None]
        masks["skin"] *= 1 - eye
    curve = 0.16 if smiles else -0.09
    away = np.abs(ROWS - (y + 9.5 - curve * ((COLUMNS - x) ** 2 - 12))) + np.maximum(np.abs(COLUMNS - x) - 5, 0)
    mouth = 0.9 * np.clip(2 - away, 0, 1)
    image += mouth[..., None] * ([150, 40, 50] - image)
    masks["skin"] *= 1 - mouth
    image = image * rng.uniform(0.9, 1.1) + rng.normal(0, 3, image.shape)
    return Face(np.clip(image, 0, 255).astype(np.uint8), masks, smiles)


def faces(rng: np.random.Generator, count: int, planted: str | None = None) -> list[Face]:
    """Render faces, half of them smiling; the colour of `planted` goes with the smile in nine of ten."""
    out = []
    for k in range(count):
        shares = {part: float(rng.beta(0.5, 0.5)) for part in PARTS}
        if planted:
            goes = (k % 2 == 0) == (rng.random() < 0.9)
            shares[planted] = float(rng.beta(1, 4) if goes else rng.beta(4, 1))
        out.append(face(rng, k % 2 == 0, shares))
    return out


@dataclass(frozen=True)
class Classifier:
    """The probability of "smiles": a logistic regression on colours of 8 x 8 pixels and the contrasts of the mouth."""

    model: object

    @staticmethod
    def features(images: list[np.ndarray]) -> np.ndarray:
        pixels = np.stack(images).astype(float) / 255
        colours = pixels.reshape(len(pixels), 8, 8, 8, 8, 3).mean(axis=(2, 4)).reshape(len(pixels), -1)
        mouth = pixels[:, 34:50, 22:42].mean(axis=3).reshape(len(pixels), 8, 2, 10, 2).mean(axis=(2, 4))
        mouth = mouth.reshape(len(pixels), -1)
        mouth = (mouth - mouth.mean(axis=1, keepdims=True)) / (mouth.std(axis=1, keepdims=True) + 0.02)
        return np.concatenate([colours, 0.03 * mouth], axis=1)

    @classmethod
    def trained(cls, training: list[Face]) -> Classifier:
        model = LogisticRegression(C=1, max_iter=1000)
        return cls(model.fit(cls.features([one.image for one in training]), [one.smiles for one in training]))

    def __call__(self, images: list[np.ndarray]) -> np.ndarray:
        return self.model.predict_proba(self.features(images))[:, 1]


@dataclass(frozen=True)
class Audit:
    result: butfor.Result
    alike: float  # share of right answers on new faces in which the colour goes with the smile as in training
    mixed: float  # and where it does not

    @property
    def named(self) -> list[str]:
        """The attributes that move the output of any face: at most one in ten of these findings is wrong on average."""
        table = self.result.table
        return sorted(set(table.subset[table.moves]))


def audit(seed: int, planted: str, people: int = 12) -> Audit:
    """Train with a planted colour, and test what moves the classifier on new faces in which nothing goes with it."""
    rng = np.random.default_rng(seed)
    classifier = Classifier.trained(faces(rng, 600, planted))
    new = {f"face {k}": one for k, one in enumerate(faces(rng, people), start=1)}
    masks = {part: {name: one.masks[part] for name, one in new.items()} for part in PARTS}
    result = explain(
        classifier,
        {name: one.image for name, one in new.items()},
        donor(),
        boxes=attributes("skin", "hair", "brightness", "blur", clothes="colour", masks=masks),
        test=butfor.sequential(h=1),
        effects="all",
        min_effect=0.05,
        seed=seed,
    )

    def right(others: list[Face]) -> float:
        says = classifier([one.image for one in others]) > 0.5
        return float((says == [one.smiles for one in others]).mean())

    return Audit(result, right(faces(rng, 100, planted)), right(faces(rng, 100)))


if __name__ == "__main__":
    planted = sys.argv[1] if len(sys.argv) > 1 else "hair"
    found = audit(0, planted)
    print(f"Planted: {planted}. Moves the output of some face: {', '.join(found.named)}.")
    print(f"Right: {found.alike:.0%} of faces as in training, {found.mixed:.0%} where no colour goes with a smile.\n")
    print(found.result.summary())
