"""`butfor image`: every region of every photograph of a folder."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from butfor import image as butfor_image
from butfor.cli.options import (
    BATCH_ROWS_HELP,
    FOLDER,
    MODEL,
    TEST,
    Output,
    TestOptions,
    bar,
    command,
    file_of,
    finish,
    flag,
    function_at,
    given,
    needed,
    one_of,
    option,
    panel,
    working,
    written,
)
from butfor.evaluation.hypotheses import Overlap, Proposer
from butfor.evaluation.samplers import Sampler, info_of
from butfor.image.boxes import holds_masks
from butfor.image.inpainters import open_graph
from butfor.image.models import Preprocess, as_preprocess, class_names, fitted_to
from butfor.models import Wrapped
from butfor.report.write import save_png
from butfor.results.words import as_note
from butfor.settings import TestName
from butfor.types import InputError, whole

FILLS, RANKS = "fills", "ranks.png"


@panel(MODEL)
class ImageModel:
    model: str = needed(
        "file.onnx, file.py:function (from a list of uint8 arrays to outputs), the name of a torchvision model such as "
        "inception_v3, or hf:NAME or a folder of a Hugging Face image classifier."
    )
    preprocess: str | None = option(
        "How images go into the model: whole, crop, imagenet-whole, imagenet-crop, inception-whole or inception-crop."
    )
    size: int | None = option("Pixels of both sides that the network takes. Default: as its file says, else 224.")
    mean: str | None = option("In place of the preset's: grey levels taken off, one number or red,green,blue.")
    scale: str | None = option("In place of the preset's: what grey levels are then divided by, one number or three.")
    classes: Path | None = option("Names of the classes: a JSON list, or one a line.")
    batch_rows: int | None = option(BATCH_ROWS_HELP)
    threads: int | None = option("Threads of each ONNX network.")


@panel("Images and regions")
class Regions:
    images: Path = needed("Folder with the images, or one image.")
    boxes: str = option(
        "What to test: a JSON, COCO or VOC file of boxes, a folder of masks (a folder of PNG files for each image), "
        "grid or grid:4x5, zoom or zoom:32 (coarse to fine, to cells of 32 pixels), superpixels or superpixels:30, "
        "random, or auto (a detector's boxes, then random ones; needs --detector).",
        default="grid",
    )
    detector: Path | None = option("A YOLO network as file.onnx, for --boxes auto.")
    detector_classes: Path | None = option("Names of the detector's classes: a JSON list, or one a line.")
    overlap: str = option("refuse, or alone: test regions that overlap anyway, each alone.", default="refuse")
    attributes: str | None = option("Properties of the whole image to test as well: colour,texture.")
    longest: int | None = option("Shrink images whose longer side has more pixels.")
    recursive: bool = flag("Search the folders inside, too.")
    on_error: str = option(
        "raise, or skip: leave out images that cannot be read or whose boxes do not fit.", default="raise"
    )


@panel(TEST)
class Inpainter:
    sampler: str = option(
        "What fills a region: donor, telea, navier-stokes, an inpainting network as file.onnx (MI-GAN, LaMa), "
        "file.py:function, or diffusers:NAME.",
        default="donor",
    )
    diversify: bool = flag(
        "Draw from a network that always fills alike by changing what it sees; any test but osft needs it."
    )


@panel(TEST)
class Extras:
    effects: bool = flag("Estimate effects from fresh draws.")
    sensitivity: bool = flag("Run four times more with every region moved diagonally, and compare.")
    pixels: int = option("How far --sensitivity moves them.", default=1)
    check: bool = flag("Say where real patches stand among their draws; writes ranks.png.", "--check-sampler")
    fills: Path | None = option("Folder that keeps the fills for other runs. Default: fills in --out.")


@command(
    without=("config",),
    test=f"{one_of(TestName)} Default: sequential where that is expected to take five minutes at most, else few-shot; "
    "osft if the sampler always fills alike.",
    target="Which output: its label or number, predicted (the default), or observed-class (the paper's).",
    draws="Counterfactuals per region, or the most of them.",
)
def image(
    *, model: ImageModel, regions: Regions, sampler: Inpainter, tests: TestOptions, extras: Extras, output: Output
) -> None:
    """Test regions of photographs; write result.butfor, table.csv and report.html with the pictures in it."""
    from butfor.image import explain, ranks, sensitivity
    from butfor.image.explain import classifier

    whole("--pixels", extras.pixels, 1)
    files, notes = dict(FOLDER), []
    with working(output):
        box = classifier(named_model(model))
        drawing = named_sampler(sampler, tests.test, model.threads, extras.fills or output.out / FILLS)
        if extras.check and info_of(drawing).deterministic:
            raise InputError("--check-sampler needs draws that differ, but the sampler always fills alike; --diversify")
        pictures = opened_at(regions)
        where = given(boxes=regions_of(regions, output.seed), on_error=regions.on_error, seed=output.seed)
        settings = {**where, **tests.settings(box), "batch_rows": model.batch_rows}
        settings["effects"] = "chosen" if extras.effects else None
        result = explain(box, pictures, drawing, progress=bar(output), **settings)
        if extras.sensitivity:
            notes.append(sensitivity(box, pictures, drawing, pixels=extras.pixels, **settings).summary())
        if extras.check:
            draws = int(np.clip(result.record.draws, 2, 20))
            places = ranks(box, pictures, drawing, draws=draws, **where)
            notes.append(places.verdict)
            files["Ranks"] = RANKS
        result = replace(result, run_notes=(*result.run_notes, *map(as_note, notes)))
        result = written(result, output, model=model.model, data=str(regions.images))
        if extras.check:
            save_png(places.plot, output.out / RANKS, 8)
    finish(output, result.summary, result.to_json, files)


INPAINTERS: dict[str, Callable[[], Sampler]] = {
    "donor": butfor_image.donor,
    "telea": butfor_image.telea,
    "navier-stokes": butfor_image.navier_stokes,
}


def named_model(named: ImageModel) -> Any:
    """file.onnx, file.py:function, hf:NAME or a folder, or the name of a torchvision model."""
    spec, preprocess, classes = named.model, named.preprocess, named.classes
    if spec.lower().endswith(".onnx"):
        return butfor_image.onnx_classifier(spec, _preprocess(named), classes=classes, threads=named.threads)
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
        return butfor_image.huggingface_classifier(spec.removeprefix("hf:"))
    if "/" in spec or Path(spec).suffix:
        raise InputError(f"--model is {spec!r}, expected file.onnx, file.py:function, hf:NAME or a torchvision model")
    return butfor_image.torchvision_model(spec, preprocess=preprocess)


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
        made = butfor_image.onnx_inpainter(spec, threads=threads)
    elif spec.startswith("diffusers:"):
        made = butfor_image.diffusers_inpainter(spec.removeprefix("diffusers:"))
    elif ".py:" in spec:
        made = function_at(spec)
        name = f"{spec.rpartition(':')[2]} of {hashlib.sha256(file_of(spec).read_bytes()).hexdigest()}"
    else:
        raise InputError(
            f"--sampler must be {', '.join(INPAINTERS)}, file.onnx, file.py:function or diffusers:NAME, got {spec!r}"
        )
    if named.diversify:
        made, name = butfor_image.diversify(made), None if name is None else f"diversified {name}"
    if info_of(made).deterministic and test not in (None, "osft"):
        raise InputError(
            f"--test {test} needs draws that differ, but {spec} always fills alike; add --diversify, or use --test "
            "osft as in the paper, without a guarantee"
        )
    return butfor_image.cached(made, fills, name=name)


def opened_at(named: Regions) -> butfor_image.ImageFiles:
    """The images of a folder, or one."""
    path = named.images
    if path.is_file():
        return butfor_image.ImageFiles((path,), (path.name,), named.longest)
    return butfor_image.folder(path, recursive=named.recursive, longest=named.longest)


def regions_of(named: Regions, seed: int) -> Proposer:
    """A file of boxes, grid, grid:4x5, superpixels, superpixels:30, random or auto; and attributes beside them."""
    overlap: Any = named.overlap
    if named.detector_classes is not None and named.detector is None:
        raise InputError("--detector-classes names what --detector finds; give that file, too")
    found = _regions(named, overlap, seed)
    if named.attributes is None:
        return found
    return butfor_image.together(found, butfor_image.attributes(*named.attributes.split(",")), overlap=overlap)


def _regions(named: Regions, overlap: Overlap, seed: int) -> Proposer:
    spec, detector = named.boxes, named.detector
    if (spec == "auto") != (detector is not None):
        raise InputError("--boxes auto and --detector file.onnx go together; without a detector use --boxes random")
    if detector is not None:
        return butfor_image.detected_boxes(butfor_image.onnx_yolo(detector, classes=named.detector_classes), seed=seed)
    if spec == "random":
        return butfor_image.random_boxes(seed=seed)
    if found := re.fullmatch(r"grid(?::(\d+)(?:x(\d+))?)?", spec):
        rows, columns = found.groups()
        return butfor_image.grid(int(rows or 3), None if columns is None else int(columns))
    if found := re.fullmatch(r"zoom(?::(\d+))?", spec):
        return butfor_image.zoom(None if found[1] is None else int(found[1]))
    if found := re.fullmatch(r"superpixels(?::(\d+))?", spec):
        return butfor_image.superpixels(int(found[1] or 30))
    if not Path(spec).exists():
        raise InputError(
            f"--boxes is {spec!r}, neither a file nor auto, random, grid, grid:4x5, zoom, superpixels or superpixels:30"
        )
    return (butfor_image.masks if holds_masks(Path(spec)) else butfor_image.boxes)(spec, overlap=overlap)
