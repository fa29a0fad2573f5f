"""Sampler: an inpainting network in ONNX, with the inputs of MI-GAN's pipeline or of LaMa."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from butfor.evaluation.samplers import HasNotes, Sampler, SamplerInfo, info_of
from butfor.image.region import Box, Image, at, bounds, check_context, check_image, fill_each, grown
from butfor.models.onnx import check_threads, open_session
from butfor.models.wrap import need, one_line
from butfor.types import Array, Bools, InputError, ModelError, Subset, one_of


@dataclass(frozen=True)
class Graph:
    """An ONNX file and how many threads it may use (None: OMP_NUM_THREADS if set, else as many as ONNX likes)."""

    path: Path
    threads: int | None = None
    arena: bool = False  # keep memory between calls: faster for one size of inputs, ever more memory for many

    @property
    def session(self) -> Any:
        return open_session(self.path, threads=self.threads, arena=self.arena, extra="image")

    @property
    def digest(self) -> str:
        """A short hash of the file's bytes: the same network under another name is the same network."""
        return _digest(str(self.path), self.path.stat().st_mtime_ns)

    def run(self, feeds: dict[str, Array]) -> list[Array]:
        """All outputs."""
        try:
            return [np.asarray(output) for output in self.session.run(None, feeds)]
        except InputError:
            raise
        except Exception as error:  # ONNX Runtime has errors of its own kinds
            shapes = ", ".join(f"{name} {value.dtype} {value.shape}" for name, value in feeds.items())
            raise ModelError(f"{self.path.name} failed on {shapes}: {one_line(error)[:300]}") from error


def open_graph(path: str | Path, threads: int | None, *, arena: bool = False) -> Graph:
    """The graph at `path`, after seeing that it opens."""
    open_session(path, threads=check_threads(threads), arena=arena, extra="image")
    return Graph(Path(path).expanduser().resolve(), threads, arena)


@lru_cache(maxsize=8)
def _digest(path: str, changed: int) -> str:  # noqa: ARG001
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:16]


def empty(image: Image, mask: Bools) -> Image:
    """A copy in which every pixel of the hole is its nearest pixel outside.

    An inpainter that is shown this cannot know what was in the hole, whatever it does before it masks.

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
    """`fill` moved towards `image` along the inner edge of the hole, so that no seam is seen.

    Where `fill` also covers a ring outside the hole (`filled`, all around if None), what it is off by there is carried
    inwards, ever more smoothly, and fades over `feather` pixels. Nothing of what was in the hole is used.

    >>> dark, light = np.zeros((9, 9, 3), np.uint8), np.full((9, 9, 3), 40, np.uint8)
    >>> hole = np.pad(np.ones((5, 5), bool), 2)
    >>> settle_seam(dark, light, hole, feather=2)[4, 2:7, 0].tolist()
    [0, 20, 40, 20, 0]
    """
    around = at(grown(bounds(mask), 8, *mask.shape))
    inside = mask[around]
    ring = ~inside if filled is None else filled[around] & ~inside
    if not ring.any() or feather <= 0:
        return fill
    off = image[around].astype(np.float32) - fill[around]
    off, distance = _carried_in(off, ring.astype(np.float32), inside, feather)
    fade = np.clip(1 - (distance - 1) / feather, 0, 1)[..., None]
    out = fill.copy()
    out[around] = np.clip(np.rint(fill[around] + off * fade), 0, 255).astype(np.uint8)
    return out


def _carried_in(off: Array, ring: Array, inside: Bools, feather: float) -> tuple[Array, Array]:
    """Values known in the ring, inside: the nearest one at the edge, means of many deeper in; and how deep it is."""
    cv2 = need("cv2", "image")

    weight = np.maximum(cv2.GaussianBlur(ring, (0, 0), 2), 1e-3)[..., None]
    known = cv2.GaussianBlur(off * ring[..., None], (0, 0), 2) / weight
    distance, label = cv2.distanceTransformWithLabels(
        inside.astype(np.uint8), cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL
    )
    nearest = np.zeros((int(label.max()) + 1, 3), np.float32)
    nearest[label[~inside]] = known[~inside]
    raw = nearest[label]
    side = 2 * int(feather / 2) + 1
    deep = np.clip(distance / (0.5 * feather), 0, 1)[..., None]
    return raw + deep * (cv2.blur(cv2.blur(raw, (side, side)), (side, side)) - raw), distance


def to_size(array: Array, width: int, height: int) -> Array:
    """An image or a mask of shares at another size; what shrinks is averaged."""
    cv2 = need("cv2", "image")

    method = cv2.INTER_AREA if width < array.shape[1] else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(array, (width, height), interpolation=method))


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
    butfor.types.InputError: the ONNX file migan.onnx does not exist; give the path of an ONNX file
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


@dataclass(frozen=True)
class OpenCV:
    """A hole smeared shut from its edge. Made by `telea` and `navier_stokes`."""

    method: Literal["telea", "navier_stokes"]
    radius: float

    deterministic = True
    changes_subset_only = True

    def __repr__(self) -> str:
        return f"{self.method}(radius={self.radius:g})"

    def __call__(self, inputs: Sequence[Image], subset: Subset, draws: int, rng: np.random.Generator) -> list[Image]:
        return fill_each(inputs, subset, draws, rng, self.fill, once=True)

    def fill(self, image: Image, mask: Bools, rng: np.random.Generator) -> Image:  # noqa: ARG002
        cv2 = need("cv2", "image")

        check_context(image, mask, self.method)
        around = at(grown(bounds(mask), int(self.radius) + 2, *mask.shape))
        part, hole = image[around].copy(), mask[around].astype(np.uint8)
        part[hole > 0] = 0  # whatever OpenCV may look at, it is not what was there
        flag = cv2.INPAINT_TELEA if self.method == "telea" else cv2.INPAINT_NS
        out = image.copy()
        out[around] = cv2.inpaint(part, hole, self.radius, flag)
        return out


def telea(radius: float = 3.0) -> OpenCV:
    """Telea's fast marching fill (OpenCV). **For smoke tests only**: it smears, and a smear is not a plausible patch.

    Deterministic: only osft runs on it, without a guarantee (Q is a single point); `diversify` makes draws of it.

    Parameters
    ----------
    radius : pixels around each that it looks at, 1 to 100.

    Examples
    --------
    >>> telea()
    telea(radius=3)
    """
    return OpenCV("telea", _checked(radius))


def navier_stokes(radius: float = 3.0) -> OpenCV:
    """Bertalmio's Navier-Stokes fill (OpenCV). **For smoke tests only**, like `telea`, and deterministic.

    Parameters
    ----------
    radius : as in `telea`.

    Examples
    --------
    >>> navier_stokes()
    navier_stokes(radius=3)
    """
    return OpenCV("navier_stokes", _checked(radius))


def _checked(radius: float) -> float:
    if isinstance(radius, bool) or not isinstance(radius, int | float) or not 1 <= radius <= 100:
        raise InputError(f"radius must be a number of pixels between 1 and 100, got {radius!r}")
    return float(radius)


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


RING = 16  # pixels around the hole that get the noise


@dataclass(frozen=True)
class Diversify:
    """Fills of one inpainter for slightly different pictures of the same thing. Made by `diversify`."""

    inpainter: Sampler
    flip: bool
    scale: tuple[float, float]
    grow: int
    noise: float

    def __repr__(self) -> str:
        usual = (self.flip, self.scale, self.grow, self.noise) == (True, (0.8, 1.2), 4, 6.0)
        return f"diversify({self.inpainter!r})" if usual else self._spelt(repr(self.inpainter))

    @property
    def info(self) -> SamplerInfo:
        """That of the inpainter, but that it draws by chance; a fill is pasted, so nothing else can change."""
        inner = info_of(self.inpainter)
        return replace(inner, identity=self._spelt(inner.identity), deterministic=False, changes_subset_only=True)

    def notes(self, inputs: Sequence[Image], subsets: Sequence[Sequence[Subset]], seed: int) -> list[str]:
        """What the inpainter has to say."""
        return self.inpainter.notes(inputs, subsets, seed) if isinstance(self.inpainter, HasNotes) else []

    def _spelt(self, inner: str) -> str:
        return f"diversify({inner}, flip={self.flip}, scale={self.scale}, grow={self.grow}, noise={self.noise:g})"

    def __call__(self, inputs: Sequence[Image], subset: Subset, draws: int, rng: np.random.Generator) -> list[Image]:
        def fill(image: Image, mask: Bools, rng: np.random.Generator) -> Image:
            return self.fill(image, mask, rng, subset.name)

        return fill_each(inputs, subset, draws, rng, fill)

    def fill(self, image: Image, mask: Bools, rng: np.random.Generator, name: str = "hole") -> Image:
        """One fill: the image flipped, scaled, with noise around the hole and the hole a little larger."""
        flip, scale = self.flip and rng.random() < 0.5, rng.uniform(*self.scale)
        larger, spread = _dilated(mask, int(rng.integers(self.grow + 1))), rng.uniform(0, self.noise)
        shown, hole = _resized(_noisy(empty(image, larger), larger, spread, rng), larger, scale)
        if flip:
            shown, hole = np.ascontiguousarray(shown[:, ::-1]), np.ascontiguousarray(hole[:, ::-1])
        made = self.inpainter([shown], Subset(name, hole), 1, rng)
        if len(made) != 1:
            raise ModelError(f"{self.inpainter!r} returned {len(made)} images for one image and one draw")
        check_image(made[0])
        filled = made[0][:, ::-1] if flip else made[0]
        if filled.shape != image.shape:
            filled = to_size(np.ascontiguousarray(filled), image.shape[1], image.shape[0])
        return settle_seam(image, np.ascontiguousarray(filled), mask, 2.0 * self.grow + 4, filled=larger)


def _dilated(mask: Bools, pixels: int) -> Bools:
    """The hole with so many pixels around it, unless that is the whole image."""
    cv2 = need("cv2", "image")

    if not pixels:
        return mask
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * pixels + 1, 2 * pixels + 1))
    larger = cv2.dilate(mask.astype(np.uint8), kernel) > 0
    return mask if larger.all() else larger


def _noisy(image: Image, hole: Bools, spread: float, rng: np.random.Generator) -> Image:
    """Noise of so many grey levels around the hole: what the inpainter continues is then not quite the same."""
    around = at(grown(bounds(hole), RING, *hole.shape))
    out, ring = image.copy(), ~hole[around]
    noise = rng.standard_normal((*ring.shape, 3), dtype=np.float32) * spread
    part = out[around]
    part[ring] = np.clip(np.rint(part[ring] + noise[ring]), 0, 255).astype(np.uint8)
    return out


def _resized(image: Image, hole: Bools, scale: float) -> tuple[Image, Bools]:
    """Both at another size; every pixel that has anything of the hole in it belongs to the hole."""
    height, width = hole.shape
    across, down = max(1, round(width * scale)), max(1, round(height * scale))
    small = to_size(hole.astype(np.float32), across, down) > 0
    if small.all() or not small.any():
        return image, hole
    return to_size(image, across, down), small


def diversify(
    inpainter: Sampler, *, flip: bool = True, scale: tuple[float, float] = (0.8, 1.2), grow: int = 4, noise: float = 6.0
) -> Diversify:
    """Draws from a deterministic inpainter, so that irt, sequential and few-shot can run on it.

    For every draw the inpainter is shown a slightly different picture. The fill is pasted into the hole proper, and
    what it is off by just outside fades over a few pixels inside: no seam. The inpainter sees nothing of what was in
    the hole. How far the draws spread is a choice, not a law: look at them (`check_sampler`, gallery).

    Parameters
    ----------
    inpainter : any sampler of images.
    flip : whether the image is mirrored, every other time.
    scale : it is resized by a factor between these two.
    grow : the hole is grown by 0 to so many pixels.
    noise : grey levels of the noise in a ring around the hole, at most.

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
