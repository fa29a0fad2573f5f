"""Everything of butfor that reads a file of somebody else's: a good file of each kind, and what is done with it."""

import io
import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import butfor
from butfor import image, text
from butfor.cli.options import parsed_config
from butfor.image.files import read_image
from butfor.image.models import class_names
from butfor.models.files import load_model
from butfor.models.remote import BoundedAnswer, Contract, answer, contract
from butfor.models.wrap import wrap
from butfor.report.write import render
from butfor.tabular.files import TableRequest, evaluated, read_subsets, read_tables
from butfor.text.segment import tokens_of
from butfor.text.small import WEIGHTS
from butfor.untrusted import parse_json

REVIEW = "A good film, really good: not bad at all. " + "a" * 60
PEOPLE = pd.DataFrame({"age": [30, 60, 50], "blood group": ["A", "B", None], "group": ["x", "x", "y" * 60]})
ROWS = np.random.default_rng(0).normal(size=(6, 3))
PICTURE = np.random.default_rng(0).integers(0, 255, (32, 40, 3)).astype(np.uint8)


def framed(rows, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.normal(50, 10, rows), "dose": rng.integers(0, 5, rows)})
    frame["sex"], frame["ok"] = rng.choice(["f", "m"], rows), rng.random(rows) > 0.5
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 100, rows), unit="D")
    frame["kind"] = pd.Categorical(rng.choice(["x", "y"], rows))
    return frame


def two_classes(frame):
    share = 1 / (1 + np.exp(-(frame["age"].to_numpy(float) - 60) / 5))
    return np.column_stack([1 - share, share])


def results():
    """Small results of every kind, as bytes by name."""
    inputs = framed(22, 1).assign(age=lambda frame: frame["age"] + 20)
    yield "table.butfor", butfor.explain(two_classes, inputs, framed(40, 0), draws=60)
    rows = np.random.default_rng(1).normal([4, 0, 0], 1, size=(12, 3))
    reference = np.random.default_rng(2).normal(size=(60, 3))
    yield "array.butfor", butfor.explain(lambda x: x.sum(axis=1), rows, reference, subsets="columns", test="few-shot")
    yield "global.butfor", butfor.global_importance(lambda x: x.sum(axis=1), rows, reference=reference)
    texts = ["A good film, really good.", "Bad film."]
    sampler = text.ngram(["a good film", "a bad film", "really good", "so bad a film"])
    yield "text.butfor", text.explain(lambda given: np.array([t.count("good") for t in given], float), texts, sampler)


def image_results(folder):
    """Results on images that lie in a folder; their paths go into the file."""
    read = folder / "picture.png"
    regions = {
        "boxes": image.together(image.grid(2), image.attributes("colour")),
        "masks": image.masks({"a": PICTURE[..., 0] > 99}),
    }
    for name, boxes in regions.items():
        yield (
            f"{name}.butfor",
            image.explain(lambda given: np.array([x.mean() for x in given]), [read], image.donor(), boxes=boxes),
        )


def encoded(result):
    path = Path(encoded.folder) / "seed.butfor"
    return result.save(path).read_bytes()


def seeds(folder):
    """Good files of every kind: name -> content."""
    from PIL import Image

    encoded.folder, made = str(folder), {}
    for kind in ("png", "jpeg", "gif", "tiff", "webp", "bmp", "ppm"):
        buffer = io.BytesIO()
        Image.fromarray(PICTURE).save(buffer, kind)
        made[f"picture.{'jpg' if kind == 'jpeg' else kind}"] = buffer.getvalue()
    (folder / "picture.png").write_bytes(made["picture.png"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made |= {name: encoded(result) for name, result in (*results(), *image_results(folder))}
    return made | _words() | _models(folder) | _tables(folder)


def _words():
    thing = (
        "<object><name>{}</name><bndbox><xmin>{}</xmin><ymin>1</ymin><xmax>{}</xmax><ymax>9</ymax></bndbox></object>"
    )
    voc = "<annotation><filename>p</filename><size><width>40</width><height>32</height></size>{}{}</annotation>"
    coco = {
        "images": [{"id": 1, "file_name": "p", "width": 40, "height": 32}],
        "categories": [{"id": 1, "name": "cat"}],
    }
    said = {"name": "p", "datatype": "FP64", "shape": [3, 2], "data": [0.1, 0.9] * 3}
    declared = {"name": "m", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}], "outputs": []}
    files = {
        "boxes.json": {"boxes": {"p": [[1, 1, 9, 9], {"name": "cat", "box": [10, 10, 20, 20]}]}, "units": "pixel"},
        "coco.json": coco | {"annotations": [{"image_id": 1, "bbox": [1, 1, 5, 5], "category_id": 1}]},
        "spans.json": {"spans": {"review": [[2, 6], ["name", 7, 11], {"start": 13, "end": 19, "name": "b"}]}},
        "subsets.json": {"size": ["a", 1], "tree": {"left": ["b"], "right": ["c", "d"]}},
        "texts.json": [{"id": "7", "text": "Good."}, {"id": "9", "text": "Bad."}],
        "classes.json": ["cat", "dog"],
        "answer.json": {"id": "n", "outputs": [said]},
        "declared.json": declared,
        "tokenizer.json": parse_json((WEIGHTS / "tokenizer.json").read_bytes()),
    }
    plain = {
        "boxes.xml": voc.format(thing.format("cat", 1, 9), thing.format("dog", 12, 20)),
        "texts.csv": 'id,text\n7,Good.\n9,"Bad, bad."\n',
        "texts.jsonl": '{"id": 1, "text": "Good."}\n{"id": 2, "text": "Bad."}\n',
        "options.toml": 'data = "a.csv"\nalpha = 0.1\ndrop = ["a", "b"]\n',
        "rows.where": "age > 40 and `blood group`.isin(['A', 'B']) or group.str.contains('x+y') and age ** 2 < 9 * 400",
        "units.pattern": r"(good|bad)\s+(\w+)*[a-z]+",
    }
    return {name: json.dumps(value).encode() for name, value in files.items()} | {
        name: value.encode() for name, value in plain.items()
    }


def _models(folder):
    import skops.io
    from skl2onnx import to_onnx
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    target = ROWS[:, 0] > 0
    linear = make_pipeline(StandardScaler(), LogisticRegression()).fit(ROWS, target)
    forest = RandomForestClassifier(2, max_depth=2, random_state=0).fit(ROWS, target)
    return {
        "linear.skops": skops.io.dumps(linear),
        "forest.skops": skops.io.dumps(forest),
        "linear.onnx": to_onnx(linear, ROWS[:1].astype(np.float32)).SerializeToString(),
        "forest.onnx": to_onnx(forest, ROWS[:1].astype(np.float32)).SerializeToString(),
    }


def _tables(folder):
    frame = framed(30, 3)
    frame.to_parquet(folder / "rows.parquet")
    return {"rows.csv": frame.to_csv(index=False).encode(), "rows.parquet": (folder / "rows.parquet").read_bytes()}


def _result(path):
    result = butfor.load(path, images_in=[path.parent.parent])
    result.summary(), result.to_json(), result.table, result.features, result._repr_html_()
    render(result)
    if not isinstance(result, butfor.Result):
        return
    rows = [0, len(result.chosen) - 1]
    for row in rows:
        where = result.input_names[result.input_of[row]], result.subset_names[result.subset_of[row]]
        result.reasons(where[0])
        if result.decided is not None:
            result.nearest(*where)
        if row in result.kept and not result.record.picked:
            result.kept.whole(result.hypotheses, row, 1)
    result.select(alpha=0.2)


def _boxes(path):
    image.boxes(path, overlap="alone")("p", PICTURE)


def _model(path):
    wrap(load_model(str(path), trusted=["sklearn.tree._tree.Tree"]))


def _answer(content):
    try:
        found = BoundedAnswer(200, {}, content).json()
    except ValueError:
        return  # the endpoint says so
    answer(found, Contract(), 3, "n")


READERS = {
    ".butfor": _result,
    "boxes.json": _boxes,
    "coco.json": _boxes,
    "boxes.xml": _boxes,
    "spans.json": lambda path: text.spans(path, overlap="alone")("review", REVIEW),
    "subsets.json": read_subsets,
    "texts.json": lambda path: text.read_texts(path, name="id"),
    "texts.csv": lambda path: text.read_texts(path, name="id"),
    "texts.jsonl": lambda path: text.read_texts(path, name="id"),
    "classes.json": class_names,
    "answer.json": lambda path: _answer(path.read_bytes()),
    "tokenizer.json": lambda path: tokens_of(path).encode(["A good film."]),
    "options.toml": parsed_config,
    "rows.where": lambda path: evaluated(PEOPLE, path.read_text("utf-8", "replace"), "--data-where"),
    "units.pattern": lambda path: text.matches(path.read_text("utf-8", "replace"))("review", REVIEW),
    ".skops": _model,
    ".onnx": _model,
    "rows.csv": lambda path: read_tables(TableRequest(path, reference_where="age > 50", dates=["day"])),
    "rows.parquet": lambda path: read_tables(TableRequest(path, reference_where="age > 50")),
    "picture.": read_image,
}


def declared(path):
    """What a server declares is believed only if it can be read; the endpoint then goes on without."""
    try:
        contract(parse_json(path.read_bytes()))
    except (KeyError, TypeError, ValueError, AttributeError):
        return


READERS["declared.json"] = declared


def read(name, path):
    """Do with a file what butfor does; InputError is a good answer."""
    reader = next(reader for part, reader in READERS.items() if part in name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reader(path)
