"""Inputs of several parts, such as an image and its caption: subsets of all of them in one run, a sampler for each."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import Any, Literal, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from butfor.evaluation.hypotheses import Hypotheses, Parts, finest_parts, is_blind, list_hypotheses
from butfor.evaluation.items import ListItems, same, size
from butfor.evaluation.progress import Progress
from butfor.evaluation.samplers import HasNotes, ListsSupport, Sampler, SamplerInfo, info_of, method
from butfor.image import region as images
from butfor.models import wrap
from butfor.models.wrap import model_name
from butfor.results.record import MultimodalInputs
from butfor.results.result import Result
from butfor.results.words import Note, as_note
from butfor.run.run import RunContext, run
from butfor.settings import EffectsOf, Link, OnError, Procedure, RunOptions, Settings, documented
from butfor.text import segment as texts
from butfor.text.fills import Rest
from butfor.types import Alternative, Array, Family, Floats, InputError, ModelError, Subset

Input = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class PartsSampler:
    """A sampler of inputs with several parts, made of one for each."""

    samplers: Mapping[str, Sampler]

    def __repr__(self) -> str:
        return f"multimodal({', '.join(f'{part}={sampler!r}' for part, sampler in self.samplers.items())})"

    @property
    def info(self) -> SamplerInfo:
        """A fault of one of them is a fault of all; a virtue must be one of each."""
        infos = list(map(info_of, self.samplers.values()))
        return SamplerInfo(
            identity=repr(self),
            deterministic=any(info.deterministic for info in infos),  # then no test of the run has a null
            ignores_dependence=any(info.ignores_dependence for info in infos),
            takes_missing=any(info.takes_missing for info in infos),
            keeps_input=any(info.keeps_input for info in infos),
            changes_subset_only=all(info.changes_subset_only for info in infos),
            floor=lambda subset: info_of(self._of(subset)[1]).floor(self._of(subset)[2]),
        )

    def _of(self, subset: Subset) -> tuple[str, Sampler, Subset]:
        """Return the part of a subset, its sampler, and the subset as that sampler knows it."""
        part, index = subset.index
        return part, self.samplers[part], Subset(subset.name.removeprefix(f"{part}: "), index)

    def __call__(self, inputs: Sequence[Input], subset: Subset, draws: int, rng: np.random.Generator) -> list[Input]:
        part, sampler, inner = self._of(subset)
        if info_of(sampler).whole:
            return list(sampler(inputs, inner, draws, rng))
        fresh = sampler([item[part] for item in inputs], inner, draws, rng)
        repeated = [item for item in inputs for _ in range(draws)]
        if len(fresh) != len(repeated):
            raise InputError(f"the sampler of {part!r} returned {len(fresh)} parts, expected {len(repeated)}")
        return [{**item, part: value} for item, value in zip(repeated, fresh, strict=True)]

    def lists(self, subset: Subset) -> bool:
        _, sampler, inner = self._of(subset)
        return isinstance(sampler, ListsSupport) and bool(sampler.lists(inner))

    def repeats(self, subset: Subset) -> bool:
        _, sampler, inner = self._of(subset)
        repeats = method(sampler, "repeats")
        return (repeats is not None and bool(repeats(inner))) or self.lists(subset)

    def support(self, inputs: Sequence[Input], subset: Subset) -> tuple[list[list[Input]], Floats]:
        part, sampler, inner = self._of(subset)
        assert isinstance(sampler, ListsSupport)
        if info_of(sampler).whole:
            return sampler.support(inputs, inner)
        versions, mass = sampler.support([item[part] for item in inputs], inner)
        return [[{**x, part: v} for v in row] for x, row in zip(inputs, versions, strict=True)], mass

    def notes(self, inputs: Sequence[Input], subsets: Sequence[Sequence[Subset]], seed: int) -> list[Note]:
        """Return whether parts are redrawn apart, and the notes of the samplers of the parts."""
        apart = len(self.samplers) > 1 and not all(info_of(sampler).whole for sampler in self.samplers.values())
        notes = [Note("parts-apart", "warning")] if apart else []
        for part, sampler in self.samplers.items():
            if isinstance(sampler, HasNotes):
                given = [item if info_of(sampler).whole else item[part] for item in inputs]
                inner = [[self._of(subset)[2] for subset in tested if subset.index[0] == part] for tested in subsets]
                notes += map(as_note, sampler.notes(given, inner, seed))
        return notes


@documented
def explain(
    model: object,
    inputs: object,
    *,
    samplers: Mapping[str, Any],
    subsets: Mapping[str, Any],
    test: str | Procedure | None = None,
    alternative: Alternative | None = None,
    rule: str | None = None,
    family: Family = "run",
    groups: ArrayLike | Mapping[Any, Hashable] | None = None,
    weights_by: ArrayLike | Callable[[Any, str], Hashable] | None = None,
    target: Hashable = None,
    y: ArrayLike | None = None,
    link: Link | None = None,
    alpha: float = 0.1,
    decide: Callable[[Any], Any] | Literal[False] | None = None,
    level: float = 0.5,
    simultaneous: bool = False,
    enough: float | None = None,
    min_effect: float | None = None,
    draws: int | None = None,
    bounds: bool = False,
    picked: Callable[[Any], Any] | None = None,
    effects: EffectsOf | None = None,
    seed: int = 0,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
    options: RunOptions | None = None,
    workers: object = None,
    run_dir: str | PathLike[str] | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
    batch_rows: int | None = None,
    timeout: float | None = None,
    on_error: OnError | None = None,
) -> Result:
    """Find the regions and words of inputs with several parts that the model relies on, with one guarantee for all.

    A subset is called after its part: "image: row 1 column 1" or "caption: dog".

    A part is redrawn given the rest of that part. That is the distribution given the rest of the input only if parts
    are independent; a sampler with an attribute `whole = True` is given all parts, and returns all of them.

    `test=None` is "few-shot", and effects are estimated only on demand.

    Parameters
    ----------
    model : callable
        A function of a list of inputs, each a mapping of its parts.
    inputs : list or mapping
        Mappings such as {"image": array, "caption": text}, or a mapping name -> such a mapping.
    samplers : mapping
        A sampler for each part that is tested, as `butfor.image` and `butfor.text` have them.
    subsets : mapping
        What to test in each part: a list of `Subset`, or a function (name, part) -> subsets such as
        `butfor.image.grid(3)` or `butfor.text.words()`.
    effects : {"all", "chosen"}, optional
        "chosen" estimates effects from fresh draws for what was chosen, "all" for all; None saves those.
    {settings}

    Returns
    -------
    Result
        The evidence for each subset, and the subsets chosen.

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
    names, items = _named(inputs)
    if not isinstance(samplers, Mapping) or not isinstance(subsets, Mapping):
        raise InputError("samplers and subsets must be mappings, part -> sampler and part -> what to test in it")
    if not subsets or any(part not in samplers for part in subsets):
        raise InputError(f"samplers has {list(samplers)} but subsets {list(subsets)}; give a sampler for each part")
    for part in subsets:
        if not callable(samplers[part]) or ":" in part:
            raise InputError(
                f"part {part!r} needs a name without a colon and a sampler (inputs, subset, draws, rng) -> inputs, got "
                f"{type(samplers[part]).__name__}"
            )
    sampler = PartsSampler({part: samplers[part] for part in subsets})
    proposed: list[list[Subset]] = []
    for name, item in zip(names, items, strict=True):
        proposed.append([])
        for part, given in subsets.items():
            if part not in item:
                raise InputError(f"input {name!r} has the parts {sorted(item)}, but subsets asks for {part!r}")
            for subset in given(name, item[part]) if callable(given) else given:
                if not isinstance(subset, Subset):
                    raise InputError(f"subsets of {part!r} must be butfor.Subset, got {type(subset).__name__}")
                proposed[-1].append(Subset(f"{part}: {subset.name}", (part, subset.index)))
        if len({subset.name for subset in proposed[-1]}) < len(proposed[-1]):
            raise InputError(f"two subsets of input {name!r} have the same name; give each its own")
    if not any(proposed):
        raise InputError("none of the inputs has anything to test; see subsets")
    check = None if info_of(sampler).changes_subset_only else check_drawn
    hypotheses = list_hypotheses(ListItems(items, check), names, proposed, sampler, settings.seed)
    context = RunContext(
        hypotheses=hypotheses,
        wrapped=wrap(model),
        model_name=model_name(model),
        batch_rows=int(np.clip(2**26 // max(1, *map(size, items)), 1, 256)),  # 64 MB of images at a time
        describe=lambda row: f"input {names[row]!r}",
        sampler_notes=partial(sampler.notes, items, proposed, settings.seed),
        inputs=MultimodalInputs(tuple(sampler.samplers)),
        data_dependent=any(callable(given) and not is_blind(given) for given in subsets.values()),
        keep=(3, 2**27),  # counterfactuals of each hypothesis, and values of all of them
        parts=None if settings.enough is None else kept_everywhere(hypotheses, sampler.samplers, items[0]),
    )
    return run(context, settings)


def check_drawn(item: Input, drawn: Any, subset: Subset) -> None:
    """Refuse a counterfactual in which more than the subset is new."""
    part, index = subset.index
    inner = Subset(subset.name, index)
    touched = [other for other in item if other != part and not same(item[other], drawn[other])]
    if touched:
        raise ModelError(f"the sampler of subset {subset.name!r} changed the part {touched[0]!r}, too")
    if isinstance(item[part], str):
        texts.check_drawn(item[part], drawn[part], inner)
    elif is_image(item[part]):
        images.check_drawn(item[part], drawn[part], inner)


def _named(inputs: Any) -> tuple[list[str], list[Input]]:
    """Return names and inputs; arrays are read-only, since an input shares its parts with all its draws."""
    pairs = list(inputs.items() if isinstance(inputs, Mapping) else enumerate(inputs, 1))
    if not pairs:
        raise InputError("inputs is empty; give at least one mapping such as {'image': array, 'caption': text}")
    items: list[Input] = []
    for name, item in pairs:
        if not isinstance(item, Mapping):
            raise InputError(
                f"input {name!r} is {type(item).__name__}, expected a mapping such as "
                "{'image': array, 'caption': text}; give a list of them, or a mapping name -> input"
            )
        views = {part: value.view() if isinstance(value, np.ndarray) else value for part, value in item.items()}
        for array in (value for value in views.values() if isinstance(value, np.ndarray)):
            array.setflags(write=False)
        items.append(views)
    return [name if isinstance(name, str) else f"input {name}" for name, _ in pairs], items


def is_image(value: object) -> TypeGuard[Array]:
    return isinstance(value, np.ndarray) and value.ndim == 3 and value.dtype == np.uint8


def kept_everywhere(hypotheses: Hypotheses, samplers: Mapping[str, Sampler], first: Input) -> Parts:
    """Return what may be enough for a decision (METHODS 17); `first` is an input: texts among its parts, and images.

    Each part is redrawn given what is kept of it, apart from the others. One of which nothing is kept is redrawn as a
    whole: a sampler of images that cannot do that leaves out such sets.
    """
    redrawn: dict[str, Sampler] = {}
    for part, sampler in samplers.items():
        if info_of(sampler).whole or not (is_image(first[part]) or isinstance(first[part], str)):
            raise InputError(
                f"enough= is for texts and images that are redrawn by themselves, and {part!r} is not; drop enough="
            )
        redrawn[part] = sampler if is_image(first[part]) else Rest(sampler)

    def rest_of(item: Input, kept: Sequence[Subset]) -> tuple[tuple[str, Any], ...] | None:
        rests = []
        for part in redrawn:
            inner = [Subset(one.name, one.index[1]) for one in kept if one.index[0] == part]
            if not inner and not fills_whole(part):
                return None
            rest = (texts if isinstance(item[part], str) else images).rest_of(item[part], inner)
            rests += [] if rest is None else [(part, rest)]
        return tuple(rests) or None

    def fills_whole(part: str) -> bool:
        return isinstance(redrawn[part], Rest) or info_of(redrawn[part]).fills_whole

    sampler = RestOfParts(redrawn, info_of(hypotheses.sampler))
    return Parts(finest_parts(hypotheses), rest_of, sampler, all(map(fills_whole, redrawn)))


@dataclass(frozen=True, eq=False)
class RestOfParts:
    """Redraws something of several parts of an input, each by its sampler."""

    samplers: Mapping[str, Sampler]
    info: SamplerInfo

    def __repr__(self) -> str:
        return self.info.identity

    def __call__(self, inputs: Sequence[Input], subset: Subset, draws: int, rng: np.random.Generator) -> list[Input]:
        made = [dict(item) for item in inputs for _ in range(draws)]
        for part, rest in subset.index:
            fresh = self.samplers[part]([item[part] for item in inputs], Subset(subset.name, rest), draws, rng)
            for item, value in zip(made, fresh, strict=True):
                item[part] = value
        return list(made)
