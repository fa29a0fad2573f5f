"""The image bench on three photographs with fills that cost nothing to look at again."""

import os
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime", reason="the image extra is not installed")

import butfor
from benchmarks import heatmaps, images, judge
from benchmarks.figures import markdown

ASSETS = Path(os.environ.get("BUTFOR_ASSETS", Path(__file__).parents[3] / "shared" / "assets"))


def test_assets_that_are_not_there_are_told(tmp_path):
    with pytest.raises(butfor.InputError, match=r"has no efficientnet_lite0\.onnx.*set BUTFOR_ASSETS"):
        images.run(tmp_path)


@pytest.mark.skipif(not (ASSETS / "image").is_dir(), reason=f"no image assets at {ASSETS}; set BUTFOR_ASSETS")
def test_two_photographs(tmp_path):
    figures = images.run(ASSETS, fills=tmp_path, images=2, threads=1)
    assert [row["boxes"] for row in figures["counts"]] == [10] * 4
    assert figures["cost"][0]["fills_made"] == 10
    assert figures["cost"][0]["peak_megabytes"] > 100  # of this process, whatever other tests have left in it
    assert "| crop | predicted | 10 |" in markdown(figures)


def test_a_report_of_everything():
    figures = {
        "counts": [{"preprocess": "crop", "target": "t", "boxes": 222, "chosen": [56, 3], "expected": (56, None)}],
        "sensitivity": [{"target": "t", "alpha": 0.2, "chosen": [85, 81], "iou": 0.759}],
        "few_shot": [{"draws": 5, "target": "t", "alpha": 0.1, "chosen": [40], "iou": None}],
        "ranks": [{"counts": [3, 2, 1], "verdict": "No sign.", "median_spread": 0.2}],
        "lime": [{"image": "a.jpg", "boxes": [{"name": "box 1", "z": 1.0, "chosen": True, "lime_cover": 0.5}]}],
    }
    text = markdown(figures)
    for part in (
        "| crop | t | 222 | 56 3 | 56  |",
        "| t | 0.2 | 85 81 | 0.759 |",
        "| 5 | t | 0.1 | 40 |  |",
        "| 3 2 1 | No sign. | 0.2 |",
        "| a.jpg |",
        "| box 1 | 1 | yes | 0.5 |",
    ):
        assert part in text


@pytest.mark.skipif(not (ASSETS / "image").is_dir(), reason=f"no image assets at {ASSETS}; set BUTFOR_ASSETS")
def test_judge_on_one_photograph():
    figures = judge.run(ASSETS, images=1)
    boxes, patches = figures["flagged"]
    assert (boxes["way"], boxes["regions"], patches["regions"]) == ("by its own image alone", 5, 4)
    assert all(one["brighter or darker"] >= 0.75 and one["blurred, sigma 4"] >= 0.75 for one in (boxes, patches))
    assert "| boxes | by its own image alone | 5 |" in markdown(figures)


def test_heat_maps_of_textures(tmp_path, monkeypatch):
    monkeypatch.setattr(heatmaps, "peers", lambda album, seed: {})
    monkeypatch.setattr(heatmaps, "DRAWS", 100)
    figures = heatmaps.run(names=(), count=2, sheets=tmp_path)
    assert [(row["album"], row["method"], row["objects"]) for row in figures["methods"]] == [
        ("textures", "butfor, zoom", 2),
        ("textures", heatmaps.ESTIMATED, 2),
    ]
    assert (tmp_path / "textures.png").stat().st_size > 10_000
    assert "| textures | butfor, zoom |" in markdown(figures)
    if not (ASSETS / "image").is_dir():
        return
    with pytest.raises(butfor.InputError, match=r"no label is known for photograph 'cat\.jpg'"):
        heatmaps.photographs(ASSETS, ["cat.jpg"], 1)
