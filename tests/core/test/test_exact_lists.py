"""Listed supports of texts: full enumeration, each text asked once, full batches, what is not listed against us."""

from itertools import product

import numpy as np
import pytest

import butfor
from butfor.evaluation.hypotheses import list_hypotheses
from butfor.evaluation.items import ListItems
from butfor.models import wrap
from butfor.results.record import MultimodalInputs
from butfor.run.run import RunContext, run
from butfor.settings import Settings
from butfor.types import Subset

pytestmark = pytest.mark.filterwarnings("ignore::butfor.ReachWarning")

LETTERS, MASS = "abcd", np.array([0.4, 0.3, 0.2, 0.1])
TEXTS = ["".join(letters) for letters in product(LETTERS, repeat=3)]
SPANS = [Subset(f"letter {j}", (j, j + 1)) for j in range(3)]


class Letters:
    """Lists the likeliest letters, those in `listed`; draws from all of them."""

    def __init__(self, letters=LETTERS, mass=MASS, listed=("letter 0", "letter 1", "letter 2")):
        self.letters, self.mass, self.listed = letters, mass, listed

    def __call__(self, inputs, subset, draws, rng):
        fills = rng.choice(list(LETTERS), p=MASS, size=len(inputs) * draws)
        return [self.filled(inputs[i // draws], subset, fill) for i, fill in enumerate(fills)]

    def filled(self, text, subset, fill):
        start, end = subset.index
        return text[:start] + fill + text[end:]

    def lists(self, subset):
        return subset.name in self.listed

    def support(self, inputs, subset):
        versions = [[self.filled(text, subset, letter) for letter in self.letters] for text in inputs]
        return versions, np.tile(self.mass, (len(inputs), 1))


def value(text):
    """Neither additive nor without ties."""
    a, b, c = (LETTERS.index(letter) for letter in text)
    return float(max(a * b, 2) - (c == 3))


def classes(text):
    a, b, c = (LETTERS.index(letter) for letter in text)
    return [float(a), 0.7 * b + 0.1, float(c - a)]


def ran(model, texts, subsets, sampler, batch_rows=64, **settings):
    names = [f"t{i}" for i in range(len(texts))]
    hypotheses = list_hypotheses(ListItems(texts), names, subsets, sampler, 0)
    inputs = MultimodalInputs(())
    context = RunContext(
        hypotheses, wrap(model), "letters", batch_rows, lambda row: names[row], list, inputs, (3, 2**20)
    )
    return run(context, Settings.of({"test": "irt", "effects": None, **settings}))


def explained(sampler, texts=TEXTS, scores=value, seen=None, **settings):
    def model(batch):
        if seen is not None:
            seen.append(list(batch))
        return [scores(text) for text in batch]

    return ran(model, texts, [SPANS] * len(texts), sampler, **{"alternative": "greater", **settings})


def by_hand(scores, text, place, alternative, predicted=False, letters=LETTERS, mass=MASS):
    """p by adding up over the listed letters; what is not listed is added to it."""
    listed = np.atleast_2d(np.array([scores(text[:place] + letter + text[place + 1 :]) for letter in letters]).T).T
    observed = np.atleast_1d(scores(text))
    values, seen = listed[:, 0], observed[0]
    if predicted:  # each by the class that it predicts itself, around the mean of that class
        centres = mass @ listed / mass.sum()
        values, seen = (
            (listed - centres)[range(len(listed)), listed.argmax(axis=1)],
            (observed - centres)[observed.argmax()],
        )
        values, seen = (abs(values), abs(seen)) if alternative == "two-sided" else (values, seen)
        return min(1.0, mass[values >= seen - 1e-9].sum() + 1 - mass.sum())
    if alternative == "less":
        values, seen = -values, -seen
    if alternative == "two-sided":
        centre = (mass * values).sum() / mass.sum()
        values, seen = abs(values - centre), abs(seen - centre)
    return min(1.0, mass[values >= seen - 1e-9].sum() + 1 - mass.sum())


@pytest.mark.parametrize("test", ["irt", "sequential"])
@pytest.mark.parametrize("alternative", ["greater", "less", "two-sided"])
@pytest.mark.parametrize("listed", [4, 2])
def test_p_is_that_of_full_enumeration(listed, alternative, test):
    letters, mass = LETTERS[:listed], MASS[:listed]
    result = explained(Letters(letters, mass), alternative=alternative, test=test)
    expected = [by_hand(value, t, j, alternative, letters=letters, mass=mass) for t in TEXTS for j in range(3)]
    np.testing.assert_allclose(result.table.p, expected)
    assert len(set(np.round(expected, 6))) >= listed
    assert (result.table.draws == listed).all()
    assert result.table.status.isin(["unusual", "not unusual"]).all()


@pytest.mark.parametrize("alternative", ["greater", "two-sided"])
def test_the_predicted_class_is_that_of_each_version(alternative):
    table = explained(Letters(), scores=classes, alternative=alternative, target="predicted").table
    expected = [by_hand(classes, t, j, alternative, predicted=True) for t in TEXTS for j in range(3)]
    np.testing.assert_allclose(table.p, expected)


@pytest.mark.parametrize("target", [None, "predicted"])
@pytest.mark.parametrize("alternative", ["greater", "two-sided"])
@pytest.mark.parametrize("listed", [4, 3, 1])
def test_p_is_valid_however_few_are_listed(listed, alternative, target):
    """Exactly: over all letters at a place, weighed by their mass, p <= u with probability u at most."""
    sampler = Letters(LETTERS[:listed], MASS[:listed])
    scores = classes if target else value
    p = explained(sampler, scores=scores, alternative=alternative, target=target).table.p.to_numpy()
    p = p.reshape(4, 4, 4, 3)
    for place in range(3):
        for own in np.moveaxis(p[..., place], place, 0).reshape(4, -1).T:
            for u in np.unique(own):
                assert MASS[own <= u].sum() <= u + 1e-9


@pytest.mark.parametrize("test", ["irt", "sequential"])
def test_each_text_is_asked_once_and_calls_are_full(test):
    seen = []
    result = explained(Letters(), TEXTS[:16], seen=seen, batch_rows=10, test=test)
    looks = 2 + 6 + 1 + 1  # 16 texts in tens, then six alone, one again, six in company: to see how the model rounds
    asked = seen[looks:]
    assert max(map(len, asked)) <= 10
    assert np.mean([len(batch) for batch in asked]) > 7
    assert all(len(set(batch)) == len(batch) for batch in asked)
    assert result.rows == sum(map(len, seen)) <= 16 * 3 * 4 + 40
    assert result.rows_asked >= 16 * 3 * 5


def test_texts_listed_twice_count_with_their_mass_but_cost_one_row():
    twice = Letters("aabbccdd", np.repeat(MASS / 2, 2))
    one, other = explained(twice), explained(Letters())
    np.testing.assert_allclose(one.table.p, other.table.p)
    assert one.rows == other.rows


def test_batches_of_any_size_give_the_same():
    tables = [explained(Letters(), batch_rows=rows).table for rows in (1, 7, 1000)]
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2])


@pytest.mark.parametrize("test", ["irt", "sequential"])
def test_some_subsets_are_listed_and_others_drawn(test):
    some = explained(Letters(listed=("letter 1",)), TEXTS[:20], test=test, draws=400).table
    full = explained(Letters(), TEXTS[:20], test=test).table
    listed = (some.subset == "letter 1").to_numpy()
    assert (some.p[listed] == full.p[listed]).all()
    assert (some.draws[listed] == 4).all()
    assert (some.draws[~listed] != 4).any()
    assert np.abs(some.p - full.p)[~listed].mean() < 0.1


def test_the_same_name_may_be_listed_in_one_text_only():
    """Names are a text's own: whether a subset can be listed is asked of the subset, not of its name."""

    class Own(Letters):
        def lists(self, subset):
            return subset.index[0] == 0

    subsets = [[Subset("a", (0, 1))], [Subset("a", (1, 2))]]
    result = ran(lambda batch: [float("a" in text[:1]) for text in batch], ["ab", "ba"], subsets, Own(), draws=99)
    assert result.table.draws.tolist() == [4, 99]


def test_effects_and_counterfactuals_of_listed_hypotheses():
    texts = ["ddd"] * 4
    result = explained(Letters(), texts, scores=lambda t: float(LETTERS.index(t[0])), alpha=0.3, effects="chosen")
    assert result.chosen.tolist() == [True, False, False] * 4
    mean = (MASS * np.arange(4)).sum()
    table = result.table[result.chosen]
    assert ((table.effect_low <= 3 - mean) & (3 - mean <= table.effect_high)).all()
    assert all(text[1:] == "dd" for text in result.counterfactuals("t0", "letter 0", n=3))


class Drawing:
    """Lists nothing; says whether its draws repeat."""

    def __init__(self, repeats):
        self.repeats = lambda _: repeats

    def __call__(self, *given):
        return Letters()(*given)


@pytest.mark.parametrize("test", ["irt", "sequential"])
def test_draws_that_repeat_are_asked_once_over_a_run(test):
    """Four letters, so four texts a hypothesis, however many are drawn."""
    runs = (explained(Drawing(repeats), TEXTS[:8], draws=1000, test=test, batch_rows=4) for repeats in (True, False))
    one, other = runs
    assert one.table.equals(other.table)
    assert one.rows <= 8 * 3 * 3 + 20 < other.rows


@pytest.mark.parametrize("test", ["irt", "sequential"])
def test_a_list_too_short_to_choose_anything_says_so(test):
    result = explained(Letters("ab", MASS[:2]), test=test)
    (note,) = [note for note in result.notes if note.code == "list-limits"]
    assert (note.values["most"], note.values["size"]) == (0, 192)
    assert not any(note.code == "list-limits" for note in explained(Letters(), ["ddd"], alpha=0.2).notes)


MALFORMED = {
    "other inputs": (lambda t: ([["a"], ["b"]], np.ones((2, 1)) / 2), "lists"),
    "counts differ": (lambda t: ([["a", "b"]], np.ones((1, 3)) / 3), "lists"),
    "one mass for all": (lambda t: ([["a", "b"]], np.ones(2) / 2), "lists"),
    "too much": (lambda t: ([["a", "b"]], np.ones((1, 2))), "no distribution"),
    "negative": (lambda t: ([["a", "b"]], np.array([[-0.5, 1.0]])), "no distribution"),
    "nothing": (lambda t: ([[]], np.ones((1, 0))), "no distribution"),
    "no texts": (lambda t: ([[1, 2]], np.ones((1, 2)) / 2), "another type"),
    "no pair": (lambda t: None, "raised TypeError"),
    "raises": (lambda t: 1 / 0, "of input 't0' raised ZeroDivisionError"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_list_is_refused_in_one_sentence(case):
    support, said = MALFORMED[case]
    sampler = Letters()
    sampler.support = lambda inputs, subset: support(inputs)
    with pytest.raises(butfor.InputError, match=said):
        explained(sampler)
