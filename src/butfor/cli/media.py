"""`butfor image`, `butfor text` and `butfor context`: regions of photographs, words of texts, parts of prompts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from butfor.cli.options import (
    FOLDER,
    MODEL,
    RUN,
    TEST,
    Output,
    Trust,
    bar,
    command,
    finish,
    kept,
    library_settings,
    opt,
    stopped_early,
    working,
    written,
)
from butfor.report.write import save_png
from butfor.results.words import as_note
from butfor.types import InputError, whole

FILLS, RANKS = "fills", "ranks.png"
TABLES_ONLY = ("sufficient", "exact", "control")
ENOUGH_HELP = (
    "Look for the fewest parts of each input that keep its decision with a probability above this, such as 0.9, while "
    "all the rest is redrawn. Default: none."
)
IMAGE_MODEL_HELP = (
    "file.onnx, file.py:function (from a list of uint8 arrays to outputs), the name of a torchvision model such as "
    "inception_v3, or hf:NAME or a folder of a Hugging Face image classifier."
)
PREPROCESS_HELP = (
    "How images go into the model: whole, crop, imagenet-whole, imagenet-crop, inception-whole or inception-crop."
)
SIZE_HELP = "Pixels of both sides that the network takes. Default: as its file says, else 224."
MEAN_HELP = "In place of the preset's: grey levels taken off, one number or red,green,blue."
SCALE_HELP = "In place of the preset's: what grey levels are then divided by, one number or three."
BOXES_HELP = (
    "What to test: where (finds the places that matter by itself; the default, but with options of the sampler grid), "
    "a JSON, COCO or VOC file of boxes, a folder of masks (a folder of PNG files for each image), grid or grid:4x5, "
    "zoom or zoom:32 (coarse to fine, to cells of 32 pixels), superpixels or superpixels:30, random, or auto (a "
    "detector's boxes, then random ones; needs --detector)."
)
INPAINTER_HELP = (
    "What fills a region: donor, telea, navier-stokes, an inpainting network as file.onnx (MI-GAN, LaMa), "
    "file.py:function, or diffusers:NAME."
)
DIVERSIFY_HELP = "Draw from a network that always fills alike by changing what it sees; any test but osft needs it."


@dataclass(frozen=True, kw_only=True)
class ImageModel:
    """A classifier of images, and how images go into it."""

    panel = MODEL
    model: Annotated[str, opt(IMAGE_MODEL_HELP)]
    preprocess: Annotated[str | None, opt(PREPROCESS_HELP)] = None
    size: Annotated[int | None, opt(SIZE_HELP)] = None
    mean: Annotated[str | None, opt(MEAN_HELP)] = None
    scale: Annotated[str | None, opt(SCALE_HELP)] = None
    classes: Annotated[Path | None, opt("Names of the classes: a JSON list, or one a line.")] = None
    threads: Annotated[int | None, opt("Threads of each ONNX network.")] = None


@dataclass(frozen=True, kw_only=True)
class Regions:
    """Images, and what to test in them."""

    panel = "Images and regions"
    images: Annotated[Path, opt("Folder with the images, or one image.")]
    boxes: Annotated[str | None, opt(BOXES_HELP)] = None
    detector: Annotated[Path | None, opt("A YOLO network as file.onnx, for --boxes auto.")] = None
    detector_classes: Annotated[Path | None, opt("Names of the detector's classes: a JSON list, or one a line.")] = None
    overlap: Annotated[str, opt("refuse, or alone: test regions that overlap, each alone.")] = "refuse"
    attributes: Annotated[str | None, opt("Properties of the whole image to test as well: colour,texture.")] = None
    longest: Annotated[int | None, opt("Shrink images whose longer side has more pixels.")] = None
    recursive: Annotated[bool, opt("Search the folders inside, too.", "--recursive")] = False


@dataclass(frozen=True, kw_only=True)
class Inpainter:
    """The sampler of regions, and checks of it."""

    panel = TEST
    sampler: Annotated[str, opt(INPAINTER_HELP)] = "donor"
    diversify: Annotated[bool, opt(DIVERSIFY_HELP, "--diversify")] = False
    effects: Annotated[bool, opt("Estimate effects from fresh draws.", "--effects")] = False
    sensitivity: Annotated[
        bool, opt("Run four times more with every region moved diagonally, and compare.", "--sensitivity")
    ] = False
    pixels: Annotated[int, opt("How far --sensitivity moves them.")] = 1
    check: Annotated[bool, opt("Rank real patches among their draws; writes ranks.png.", "--check-sampler")] = False
    fills: Annotated[Path | None, opt("Folder that keeps the fills for other runs. Default: fills in --out.")] = None


@command(
    without=("config", *TABLES_ONLY, "run_dir"),  # its fills are kept in any case
    target="Which output: its label or number, predicted (the default), or observed-class (the paper's).",
    enough=ENOUGH_HELP,
    draws="Counterfactuals per region, or the most of them.",
    on_error="raise, or skip: leave out images that cannot be read or whose boxes do not fit.",
)
def image(*, model: ImageModel, regions: Regions, inpainter: Inpainter, output: Output, **settings: Any) -> None:
    """Test regions of photographs; write result.butfor, table.csv and report.html with the pictures in it."""
    from butfor.evaluation.samplers import info_of
    from butfor.image import ImageFiles, explain, folder, ranks, sensitivity
    from butfor.image.explain import NOT_WHERE, classifier
    from butfor.image.named import model_named, regions_named, sampler_named

    whole("--pixels", inpainter.pixels, 1)
    files, notes = dict(FOLDER), []
    with working(output):
        box = classifier(model_named(**vars(model)))
        fills, test = inpainter.fills or output.out / FILLS, settings.get("test")
        how: dict[str, Any] = {"diversify": inpainter.diversify, "test": test, "threads": model.threads}
        sampler = sampler_named(inpainter.sampler, fills, **how)
        if inpainter.check and info_of(sampler).deterministic:
            raise InputError("--check-sampler needs draws that differ, but the sampler always fills alike; --diversify")
        path = regions.images
        if path.is_file():
            pictures = ImageFiles((path,), (path.name,), regions.longest)
        else:
            pictures = folder(path, recursive=regions.recursive, longest=regions.longest)
        redraws = inpainter.sampler != "donor" or any((inpainter.diversify, inpainter.effects, inpainter.sensitivity))
        tested = any(settings.get(name) is not None for name in NOT_WHERE)  # options of given regions
        given = redraws or tested or inpainter.check or regions.attributes
        boxes: Any = regions.boxes or ("grid" if given else "where")
        settings = {**library_settings(settings, box), "seed": output.seed}
        if boxes != "where":
            names = ("detector", "detector_classes", "overlap", "attributes")
            boxes = regions_named(boxes, **{name: getattr(regions, name) for name in names}, seed=output.seed)
        elif redraws or inpainter.check or regions.attributes or regions.detector:
            raise InputError("--boxes where takes no sampler, attributes or detector; use --boxes grid with them")
        settings |= {"boxes": boxes, "effects": "chosen" if inpainter.effects else None}
        result = explain(box, pictures, None if boxes == "where" else sampler, progress=bar(output), **settings)
        if inpainter.sensitivity:
            notes.append(sensitivity(box, pictures, sampler, pixels=inpainter.pixels, **settings).summary())
        if inpainter.check:
            draws = int(np.clip(result.record.draws, 2, 20))
            where = {name: settings[name] for name in ("boxes", "on_error", "seed") if name in settings}
            ranked = ranks(box, pictures, sampler, draws=draws, **where)
            notes.append(ranked.verdict)
            files["Ranks"] = RANKS
        result = replace(result, run_notes=(*result.run_notes, *map(as_note, notes)))
        result = written(result, output, model=model.model, data=str(path))
        if inpainter.check:
            save_png(ranked.plot, output.out / RANKS, 8)
    finish(output, result.summary, result.to_json, files)


TEXT_MODEL_HELP = (
    "small-sentiment, file.onnx with --tokenizer, file.py:function (from a list of strings to outputs), file.skops "
    "or a pickle of a text pipeline, or hf:NAME or a folder of a Hugging Face text classifier."
)
TEXTS_HELP = (
    "A .csv, .tsv, .jsonl or .json file, a directory of .txt files (a text each), a .txt file or - for standard input "
    "(a text a line, or JSON lines)."
)
UNITS_HELP = (
    "What to test: word (all places of a word together), occurrence (each place), wordpiece (of the sampler, or "
    "wordpiece:TOKENIZER), sentence, phrase, zoom, match:PATTERN (a regular expression), or a JSON file of spans."
)
INFILLER_HELP = (
    "What redraws words: small-infiller, masked-lm:DIR, causal-lm:DIR, ngram:FILE, a folder of a language model of "
    "transformers, or file.py:function."
)
CORPUS_HELP = (
    "Labelled texts, a file as in --texts, in place of --sampler: words are drawn among those that are as common in "
    "every class of it."
)
AMONG_HELP = "plain: small-infiller draws only words that are as common in praise as in blame; or a file of words."
LISTED_HELP = "Evaluate so many of the likeliest fills for an exact p-value instead of drawing (sequential, irt)."


@dataclass(frozen=True, kw_only=True)
class TextModel:
    panel = MODEL
    model: Annotated[str, opt(TEXT_MODEL_HELP)]
    tokenizer: Annotated[str | None, opt("tokenizer.json, or a folder with one, of an ONNX model.")] = None
    classes: Annotated[str | None, opt("Names of the outputs: negative,positive.")] = None
    limit: Annotated[int | None, opt("Pieces that an ONNX model takes; longer texts are refused.")] = None
    function: Annotated[str | None, opt("What a network's outputs go through: softmax, sigmoid or none.")] = None


@dataclass(frozen=True, kw_only=True)
class Corpus:
    panel = TEST
    corpus: Annotated[str | None, opt(CORPUS_HELP)] = None
    labels: Annotated[str | None, opt("Column of --corpus with the class of each text.")] = None


@dataclass(frozen=True, kw_only=True)
class Units:
    """Texts, and what to test in them."""

    panel = "Texts and what to test"
    texts: Annotated[str, opt(TEXTS_HELP)]
    units: Annotated[str, opt(UNITS_HELP)] = "word"
    column: Annotated[str | None, opt("Column or key with the texts. Default: the only one, or text.")] = None
    name: Annotated[str | None, opt("Column or key with the names of the texts. Default: row numbers.")] = None
    whole: Annotated[bool, opt("A .txt file, or standard input, is one text with all of its lines.", "--whole")] = False
    overlap: Annotated[str, opt("refuse, or alone: test spans that overlap, each alone.")] = "refuse"


@dataclass(frozen=True, kw_only=True)
class Infiller:
    panel = TEST
    sampler: Annotated[str | None, opt(INFILLER_HELP + " Default: small-infiller.")] = None
    temperature: Annotated[float | None, opt("Of the language model; 1 leaves it as it is.")] = None
    top_k: Annotated[int | None, opt("Draw among so many fills only.")] = None
    top_p: Annotated[float | None, opt("Draw among the likeliest fills of this mass only.")] = None
    among: Annotated[str | None, opt(AMONG_HELP)] = None
    listed: Annotated[int, opt(LISTED_HELP)] = 0
    threads: Annotated[int | None, opt("Threads of small-infiller.")] = None


@command(
    without=("config", *TABLES_ONLY),
    target="Which output: its label or number, predicted (the default where there are several), or observed-class "
    "(the paper's).",
    enough=ENOUGH_HELP,
    draws="Counterfactuals per word, or the most of them.",
    on_error="raise, or skip: leave out texts that cannot be used, with a note.",
)
def text(
    *,
    model: TextModel,
    trust: Trust,
    units: Units,
    infiller: Infiller,
    domain: Corpus,
    effects: Annotated[bool, opt("Estimate effects from fresh draws.", "--effects/--no-effects", panel=TEST)] = True,
    output: Output,
    **settings: Any,
) -> None:
    """Test words of texts; write result.butfor, table.csv and report.html with the texts in it."""
    from butfor.evaluation.samplers import info_of
    from butfor.text import explain
    from butfor.text.files import load_texts
    from butfor.text.models import text_model
    from butfor.text.named import model_named, sampler_named, units_named
    from butfor.text.view import found_in, harmless

    with working(output):
        texts = load_texts(units.texts, column=units.column, name=units.name, whole=units.whole)
        box = text_model(model_named(**vars(model), **vars(trust)))
        sampler = None
        if domain.corpus is None and domain.labels is None:
            sampler = sampler_named(**{**vars(infiller), "sampler": infiller.sampler or "small-infiller"})
        elif domain.corpus is None or domain.labels is None or infiller != Infiller():
            raise InputError("--corpus and --labels go together, without --sampler and its options")
        else:
            for key, column in (("corpus", units.column), ("labels", domain.labels)):
                settings[key] = list(load_texts(domain.corpus, column=column).values())
        settings = library_settings(settings, box)
        with kept(settings.pop("run_dir", None), output.out) as run_dir:
            settings["units"] = units_named(
                units.units,
                tokenizer=info_of(sampler).tokenizer,
                overlap=units.overlap,  # type: ignore[arg-type]
            )
            settings["effects"] = "chosen" if effects else None
            result = explain(box, texts, sampler, **output.how(run_dir), **settings)
            result = written(result, output, model=model.model, data=units.texts)
    summary = harmless(result.summary())  # names are parts of texts
    finish(output, lambda: f"{summary}\n{found_in(result)}", result.to_json)
    stopped_early(result, output)


LANGUAGE_MODEL_HELP = (
    "http://127.0.0.1:8080/v1 (any server of OpenAI's protocol; the key comes from the environment), file.py:function "
    "(from a list of prompts to a list of answers), or small-reader, the embedded network."
)
PROMPTS_HELP = (
    'A .jsonl or .json file: {"question": ..., "passages": [...]}, {"parts": {...}, "question": ...} or '
    '{"messages": [...]}, with a "name" and an "answer" if you like.'
)
FOILS_HELP = (
    "What might have stood there: a .txt file (a text a line), .jsonl or .json of texts, {text, kind} or lists by "
    "kind; or drop, which deletes the part and promises nothing."
)


@dataclass(frozen=True, kw_only=True)
class LanguageModel:
    """A language model, and how it is asked."""

    panel = MODEL
    model: Annotated[str, opt(LANGUAGE_MODEL_HELP)]
    served: Annotated[str | None, opt("The name of the model at the server.")] = None
    api: Annotated[str, opt("completions, chat or llama.cpp: what the server speaks.")] = "completions"
    key: Annotated[str, opt("The environment variable that holds the key; never the key.")] = "OPENAI_API_KEY"
    max_tokens: Annotated[int, opt("Longest answer of a server, in tokens.")] = 32
    temperature: Annotated[float, opt("Of a server's answers; above 0 give --samples.")] = 0.0
    concurrency: Annotated[int, opt("Requests under way at a time.")] = 4


@dataclass(frozen=True, kw_only=True)
class Contexts:
    """Prompts, foils, and what is asked of them."""

    panel = TEST
    prompts: Annotated[Path, opt(PROMPTS_HELP)]
    foils: Annotated[str, opt(FOILS_HELP)]
    parts: Annotated[str | None, opt("zoom, or the names of parts: passage 1,passage 2. Default: all with foils.")] = (
        None
    )
    same: Annotated[str, opt("normalised or exact: when two answers are the same.")] = "normalised"
    level: Annotated[float, opt("The share of foils above which a part is decisive.")] = 0.5
    alpha: Annotated[float, opt("Share of the parts called decisive that may be wrong on average.")] = 0.1
    draws: Annotated[int, opt("The most foils of a part.")] = 10
    samples: Annotated[int, opt("Above 1 for a model that answers by chance.")] = 1
    enough: Annotated[float, opt("How often the answer must stay for parts to be enough; 0 does not look.")] = 0.9


@dataclass(frozen=True, kw_only=True)
class Spending:
    panel = RUN
    budget: Annotated[int | None, opt("The most calls; the run ends there with what is decided.")] = None
    dry_run: Annotated[bool, opt("Say how many calls and tokens it takes at most, and stop.", "--dry-run")] = False
    run_dir: Annotated[Path | None, opt("Folder that keeps every answer until the run is done. Default: OUT/run.")] = (
        None
    )


@command()
def context(*, model: LanguageModel, contexts: Contexts, spending: Spending, output: Output) -> None:
    """Test the passages, examples, turns or instructions of prompts; write result.butfor, table.csv and report.html."""
    from butfor.context.ask import FILE
    from butfor.context.explain import cost, explain
    from butfor.context.files import model_named, read_foils, read_prompts
    from butfor.context.result import write_folder

    with working(output):
        prompts, answers = read_prompts(contexts.prompts)
        foils = "drop" if contexts.foils == "drop" else read_foils(contexts.foils)
        answering = model_named(**vars(model))
        size: dict[str, Any] = {**vars(contexts), "enough": contexts.enough or None}
        del size["prompts"], size["foils"]
        if contexts.parts not in (None, "zoom"):
            size["parts"] = [one.strip() for one in contexts.parts.split(",")]
        most = cost(answering, prompts, foils, **size)
        words = (
            f"at most {most.calls:,} calls and about {most.tokens:,} tokens of prompts; where few parts matter about "
            f"{most.likely:,} calls"
        )
        if model.temperature > 0 and contexts.samples < 3:
            typer.echo("note: answers by chance (--temperature above 0) need --samples 3 or more", err=True)
        if spending.dry_run:
            typer.echo(words, err=True)
            return
        if not output.quiet:
            typer.echo(f"note: {words}", err=True)
        with kept(spending.run_dir, output.out, FILE) as folder:
            size |= {"answer": answers, "budget": spending.budget}
            result = explain(answering, prompts, foils, **output.how(folder), **size)
            write_folder(result, output.out)
    finish(output, result.marked, result.to_json)
