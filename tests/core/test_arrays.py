"""Binomial tails of the control."""

import numpy as np
import pytest
from scipy.special import bdtrc

from butfor.run.control import _at_least


@pytest.mark.parametrize("chance", [0.05, 0.1])
@pytest.mark.parametrize("count", [1, 20, 201])
def test_binomial_tails_are_those_of_scipy(count, chance):
    wanted = bdtrc(np.arange(-1, count), count, chance)
    np.testing.assert_allclose(_at_least(count, chance), wanted, rtol=1e-11, atol=0)
