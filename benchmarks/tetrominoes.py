"""Images of 8 x 8 with tetrominoes of known place, after the paper of XAI-TRIS (Clark, Wilming & Haufe, 2306.12816).

Written anew from the paper: a T and an L, four scenarios, white and smooth backgrounds, the published strengths alpha
of the 8 x 8 images. The reference is the background alone, which is normal, so that its conditional distributions are
known. Two things differ. Signal and background are scaled by their expected norms, not by those of a sample, and
images are not divided by their largest pixel: the background stays exactly normal. And smooth backgrounds get a little
white noise: smoothed with sigma = 3, a pixel is a function of the other 63 up to 1e-15, and nothing is left to redraw.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.ndimage import gaussian_filter

from butfor.streams import stream
from butfor.types import Bools, Floats, Ints

Scenario = Literal["linear", "multiplicative", "rigid", "xor"]
Ground = Literal["white", "correlated"]
Network = tuple[Floats, ...]  # matrix, bias, matrix, bias ...: ReLU between layers, one output
SCENARIOS: tuple[Scenario, ...] = ("linear", "multiplicative", "rigid", "xor")  # rigid: translations and rotations
GROUNDS: tuple[Ground, ...] = ("white", "correlated")
STRENGTH: dict[Ground, dict[Scenario, float]] = {  # alpha, as published for 8 x 8
    "white": {"linear": 0.18, "multiplicative": 0.7, "rigid": 0.65, "xor": 0.35},
    "correlated": {"linear": 0.0125, "multiplicative": 0.1, "rigid": 0.2, "xor": 0.15},
}
SIDE, SMOOTHING = 8, 3.0
NUGGET = 0.05  # standard deviation of the white noise in smooth backgrounds, whose own is 1
SHAPES = (np.array([[1, 0], [1, 1], [1, 0]]), np.array([[1, 0], [1, 0], [1, 1]]))  # T, L
PLACES = ((1, 1), (4, 5))  # upper left corners, as published
LEAST = 0.01  # conditional standard deviations by which a pixel must differ from the background to count
USED = 0.01  # of the spread of the output over images: a pixel whose redraw moves it less is not used
REDRAWS = 60


@dataclass(frozen=True, eq=False)
class Tetrominoes:
    """One scenario on one kind of background."""

    scenario: Scenario
    ground: Ground

    @cached_property
    def covariance(self) -> Floats:
        """Covariance of the background (64, 64), with mean variance 1."""
        if self.ground == "white":
            return np.eye(SIDE**2)
        unit = np.eye(SIDE**2).reshape(-1, SIDE, SIDE)
        smooth = gaussian_filter(unit, (0.0, SMOOTHING, SMOOTHING)).reshape(SIDE**2, -1)
        made = smooth.T @ smooth
        return np.asarray(made * SIDE**2 / np.trace(made) + NUGGET**2 * np.eye(SIDE**2))

    @cached_property
    def precision(self) -> Floats:
        """Inverse of the covariance."""
        return np.asarray(np.linalg.inv(self.covariance), np.float64)

    def background(self, rng: np.random.Generator, count: int) -> Floats:
        """Return images without a tetromino (count, 64)."""
        return rng.standard_normal((count, SIDE**2)) @ np.linalg.cholesky(self.covariance).T

    def patterns(self, rng: np.random.Generator, labels: Ints) -> Floats:
        """Return the tetrominoes of images with these labels (n, 64): 0, 1, and -1 in the scenario xor."""
        fixed = np.stack([_placed(shape, at) for shape, at in zip(SHAPES, PLACES, strict=True)])
        if self.scenario == "xor":  # T and L with equal signs, or with unequal ones
            sign = rng.choice([-1.0, 1.0], (len(labels), 1))
            return np.asarray(sign * (fixed[0] + np.where(labels == 0, 1.0, -1.0)[:, None] * fixed[1]))
        if self.scenario != "rigid":
            return np.asarray(fixed[labels])
        made = np.empty((len(labels), SIDE**2))
        for row, label in zip(made, labels, strict=True):
            shape = np.rot90(SHAPES[label], int(rng.integers(4)))
            row[:] = _placed(shape, tuple(rng.integers(SIDE + 1 - size) for size in shape.shape))
        return made

    def images(self, rng: np.random.Generator, count: int) -> tuple[Floats, Ints, Floats]:
        """Return images (count, 64), labels, and the tetrominoes in them."""
        labels = rng.integers(2, size=count)
        return self.with_patterns(self.background(rng, count), patterns := self.patterns(rng, labels)), labels, patterns

    def with_patterns(self, background: Floats, patterns: Floats) -> Floats:
        """Return backgrounds with tetrominoes added to them, or multiplied into them."""
        alpha = STRENGTH[self.ground][self.scenario]
        if self.scenario == "multiplicative":
            return np.asarray((1 - alpha * patterns) * background)
        norm = np.linalg.norm(patterns, axis=1, keepdims=True)
        return np.asarray(background + alpha / (1 - alpha) * SIDE * patterns / norm)

    def planted(self, patterns: Floats) -> Bools:
        """Return the generator's truth: pixels of the tetromino; where places are fixed also those of the other."""
        if self.scenario == "rigid":
            return np.asarray(patterns != 0)
        both = sum(_placed(shape, at) for shape, at in zip(SHAPES, PLACES, strict=True))
        return np.broadcast_to(both != 0, patterns.shape)

    def unusual(self, images: Floats, patterns: Floats) -> Bools:
        """Return which pixels, given all others, are not distributed as in the background (n, 64)."""
        precise, spread = self.precision, np.diag(self.precision) ** -0.5
        if self.scenario != "multiplicative":
            signal = self.with_patterns(np.zeros_like(images), patterns)
            return np.asarray(np.abs(signal @ precise) * spread > LEAST)
        rest = precise - np.diag(np.diag(precise))
        behind = images / (1 - STRENGTH[self.ground][self.scenario] * patterns)
        return np.asarray((patterns != 0) | (np.abs((behind - images) @ rest) * spread > LEAST))


def _placed(shape: Any, at: tuple[int, ...]) -> Floats:
    image = np.zeros((SIDE, SIDE))
    image[at[0] : at[0] + shape.shape[0], at[1] : at[1] + shape.shape[1]] = shape
    return image.ravel()


# Models: dense layers, whatever they were trained as

MODELS = ("logistic", "MLP", "CNN")
ROWS, STEPS, BATCH, HIDDEN, CHANNELS = 8000, 400, 256, 32, 4


def output(rows: Any, weights: Network) -> Floats:
    """Return the logits (n,) of a network on rows (n, d)."""
    made = np.asarray(rows, np.float64)
    for at in range(0, len(weights), 2):
        made = (made if at == 0 else np.maximum(made, 0)) @ weights[at] + weights[at + 1]
    return np.asarray(made[:, 0])


def trained(name: str, world: Tetrominoes, seed: int) -> Network:
    """Return a network trained on whitened images; the whitening, a linear map, becomes part of its first layer."""
    images, labels, _ = world.images(stream(seed, "training", world.scenario, world.ground), ROWS)
    values, vectors = np.linalg.eigh(world.covariance)
    whiten = vectors / np.sqrt(values) @ vectors.T
    if name == "logistic":  # with exact zeros
        from sklearn.linear_model import LogisticRegression

        made = LogisticRegression(l1_ratio=1.0, C=0.02, solver="liblinear").fit(images @ whiten, labels)
        return whiten @ made.coef_.T, made.intercept_
    first, *rest = _torch_layers(name, (images @ whiten).astype(np.float32), labels, seed)
    return (whiten @ first, *rest)


def _torch_layers(name: str, images: Any, labels: Ints, seed: int) -> Network:
    import torch
    from torch import nn

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        first: Any = nn.Linear(SIDE**2, HIDDEN)
        if name == "CNN":  # a convolution is a dense layer, too, once it is trained
            first = nn.Sequential(nn.Unflatten(1, (1, SIDE, SIDE)), nn.Conv2d(1, CHANNELS, 3), nn.Flatten())
        width = CHANNELS * (SIDE - 2) ** 2 if name == "CNN" else HIDDEN
        tail = [nn.Linear(width, HIDDEN), nn.Linear(HIDDEN, 1)]
        net = nn.Sequential(first, nn.ReLU(), tail[0], nn.ReLU(), tail[1])
        rows, wanted = torch.as_tensor(images), torch.as_tensor(labels, dtype=torch.float32)
        optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.1)
        for step in range(STEPS):
            batch = slice(at := step * BATCH % (ROWS - BATCH), at + BATCH)
            loss: Any = nn.functional.binary_cross_entropy_with_logits(net(rows[batch])[:, 0], wanted[batch])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call,unused-ignore]
            optimizer.step()
        with torch.no_grad():
            bias = first(torch.zeros(1, SIDE**2))[0]
            layers = [first(torch.eye(SIDE**2)) - bias, bias]
            for layer in tail:
                layers += [layer.weight.T, layer.bias]
            return tuple(np.asarray(one.numpy(), np.float64) for one in layers)


def moved(model: Any, images: Floats, values: Any, rng: np.random.Generator, redraws: int = REDRAWS) -> Floats:
    """Return by brute force how far the output moves where one column is redrawn (n, d): root mean square.

    `values` gives the new values of the columns of a subset, as a sampler made by `from_values` asks for them.
    """
    from butfor import Subset

    observed, made = model(images), np.zeros(images.shape)
    for column in range(images.shape[1]):
        redrawn = np.repeat(images, redraws, axis=0)
        redrawn[:, column] = values(images, Subset(str(column), np.array([column])), redraws, rng)[:, 0]
        change = model(redrawn).reshape(len(images), redraws) - observed[:, None]
        made[:, column] = np.sqrt((change**2).mean(axis=1))
    return made
