"""Seed -> streams: a key names a stream, and nothing else does."""

import numpy as np
import pytest
from scipy.stats import kstest, pearsonr

from butfor.streams import stream

KEYS = [
    (0, "age", 3, 0),
    (1, "age", 3, 0),
    (0, "age", 3, 1),
    (0, "age", 30, 0),
    (0, "age", 3, "effect"),
    (0, "age", "3", 0),
    (0, "age3", 0),
    (0, "ag", "e", 3, 0),
    (0, "age', 3, 0, 'x", 3, 0),
    (0, "", 3, 0),
    (0, "größe 身長", 3, 0),
    (0, "bad \udcff byte", 3, 0),
    (2**80, "age", 3, 0),
]


@pytest.mark.parametrize("key", KEYS)
def test_the_same_key_gives_the_same_stream(key):
    assert (stream(*key).random(8) == stream(*key).random(8)).all()


def test_different_keys_give_different_streams():
    firsts = {tuple(stream(*key).random(4)) for key in KEYS}
    assert len(firsts) == len(KEYS)


def test_numpy_and_python_seeds_are_the_same_seed():
    assert stream(np.int64(7), "a").random() == stream(7, "a").random()


def test_a_stream_does_not_depend_on_global_state():
    np.random.seed(1)  # noqa: NPY002
    first = stream(0, "a", 0).random()
    np.random.seed(2)  # noqa: NPY002
    assert stream(0, "a", 0).random() == first


def test_neighbouring_streams_are_uniform_and_uncorrelated():
    drawn = np.array([[stream(0, "x", block, number).random() for number in (0, 1)] for block in range(2000)])
    assert kstest(drawn.ravel(), "uniform").pvalue > 1e-4
    assert abs(pearsonr(drawn[:, 0], drawn[:, 1]).statistic) < 4 / np.sqrt(len(drawn))
    assert abs(pearsonr(drawn[1:, 0], drawn[:-1, 0]).statistic) < 4 / np.sqrt(len(drawn))
