"""What the words of `butfor image` stand for: a model, a sampler, regions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from butfor import image
from butfor.cli.common import file_of, function_at
from butfor.cli.image import ImageModel, Inpainter, Regions
from butfor.core.checks import whole
from butfor.core.draw.proposers import Overlap, Proposer
from butfor.core.draw.samplers import Sampler, info_of
from butfor.core.types import InputError
from butfor.image.masks import holds_masks
from butfor.image.models import class_names, fitted_to
from butfor.image.onnx_graph import open_graph
from butfor.image.preprocess import Preprocess, as_preprocess
from butfor.models import Wrapped

INPAINTERS: dict[str, Callable[[], Sampler]] = {
    "donor": image.donor,
    "telea": image.telea,
    "navier-stokes": image.navier_stokes,
}


def named_model(named: ImageModel) -> Any:
    """file.onnx, file.py:function, hf:NAME or a folder, or the name of a torchvision model."""
    spec, preprocess, classes = named.model, named.preprocess, named.classes
    if spec.lower().endswith(".onnx"):
        return image.onnx_classifier(spec, _preprocess(named), classes=classes, threads=named.threads)
    if (named.size, named.mean, named.scale) != (None, None, None):
        raise InputError(f"--size, --mean and --scale are for .onnx files, got --model {spec}; leave them out")
    if ".py:" in spec:
        if preprocess is not None:
            raise InputError("--preprocess is for networks; a function is given the images as they are")
        return Wrapped(function_at(spec), class_names(classes))
    if classes is not None:
        raise InputError(f"--classes is for .onnx files and functions; {spec!r} has names of its own")
    if spec.startswith("hf:") or Path(spec).is_dir():
        if preprocess is not None:
            raise InputError("--preprocess does not go with a Hugging Face classifier, which has its own")
        return image.huggingface_classifier(spec.removeprefix("hf:"))
    if "/" in spec or Path(spec).suffix:
        raise InputError(f"--model is {spec!r}, expected file.onnx, file.py:function, hf:NAME or a torchvision model")
    return image.torchvision_model(spec, preprocess=preprocess)


def _preprocess(named: ImageModel) -> object:
    """A preset as it is, or with a size and grey levels of the user's own."""
    preset = named.preprocess or "whole"
    changes: dict[str, Any] = {"mean": named.mean, "scale": named.scale}
    levels: dict[str, Any] = {name: _levels(name, given) for name, given in changes.items() if given is not None}
    if named.size is None and not levels:
        return preset
    made = as_preprocess(preset)
    assert isinstance(made, Preprocess)
    if named.size is None:
        made = fitted_to(made, open_graph(named.model, named.threads).session.get_inputs()[0].shape)
    return replace(made, size=whole("--size", named.size or made.size, 1), **levels)


def _levels(name: str, given: str) -> tuple[float, ...]:
    try:
        found = [float(part) for part in given.split(",")]
    except ValueError:
        found = []
    if len(found) not in (1, 3) or (name == "scale" and 0 in found):
        raise InputError(f"--{name} is {given!r}, expected one number or three such as 123.7,116.3,103.5")
    return tuple(found * 3 if len(found) == 1 else found)


def named_sampler(named: Inpainter, test: str | None, threads: int | None, fills: Path) -> Sampler:
    """A sampler whose fills are kept."""
    spec, name = named.sampler, None
    made: Sampler
    if spec in INPAINTERS:
        made = INPAINTERS[spec]()
    elif spec.lower().endswith(".onnx"):
        made = image.onnx_inpainter(spec, threads=threads)
    elif spec.startswith("diffusers:"):
        made = image.diffusers_inpainter(spec.removeprefix("diffusers:"))
    elif ".py:" in spec:
        made = function_at(spec)
        name = f"{spec.rpartition(':')[2]} of {hashlib.sha256(file_of(spec).read_bytes()).hexdigest()}"
    else:
        raise InputError(
            f"--sampler must be {', '.join(INPAINTERS)}, file.onnx, file.py:function or diffusers:NAME, got {spec!r}"
        )
    if named.diversify:
        made, name = image.diversify(made), None if name is None else f"diversified {name}"
    if info_of(made).deterministic and test not in (None, "osft"):
        raise InputError(
            f"--test {test} needs draws that differ, but {spec} always fills alike; add --diversify, or use --test "
            "osft as in the paper, without a guarantee"
        )
    return image.cached(made, fills, name=name)


def opened_at(named: Regions) -> image.ImageFiles:
    """The images of a folder, or one."""
    path = named.images
    if path.is_file():
        return image.ImageFiles((path,), (path.name,), named.longest)
    return image.folder(path, recursive=named.recursive, longest=named.longest)


def regions_of(named: Regions, seed: int) -> Proposer:
    """A file of boxes, grid, grid:4x5, superpixels, superpixels:30, random or auto; and attributes beside them."""
    overlap: Any = named.overlap
    if named.detector_classes is not None and named.detector is None:
        raise InputError("--detector-classes names what --detector finds; give that file, too")
    found = _regions(named, overlap, seed)
    if named.attributes is None:
        return found
    return image.together(found, image.attributes(*named.attributes.split(",")), overlap=overlap)


def _regions(named: Regions, overlap: Overlap, seed: int) -> Proposer:
    spec, detector = named.boxes, named.detector
    if (spec == "auto") != (detector is not None):
        raise InputError("--boxes auto and --detector file.onnx go together; without a detector use --boxes random")
    if detector is not None:
        return image.detected_boxes(image.onnx_yolo(detector, classes=named.detector_classes), seed=seed)
    if spec == "random":
        return image.random_boxes(seed=seed)
    if found := re.fullmatch(r"grid(?::(\d+)(?:x(\d+))?)?", spec):
        rows, columns = found.groups()
        return image.grid(int(rows or 3), None if columns is None else int(columns))
    if found := re.fullmatch(r"zoom(?::(\d+))?", spec):
        return image.zoom(None if found[1] is None else int(found[1]))
    if found := re.fullmatch(r"superpixels(?::(\d+))?", spec):
        return image.superpixels(int(found[1] or 30))
    if not Path(spec).exists():
        raise InputError(
            f"--boxes is {spec!r}, neither a file nor auto, random, grid, grid:4x5, zoom, superpixels or superpixels:30"
        )
    return (image.masks if holds_masks(Path(spec)) else image.boxes)(spec, overlap=overlap)
