"""Write the example notebooks of examples/notebooks, without outputs: python tools/notebooks.py"""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "notebooks"
TABLE = [
    "# A table: why are these wines called Barolo?\n\n"
    "The reference is wines of the other kinds, which the model was not fitted on.",
    """from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import butfor

rows, kind = load_wine(return_X_y=True, as_frame=True)
train, rest, seen, truth = train_test_split(rows, kind, test_size=0.6, random_state=0)
model = make_pipeline(StandardScaler(), LogisticRegression()).fit(train, seen)
result = butfor.explain(model, rest[truth == 0], rest[truth != 0])
result""",
    "One wine: what the decision hangs on, and what each feature does to the probability. Grey is not established.",
    "first = result.input_names[0]\nresult.plot.decision(first)\nresult.plot.effects_from_output(first);",
    "All of them.",
    "result.plot.features()\nresult.plot.beeswarm();",
    "The whole answer as one file to share.",
    'result.report("report.html")',
]
IMAGE = [
    "# Images: which corner makes the picture bright?\n\n"
    "Made pictures, so that it takes a second; "
    "the sampler puts other patches of the same picture there.",
    """import numpy as np

import butfor

noise = np.random.default_rng(0).integers(90, 110, (6, 48, 64, 3), dtype=np.uint8)
noise[:, :16, :20] += 100
pictures = {f"picture {k}": image for k, image in enumerate(noise)}
boxes = {"bright": (0, 0, 20, 16), "dull": (30, 20, 55, 40)}


def model(images):
    return [float(image[:16, :20].mean()) for image in images]


result = butfor.image.explain(model, pictures, butfor.image.donor(), boxes=boxes, alpha=0.2)
result""",
    'result.plot.photograph("picture 0");',
    'result.report("images.html")',
]
TEXT = [
    "# Texts: which words make a review good or bad?\n\n"
    "A small network judges reviews, another redraws one word at a time. "
    "Both are built in; nothing is fetched.",
    """import butfor

reviews = {
    "praise": "A wonderful film with a simple story and beautiful music.",
    "blame": "A dreadful mess. Nothing in it makes sense, and the end is worse.",
    "both": "Great actors, terrible script.",
}
sampler = butfor.text.small_infiller(among="plain")
result = butfor.text.explain(butfor.text.small_sentiment(), reviews, sampler, link="logit", alpha=0.2)
result""",
    'result.plot.highlighted("blame");',
    'result.report("texts.html")',
]


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, cells in {"table": TABLE, "image": IMAGE, "text": TEXT}.items():
        starts = ("import", "from", "result", "first")
        made = [new_code_cell(text) if text.startswith(starts) else new_markdown_cell(text) for text in cells]
        for k, cell in enumerate(made):
            cell["id"] = f"{name}-{k}"
        kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
        nbformat.write(new_notebook(cells=made, metadata=kernel), FOLDER / f"{name}.ipynb")


if __name__ == "__main__":
    main()
