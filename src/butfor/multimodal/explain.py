"""Inputs of several parts, such as an image and its caption: subsets of all of them in one run, a sampler for each."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from butfor.core.draw.blocks import list_problem
from butfor.core.draw.content import same, size
from butfor.core.draw.items import ListItems
from butfor.core.draw.proposers import is_blind
from butfor.core.draw.samplers import info_of
from butfor.core.result.result import Result
from butfor.core.types import InputError, ModelError, Subset
from butfor.models import wrap
from butfor.models.wrap import model_name
from butfor.multimodal.parts import Parts, PartsSampler
from butfor.run.context import RunContext
from butfor.run.run import run
from butfor.run.settings import NAMES, Settings, takes

HELD_VALUES = 2**26  # values of the inputs that the model is given at a time: 64 MB of images
MOST_ROWS = 256
KEEP = (3, 2**27)  # counterfactuals of each hypothesis that are kept, and the values of all of them


@takes(NAMES, effects=None)
def explain(
    model: Any, inputs: Any, *, samplers: Mapping[str, Any], subsets: Mapping[str, Any], **options: object
) -> Result:
    """Which regions and which words of inputs with several parts the model relies on, with one guarantee for all.

    `inputs` is a list of mappings such as {"image": array, "caption": text}, or a mapping name -> such a mapping;
    `model` takes a list of them. `samplers` has a sampler for each part that is tested, as `butfor.image` and
    `butfor.text` have them; `subsets` says what to test there: a list of `Subset`, or a function (name, part) ->
    subsets such as `butfor.image.grid(3)` or `butfor.text.words()`. A subset is then called "image: row 1 column 1" or
    "caption: dog".

    A part is redrawn given the rest of that part. That is the law given the whole input only if parts do not tell of
    each other; a sampler with an attribute `whole = True` is given all parts, and gives all of them back.

    `test=None` is "few-shot", and effects are estimated where you ask for them.

    Parameters
    ----------
    model : a function of a list of inputs, each a mapping of its parts.
    inputs : a list of mappings such as {"image": array, "caption": text}, or a mapping name -> such a mapping.
    samplers : a sampler for each part that is tested, as `butfor.image` and `butfor.text` have them.
    subsets : what to test in each part: a list of `Subset`, or a function (name, part) -> subsets such as
        `butfor.image.grid(3)` or `butfor.text.words()`.
    effects : "chosen" estimates effects from fresh draws for what was chosen, "all" for all; None saves those.
    **options : settings.

    Examples
    --------
    >>> from butfor.image import donor, grid
    >>> from butfor.text import ngram, words
    >>> rng = np.random.default_rng(0)
    >>> images = [rng.integers(90, 110, (12, 12, 3), dtype=np.uint8) for _ in range(8)]
    >>> inputs = [{"image": image, "caption": "a loud dog"} for image in images]
    >>> result = explain(
    ...     lambda batch: ["loud" in pair["caption"] for pair in batch],
    ...     inputs,
    ...     samplers={"image": donor(), "caption": ngram(["a small dog", "a dog", "a cat", "small cat"])},
    ...     subsets={"image": grid(2), "caption": words()},
    ... )
    >>> result.table[result.chosen].subset.unique().tolist()
    ['caption: loud']
    """
    settings = Settings.of(options, test="few-shot")
    names, items = named(inputs)
    sampler = combined(samplers, subsets)
    found = [proposed(name, item, subsets) for name, item in zip(names, items, strict=True)]
    if not any(found):
        raise InputError("none of the inputs has anything to test; see subsets")
    data_dependent = any(callable(own) and not is_blind(own) for own in subsets.values())
    check = None if info_of(sampler).changes_subset_only else check_drawn
    problem = list_problem(ListItems(items, check), names, found, sampler, settings.seed)
    context = RunContext(
        problem=problem,
        wrapped=wrap(model),
        model_name=model_name(model),
        batch_rows=int(np.clip(HELD_VALUES // max(1, *map(size, items)), 1, MOST_ROWS)),
        describe=lambda row: f"input {names[row]!r}",
        sampler_notes=partial(sampler.notes, items, found, settings.seed),
        metadata={"modality": "multimodal", "parts": list(sampler.samplers), "data_dependent": data_dependent},
        keep=KEEP,
    )
    return run(context, settings)


def check_drawn(item: Parts, drawn: Any, subset: Subset) -> None:
    """Refuse a counterfactual in which more than the subset is new."""
    from butfor.image import checked as images
    from butfor.text import edit as texts

    part, index = subset.index
    inner = Subset(subset.name, index)
    touched = [other for other in item if other != part and not same(item[other], drawn[other])]
    if touched:
        raise ModelError(f"the sampler of subset {subset.name!r} changed the part {touched[0]!r}, too")
    if isinstance(item[part], str):
        texts.check_drawn(item[part], drawn[part], inner)
    elif isinstance(item[part], np.ndarray) and item[part].ndim == 3 and item[part].dtype == np.uint8:
        images.check_drawn(item[part], drawn[part], inner)


def named(inputs: Any) -> tuple[list[str], list[Parts]]:
    """Names and inputs, after seeing that each input is a mapping of parts."""
    pairs = list(inputs.items() if isinstance(inputs, Mapping) else enumerate(inputs, 1))
    if not pairs:
        raise InputError("inputs is empty; give at least one mapping such as {'image': array, 'caption': text}")
    for name, item in pairs:
        if not isinstance(item, Mapping):
            raise InputError(
                f"input {name!r} is {type(item).__name__}, expected a mapping such as "
                "{'image': array, 'caption': text}; give a list of them, or a mapping name -> input"
            )
    names = [name if isinstance(name, str) else f"input {name}" for name, _ in pairs]
    return names, [{part: _read_only(value) for part, value in item.items()} for _, item in pairs]


def _read_only(value: Any) -> Any:
    """A part that nobody may write into: an input shares it with all its draws."""
    if not isinstance(value, np.ndarray):
        return value
    view = value.view()
    view.setflags(write=False)
    return view


def combined(samplers: Mapping[str, Any], subsets: Mapping[str, Any]) -> PartsSampler:
    """One sampler of all parts, after seeing that each part that is tested has one."""
    if not isinstance(samplers, Mapping) or not isinstance(subsets, Mapping):
        raise InputError("samplers and subsets must be mappings, part -> sampler and part -> what to test in it")
    lacking = [part for part in subsets if part not in samplers]
    if lacking or not subsets:
        raise InputError(f"samplers has {list(samplers)} but subsets {list(subsets)}; give a sampler for each part")
    for part in subsets:
        if not callable(samplers[part]) or ":" in part:
            raise InputError(
                f"part {part!r} needs a name without a colon and a sampler (inputs, subset, draws, rng) -> inputs, got "
                f"{type(samplers[part]).__name__}"
            )
    return PartsSampler({part: samplers[part] for part in subsets})


def proposed(name: str, item: Parts, subsets: Mapping[str, Any]) -> list[Subset]:
    """What is tested in one input: the subsets of its parts, named after the part."""
    found = []
    for part, given in subsets.items():
        if part not in item:
            raise InputError(f"input {name!r} has the parts {sorted(item)}, but subsets asks for {part!r}")
        own = given(name, item[part]) if callable(given) else given
        for subset in own:
            if not isinstance(subset, Subset):
                raise InputError(f"subsets of {part!r} must be butfor.Subset, got {type(subset).__name__}")
            found.append(Subset(f"{part}: {subset.name}", (part, subset.index)))
    if len({subset.name for subset in found}) < len(found):
        raise InputError(f"two subsets of input {name!r} have the same name; give each its own")
    return found
