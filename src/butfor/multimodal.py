"""Inputs of several parts, such as an image and its caption: subsets of all of them in one run, a sampler for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from butfor._arguments import checked, is_ours, model_name
from butfor._progress import Progress
from butfor._run import Setting, run
from butfor.core.calls import size
from butfor.core.chance import same
from butfor.core.draws import list_problem
from butfor.core.result import Result
from butfor.core.types import Alternative, Family, Floats, InputError, ModelError, Subset, Test
from butfor.models import wrap

Parts = Mapping[str, Any]
HELD_VALUES = 2**26  # values of the inputs that the model is given at a time: 64 MB of images
MOST_ROWS = 256
APART = (
    "Each part is redrawn given the rest of that part alone. Where parts tell of each other, as a caption does of its "
    "image, that is not the law of the one given the other: use a sampler with whole=True, which is shown all parts."
)


def explain(
    model: Any,
    inputs: Any,
    *,
    samplers: Mapping[str, Any],
    subsets: Mapping[str, Any],
    test: Test | None = None,
    alternative: Alternative | None = None,
    rule: str | None = None,
    family: Family = "run",
    target: Any = None,
    y: Any = None,
    link: Literal["logit", "log"] | None = None,
    alpha: float = 0.1,
    draws: int | None = None,
    center: int | None = None,
    h: int = 10,
    early_stop: bool = False,
    delta: float = 0.01,
    scale: Literal["shrunk"] | None = None,
    picked: Callable[[Any], Any] | None = None,
    seed: int = 0,
    batch_rows: int | None = None,
    run_dir: str | Path | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
    keep_effects: bool = False,
) -> Result:
    """Which regions and which words of inputs with several parts the model relies on, with one guarantee for all.

    `inputs` is a list of mappings such as {"image": array, "caption": text}, or a mapping name -> such a mapping;
    `model` takes a list of them. `samplers` has a sampler for each part that is tested, as `butfor.image` and
    `butfor.text` have them; `subsets` says what to test there: a list of `Subset`, or a function (name, part) ->
    subsets such as `butfor.image.grid(3)` or `butfor.text.words()`. A subset is then called "image: row 1 column 1" or
    "caption: dog".

    A part is redrawn given the rest of that part. That is the law given the whole input only if parts do not tell of
    each other; a sampler with an attribute `whole = True` is given all parts, and gives all of them back.

    `test=None` is "few-shot". Everything else is as in `butfor.explain`.

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
    asked = checked(
        test=test or "few-shot",
        alternative=alternative,
        rule=rule,
        family=family,
        link=link,
        alpha=alpha,
        draws=draws,
        center=center,
        h=h,
        early_stop=early_stop,
        delta=delta,
        scale=scale,
        picked=picked,
        seed=seed,
        batch_rows=batch_rows,
    )
    names, items = named(inputs)
    together = combined(samplers, subsets)
    found = [proposed(name, item, subsets) for name, item in zip(names, items, strict=True)]
    if not any(found):
        raise InputError("none of the inputs has anything to test; see subsets")
    looked = any(callable(own) and not getattr(own, "blind", False) for own in subsets.values())
    check = None if all(map(is_ours, together.samplers.values())) else check_drawn
    problem = list_problem(items, names, found, together, asked.seed, check)
    setting = Setting(
        problem=problem,
        wrapped=wrap(model),
        model_name=model_name(model),
        batch_rows=int(np.clip(HELD_VALUES // max(1, *map(size, items)), 1, MOST_ROWS)),
        describe=lambda row: f"input {names[row]!r}",
        show=list,
        look=together.look,
        facts={"modality": "multimodal", "parts": list(together.samplers), "looked": looked},
    )
    return run(setting, asked, target=target, y=y, progress=progress, keep_effects=keep_effects, run_dir=run_dir)


def check_drawn(item: Parts, drawn: Any, subset: Subset) -> None:
    """Refuse a counterfactual in which more than the subset is new."""
    from butfor.image import checked as images
    from butfor.text import checked as texts

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
    return [name if isinstance(name, str) else f"input {name}" for name, _ in pairs], [item for _, item in pairs]


def combined(samplers: Mapping[str, Any], subsets: Mapping[str, Any]) -> Together:
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
    return Together({part: samplers[part] for part in subsets})


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


@dataclass(frozen=True, eq=False)
class Together:
    """A sampler of inputs with several parts, made of one for each."""

    samplers: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"multimodal({', '.join(f'{part}={sampler!r}' for part, sampler in self.samplers.items())})"

    def __call__(self, inputs: Sequence[Parts], subset: Subset, draws: int, rng: np.random.Generator) -> list[Parts]:
        part, own = _inner(subset)
        sampler = self.samplers[part]
        if _whole(sampler):
            return list(sampler(inputs, own, draws, rng))
        fresh = sampler([item[part] for item in inputs], own, draws, rng)
        owners = [item for item in inputs for _ in range(draws)]
        if len(fresh) != len(owners):
            raise InputError(f"the sampler of {part!r} returned {len(fresh)} parts, expected {len(owners)}")
        return [{**item, part: value} for item, value in zip(owners, fresh, strict=True)]

    @property
    def deterministic(self) -> bool:
        """Whether one of them always draws the same: then no test of the whole run has a null."""
        return any(getattr(sampler, "deterministic", False) for sampler in self.samplers.values())

    def lists(self, subset: Subset) -> bool:
        """Whether the sampler of its part can list a subset."""
        return self._says(subset, "lists")

    def repeats(self, subset: Subset) -> bool:
        """Whether the draws of its part repeat."""
        return self._says(subset, "repeats") or self.lists(subset)

    def _says(self, subset: Subset, what: str) -> bool:
        part, own = _inner(subset)
        says = getattr(self.samplers[part], what, None)
        return bool(says is not None and says(own))

    def support(self, inputs: Sequence[Parts], subset: Subset) -> tuple[list[list[Parts]], Floats]:
        """What the sampler of the part lists, each with the other parts as they are."""
        part, own = _inner(subset)
        sampler = self.samplers[part]
        if _whole(sampler):
            listed, mass = sampler.support(inputs, own)
            return listed, mass
        versions, mass = sampler.support([item[part] for item in inputs], own)
        return [[{**x, part: v} for v in row] for x, row in zip(inputs, versions, strict=True)], mass

    def look(self) -> list[str]:
        """What is to be said of it."""
        apart = len(self.samplers) > 1 and not all(map(_whole, self.samplers.values()))
        return [APART] if apart else []


def _inner(subset: Subset) -> tuple[str, Subset]:
    """The part that a subset belongs to, and the subset as the sampler of that part knows it."""
    part, index = subset.index
    return part, Subset(subset.name.removeprefix(f"{part}: "), index)


def _whole(sampler: Any) -> bool:
    return bool(getattr(sampler, "whole", False))
