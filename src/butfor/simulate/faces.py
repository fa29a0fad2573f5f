"""Rendered faces with a truth: of which parts the colour goes with a smile, and where each part is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from butfor.types import Array, Floats

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
    image: Array
    masks: dict[str, Floats]
    smiles: bool


def ellipse(x: float, y: float, across: float, down: float) -> Floats:
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
