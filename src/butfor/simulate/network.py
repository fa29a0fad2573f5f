"""The paper's network: 25-100-100-1 ReLU, trained on the inputs of a bed to sum |x_j|, once per run, in NumPy alone."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from butfor.results.io import write_files
from butfor.streams import stream
from butfor.types import Batch, Floats, InputError

Singles = NDArray[np.float32]
Draw = Callable[[int, np.random.Generator], Floats]  # rows of the bed's input distribution

RECIPE = 2  # part of the name of cached weights: raise it whenever anything below changes the weights
SIZES = (25, 100, 100, 1)
SHAPES = tuple(shape for a, b in pairwise(SIZES) for shape in ((a, b), (b,)))  # of the weights and biases
STEPS, BATCH, PEAK, WARM_UP = 8000, 256, 0.02, 0.1  # a cycle of learning rates for Adam: two million rows
MOST_CYCLES = 6
POOL = 2**17  # rows drawn at a time; no row is seen twice
LARGEST_ERROR = 0.03  # METHODS 1: mean squared error on rows that were not trained on


def sum_of_abs(rows: Batch) -> Floats:
    """Return sum_j |x_j|, which the network is trained to return.

    >>> sum_of_abs(np.array([[1.0, -2.0]]))
    array([3.])
    """
    return np.asarray(np.abs(rows).sum(axis=1))


def predict(rows: Batch, weights: tuple[Floats, ...]) -> Floats:
    """Return the outputs (n,) of the network on rows (n, 25), in float64."""
    first, first_bias, second, second_bias, last, last_bias = weights
    hidden = rows @ first
    hidden += first_bias
    np.maximum(hidden, 0, out=hidden)
    hidden = hidden @ second
    hidden += second_bias
    np.maximum(hidden, 0, out=hidden)
    return np.asarray((hidden @ last)[:, 0] + last_bias)


def trained(distribution: str, seed: int, draw: Draw) -> tuple[Floats, ...]:
    """Return the weights of the network of one run, from the cache on disk or trained now (some seconds).

    The cache is the folder BUTFOR_CACHE, or `butfor` in the user's cache folder. Training is repeatable on one
    machine; another machine's arithmetic leads to another network, just as good.
    """
    path = cache_folder() / f"network-{RECIPE}-{distribution}-{seed}.npz"
    weights = _read(path)
    if weights is None:
        weights = train(distribution, seed, draw)
        arrays = {f"w{i}": w for i, w in enumerate(weights)}
        with suppress(InputError):  # a folder that cannot be written costs time, not the run
            # Two workers may train the same network: no file is ever incomplete.
            write_files({path.name: lambda part: np.savez(part, allow_pickle=False, **arrays)}, path.parent)
    return weights


def cache_folder() -> Path:
    systems = {"win32": ("LOCALAPPDATA", "AppData/Local"), "darwin": ("", "Library/Caches")}
    variable, usual = systems.get(sys.platform, ("XDG_CACHE_HOME", ".cache"))
    home = Path(os.environ.get(variable) or Path.home() / usual)
    return Path(os.environ.get("BUTFOR_CACHE") or home / "butfor")


def _read(path: Path) -> tuple[Floats, ...] | None:
    """Return cached weights; None where there are none or the file is damaged: they can be trained again."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            weights = tuple(np.asarray(stored[f"w{i}"], np.float64) for i in range(len(SHAPES)))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    fits = tuple(w.shape for w in weights) == SHAPES and all(np.isfinite(w).all() for w in weights)
    return weights if fits else None


def train(distribution: str, seed: int, draw: Draw) -> tuple[Floats, ...]:
    """Return weights whose error on rows not trained on is at most LARGEST_ERROR: one cycle or two."""
    from threadpoolctl import threadpool_limits

    rng = stream(seed, "network", distribution)
    held_out = draw(50_000, rng)
    response = sum_of_abs(held_out)
    middle, spread = held_out.mean(axis=0), float(held_out.std(axis=0).mean())  # the response has one slope for all
    mean, deviation = float(response.mean()), float(response.std())

    def scaled(count: int) -> tuple[Singles, Singles]:
        rows = draw(count, rng)
        responses = (sum_of_abs(rows) - mean) / deviation
        return ((rows - middle) / spread).astype(np.float32), responses.astype(np.float32)

    flat, parts = _start(rng)
    with threadpool_limits(1):  # the bits then do not depend on the number of cores, and small products are faster
        for _ in range(MOST_CYCLES):
            moments = np.zeros((2, flat.size), np.float32)
            for step in range(STEPS):
                start = step * BATCH % POOL
                if start == 0:
                    inputs, targets = scaled(POOL)
                gradient = _gradient(parts, inputs[start : start + BATCH], targets[start : start + BATCH])
                _adam(flat, moments, gradient, step)
            first, bias, second, second_bias, last, last_bias = (part.astype(np.float64) for part in parts)
            first = first / spread  # the weights for rows and responses as they are
            weights = first, bias - middle @ first, second, second_bias, last * deviation, last_bias * deviation + mean
            error = float(np.mean((predict(held_out, weights) - response) ** 2))
            if error <= LARGEST_ERROR:
                return weights
    raise RuntimeError(f"the network of distribution {distribution!r}, seed {seed}, kept an error of {error:.3g}")


def _start(rng: np.random.Generator) -> tuple[Singles, list[Singles]]:
    """Return He's initial weights as one vector, and views of it in the shapes of the layers."""
    ends = np.cumsum([0, *(int(np.prod(shape)) for shape in SHAPES)])
    flat = np.zeros(ends[-1], np.float32)
    parts = [flat[a:b].reshape(shape) for a, b, shape in zip(ends, ends[1:], SHAPES, strict=False)]
    for part in parts[::2]:
        part[:] = rng.standard_normal(part.shape, np.float32) * np.sqrt(2 / len(part))
    return flat, parts


def _gradient(parts: list[Singles], inputs: Singles, targets: Singles) -> Singles:
    """Return the gradient of the mean squared error, in the order of the weights."""
    first, first_bias, second, second_bias, last, last_bias = parts
    one = np.maximum(inputs @ first + first_bias, 0)
    two = np.maximum(one @ second + second_bias, 0)
    residual = ((two @ last)[:, 0] + last_bias - targets)[:, None] * np.float32(2 / len(inputs))
    back_two = residual * last.T * (two > 0)
    back_one = (back_two @ second.T) * (one > 0)
    layers = ((inputs, back_one), (one, back_two), (two, residual))
    return np.concatenate([part for below, back in layers for part in ((below.T @ back).ravel(), back.sum(axis=0))])


def _adam(flat: Singles, moments: Singles, gradient: Singles, step: int) -> None:
    """Take one step of Adam (Kingma & Ba 2015, beta 0.9 and 0.99), in place.

    The learning rate rises linearly to its peak and falls along half a cosine.
    """
    done = step / STEPS
    rate = PEAK * done / WARM_UP
    if done >= WARM_UP:
        rate = PEAK * 0.5 * (1 + float(np.cos(np.pi * (done - WARM_UP) / (1 - WARM_UP))))
    first, second = moments
    first += np.float32(0.1) * (gradient - first)
    second += np.float32(0.01) * (gradient * gradient - second)
    size = np.sqrt(second / np.float32(1 - 0.99 ** (step + 1))) + np.float32(1e-8)
    flat -= np.float32(rate / (1 - 0.9 ** (step + 1))) * first / size
