"""Self-test of the statistics: answers worked out by hand, and simulations in which nothing is there to be found.

Functions are looked up in their modules when they are called, so that what is tested is what a run would execute.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from butfor import streams
from butfor.inference import adaptive, bounds, decisions, exact, irt, moves, osft, selection, sequential
from butfor.types import Bools, Floats, Ints

TAIL = 1e-4  # chance that a right count lies beyond its binomial limit
NULLS, DRAWS, RUNS = 4_000, 19, 600


@dataclass(frozen=True)
class Known:
    """One answer that is known, beside the one that was computed."""

    what: str
    expected: str
    computed: str
    ok: bool


def known_answers() -> list[Known]:
    """Return the values that were worked out by hand, beside those of this installation.

    >>> all(one.ok for one in known_answers())
    True
    """
    answers = []
    for what, expected, compute in _WORKED:
        try:
            computed = np.asarray(compute(), dtype=np.float64).reshape(-1)
            words = _shown(computed.tolist())
            ok = computed.shape == (len(expected),) and bool(np.allclose(computed, expected, rtol=0, atol=5e-5))
        except Exception as error:  # a damaged core may raise anything
            words, ok = f"{type(error).__name__}: {error}"[:80], False
        answers.append(Known(what, _shown(expected), words, ok))
    return answers


def _shown(values: list[float]) -> str:
    return ", ".join(f"{value:.4g}" for value in values)


def _array(*values: float) -> Floats:
    return np.array(values, dtype=np.float64)


def _besag_clifford() -> Floats:
    """Exceedances at draws 2 and 4 of 6, h = 2: frozen at 2 / 4; one exceedance in 6: 2 / (6 + 2 - 1)."""
    hits = np.array([[0, 1, 0, 1, 1, 1], [0, 0, 0, 0, 1, 0]], dtype=bool)
    none: Ints = np.zeros(2, np.int64)
    draws, exceeded = sequential.besag_clifford(hits, None, none, none, 2)
    return sequential.p_sequential(draws, exceeded, 2)


def _mean_change() -> Floats:
    """Twenty exact draws with mean 1 and deviation 1, a fit as good as 50 rows: wider than Student's interval."""
    one = moves.MeanChange(
        np.array([400]), _array(1), _array(1), np.array([[-2.0], [4.0]]), np.array([[-2.0], [4.0]]), _array(0.02)
    )
    low, high = one.bounds(0.05)
    fit = 2.0086 * np.sqrt(0.02)  # the quantile of Student's t with 50 degrees of freedom at .975
    return np.array([low[0] + high[0], float(1 - low[0] > fit), float(1 - low[0] < fit + 0.25)])


BH_1995 = (0.001, 0.008, 0.039, 0.041, 0.042, 0.06, 0.074, 0.205)
_WORKED: list[tuple[str, list[float], Callable[[], object]]] = [
    ("Rank of 2 among draws 1, 2, 3: ties count against us", [0.75], lambda: irt.p_fixed(np.array([[2.0, 1, 2, 3]]))),
    ("Rank above all of 3 draws", [0.25], lambda: irt.p_fixed(np.array([[9.0, 1, 2, 3]]))),
    ("Sequential p-values (Besag and Clifford)", [2 / 4, 2 / 7], _besag_clifford),
    ("Exact p of a list", [0.5], lambda: exact.p_exact(np.array([[2.0, 3, 1]]), np.array([[0.2, 0.3, 0.5]]))),
    ("One draw: 3 against 1, 2 against 2", [2, 0], lambda: osft.z_one_shot(np.array([[3.0, 1], [2, 2]]))),
    ("Benjamini-Hochberg at .05, how many of 8", [2], lambda: selection.bh(BH_1995, 0.05).sum()),
    ("Benjamini-Hochberg: .04 and .05 at .05 both pass", [2], lambda: selection.bh([0.04, 0.05], 0.05).sum()),
    ("Benjamini-Yekutieli at .05, how many of 8", [1], lambda: selection.by(BH_1995, 0.05).sum()),
    (
        "Holm at .05, how many of .01, .015, .04 and of .01, .03, .04",
        [3, 1],
        lambda: [selection.holm(p, 0.05).sum() for p in ([0.01, 0.015, 0.04], [0.01, 0.03, 0.04])],
    ),
    ("Bonferroni at .05, how many of .01 and .026", [1], lambda: selection.bonferroni([0.01, 0.026], 0.05).sum()),
    ("Knockoff+: 5, 4 at 1/3", [0], lambda: selection.knockoff_plus([5.0, 4], 1 / 3).sum()),
    ("Knockoff+: 5, 4, 3, -1 at 1/3", [3], lambda: selection.knockoff_plus([5.0, 4, 3, -1], 1 / 3).sum()),
    ("SeqStep+: 3, 2 with 10 draws at .04", [0], lambda: selection.seqstep([3.0, 2], 0.04, 10).sum()),
    ("SeqStep+: 3, 2 with 10 draws at .05", [2], lambda: selection.seqstep([3.0, 2], 0.05, 10).sum()),
    ("e-BH: 40, 20, 1, .5 at .1", [2], lambda: selection.e_bh([40.0, 20, 1, 0.5], 0.1).sum()),
    (
        "Weighted BH: .04 with weights 2 and .5",
        [1, 0, 0],
        lambda: adaptive.weighted_bh(_array(0.04, 0.04, 0.9), _array(2, 0.5, 0.5), 1.0, alpha=0.1),
    ),
    (
        "Simes bounds of three sets",
        [3, 1, 0],
        lambda: [bounds.simes_bounds([0.001, 0.002, 0.003, 0.6, 0.9])(rows) for rows in ([0, 1, 2], [2, 3, 4], [3, 4])],
    ),
    (
        "Clopper-Pearson, lower ends: 5 of 10, 10 of 10, 0 of 10",
        [0.1871, 0.025**0.1, 0],
        lambda: decisions.clopper_pearson_low(_array(0.5, 1, 0), _array(0.1, 0.1, 0.1), 0.05),
    ),
    ("Interval of a mean change: centre, floor and ceiling of its width", [2, 1, 1], _mean_change),
    (
        "Streams: equal keys give equal numbers, other keys others",
        [1, 0, 0],
        lambda: [
            np.mean(streams.stream(0, *one).random(8) == streams.stream(0, *other).random(8))
            for one, other in ((("a", 1), ("a", 1)), (("a", 1), ("a", 2)), (("a", 1), ("b", 1)))
        ],
    ),
]


@dataclass(frozen=True)
class Count:
    """How often something happened in a simulation, and between which counts a right core lies."""

    what: str
    count: int
    of: int
    least: int
    most: int

    @property
    def ok(self) -> bool:
        return self.least <= self.count <= self.most


def null_simulations(seed: int) -> list[Count]:
    """Return how often null hypotheses were rejected, beside binomial limits of chance `TAIL` on either side.

    >>> all(one.ok for one in null_simulations(0))
    True
    """
    rng = streams.stream(seed, "validation", "core")
    smooth = rng.normal(size=(NULLS, 1 + DRAWS))
    counts = [
        _counted("p <= .05 of ranks, continuous", irt.p_fixed(smooth) <= 0.05, 0.05, exactly=True),
        _counted("p <= .1 of ranks, tied values", irt.p_fixed(np.rint(smooth)) <= 0.1, 0.1),
        _counted("p <= .05 of sequential tests", _sequential_p(rng) <= 0.05, 0.05, most_only=0.03),
        _counted("p <= .05 of sequential tests, tied values", _sequential_p(rng, ties=True) <= 0.05, 0.05),
    ]
    p = rng.random((RUNS, 20))
    for name, rule in (("bh", selection.bh), ("holm", selection.holm), ("by", selection.by)):
        any_chosen = np.array([rule(one, 0.1).any() for one in p])
        counts.append(_counted(f"runs in which {name} rejects at .1", any_chosen, 0.1, exactly=name == "bh"))
    weighted = np.array([_adaptive_rejects(rng) for _ in range(40)])
    counts.append(_counted("runs in which the adaptive rule rejects at .1", weighted, 0.1))
    hits = rng.binomial(100, 0.3, 1_000).astype(np.float64)
    low = decisions.mixture_low(hits, np.full(1_000, 100), 0.025)
    counts.append(_counted("lower ends above a share of .3, at .025", low > 0.3, 0.025))
    cp = decisions.clopper_pearson_low(hits / 100, np.full(1_000, 0.01), 0.05)
    counts.append(_counted("Clopper-Pearson's above it, at .025", cp > 0.3, 0.025, most_only=0.005))
    return counts


def _counted(what: str, rejected: Bools, chance: float, *, exactly: bool = False, most_only: float = 0.0) -> Count:
    """Compare a count with its limits; `exactly`: rejections are as frequent as promised, not only at most."""
    from scipy.stats import binom

    of = len(rejected)
    floor = chance if exactly else most_only  # power: a core that never rejects is no core
    least = int(binom.ppf(TAIL, of, floor)) if floor else 0
    return Count(what, int(rejected.sum()), of, least, int(binom.isf(TAIL, of, chance)))


def _sequential_p(rng: np.random.Generator, *, ties: bool = False) -> Floats:
    values = rng.normal(size=(NULLS, 301))
    values = np.rint(values) if ties else values
    none: Ints = np.zeros(NULLS, np.int64)
    draws, exceeded = sequential.besag_clifford(values[:, 1:] >= values[:, :1], None, none, none, 10)
    return sequential.p_sequential(draws, exceeded, 10)


def _adaptive_rejects(rng: np.random.Generator) -> bool:
    inputs, subsets = 24, 4
    p = rng.random(inputs * subsets)
    input_of, label_of = np.repeat(np.arange(inputs), subsets), np.tile(np.arange(subsets), inputs)
    weights, nulls = adaptive.learn_weights(p, input_of, label_of, 0.1, rng)
    return bool(adaptive.weighted_bh(p, weights, nulls, 0.1).any())
