"""Log-odds over a vocabulary -> the probabilities that are drawn from, and draws from them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from butfor.core.checks import whole
from butfor.core.types import Array, Floats, InputError, Ints


@dataclass(frozen=True)
class Shape:
    """How a distribution is bent before it is drawn from; as it stands, nothing is."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __str__(self) -> str:
        """As arguments of a sampler, only what is not the default."""
        parts = [] if self.temperature == 1 else [f"temperature={self.temperature:g}"]
        parts += [] if self.top_k is None else [f"top_k={self.top_k}"]
        parts += [] if self.top_p is None else [f"top_p={self.top_p:g}"]
        return ", ".join(parts)

    def probabilities(self, logits: Array) -> Floats:
        """Rows of log-odds (m, V) -> rows that sum to 1 (m, V)."""
        scaled = np.asarray(logits, np.float64) / self.temperature
        scaled -= scaled.max(axis=1, keepdims=True)
        mass = np.exp(scaled)
        mass /= mass.sum(axis=1, keepdims=True)
        if self.top_k is None and self.top_p is None:
            return mass
        order = np.argsort(-mass, axis=1, kind="stable")
        ranked = np.take_along_axis(mass, order, axis=1)
        kept = np.ones_like(ranked, bool)
        if self.top_k is not None:
            kept[:, self.top_k :] = False
        if self.top_p is not None:  # the likeliest one always stays
            kept &= np.cumsum(ranked, axis=1) - ranked < self.top_p
        bent = np.zeros_like(mass)
        np.put_along_axis(bent, order, np.where(kept, ranked, 0.0), axis=1)
        bent /= bent.sum(axis=1, keepdims=True)
        return bent


def shape(temperature: object, top_k: object, top_p: object) -> Shape:
    """The arguments of a sampler, checked."""
    heat, share = _number(temperature), _number(top_p)
    if heat is None or not 0 < heat < math.inf:
        raise InputError(f"temperature must be a number above 0, got {temperature!r}")
    if top_p is not None and (share is None or not 0 < share <= 1):
        raise InputError(f"top_p must be a share above 0 and at most 1, or None, got {top_p!r}")
    return Shape(heat, None if top_k is None else whole("top_k", top_k, 1), share)


def _number(value: object) -> float | None:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return float(value) if number else None  # type: ignore[arg-type]


def drawn(mass: Floats, uniform: Floats) -> Ints:
    """The places in one distribution (V,) that uniform numbers (k,) point at."""
    steps = np.cumsum(mass)
    # rounding may leave the last step below 1, and a number may point at its very end
    places = np.searchsorted(steps, np.asarray(uniform) * steps[-1], side="right")
    last = int(np.flatnonzero(mass)[-1])
    out: Ints = np.minimum(places, last)
    return out


def likeliest(mass: Floats, count: int) -> Ints:
    """The places of the `count` largest of one distribution, the largest first, ties in order; none without mass."""
    count = min(count, int(np.count_nonzero(mass)))
    return np.argsort(-mass, kind="stable")[:count]


def spelled(name: str, *parts: str, **options: object) -> str:
    """A sampler as a call: the parts and options that are not empty.

    >>> spelled("ngram", "9 words", "", listed=3, least=0)
    'ngram(9 words, listed=3)'
    """
    shown = [f"{option}={value}" for option, value in options.items() if value]
    return f"{name}({', '.join([*filter(None, parts), *shown])})"
