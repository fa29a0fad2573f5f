"""Samplers that inpaint: ONNX networks, OpenCV, diffusers, and `diversify`, which makes their draws differ."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from butfor.evaluation.samplers import HasNotes, Sampler, SamplerInfo, info_of
from butfor.image.region import Box, Image, at, bounds, check_context, check_image, fill_each, grown
from butfor.models.onnx import check_threads, open_session
from butfor.models.wrap import need
from butfor.types import Array, Bools, InputError, ModelError, Subset, reworded


@dataclass(frozen=True)
class Graph:
    """An ONNX file and its threads (None: OMP_NUM_THREADS if set, else onnxruntime's choice)."""

    path: Path
    threads: int | None = None
    arena: bool = False  # keep memory between calls: faster for one size of inputs, ever more memory for many

    @property
    def session(self) -> Any:
        return open_session(self.path, threads=self.threads, arena=self.arena, extra="image")

    @property
    def digest(self) -> str:
        """Hash the file's bytes: a renamed network is the same network."""
        return _digest(str(self.path), self.path.stat().st_mtime_ns)

    def run(self, feeds: dict[str, Array]) -> list[Array]:
        shapes, session = ", ".join(f"{name} {fed.dtype} {fed.shape}" for name, fed in feeds.items()), self.session
        with reworded(f"{self.path.name} failed on {shapes}: ", by=ModelError):  # ONNX Runtime raises many types
            return [np.asarray(output) for output in session.run(None, feeds)]


def open_graph(path: str | Path, threads: int | None, *, arena: bool = False) -> Graph:
    """Return the graph at `path`, which is opened once to check it."""
    open_session(path, threads=check_threads(threads), arena=arena, extra="image")
    return Graph(Path(path).expanduser().resolve(), threads, arena)


@lru_cache(maxsize=8)
def _digest(path: str, changed: int) -> str:  # noqa: ARG001
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:16]


def empty(image: Image, mask: Bools) -> Image:
    """Return a copy in which every pixel of the hole is its nearest pixel outside.

    An inpainter that gets this cannot know the content of the hole, whatever it does before it masks.

    >>> image = np.arange(4, dtype=np.uint8).reshape(1, 4, 1).repeat(3, axis=2)
    >>> empty(image, np.array([[False, False, True, True]]))[0, :, 0].tolist()
    [0, 1, 1, 1]
    """
    from scipy.ndimage import distance_transform_edt

    around = at(grown(bounds(mask), 1, *mask.shape))
    inside = mask[around]
    if inside.all():  # nothing outside
        return np.full_like(image, 127)
    rows, columns = distance_transform_edt(inside, return_distances=False, return_indices=True)
    out = image.copy()
    part = out[around]
    part[inside] = part[rows[inside], columns[inside]]
    return out


def settle_seam(image: Image, fill: Image, mask: Bools, feather: float, filled: Bools | None = None) -> Image:
    """Blend `fill` into `image` along the inner edge of the hole, without using its content, so that no seam is seen.

    The error of `fill` in a ring outside the hole (`filled`, all around if None) fades inwards over `feather` pixels.

    >>> dark, light = np.zeros((9, 9, 3), np.uint8), np.full((9, 9, 3), 40, np.uint8)
    >>> hole = np.pad(np.ones((5, 5), bool), 2)
    >>> settle_seam(dark, light, hole, feather=2)[4, 2:7, 0].tolist()
    [0, 20, 40, 20, 0]
    """
    cv2 = need("cv2", "image")
    around = at(grown(bounds(mask), 8, *mask.shape))
    inside = mask[around]
    outside = ~inside if filled is None else filled[around] & ~inside
    if not outside.any() or feather <= 0:
        return fill
    ring = outside.astype(np.float32)
    error = image[around].astype(np.float32) - fill[around]
    weight = np.maximum(cv2.GaussianBlur(ring, (0, 0), 2), 1e-3)[..., None]
    known = cv2.GaussianBlur(error * ring[..., None], (0, 0), 2) / weight
    distance, label = cv2.distanceTransformWithLabels(
        inside.astype(np.uint8), cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL
    )
    nearest = np.zeros((int(label.max()) + 1, 3), np.float32)
    nearest[label[~inside]] = known[~inside]
    error = nearest[label]  # of the nearest pixel outside, at the edge
    side = 2 * int(feather / 2) + 1
    deep = np.clip(distance / (0.5 * feather), 0, 1)[..., None]
    error = error + deep * (cv2.blur(cv2.blur(error, (side, side)), (side, side)) - error)  # means of many, deeper in
    fade = np.clip(1 - (distance - 1) / feather, 0, 1)[..., None]
    out = fill.copy()
    out[around] = np.clip(np.rint(fill[around] + error * fade), 0, 255).astype(np.uint8)
    return out


def to_size(array: Array, width: int, height: int) -> Array:
    cv2 = need("cv2", "image")
    method = cv2.INTER_AREA if width < array.shape[1] else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(array, (width, height), interpolation=method))


Convention = Literal["migan", "lama"]


@dataclass(frozen=True)
class OnnxInpainter:
    """A network that fills a hole. Made by `onnx_inpainter`."""

    graph: Graph
    convention: Convention
    image_input: str
    mask_input: str
    side: int | None  # of the square a LaMa network takes; None: any size
    blind: bool

    deterministic = True
    changes_subset_only = True

    def __repr__(self) -> str:
        return f"onnx_inpainter({self.graph.path.name}{', blind=True' if self.blind else ''})"

    @property
    def identity(self) -> str:
        return f"onnx_inpainter({self.graph.digest}, blind={self.blind})"

    def __call__(self, inputs: Sequence[Image], subset: Subset, draws: int, rng: np.random.Generator) -> list[Image]:
        return fill_each(inputs, subset, draws, rng, self.fill, once=True)

    def fill(self, image: Image, mask: Bools, rng: np.random.Generator) -> Image:  # noqa: ARG002
        image, (height, width) = empty(image, mask) if self.blind else image, mask.shape
        if self.convention == "migan":
            known = np.where(mask, 0, 255).astype(np.uint8)
            result = self._run(np.ascontiguousarray(image.transpose(2, 0, 1)[None]), known[None, None])
            return np.asarray(np.clip(result, 0, 255), np.uint8)
        cv2 = need("cv2", "image")
        box: Box = (0, 0, width, height)
        if self.side is not None:  # the hole with as much again on every side, as square as the image allows
            x1, y1, x2, y2 = bounds(mask)
            extent = max(2 * (x2 - x1), 2 * (y2 - y1), min(self.side, 128))
            left = max(0, min((x1 + x2 - extent) // 2, width - extent))
            top = max(0, min((y1 + y2 - extent) // 2, height - extent))
            right, bottom = max(min(left + extent, width), x2), max(min(top + extent, height), y2)
            box = min(left, x1), min(top, y1), right, bottom
        part: Array = image[at(box)]
        hole: Array = mask[at(box)].astype(np.float32)
        height, width = hole.shape
        if self.side:
            part, hole = to_size(part, self.side, self.side), cv2.resize(hole, (self.side, self.side))
        else:
            missing = (0, -height % 8), (0, -width % 8)
            part, hole = np.pad(part, (*missing, (0, 0)), mode="edge"), np.pad(hole, missing, mode="edge")
        pixels = np.ascontiguousarray(part.transpose(2, 0, 1)[None], dtype=np.float32) / 255
        result = self._run(pixels, (hole > 0).astype(np.float32)[None, None]).astype(np.float32)
        if result.max() <= 1.5:  # exports return either shares or grey levels
            result = result * 255
        fitted = cv2.resize(result, (width, height), interpolation=cv2.INTER_CUBIC) if self.side else result
        out = image.copy()
        out[at(box)] = np.clip(np.rint(fitted[:height, :width]), 0, 255).astype(np.uint8)
        return out

    def _run(self, pixels: Array, mask: Array) -> Array:
        fixed = self.convention == "migan" or self.side is not None  # one size inside: keeping memory saves a quarter
        graph = replace(self.graph, arena=fixed and pixels.size <= 2**23)  # memory for a larger one is given back
        result = graph.run({self.image_input: pixels, self.mask_input: mask})[0]
        if result.shape != pixels.shape:
            raise ModelError(f"{graph.path.name} returned shape {result.shape} for an image {pixels.shape}")
        return np.asarray(result[0].transpose(1, 2, 0))


def onnx_inpainter(path: str | Path, *, blind: bool = False, threads: int | None = None) -> OnnxInpainter:
    """Fill the hole with an inpainting network in ONNX. Deterministic: see `diversify`.

    The network gets the image as it is, as in published results. In networks that resize before they mask, `Q(x_S |
    x_-S)` then depends on `x_S`: MI-GAN's fills change by 10 to 45 grey levels with it.

    Parameters
    ----------
    path : str or Path
        An ONNX file with the inputs of MI-GAN's pipeline (image and mask as uint8 of any size, mask 255 where pixels
        are known) or of LaMa (float32, the image from 0 to 1 and the mask 1 in the hole).
    blind : bool
        Empty the hole first; `diversify`, which a test with a guarantee needs, always does that.
    threads : int, optional
        OMP_NUM_THREADS if set by default, else onnxruntime's choice.

    Returns
    -------
    OnnxInpainter
        A sampler.

    Examples
    --------
    >>> onnx_inpainter("migan.onnx")
    Traceback (most recent call last):
    butfor.types.InputError: the ONNX file migan.onnx does not exist; give the path of an ONNX file
    """
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
    convention: Convention = "migan" if entry.type == "tensor(uint8)" else "lama"
    fixed = [size for size in entry.shape[2:] if isinstance(size, int)]
    if len(set(fixed)) > 1:
        raise InputError(f"{graph.path.name} takes images of {entry.shape}; expected a square or any size")
    return OnnxInpainter(graph, convention, images[0], masks[0], fixed[0] if fixed else None, bool(blind))


@dataclass(frozen=True)
class OpenCV:
    """A hole smeared shut from its edge. Made by `telea` and `navier_stokes`."""

    method: Literal["telea", "navier_stokes"]
    radius: float

    deterministic = True
    changes_subset_only = True

    def __repr__(self) -> str:
        return f"{self.method}(radius={self.radius:g})"

    def __post_init__(self) -> None:
        if isinstance(self.radius, bool) or not isinstance(self.radius, int | float) or not 1 <= self.radius <= 100:
            raise InputError(f"radius must be a number of pixels between 1 and 100, got {self.radius!r}")

    def __call__(self, inputs: Sequence[Image], subset: Subset, draws: int, rng: np.random.Generator) -> list[Image]:
        return fill_each(inputs, subset, draws, rng, self.fill, once=True)

    def fill(self, image: Image, mask: Bools, rng: np.random.Generator) -> Image:  # noqa: ARG002
        cv2 = need("cv2", "image")
        check_context(image, mask, self.method)
        around = at(grown(bounds(mask), int(self.radius) + 2, *mask.shape))
        part, hole = image[around].copy(), mask[around].astype(np.uint8)
        part[hole > 0] = 0  # hide the content of the hole from OpenCV
        flag = cv2.INPAINT_TELEA if self.method == "telea" else cv2.INPAINT_NS
        out = image.copy()
        out[around] = cv2.inpaint(part, hole, float(self.radius), flag)
        return out


def telea(radius: float = 3.0) -> OpenCV:
    """Fill with Telea's fast marching (OpenCV). **For smoke tests only**: it smears, and no real patch is a smear.

    Deterministic: only osft runs on it, without a guarantee (Q is a single point); `diversify` makes its draws differ.

    Parameters
    ----------
    radius : float
        Pixels around each that it takes into account, 1 to 100.

    Returns
    -------
    OpenCV
        A sampler.

    Examples
    --------
    >>> telea()
    telea(radius=3)
    """
    return OpenCV("telea", radius)


def navier_stokes(radius: float = 3.0) -> OpenCV:
    """Fill with Bertalmio's Navier-Stokes method (OpenCV). **For smoke tests only**, like `telea`, and deterministic.

    Parameters
    ----------
    radius : float
        As in `telea`.

    Returns
    -------
    OpenCV
        A sampler.

    Examples
    --------
    >>> navier_stokes()
    navier_stokes(radius=3)
    """
    return OpenCV("navier_stokes", radius)


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
        if isinstance(self.pipe, str):
            return repr(self)
        source = getattr(getattr(self.pipe, "config", None), "_name_or_path", None)
        return f"{self!r} from {source}" if source else f"{self!r} at 0x{id(self.pipe):x}"  # `cached` refuses the last

    def __call__(self, inputs: Sequence[Image], subset: Subset, draws: int, rng: np.random.Generator) -> list[Image]:
        return fill_each(inputs, subset, draws, rng, self.fill)

    def fill(self, image: Image, mask: Bools, rng: np.random.Generator) -> Image:
        if isinstance(self.pipe, str):
            need("diffusers", None)  # it brings torch along: one sentence for both
        torch = need("torch", "hugging-face")
        from PIL import Image as Pictures

        pipe = _loaded(self.pipe) if isinstance(self.pipe, str) else self.pipe
        height, width = mask.shape
        scale = 1.0 if self.side is None else self.side / max(height, width)
        across, down = (max(8, round(length * scale / 8) * 8) for length in (width, height))
        shown = Pictures.fromarray(empty(image, mask)).resize((across, down), Pictures.Resampling.BICUBIC)
        hole = Pictures.fromarray(mask.astype(np.uint8) * 255).resize((across, down), Pictures.Resampling.BILINEAR)
        hole = Pictures.fromarray((np.asarray(hole) > 0).astype(np.uint8) * 255)
        generator = torch.Generator("cpu").manual_seed(int(rng.integers(2**62)))
        options = {"height": down, "width": across, **self.options}
        with reworded(f"the pipeline {type(pipe).__name__} raised ", by=ModelError, named=True):
            made = pipe(prompt=self.prompt, image=shown, mask_image=hole, generator=generator, **options).images[0]
        return np.asarray(made.convert("RGB").resize((width, height), Pictures.Resampling.BICUBIC))


@lru_cache(maxsize=1)
def _loaded(name: str) -> Any:
    diffusers = need("diffusers", None)
    with reworded(f"no inpainting pipeline could be loaded from {name!r}: "):  # hubs and networks fail in many ways
        pipe = diffusers.AutoPipelineForInpainting.from_pretrained(name)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def diffusers_inpainter(
    pipe: object, *, prompt: str = "", side: int | None = 512, **options: object
) -> DiffusersInpainter:
    """Draw from a diffusers inpainting pipeline, which gets the image with the hole emptied.

    Parameters
    ----------
    pipe : pipeline, str or Path
        A pipeline, or a name or folder for `AutoPipelineForInpainting.from_pretrained`, loaded once per process.
    prompt : str
        The prompt of the pipeline.
    side : int, optional
        Pixels of the longer side of the image that it works on; None leaves the image as it is.
    **options : object
        Keywords of the pipeline, such as `num_inference_steps=30`.

    Returns
    -------
    DiffusersInpainter
        A sampler.

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


@dataclass(frozen=True)
class Diversify:
    """Fills of one inpainter for slightly different pictures of the same thing. Made by `diversify`."""

    inpainter: Sampler
    flip: bool
    scale: tuple[float, float]
    grow: int
    noise: float

    def __repr__(self) -> str:
        default = (self.flip, self.scale, self.grow, self.noise) == (True, (0.8, 1.2), 4, 6.0)
        return f"diversify({self.inpainter!r})" if default else self._spelt(repr(self.inpainter))

    @property
    def info(self) -> SamplerInfo:
        inner = info_of(self.inpainter)
        return replace(inner, identity=self._spelt(inner.identity), deterministic=False, changes_subset_only=True)

    def notes(self, inputs: Sequence[Image], subsets: Sequence[Sequence[Subset]], seed: int) -> list[Any]:
        return self.inpainter.notes(inputs, subsets, seed) if isinstance(self.inpainter, HasNotes) else []

    def _spelt(self, inner: str) -> str:
        return f"diversify({inner}, flip={self.flip}, scale={self.scale}, grow={self.grow}, noise={self.noise:g})"

    def __call__(self, inputs: Sequence[Image], subset: Subset, draws: int, rng: np.random.Generator) -> list[Image]:
        return fill_each(inputs, subset, draws, rng, partial(self.fill, subset.name))

    def fill(self, name: str, image: Image, mask: Bools, rng: np.random.Generator) -> Image:
        cv2 = need("cv2", "image")
        flip, scale = self.flip and rng.random() < 0.5, rng.uniform(*self.scale)
        pixels, spread = int(rng.integers(self.grow + 1)), rng.uniform(0, self.noise)
        larger = mask
        if pixels:
            kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * pixels + 1, 2 * pixels + 1))
            larger = cv2.dilate(mask.astype(np.uint8), kernel) > 0
            larger = mask if larger.all() else larger
        shown, hole = empty(image, larger), larger
        around = at(grown(bounds(larger), 16, *larger.shape))  # pixels around the hole get the noise
        part, ring = shown[around], ~larger[around]
        noise = rng.standard_normal((*ring.shape, 3), dtype=np.float32) * spread
        part[ring] = np.clip(np.rint(part[ring] + noise[ring]), 0, 255).astype(np.uint8)
        height, width = mask.shape
        across, down = max(1, round(width * scale)), max(1, round(height * scale))
        small = to_size(larger.astype(np.float32), across, down) > 0  # every pixel with anything of the hole in it
        if small.any() and not small.all():
            shown, hole = to_size(shown, across, down), small
        if flip:
            shown, hole = np.ascontiguousarray(shown[:, ::-1]), np.ascontiguousarray(hole[:, ::-1])
        made = self.inpainter([shown], Subset(name, hole), 1, rng)
        if len(made) != 1:
            raise ModelError(f"{self.inpainter!r} returned {len(made)} images for one image and one draw")
        check_image(made[0])
        filled = made[0][:, ::-1] if flip else made[0]
        if filled.shape != image.shape:
            filled = to_size(np.ascontiguousarray(filled), width, height)
        return settle_seam(image, np.ascontiguousarray(filled), mask, 2.0 * self.grow + 4, filled=larger)


def diversify(
    inpainter: Sampler, *, flip: bool = True, scale: tuple[float, float] = (0.8, 1.2), grow: int = 4, noise: float = 6.0
) -> Diversify:
    """Make the draws of a deterministic inpainter differ, so that irt, sequential and few-shot can run on it.

    For every draw the inpainter gets a slightly different picture, with the hole emptied; the seam is blended away
    inside the hole. The spread of the draws is a choice: look at them in the report, and at `butfor.check_sampler`.

    Parameters
    ----------
    inpainter : callable
        Any sampler of images.
    flip : bool
        Mirror the image, every other time.
    scale : tuple of float
        Smallest and largest factor by which it is resized.
    grow : int
        The hole is grown by 0 to so many pixels.
    noise : float
        Largest noise in a ring around the hole, in grey levels.

    Returns
    -------
    Diversify
        A sampler.

    Examples
    --------
    >>> from butfor.image import telea
    >>> image = np.random.default_rng(0).integers(0, 255, (40, 40, 3), dtype=np.uint8)
    >>> one, two = diversify(telea())([image], Subset("box 1", (10, 10, 30, 30)), 2, np.random.default_rng(0))
    >>> bool((one != two).any()), bool((one[:10] == image[:10]).all())
    (True, True)
    """
    if not callable(inpainter):
        raise InputError(f"diversify needs an inpainter (any sampler of images), got {type(inpainter).__name__}")
    if not 0.1 <= scale[0] <= scale[1] <= 4:
        raise InputError(f"scale must be two factors between .1 and 4, smaller first, got {scale!r}")
    if isinstance(grow, bool) or not 0 <= grow <= 50 or not 0 <= noise <= 100:
        raise InputError(f"grow must be 0 to 50 pixels and noise 0 to 100 grey levels, got {grow!r} and {noise!r}")
    return Diversify(inpainter, bool(flip), (float(scale[0]), float(scale[1])), int(grow), float(noise))
