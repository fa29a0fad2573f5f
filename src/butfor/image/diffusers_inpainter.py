"""Sampler: an inpainting pipeline of Hugging Face diffusers, which draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from butfor.core.types import Bools, InputError, ModelError, Subset
from butfor.image.blend import empty
from butfor.image.region import Image, fill_each
from butfor.models.optional import need, one_line


@dataclass(frozen=True, eq=False)
class DiffusersInpainter:
    """A pipeline, or the name or folder to load it from, and how to call it. Made by `diffusers_inpainter`."""

    pipe: Any
    prompt: str
    side: int | None
    options: Mapping[str, object] = field(default_factory=dict)

    changes_subset_only = True

    def __repr__(self) -> str:
        pipe = repr(self.pipe) if isinstance(self.pipe, str) else type(self.pipe).__name__
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"diffusers_inpainter({pipe}, prompt={self.prompt!r}, side={self.side}{options})"

    @property
    def identity(self) -> str:
        """With where the pipeline was loaded from; `cached` asks for a name where nothing says that."""
        if isinstance(self.pipe, str):
            return repr(self)
        source = _source(self.pipe)
        return f"{self!r} from {source}" if source else f"{self!r} at 0x{id(self.pipe):x}"

    def __call__(self, inputs: Sequence[Image], subset: Subset, draws: int, rng: np.random.Generator) -> list[Image]:
        return fill_each(inputs, subset, draws, rng, self.fill)

    def fill(self, image: Image, mask: Bools, rng: np.random.Generator) -> Image:
        """One draw: the image at the pipeline's size, the generator seeded from `rng`, the answer at the image's."""
        if isinstance(self.pipe, str):
            need("diffusers", None)  # it brings torch along: one sentence for both
        torch = need("torch", "hugging-face")
        from PIL import Image as Pictures

        pipe = _loaded(self.pipe) if isinstance(self.pipe, str) else self.pipe
        height, width = mask.shape
        across, down = _working_size(height, width, self.side)
        shown = Pictures.fromarray(empty(image, mask)).resize((across, down), Pictures.Resampling.BICUBIC)
        hole = Pictures.fromarray(mask.astype(np.uint8) * 255).resize((across, down), Pictures.Resampling.BILINEAR)
        hole = Pictures.fromarray((np.asarray(hole) > 0).astype(np.uint8) * 255)
        generator = torch.Generator("cpu").manual_seed(int(rng.integers(2**62)))
        asked = {"height": down, "width": across, **self.options}
        try:
            made = pipe(prompt=self.prompt, image=shown, mask_image=hole, generator=generator, **asked).images[0]
        except Exception as error:
            why = f"{type(error).__name__}: {one_line(error)}"
            raise ModelError(f"the pipeline {type(pipe).__name__} raised {why}") from error
        return np.asarray(made.convert("RGB").resize((width, height), Pictures.Resampling.BICUBIC))


def _source(pipe: Any) -> str | None:
    """What a pipeline was loaded from, where it says so."""
    try:
        return str(pipe.config._name_or_path or "")
    except AttributeError:
        return None


def _working_size(height: int, width: int, side: int | None) -> tuple[int, int]:
    """Width and height in steps of eight, the longer one `side` (None: as the image is)."""
    scale = 1.0 if side is None else side / max(height, width)
    return max(8, round(width * scale / 8) * 8), max(8, round(height * scale / 8) * 8)


@lru_cache(maxsize=1)
def _loaded(name: str) -> Any:
    diffusers = need("diffusers", None)
    try:
        pipe = diffusers.AutoPipelineForInpainting.from_pretrained(name)
    except Exception as error:  # hubs, files and networks fail in many ways
        raise InputError(f"no inpainting pipeline could be loaded from {name!r}: {one_line(error)[:300]}") from error
    pipe.set_progress_bar_config(disable=True)
    return pipe


def diffusers_inpainter(
    pipe: object, *, prompt: str = "", side: int | None = 512, **options: object
) -> DiffusersInpainter:
    """A sampler that draws from a diffusers inpainting pipeline, each draw from the run's own random stream.

    The hole is emptied before the pipeline sees it.

    Parameters
    ----------
    pipe : a pipeline, or a name or folder for `AutoPipelineForInpainting.from_pretrained`, loaded once per process.
    prompt : what it is told to fill in.
    side : pixels of the longer side of the image that it works on; None leaves the image as it is.
    **options : for the pipeline, such as `num_inference_steps=30`.

    Examples
    --------
    >>> diffusers_inpainter("stabilityai/stable-diffusion-2-inpainting", num_inference_steps=30)
    diffusers_inpainter('stabilityai/stable-diffusion-2-inpainting', prompt='', side=512, num_inference_steps=30)
    """
    pipe = str(pipe) if isinstance(pipe, Path) else pipe
    if not isinstance(pipe, str) and not callable(pipe):
        raise InputError(f"pipe must be a diffusers pipeline, or its name or folder, got {type(pipe).__name__}")
    if side is not None and (isinstance(side, bool) or side < 8):
        raise InputError(f"side must be at least 8 pixels or None, got {side!r}")
    taken = {"image", "mask_image", "generator"} & set(options)
    if taken:
        raise InputError(f"{', '.join(sorted(taken))} cannot be set: the sampler gives them to the pipeline itself")
    return DiffusersInpainter(pipe, str(prompt), side, dict(options))
