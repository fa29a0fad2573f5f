"""Classifiers: a list of uint8 images of any size -> outputs (n, classes)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from butfor.image.inpainters import Graph, open_graph
from butfor.image.region import Image, check_image
from butfor.models.torch import torch_module
from butfor.models.wrap import need, one_line
from butfor.types import Array, Batch, Bools, InputError, ModelError, one_of, whole
from butfor.untrusted import read_bounded, read_json

Interpolation = Literal["nearest", "bilinear", "bicubic"]
Levels = float | tuple[float, float, float]  # grey levels, one for all channels or one for each
Prepare = Callable[[Sequence[Image]], Batch]  # images -> the batch that a network takes
IMAGENET_MEAN, IMAGENET_SCALE = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)


@dataclass(frozen=True)
class Preprocess:
    """The middle of an image at a fixed size, as (pixel - mean) / scale. Made by `preprocess`."""

    size: int
    crop: float | None
    interpolation: Interpolation
    mean: tuple[float, float, float]
    scale: tuple[float, float, float]
    channels_last: bool

    def __call__(self, images: Sequence[Image]) -> NDArray[np.float32]:
        """The batch, float32 (n, 3, size, size), or (n, size, size, 3) with `channels_last`."""
        batch = np.empty((len(images), 3, self.size, self.size), np.float32)
        recent: list[Fitted] = []  # the image and its last counterfactual: most of the next one is in one of them
        for k, image in enumerate(images):
            fitted = self._fitted(image, recent)
            recent = [fitted, *(other for other in recent if other is not fitted)][:2]
            batch[k] = fitted.small.transpose(2, 0, 1)
        batch -= np.array(self.mean, np.float32)[:, None, None]
        batch /= np.array(self.scale, np.float32)[:, None, None]
        return np.ascontiguousarray(batch.transpose(0, 2, 3, 1)) if self.channels_last else batch

    def _fitted(self, image: Image, recent: Sequence[Fitted]) -> Fitted:
        """The image at its size, the same to the bit whichever images came before it.

        Rows are resized first, each by itself, and columns then, each by itself. A counterfactual differs from its
        image in one region: only the rows and columns that differ are resized anew. Pillow's own resize takes this
        order up to version 12; from 13 on it takes columns first where an image shrinks more in height than in width,
        which with bicubic interpolation can differ by some grey levels. Ours is the same with every version.
        """
        check_image(image)
        last, rows = _nearest(image, recent)
        if last is not None and rows is None:
            return last
        height, width = image.shape[:2]
        left, top, right, bottom = self._box(height, width)
        if last is None or rows is None:
            narrow = self._resized(image, (self.size, height), (left, 0, right, height))
            return Fitted(image, narrow, self._resized(narrow, (self.size, self.size), (0, top, self.size, bottom)))
        count = rows.stop - rows.start
        part = self._resized(image[rows], (self.size, count), (left, 0, right, count))
        columns = _extent((part != last.narrow[rows]).any(axis=(0, 2)))
        if columns is None:
            return Fitted(image, last.narrow, last.small)
        narrow, small, count = last.narrow.copy(), last.small.copy(), columns.stop - columns.start
        narrow[rows] = part
        small[:, columns] = self._resized(narrow[:, columns], (count, self.size), (0, top, count, bottom))
        return Fitted(image, narrow, small)

    def _box(self, height: int, width: int) -> tuple[float, float, float, float]:
        """The part of the image that is used: all of it, or a square in the middle."""
        if self.crop is None:
            return 0.0, 0.0, float(width), float(height)
        side = min(width, height) * self.crop
        left, top = (width - side) / 2, (height - side) / 2
        return left, top, left + side, top + side

    def _resized(self, pixels: Image, size: tuple[int, int], box: tuple[float, float, float, float]) -> Image:
        from PIL import Image as Pictures

        method = Pictures.Resampling[self.interpolation.upper()]
        return np.asarray(Pictures.fromarray(pixels).resize(size, method, box=box))


@dataclass(frozen=True, eq=False)
class Fitted:
    """An image, the same at the width and then also at the height that the network takes."""

    image: Image
    narrow: Image
    small: Image


def _nearest(image: Image, recent: Sequence[Fitted]) -> tuple[Fitted | None, slice | None]:
    """Which of the recent images differs in the fewest rows, and in which (None: in none)."""
    best, where = None, None
    for other in recent:
        if other.image is image:
            return other, None
        if other.image.shape != image.shape:
            continue
        rows = _extent((image != other.image).reshape(len(image), -1).any(axis=1))
        if rows is None:
            return other, None
        if where is None or rows.stop - rows.start < where.stop - where.start:
            best, where = other, rows
    return best, where


def _extent(flags: Bools) -> slice | None:
    """From the first to the last that is set."""
    found = np.flatnonzero(flags)
    return slice(int(found[0]), int(found[-1]) + 1) if found.size else None


def preprocess(
    size: int = 224,
    *,
    crop: float | None = None,
    interpolation: Interpolation = "bicubic",
    mean: Levels = 127,
    scale: Levels = 128,
    channels_last: bool = False,
) -> Preprocess:
    """Images -> float32 batch: resized (Pillow, which smooths when it shrinks), then (pixel - mean) / scale.

    Parameters
    ----------
    size : pixels of both sides.
    crop : None squeezes the whole image into size x size, so that every region counts; a number such as 224/256 takes
        the square in the middle whose side is that share of the shorter side: regions outside it can never matter.
    interpolation : "nearest", "bilinear" or "bicubic".
    mean, scale : grey levels from 0 to 255, one number or one per channel.
    channels_last : whether the batch is (n, size, size, 3).

    Examples
    --------
    >>> preprocess(4)([np.full((6, 8, 3), 255, np.uint8)]).shape
    (1, 3, 4, 4)
    """
    if crop is not None and not 0 < crop <= 1:
        raise InputError(f"crop must be a share of the shorter side such as 224/256, or None, got {crop!r}")
    one_of("interpolation", interpolation, ("nearest", "bilinear", "bicubic"))
    if (np.asarray(scale, dtype=float) == 0).any():
        raise InputError("scale divides the pixels and cannot be 0")
    levels = _three(mean, "mean"), _three(scale, "scale")
    return Preprocess(whole("size", size, 1), crop, interpolation, *levels, bool(channels_last))


def _three(value: Levels, what: str) -> tuple[float, float, float]:
    try:
        red, green, blue = np.broadcast_to(np.asarray(value, dtype=np.float64), 3).tolist()
    except ValueError as error:
        raise InputError(f"{what} must be one number or three (red, green, blue), got {value!r}") from error
    return red, green, blue


PRESETS: dict[str, Preprocess] = {
    "whole": preprocess(),  # the whole image, (pixel - 127) / 128
    "crop": preprocess(crop=224 / 256),  # the middle, likewise: EfficientNet-Lite and other TensorFlow exports
    "imagenet-whole": preprocess(interpolation="bilinear", mean=IMAGENET_MEAN, scale=IMAGENET_SCALE),
    "imagenet-crop": preprocess(crop=224 / 256, interpolation="bilinear", mean=IMAGENET_MEAN, scale=IMAGENET_SCALE),
    "inception-whole": preprocess(299, interpolation="bilinear", mean=127.5, scale=127.5),
    "inception-crop": preprocess(299, crop=299 / 342, interpolation="bilinear", mean=127.5, scale=127.5),
}


def as_preprocess(given: object) -> Prepare:
    """A preset by name, or any function from a list of images to a batch."""
    if isinstance(given, str):
        if given not in PRESETS:
            raise InputError(
                f"unknown preprocessing {given!r}; presets are {', '.join(PRESETS)}, or use preprocess(...)"
            )
        return PRESETS[given]
    if not callable(given):
        raise InputError(f"preprocess must be a preset's name or a function images -> batch, got {given!r}")
    return given


Outputs = NDArray[np.float32]  # (n, classes)


@dataclass(frozen=True, eq=False)
class ImageClassifier:
    """A network that is asked for a few images at a time. Made by `onnx_classifier` and its like."""

    name: str
    ask: Callable[[Sequence[Image]], Array]
    classes: tuple[str, ...] | None
    batch: int

    def __repr__(self) -> str:
        return self.name

    def __call__(self, images: Sequence[Image]) -> Outputs:
        given = list(images)
        if not given:
            raise InputError("a classifier was asked about no images; give at least one")
        return np.concatenate([self._rows(given[a : a + self.batch]) for a in range(0, len(given), self.batch)])

    def _rows(self, some: Sequence[Image]) -> Outputs:
        part = np.asarray(self.ask(some))
        if len(some) == 1 and part.ndim < 2:  # squeezed
            part = part.reshape(1, -1)
        if part.ndim == 0 or len(part) != len(some):
            raise ModelError(
                f"the classifier gave outputs {part.shape} for {len(some)} images; expected a row for each"
            )
        return part.reshape(len(part), -1)


@dataclass(frozen=True)
class OnnxNetwork:
    """The first output of an ONNX file; one that takes a fixed number of images gets that number."""

    graph: Graph
    prepare: Prepare
    fixed: int | None

    def __call__(self, some: Sequence[Image]) -> Array:
        entry = self.graph.session.get_inputs()[0]
        missing = 0 if self.fixed is None else self.fixed - len(some)
        return self.graph.run({entry.name: self.prepare([*some, *[some[0]] * missing])})[0][: len(some)]


def fitted_to(preset: Preprocess, shape: Sequence[object]) -> Preprocess:
    """A preset with the size, and the channels at the place, that a network's input says; what it leaves open stays.

    >>> from butfor.image.preprocess import PRESETS
    >>> fitted_to(PRESETS["imagenet-crop"], ["n", 260, 260, 3]).size
    260
    """
    if len(shape) != 4:
        return preset
    last = shape[3] == 3 and shape[1] != 3
    sides = {side for side in (shape[1:3] if last else shape[2:4]) if isinstance(side, int)}
    return replace(preset, size=sides.pop() if len(sides) == 1 else preset.size, channels_last=last)


def onnx_classifier(
    path: str | Path,
    preprocess: object = "whole",
    *,
    classes: object = None,
    batch: int = 16,
    threads: int | None = None,
) -> ImageClassifier:
    """A classifier from an ONNX file.

    Parameters
    ----------
    path : a file with one input, (n, 3, height, width); its first output is taken.
    preprocess : a preset ("whole", "crop", "imagenet-whole", ...), which takes its size and the place of the channels
        from the file, what `butfor.image.preprocess(...)` returns, or any function from a list of images to the batch.
    classes : a list of names, or a JSON or text file of them.
    batch : images that the network is given at a time.
    threads : None is OMP_NUM_THREADS if set, else as many as onnxruntime likes.

    Examples
    --------
    >>> onnx_classifier("net.onnx")
    Traceback (most recent call last):
    butfor.types.InputError: the ONNX file net.onnx does not exist; give the path of an ONNX file
    """
    graph, prepare = open_graph(path, threads, arena=True), as_preprocess(preprocess)
    inputs, outputs = graph.session.get_inputs(), graph.session.get_outputs()
    if len(inputs) != 1:
        listed = ", ".join(entry.name for entry in inputs)
        raise InputError(f"{graph.path.name} has the inputs {listed}; expected one, the images")
    wanted = inputs[0].shape
    if isinstance(preprocess, str) and isinstance(prepare, Preprocess):
        prepare = fitted_to(prepare, wanted)
    sides = [length for length in wanted[1:] if isinstance(length, int) and length not in (1, 3)]
    if isinstance(prepare, Preprocess) and sides and set(sides) != {prepare.size}:
        raise InputError(
            f"{graph.path.name} takes images of {wanted} but the preprocessing gives {prepare.size} x {prepare.size}; "
            f"use preprocess=butfor.image.preprocess({sides[0]}, ...)"
        )
    names = class_names(classes)
    count = outputs[0].shape[-1] if outputs[0].shape else None
    if names is not None and isinstance(count, int) and len(names) != count:
        raise InputError(f"{graph.path.name} has {count} outputs but {len(names)} class names were given")
    fixed = wanted[0] if isinstance(wanted[0], int) else None
    network = OnnxNetwork(graph, prepare, fixed)
    return ImageClassifier(f"onnx_classifier({graph.path.name})", network, names, fixed or whole("batch", batch, 1))


def torch_classifier(
    module: Any, preprocess: object = "imagenet-whole", *, classes: object = None, batch: int = 8, device: str = "cpu"
) -> ImageClassifier:
    """A classifier from a torch module, in evaluation mode.

    Parameters
    ----------
    module : takes (n, 3, height, width).
    preprocess, classes, batch : as in `onnx_classifier`.
    device : where torch runs it.

    Examples
    --------
    >>> torch_classifier(3)
    Traceback (most recent call last):
    butfor.types.InputError: torch_module takes a torch.nn.Module, got int
    """
    network = torch_module(module, device=device, preprocess=as_preprocess(preprocess))
    name = f"torch_classifier({type(module).__name__})"
    return ImageClassifier(name, network, class_names(classes), whole("batch", batch, 1))


@dataclass(frozen=True)
class Torchvision:
    """The transformation that belongs to a set of torchvision weights, over a list of images."""

    transform: Callable[[Any], Any]

    def __call__(self, images: Sequence[Image]) -> Batch:
        torch = need("torch", "torch")

        return torch.stack([self.transform(torch.from_numpy(image.copy()).permute(2, 0, 1)) for image in images])


def torchvision_model(
    name: str, *, weights: str = "DEFAULT", preprocess: object = None, batch: int = 8, device: str = "cpu"
) -> ImageClassifier:
    """A model of torchvision by name, with its weights and class names.

    Parameters
    ----------
    name : such as "inception_v3", the paper's.
    weights : which of its weights; torchvision downloads them if they are not there yet.
    preprocess : None is what the weights were trained with, which crops the middle: a preset such as "inception-whole"
        lets every region count.
    batch, device : as in `torch_classifier`.
    """
    models = need("torchvision.models", None)
    try:
        loaded = models.get_model_weights(name)[weights]
        module = models.get_model(name, weights=loaded)
    except (ValueError, KeyError) as error:
        raise InputError(f"torchvision has no model {name!r} with weights {weights!r}: {error}") from error
    except OSError as error:  # urllib's errors too
        raise InputError(f"the weights of {name!r} could not be downloaded: {error}") from error
    prepare = Torchvision(loaded.transforms()) if preprocess is None else preprocess
    return torch_classifier(module, prepare, classes=loaded.meta.get("categories"), batch=batch, device=device)


@dataclass(frozen=True)
class Processor:
    """A Hugging Face image processor over a list of images."""

    processor: Callable[..., Any]

    def __call__(self, images: Sequence[Image]) -> Batch:
        return self.processor(images=[image.copy() for image in images], return_tensors="pt")["pixel_values"]


def huggingface_classifier(pipe: Any, *, batch: int = 8, device: str = "cpu") -> ImageClassifier:
    """A classifier from a Hugging Face pipeline: its logits.

    Parameters
    ----------
    pipe : an image-classification pipeline, or the name or folder of one.
    batch, device : as in `torch_classifier`.
    """
    if isinstance(pipe, str | Path):
        transformers = need("transformers", "hugging-face")
        try:
            pipe = transformers.pipeline("image-classification", model=str(pipe))
        except Exception as error:  # hubs, files and networks fail in many ways
            why = one_line(error)[:300]
            raise InputError(f"no image classifier could be loaded from {str(pipe)!r}: {why}") from error
    try:
        model, processor, labels = pipe.model, pipe.image_processor, pipe.model.config.id2label
        if processor is None:
            raise AttributeError("image_processor")
    except AttributeError as error:
        raise InputError(
            f"pipe must be an image-classification pipeline or its name, got {type(pipe).__name__}"
        ) from error
    classes = [labels[i] for i in range(len(labels))] if labels else None
    return torch_classifier(model, Processor(processor), classes=classes, batch=batch, device=device)


def class_names(given: object) -> tuple[str, ...] | None:
    """Names of the classes from a list, or from a file: a JSON list or {"0": name}, or one name a line."""
    if given is None:
        return None
    where = "the class names"
    if isinstance(given, str | Path):
        where = f"the file of class names {given}"
        given = _read_names(Path(given))
    if isinstance(given, Mapping):
        if not all(str(key).isascii() and str(key).isdecimal() and len(str(key)) < 10 for key in given):
            raise InputError(f'{where} must have numbers for keys, {{"0": name, "1": name}}, got {list(given)[:3]}')
        given = [given[key] for key in sorted(given, key=int)]
    listed = list(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes) else [None]
    if not all(isinstance(name, str | int | np.integer) for name in listed):
        raise InputError(f'{where} must be a list of names, or numbers and names as in {{"0": name}}')
    return tuple(str(name).strip() for name in listed)


def _read_names(path: Path) -> object:
    if not path.is_file():
        raise InputError(f"the file of class names {path} does not exist")
    if path.suffix.lower() not in (".json", ".txt", ".names", ".labels", ".csv", ""):
        raise InputError(f"class names come from a JSON file, or a text file with one a line, got {path.name}")
    if path.suffix.lower() == ".json":
        return read_json(path, "the file of class names")
    try:
        return read_bounded(path, "the file of class names").decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"the file of class names {path} cannot be read: {error}") from error
