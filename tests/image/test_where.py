"""`boxes="where"`: what comes back, that it is kept, drawn, saved and refused as it should be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import butfor
from butfor import InputError, Result, image
from butfor.image.view import marked_photograph
from butfor.types import Floats


def corner(batch: list[np.ndarray]) -> Floats:
    """Return probabilities of two classes: how red the upper left corner is."""
    red = np.array([(one[:12, :12, 0] > 150).mean() for one in batch])
    return np.stack([1 - 0.9 * red, 0.9 * red], axis=1)


def photographs(count: int = 3, size: tuple[int, int] = (48, 40)) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    plain = [rng.integers(60, 120, (*size, 3), dtype=np.uint8) for _ in range(count)]
    plain[0][:12, :12, 0] = 250
    return plain


@pytest.fixture(scope="module")
def found() -> Result:
    return image.explain(corner, photographs(), draws=200, seed=1)


def test_it_finds_the_corner(found: Result) -> None:
    cells = found.where("image 1")
    named = cells[cells.named]
    assert len(named)
    assert max(named.x.max(), named.y.max()) < 16
    assert found.table.moves[found.table.input == "image 1"].all()
    assert found.subset_names == tuple(f"strongest {share} %" for share in (40, 20, 10, 5))
    region = found.hypotheses.block_of(found.row("image 1", "strongest 5 %")).subset.index
    assert region[:14, :14].sum() >= 0.9 * region.sum()
    assert np.array(cells.attrs["map"]).shape == (28, 28)


def test_the_answer_says_how_much_it_takes(found: Result) -> None:
    lines = str(found).splitlines()
    assert lines[1].startswith("Moves the output: image 1: 5 % of it takes 0.")
    assert "off the probability of class 1" in lines[1]
    assert "20-50 % redrawn" in str(found)
    assert all(len(line) <= 110 for line in lines)


def test_drops_have_intervals_and_flips(found: Result) -> None:
    table = found.table[found.table.draws > 0]
    assert ((table.move_low <= table.move) & (table.move <= table.move_high)).all()
    assert (table.flip_low <= table.flip).all()
    assert found.table.status[0] == "moves"


def test_the_same_seed_gives_the_same(found: Result) -> None:
    again = image.explain(corner, photographs(), draws=200, seed=1)
    assert again.table.equals(found.table)
    assert again.where("image 2").equals(found.where("image 2"))


def test_it_is_saved_and_read(found: Result, tmp_path: Path) -> None:
    again = butfor.load(found.save(tmp_path / "r.butfor"), inputs=photographs())
    assert again.table.equals(found.table)
    assert again.where("image 1").equals(found.where("image 1"))
    assert str(again) == str(found)
    assert "off the probability" in found.report(tmp_path / "r.html").read_text()
    assert np.array_equal(marked_photograph(again, 0), marked_photograph(found, 0))


def test_counterfactuals_are_those_of_the_run(found: Result) -> None:
    kept = found.counterfactuals("image 1", "strongest 40 %", 3)
    drawn = found.counterfactuals("image 1", "strongest 40 %", 4)
    assert all(np.array_equal(one, other) for one, other in zip(kept, drawn, strict=False))


def test_what_moves_is_not_called_unusual(found: Result, tmp_path: Path) -> None:
    assert not found.chosen.any()
    assert {"p", "q", "surprise"}.isdisjoint(found.table)
    assert repr(found) == f"<butfor.Result: {found.table.moves.sum()} of 12 regions move the output>"
    assert "unusual" not in found.summary(full=True)
    page = found.report(tmp_path / "r.html").read_text().partition("<script>")[0]
    assert "nusual" not in page.replace('"unusual", "untested"', "").replace('"not unusual","unusual"', "")
    assert "by the smallest region that moves the output" in page
    assert "4 of 4 regions move the output" in page
    with pytest.raises(InputError, match="run it again"):
        found.select(alpha=0.01)


@pytest.mark.parametrize("size", [(6, 9), (120, 31)])
def test_scores_and_any_size(size: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    pictures = [rng.integers(0, 120, (*size, 3), dtype=np.uint8)]
    pictures[0][: size[0] // 2] = 250
    result = image.explain(lambda batch: [float(x[: len(x) // 2].mean()) for x in batch], pictures, draws=150)
    assert result.table.moves.any()
    assert "off the output" in str(result)
    assert any(note.code == "where-no-donors" for note in result.notes)
    assert marked_photograph(result, 0).shape[2] == 3


def test_nothing_is_said_of_a_model_that_says_nothing() -> None:
    result = image.explain(lambda batch: np.full((len(batch), 2), 0.5), photographs(1), draws=100)
    assert not result.table.moves.any()
    assert not result.where().named.any()
    assert "no region is sure to take more than 0.05 off" in str(result)
    assert marked_photograph(result, 0).shape[2] == 3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"test": "irt"}, "asks about given regions"),
        ({"effects": "all"}, "asks about given regions"),
        ({"draws": 20}, "draws"),
        ({"sampler": image.telea(), "boxes": "where"}, "takes no sampler"),
        ({"sampler": image.donor(), "boxes": "grid", "donors": []}, "donors= is for"),
    ],
)
def test_what_does_not_fit_is_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        image.explain(corner, photographs(1), **given)  # type: ignore[arg-type]


def test_a_run_of_boxes_has_no_cells() -> None:
    with pytest.raises(InputError, match="boxes='where'"):
        image.explain(corner, photographs(), image.donor(), boxes="grid").where("image 1")
