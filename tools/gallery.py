"""The pictures of docs/gallery: every plot, its SHAP counterpart on the same data, and the reports of each modality.

python tools/gallery.py [plots] [shap] [reports]      shap needs the bench extra, reports need playwright and chromium
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from PIL import Image

import butfor
from butfor.bench.questions import QUESTIONS, Question
from butfor.image.demo import digits
from butfor.models import wrap
from butfor.text.demo import text_demo

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
    Image.open(path).convert("P", palette=Image.Palette.ADAPTIVE, colors=256).save(path, optimize=True)
    print(path.name, path.stat().st_size // 1024, "KB")


def plots(result: butfor.Result, pictures: butfor.Result, texts: butfor.Result, model: Any) -> None:
    """Every plot of butfor.plots that a result has."""
    one = result.input_names[0]
    for name in ("decision", "resolutions", "bar", "waterfall"):
        save(name, lambda name=name: getattr(result.plot, name)(one))
    save("decision_all", result.plot.decision)
    save("resolutions_all", result.plot.resolutions)
    for name in ("beeswarm", "heatmap", "features", "volcano", "pvalues", "calibration"):
        save(name, getattr(result.plot, name))
    drawn = np.asarray(wrap(model).call(result.counterfactuals(one, "all columns", 10)))
    save("null", lambda: result.plot.null(one, "all columns", outputs=drawn))
    save("competition", pictures.plot.competition)
    save("photograph", pictures.plot.photograph)
    save("highlighted", texts.plot.highlighted)


def shap_plots(question: Question, result: butfor.Result) -> None:
    """SHAP's plots of SHAP's values, and of ours."""
    import shap

    ask, frame = wrap(question.model).call, question.inputs[:20]
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
    ours = result.to_shap()[:20]
    for name, found in (("shap", values), ("to_shap", ours)):
        save(f"{name}_bar", lambda found=found: shap.plots.bar(found[0], show=False), 4.5)
        save(f"{name}_waterfall", lambda found=found: shap.plots.waterfall(found[0], show=False), 4.5)
        save(f"{name}_beeswarm", lambda found=found: shap.plots.beeswarm(found, show=False), 4.5)
        save(f"{name}_heatmap", lambda found=found: shap.plots.heatmap(found, show=False), 4.5)


def reports(found: dict[str, butfor.Result]) -> None:
    """The first screen of each report, as Chromium shows it."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS.split())
        for name, result in found.items():
            path = result.report(Path(folder) / f"{name}.html")
            page = browser.new_page(viewport={"width": 1100, "height": 760})
            page.goto(path.as_uri())
            page.screenshot(path=OUT / f"report_{name}.png")
            picture = Image.open(OUT / f"report_{name}.png")
            picture.convert("P", palette=Image.Palette.ADAPTIVE, colors=256).save(
                OUT / f"report_{name}.png", optimize=True
            )
        browser.close()


def main(wanted: list[str]) -> None:
    warnings.simplefilter("ignore")
    OUT.mkdir(exist_ok=True)
    question = QUESTIONS["credit, declined against approved"](0)
    result = butfor.explain(question.model, question.inputs, question.reference, target=question.target)
    if not wanted or "shap" in wanted:
        shap_plots(question, result)
    if not wanted or {"plots", "reports"} & set(wanted):
        pictures, texts = digits(count=8).found, text_demo().found
        if not wanted or "plots" in wanted:
            plots(result, pictures, texts, question.model)
        if not wanted or "reports" in wanted:
            reports({"table": result, "images": pictures, "texts": texts})


if __name__ == "__main__":
    main(sys.argv[1:])
