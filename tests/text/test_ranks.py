"""Is Q any good? Ranks by the model's output, on a language whose distribution is known."""

import numpy as np
import pytest

import butfor
from butfor.simulate.texts import sentences
from butfor.text import WordRanks, ranks


def test_ranks_see_fills_that_move_the_output_too_much():
    bed = sentences(seed=2, inputs=80, share=0.0)
    assert ranks(bed.model, bed.inputs, bed.sampler).ok

    def wild(texts, subset, draws, rng):
        start, end = subset.index
        return [t[:start] + rng.choice(["zax", "zex"]) + t[end:] for t in texts for _ in range(draws)]

    found = ranks(bed.model, bed.inputs, wild, draws=5)
    assert isinstance(found, WordRanks)
    assert found.counts.sum() == found.total


def test_ranks_of_important_words_are_first():
    bed = sentences(seed=2, inputs=40, share=0.5)
    found = ranks(bed.model, bed.inputs, bed.sampler, draws=5)
    assert found.counts[0] > 1.5 * found.total / 6
    assert "stand first" in found.verdict


def test_a_bottom_heavy_count_is_told():
    found = WordRanks(np.array([10, 10, 10, 10, 60, 60]))
    assert not found.ok
    assert "not exchangeable" in found.verdict


def test_one_clear_sentence():
    bed = sentences(seed=0, inputs=3)
    with pytest.raises(butfor.InputError, match="looks at none of these words"):
        ranks(lambda texts: [0.0] * len(texts), bed.inputs, bed.sampler)
    with pytest.raises(butfor.InputError, match="2 outputs"):
        ranks(lambda texts: np.zeros((len(texts), 2)), bed.inputs, bed.sampler)
