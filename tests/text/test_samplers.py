"""One table over all samplers of texts: what every one of them must do."""

import pickle
import random
from collections import Counter

import numpy as np
import pytest
from scipy.stats import binom

import butfor.text as bt
from butfor import InputError, Subset
from butfor.text.segment import changed
from butfor.text.small import plain_words

SAMPLERS = {
    "small_infiller": lambda tiny: bt.small_infiller(threads=1, listed=40),
    "small_infiller bent": lambda tiny: bt.small_infiller(temperature=1.5, top_k=30, top_p=0.9, listed=40, threads=1),
    "small_infiller sweeps": lambda tiny: bt.small_infiller(sweeps=2, threads=1),
    "small_infiller among": lambda tiny: bt.small_infiller(among="plain", listed=40, threads=1),
    "masked_lm bert": lambda tiny: bt.masked_lm(tiny() / "bert", listed=40),
    "masked_lm bert bent": lambda tiny: bt.masked_lm(tiny() / "bert", temperature=0.7, top_k=9, listed=40, batch=1),
    "masked_lm bert sweeps": lambda tiny: bt.masked_lm(tiny() / "bert", sweeps=1),
    "masked_lm roberta": lambda tiny: bt.masked_lm(tiny() / "roberta", listed=40, batch=3),
    "causal_lm": lambda tiny: bt.causal_lm(tiny() / "gpt2", listed=40, candidates=20, right=4),
}
TEXTS = {
    "plain": ("The film was good and I liked it.", "good"),
    "first word": ("Good film!", "Good"),
    "last word": ("what a film", "film"),
    "only word": ("good", "good"),
    "capitals": ("It was GOOD, really", "GOOD"),
    "line ends": ("one\r\nwas good\r\n\r\ntwo\t  end\n", "good"),
    "breaks": ("the film<br /><br />was good<br/>fine", "good"),
    "entities": ("this &amp; that was &quot;good&quot;", "good"),
    "emoji": ("👩‍👩‍👧 was good 🇩🇪👍🏽 end", "good"),
    "marks": ("cafe\u0301 was good nai\u0308ve", "good"),
    "apostrophe": ("it wasn't good", "wasn't"),
    "unknown pieces": ("the unlikeable Kurosawa was good", "unlikeable"),
    "Chinese around": ("电影 good 好", "good"),
    "right to left": ("הסרט good מאוד", "good"),
    "surrogates": ("a \ud800 good \udfff film", "good"),
    "script": ("<script>alert('x')</script> good </p>", "good"),
    "special": ("[MASK] good [CLS] <s> <mask>", "good"),
    "span": ("the film was good, and the acting was bad.", "good, and the acting"),
    "long": ("the film was good and bad . " * 30 + "it was good today" + " a lot of time" * 30, "today"),
}


@pytest.fixture(params=SAMPLERS, scope="module")
def sampler(request):
    return SAMPLERS[request.param](lambda: request.getfixturevalue("tiny"))


@pytest.fixture(params=TEXTS)
def case(request):
    text, word = TEXTS[request.param]
    start = text.index(word)
    return text, Subset(word, (start, start + len(word)))


def rng(seed=5):
    return np.random.default_rng(seed)


PLAIN = TEXTS["plain"][0]
GOOD = Subset("good", (13, 17))


@pytest.mark.parametrize("draws", [1, 3])
def test_count_order_and_everything_else_to_the_character(sampler, case, draws):
    text, subset = case
    start, end = subset.index
    other = text[:end] + " or not?"  # the same place in another text
    made = sampler([text, other], subset, draws, rng())
    assert isinstance(made, list)
    assert len(made) == 2 * draws
    for place, counterfactual in enumerate(made):
        given = (text, other)[place // draws]
        assert counterfactual[:start] == given[:start]
        assert counterfactual.endswith(given[end:])
        fill = changed(given, counterfactual, subset)
        assert given[:start] + fill + given[end:] == counterfactual
        assert any(letter.isalnum() for letter in fill)
        assert fill == fill.strip()


def test_none_of_something_is_nothing(sampler):
    assert sampler([], GOOD, 3, rng()) == []
    assert sampler([PLAIN], GOOD, 0, rng()) == []


def test_the_same_rng_gives_the_same_draws_and_another_one_others(sampler, case):
    text, subset = case
    one, again, other = (sampler([text], subset, 12, rng(seed)) for seed in (5, 5, 6))
    assert one == again
    assert one != other
    assert len(set(one)) > 1


def test_global_state_is_not_used(sampler):
    np.random.seed(1)  # noqa: NPY002
    random.seed(1)
    one = sampler([PLAIN], GOOD, 6, rng())
    np.random.seed(2)  # noqa: NPY002
    random.seed(2)
    assert one == sampler([PLAIN], GOOD, 6, rng())


def test_texts_and_draws_do_not_depend_on_what_follows(sampler, case):
    text, subset = case
    few, more = sampler([text], subset, 2, rng()), sampler([text], subset, 5, rng())
    assert few == more[:2]
    assert sampler([text, text + " more"], subset, 2, rng())[:2] == few


def test_what_is_remembered_changes_nothing(sampler, case):
    text, subset = case
    fresh = pickle.loads(pickle.dumps(sampler))
    expected = fresh([text], subset, 4, rng())
    for other in bt.words()("", PLAIN):
        fresh([PLAIN], other, 1, rng())
    assert fresh([text], subset, 4, rng()) == expected == sampler([text], subset, 4, rng())


def test_the_observed_word_is_not_looked_at(sampler):
    """Q(x_S | x_-S) may not look at x_S: another word of the same make gives the same fills."""
    other = PLAIN.replace("good", "film")
    ours = [changed(PLAIN, made, GOOD) for made in sampler([PLAIN], GOOD, 8, rng())]
    assert ours == [changed(other, made, GOOD) for made in sampler([other], GOOD, 8, rng())]


def test_case_is_that_of_the_observed_word_or_the_models_own(sampler):
    lower = not any(kind in repr(sampler) for kind in ("roberta", "gpt2"))
    for word, looks in (("good", str.lower), ("GOOD", str.upper)):
        text = f"so it was {word} then"
        fills = [
            changed(text, made, Subset("x", (10, 14))) for made in sampler([text], Subset("x", (10, 14)), 9, rng())
        ]
        if lower:
            assert all(fill in (looks(fill), "I") for fill in fills)


def listing(sampler):
    return getattr(sampler, "listed", 0) > 0


def test_support_is_a_list_of_fills_with_their_mass(sampler, case):
    text, subset = case
    assert sampler.lists(subset) == listing(sampler)
    if not listing(sampler):
        return
    versions, mass = sampler.support([text, text + " "], subset)
    assert mass.shape == (2, len(versions[0])) == (2, len(versions[1]))
    assert 0 < mass.shape[1] <= 40
    assert (mass >= 0).all()
    assert (mass.sum(axis=1) <= 1 + 1e-9).all()
    assert (np.diff(mass[0]) <= 1e-15).all()  # the likeliest first
    for version in versions[0]:
        assert version == text[: subset.index[0]] + changed(text, version, subset) + text[subset.index[1] :]


@pytest.mark.parametrize("name", ["plain", "span"])
def test_mass_agrees_with_draws(sampler, name):
    """Masses are those of the draws: each of the six likeliest comes up as often as a binomial allows."""
    if not listing(sampler):
        pytest.skip("it does not list")
    text, word = TEXTS[name]
    word = word if name == "plain" else "good, and"
    subset = Subset(word, (text.index(word), text.index(word) + len(word)))
    draws = 3000 if name == "plain" else 300
    versions, mass = sampler.support([text], subset)
    made = sampler([text], subset, draws, rng())
    total = {}
    for version, own in zip(versions[0], mass[0], strict=True):
        total[version] = total.get(version, 0) + own  # two pieces may read alike
    for version in list(total)[:6]:
        count = made.count(version)
        assert binom.ppf(1e-6, draws, total[version]) <= count <= binom.isf(1e-6, draws, min(1, total[version] + 1e-9))


def test_full_distribution_by_default(tiny):
    """Every piece of the kind can be drawn; the mass of all of them is one."""
    for sampler in (bt.small_infiller(listed=10**6, threads=1), bt.masked_lm(tiny / "bert", listed=10**6)):
        _, mass = sampler.support([PLAIN], GOOD)
        assert mass.sum() == pytest.approx(1)
        assert mass.shape[1] > 60
    _, mass = bt.small_infiller(listed=10**6, top_k=7, threads=1).support([PLAIN], GOOD)
    assert mass.shape[1] == 7
    assert mass.sum() == pytest.approx(1)


def test_reprs_name_their_settings(sampler):
    assert " at 0x" not in repr(sampler)
    assert repr(sampler).startswith(("small_infiller(", "masked_lm(", "causal_lm("))
    assert repr(bt.small_infiller()) == "small_infiller()"
    assert repr(bt.small_infiller(temperature=0.5, top_k=3, top_p=0.9, listed=2, sweeps=1)) == (
        "small_infiller(temperature=0.5, top_k=3, top_p=0.9, listed=2, sweeps=1)"
    )


def test_masked_lm_is_the_models_own_distribution(tiny):
    """Against transformers itself: mask the piece, softmax over the pieces that may stand there."""
    import torch
    import transformers

    model = transformers.AutoModelForMaskedLM.from_pretrained(tiny / "bert").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny / "bert")
    text = "the film was good and the acting was bad"
    encoded = tokenizer(text.replace("good", "[MASK]"), return_tensors="pt")
    with torch.no_grad():
        logits = model(**encoded).logits[0, encoded.input_ids[0].tolist().index(tokenizer.mask_token_id)].double()
    words = [
        place
        for place, piece in enumerate(tokenizer.convert_ids_to_tokens(range(len(tokenizer))))
        if piece not in tokenizer.all_special_tokens
        and not piece.startswith("##")
        and any(letter.isalnum() for letter in piece)
    ]
    expected = torch.softmax(logits[words], 0).numpy()
    for batch in (1, 16):
        sampler = bt.masked_lm(model, tokenizer, listed=10**6, batch=batch)
        versions, mass = sampler.support([text], GOOD)
        found = dict(zip((changed(text, version, GOOD) for version in versions[0]), mass[0], strict=True))
        for place, share in zip(words, expected, strict=True):
            read = tokenizer.convert_ids_to_tokens(place)
            assert found["I" if read == "i" else read] == pytest.approx(share, rel=1e-4)


def test_causal_lm_is_left_times_right(tiny):
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(tiny / "gpt2").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny / "gpt2")
    text, subset = "the film was good and bad", GOOD
    sampler = bt.causal_lm(tiny / "gpt2", listed=10**6, candidates=8, right=5)
    versions, mass = sampler.support([text], subset)

    def score(fill):
        left = tokenizer("the film was", add_special_tokens=False).input_ids
        middle = tokenizer(" " + fill, add_special_tokens=False).input_ids
        right = tokenizer(" and bad", add_special_tokens=False).input_ids
        assert len(middle) == 1
        ids = torch.tensor([[tokenizer.eos_token_id, *left, *middle, *right[:5]]])
        with torch.no_grad():
            steps = torch.log_softmax(model(ids).logits[0, :-1].double(), 1).gather(1, ids[0, 1:, None])[:, 0]
        return float(steps[len(left) :].sum())

    scores = np.array([score(changed(text, version, subset)) for version in versions[0]])
    shares = np.exp(scores - scores.max())
    np.testing.assert_allclose(mass[0], shares / shares.sum(), rtol=1e-5)


def test_a_word_of_several_pieces_is_one_word_to_the_small_infiller():
    """Neither which word nor how many pieces it had is looked at, and everything can be drawn in its place."""
    fills = {}
    for word in ("zyxwvut", "unlikeableness", "Kurosawas".lower(), "3.14159", "u.s.a"):
        text = f"I thought that {word} was fine"
        subset = Subset("x", (15, 15 + len(word)))
        fills[word] = [changed(text, made, subset) for made in bt.small_infiller(threads=1)([text], subset, 6, rng())]
    assert len({tuple(own) for own in fills.values()}) == 1


def test_pieces_go_on_with_their_word():
    text = "He was underwhelmed by it"
    made = bt.small_infiller(threads=1)([text], Subset("whelmed", (12, 19)), 5, rng())
    assert all(one.startswith("He was under") and one.endswith(" by it") for one in made)


def test_masked_lm_reads_long_texts_in_a_window_around_the_piece(tiny):
    """Far context does not matter, near context does, and the last word is filled as well as the first."""
    sampler = bt.masked_lm(tiny / "bert")
    near, far = "it was a good film . " * 12, "the music is loud . " * 40
    place = len(far) + 6 * 21 + 9
    text, subset = far + near, Subset("good", (place, place + 4))
    other = far.replace("music", "story").replace("loud", "fine") + near
    ours, theirs = ([changed(t, made, subset) for made in sampler([t], subset, 9, rng())] for t in (text, other))
    assert ours == theirs
    listing = bt.masked_lm(tiny / "bert", listed=10)
    masses = [listing.support([t], subset)[1] for t in (text, other, far + near.replace("film", "mess"))]
    np.testing.assert_array_equal(masses[0], masses[1])
    assert (np.abs(masses[0] - masses[2]) > 1e-4).any()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: bt.small_infiller(temperature=0), "temperature must be a number above 0"),
        (lambda: bt.small_infiller(top_k=0), "top_k must be a whole number"),
        (lambda: bt.small_infiller(top_p=1.5), "top_p must be a share"),
        (lambda: bt.small_infiller(listed=-1), "listed must be a whole number"),
        (lambda: bt.small_infiller(threads=0), "threads must be at least 1"),
        (lambda: bt.masked_lm(3), "masked_lm takes the folder or name of a model"),
        (lambda: bt.causal_lm("x", candidates=0), "candidates must be a whole number"),
    ],
)
def test_bad_arguments(make, said):
    with pytest.raises(InputError, match=said):
        make()


def test_what_cannot_be_redrawn_is_said(tiny):
    for sampler in (bt.small_infiller(threads=1), bt.causal_lm(tiny / "gpt2")):
        with pytest.raises(InputError, match="has no word in it"):
            sampler(["a ... b"], Subset("...", (2, 5)), 1, rng())
    with pytest.raises(InputError, match="cuts the piece 'film'"):
        bt.masked_lm(tiny / "bert")(["the film was"], Subset("il", (5, 7)), 1, rng())
    with pytest.raises(InputError, match="no span of a text of 3 characters"):
        bt.small_infiller(threads=1)(["abc"], Subset("x", (2, 9)), 1, rng())
    with pytest.raises(InputError, match="give \\[text\\]"):
        bt.small_infiller(threads=1)("abc", Subset("x", (0, 3)), 1, rng())
    with pytest.raises(InputError, match="cannot be loaded"):
        bt.masked_lm(tiny / "nowhere")(["abc"], Subset("x", (0, 3)), 1, rng())
    with pytest.raises(InputError, match="sweeps cannot be listed"):
        bt.small_infiller(sweeps=1, listed=3).support([PLAIN], GOOD)


def test_fills_among_some_words_have_the_law_of_all_fills_given_that_they_are_among_them():
    text, subset, words = "It was a great film.", Subset("great", (9, 14)), plain_words()
    law, limited = Counter(), Counter()
    for among, found in ((None, law), ("plain", limited)):
        (made,), (mass,) = bt.small_infiller(listed=9_000, among=among).support([text], subset)
        for one, share in zip(made, mass, strict=True):
            found[bt.changed(text, one, subset).lower()] += share
    assert "great" in law
    assert "great" not in words
    kept = {word: share for word, share in law.items() if word in words}
    assert set(limited) == set(kept)
    for word, share in limited.items():
        assert share == pytest.approx(kept[word] / sum(kept.values()), rel=1e-3, abs=1e-9)


def test_among_a_list_of_words():
    sampler = bt.small_infiller(among=["Good", "bad", "nosuchword"])
    assert repr(sampler) == "small_infiller(among=2 words)"
    spans = [Subset("great", (9, 14)), Subset("a great film", (7, 19))]
    made = sampler(["It was a great film."], spans[0], 20, np.random.default_rng(0))
    assert {bt.changed("It was a great film.", one, spans[0]) for one in made} == {"good", "bad"}
    several = sampler(["It was a great film."], spans[1], 3, np.random.default_rng(0))
    assert all(set(one[7:-1].split()) <= {"good", "bad"} for one in several)
    with pytest.raises(InputError, match="among has 1 words that the infiller knows; give at least 2"):
        bt.small_infiller(among=["good"])
    with pytest.raises(InputError, match="among must be 'plain', a list of words, or None, got 'neutral'"):
        bt.small_infiller(among="neutral")
