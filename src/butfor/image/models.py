"""Classifiers: a list of uint8 images of any size -> outputs (n, classes)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.core.types import InputError, ModelError
from butfor.image.onnx_graph import Graph, open_graph
from butfor.image.preprocess import as_preprocess
from butfor.image.region import Image

Outputs = NDArray[np.float32]  # (n, classes)


@dataclass(frozen=True)
class OnnxClassifier:
    """A network in ONNX. Made by `onnx_classifier`."""

    graph: Graph
    prepare: Any
    classes: tuple[str, ...] | None
    batch: int

    def __repr__(self) -> str:
        return f"onnx_classifier({self.graph.path.name})"

    def __call__(self, images: Sequence[Image]) -> Outputs:
        entry = self.graph.session.get_inputs()[0]
        size = entry.shape[0] if isinstance(entry.shape[0], int) else self.batch

        def ask(some: Sequence[Image]) -> Any:
            missing = size - len(some) if isinstance(entry.shape[0], int) else 0  # a fixed batch is filled up
            return self.graph.run({entry.name: self.prepare([*some, *[some[0]] * missing])})[0][: len(some)]

        return _in_batches(list(images), size, ask)


def onnx_classifier(
    path: str | Path,
    preprocess: Any = "whole",
    *,
    classes: Any = None,
    batch: int = 16,
    threads: int | None = None,
) -> OnnxClassifier:
    """A classifier from an ONNX file with one input, (n, 3, height, width); its first output is taken.

    `preprocess` is a preset ("whole", "crop", "imagenet-whole", ...), what `butfor.image.preprocess(...)` returns, or
    any function from a list of images to the batch. `classes` is a list of names or a JSON or text file of them.

    >>> onnx_classifier("net.onnx")
    Traceback (most recent call last):
    butfor.core.types.InputError: the ONNX file net.onnx does not exist
    """
    graph, prepare = open_graph(path, threads, arena=True), as_preprocess(preprocess)
    inputs, outputs = graph.session.get_inputs(), graph.session.get_outputs()
    if len(inputs) != 1:
        names = ", ".join(entry.name for entry in inputs)
        raise InputError(f"{graph.path.name} has the inputs {names}; expected one, the images")
    wanted, given = inputs[0].shape, getattr(prepare, "size", None)
    sides = [length for length in wanted[1:] if isinstance(length, int) and length not in (1, 3)]
    if given is not None and sides and set(sides) != {given}:
        raise InputError(
            f"{graph.path.name} takes images of {wanted} but the preprocessing gives {given} x {given}; use "
            f"preprocess=butfor.image.preprocess({sides[0]}, ...)"
        )
    names_ = class_names(classes)
    count = outputs[0].shape[-1] if outputs[0].shape else None
    if names_ is not None and isinstance(count, int) and len(names_) != count:
        raise InputError(f"{graph.path.name} has {count} outputs but {len(names_)} class names were given")
    return OnnxClassifier(graph, prepare, names_, _checked(batch))


@dataclass(frozen=True, eq=False)
class TorchClassifier:
    """A torch module. Made by `torch_classifier` and `torchvision_model`."""

    module: Any
    prepare: Any
    classes: tuple[str, ...] | None
    batch: int
    device: str

    def __repr__(self) -> str:
        return f"torch_classifier({type(self.module).__name__})"

    def __call__(self, images: Sequence[Image]) -> Outputs:
        import torch

        def ask(some: Sequence[Image]) -> Any:
            batch = self.prepare(some)
            batch = batch if isinstance(batch, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(batch))
            with torch.inference_mode():
                answer = self.module(batch.to(self.device))
            answer = getattr(answer, "logits", answer)  # Inception and Hugging Face wrap them
            answer = answer[0] if isinstance(answer, tuple | list) and answer else answer  # with auxiliary outputs
            if not isinstance(answer, torch.Tensor):
                raise ModelError(f"{self!r} gave {type(answer).__name__}; expected a tensor (images, classes)")
            return answer.float().cpu().numpy()

        return _in_batches(list(images), self.batch, ask)


def torch_classifier(
    module: Any, preprocess: Any = "imagenet-whole", *, classes: Any = None, batch: int = 8, device: str = "cpu"
) -> TorchClassifier:
    """A classifier from a torch module that takes (n, 3, height, width); it is put into evaluation mode.

    >>> torch_classifier(3)
    Traceback (most recent call last):
    butfor.core.types.InputError: module must be a torch module, got int
    """
    if not callable(module) or not hasattr(module, "eval"):
        raise InputError(f"module must be a torch module, got {type(module).__name__}")
    module = module.to(device).eval()
    return TorchClassifier(module, as_preprocess(preprocess), class_names(classes), _checked(batch), device)


@dataclass(frozen=True)
class Torchvision:
    """The transformation that belongs to a set of torchvision weights, over a list of images."""

    transform: Any

    def __call__(self, images: Sequence[Image]) -> Any:
        import torch

        return torch.stack([self.transform(torch.from_numpy(image.copy()).permute(2, 0, 1)) for image in images])


def torchvision_model(
    name: str, *, weights: str = "DEFAULT", preprocess: Any = None, batch: int = 8, device: str = "cpu"
) -> TorchClassifier:
    """A model of torchvision by name, such as "inception_v3" (the paper's), with its weights and class names.

    `preprocess=None` is what the weights were trained with, which crops the middle: a preset such as "inception-whole"
    lets every region count. The weights are downloaded by torchvision if they are not there yet.
    """
    try:
        from torchvision import models
    except ImportError as error:
        raise InputError("torchvision_model needs torchvision; install the one that fits your torch") from error
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

    processor: Any

    def __call__(self, images: Sequence[Image]) -> Any:
        return self.processor(images=[image.copy() for image in images], return_tensors="pt")["pixel_values"]


def huggingface_classifier(pipe: Any, *, batch: int = 8, device: str = "cpu") -> TorchClassifier:
    """A classifier from a Hugging Face image-classification pipeline, or the name or folder of one: its logits."""
    if isinstance(pipe, str | Path):
        from transformers import pipeline

        try:
            pipe = pipeline("image-classification", model=str(pipe))
        except Exception as error:  # hubs, files and networks fail in many ways
            said = " ".join(str(error).split())[:300]
            raise InputError(f"no image classifier could be loaded from {str(pipe)!r}: {said}") from error
    model, processor = getattr(pipe, "model", None), getattr(pipe, "image_processor", None)
    if model is None or processor is None:
        raise InputError(f"pipe must be an image-classification pipeline or its name, got {type(pipe).__name__}")
    labels = getattr(model.config, "id2label", None)
    classes = [labels[i] for i in range(len(labels))] if labels else None
    return torch_classifier(model, Processor(processor), classes=classes, batch=batch, device=device)


def class_names(given: Any) -> tuple[str, ...] | None:
    """Names of the classes from a list, or from a file: a JSON list or {"0": name}, or one name a line."""
    if given is None:
        return None
    where = "the class names"
    if isinstance(given, str | Path):
        where = f"the file of class names {given}"
        given = _read_names(Path(given))
    if isinstance(given, Mapping):
        if not all(str(key).isdecimal() for key in given):
            raise InputError(f'{where} must have numbers for keys, {{"0": name, "1": name}}, got {list(given)[:3]}')
        given = [given[key] for key in sorted(given, key=int)]
    given = list(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes) else [None]
    if not all(isinstance(name, str | int | np.integer) for name in given):
        raise InputError(f'{where} must be a list of names, or numbers and names as in {{"0": name}}')
    return tuple(str(name).strip() for name in given)


def _read_names(path: Path) -> Any:
    import json

    if not path.is_file():
        raise InputError(f"the file of class names {path} does not exist")
    if path.suffix.lower() not in (".json", ".txt", ".names", ".labels", ".csv", ""):
        raise InputError(f"class names come from a JSON file, or a text file with one a line, got {path.name}")
    try:
        text = path.read_text(encoding="utf-8")
        return json.loads(text) if path.suffix.lower() == ".json" else text.splitlines()
    except ValueError as error:  # broken JSON, or bytes that are no text
        raise InputError(f"the file of class names {path} cannot be read: {error}") from error


def _in_batches(images: list[Image], size: int, ask: Any) -> Outputs:
    if not images:
        raise InputError("a classifier was asked about no images; give at least one")
    parts = []
    for a in range(0, len(images), size):
        some = images[a : a + size]
        part = np.asarray(ask(some))
        if len(some) == 1 and part.ndim < 2:  # squeezed
            part = part.reshape(1, -1)
        if part.ndim == 0 or len(part) != len(some):
            raise ModelError(
                f"the classifier gave outputs {part.shape} for {len(some)} images; expected a row for each"
            )
        parts.append(part.reshape(len(part), -1))
    return np.concatenate(parts)


def _checked(batch: int) -> int:
    if isinstance(batch, bool) or not isinstance(batch, int | np.integer) or batch < 1:
        raise InputError(f"batch must be a whole number of images, got {batch!r}")
    return int(batch)
