"""What is enough in texts and images, against samplers of known distributions, with planted faults (METHODS 17)."""

from dataclasses import replace
from itertools import product
from math import erf, sqrt

import numpy as np
import pytest

import butfor
from butfor.image import grid
from butfor.inference.selection import bh
from butfor.run import enough, run
from butfor.run.enough import kept_parts
from butfor.types import Subset

pytestmark = pytest.mark.slow
ALPHA, LEVEL, ROUNDING = 0.1, 0.9, 1e-9
QUICK = {"test": "osft", "effects": None, "enough": LEVEL, "alpha": ALPHA}


class Chain:
    """Words "a0 b1 ...": letter i is letter i - 1 again with probability `again[i]`, else either."""

    def __init__(self, again):
        self.again = again

    def __call__(self, texts, subset, draws, rng):
        start, end = subset.index
        out = []
        for text in texts:
            before, inside = text[:start].split(), text[start:end].split()
            for _ in range(draws):
                last, made = before[-1][0] if before else "a", []
                for word in inside:
                    i = int(word[1:])
                    last = last if rng.random() < self.again[i] else "ab"[int(rng.random() < 0.5)]
                    made.append(f"{last}{i}")
                out.append(text[:start] + " ".join(made) + text[end:])
        return out

    def stays(self, letters, kept, model):
        """Return the probability that the decision stays, by listing all texts."""
        decision, total = model([_text(letters)])[0].argmax(), 0.0
        for new in product("ab", repeat=len(letters)):
            if any(new[i] != letters[i] for i in kept):
                continue
            chance, last = 1.0, "a"
            for i, letter in enumerate(new):
                if i not in kept:
                    chance *= self.again[i] * (letter == last) + (1 - self.again[i]) / 2
                last = letter
            total += chance * (model([_text(new)])[0].argmax() == decision)
        return total


def _text(letters):
    return " ".join(f"{letter}{i}" for i, letter in enumerate(letters))


def weighted(weights):
    def model(texts):
        score = np.array([[word[0] == "a" for word in text.split()] for text in texts]) @ weights
        chance = 1 / (1 + np.exp(-4 * (score - 0.5 * weights.sum())))
        return np.stack([1 - chance, chance], axis=1)

    return model


def statements(result, truth):
    """Return whether each interval holds the truth, and of what is called enough whether it is not."""
    true = [truth(one) for one in result.sets.sets]
    held = [
        one.low - ROUNDING <= value <= one.high + ROUNDING for one, value in zip(result.sets.sets, true, strict=True)
    ]
    wrong = [value <= LEVEL for one, value in zip(result.sets.sets, true, strict=True) if one.enough]
    return held, wrong


def positions(one):
    return {int(name[1:]) for name in one.columns}


def texts_run(seed):
    """Return a result, and the true share of each set and of texts drawn anew."""
    rng = np.random.default_rng(seed)
    chain, model = Chain(rng.uniform(0, 0.95, 6)), weighted(rng.exponential(1, 6))
    letters = ["".join(rng.choice(["a", "b"], 6)) for _ in range(6)]
    texts = {f"text {k}": _text(one) for k, one in enumerate(letters)}
    result = butfor.text.explain(model, texts, chain, seed=seed, **QUICK)
    base = np.array([chain.stays(one, set(), model) for one in letters])
    return result, lambda one: chain.stays(letters[one.input], positions(one), model), base


def test_what_is_enough_of_texts_is_enough():
    held, wrong, have = [], [], 0
    for seed in range(20):
        result, truth, base = texts_run(seed)
        one_held, one_wrong = statements(result, truth)
        held, wrong, have = held + one_held, [*wrong, np.mean(one_wrong or [0])], have + len(result.enough())
        low, high = result.sets.base_low - ROUNDING, result.sets.base_high + ROUNDING
        held += ((low <= base) & (base <= high)).tolist()
    assert np.mean(held) >= 0.95
    assert np.mean(wrong) <= ALPHA + 2 * np.std(wrong) / np.sqrt(len(wrong))
    assert have >= 60  # of 120


def test_an_unread_copy_is_never_enough_without_the_word_it_copies():
    chain, model = Chain([0, 0, 0.97, 0, 0, 0]), weighted(np.array([0, 0, 1.0, 0, 0, 0]))
    texts = {f"text {k}": _text("aaaaaa" if k % 2 else "bbbbbb") for k in range(8)}
    result = butfor.text.explain(model, texts, chain, **QUICK)
    told = [{next(iter(positions(one))) for one in result.sets.enough(i)} for i in range(len(texts))]
    assert all(one in ({2}, {1, 2}) for one in told)


def tried(monkeypatch, texts=24):
    """Return the errors of all shares that were drawn, by text: of five words that do not matter, with s = 7/8."""
    monkeypatch.setattr(enough, "SHARES", (1.0,))
    monkeypatch.setattr(enough, "SEARCH_DRAWS", 16)
    monkeypatch.setattr(enough, "MOST_DRAWS", 16)  # so many, whatever comes
    seen = []
    real = enough.KeptSet
    monkeypatch.setattr(enough, "KeptSet", lambda *known: seen.append(made := real(*known)) or made)

    def model(batch):
        changed = np.array([text.endswith("b5 b6 b7") for text in batch])
        return np.stack([changed, ~changed], axis=1).astype(float)

    given = {f"text {k}": _text("a" * 8) for k in range(texts)}
    butfor.text.explain(model, given, Chain(np.zeros(8)), units=butfor.text.matches("a[0-4]"), **QUICK)
    return [(one.input, one.stay - 7 / 8) for one in seen]


def test_sets_are_confirmed_on_draws_that_the_search_has_not_seen(monkeypatch):
    gaps = [gap for _, gap in tried(monkeypatch)]
    assert len(gaps) > 20
    assert abs(np.mean(gaps)) < 3 * 0.33 / np.sqrt(16 * len(gaps))


def test_draws_of_the_search_used_again_are_caught(monkeypatch):
    real = enough.draw_for
    monkeypatch.setattr(enough, "draw_for", lambda *known: real(*known[:3], "enough", known[4]))
    gaps = [gap for _, gap in tried(monkeypatch)]
    assert np.mean(gaps) > 3 * 0.33 / np.sqrt(16 * len(gaps))


def between_sets(pairs):
    """Return the correlation of the errors of two sets of one text."""
    by_text = {}
    for index, gap in pairs:
        by_text.setdefault(index, []).append(gap)
    return np.corrcoef([one[:2] for one in by_text.values() if len(one) > 1], rowvar=False)[0, 1]


def test_sets_have_draws_of_their_own(monkeypatch):
    assert abs(between_sets(tried(monkeypatch, 40))) < 0.6


def test_draws_shared_between_sets_are_caught(monkeypatch):
    monkeypatch.setattr(enough, "Subset", lambda name, index: Subset(name, index, key="all but some"))
    real = Chain.__call__

    def every_word(self, texts, subset, draws, rng):  # as many numbers, whatever is kept
        rng = np.random.default_rng(rng.bit_generator.seed_seq)
        made = real(self, texts, Subset("all", (0, len(texts[0]))), 64, rng)[:draws]
        start, end = subset.index
        return [texts[0][:start] + new[start:end] + texts[0][end:] for new in made]

    monkeypatch.setattr(Chain, "__call__", every_word)
    assert between_sets(tried(monkeypatch, 40)) > 0.6


def no_base(source, parts, *known):
    return kept_parts(source, replace(parts, fills_whole=False), *known)


@pytest.mark.parametrize("ignored", [False, True])
def test_where_most_texts_get_the_decision_no_word_is_a_reason(monkeypatch, ignored):
    """Planted fault: the base rate is ignored, and words that do not matter are called enough."""
    if ignored:
        monkeypatch.setattr(run, "kept_parts", no_base)
    model = lambda texts: np.array([[0.0, 1.0] if "a" in text else [1.0, 0.0] for text in texts])  # noqa: E731
    texts = {f"text {k}": _text("abbabb") for k in range(4)}
    result = butfor.text.explain(model, texts, Chain(np.zeros(6)), **QUICK)
    idle = [one for i in range(4) for one in result.sets.enough(i) if positions(one) & {1, 2, 4, 5}]
    assert bool(idle) == ignored


class Cells:
    """Six cells in a row, normal with known correlations, redrawn given those kept."""

    fills_whole = True

    def __init__(self, correlation):
        self.scatter = correlation

    def given(self, z, kept):
        rest = np.setdiff1d(np.arange(6), kept)
        slopes = self.scatter[np.ix_(rest, kept)] @ np.linalg.inv(self.scatter[np.ix_(kept, kept)])
        return rest, slopes @ z[kept], self.scatter[np.ix_(rest, rest)] - slopes @ self.scatter[np.ix_(kept, rest)]

    def __call__(self, images, subset, draws, rng):
        out = []
        for image in images:
            mask = subset.index if isinstance(subset.index, np.ndarray) else _boxed(subset.index)
            kept, z = np.flatnonzero(~mask[0, ::2]), _read([image])[0]
            rest, mean, scatter = self.given(z, kept)
            for new in rng.multivariate_normal(mean, scatter, draws):
                out.append(_picture(np.concatenate([z[kept], new])[np.argsort([*kept, *rest])]))
        return out


def _boxed(box):
    mask = np.zeros((2, 12), bool)
    mask[box[1] : box[3], box[0] : box[2]] = True
    return mask


def _picture(z):
    grey = np.clip(np.rint(128 + 30 * np.repeat(z, 2)), 0, 255).astype(np.uint8)
    return np.broadcast_to(grey[None, :, None], (2, 12, 3)).copy()


def _read(images):
    return (np.stack([image[0, ::2, 0] for image in images]).astype(float) - 128) / 30


def images_run(weights, seed):
    """Return a result on pictures whose second cell copies the first, and the true share of each set."""
    rng, scatter = np.random.default_rng(seed), np.eye(6)
    scatter[0, 1] = scatter[1, 0] = 0.95
    cells, many = Cells(scatter), rng.multivariate_normal(np.zeros(6), scatter, 200)
    z = _read([_picture(one) for one in many[many @ weights > 1.5][:6]])

    def model(images):
        score = _read(images) @ weights
        return np.stack([1.0 - score, score], axis=1)

    def truth(one):
        kept = np.array([int(name.split()[-1]) - 1 for name in one.columns])
        rest, mean, scatter = cells.given(z[one.input], kept)
        middle = z[one.input][kept] @ weights[kept] + mean @ weights[rest] - 0.5
        return 0.5 * (1 + erf(middle / sqrt(2 * (weights[rest] @ scatter @ weights[rest] + 1e-12))))

    images = {f"image {k}": _picture(one) for k, one in enumerate(z)}
    return butfor.image.explain(model, images, cells, boxes=grid(1, 6), seed=seed, **QUICK), truth


def test_what_is_enough_of_images_is_enough():
    held, wrong, have = [], [], 0
    for seed in range(12):
        result, truth = images_run(np.array([1.5, 0, 0.8, 0, 0.4, 0]), seed)
        one_held, one_wrong = statements(result, truth)
        held, wrong, have = held + one_held, [*wrong, np.mean(one_wrong or [0])], have + len(result.enough())
    assert np.mean(held) >= 0.95
    assert np.mean(wrong) <= ALPHA + 2 * np.std(wrong) / np.sqrt(len(wrong))
    assert have > 24  # of 72


def test_an_unread_copy_of_a_region_is_never_enough_without_the_region_that_is_read():
    found = 0
    for seed in range(12):
        result, _ = images_run(np.array([2.0, 0, 0, 0.3, 0, 0]), seed)
        for i in range(6):
            told = {name[-1] for one in result.sets.enough(i) for name in one.columns}
            found += bool(told)
            assert "1" in told or "2" not in told
    assert found > 40  # of 72


def shares_wrong(spend, right, runs=2000, size=20):
    """Return the share of wrong ones among all that four families call right, one family after the other, by run."""
    rng, wrong = np.random.default_rng(1), []
    for _ in range(runs):
        false = confirmed = 0
        for share in enough.SHARES:
            p = rng.random(size)
            p[:right] *= 1e-3
            passed = bh(p, min(ALPHA, spend(share * ALPHA, size, size, confirmed)))
            false, confirmed = false + int(passed[right:].sum()), confirmed + int(passed.sum())
        wrong.append(false / max(confirmed, 1))
    return np.array(wrong)


@pytest.mark.parametrize("right", [0, 1, 5, 15])
def test_families_one_after_the_other_spend_one_alpha(right):
    wrong = shares_wrong(enough.spent_on, right)
    assert wrong.mean() <= ALPHA + 4 * wrong.std() / np.sqrt(len(wrong))


def test_all_of_alpha_for_each_family_is_caught():
    wrong = shares_wrong(lambda *_: ALPHA, 0)
    assert wrong.mean() > 2 * ALPHA
