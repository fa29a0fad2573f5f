"""Student's t for intervals: what every run asks for is at hand, since importing scipy.special takes long."""

from __future__ import annotations

# The quantiles at .975 by degrees of freedom, one less than the draws: of first rounds (10, 64, 100 and 128 draws) and
# of effects (16 and 200).
AT_HAND = {
    9: 2.262157162798205,
    15: 2.131449545559776,
    63: 1.998340542520741,
    99: 1.9842169515864174,
    127: 1.9788195347028539,
    199: 1.9719565442517533,
}


def student_quantile(freedom: int, confidence: float = 0.95) -> float:
    """By how many standard errors an interval of this confidence goes to either side.

    >>> round(student_quantile(9), 3), round(student_quantile(9, 0.9), 3)
    (2.262, 1.833)
    """
    if confidence == 0.95 and freedom in AT_HAND:
        return AT_HAND[freedom]
    from scipy.special import stdtrit

    return float(-stdtrit(freedom, (1 - confidence) / 2))
