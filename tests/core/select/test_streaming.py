"""Thresholds from passes over blocks choose what the rules choose in memory, bit by bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from butfor import selection
from butfor.inference import streaming
from butfor.inference.adaptive import weighted_bh
from butfor.inference.streaming import bh_threshold, knockoff_plus_threshold, weighted_bh_threshold
from butfor.types import InputError

RNG = np.random.default_rng(0)


def cut(values, rng):
    """The same in blocks of odd sizes, one of them empty."""
    places = np.sort(rng.integers(0, len(values) + 1, 5))
    return [*np.split(values, places), values[:0]]


def p_values(kind, rng, size=3000):
    p = rng.random(size)
    if kind == "signals":
        p[: size // 5] **= 8
    elif kind == "tied":
        p = np.ceil(p**3 * 101) / 101
    elif kind == "line":  # along BH's own line, a rounding above or below it
        p = 0.1 * np.arange(1, size + 1) / size * (1 + rng.choice([-1e-15, 0, 1e-15, 1e-11], size))
    elif kind == "edges":
        p = rng.choice([0.0, -0.0, 5e-324, 1e-300, 0.05, 0.1, np.nextafter(0.1, 1), 1.0], size)
    elif kind == "equal":
        p[:] = 0.1
    return p


KINDS = ("null", "signals", "tied", "line", "edges", "equal")


@pytest.mark.parametrize("kind", KINDS)
def test_bh_as_in_memory(kind):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        p = p_values(kind, rng, size=int(rng.integers(1, 3000)))
        for alpha in (0.01, 0.1, 0.5):
            blocks = cut(p, rng)
            found = p <= bh_threshold(lambda blocks=blocks: blocks, alpha)
            assert (found == selection.bh(p, alpha)).all(), (seed, alpha)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.floats(0.001, 0.999))
def test_bh_as_in_memory_whatever_comes(p, alpha):
    assert ((np.array(p) <= bh_threshold(lambda: [p], alpha)) == selection.bh(p, alpha)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_weighted_bh_as_in_memory(kind):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        p, weights = p_values(kind, rng), rng.choice([0.0, 0.1, 1.0, 3.0], 3000)
        adjusted = np.divide(p * 0.7, weights, out=np.full(p.shape, np.inf), where=weights > 0)
        adjusted[p > 0.5] = np.inf
        blocks = cut(adjusted, rng)
        found = adjusted <= weighted_bh_threshold(lambda blocks=blocks: blocks, len(p), 0.1)
        assert (found == weighted_bh(p, weights, 0.7, 0.1)).all(), seed


@pytest.mark.parametrize("beyond", [0.0, 0.4])
def test_knockoff_plus_as_in_memory(beyond):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=int(rng.integers(1, 3000))) * rng.choice([1e-3, 1, 1e6], 1)
        z[: len(z) // 5] = np.abs(z[: len(z) // 5]) * 3
        if seed % 2:
            z = np.round(z, 1)
        for alpha in (0.05, 0.3):
            blocks = cut(z, rng)
            found = z >= knockoff_plus_threshold(lambda blocks=blocks: blocks, alpha, beyond)
            assert (found == selection.knockoff_plus(z, alpha, beyond)).all(), (seed, alpha)


def test_passes_are_few_and_later_ones_look_at_little(monkeypatch):
    passes = []
    counted = streaming._counted

    def watched(stream, bins):
        passes.append(len(bins.starts))
        return counted(stream, bins)

    monkeypatch.setattr(streaming, "_counted", watched)
    p = p_values("signals", RNG, size=200_000)
    assert ((p <= bh_threshold(lambda: [p], 0.1)) == selection.bh(p, 0.1)).all()
    assert len(passes) <= 3
    assert max(passes) <= 2**19


def test_memory_stays_bounded_where_every_bin_is_undecided(monkeypatch):
    monkeypatch.setattr(streaming, "MOST", 8)
    monkeypatch.setattr(streaming, "BINS", 64)
    rng = np.random.default_rng(1)
    p = p_values("line", rng, size=300)
    assert ((p <= bh_threshold(lambda: [p], 0.1)) == selection.bh(p, 0.1)).all()


def test_a_planted_fault_is_caught(monkeypatch):
    """A bin is taken for its upper edge: as if the first pass alone were enough."""
    first = streaming._searched

    def hasty(stream, passes, bins):
        return first(stream, lambda keys, won, lost: passes(keys + bins.width - 1, won, lost), bins)

    monkeypatch.setattr(streaming, "_searched", hasty)
    p = 0.1002 * np.arange(1, 3001) / 3000  # all of them a little above BH's line
    assert not selection.bh(p, 0.1).any()
    assert (p <= bh_threshold(lambda: [p], 0.1)).any()


def test_refusals():
    for bad in ([[0.5, np.nan]], [[1.5]], [[[0.5]]]):
        with pytest.raises(InputError, match="between 0 and 1"):
            bh_threshold(lambda bad=bad: bad, 0.1)
    with pytest.raises(InputError, match="NaN among the z"):
        knockoff_plus_threshold(lambda: [[np.nan]], 0.1)
    with pytest.raises(InputError, match="strictly between 0 and 1"):
        bh_threshold(lambda: [[0.5]], 1.0)


def test_nothing_there():
    assert bh_threshold(list, 0.1) == -np.inf
    assert knockoff_plus_threshold(lambda: [[0.0]], 0.1) == np.inf
