"""Treatment: what is known exactly has no interval (METHODS 16)."""

import numpy as np

from butfor.inference.decisions import FlipShare
from butfor.inference.treatment import FlipContrast, mean_contrast


def test_a_mean_difference_of_shares_that_are_known_is_known():
    known = [FlipShare(np.zeros(4, int), np.array(share), np.zeros(4)) for share in ([1.0, 1, 0, 1], [0.0, 1, 0, 0])]
    assert mean_contrast(FlipContrast(*known)) == (0.5, 0.5, 0.5)
    drawn = FlipShare(np.full(4, 50), np.array([1.0, 1, 0, 1]), np.zeros(4))
    mean, low, high = mean_contrast(FlipContrast(drawn, known[1]))
    assert low < mean == 0.5 < high
