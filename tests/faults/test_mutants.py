"""A few hundred damaged files over all readers; `tools/mutants.py` runs thousands."""

import runpy
from pathlib import Path

import pytest

for library in ("PIL", "pyarrow", "skops", "skl2onnx", "onnxruntime", "tokenizers", "cv2"):
    pytest.importorskip(library)

MUTANTS = Path(__file__).parents[2] / "tools" / "mutants.py"


def test_damaged_files_are_read_or_refused_in_one_sentence():
    tool = runpy.run_path(str(MUTANTS))
    found = tool["run"](count=160, seed=1)
    assert len(found) == 160
    assert len({one["name"] for one in found}) > 30
    assert not [(one["name"], one["seed"], one["outcome"], one["said"]) for one in tool["faults"](found)]
    assert {one["outcome"] for one in found} == {"read", "refused"}  # both, or the mutants are too weak or too strong
