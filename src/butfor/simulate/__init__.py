"""Beds with known truth: the paper's four and those on which methods are tried, or known to fail."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, overload

from butfor.simulate import about_model, known, paper
from butfor.simulate.beds import Bed
from butfor.simulate.images import ImageBed, textures
from butfor.simulate.texts import TextBed, sentences
from butfor.types import InputError, whole

__all__ = ["BEDS", "Bed", "ImageBed", "TextBed", "bed"]

BEDS: dict[str, Callable[[str, int], Bed]] = {
    "independent-discontinuous": partial(paper.discontinuous, correlated=False),
    "correlated-discontinuous": partial(paper.discontinuous, correlated=True),
    "independent-network": partial(paper.network, correlated=False),
    "correlated-network": partial(paper.network, correlated=True),
    "sum-of-abs-independent": partial(paper.absolute, correlated=False),
    "sum-of-abs-correlated": partial(paper.absolute, correlated=True),
    # 10^5 hypotheses, about 1,000 of them true
    "sparse": partial(paper.absolute, correlated=False, inputs=4000, share=0.01),
    "linear": known.linear_gaussian,
    "interactions": known.interactions,
    "few": known.few,
    "clones": known.clones,
    "parity": known.parities,
    "global-contrast": known.global_contrast,
    "boosted-trees": about_model.boosted_trees,
    "copies": about_model.copies,
}


IMAGES = {"textures": textures}
TEXTS: dict[str, Callable[[str, int], TextBed]] = {
    "sentences": sentences,
    "sentences-tied": partial(sentences, tied=True),
}


@overload
def bed(name: Literal["textures"], seed: int = 0) -> ImageBed: ...  # type: ignore[overload-overlap]


@overload
def bed(name: Literal["sentences", "sentences-tied"], seed: int = 0) -> TextBed: ...  # type: ignore[overload-overlap]


@overload
def bed(name: str, seed: int = 0) -> Bed: ...


def bed(name: str, seed: int = 0) -> Bed | ImageBed | TextBed:
    """The bed of that name for one run: `.inputs`, `.model`, `.sampler` and `.truth`, all fixed by the seed.

    Parameters
    ----------
    name : "textures" has images and their `.boxes`, "sentences" and "sentences-tied" have texts and their `.subsets`;
        those of `BEDS` are tables.
    seed : the same seed gives the same bed.

    Examples
    --------
    >>> bed("interactions", seed=1)
    <Bed 'interactions': 100 inputs, 24 columns, 473 true signals>
    >>> bed("sentences", seed=1)
    <TextBed 'sentences': 30 texts, 12 words, 55 true signals>
    """
    seed = whole("seed", seed, 0)
    if name in IMAGES:
        return IMAGES[name](seed)
    if name not in {**BEDS, **TEXTS}:
        raise InputError(f"unknown bed {name!r}; choose one of {', '.join([*BEDS, *IMAGES, *TEXTS])}")
    return TEXTS[name](name, seed) if name in TEXTS else BEDS[name](name, seed)
