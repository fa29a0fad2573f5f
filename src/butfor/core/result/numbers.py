"""Numbers as people are shown them, in pictures, texts and reports."""

from __future__ import annotations

import numpy as np

from butfor.core.types import Floats


def number(value: float, *, sign: bool = False) -> str:
    """A number as a person would write it, with a true minus sign.

    >>> number(1234.5), number(-0.00012), number(12345678.0), number(0.5, sign=True), number(float("nan"))
    ('1,234', '−0.00012', '12,345,678', '+0.5', '')
    >>> number(0.0, sign=True)
    '0'
    """
    value = float(value)
    if np.isnan(value):
        return ""
    plus = "+" if sign and value else ""
    large = 1e3 <= abs(value) < 1e9
    return (f"{value:{plus},.0f}" if large else f"{value:{plus}.3g}").replace("-", "−")


def to_scale(values: Floats, largest: Floats) -> Floats:
    """Numbers rounded to a thousandth of the power of ten of the largest beside them: what is noise there reads 0.

    >>> to_scale(np.array([0.653, 0.0028449, -1.7e-07]), np.array([0.653])).tolist()
    [0.653, 0.0028, 0.0]
    """
    size = np.where(np.isfinite(largest) & (largest > 0), largest, 1.0)
    grain = 10.0 ** (np.floor(np.log10(size)) - 3)
    coarse = np.round(values / grain) * grain + 0.0  # no minus sign before a zero
    return np.where(np.abs(values) < 100 * grain, coarse, values)  # three digits are shown: none is rounded twice


def change(value: float) -> str:
    """A difference of two outputs, with its sign.

    >>> change(-0.5), change(0.0), change(-0.0002), change(1234.5)
    ('−0.500', '0', '−0.0002', '+1.23e+03')
    """
    if not value:
        return "0"
    return (f"{value:+.3f}" if 0.0005 <= abs(value) < 100 else f"{value:+.{1 if abs(value) < 1 else 3}g}").replace(
        "-", "−"
    )


def are_probabilities(outputs: Floats) -> bool:
    """Whether the outputs (n, classes) of each row are shares of one."""
    return bool(outputs.min() >= 0 and np.allclose(outputs.sum(axis=1), 1, atol=1e-3))


def are_logits(outputs: Floats) -> bool:
    """Whether there are several outputs (n, classes) that neither sum to one nor all lie between 0 and 1.

    Those that lie there without summing to one are a multi-label model's: each is a probability of its own.
    """
    between = outputs.min() >= 0 and outputs.max() <= 1
    return bool(outputs.shape[1] > 1 and not between and not are_probabilities(outputs))


def probabilities(outputs: Floats) -> Floats:
    """Outputs (n, classes) as probabilities: the softmax of logits, and whatever else as it is.

    >>> probabilities(np.array([[3.0, 3.0]])).tolist(), probabilities(np.array([[0.25, 0.75]])).tolist()
    ([[0.5, 0.5]], [[0.25, 0.75]])
    >>> probabilities(np.array([[0.99, 0.97]])).tolist()
    [[0.99, 0.97]]
    """
    return softmax(outputs) if are_logits(outputs) else outputs


def softmax(outputs: Floats) -> Floats:
    """Logits (n, classes) as probabilities."""
    raised = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))
