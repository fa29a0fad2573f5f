"""The process of one run of the studio: reads a job, says how far it is in lines of JSON, writes the result's folder.

It is a process of its own so that it can be stopped at any time and takes its memory with it.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from butfor.evaluation.progress import Progress
from butfor.results.result import Result
from butfor.types import InputError

Say = Callable[..., None]
EVERY = 0.1  # seconds between two words on progress
MOST_ROWS = 2_000  # hypotheses that are told one by one


def main(arguments: list[str]) -> int:
    """0: done; 1: a sentence was said; 130: stopped, and nothing is decided."""
    out = sys.stdout

    def say(**what: object) -> None:
        out.write(json.dumps(what) + "\n")
        out.flush()

    try:
        job = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
        with warnings.catch_warnings(), redirect_stdout(sys.stderr):
            warnings.simplefilter("ignore")  # what matters of them is in the result's notes
            if job["task"] == "view":
                _view(job)
            else:
                _run(job, say)
    except KeyboardInterrupt:
        return 130
    except InputError as error:
        say(state="failed", message=str(error))
        return 1
    except Exception as error:  # a model may raise anything: the page must say what
        say(state="failed", message=f"{type(error).__name__}: {error}"[:2_000])
        return 1
    return 0


def _view(job: dict[str, Any]) -> None:
    """What pages show of a result that was found; it may come from anybody."""
    from butfor.load import load
    from butfor.studio.results import make_view

    path = Path(job["result"])
    result = load(path, images_in=[path.parent, job["folder"]])
    if result.is_global:
        raise InputError(f"{path.name} is of butfor global, which has no page here; report.html beside it has it")
    make_view(result, Path(job["out"]))


def _run(job: dict[str, Any], say: Say) -> None:
    from butfor.report.write import write_folder
    from butfor.studio.results import make_view

    say(stage="loading the model")
    perform = {"table": _table, "image": _image, "text": _text}[job["kind"]]
    result = perform(job, _progress(say, job["kind"]))
    result = result.with_sources(model=job["model"]["name"])
    say(stage="writing")
    write_folder(result, Path(job["out"]))
    make_view(result, Path(job["view"]))
    say(state="done", chosen=int(result.chosen.sum()), stage="done")


def _progress(say: Say, kind: str) -> Callable[[Progress], None]:
    """Tell how far it is, not too often; which are chosen only where a rejection stands once it is made."""
    last = 0.0

    def report(now: Progress) -> None:
        nonlocal last
        if time.monotonic() - last < EVERY:
            return
        last = time.monotonic()
        rows = now.chosen_rows
        told = (
            kind != "table" and now.stage in ("sequential", "effects") and rows is not None and len(rows) <= MOST_ROWS
        )
        more = {"chosen_rows": rows.nonzero()[0].tolist()} if told and rows is not None else {}
        say(stage=now.stage, rows=now.rows, total=now.total, chosen=now.chosen, **more)

    return report


def _options(job: dict[str, Any], box: object) -> dict[str, Any]:
    from butfor.cli.options import TestOptions

    return {**TestOptions(**job["tests"]).settings(box), "seed": job["seed"]}


def _table(job: dict[str, Any], progress: Callable[[Progress], None]) -> Result:
    from butfor import explain
    from butfor.cli.options import Trust
    from butfor.cli.tables import sampler_named
    from butfor.models import wrap
    from butfor.studio.models import demo_model
    from butfor.tabular.files import TableRequest, read_tables

    model, asked = job["model"], dict(job["table"])
    spec = model["spec"]
    make = sampler_named(job["sampler"]["spec"])
    box = demo_model(spec) if spec.startswith("demo:") else Trust(**model["options"]).load(spec)
    names, subsets = asked.pop("names"), asked.pop("subsets")
    known = wrap(box).columns
    asked["known"] = None if known is None else list(map(str, known))
    rows: dict[str, Any] = {
        name: Path(value) if name in ("data", "reference") else value for name, value in asked.items()
    }
    try:
        read = read_tables(TableRequest(**rows))
    except InputError as error:
        raise InputError(_called(str(error), names)) from error
    result = explain(box, read.data, make(read.reference), subsets=subsets, progress=progress, **_options(job, box))
    sources = {name: _called(text, names) for name, text in read.sources.items()}
    return result.with_sources(**sources)


def _called(text: str, names: dict[str, str]) -> str:
    """Files by what people called them."""
    for path, name in names.items():
        text = text.replace(path, name)
    return text


def _image(job: dict[str, Any], progress: Callable[[Progress], None]) -> Result:
    from butfor import image
    from butfor.cli.image import ImageModel, Inpainter, named_model, named_sampler
    from butfor.image.explain import classifier
    from butfor.studio.models import demo_model

    spec, options = job["model"]["spec"], dict(job["model"]["options"])
    if "classes" in options:
        options["classes"] = Path(options["classes"])
    named = ImageModel(model=spec, **options)
    box = classifier(demo_model(spec) if spec.startswith("demo:") else named_model(named))
    sampler, more = job["sampler"]["spec"], job["sampler"]["options"]
    drawing = named_sampler(
        Inpainter(sampler=sampler, **more), job["tests"].get("test"), None, Path(job["out"]) / "fills"
    )
    images = job["images"]
    files = image.ImageFiles(tuple(Path(one["path"]) for one in images), tuple(one["name"] for one in images))
    drawn = {one["name"]: {name: tuple(box) for name, box in one["boxes"].items()} for one in images}
    boxes = image.boxes(drawn, units="pixel", overlap="alone") if any(drawn.values()) else image.grid(3)
    result = image.explain(box, files, drawing, boxes=boxes, effects="chosen", progress=progress, **_options(job, box))
    named_files = ", ".join(one["name"] for one in images[:5]) + (" and more" if len(images) > 5 else "")
    return result.with_sources(data=named_files)


def _text(job: dict[str, Any], progress: Callable[[Progress], None]) -> Result:
    from butfor import text
    from butfor.cli.options import Trust
    from butfor.cli.text import Infiller, TextModel, named_model, named_sampler
    from butfor.text.models import text_model

    given = dict(job["model"]["options"])
    trust = Trust(**{name: given.pop(name) for name in ("trust_pickle", "trust") if name in given})
    box = text_model(named_model(TextModel(model=job["model"]["spec"], **given), trust))
    drawing = named_sampler(Infiller(sampler=job["sampler"]["spec"], **job["sampler"]["options"]), None)
    texts = {one["name"]: one["text"] for one in job["texts"]}
    result = text.explain(
        box, texts, drawing, units=_units(job["texts"]), effects="chosen", progress=progress, **_options(job, box)
    )
    return result.with_sources(data=f"{len(texts)} texts typed in the studio")


def _units(texts: list[dict[str, Any]]) -> Any:
    """What was marked; every word of the texts in which nothing was."""
    from butfor import text

    words = text.words()
    if not any(one["spans"] for one in texts):
        return words
    marked = {}
    for one in texts:
        found = [subset.index for subset in words(one["name"], one["text"])]
        marked[one["name"]] = [tuple(span) for span in one["spans"]] or found
    return text.spans(marked, overlap="alone")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
