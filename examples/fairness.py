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
from butfor.simulate.faces import PARTS, Face, faces


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
