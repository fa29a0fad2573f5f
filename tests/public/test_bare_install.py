"""The wheel without extras in an empty environment: help, demo, an explanation, and one sentence for each extra."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REFUSED = {  # library -> what needs it, what its one sentence must name
    "onnxruntime": ("butfor.models.onnx_model('m.onnx')", "butfor[onnx]"),
    "skops": ("load_model('m.skops')", "butfor[skops]"),
    "httpx": ("butfor.models.endpoint('http://localhost:1/v2/models/m')", "butfor[endpoint]"),
    "pyarrow": ("read_table(pathlib.Path('m.parquet'), 'data')", "butfor[parquet]"),
    "cv2": ("image.telea()([PICTURE], butfor.Subset('b', (1, 1, 5, 5)), 1, RNG)", "butfor[image]"),
    "skimage": ("image.superpixels()('p', PICTURE)", "butfor[image]"),
    "tokenizers": ("text.wordpieces()('t', 'A fine film.')", "butfor[text]"),
    "transformers": ("text.masked_lm('m')(['A film.'], butfor.Subset('w', (2, 6)), 1, RNG)", "butfor[hugging-face]"),
    "torch": ("butfor.models.torch_module(object())", "butfor[torch]"),
    "diffusers": (
        "image.diffusers_inpainter('m')([PICTURE], butfor.Subset('b', (1, 1, 5, 5)), 1, RNG)",
        "pip install diffusers",
    ),
}
SCRIPT = """
import json, pathlib, sys
import numpy as np
import butfor
from butfor import image, text
from butfor.models.files import load_model
from butfor.tabular.files import read_table

PICTURE, RNG = np.zeros((8, 8, 3), np.uint8), np.random.default_rng(0)
pathlib.Path("m.onnx").write_bytes(b"x")
pathlib.Path("m.skops").write_bytes(b"PK")
pathlib.Path("m.parquet").write_bytes(b"PAR1")
said = {}
for name, call in json.loads(sys.argv[1]).items():
    try:
        eval(call)
        said[name] = "nothing was refused"
    except butfor.InputError as error:
        said[name] = str(error)
    except Exception as error:
        said[name] = f"a traceback: {error!r}"
print(json.dumps(said))
"""


def needed(names):
    """Base dependencies and what they need in turn, as this environment has them."""
    found, left = {}, list(names)
    while left:
        name = re.split(r"[^A-Za-z0-9._-]", left.pop(), maxsplit=1)[0]
        if name.lower() in found:
            continue
        try:
            found[name.lower()] = one = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another system or version of Python
        left += [line for line in one.requires or () if "extra ==" not in line]
    return found.values()


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Python with the wheel and its base dependencies only; these are linked, not downloaded."""
    folder = tmp_path_factory.mktemp("bare")
    options = ["--no-deps", "--no-build-isolation", "--quiet", "-w", str(folder)]
    built = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options, str(ROOT)],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    if built.returncode:
        pytest.skip(f"no wheel can be built here (make .venv/.dev installs hatchling): {built.stderr[-200:]}")
    (wheel,) = folder.glob("butfor-*.whl")
    venv.create(folder / "env", with_pip=False)
    (site,) = (folder / "env").glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (facts,) = site.glob("butfor-*.dist-info/METADATA")
    lines = [line.removeprefix("Requires-Dist: ") for line in facts.read_text().splitlines() if "Requires-Dist" in line]
    for one in needed(line for line in lines if "extra ==" not in line):
        for top in {Path(file).parts[0] for file in one.files or ()} - {"..", "__pycache__"}:
            source = Path(one.locate_file(top))
            if source.exists() and not (site / top).exists():
                (site / top).symlink_to(source)
    return folder / "env" / "bin" / "python"


def ran(python, *command, cwd):
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run([python, *command], capture_output=True, text=True, check=False, cwd=cwd, env=clean)


def test_every_extra_is_named_in_one_sentence(bare, tmp_path):
    calls = json.dumps({name: call for name, (call, _) in REFUSED.items()})
    done = ran(bare, "-c", SCRIPT, calls, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    for name, (_, install) in REFUSED.items():
        assert re.fullmatch(rf"[^\n]*{re.escape(install)}[^\n]*", said[name]), (name, said[name])
        assert name in said[name]


def test_help_demo_and_an_explanation(bare, tmp_path):
    rows = ["group,a,b", *(f"{'old' if i < 60 else 'new'},{(i * 7919) % 101},{(i * 31) % 17}" for i in range(90))]
    (tmp_path / "rows.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "model.py").write_text("def risk(rows):\n    return rows['a'] + rows['b']\n")
    for command in (["--help"], ["demo", "--help"]):
        assert ran(bare, "-m", "butfor.cli", *command, cwd=tmp_path).returncode == 0
    asked = ["--model", "model.py:risk", "--data", "rows.csv", "--reference-where", "group == 'old'", "--out", "found"]
    done = ran(bare, "-m", "butfor.cli", "explain", *asked, "--draws", "50", "--test", "irt", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "found" / "report.html").exists()
    parquet = ["explain", *asked[:2], "--data", "rows.parquet", *asked[4:]]
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    refused = ran(bare, "-m", "butfor.cli", *parquet, cwd=tmp_path)
    assert (refused.returncode, "Traceback" in refused.stderr) == (2, False)
    assert "butfor[parquet]" in refused.stderr
