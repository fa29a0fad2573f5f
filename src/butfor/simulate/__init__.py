"""Beds with known truth: the paper's four and those on which methods are tried, or known to fail."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, overload

from butfor.simulate import tables
from butfor.simulate.images import ImageBed, textures
from butfor.simulate.tables import Bed
from butfor.simulate.texts import TextBed, sentences
from butfor.types import InputError, whole

__all__ = ["BEDS", "Bed", "ImageBed", "TextBed", "bed"]

BEDS: dict[str, Callable[[str, int], Bed]] = {
    "independent-discontinuous": partial(tables.discontinuous, correlated=False),
    "correlated-discontinuous": partial(tables.discontinuous, correlated=True),
    "independent-network": partial(tables.network, correlated=False),
    "correlated-network": partial(tables.network, correlated=True),
    "sum-of-abs-independent": partial(tables.absolute, correlated=False),
    "sum-of-abs-correlated": partial(tables.absolute, correlated=True),
    # 10^5 hypotheses, about 1,000 of them true
    "sparse": partial(tables.absolute, correlated=False, inputs=4000, share=0.01),
    "linear": tables.linear_gaussian,
    "interactions": tables.interactions,
    "few": tables.few,
    "clones": tables.clones,
    "parity": tables.parities,
    "global-contrast": tables.global_contrast,
    "boosted-trees": tables.boosted_trees,
    "copies": tables.copies,
}
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
    """Return the bed of that name for one run: `.inputs`, `.model`, `.sampler` and `.truth`, all fixed by the seed.

    Parameters
    ----------
    name : str
        "textures" has images and their `.boxes`, "sentences" and "sentences-tied" have texts and their `.subsets`;
        those of `BEDS` are tables.
    seed : int
        The same seed gives the same bed.

    Returns
    -------
    Bed, ImageBed or TextBed
        Inputs, model, sampler and truth.

    Examples
    --------
    >>> bed("interactions", seed=1)
    <Bed 'interactions': 100 inputs, 24 columns, 473 true signals>
    >>> bed("sentences", seed=1)
    <TextBed 'sentences': 30 texts, 12 words, 55 true signals>
    """
    seed = whole("seed", seed, 0)
    if name == "textures":
        return textures(seed)
    if name not in {**BEDS, **TEXTS}:
        raise InputError(f"unknown bed {name!r}; choose one of {', '.join([*BEDS, 'textures', *TEXTS])}")
    return TEXTS[name](name, seed) if name in TEXTS else BEDS[name](name, seed)
