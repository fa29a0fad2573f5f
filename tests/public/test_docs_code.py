"""Every Python example of the pages runs, with what the page takes for granted put before it, and prints what is shown.

`python -m tools.shown` writes what is shown. docs/models.md, docs/texts.md, docs/command-line.md, docs/own-sampler.md,
docs/coming-from.md and docs/studio.md have tests of their own, which look at what comes out, too.
"""

import numpy as np
import pandas as pd
import pytest

import butfor
from tools import shown
from tools.shown import ROOT, SCOPES, block_of, matches, refresh, run, scores

OWN_TESTS = {f"docs/{name}.md" for name in ("models", "texts", "command-line", "own-sampler", "coming-from", "studio")}
IMAGES = "docs/images.md"  # small networks in place of real ones: see below


@pytest.mark.parametrize("page", sorted(set(SCOPES) - OWN_TESTS))
@pytest.mark.filterwarnings("default")
def test_the_examples_run_and_print_what_is_shown(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for output, block in run(page, SCOPES[page]()):
        assert not block.strip() or matches(output, block), f"python -m tools.shown {page} writes:\n{block_of(output)}"


@pytest.mark.filterwarnings("default")
def test_the_examples_on_images_run(tmp_path, monkeypatch):
    """With small networks under the names of the page."""
    pytest.importorskip("onnx")
    pytest.importorskip("cv2", reason="the image extra is not installed")
    from image.networks import page

    page(tmp_path)
    monkeypatch.chdir(tmp_path)
    scope = {}
    ran = list(run(IMAGES, scope))
    assert len(ran) == 3
    assert matches(*ran[1]), f"the page shows something else:\n{block_of(ran[1][0])}"
    assert len(scope["result"].chosen) > 0
    assert scope["ranks"].total > 0


def test_no_page_is_forgotten():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    with_code = {page.relative_to(ROOT).as_posix() for page in pages if "```python" in page.read_text(encoding="utf-8")}
    assert with_code == set(SCOPES) | OWN_TESTS | {IMAGES}


def test_a_uniform_sampler_as_in_contributing():
    scope = scores()
    list(run("CONTRIBUTING.md", scope))
    rows = pd.DataFrame(np.random.default_rng(0).random((50, 2)))
    drawn = scope["uniform"](rows.to_numpy())(
        rows.to_numpy()[:2], butfor.Subset("a", np.array([0])), 3, np.random.default_rng(0)
    )
    assert drawn.shape == (6, 2)


PAGE = """# A page

```python
print("one", "two")
```

    one ... two

```python
print("three")
4
```

    3

```python
print(*range(30), sep="\\n")
```

    ...

Text.

```python
five = 5
```
"""


def test_a_page_is_refreshed_where_it_shows_something_else(tmp_path, monkeypatch):
    monkeypatch.setattr(shown, "ROOT", tmp_path)
    monkeypatch.setitem(SCOPES, "page.md", dict)
    path = tmp_path / "page.md"
    path.write_text(PAGE, encoding="utf-8")
    assert refresh("page.md") == 2
    first = "".join(f"    {number}\n" for number in range(13))  # as many lines as are shown, with the dots
    assert path.read_text(encoding="utf-8") == PAGE.replace("    3\n", "    three\n    4\n").replace(
        "    ...\n", f"{first}    ...\n"
    )
    assert refresh("page.md") == 0


def test_an_unknown_page_is_refused(capsys):
    assert shown.main(["docs/nowhere.md"]) == 2
    assert "No examples are known for docs/nowhere.md; the pages are README.md" in capsys.readouterr().err
