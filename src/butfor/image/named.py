"""Models, samplers and regions of images by name: what `butfor image` and studio.toml may say."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from butfor import image
from butfor.evaluation.hypotheses import Overlap, Proposer
from butfor.evaluation.samplers import Sampler, info_of
from butfor.image.boxes import holds_masks
from butfor.image.inpainters import open_graph
from butfor.image.models import Preprocess, as_preprocess, class_names, fitted_to
from butfor.models import Wrapped
from butfor.models.files import file_of, function_at
from butfor.types import InputError, whole

INPAINTERS: dict[str, Callable[[], Sampler]] = {
    "donor": image.donor,
    "telea": image.telea,
    "navier-stokes": image.navier_stokes,
}


def model_named(
    model: str,
    *,
    preprocess: str | None = None,
    size: int | None = None,
    mean: str | None = None,
    scale: str | None = None,
    classes: str | Path | None = None,
    threads: int | None = None,
) -> Any:
    """Return the model of file.onnx, file.py:function, hf:NAME or a folder, or the name of a torchvision model."""
    if model.lower().endswith(".onnx"):
        prepared: object = preprocess or "whole"
        levels: dict[str, Any] = {}
        for name, text in (("mean", mean), ("scale", scale)):
            if text is not None:
                try:
                    given = [float(part) for part in text.split(",")]
                except ValueError:
                    given = []
                if len(given) not in (1, 3) or (name == "scale" and 0 in given):
                    raise InputError(f"--{name} is {text!r}, expected one number or three such as 123.7,116.3,103.5")
                levels[name] = tuple(given * 3 if len(given) == 1 else given)
        if size is not None or levels:
            preset = as_preprocess(prepared)
            assert isinstance(preset, Preprocess)
            if size is None:
                preset = fitted_to(preset, open_graph(model, threads).session.get_inputs()[0].shape)
            prepared = replace(preset, size=whole("--size", size or preset.size, 1), **levels)
        return image.onnx_classifier(model, prepared, classes=classes, threads=threads)
    if (size, mean, scale) != (None, None, None):
        raise InputError(f"--size, --mean and --scale are for .onnx files, got --model {model}; leave them out")
    if ".py:" in model:
        if preprocess is not None:
            raise InputError("--preprocess is for networks; a function is given the images as they are")
        return Wrapped(function_at(model), class_names(None if classes is None else Path(classes)))
    if classes is not None:
        raise InputError(f"--classes is for .onnx files and functions; {model!r} has names of its own")
    if model.startswith("hf:") or Path(model).is_dir():
        if preprocess is not None:
            raise InputError("--preprocess does not go with a Hugging Face classifier, which has its own")
        return image.huggingface_classifier(model.removeprefix("hf:"))
    if "/" in model or Path(model).suffix:
        raise InputError(f"--model is {model!r}, expected file.onnx, file.py:function, hf:NAME or a torchvision model")
    return image.torchvision_model(model, preprocess=preprocess)


def sampler_named(
    sampler: str, fills: Path, *, diversify: bool = False, test: str | None = None, threads: int | None = None
) -> Sampler:
    """Return the inpainter of a name, of file.onnx, file.py:function or diffusers:NAME; its fills are kept."""
    name = None
    made: Sampler
    if sampler in INPAINTERS:
        made = INPAINTERS[sampler]()
    elif sampler.lower().endswith(".onnx"):
        made = image.onnx_inpainter(sampler, threads=threads)
    elif sampler.startswith("diffusers:"):
        made = image.diffusers_inpainter(sampler.removeprefix("diffusers:"))
    elif ".py:" in sampler:
        made = function_at(sampler)
        name = f"{sampler.rpartition(':')[2]} of {hashlib.sha256(file_of(sampler).read_bytes()).hexdigest()}"
    else:
        raise InputError(
            f"--sampler must be {', '.join(INPAINTERS)}, file.onnx, file.py:function or diffusers:NAME, got {sampler!r}"
        )
    if diversify:
        made, name = image.diversify(made), None if name is None else f"diversified {name}"
    if info_of(made).deterministic and test not in (None, "osft"):
        raise InputError(
            f"--test {test} needs draws that differ, but {sampler} always fills alike; add --diversify, or use --test "
            "osft as in the paper, without a guarantee"
        )
    return image.cached(made, fills, name=name)


def regions_named(
    boxes: str,
    *,
    detector: Path | None = None,
    detector_classes: Path | None = None,
    overlap: Overlap = "refuse",
    attributes: str | None = None,
    seed: int = 0,
) -> Proposer:
    """Return the regions of a file of boxes, a folder of masks or a word such as grid:4x5; and attributes beside."""
    if detector_classes is not None and detector is None:
        raise InputError("--detector-classes names what --detector finds; give that file, too")
    if (boxes == "auto") != (detector is not None):
        raise InputError("--boxes auto and --detector file.onnx go together; without a detector use --boxes random")
    regions: Proposer
    if detector is not None:
        regions = image.detected_boxes(image.onnx_yolo(detector, classes=detector_classes), seed=seed)
    elif boxes == "random":
        regions = image.random_boxes(seed=seed)
    elif match := re.fullmatch(r"grid(?::(\d+)(?:x(\d+))?)?", boxes):
        regions = image.grid(int(match[1] or 3), None if match[2] is None else int(match[2]))
    elif match := re.fullmatch(r"zoom(?::(\d+))?", boxes):
        regions = image.zoom(None if match[1] is None else int(match[1]))
    elif match := re.fullmatch(r"superpixels(?::(\d+))?", boxes):
        regions = image.superpixels(int(match[1] or 30))
    elif Path(boxes).exists():
        regions = (image.masks if holds_masks(Path(boxes)) else image.boxes)(boxes, overlap=overlap)
    else:
        raise InputError(
            f"--boxes is {boxes!r}, neither a file nor auto, random, grid, grid:4x5, zoom, superpixels or "
            "superpixels:30"
        )
    if attributes is None:
        return regions
    return image.together(regions, image.attributes(*attributes.split(",")), overlap=overlap)
