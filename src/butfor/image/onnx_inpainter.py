"""Sampler: an inpainting network in ONNX, with the inputs of MI-GAN's pipeline or of LaMa."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from butfor.core.checks import one_of
from butfor.core.types import Array, Bools, InputError, ModelError, Subset
from butfor.image.blend import empty, to_size
from butfor.image.onnx_graph import Graph, open_graph
from butfor.image.region import Box, Image, at, bounds, fill_each
from butfor.models.optional import need

Convention = Literal["migan", "lama"]
KEPT_VALUES = 2**23  # of a photograph: what a larger one takes is given back


@dataclass(frozen=True)
class OnnxInpainter:
    """A network that fills the hole it is shown. Made by `onnx_inpainter`."""

    graph: Graph
    convention: Convention
    image_input: str
    mask_input: str
    side: int | None  # of the square a LaMa network takes; None: any size
    blind: bool

    deterministic = True
    changes_subset_only = True

    def __repr__(self) -> str:
        emptied = ", blind=True" if self.blind else ""
        return f"onnx_inpainter({self.graph.path.name}, convention={self.convention!r}{emptied})"

    @property
    def identity(self) -> str:
        return f"onnx_inpainter({self.graph.digest}, {self.convention}, blind={self.blind})"

    def __call__(self, inputs: Sequence[Image], subset: Subset, draws: int, rng: np.random.Generator) -> list[Image]:
        return fill_each(inputs, subset, draws, rng, self.fill, once=True)

    def fill(self, image: Image, mask: Bools, rng: np.random.Generator) -> Image:  # noqa: ARG002
        shown = empty(image, mask) if self.blind else image
        return self._migan(shown, mask) if self.convention == "migan" else self._lama(shown, mask)

    def _migan(self, image: Image, mask: Bools) -> Image:
        known = np.where(mask, 0, 255).astype(np.uint8)
        result = self._run(np.ascontiguousarray(image.transpose(2, 0, 1)[None]), known[None, None])
        return np.asarray(np.clip(result, 0, 255), np.uint8)

    def _lama(self, image: Image, mask: Bools) -> Image:
        """The surroundings of the hole at the network's size, or at any in steps of eight pixels."""
        cv2 = need("cv2", "image")

        where = at(_around(mask, self.side))
        part: Array = image[where]
        hole: Array = mask[where].astype(np.float32)
        height, width = hole.shape
        if self.side:
            part, hole = to_size(part, self.side, self.side), cv2.resize(hole, (self.side, self.side))
        else:
            missing = (0, -height % 8), (0, -width % 8)
            part, hole = np.pad(part, (*missing, (0, 0)), mode="edge"), np.pad(hole, missing, mode="edge")
        pixels = np.ascontiguousarray(part.transpose(2, 0, 1)[None], dtype=np.float32) / 255
        result = self._run(pixels, (hole > 0).astype(np.float32)[None, None]).astype(np.float32)
        if result.max() <= 1.5:  # some exports return shares, some grey levels
            result = result * 255
        fitted = cv2.resize(result, (width, height), interpolation=cv2.INTER_CUBIC) if self.side else result
        out = image.copy()
        out[where] = np.clip(np.rint(fitted[:height, :width]), 0, 255).astype(np.uint8)
        return out

    def _run(self, pixels: Array, mask: Array) -> Array:
        """What the network makes of one image, (height, width, 3).

        Inside, these work at one size whatever the photograph's is: memory kept between calls saves a quarter of it.
        """
        fixed = self.convention == "migan" or self.side is not None
        graph = replace(self.graph, arena=fixed and pixels.size <= KEPT_VALUES)
        result = graph.run({self.image_input: pixels, self.mask_input: mask})[0]
        if result.shape != pixels.shape:
            raise ModelError(f"{graph.path.name} returned shape {result.shape} for an image {pixels.shape}")
        return np.asarray(result[0].transpose(1, 2, 0))


def _around(mask: Bools, side: int | None) -> Box:
    """The hole with its surroundings, as square as the image allows: as much again on every side."""
    height, width = mask.shape
    if side is None:
        return 0, 0, width, height
    x1, y1, x2, y2 = bounds(mask)
    reach = max(2 * (x2 - x1), 2 * (y2 - y1), min(side, 128))
    left, top = max(0, min((x1 + x2 - reach) // 2, width - reach)), max(0, min((y1 + y2 - reach) // 2, height - reach))
    return min(left, x1), min(top, y1), max(min(left + reach, width), x2), max(min(top + reach, height), y2)


def onnx_inpainter(
    path: str | Path, *, convention: Convention | None = None, blind: bool = False, threads: int | None = None
) -> OnnxInpainter:
    """A sampler that fills the hole with a network. Deterministic: see `diversify`.

    The network is shown the image as it is, as published results were made. Networks that resize before they mask then
    let the hole's content seep into the fill, so that `Q(x_S | x_-S)` depends on `x_S`: MI-GAN's fills change by 10
    to 45 grey levels with it.

    Parameters
    ----------
    path : an ONNX file with the inputs of MI-GAN's pipeline or of LaMa.
    convention : "migan" takes image and mask as uint8 of any size, mask 255 where pixels are known; "lama" takes both
        as float32, the image from 0 to 1 and the mask 1 in the hole (the part of the image around the hole is fitted
        to a fixed size). None tells from the file's inputs.
    blind : whether the hole is emptied first; `diversify`, which a test with a guarantee needs, always does that.
    threads : None is OMP_NUM_THREADS if set, else as many as onnxruntime likes.

    Examples
    --------
    >>> onnx_inpainter("migan.onnx")
    Traceback (most recent call last):
    butfor.core.types.InputError: the ONNX file migan.onnx does not exist; give the path of an ONNX file
    """
    one_of("convention", convention, (None, "migan", "lama"))
    graph = open_graph(path, threads)
    inputs = {entry.name: entry for entry in graph.session.get_inputs()}
    masks = [name for name, entry in inputs.items() if "mask" in name.lower() or entry.shape[1] == 1]
    images = [name for name in inputs if name not in masks]
    if len(images) != 1 or len(masks) != 1:
        shown = ", ".join(f"{name} {entry.type} {entry.shape}" for name, entry in inputs.items())
        raise InputError(
            f"{graph.path.name} has the inputs {shown}; expected an image (n, 3, height, width) and a mask (n, 1, "
            "height, width) as of MI-GAN's pipeline or LaMa; wrap other networks in a function of your own"
        )
    entry = inputs[images[0]]
    guessed: Convention = "migan" if entry.type == "tensor(uint8)" else "lama"
    fixed = [size for size in entry.shape[2:] if isinstance(size, int)]
    if len(set(fixed)) > 1:
        raise InputError(f"{graph.path.name} takes images of {entry.shape}; expected a square or any size")
    return OnnxInpainter(graph, convention or guessed, images[0], masks[0], fixed[0] if fixed else None, bool(blind))
