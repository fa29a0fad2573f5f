"""Where an output comes from, without boxes: a map and cells of each image, beside the regions of the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.results.summary import are_logits, are_probabilities
from butfor.types import Bools, Floats, Ints

if TYPE_CHECKING:
    from butfor.results.result import Result

SHARES = (0.4, 0.2, 0.1, 0.05)  # of the picture, of the regions: from large to small
RULE = "fixed-sequence"
CLAIMS = 4  # parts of alpha: cells and regions take one each, decisions one
DOWN, ACROSS = ("upper", "middle", "lower"), ("left", "centre", "right")


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of all images (C,): mean effect on the output over contexts in which other cells are redrawn, too."""

    input_of: Ints
    label: Ints  # in `Located.labels`
    x: Floats  # centre, in shares of width and height
    y: Floats
    effect: Floats
    low: Floats  # of an interval that holds for all cells of an image together
    high: Floats
    named: Bools  # surely above 0, all cells of an image together


@dataclass(frozen=True, eq=False)
class Located:
    """The cells, and of each image (n, ...) the map and the cell that each pixel is in, stretched to a square."""

    cells: Cells
    maps: Floats  # (n, 28, 28) by how much log-odds, or a score, fall where a pixel is redrawn
    labels: Ints  # (n, 112, 112)
    draws: int  # evaluations of each image

    def of(self, index: int) -> Ints:
        return np.flatnonzero(self.cells.input_of == index)

    def frame(self, index: int, width: int, height: int) -> dict[str, list[Any]]:
        """Return columns of a table of the cells of an image of this size, the largest effect first."""
        cells, rows = self.cells, self.of(index)
        rows = rows[np.argsort(-cells.effect[rows], kind="stable")]
        each = zip(cells.label[rows], cells.x[rows], cells.y[rows], strict=True)
        columns: dict[str, list[Any]] = {"cell": [f"cell {label}, {place(x, y)}" for label, x, y in each]}
        columns |= {"x": (cells.x[rows] * width).round(1).tolist(), "y": (cells.y[rows] * height).round(1).tolist()}
        return columns | {one: getattr(cells, one)[rows].tolist() for one in ("effect", "low", "high", "named")}


def place(x: float, y: float) -> str:
    """Return where a point lies, in words; x and y are shares of width and height.

    >>> place(0.5, 0.5), place(0.1, 0.5), place(0.9, 0.9)
    ('centre', 'middle left', 'lower right')
    """
    down, across = (names[min(int(3 * share), 2)] for names, share in ((DOWN, y), (ACROSS, x)))
    return "centre" if (down, across) == ("middle", "centre") else f"{down} {across}"


def region_name(share: float) -> str:
    return f"strongest {round(100 * share)} %"


def smallest(result: Result, index: int) -> int | None:
    """Return the smallest region of an image that surely moves the output; None where there is none."""
    assert result.moved is not None
    rows = np.flatnonzero((result.input_of == index) & result.moved.moves)
    return int(rows[-1]) if rows.size else None


def takes(result: Result, row: int) -> str:
    """Return in words what a region takes off the output.

    >>> import butfor.image
    >>> bright = np.full((32, 32, 3), 90, np.uint8)
    >>> bright[4:12, 4:12] = 250
    >>> result = butfor.image.explain(lambda batch: [float((x[4:12, 4:12] > 200).mean()) for x in batch], [bright])
    >>> takes(result, smallest(result, 0)).partition(" off ")[2]
    'the output'
    """
    names, drop = result.output_names, float(result.effects.effect[row])
    size = f"{drop:.2f}" if abs(drop) < 10 else f"{drop:.3g}"
    if names is None:
        return f"takes {size} off the output"
    probable = are_probabilities(result.outputs) or are_logits(result.outputs)
    name = str(names[int(result.evidence.classes[row])]).split(",")[0]
    name = f"class {name}" if name.isdigit() else name
    return f"takes {size} off the {'probability of' if probable else 'output for'} {name}"


def where_lines(result: Result, title: Any, most: int) -> list[str]:
    """Return a line for each image, `most` at most: its smallest region that moves the output, and by how much."""
    total, lines = len(result.input_names), list[str]()
    rows = [smallest(result, index) for index in range(total)]
    order = sorted(range(total), key=lambda i: (rows[i] is None, i))
    for index in order[: most if total <= most else most - 1]:
        head, row = "" if total == 1 else f"{title(result, index)}: ", rows[index]
        if row is None:
            least = 0 if result.moved is None else result.moved.least
            lines.append(f"{head}no region is sure to take more than {least:.2g} off the output")
            continue
        low, high = result.effects.low[row], result.effects.high[row]
        share = round(100 * SHARES[int(result.subset_of[row])])
        lines.append(f"{head}{share} % of it {takes(result, row)} (95 %: {low:.2f} to {high:.2f})")
    if left := order[len(lines) :]:
        count = sum(rows[index] is not None for index in left)
        lines.append(f"{count:,} of {len(left):,} other photographs have such a region")
    return lines


def promise_of_where(result: Result) -> str:
    """Return what is promised of cells and regions, in one line."""
    error = 100 * result.record.alpha / CLAIMS
    return f"holds for any photograph; at most {error:.2g} % have a false region; cells are means, 20-50 % redrawn"


def meaning_of_where(result: Result) -> str:
    """Return what is promised of cells and regions, in full."""
    error, least = result.record.alpha / CLAIMS, 0 if result.moved is None else result.moved.least
    return (
        "Where: x is fixed and only fills are random, so how photographs were picked does not matter. In each "
        f"photograph, any region is wrongly said to take more than {least:.2g} off with a probability of at most "
        f"{error:g} (fresh draws, from the largest region to the smallest, bets that hold whenever drawing stops), and "
        f"any cell without effect is named with a probability of about {error:g} at most (max-t by a multiplier "
        "bootstrap, and Holm on the coins that redrew it; checked by simulation). A cell's effect is an average over "
        "contexts in which 20 to 50 % of the other cells are redrawn; only of a region is it said what the output "
        "falls by when it alone is redrawn. Fills are pieces of other photographs, or mean colour and smooth noise: "
        "the claims are about these."
    )
