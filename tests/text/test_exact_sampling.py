"""The exact test is what sampling with K = 100,000 draws is about, at a hundredth of the rows at most (METHODS 9)."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from butfor.simulate.texts import WORDS, sentences
from butfor.text import explain, small_infiller, small_sentiment, words
from text_runs import explained

K = 100_000
pytestmark = pytest.mark.filterwarnings("ignore::butfor.ReachWarning")


def same(exact, sampled, most=4.5):
    """Within Monte-Carlo error: so many standard errors of a share of K draws, and the one that p adds."""
    error = np.sqrt(exact * (1 - exact) / K)
    assert np.all(np.abs(sampled - exact) <= most * error + 1.5 / K), np.c_[exact, sampled]


@pytest.mark.parametrize("tied", [False, True])
def test_on_the_bed(tied):
    bed = sentences(seed=5, inputs=1, tied=tied)
    (name,) = bed.inputs
    bed = replace(bed, subsets={name: bed.subsets[name][:5]})
    settings = {"test": "irt", "alternative": "greater"}
    exact = explained(bed, replace(bed.sampler, listed=len(WORDS)), **settings)
    sampled = explained(bed, draws=K, **settings)
    same(exact.evidence.values, sampled.evidence.values)
    assert ((exact.evidence.values > 0.001) & (exact.evidence.values < 0.999)).sum() >= 3
    assert exact.rows <= sampled.rows_asked / 100


REVIEW = "The plot was dull, but the acting is wonderful and I loved the music."
LISTED = 500  # words: all that are drawn from with top_k, so that nothing is left unlisted


def test_with_the_embedded_pair():
    model = small_sentiment()
    picked = [subset for subset in words()("", REVIEW) if subset.name in ("dull", "acting", "wonderful", "and")]
    settings = {"units": lambda _, text: picked, "test": "irt", "alternative": "greater", "effects": None}
    exact = explain(model, [REVIEW], small_infiller(top_k=LISTED, listed=LISTED), **settings)
    assert (exact.table.draws == LISTED).all()
    sampled = []
    for subset in picked:
        counts = Counter(small_infiller(top_k=LISTED)([REVIEW], subset, K, np.random.default_rng(1)))
        outputs = np.asarray(model([REVIEW, *counts]), np.float64)
        hits = np.array([*counts.values()])[outputs[1:] >= outputs[0] - 1e-6].sum()
        sampled.append((1 + hits) / (K + 1))
    same(exact.evidence.values, np.array(sampled))
    assert exact.rows <= len(picked) * (K + 1) / 100
    assert len(set(np.round(sampled, 3))) == len(picked)
