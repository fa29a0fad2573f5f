"""Inputs of several parts, such as an image and its caption: subsets of all of them in one run, a sampler for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import Any, Literal

import numpy as np

from butfor.evaluation.hypotheses import is_blind, list_problem
from butfor.evaluation.items import ListItems, same, size
from butfor.evaluation.progress import Progress
from butfor.evaluation.samplers import HasNotes, ListsSupport, RepeatsDraws, Sampler, SamplerInfo, info_of
from butfor.models import wrap
from butfor.models.wrap import model_name
from butfor.results.record import MultimodalInputs
from butfor.results.result import Result
from butfor.run.run import RunContext, run
from butfor.settings import EffectsOf, Link, OnError, Procedure, RunOptions, Settings, documented
from butfor.types import Alternative, Family, Floats, InputError, ModelError, Subset

Parts = Mapping[str, Any]
APART = (
    "Each part is redrawn given the rest of that part alone. Where parts tell of each other, as a caption does of its "
    "image, that is not the law of the one given the other: use a sampler with whole=True, which is shown all parts."
)


@dataclass(frozen=True, eq=False)
class PartsSampler:
    """A sampler of inputs with several parts, made of one for each."""

    samplers: Mapping[str, Sampler]

    def __repr__(self) -> str:
        return f"multimodal({', '.join(f'{part}={sampler!r}' for part, sampler in self.samplers.items())})"

    @property
    def info(self) -> SamplerInfo:
        """What is true of one of them is true of the whole where it is a fault, and of all where it is a virtue."""
        infos = list(map(info_of, self.samplers.values()))
        return replace(
            infos[0],
            identity=repr(self),
            deterministic=any(info.deterministic for info in infos),  # then no test of the whole run has a null
            ignores_dependence=any(info.ignores_dependence for info in infos),
            takes_missing=any(info.takes_missing for info in infos),
            changes_subset_only=all(info.changes_subset_only for info in infos),
            whole=False,
            floor=partial(_floor, self.samplers),
            reference_rows=None,
            kinds=None,
            tokenizer=None,
            listed=0,
        )

    def __call__(self, inputs: Sequence[Parts], subset: Subset, draws: int, rng: np.random.Generator) -> list[Parts]:
        part, own = inner(subset)
        sampler = self.samplers[part]
        if info_of(sampler).whole:
            return list(sampler(inputs, own, draws, rng))
        fresh = sampler([item[part] for item in inputs], own, draws, rng)
        owners = [item for item in inputs for _ in range(draws)]
        if len(fresh) != len(owners):
            raise InputError(f"the sampler of {part!r} returned {len(fresh)} parts, expected {len(owners)}")
        return [{**item, part: value} for item, value in zip(owners, fresh, strict=True)]

    def lists(self, subset: Subset) -> bool:
        """Whether the sampler of its part can list a subset."""
        part, own = inner(subset)
        sampler = self.samplers[part]
        return isinstance(sampler, ListsSupport) and bool(sampler.lists(own))

    def repeats(self, subset: Subset) -> bool:
        """Whether the draws of its part repeat."""
        part, own = inner(subset)
        sampler = self.samplers[part]
        return (isinstance(sampler, RepeatsDraws) and bool(sampler.repeats(own))) or self.lists(subset)

    def support(self, inputs: Sequence[Parts], subset: Subset) -> tuple[list[list[Parts]], Floats]:
        """What the sampler of the part lists, each with the other parts as they are."""
        part, own = inner(subset)
        sampler = self.samplers[part]
        assert isinstance(sampler, ListsSupport)
        if info_of(sampler).whole:
            listed, mass = sampler.support(inputs, own)
            return listed, mass
        versions, mass = sampler.support([item[part] for item in inputs], own)
        return [[{**x, part: v} for v in row] for x, row in zip(inputs, versions, strict=True)], mass

    def notes(self, inputs: Sequence[Parts], subsets: Sequence[Sequence[Subset]], seed: int) -> list[str]:
        """What is to be said of it, and what the samplers of the parts say of themselves."""
        apart = len(self.samplers) > 1 and not all(info_of(sampler).whole for sampler in self.samplers.values())
        notes = [APART] if apart else []
        for part, sampler in self.samplers.items():
            if isinstance(sampler, HasNotes):
                given = [item if info_of(sampler).whole else item[part] for item in inputs]
                own = [[inner(subset)[1] for subset in some if subset.index[0] == part] for some in subsets]
                notes += sampler.notes(given, own, seed)
        return notes


def inner(subset: Subset) -> tuple[str, Subset]:
    """The part that a subset belongs to, and the subset as the sampler of that part knows it."""
    part, index = subset.index
    return part, Subset(subset.name.removeprefix(f"{part}: "), index)


def _floor(samplers: Mapping[str, Sampler], subset: Subset) -> float:
    part, own = inner(subset)
    return info_of(samplers[part]).floor(own)


HELD_VALUES = 2**26  # values of the inputs that the model is given at a time: 64 MB of images
MOST_ROWS = 256
KEEP = (3, 2**27)  # counterfactuals of each hypothesis that are kept, and the values of all of them


@documented
def explain(
    model: Any,
    inputs: Any,
    *,
    samplers: Mapping[str, Any],
    subsets: Mapping[str, Any],
    test: str | Procedure | None = None,
    alternative: Alternative | None = None,
    rule: str | None = None,
    family: Family = "run",
    groups: Any = None,
    weights_by: Any = None,
    target: Any = None,
    y: Any = None,
    link: Link | None = None,
    alpha: float = 0.1,
    decide: Callable[[Any], Any] | Literal[False] | None = None,
    level: float = 0.5,
    min_effect: float | None = None,
    draws: int | None = None,
    bounds: bool = False,
    picked: Callable[[Any], Any] | None = None,
    effects: EffectsOf | None = None,
    seed: int = 0,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
    options: RunOptions | None = None,
    workers: Any = None,
    run_dir: str | PathLike[str] | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
    batch_rows: int | None = None,
    timeout: float | None = None,
    on_error: OnError | None = None,
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
    {settings}

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
    settings = Settings.of(locals(), test="few-shot")
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
        inputs=MultimodalInputs(tuple(sampler.samplers)),
        data_dependent=data_dependent,
        keep=KEEP,
    )
    return run(context, settings)


def check_drawn(item: Parts, drawn: Any, subset: Subset) -> None:
    """Refuse a counterfactual in which more than the subset is new."""
    from butfor.image import region as images
    from butfor.text import segment as texts

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
