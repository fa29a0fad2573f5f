"""Classifiers: a list of uint8 images of any size -> outputs (n, classes)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from butfor.image.inpainters import Graph, open_graph
from butfor.image.region import Image, check_image
from butfor.models.torch import torch_module
from butfor.models.wrap import need
from butfor.types import Array, Batch, InputError, ModelError, one_of, reworded, whole
from butfor.untrusted import read_bounded, read_json

Interpolation = Literal["nearest", "bilinear", "bicubic"]
Levels = float | tuple[float, float, float]  # grey, of all channels or of each
Prepare = Callable[[Sequence[Image]], Batch]  # images -> the batch that a network takes
IMAGENET_MEAN, IMAGENET_SCALE = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)


@dataclass(frozen=True)
class Preprocess:
    """An image, or its middle, at a fixed size, as (pixel - mean) / scale. Made by `preprocess`."""

    size: int
    crop: float | None
    interpolation: Interpolation
    mean: tuple[float, float, float]
    scale: tuple[float, float, float]
    channels_last: bool

    def __call__(self, images: Sequence[Image]) -> NDArray[np.float32]:
        from PIL import Image as Pictures

        batch = np.empty((len(images), 3, self.size, self.size), np.float32)
        method = Pictures.Resampling[self.interpolation.upper()]
        for k, image in enumerate(images):
            check_image(image)
            height, width = image.shape[:2]
            left, top, right, bottom = 0.0, 0.0, float(width), float(height)
            if self.crop is not None:
                side = min(width, height) * self.crop
                left, top = (width - side) / 2, (height - side) / 2
                right, bottom = left + side, top + side
            # columns first, then rows, as not every version of Pillow does by itself
            narrow = Pictures.fromarray(image).resize((self.size, height), method, box=(left, 0, right, height))
            small = narrow.resize((self.size, self.size), method, box=(0, top, self.size, bottom))
            batch[k] = np.asarray(small).transpose(2, 0, 1)
        batch -= np.array(self.mean, np.float32)[:, None, None]
        batch /= np.array(self.scale, np.float32)[:, None, None]
        return np.ascontiguousarray(batch.transpose(0, 2, 3, 1)) if self.channels_last else batch


def preprocess(
    size: int = 224,
    *,
    crop: float | None = None,
    interpolation: Interpolation = "bicubic",
    mean: Levels = 127,
    scale: Levels = 128,
    channels_last: bool = False,
) -> Preprocess:
    """Resize images (Pillow, which smooths when it shrinks) into a float32 batch of (pixel - mean) / scale.

    Parameters
    ----------
    size : int
        Pixels of both sides.
    crop : float, optional
        None squeezes the entire image into size x size; a number such as 224/256 takes the square in the middle whose
        side is that share of the shorter side: regions outside it can never matter.
    interpolation : {"nearest", "bilinear", "bicubic"}
        Of Pillow.
    mean, scale : float or tuple of float
        Grey levels from 0 to 255, one number or one per channel.
    channels_last : bool
        Make the batch (n, size, size, 3).

    Returns
    -------
    Preprocess
        A function of a list of images.

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

    def three(value: Levels, what: str) -> tuple[float, float, float]:
        try:
            red, green, blue = np.broadcast_to(np.asarray(value, dtype=np.float64), 3).tolist()
        except ValueError as error:
            raise InputError(f"{what} must be one number or three (red, green, blue), got {value!r}") from error
        return red, green, blue

    levels = three(mean, "mean"), three(scale, "scale")
    return Preprocess(whole("size", size, 1), crop, interpolation, *levels, bool(channels_last))


PRESETS: dict[str, Preprocess] = {
    "whole": preprocess(),  # the entire image, (pixel - 127) / 128
    "crop": preprocess(crop=224 / 256),  # the middle, likewise: EfficientNet-Lite and other TensorFlow exports
    "imagenet-whole": preprocess(interpolation="bilinear", mean=IMAGENET_MEAN, scale=IMAGENET_SCALE),
    "imagenet-crop": preprocess(crop=224 / 256, interpolation="bilinear", mean=IMAGENET_MEAN, scale=IMAGENET_SCALE),
    "inception-whole": preprocess(299, interpolation="bilinear", mean=127.5, scale=127.5),
    "inception-crop": preprocess(299, crop=299 / 342, interpolation="bilinear", mean=127.5, scale=127.5),
}


def as_preprocess(given: object) -> Prepare:
    """Return a preset by name, or any function from a list of images to a batch."""
    if isinstance(given, str) and given not in PRESETS:
        raise InputError(f"unknown preprocessing {given!r}; presets are {', '.join(PRESETS)}, or use preprocess(...)")
    prepare = PRESETS[given] if isinstance(given, str) else given
    if not callable(prepare):
        raise InputError(f"preprocess must be a preset's name or a function images -> batch, got {given!r}")
    return prepare


@dataclass(frozen=True, eq=False)
class ImageClassifier:
    """A network that gets a few images at a time. Made by `onnx_classifier` and its like."""

    name: str
    network: Callable[[Sequence[Image]], Array]
    classes: tuple[str, ...] | None
    batch: int

    def __repr__(self) -> str:
        return self.name

    def __call__(self, images: Sequence[Image]) -> NDArray[np.float32]:  # (n, classes)
        given = list(images)
        if not given:
            raise InputError("a classifier was asked about no images; give at least one")
        parts = []
        for start in range(0, len(given), self.batch):
            batch = given[start : start + self.batch]
            part = np.asarray(self.network(batch))
            if len(batch) == 1 and part.ndim < 2:  # squeezed
                part = part.reshape(1, -1)
            if part.ndim == 0 or len(part) != len(batch):
                raise ModelError(
                    f"the classifier gave outputs {part.shape} for {len(batch)} images; expected a row for each"
                )
            parts.append(part.reshape(len(part), -1))
        return np.concatenate(parts)


def _onnx_outputs(graph: Graph, prepare: Prepare, fixed: int | None, images: Sequence[Image]) -> Array:
    """Return the first output of an ONNX file; a network for a fixed number of images gets that number."""
    missing = 0 if fixed is None else fixed - len(images)
    name = graph.session.get_inputs()[0].name
    return graph.run({name: prepare([*images, *[images[0]] * missing])})[0][: len(images)]


def fitted_to(preset: Preprocess, shape: Sequence[object]) -> Preprocess:
    """Return a preset with the size and the order of channels of a network's input, where that fixes them.

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
    """Open an ONNX file as a classifier.

    Parameters
    ----------
    path : str or Path
        A file with one input, (n, 3, height, width); its first output is taken.
    preprocess : str or callable
        A preset ("whole", "crop", "imagenet-whole", ...) at the file's size, `butfor.image.preprocess(...)`, or any
        function from a list of images to the batch.
    classes : list, str or Path, optional
        Names of the classes, or a JSON or text file of them.
    batch : int
        Images that the network gets at a time.
    threads : int, optional
        OMP_NUM_THREADS if set by default, else onnxruntime's choice.

    Returns
    -------
    ImageClassifier
        A function of a list of images.

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
    network = partial(_onnx_outputs, graph, prepare, fixed)
    return ImageClassifier(f"onnx_classifier({graph.path.name})", network, names, fixed or whole("batch", batch, 1))


def torch_classifier(
    module: Any, preprocess: object = "imagenet-whole", *, classes: object = None, batch: int = 8, device: str = "cpu"
) -> ImageClassifier:
    """Wrap a torch module, in evaluation mode, as a classifier.

    Parameters
    ----------
    module : torch.nn.Module
        Takes (n, 3, height, width).
    preprocess, classes, batch : optional
        As in `onnx_classifier`.
    device : str
        Of torch.

    Returns
    -------
    ImageClassifier
        A function of a list of images.

    Examples
    --------
    >>> torch_classifier(3)
    Traceback (most recent call last):
    butfor.types.InputError: torch_module takes a torch.nn.Module, got int
    """
    network = torch_module(module, device=device, preprocess=as_preprocess(preprocess))
    name = f"torch_classifier({type(module).__name__})"
    return ImageClassifier(name, network, class_names(classes), whole("batch", batch, 1))


def torchvision_model(
    name: str, *, weights: str = "DEFAULT", preprocess: object = None, batch: int = 8, device: str = "cpu"
) -> ImageClassifier:
    """Load a model of torchvision by name, with its weights and class names.

    Parameters
    ----------
    name : str
        Such as "inception_v3", the paper's.
    weights : str
        Torchvision downloads them if they are not there yet.
    preprocess : str or callable, optional
        By default that of the weights, which crops the middle; with "inception-whole" every region counts.
    batch, device : optional
        As in `torch_classifier`.

    Returns
    -------
    ImageClassifier
        A function of a list of images.
    """
    models = need("torchvision.models", None)
    with (
        reworded(f"torchvision has no model {name!r} with weights {weights!r}: ", (ValueError, KeyError)),
        reworded(f"the weights of {name!r} could not be downloaded: ", OSError),  # urllib's errors too
    ):
        loaded = models.get_model_weights(name)[weights]
        module = models.get_model(name, weights=loaded)
    transform = loaded.transforms()

    def transformed(images: Sequence[Image]) -> Batch:
        torch = need("torch", "torch")
        return torch.stack([transform(torch.from_numpy(image.copy()).permute(2, 0, 1)) for image in images])

    prepare, classes = transformed if preprocess is None else preprocess, loaded.meta.get("categories")
    return torch_classifier(module, prepare, classes=classes, batch=batch, device=device)


def huggingface_classifier(pipe: Any, *, batch: int = 8, device: str = "cpu") -> ImageClassifier:
    """Wrap a Hugging Face pipeline as a classifier: its logits.

    Parameters
    ----------
    pipe : pipeline, str or Path
        An image-classification pipeline, or the name or folder of one.
    batch, device : optional
        As in `torch_classifier`.

    Returns
    -------
    ImageClassifier
        A function of a list of images.
    """
    if isinstance(pipe, str | Path):
        transformers = need("transformers", "hugging-face")
        with reworded(f"no image classifier could be loaded from {str(pipe)!r}: "):  # hubs fail in many ways
            pipe = transformers.pipeline("image-classification", model=str(pipe))
    try:
        model, processor, labels = pipe.model, pipe.image_processor, pipe.model.config.id2label
        if processor is None:
            raise AttributeError("image_processor")
    except AttributeError as error:
        raise InputError(
            f"pipe must be an image-classification pipeline or its name, got {type(pipe).__name__}"
        ) from error
    classes = [labels[i] for i in range(len(labels))] if labels else None

    def processed(images: Sequence[Image]) -> Batch:
        return processor(images=[image.copy() for image in images], return_tensors="pt")["pixel_values"]

    return torch_classifier(model, processed, classes=classes, batch=batch, device=device)


def class_names(given: object) -> tuple[str, ...] | None:
    """Return the names of the classes from a list, or from a file: a JSON list or {"0": name}, or one name a line."""
    if given is None:
        return None
    source = "the class names"
    if isinstance(given, str | Path):
        path, source = Path(given), f"the file of class names {given}"
        suffix = path.suffix.lower()
        if not path.is_file():
            raise InputError(f"{source} does not exist")
        if suffix not in (".json", ".txt", ".names", ".labels", ".csv", ""):
            raise InputError(f"class names come from a JSON file, or a text file with one a line, got {path.name}")
        with reworded(f"{source} cannot be read: ", UnicodeDecodeError):
            content = None if suffix == ".json" else read_bounded(path, "the file of class names").decode("utf-8")
        given = read_json(path, "the file of class names") if content is None else content.splitlines()
    if isinstance(given, Mapping):
        if not all(str(key).isascii() and str(key).isdecimal() and len(str(key)) < 10 for key in given):
            raise InputError(f'{source} must have numbers for keys, {{"0": name, "1": name}}, got {list(given)[:3]}')
        given = [given[key] for key in sorted(given, key=int)]
    listed = list(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes) else [None]
    if not all(isinstance(name, str | int | np.integer) for name in listed):
        raise InputError(f'{source} must be a list of names, or numbers and names as in {{"0": name}}')
    return tuple(str(name).strip() for name in listed)
