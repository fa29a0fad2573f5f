"""The pictures of docs/gallery: every plot, its SHAP counterpart on the same data, and the reports of each modality.

python -m tools.gallery [plots] [shap] [reports]

From the root of the repository. shap needs benchmarks/requirements.txt, reports need playwright and chromium.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from PIL import Image

import butfor
from benchmarks.questions import QUESTIONS, Question
from butfor.image.demo import Tissue, slide, tissue
from butfor.models import wrap
from butfor.streams import stream
from butfor.text.demo import REVIEWS, text_demo
from butfor.text.small import small_sentiment

SLIDE, REVIEW = "slide 1", "The heist"
COLUMN, OTHER, EVERY = "debt ratio", "score", "all columns"
OUT = Path(__file__).resolve().parents[1] / "docs" / "gallery"
FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync --disable-dev-shm-usage"
)


def save(name: str, draw: Callable[[], Any], wide: float | None = None) -> None:
    """One picture, as small a file as does for a page."""
    plt.close("all")
    ax = draw()
    figure = plt.gcf() if ax is None else ax.figure
    if wide is not None:
        figure.set_size_inches(wide, figure.get_size_inches()[1] * wide / figure.get_size_inches()[0])
    path = OUT / f"{name}.png"
    figure.savefig(path, dpi=130, bbox_inches="tight")
    smaller(path)


def plots(result: butfor.Result, pictures: butfor.Result, texts: butfor.Result, model: Any) -> None:
    """Every plot of butfor.plots that a result has."""
    one = result.input_names[0]
    for name in ("decision", "enough", "resolutions", "bar", "effects_from_output"):
        save(name, lambda name=name: getattr(result.plot, name)(one))
    for name in ("decision", "enough", "resolutions"):
        save(f"{name}_all", getattr(result.plot, name))
    for name in ("beeswarm", "heatmap", "features", "volcano", "pvalues", "calibration"):
        save(name, getattr(result.plot, name))
    save("dependence", lambda: result.plot.dependence(COLUMN))
    drawn = {name: np.asarray(wrap(model).call(result.counterfactuals(one, name, 10))) for name in (OTHER, EVERY)}
    save("draws", lambda: result.plot.draws(one, OTHER, outputs=drawn[OTHER]))
    save("null", lambda: result.plot.null(one, EVERY, outputs=drawn[EVERY]))
    save("competition", pictures.plot.competition)
    save("photograph", lambda: pictures.plot.photograph(SLIDE))
    save("highlighted", lambda: texts.plot.highlighted(REVIEW))


def shap_plots(question: Question, result: butfor.Result) -> None:
    """SHAP's plots of SHAP's values, and of ours."""
    import shap

    ask, frame = wrap(question.model).call, question.inputs
    texts = [name for name in frame.columns if not np.issubdtype(np.asarray(frame[name]).dtype, np.number)]
    levels = {name: sorted({*frame[name], *question.reference[name]}) for name in texts}

    def coded(rows: Any) -> Any:  # SHAP subtracts values from each other: categories are given as numbers
        return rows.assign(**{name: rows[name].map(levels[name].index).astype(float) for name in levels})

    def decoded(rows: Any) -> Any:
        made = pd.DataFrame(rows, columns=frame.columns).astype(object)
        for name in frame.columns:
            known = [levels[name][int(code)] for code in made[name]] if name in levels else made[name]
            made[name] = pd.Series(known, index=made.index).astype(frame[name].dtype)
        return ask(made)[:, 1]

    background = shap.maskers.Independent(coded(question.reference).astype(float), max_samples=10)
    values = shap.explainers.Permutation(decoded, background, seed=0)(coded(frame).astype(float))
    ours = result.to_shap()
    for name, found in (("shap", values), ("to_shap", ours)):
        save(f"{name}_bar", lambda found=found: shap.plots.bar(found[0], show=False), 4.5)
        save(f"{name}_waterfall", lambda found=found: shap.plots.waterfall(found[0], show=False), 4.5)
        save(f"{name}_beeswarm", lambda found=found: shap.plots.beeswarm(found, show=False), 4.5)
        save(f"{name}_heatmap", lambda found=found: shap.plots.heatmap(found, show=False), 4.5)
    save("shap_scatter", lambda: shap.plots.scatter(values[:, COLUMN], show=False), 4.5)


def shap_of_media() -> None:
    """SHAP's pictures of the slide and of the review that ours are of."""
    import shap

    first = slide(stream(0, "tissue"), tumour=True, ink=True).image
    masker = shap.maskers.Image("blur(16,16)", first.shape)
    found = shap.Explainer(Tissue("careful"), masker, seed=0)(first[None], max_evals=500, batch_size=50, outputs=[1])
    save("shap_photograph", lambda: shap.image_plot(found, show=False), 3.4)
    words = shap.Explainer(small_sentiment(), shap.maskers.Text(r"\W+"), seed=0)([REVIEWS[REVIEW]])
    written = re.sub(r"np\.float64\(([^)]+)\)", r"\1", shap.plots.text(words[0, :], display=False))  # no colours else
    with browser() as page, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.html"
        path.write_text(f"<meta charset='utf-8'><body style='width:600px;font-family:sans-serif'>{written}")
        page.goto(path.as_uri())
        page.set_viewport_size({"width": 640, "height": 150})
        page.screenshot(path=OUT / "shap_highlighted.png")
    smaller(OUT / "shap_highlighted.png")


@contextmanager
def browser() -> Iterator[Any]:
    """A page of a real Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS.split())
        yield opened.new_page(viewport={"width": 1100, "height": 760})
        opened.close()


def smaller(path: Path) -> None:
    """The same picture in 256 colours."""
    Image.open(path).convert("P", palette=Image.Palette.ADAPTIVE, colors=256).save(path, optimize=True)
    print(path.name, path.stat().st_size // 1024, "KB")


def reports(found: dict[str, butfor.Result]) -> None:
    """The first screen of each report, as Chromium shows it."""
    with tempfile.TemporaryDirectory() as folder, browser() as page:
        for name, result in found.items():
            page.goto(result.report(Path(folder) / f"{name}.html").as_uri())
            page.screenshot(path=OUT / f"report_{name}.png")
            smaller(OUT / f"report_{name}.png")


def main(wanted: list[str]) -> None:
    warnings.simplefilter("ignore")
    OUT.mkdir(exist_ok=True)
    question = QUESTIONS["credit, declined against approved"](0)
    result = butfor.explain(question.model, question.inputs, question.reference, target=question.target)
    if not wanted or "shap" in wanted:
        shap_plots(question, result)
        shap_of_media()
    if not wanted or {"plots", "reports"} & set(wanted):
        pictures, texts = tissue(count=10).result, text_demo().result
        if not wanted or "plots" in wanted:
            plots(result, pictures, texts, question.model)
        if not wanted or "reports" in wanted:
            reports({"table": result, "images": pictures, "texts": texts})


if __name__ == "__main__":
    main(sys.argv[1:])
