"""Classifiers: a list of uint8 images of any size -> outputs (n, classes)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.core.checks import whole
from butfor.core.parsing import read_bounded, read_json
from butfor.core.types import Array, Batch, InputError, ModelError
from butfor.image.onnx_graph import Graph, open_graph
from butfor.image.preprocess import Prepare, Preprocess, as_preprocess
from butfor.image.region import Image
from butfor.models.optional import need, one_line
from butfor.models.torch import torch_module

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
    butfor.core.types.InputError: the ONNX file net.onnx does not exist; give the path of an ONNX file
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
    butfor.core.types.InputError: torch_module takes a torch.nn.Module, got int
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
