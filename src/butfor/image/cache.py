"""Sampler: another sampler with its fills stored on disk, so that no second run pays for them."""

from __future__ import annotations

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
from butfor.types import InputError, ModelError, Subset, reworded


@dataclass(frozen=True)
class Cached:
    """Fills stored under what determines them: image, region, sampler and state of the stream. Made by `cached`."""

    sampler: Sampler
    folder: Path
    name: str

    def __repr__(self) -> str:
        return f"cached({self.sampler!r})"

    @property
    def info(self) -> SamplerInfo:
        return replace(info_of(self.sampler), identity=self.name)

    def notes(self, inputs: Sequence[Image], subsets: Sequence[Sequence[Subset]], seed: int) -> list[Any]:
        return self.sampler.notes(inputs, subsets, seed) if isinstance(self.sampler, HasNotes) else []

    def for_run(self, items: Sequence[Image], subsets: Sequence[Sequence[Subset]]) -> Cached:
        inner = self.sampler.for_run(items, subsets) if isinstance(self.sampler, SeesRun) else self.sampler
        return self if inner is self.sampler else Cached(inner, self.folder, f"{self.name} | {info_of(inner).identity}")

    def __call__(self, inputs: Sequence[Image], subset: Subset, draws: int, rng: np.random.Generator) -> list[Image]:
        if isinstance(subset.index, Attribute):  # cheap, and a user's function has no lasting name
            return list(self.sampler(inputs, subset, draws, rng))
        return [self._draw(image, subset, rng) for image in inputs for _ in range(draws)]

    def _draw(self, image: Image, subset: Subset, rng: np.random.Generator) -> Image:
        """Return one draw: a run with more draws then reuses those of a run with fewer."""
        check_image(image)
        mask = mask_of(subset, *image.shape[:2])
        box = bounds(mask) if mask.any() else (0, 0, 0, 0)
        fixed = self.info.deterministic
        before = "" if fixed else _state(rng)
        key = hashlib.blake2b(digest_size=20)
        key.update(f"{__version__}|{self.name}|{image.shape}|{before}|".encode())
        key.update(np.ascontiguousarray(image).tobytes())
        key.update(np.packbits(mask).tobytes())
        file = self.folder / key.hexdigest()[:2] / f"{key.hexdigest()}.png"
        stored = _read(file, box)
        if stored is not None:
            part, after = stored
            if after is not None:  # advance the stream as if it had been drawn
                children = after["spawned"] - json.loads(_state(rng))["spawned"]
                rng.bit_generator.state = after["bits"]
                if children > 0:
                    rng.spawn(children)
            out, inside = image.copy(), mask[at(box)]
            out[at(box)][inside] = part[inside]
            return out
        made = self.sampler([image], subset, 1, rng)
        if len(made) != 1:
            raise ModelError(f"{self.sampler!r} returned {len(made)} images for one image and one draw")
        check_image(made[0])
        if not fixed and _state(rng) == before:  # the next draw would be taken for this one
            warnings.warn(
                f"{self.sampler!r} takes no randomness from the rng that it is given: its fills cannot be kept, nor "
                "drawn again; use rng for all that is random",
                RegionWarning,
                stacklevel=2,
            )
        else:
            _write(file, made[0][at(box)], None if fixed else rng)
        return np.asarray(made[0])


def cached(sampler: Sampler, folder: str | Path, *, name: str | None = None) -> Cached:
    """Keep a sampler's fills on disk: another alpha, test or model then costs no inpainting.

    The key of a fill is the image, the region's pixels, the sampler's identity and the state of the random stream (not
    for deterministic samplers). Only the box around the region is stored, as PNG.

    Parameters
    ----------
    sampler : callable
        Any sampler of images.
    folder : str or Path
        Where the fills are; several processes may share it.
    name : str, optional
        Identifies a sampler whose repr does not; change it when the sampler changes.

    Returns
    -------
    Cached
        A sampler.

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


def _state(rng: np.random.Generator) -> str:
    """Return the state of a random stream as JSON."""

    def plain(value: object) -> object:
        return value.tolist() if isinstance(value, np.ndarray | np.integer) else str(value)

    origin, spawned = None, 0
    if isinstance(seeds := rng.bit_generator.seed_seq, np.random.SeedSequence):
        origin, spawned = {"entropy": seeds.entropy, "spawn_key": seeds.spawn_key}, seeds.n_children_spawned
    state = {"bits": rng.bit_generator.state, "seeds": origin, "spawned": spawned}
    return json.dumps(state, sort_keys=True, default=plain)


def _read(file: Path, box: Box) -> tuple[Image, dict[str, Any] | None] | None:
    """Return the pixels of `box` and the state of the stream after them; None if there is no such fill."""
    from PIL import Image as Pictures

    try:
        with Pictures.open(file) as picture:
            part, text = np.array(picture), picture.info.get("state")
        if part.shape != (box[3] - box[1], box[2] - box[0], 3) or part.dtype != np.uint8:
            return None
        if not text:
            return part, None
        state = json.loads(text)
        inner = state["bits"]["state"]
        state["bits"]["state"] = {k: np.array(v, np.uint64) if isinstance(v, list) else v for k, v in inner.items()}
        return part, state
    except (OSError, ValueError, SyntaxError, KeyError, TypeError, AttributeError):
        return None  # absent or damaged: drawn again


def _write(file: Path, part: Image, rng: np.random.Generator | None) -> None:
    """Write a temporary file and rename it, so that no process reads half of one."""
    from PIL import Image as Pictures
    from PIL.PngImagePlugin import PngInfo

    info = PngInfo()
    if rng is not None:
        info.add_text("state", _state(rng))
    beside = None
    try:
        with reworded(f"a fill cannot be kept in {file.parent}: ", OSError, advice="; choose another folder"):
            file.parent.mkdir(parents=True, exist_ok=True)
            handle, beside = tempfile.mkstemp(dir=file.parent, suffix=".part")
            with os.fdopen(handle, "wb") as out:
                Pictures.fromarray(np.ascontiguousarray(part)).save(out, "PNG", compress_level=1, pnginfo=info)
            os.replace(beside, file)
    finally:
        if beside is not None:
            Path(beside).unlink(missing_ok=True)  # of a write that failed
