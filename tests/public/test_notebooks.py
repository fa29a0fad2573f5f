"""The example notebooks run from top to bottom, and a result shows itself as the sentence and the picture."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_runs(path, tmp_path):
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    if path.stem == "image":
        pytest.importorskip("cv2", reason="the image extra is not installed")
    if path.stem == "text":
        pytest.importorskip("onnxruntime", reason="the text extra is not installed")
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    shown = [output.data for output in outputs if output.output_type in ("display_data", "execute_result")]
    assert any("text/html" in data and "Promise" in data["text/html"] for data in shown)
    assert any("image/png" in data for data in shown)  # a plot, drawn where it stands
    assert list(tmp_path.glob("*.html"))
