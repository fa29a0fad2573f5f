"""Small runs of every test, rule, sampler and modality, as plain numbers and words: what a refactoring must not change.

A case is a name made of its literal settings, and a function of its modality. Only public names are used, and options
go through `call` alone: where an argument moves, that function is all that changes here.
"""

from functools import cache, partial
from hashlib import blake2b

import numpy as np
import pandas as pd
from sklearn.naive_bayes import GaussianNB

import butfor
from butfor import Subset, image, multimodal, tabular, text
from butfor.results.words import as_note

EFFECTS = ["effect", "effect_low", "effect_high"]


def call(explain, *args, **options):
    """Every call of the package that takes options of a test: those of its own go with the test."""
    own = {name: options.pop(name) for name in OWN if name in options}
    if "keep_effects" in options:
        options["effects"] = "chosen" if options.pop("keep_effects") else None
    if own:
        make = {"irt": butfor.irt, "sequential": butfor.sequential, "few-shot": butfor.few_shot, "osft": butfor.osft}
        test = options.get("test") or "sequential"
        options["test"] = make[test](**{name: value for name, value in own.items() if name in TAKES[test]})
    return explain(*args, **options)


TAKES = {
    "irt": ("early_stop", "delta", "center"),
    "sequential": ("h", "center"),
    "few-shot": ("scale",),
    "osft": ("center",),
}
OWN = ("h", "early_stop", "delta", "scale", "center")


TESTS = {
    "sequential": {"test": "sequential", "draws": 300, "h": 2},
    "irt": {"test": "irt", "draws": 99},
    "irt early": {"test": "irt", "draws": 99, "early_stop": True, "delta": 0.05},
    "irt e-bh": {"test": "irt", "draws": 99, "rule": "e-bh"},
    "osft": {"test": "osft"},
    "few-shot": {"test": "few-shot"},
    "few-shot shrunk": {"test": "few-shot", "draws": 7, "scale": "shrunk"},
    "default": {},
}
MAIN = ("sequential", "irt", "osft", "few-shot")
EACH = tuple(test for test in TESTS if test != "default")
COMMON = {"alpha": 0.25, "seed": 7}
BRIEF = {"draws": 20, "h": 1, "alpha": 0.4}  # where draws take longer


# Tables

SUBSETS = {"a": [0], "b": [1, 2], "c": [3], "d": [4]}  # the models do not look at the last


def numbers(rows, seed, shift=(0, 0, 0, 0, 0)):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, 1)) + rng.normal(size=(rows, 5)) + np.array(shift)


REFERENCE = numbers(60, 0)
INPUTS = numbers(12, 1, shift=(5, 0, -1, 4, 0))


def score(rows):
    return rows[:, 0] + 0.5 * rows[:, 1] * rows[:, 2] - rows[:, 3]


def probability(rows):
    return 1 / (1 + np.exp(-score(rows) / 2))


def three_classes(rows):
    weights = np.exp(np.column_stack([rows[:, 0] / 2, rows[:, 1] + rows[:, 2], rows[:, 3]]))
    return weights / weights.sum(axis=1, keepdims=True)


def own_values(rows, subset, draws, rng):
    return rng.standard_normal((len(rows) * draws, len(subset.index)))


def own_rows(rows, subset, draws, rng):
    out = np.repeat(rows, draws, axis=0)
    out[:, subset.index] = own_values(rows, subset, draws, rng)
    return out


class OwnList:
    """A user's sampler that lists what it draws: six numbers, the middle ones likelier."""

    listed, mass = np.arange(-2.5, 3), np.array([1, 2, 3, 3, 2, 1]) / 12

    def __call__(self, rows, subset, draws, rng):
        out = np.repeat(rows, draws, axis=0)
        out[:, subset.index] = rng.choice(self.listed, p=self.mass, size=len(out))[:, None]
        return out

    def support(self, rows, subset):
        values = np.repeat(self.listed[:, None], len(subset.index), axis=1)
        return np.tile(values, (len(rows), 1, 1)), np.tile(self.mass, (len(rows), 1))


@cache
def chosen_sampler():
    """What `auto` takes after checks on held-out rows, which last two seconds."""
    return tabular.auto(np.exp(numbers(260, 2)))


def inside(rows):
    return -np.abs(np.asarray(rows)).max(axis=1)


SAMPLERS = {
    "gaussian": lambda: tabular.gaussian(REFERENCE),
    "copula": lambda: tabular.copula(REFERENCE),
    "copula extend": lambda: tabular.copula(REFERENCE, beyond="extend"),
    "forest": lambda: tabular.forest(REFERENCE, trees=10, seed=3),
    "neighbours": lambda: tabular.neighbours(REFERENCE),
    "empirical": lambda: tabular.empirical(REFERENCE),
    "empirical rounded": lambda: tabular.empirical(REFERENCE.round()),
    "reference": lambda: REFERENCE,
    "auto": chosen_sampler,
    "values": lambda: tabular.from_values(own_values),
    "own rows": lambda: own_rows,
    "own list": OwnList,
    "plausible": lambda: butfor.plausible(tabular.gaussian(REFERENCE), inside, -9.0),
}
ARRAY_MODELS = {"score": score, "probability": probability, "classes": three_classes}
FUNCTIONS = {"high": lambda outputs: outputs >= -2.5, "sure": lambda outputs: outputs.max(axis=1) >= 0.54}
LABELS = {"classes": np.arange(12) % 3, "score": score(INPUTS) + 0.3 * np.sin(np.arange(12))}


def array(folder, test, sampler="gaussian", model="score", picked=None, y=None, run_dir=False, **options):
    """Rows of numbers."""
    given = {
        **({} if picked is None else {"picked": FUNCTIONS[picked]}),
        **({} if y is None else {"y": LABELS[y]}),
        **({"run_dir": folder / "run"} if run_dir else {}),
    }
    settings = {"subsets": SUBSETS, **COMMON, **TESTS[test], **options, **given}
    return call(butfor.explain, ARRAY_MODELS[model], INPUTS, SAMPLERS[sampler](), **settings)


ARRAYS = [
    *({"test": "sequential", "rule": rule, "h": 1} for rule in ("bh", "by", "holm", "bonferroni")),
    *({"test": "irt", "rule": rule, "draws": 199} for rule in ("bh", "by", "holm", "bonferroni", "e-bh")),
    *({"test": "irt early", "rule": rule, "draws": 199} for rule in ("bh", "by", "holm", "bonferroni")),
    {"test": "osft", "rule": "knockoff+"},
    {"test": "few-shot", "rule": "seqstep"},
    *({"test": test, "sampler": sampler} for sampler in SAMPLERS for test in MAIN),
    *(
        {"test": test, "sampler": sampler}
        for sampler in ("empirical", "empirical rounded", "own list", "values", "plausible")
        for test in ("irt early", "irt e-bh", "few-shot shrunk")
    ),
    *({"test": test, "alternative": side} for test in EACH for side in ("greater", "less")),
    {"test": "default"},
    {"test": "irt", "alternative": "two-sided"},
    *({"test": test, "alternative": "two-sided", "center": 1} for test in ("sequential", "irt", "irt early", "osft")),
    {"test": "osft", "alternative": "two-sided", "center": 5},
    *({"test": test, "family": "input"} for test in EACH),
    *({"test": test, "model": "classes"} for test in MAIN),
    *({"test": test, "model": "classes", "target": 2} for test in (*MAIN, "irt early")),
    {"test": "sequential", "model": "classes", "target": "predicted", "alternative": "two-sided"},
    {"test": "irt e-bh", "model": "classes", "target": "predicted"},
    {"test": "irt", "model": "classes", "target": "predicted", "sampler": "own list"},
    *({"test": test, "model": "classes", "target": "observed-class"} for test in MAIN),
    *({"test": test, "model": "classes", "target": "truth", "y": "classes"} for test in MAIN),
    *({"test": test, "model": "probability", "link": "logit"} for test in (*MAIN, "irt early")),
    *({"test": test, "model": "probability", "link": "log"} for test in ("irt", "few-shot")),
    *({"test": test, "picked": "high"} for test in (*MAIN, "irt e-bh", "few-shot shrunk")),
    *({"test": test, "picked": "high", "sampler": "own list"} for test in ("sequential", "irt")),
    {"test": "irt", "picked": "sure", "model": "classes"},
    *({"test": test, "batch_rows": rows} for test in ("sequential", "few-shot") for rows in (1, 7, None)),
    *({"test": test, "keep_effects": False} for test in ("sequential", "few-shot")),
    *({"test": test, "run_dir": True} for test in ("sequential", "osft")),
    *({"test": test, "seed": 8, "alpha": 0.1} for test in ("sequential", "osft")),
    {"test": "sequential", "h": 10, "draws": 150},
    {"test": "irt", "draws": 140},
    {"test": "irt early", "delta": 0},
    {"test": "few-shot", "draws": 3},
]


# Frames

LETTERS = list("abcde")


def mixed_rows(count, seed, shift=0.0):
    """Numbers, categories, truth values and what is missing."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, count) + 10 * shift
    return pd.DataFrame(
        {
            "age": age,
            "grade": pd.Categorical(np.array(list("abc"))[(age > 40) * 1 + (rng.random(count) < 0.5)], list("abc")),
            "smoker": rng.random(count) < (0.9 if shift else 0.2),
            "income": np.where(rng.random(count) < 0.2, np.nan, rng.normal(size=count) + age / 20 + shift),
        },
        index=[f"p{number}" for number in range(count)],
    )


def mixed_score(frame):
    return frame["income"].fillna(1.0) + 2 * frame["smoker"] + (frame["grade"] == "c") * frame["age"] / 40


def lettered(rows, order="abcde"):
    return pd.DataFrame(rows, columns=LETTERS)[list(order)]


def by_name(frame):
    return score(frame[LETTERS].to_numpy())


def bayes():
    """A classifier of scikit-learn's, with words for classes."""
    labels = np.array(["low", "middle", "high"])[np.digitize(score(REFERENCE), [-0.5, 1.5])]
    return GaussianNB().fit(lettered(REFERENCE), labels)


FRAME_SAMPLERS = {
    "gaussian": lambda: tabular.gaussian(lettered(REFERENCE)),
    "forest": lambda: tabular.forest(lettered(REFERENCE), trees=10),
    "reference": lambda: lettered(REFERENCE),
    "plausible": lambda: butfor.plausible(
        tabular.gaussian(lettered(REFERENCE)), lambda rows: -(rows["a"] - rows["b"]).abs(), -9.0
    ),
    "mixed forest": lambda: tabular.forest(mixed_rows(60, 0), trees=10),
    "mixed neighbours": lambda: tabular.neighbours(mixed_rows(60, 0)),
    "mixed empirical": lambda: tabular.empirical(mixed_rows(60, 0)),
    "mixed reference": lambda: mixed_rows(60, 0),
}
FRAME_MODELS = {"by name": lambda: by_name, "bayes": bayes, "mixed": lambda: mixed_score}


def frame(folder, test, sampler, model="by name", order="abcde", **options):
    """Data frames, whose columns may stand in another order than those of the reference."""
    rows = mixed_rows(12, 1, shift=3.0) if model == "mixed" else lettered(INPUTS, order)
    subsets = {"life": ["age", "grade"], "smoker": ["smoker"], "income": ["income"]} if model == "mixed" else None
    settings = {"subsets": subsets, **COMMON, **TESTS[test], **options}
    return call(butfor.explain, FRAME_MODELS[model](), rows, FRAME_SAMPLERS[sampler](), **settings)


FRAMES = [
    *(
        {"test": test, "sampler": sampler, "model": "mixed", "alpha": 0.4}
        for sampler in FRAME_SAMPLERS
        if sampler.startswith("mixed")
        for test in MAIN
    ),
    {"test": "irt early", "sampler": "mixed empirical", "model": "mixed"},
    {"test": "irt e-bh", "sampler": "mixed empirical", "model": "mixed"},
    *({"test": "sequential", "sampler": s, "order": "dbeca"} for s in ("gaussian", "forest", "reference", "plausible")),
    {"test": "few-shot", "sampler": "gaussian", "order": "dbeca"},
    *({"test": test, "sampler": "gaussian", "model": "bayes"} for test in MAIN),
    {"test": "irt", "sampler": "gaussian", "model": "bayes", "target": "high"},
]


# One decision for a whole table, and the check of samplers


def whole_table(folder, sampler="gaussian", model="score", y=None, **options):
    labels = {} if y is None else {"y": LABELS[y]}
    settings = {"subsets": SUBSETS, "alpha": 0.25, "draws": 10, "passes": 199, "seed": 7, **labels, **options}
    return call(butfor.global_importance, ARRAY_MODELS[model], INPUTS, reference=SAMPLERS[sampler](), **settings)


WHOLE_TABLES = [
    *({"y": "score", "loss": "squared", "rule": rule} for rule in ("bh", "holm")),
    *({"y": "classes", "model": "classes", "loss": "log", "rule": rule} for rule in ("bh", "by")),
    *({"rule": rule, "alternative": side} for rule in ("bh", "bonferroni") for side in ("greater", "two-sided")),
    {"rule": "bh", "model": "classes", "target": "predicted"},
    {"rule": "bh", "model": "probability", "link": "logit", "sampler": "empirical"},
]
CHECKED_MODELS = {"none": None, **ARRAY_MODELS}


def check(folder, sampler, model="none"):
    return call(
        butfor.check_sampler,
        SAMPLERS[sampler](),
        numbers(60, 5),
        CHECKED_MODELS[model],
        subsets={"a": [0], "b": [1, 2]},
        draws=19,
        seed=7,
    )


CHECKS = [{"sampler": "gaussian", "model": "score"}, {"sampler": "empirical"}]


# Images


def photographs():
    """Noise with a bright corner, by name."""
    noise = np.random.default_rng(3).integers(60, 140, (6, 12, 12, 3), dtype=np.uint8)
    noise[:4, :6, :6] += 100
    return {f"photograph {number}": one for number, one in enumerate(noise)}


def brightness(batch):
    return [one[:6, :6].mean() + 0.1 * one[6:, 6:].mean() for one in batch]


def corners(batch):
    """Three classes: the corner that is the brightest."""
    light = np.array([[one[:6, :6].mean(), one[:6, 6:].mean(), one[6:].mean()] for one in batch]) / 20
    return np.exp(light) / np.exp(light).sum(axis=1, keepdims=True)


def mottled(images, subset, draws, rng):
    """A user's own sampler of boxes."""
    x1, y1, x2, y2 = subset.index
    out = [one.copy() for one in images for _ in range(draws)]
    for one in out:
        one[y1:y2, x1:x2] = rng.integers(60, 140, (y2 - y1, x2 - x1, 3))
    return out


def darkness(batch):
    return np.array([-float(one.mean()) for one in batch])


IMAGE_SAMPLERS = {
    "donor": lambda _: image.donor(),
    "donor reference": lambda _: image.donor(list(photographs().values())[4:], spread=2.0),
    "telea": lambda _: image.telea(),
    "navier stokes": lambda _: image.navier_stokes(2),
    "diversify": lambda _: image.diversify(image.telea(), grow=2),
    "cached": lambda folder: image.cached(image.donor(), folder / "fills"),
    "own": lambda _: mottled,
    "plausible": lambda _: butfor.plausible(image.donor(), darkness, -150.0),
}
STRIPES = {"left": np.arange(12) < 4 * np.ones((12, 1)), "right": np.arange(12) > 8 * np.ones((12, 1))}
BOXES = {
    "grid": lambda: image.grid(2),
    "boxes": lambda: [(0, 0, 6, 6), (7, 7, 11, 12)],
    "by name": lambda: {name: {"corner": (0, 0, 5, 5), "middle": (5, 5, 9, 9)} for name in photographs()},
    "masks": lambda: STRIPES,
    "attributes": lambda: image.together(image.grid(1, 2), image.attributes("colour", "texture", "greyscale")),
    "random": lambda: "random",
}
IMAGE_MODELS = {"brightness": brightness, "corners": corners}


def picture(folder, test, sampler="donor", boxes="grid", model="brightness", fills=False, **options):
    """Small photographs."""
    settings = {**COMMON, **TESTS[test], **(BRIEF if test == "sequential" else {}), **options}
    settings |= {"fills": folder / "fills"} if fills else {}
    drawing = IMAGE_SAMPLERS[sampler](folder)
    return call(image.explain, IMAGE_MODELS[model], photographs(), drawing, boxes=BOXES[boxes](), **settings)


def unnamed_picture(folder, test):
    """A list of images given to the function for tables."""
    settings = {"subsets": BOXES["grid"](), **COMMON, **TESTS[test]}
    return call(butfor.explain, brightness, list(photographs().values()), image.donor(), **settings)


DRAWING = [sampler for sampler in IMAGE_SAMPLERS if sampler not in ("telea", "navier stokes")]
PICTURES = [
    *({"test": test, "sampler": sampler} for sampler in DRAWING for test in ("osft", "few-shot")),
    *({"test": "sequential", "sampler": sampler, "boxes": "boxes"} for sampler in DRAWING),
    *({"test": "default", "sampler": sampler} for sampler in ("telea", "navier stokes")),  # others: by cost
    {"test": "osft", "sampler": "telea", "model": "corners", "target": "observed-class"},
    *({"test": "few-shot", "boxes": boxes} for boxes in BOXES if boxes != "grid"),
    {"test": "osft", "boxes": "attributes"},
    {"test": "osft", "boxes": "masks", "sampler": "diversify"},
    {"test": "few-shot", "boxes": "attributes", "sampler": "cached"},
    *({"test": test, "model": "corners"} for test in ("few-shot", "sequential")),
    {"test": "osft", "model": "corners", "target": 0, "link": "logit"},
    *({"test": test, "draws": 29, "sampler": "own"} for test in ("irt", "irt early", "irt e-bh")),
    {"test": "few-shot shrunk"},
    {"test": "few-shot", "family": "input", "draws": 4},
    {"test": "few-shot", "keep_effects": True, "batch_rows": 5},
    {"test": "few-shot", "fills": True},
]


# Texts

CORPUS = [
    "The film was long. The cast was fine.",
    "The film was short and the cast was good.",
    "A film was fine and the story was long.",
    "The story was short. The music was good.",
    "The cast was long and the film was short.",
    "The music was fine and a story was good.",
]
TEXTS = {
    "one": "The film was awful. The cast was good.",
    "two": "The story was awful and the cast was fine.",
    "three": "The music was dull. A film was awful.",
    "four": "The cast was long and the film was short.",
}


def blame(texts):
    return [2.0 * one.count("awful") + one.count("dull") - 0.3 * one.count("good") + 0.01 * len(one) for one in texts]


def opinion(texts):
    """Two classes."""
    bad = 1 / (1 + np.exp(1 - np.array(blame(texts))))
    return np.column_stack([1 - bad, bad])


def swapped(texts, subset, draws, rng):
    """A user's own sampler of spans."""
    start, end = subset.index
    new = iter(rng.choice(["long", "short", "good"], size=len(texts) * draws))
    return [f"{one[:start]}{next(new)}{one[end:]}" for one in texts for _ in range(draws)]


def brevity(texts):
    return np.array([-len(one) for one in texts])


TEXT_SAMPLERS = {
    "ngram": lambda: text.ngram(CORPUS),
    "ngram 2": lambda: text.ngram(CORPUS, order=2, least=1),
    "ngram listed": lambda: text.ngram(CORPUS, listed=8),
    "infiller": lambda: text.small_infiller(threads=1),
    "infiller plain": lambda: text.small_infiller(threads=1, among="plain", temperature=0.8, top_k=50, sweeps=1),
    "infiller listed": lambda: text.small_infiller(threads=1, listed=20),
    "own": lambda: swapped,
    "plausible": lambda: butfor.plausible(text.ngram(CORPUS), brevity, -43.0),
}
UNITS = {
    "word": lambda: "word",
    "sentence": lambda: "sentence",
    "wordpiece": lambda: "wordpiece",
    "phrase": lambda: text.phrases(rules=True),
    "matches": lambda: text.matches(r"was (\w+)"),
    "spans": lambda: [(0, 3), ("verb", 9, 12)],
}
TEXT_MODELS = {"blame": lambda: blame, "opinion": lambda: opinion, "sentiment": lambda: text.small_sentiment(threads=1)}


def written(folder, test, sampler="ngram", units="word", model="blame", only=None, **options):
    """Short texts."""
    texts = TEXTS if only is None else {name: TEXTS[name] for name in only.split()}
    settings = {**COMMON, **TESTS[test], **options}
    return call(text.explain, TEXT_MODELS[model](), texts, TEXT_SAMPLERS[sampler](), units=UNITS[units](), **settings)


def unnamed_text(folder, test):
    """A list of texts given to the function for tables."""
    return call(butfor.explain, blame, list(TEXTS.values()), text.ngram(CORPUS), **COMMON, **TESTS[test])


WRITTEN = [
    *({"test": test, "sampler": "ngram listed"} for test in TESTS),
    *({"test": test, "sampler": "ngram"} for test in (*MAIN, "irt early", "few-shot shrunk")),
    *({"test": test, "sampler": sampler} for sampler in ("own", "plausible") for test in MAIN),
    *({"test": test, "sampler": "infiller"} for test in MAIN),
    *({"test": test, "sampler": "infiller listed"} for test in ("irt", "default", "irt e-bh")),
    *({"test": test, "sampler": "infiller plain"} for test in ("osft", "few-shot", "irt")),
    *({"test": test, "sampler": "ngram 2"} for test in ("osft", "few-shot", "sequential")),
    *({"test": "few-shot", "units": units} for units in ("sentence", "phrase", "matches")),
    {"test": "few-shot", "units": "spans", "sampler": "own", "only": "one four"},
    {"test": "few-shot", "units": "wordpiece", "sampler": "infiller"},
    {"test": "irt", "units": "sentence", "sampler": "ngram listed"},
    {"test": "osft", "units": "sentence", "sampler": "infiller"},
    *({"test": test, "model": "opinion", "alternative": None} for test in ("few-shot", "sequential")),
    {"test": "few-shot", "model": "opinion", "target": 1, "link": "logit"},
    {"test": "few-shot", "model": "sentiment", "sampler": "infiller", "only": "one two"},
    {"test": "irt", "family": "input", "rule": "holm"},
    {"test": "few-shot", "keep_effects": False, "batch_rows": 3},
]


# Inputs of several parts


class Echo:
    """A sampler that is shown all parts: writes the brightness of the image, and some noise, into the caption."""

    whole = True

    def __call__(self, inputs, subset, draws, rng):
        start, _ = subset.index
        return [
            {**one, "caption": f"{one['caption'][:start]}{one['image'].mean() + rng.normal():.0f}"}
            for one in inputs
            for _ in range(draws)
        ]


CAPTIONS = ["a small dog", "a dog", "a cat", "small cat"]
PARTS = {
    "ngram": lambda: ({"image": image.donor(), "caption": text.ngram(CAPTIONS)}, text.words()),
    "ngram listed": lambda: ({"image": mottled, "caption": text.ngram(CAPTIONS, listed=4)}, text.words()),
    "whole": lambda: ({"image": image.donor(), "caption": Echo()}, [Subset("end", (2, 10))]),
}


def captioned(folder, test, sampler="ngram", **options):
    """The example of `butfor.multimodal.explain`."""
    rng = np.random.default_rng(0)
    images = [rng.integers(90, 110, (12, 12, 3), dtype=np.uint8) for _ in range(8)]
    inputs = [{"image": one, "caption": "a loud dog"} for one in images]
    samplers, spans = PARTS[sampler]()
    settings = {**TESTS[test], **(BRIEF if test == "sequential" else {}), **options}
    return call(
        multimodal.explain,
        lambda batch: ["loud" in one["caption"] for one in batch],
        inputs,
        samplers=samplers,
        subsets={"image": image.grid(2), "caption": spans},
        **settings,
    )


CAPTIONED = [
    {"test": "default"},
    *({"test": test, "alpha": 0.4} for test in ("osft", "few-shot", "sequential")),
    *(
        {"test": test, "sampler": "ngram listed", "draws": 39, "alpha": 0.25}
        for test in ("irt", "few-shot", "irt e-bh")
    ),
    *({"test": test, "sampler": "whole", "keep_effects": True, "alpha": 0.3} for test in ("few-shot", "osft")),
]


# All of them

MODALITIES = {
    "array": (array, ARRAYS),
    "frame": (frame, FRAMES),
    "global": (whole_table, WHOLE_TABLES),
    "check": (check, CHECKS),
    "image": (picture, PICTURES),
    "image list": (unnamed_picture, [{"test": "few-shot"}]),
    "text": (written, WRITTEN),
    "text list": (unnamed_text, [{"test": "few-shot"}, {"test": "osft"}]),
    "multimodal": (captioned, CAPTIONED),
}


def named(modality, settings):
    """What a case is called: its settings."""
    return f"{modality}: {', '.join(f'{name}={value}' for name, value in settings.items())}"


CASES = {
    named(modality, settings): partial(run, **settings)
    for modality, (run, table) in MODALITIES.items()
    for settings in table
}


def plain(result):
    """What is compared: to the bit, to rounding, and codes and values of what is told to readers."""
    if hasattr(result, "verdicts"):
        return plain_check(result)
    table = result.table
    kind, promise = result.evidence.kind, result.guarantee
    told = {
        "rows": result.rows,
        "guarantee": {
            "controls": promise.controls,
            "level": promise.level,
            "refusal": promise.refusal,
            "proven_by": promise.proven_by,
            "caveats": coded(promise.caveats),
        },
        "notes": coded(result.notes),
    }
    exact = {
        "chosen": "".join("01"[one] for one in result.chosen.astype(int)),
        "draws": run_lengths(table.draws),
        "status": run_lengths(table.status),
    }
    close = {"effects": table.loc[result.chosen, EFFECTS].to_numpy(float).tolist(), "q": table.q.tolist()}
    (exact if kind == "p" else close)[kind] = table[kind].tolist()
    if not result.is_global:
        exact["counterfactuals"] = drawn(result)
        told["rows_asked"] = result.rows_asked
    else:
        close |= {name: table[name].tolist() for name in ("statistic", "difference")}
    return {"exact": exact, "close": close, "told": told}


def plain_check(found):
    table = found.table
    exact = {"verdicts": list(found.verdicts)} | {name: table[name].tolist() for name in table if name.endswith("p")}
    return {"exact": exact, "close": {"auc": found.auc.tolist()}, "told": {"notes": coded(found.notes)}}


def coded(notes):
    """Notes as codes, severities and values; never their sentences."""
    return [[note.code, note.severity, dict(note.values)] for note in map(as_note, notes)]


def run_lengths(column):
    """Values and how often each comes in a row.

    >>> run_lengths([5, 5, 7, 5])
    [[5, 2], [7, 1], [5, 1]]
    """
    runs = []
    for value in column:
        if runs and runs[-1][0] == value:
            runs[-1][1] += 1
        else:
            runs.append([writable(value), 1])
    return runs


def drawn(result):
    """Two counterfactuals of the first hypothesis, one where no more were drawn, none where none were kept."""
    first = result.table.iloc[0]
    for count in (2, 1):
        try:
            made = result.counterfactuals(first["input"], first["subset"], n=count)
        except butfor.InputError:
            continue
        return [writable(one) for one in (made.to_numpy() if hasattr(made, "iloc") else made)]
    return None


def writable(one):
    """A row, an image, a text or several parts, as JSON can hold them; an image is a digest of its bytes."""
    if isinstance(one, dict):
        return {name: writable(part) for name, part in one.items()}
    if isinstance(one, np.ndarray) and one.dtype == np.uint8:
        return blake2b(one.tobytes(), digest_size=16).hexdigest()
    return one.tolist() if isinstance(one, np.ndarray | np.generic) else one
