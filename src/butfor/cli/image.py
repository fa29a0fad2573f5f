"""`butfor image`: every region of every photograph of a folder."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, get_args

import numpy as np
import typer

from butfor.run.settings import whole
from butfor.cli import options as o
from butfor.cli.common import bar, given, notes, print_written, save_png, target_of
from butfor.core.result.result import Result
from butfor.core.types import Family, InputError, Rule, Test

FILLS, RANKS = "fills", "ranks.png"
IMAGES = "Images and regions"


def image(
    model: Annotated[
        str,
        typer.Option(
            help="file.onnx, file.py:function (from a list of uint8 arrays to outputs), the name of a torchvision "
            "model such as inception_v3, or hf:NAME or a folder of a Hugging Face image classifier.",
            rich_help_panel=o.MODEL,
        ),
    ],
    images: Annotated[Path, typer.Option(help="Folder with the images, or one image.", rich_help_panel=IMAGES)],
    out: o.Out,
    sampler: Annotated[
        str,
        typer.Option(
            help="What fills a region: donor, telea, navier-stokes, an inpainting network as file.onnx (MI-GAN, LaMa), "
            "file.py:function, or diffusers:NAME.",
            rich_help_panel=o.TEST,
        ),
    ] = "donor",
    diversify: Annotated[
        bool,
        typer.Option(
            "--diversify",
            help="Draw from a network that always fills alike by changing what it sees; any test but osft needs it.",
            rich_help_panel=o.TEST,
        ),
    ] = False,
    boxes: Annotated[
        str,
        typer.Option(
            help="What to test: a JSON, COCO or VOC file of boxes, a folder of masks (a folder of PNG files for each "
            "image), grid or grid:4x5, superpixels or superpixels:30, random, or auto (a detector's boxes, then "
            "random ones; needs --detector).",
            rich_help_panel=IMAGES,
        ),
    ] = "grid",
    detector: Annotated[
        Path | None, typer.Option(help="A YOLO network as file.onnx, for --boxes auto.", rich_help_panel=IMAGES)
    ] = None,
    overlap: Annotated[
        str,
        typer.Option(help="refuse, or alone: test regions that overlap anyway, each alone.", rich_help_panel=IMAGES),
    ] = "refuse",
    attributes: Annotated[
        str | None,
        typer.Option(help="Properties of the whole image to test as well: colour,texture.", rich_help_panel=IMAGES),
    ] = None,
    longest: Annotated[
        int | None, typer.Option(help="Shrink images whose longer side has more pixels.", rich_help_panel=IMAGES)
    ] = None,
    recursive: Annotated[
        bool, typer.Option("--recursive", help="Search the folders inside, too.", rich_help_panel=IMAGES)
    ] = False,
    on_error: Annotated[
        str,
        typer.Option(
            help="raise, or skip: leave out images that cannot be read or whose boxes do not fit.",
            rich_help_panel=IMAGES,
        ),
    ] = "raise",
    preprocess: Annotated[
        str | None,
        typer.Option(
            help="How images go into the model: whole, crop, imagenet-whole, imagenet-crop, inception-whole or "
            "inception-crop.",
            rich_help_panel=o.MODEL,
        ),
    ] = None,
    classes: Annotated[
        Path | None,
        typer.Option(help="Names of the classes: a JSON list, or one a line.", rich_help_panel=o.MODEL),
    ] = None,
    test: Annotated[
        str | None,
        typer.Option(
            help=f"One of {', '.join(get_args(Test))}. Default: few-shot, or osft if the sampler always fills alike.",
            rich_help_panel=o.TEST,
        ),
    ] = None,
    alternative: o.OneSided = None,
    rule: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(get_args(Rule))}.", rich_help_panel=o.TEST)
    ] = None,
    family: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(get_args(Family))}.", rich_help_panel=o.TEST)
    ] = None,
    alpha: o.Alpha = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="Which output: its label or number, predicted (the default), or observed-class (the paper's).",
            rich_help_panel=o.TEST,
        ),
    ] = None,
    link: o.Link = None,
    draws: Annotated[
        int | None, typer.Option(help="Counterfactuals per region, or the most of them.", rich_help_panel=o.TEST)
    ] = None,
    effects: Annotated[
        bool, typer.Option("--effects", help="Estimate effects from fresh draws.", rich_help_panel=o.TEST)
    ] = False,
    sensitivity: Annotated[
        bool,
        typer.Option(
            "--sensitivity",
            help="Run four times more with every region moved diagonally, and compare.",
            rich_help_panel=o.TEST,
        ),
    ] = False,
    pixels: Annotated[int, typer.Option(help="How far --sensitivity moves them.", rich_help_panel=o.TEST)] = 1,
    check: Annotated[
        bool,
        typer.Option(
            "--check-sampler",
            help="Say where real patches stand among their draws; writes ranks.png.",
            rich_help_panel=o.TEST,
        ),
    ] = False,
    fills: Annotated[
        Path | None,
        typer.Option(
            help="Folder that keeps the fills for other runs. Default: fills in --out.", rich_help_panel=o.TEST
        ),
    ] = None,
    batch_rows: o.BatchRows = None,
    threads: Annotated[int | None, typer.Option(help="Threads of each ONNX network.", rich_help_panel=o.MODEL)] = None,
    seed: o.Seed = 0,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Test regions of photographs; write result.butfor, table.csv and report.html with the pictures in it."""
    from butfor.cli.image_parts import named_model, named_sampler, opened_at, regions
    from butfor.image import explain, ranks
    from butfor.image import shifts as moved
    from butfor.image.explain import classifier
    from butfor.report.folder import REPORT, RESULT, TABLE, check_folder, write_folder

    check_folder(out)
    whole("--pixels", pixels, 1)
    files = {"Report": REPORT, "Table": TABLE, "Result": RESULT}
    with notes(quiet), redirect_stdout(sys.stderr):  # a model that prints must not get into the JSON
        box = classifier(named_model(model, preprocess, classes, threads))
        drawing = named_sampler(sampler, diversify, test, threads, fills or out / FILLS)
        if check and getattr(drawing, "deterministic", False):
            raise InputError("--check-sampler needs draws that differ, but the sampler always fills alike; --diversify")
        pictures = opened_at(images, recursive, longest)
        settings = given(
            boxes=regions(boxes, detector, overlap, attributes, seed),
            on_error=on_error,
            test=test,
            alternative=alternative,
            rule=rule,
            family=family,
            alpha=alpha,
            target=target_of(target, box),
            link=link,
            draws=draws,
            seed=seed,
            batch_rows=batch_rows,
            keep_effects=effects,
        )
        result = explain(box, pictures, drawing, progress=bar(quiet), **settings)
        if sensitivity:
            result = _noting(result, moved(box, pictures, drawing, pixels=pixels, **settings).summary())
        if check:
            asked: dict[str, Any] = {name: settings[name] for name in ("boxes", "on_error", "seed")}
            places = ranks(box, pictures, drawing, draws=int(np.clip(result.provenance["draws"], 2, 20)), **asked)
            result, files["Ranks"] = _noting(result, places.verdict), RANKS
        result = replace(result, provenance={**result.provenance, "model": model, "data": str(images)})
        write_folder(result, out)
        if check:
            save_png(places.plot, out / RANKS, 8)
    if json:
        typer.echo(result.to_json())
    else:
        typer.echo(result.summary())
        print_written(out, files)


def _noting(result: Result, sentence: str) -> Result:
    return replace(result, run_notes=(*result.run_notes, sentence))
