"""Sampler: another sampler whose fills are kept on disk, so that no second run pays for them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from butfor._version import __version__
from butfor.evaluation.samplers import HasNotes, Sampler, SamplerInfo, SeesRun, info_of
from butfor.image.region import Attribute, Box, Image, RegionWarning, at, bounds, check_image, mask_of
from butfor.types import Bools, InputError, ModelError, Subset

State = dict[str, Any]  # of a random stream, as JSON can hold it


@dataclass(frozen=True)
class Cached:
    """Fills by what determines them: image, region, sampler and the state of the stream. Made by `cached`."""

    sampler: Sampler
    folder: Path
    name: str

    def __repr__(self) -> str:
        return f"cached({self.sampler!r})"

    @property
    def info(self) -> SamplerInfo:
        """That of the sampler underneath, under its lasting name."""
        return replace(info_of(self.sampler), identity=self.name)

    def notes(self, inputs: Sequence[Image], subsets: Sequence[Sequence[Subset]], seed: int) -> list[str]:
        """What the sampler underneath has to say."""
        return self.sampler.notes(inputs, subsets, seed) if isinstance(self.sampler, HasNotes) else []

    def for_run(self, items: Sequence[Image], subsets: Sequence[Sequence[Subset]]) -> Cached:
        """The same of a sampler that follows the run; what it draws there has a name of its own."""
        inner = self.sampler.for_run(items, subsets) if isinstance(self.sampler, SeesRun) else self.sampler
        return self if inner is self.sampler else Cached(inner, self.folder, f"{self.name} | {info_of(inner).identity}")

    def __call__(self, inputs: Sequence[Image], subset: Subset, draws: int, rng: np.random.Generator) -> list[Image]:
        if isinstance(subset.index, Attribute):  # cheap, and a user's function has no name that lasts
            return list(self.sampler(inputs, subset, draws, rng))
        return [self._one(image, subset, rng) for image in inputs for _ in range(draws)]

    def _one(self, image: Image, subset: Subset, rng: np.random.Generator) -> Image:
        """One draw at a time: a run with more draws finds those of a run with fewer."""
        check_image(image)
        mask = mask_of(subset, *image.shape[:2])
        box = bounds(mask) if mask.any() else (0, 0, 0, 0)
        state = "" if self.info.deterministic else _written(_state(rng))
        file = self._file(image, mask, state)
        found = _read(file, box)
        if found is None:
            return self._drawn(image, subset, rng, state, file, box)
        part, after = found
        if after is not None:
            _advance(rng, after)  # as if it had been drawn
        out, inside = image.copy(), mask[at(box)]
        out[at(box)][inside] = part[inside]
        return out

    def _drawn(self, image: Image, subset: Subset, rng: np.random.Generator, state: str, file: Path, box: Box) -> Image:
        """A new draw, which is kept."""
        made = self.sampler([image], subset, 1, rng)
        if len(made) != 1:
            raise ModelError(f"{self.sampler!r} returned {len(made)} images for one image and one draw")
        check_image(made[0])
        fixed = self.info.deterministic
        if not fixed and _written(_state(rng)) == state:  # the next draw would be taken for this one
            warnings.warn(
                f"{self.sampler!r} takes no randomness from the rng that it is given: its fills cannot be kept, nor "
                "drawn again; use rng for all that is random",
                RegionWarning,
                stacklevel=2,
            )
        else:
            _write(file, made[0][at(box)], None if fixed else rng)
        return np.asarray(made[0])

    def _file(self, image: Image, mask: Bools, state: str) -> Path:
        key = hashlib.blake2b(digest_size=20)
        key.update(f"{__version__}|{self.name}|{image.shape}|{state}|".encode())
        key.update(np.ascontiguousarray(image).tobytes())
        key.update(np.packbits(mask).tobytes())
        name = key.hexdigest()
        return self.folder / name[:2] / f"{name}.png"


def cached(sampler: Sampler, folder: str | Path, *, name: str | None = None) -> Cached:
    """A sampler whose fills are kept: another alpha, test or model then costs no inpainting.

    A fill is found again by the bytes of the image, the region's pixels, the sampler's identity and the state of the
    random stream (of deterministic samplers: without it), so nothing else can be mistaken for it; changed inputs are
    drawn anew. Only the box around the region is stored, as PNG.

    Parameters
    ----------
    sampler : any sampler of images.
    folder : where the fills are; several processes may share it.
    name : stands for the sampler where it cannot be told from its repr; change it when the sampler changes.

    Examples
    --------
    >>> from butfor.image import telea
    >>> cached(telea(), "fills")
    cached(telea(radius=3))
    """
    if not callable(sampler):
        raise InputError(f"cached needs a sampler, got {type(sampler).__name__}")
    name = name or info_of(sampler).identity
    if " at 0x" in name:
        raise InputError(
            f"cached cannot tell {name} from others in a later run; name it: cached(sampler, folder, name='...')"
        )
    return Cached(sampler, Path(folder), name)


def not_kept(sampler: Sampler) -> Sampler:
    """The sampler whose fills are kept, or one that is not such."""
    return sampler.sampler if isinstance(sampler, Cached) else sampler


def _state(rng: np.random.Generator) -> State:
    """All that decides what `rng` gives next, its children included."""
    seeds = rng.bit_generator.seed_seq
    if not isinstance(seeds, np.random.SeedSequence):
        return {"bits": rng.bit_generator.state, "seeds": None, "spawned": 0}
    born = {"entropy": seeds.entropy, "spawn_key": seeds.spawn_key}
    return {"bits": rng.bit_generator.state, "seeds": born, "spawned": seeds.n_children_spawned}


def _advance(rng: np.random.Generator, state: State) -> None:
    more = state["spawned"] - _state(rng)["spawned"]
    rng.bit_generator.state = state["bits"]
    if more > 0:
        rng.spawn(more)


def _written(state: State) -> str:
    return json.dumps(state, sort_keys=True, default=_plain)


def _plain(value: object) -> object:
    return value.tolist() if isinstance(value, np.ndarray | np.integer) else str(value)


def _read(file: Path, box: Box) -> tuple[Image, State | None] | None:
    """The part of the image in `box` and the state of the stream after it; None if there is no such fill."""
    from PIL import Image as Pictures

    try:
        with Pictures.open(file) as picture:
            part, stated = np.array(picture), picture.info.get("state")
        shape = (box[3] - box[1], box[2] - box[0], 3)
        return (part, _restored(stated)) if part.shape == shape and part.dtype == np.uint8 else None
    except (OSError, ValueError, SyntaxError, KeyError, TypeError, AttributeError):
        return None  # absent or damaged: drawn again


def _restored(stated: str | None) -> State | None:
    if not stated:
        return None
    state: State = json.loads(stated)
    inner = state["bits"]["state"]
    state["bits"]["state"] = {k: np.array(v, np.uint64) if isinstance(v, list) else v for k, v in inner.items()}
    return state


def _write(file: Path, part: Image, rng: np.random.Generator | None) -> None:
    """Whole or not at all: written beside, then moved into place."""
    from PIL import Image as Pictures
    from PIL.PngImagePlugin import PngInfo

    info = PngInfo()
    if rng is not None:
        info.add_text("state", _written(_state(rng)))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(dir=file.parent, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as out:
                Pictures.fromarray(np.ascontiguousarray(part)).save(out, "PNG", compress_level=1, pnginfo=info)
            os.replace(beside, file)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise
    except OSError as error:
        raise InputError(
            f"a fill cannot be kept in {file.parent}: {error}; choose another folder for cached"
        ) from error
