"""Small pictures, small networks, and the real ones where they are."""

import os
from pathlib import Path

import pytest

from image.networks import classifier, mean_fill, save

pytest.importorskip("cv2", reason="the image extra is not installed")
pytest.importorskip("PIL", reason="the image extra is not installed")


@pytest.fixture(scope="session")
def assets():
    """The folder of real networks and photographs (BUTFOR_ASSETS), or skip."""
    folder = Path(os.environ.get("BUTFOR_ASSETS", Path(__file__).parents[3] / "shared" / "assets")) / "image"
    if not folder.is_dir():
        pytest.skip(f"no image assets at {folder}; set BUTFOR_ASSETS")
    return folder


@pytest.fixture(scope="session")
def tiny_networks(tmp_path_factory):
    """ONNX files with the inputs of MI-GAN's pipeline, of LaMa (fixed and free size), and of a classifier."""
    onnx = pytest.importorskip("onnx")
    folder = tmp_path_factory.mktemp("networks")
    save(onnx, folder / "migan.onnx", mean_fill(onnx, "UINT8", ["n", 3, "h", "w"], ["n", 1, "h", "w"]))
    save(onnx, folder / "lama.onnx", mean_fill(onnx, "FLOAT", [1, 3, 32, 32], [1, 1, 32, 32]))
    save(onnx, folder / "lama_free.onnx", mean_fill(onnx, "FLOAT", [1, 3, "h", "w"], [1, 1, "h", "w"]))
    save(onnx, folder / "classifier.onnx", classifier(onnx, "n"))
    save(onnx, folder / "fixed_batch.onnx", classifier(onnx, 3))
    return folder
