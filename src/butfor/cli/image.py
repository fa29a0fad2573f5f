"""`butfor image`: every region of every photograph of a folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from butfor.cli.common import FOLDER, bar, finish, working, written
from butfor.cli.options import BATCH_ROWS_HELP, MODEL, TEST, Output, TestOptions, given, one_of
from butfor.cli.panels import command, flag, needed, option, panel
from butfor.core.checks import whole
from butfor.core.draw.samplers import info_of
from butfor.core.types import InputError
from butfor.report.picture import save_png
from butfor.run.procedure import TestName

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
    from butfor.cli.image_parts import named_model, named_sampler, opened_at, regions_of
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
            draws = int(np.clip(result.provenance["draws"], 2, 20))
            places = ranks(box, pictures, drawing, draws=draws, **where)
            notes.append(places.verdict)
            files["Ranks"] = RANKS
        result = replace(result, run_notes=(*result.run_notes, *notes))
        result = written(result, output, model=model.model, data=str(regions.images))
        if extras.check:
            save_png(places.plot, output.out / RANKS, 8)
    finish(output, result.summary, result.to_json, files)
