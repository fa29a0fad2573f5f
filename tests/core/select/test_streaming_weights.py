"""The adaptive rule from a sample of the inputs: as in memory where all fit, at its level and no weaker beyond."""

import numpy as np
import pytest

from butfor import selection
from butfor.inference.streaming import _drawn, _lots, adaptive_streamed
from butfor.types import InputError


def bed(seed, inputs, subsets=8, share=0.3):
    """Signals in two of the subsets; within an input null p-values go together. p (n, d) and which are null."""
    from scipy.special import ndtr

    rng = np.random.default_rng(seed)
    z = np.sqrt(0.5) * (rng.normal(size=(inputs, subsets)) + rng.normal(size=(inputs, 1)))
    signal = np.zeros((inputs, subsets), bool)
    signal[:, :2] = rng.random((inputs, 2)) < share
    return 1 - ndtr(z + 2.6 * signal), ~signal


def chosen_of(p, sizes, **options):
    blocks = np.split(p, np.cumsum(sizes))
    rule = adaptive_streamed(lambda: blocks, **options)
    starts = np.cumsum([0, *(len(block) for block in blocks)])
    return np.concatenate([rule.chosen(int(a), block) for a, block in zip(starts[:-1], blocks, strict=True)])


@pytest.mark.parametrize("case", ["plain", "missing", "copies", "few"])
def test_as_in_memory_where_the_sample_holds_all(case):
    for seed in range(4):
        p, _ = bed(seed, 15 if case == "few" else 400)
        if case == "missing":
            p[np.random.default_rng(seed).random(p.shape) < 0.2] = np.nan
        if case == "copies":
            p[100:200] = p[:100]
        found = chosen_of(p, [3, 7, 2], alpha=0.1, seed=seed)
        assert (found == selection.adaptive(p, 0.1, seed)).all()
    assert found.any()


def test_blocks_make_no_difference():
    p, _ = bed(0, 9000)
    one, two = (chosen_of(p, sizes, alpha=0.1, sample=500) for sizes in ([], [1, 4095, 2, 3000]))
    assert (one == two).all()
    assert one.any()


def test_level_and_power_beyond_the_sample():
    shares, found, plain = [], 0, 0
    for seed in range(24):
        p, null = bed(seed, 1500)
        chosen = chosen_of(p, [700], alpha=0.1, seed=seed, sample=200)
        shares.append((chosen & null).sum() / max(1, chosen.sum()))
        found, plain = (
            found + (chosen & ~null).sum(),
            plain + (selection.bh(p.ravel(), 0.1).reshape(p.shape) & ~null).sum(),
        )
    assert np.mean(shares) <= 0.1 + 4 * np.std(shares) / np.sqrt(len(shares))
    assert found > 1.3 * plain


def test_nobody_sees_itself():
    """Other p-values of an input outside the sample change nothing but its own choice and the threshold."""
    p, _ = bed(1, 3000)
    sampled = set(_drawn(lambda: [p], 0, 300).places.tolist())
    outsider = next(i for i in range(3000) if i not in sampled)
    before = adaptive_streamed(lambda: [p], 0.1, sample=300)
    p[outsider] = 1e-9
    after = adaptive_streamed(lambda: [p], 0.1, sample=300)
    assert (before.weights_of(0, 3000) == after.weights_of(0, 3000)).all()


def test_weights_have_mean_one():
    p, _ = bed(2, 3000)
    rule = adaptive_streamed(lambda: [p], 0.1, sample=300)
    assert rule.weights_of(0, 3000).mean() == pytest.approx(1)


def test_lots_know_no_blocks():
    whole = _lots(3, 0, 10_000)
    assert (np.concatenate([_lots(3, 0, 5000), _lots(3, 5000, 5000)]) == whole).all()
    assert len(np.unique(whole)) == 10_000


def test_refusals():
    with pytest.raises(InputError, match="strictly between"):
        adaptive_streamed(list, 1.5)
