"""The paper's photographs and boxes with networks that anyone can have: counts, sensitivity, ranks, cost."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from butfor import image
from butfor.bench.output import machine, table
from butfor.bench.timed import Timed, peak
from butfor.core.result.result import Result
from butfor.core.types import InputError, Subset

ALPHAS = (0.2, 0.1)
TARGETS = ("observed-class", "predicted")
NEEDED = ("efficientnet_lite0.onnx", "migan_pipeline_v2.onnx", "paper/boxes.json")
EXPECTED = {  # (preprocessing, target): boxes of 222 chosen by OSFT at .2 and .1 in an independent run of ours
    ("whole", "observed-class"): (85, 51),
    ("whole", "predicted"): (50, 26),
    ("crop", "observed-class"): (56, None),
}
PAPER = {"manual": "72 of 222", "automatic": "50 of 169", "sensitivity": 0.749}  # Inception v3 and another inpainter
WHY = (
    "The paper tests the logit of the class that the photograph itself is given. A class picked because its output is "
    "large on x is larger on x than on a fill by that choice alone, so its count is inflated; `predicted` picks the "
    "class by a rule symmetric in x and its fills. (MI-GAN fills alike each time, so neither count has a guarantee.)"
)


def assets_folder(given: Path | None = None) -> Path:
    """Where the networks and photographs are: as given, else BUTFOR_ASSETS, else ../shared/assets."""
    folder = given or Path(os.environ.get("BUTFOR_ASSETS", "../shared/assets"))
    folder = folder / "image" if (folder / "image").is_dir() else folder
    missing = [name for name in NEEDED if not (folder / name).exists()]
    if missing:
        raise InputError(f"{folder} has no {', '.join(missing)}; set BUTFOR_ASSETS to the folder of the image assets")
    return folder


def run(
    assets: Path | None = None,
    *,
    fills: Path | None = None,
    sensitivity: bool = False,
    draws: int | None = None,
    automatic: bool = False,
    lime: Sequence[str] = (),
    images: int | None = None,
    threads: int | None = None,
) -> dict[str, Any]:
    """All figures. `images` takes the first so many photographs only.

    `fills` keeps the fills; `sensitivity` adds four runs with moved boxes; `draws` adds the ranks of so many
    diversified draws and few-shot on them (and its sensitivity); `automatic` adds the boxes of a detector and random
    ones; `lime` names photographs on which LIME is run beside. Each costs a second or so for every fill.
    """
    bench = Bench(assets_folder(assets), fills, threads, images)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two pairs of boxes overlap by a pixel, and reach is not the point here
        figures: dict[str, Any] = {"machine": machine(), "why": WHY, "cost": bench.cost(), "counts": bench.counts()}
        if sensitivity:
            figures["sensitivity"] = bench.moved()
        if draws:
            figures["ranks"] = bench.ranks(draws)
            figures["few_shot"] = bench.few_shot(draws, sensitivity)
        if automatic:
            figures["automatic"] = bench.automatic()
        if lime:
            figures["lime"] = [bench.lime(name) for name in lime]
    return figures


@dataclass
class Bench:
    """The photographs, the networks and where fills are kept."""

    assets: Path
    fills: Path | None
    threads: int | None
    images: int | None

    @property
    def photographs(self) -> Any:
        return image.folder(self.assets / "paper")[: self.images]

    @property
    def boxes(self) -> Any:
        return image.boxes(self.assets / "paper" / "boxes.json")

    def classifier(self, preprocess: str = "whole") -> Any:
        names = self.assets / "paper" / "imagenet_class_names.json"
        return image.onnx_classifier(
            self.assets / "efficientnet_lite0.onnx", preprocess, classes=names, threads=self.threads
        )

    def inpainter(self) -> Any:
        return image.onnx_inpainter(self.assets / "migan_pipeline_v2.onnx", threads=self.threads)

    def osft(self, preprocess: str, target: str, boxes: Any = None) -> Result:
        return image.explain(
            self.classifier(preprocess),
            self.photographs,
            self.inpainter(),
            boxes=self.boxes if boxes is None else boxes,
            target=target,
            alpha=ALPHAS[0],
            fills=self.fills,
        )

    def cost(self) -> dict[str, Any]:
        """Seconds of one run by where they went, and the classifier's bare seconds on as many images."""
        model, sampler = Timed(self.classifier()), Timed(self.inpainter())
        start = time.perf_counter()
        result = image.explain(
            model,
            self.photographs,
            sampler,
            boxes=self.boxes,
            alpha=ALPHAS[0],
            target="observed-class",
            fills=self.fills,
        )
        wall = time.perf_counter() - start
        bare = _bare(model.inner, self.photographs, result.rows)
        return {
            "boxes": len(result.chosen),
            "rows": result.rows,
            "wall": wall,
            "fills_made": sampler.calls,
            "fill_seconds": sampler.seconds,
            "classifier_seconds": model.seconds,
            "classifier_work": model.work,
            "classifier_bare_work": bare,
            "classifier_ratio": model.work / bare,
            "peak_megabytes": peak(),
        }

    def counts(self) -> list[dict[str, Any]]:
        """How many boxes OSFT chooses, whole image and centre crop, with the paper's class and the symmetric one."""
        rows = []
        for preprocess in ("whole", "crop"):
            for target in TARGETS:
                result = self.osft(preprocess, target)
                chosen = [int(result.select(alpha=alpha).chosen.sum()) for alpha in ALPHAS]
                rows.append(
                    {
                        "preprocess": preprocess,
                        "target": target,
                        "boxes": len(result.chosen),
                        "chosen": chosen,
                        "expected": EXPECTED.get((preprocess, target)),
                        "guarantee": result.guarantee.controls,
                    }
                )
        return rows

    def moved(self) -> list[dict[str, Any]]:
        """OSFT with every box moved by a pixel: the mean pairwise IOU at both levels."""
        return self._moved(self.inpainter(), ALPHAS)

    def _moved(self, sampler: Any, alphas: Sequence[float], **settings: Any) -> list[dict[str, Any]]:
        rows = []
        for target in TARGETS:
            found = image.sensitivity(
                self.classifier(),
                self.photographs,
                sampler,
                boxes=self.boxes,
                target=target,
                alpha=alphas[0],
                fills=self.fills,
                **settings,
            )
            rows += [{"target": target, "alpha": alpha, **_stability(found.select(alpha))} for alpha in alphas]
        return rows

    def ranks(self, draws: int) -> dict[str, Any]:
        found = image.ranks(
            self.classifier(),
            self.photographs,
            image.diversify(self.inpainter()),
            boxes=self.boxes,
            draws=draws,
            fills=self.fills,
        )
        return {
            "counts": found.counts.tolist(),
            "p_bottom": found.p_bottom,
            "median_spread": found.median_spread,
            "verdict": found.verdict,
        }

    def few_shot(self, draws: int, sensitivity: bool) -> list[dict[str, Any]]:
        """The few-shot test at .1 with diversified draws, and how it bears moved boxes."""
        sampler = image.diversify(self.inpainter())
        settings: dict[str, Any] = {"test": "few-shot", "draws": draws}
        if sensitivity:
            return [{"draws": draws, **row} for row in self._moved(sampler, [0.1], **settings)]
        result = image.explain(
            self.classifier(),
            self.photographs,
            sampler,
            boxes=self.boxes,
            alpha=0.1,
            fills=self.fills,
            **settings,
        )
        chosen = [int(result.chosen.sum())]
        return [{"draws": draws, "target": "predicted", "alpha": 0.1, "chosen": chosen, "iou": None}]

    def automatic(self) -> list[dict[str, Any]]:
        """Boxes of the detector and random ones, and random ones alone."""
        yolo = image.onnx_yolo(
            self.assets / "yolov8n.onnx", classes=self.assets / "coco_classes.txt", threads=self.threads
        )
        rows = []
        for name, boxes in {"automatic": image.detected_boxes(yolo), "random": image.random_boxes()}.items():
            for target in TARGETS:
                result = self.osft("whole", target, boxes)
                chosen = [int(result.select(alpha=alpha).chosen.sum()) for alpha in ALPHAS]
                rows.append({"boxes_from": name, "target": target, "boxes": len(result.chosen), "chosen": chosen})
        return rows

    def lime(self, name: str) -> dict[str, Any]:
        """Which boxes of one photograph we choose, and how much of each LIME's five best superpixels cover."""
        from lime.lime_image import LimeImageExplainer

        result = self.osft("whole", "observed-class")
        place = result.input_names.index(name)
        picture, net = result.problem.inputs[place], self.classifier()
        logits = net([picture])[0]

        def probabilities(batch: Any) -> Any:
            raised = np.exp(net([np.asarray(one, np.uint8) for one in batch]))
            return raised / raised.sum(axis=1, keepdims=True)

        start = time.perf_counter()
        explainer = LimeImageExplainer(random_state=0)
        explanation = explainer.explain_instance(
            picture.copy(), probabilities, top_labels=1, num_samples=1000, batch_size=32
        )
        _, cover = explanation.get_image_and_mask(int(logits.argmax()), positive_only=True, num_features=5)
        seconds = time.perf_counter() - start
        rows = np.flatnonzero(result.input_of == place)
        regions = [result.problem.blocks[row].subset for row in rows]
        return {
            "image": name,
            "class": str(net.classes[int(logits.argmax())]) if net.classes else int(logits.argmax()),
            "seconds": seconds,
            "boxes": [
                {
                    "name": region.name,
                    "z": float(result.evidence.values[row]),
                    "chosen": bool(result.chosen[row]),
                    "lime_cover": _cover(cover, region),
                }
                for row, region in zip(rows, regions, strict=True)
            ],
        }


def places(figures: dict[str, Any]) -> image.Ranks:
    """The ranks of the real patches again, to be plotted."""
    found = figures["ranks"]
    return image.Ranks(np.array(found["counts"]), found["median_spread"])


def _cover(mask: Any, region: Subset) -> float:
    x1, y1, x2, y2 = region.index
    return float(np.asarray(mask[y1:y2, x1:x2], bool).mean())


def _bare(net: Any, photographs: Any, rows: int) -> float:
    """Seconds of the processor for as many images without butfor, a few at a time so that they are not all held."""
    timed, most = Timed(net), 8
    for start in range(0, rows, most):
        timed([photographs[k % len(photographs)].copy() for k in range(start, min(start + most, rows))])
    return timed.work


def _stability(found: Any) -> dict[str, Any]:
    return {"chosen": [int(chosen.sum()) for chosen in found.selections], "iou": found.iou}


def markdown(figures: dict[str, Any]) -> str:
    """The figures for people."""
    cost = figures["cost"]
    lines = ["# Images: the paper's photographs, EfficientNet-Lite0, MI-GAN", "", "## Boxes chosen by OSFT", ""]
    rows = [
        [row["preprocess"], row["target"], str(row["boxes"]), *map(str, row["chosen"]), _expected(row["expected"])]
        for row in figures["counts"]
    ]
    lines += table(["preprocessing", "target", "boxes", "alpha .2", "alpha .1", "independent run"], rows)
    lines += ["", f"The paper, with Inception v3: {PAPER['manual']}. {figures['why']}", "", "## Cost", ""]
    lines += [
        f"{cost['boxes']} boxes, one draw each: {cost['wall']:.0f} s, of which {cost['fill_seconds']:.0f} s for "
        f"{cost['fills_made']} fills (those not kept from an earlier run) and {cost['classifier_seconds']:.1f} s in "
        f"the classifier for {cost['rows']} images, {cost['classifier_ratio']:.2f} times its bare time (of the "
        f"processor, not the clock). Peak memory {cost['peak_megabytes']:.0f} MB.",
        "",
    ]
    if "sensitivity" in figures:
        lines += [f"## Boxes moved by one pixel (paper: IOU {PAPER['sensitivity']})", ""]
        rows = [["osft", *_stable(row)] for row in figures["sensitivity"]]
        rows += [[f"few-shot, {row['draws']} diversified draws", *_stable(row)] for row in figures.get("few_shot", [])]
        lines += [*table(["test", "target", "alpha", "chosen in the five runs", "mean pairwise IOU"], rows), ""]
    elif "few_shot" in figures:
        rows = [[str(row["draws"]), *_stable(row)[:-1]] for row in figures["few_shot"]]
        lines += ["## Few-shot", "", *table(["diversified draws", "target", "alpha", "chosen"], rows), ""]
    if "ranks" in figures:
        lines += [
            f"Ranks of the real patches among them: {figures['ranks']['counts']}. {figures['ranks']['verdict']}",
            "",
        ]
    if "automatic" in figures:
        lines += [f"## Boxes without a person (paper: {PAPER['automatic']})", ""]
        rows = [
            [row["boxes_from"], row["target"], str(row["boxes"]), *map(str, row["chosen"])]
            for row in figures["automatic"]
        ]
        lines += [*table(["boxes", "target", "how many", "alpha .2", "alpha .1"], rows), ""]
    for found in figures.get("lime", []):
        lines += [f"## LIME beside: {found['image']} ({found['class']}), {found['seconds']:.0f} s", ""]
        rows = [
            [box["name"], f"{box['z']:.2f}", "yes" if box["chosen"] else "no", f"{box['lime_cover']:.0%}"]
            for box in found["boxes"]
        ]
        lines += [*table(["box", "z", "chosen", "covered by LIME's five best superpixels"], rows), ""]
    return "\n".join(lines)


def _expected(counts: Any) -> str:
    return "" if counts is None else " / ".join("" if count is None else str(count) for count in counts).strip(" /")


def _stable(row: dict[str, Any]) -> list[str]:
    chosen, iou = " ".join(map(str, row["chosen"])), "" if row["iou"] is None else f"{row['iou']:.3f}"
    return [row["target"], f"{row['alpha']:g}", chosen, iou]
