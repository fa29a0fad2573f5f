"""A photograph with its regions, a text with its words: marked by what is unusual."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING
from unicodedata import east_asian_width

from butfor.plots.style import INK, PAPER, SOFT, WIDTH, axes, key, name_lines, short, styled, tall, x_label
from butfor.results.result import Result
from butfor.results.view import input_index, rows_of
from butfor.types import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = 7.5  # points of a letter of a text; it is 0.602 of that wide
MARKS = {"up": ("#cfe0fb", "▲"), "down": ("#fbdcb8", "▼"), "both": ("#e2d3f7", "◆"), "chosen": ("#cfe6e8", "●")}


@styled
def photograph(result: Result, input: object = None, *, side: int = 900, ax: Axes | None = None) -> Axes:
    """Draw an image of the run: what moves the output or is unusual in colour, by its size, the others in grey.

    Parameters
    ----------
    result : Result
        Of `butfor.image.explain`.
    input : object, optional
        The name of the image; by default the one with most to show.
    side : int, default=900
        Pixels of its longer side.

    Examples
    --------
    >>> import butfor; import numpy as np
    >>> image = np.random.default_rng(0).integers(0, 255, (30, 40, 3), dtype=np.uint8)
    >>> model = lambda images: [float(x[:9, :9].mean()) for x in images]
    >>> result = butfor.image.explain(model, [image], butfor.image.donor(), boxes={"corner": (0, 0, 9, 9)})
    >>> bool(photograph(result).images)
    True
    """
    from butfor.image.view import marked_photograph, number_words

    if result.modality != "image":
        raise InputError(f"this is a run on a {result.modality}; photograph is for butfor.image.explain")
    index = input_index(result, input)
    picture = marked_photograph(result, index, side)
    ax = axes(ax, (WIDTH, WIDTH * picture.shape[0] / picture.shape[1] + 0.6))
    ax.imshow(picture)
    ax.set_axis_off()
    ax.set_title(f"{short(result.input_names[index], 40)}", fontsize=7.5)
    words = f"number: {number_words(result)} when the region is redrawn; colour: what was found, by size; grey: nothing"
    words = "\n".join(wrap(words, 56))
    ax.text(0, -0.02, words, transform=ax.transAxes, va="top", fontsize=6.5, color=SOFT, parse_math=False)
    return ax


@styled
def highlighted(result: Result, input: object = None, *, ax: Axes | None = None) -> Axes:
    """Draw a text of the run: unusual words on blue (▲ raises the output) or orange (▼ lowers it).

    Parameters
    ----------
    result : Result
        Of `butfor.text.explain`.
    input : object, optional
        The name of the text; by default the one with most to show.

    Examples
    --------
    >>> from butfor import simulate, text
    >>> bed = simulate.bed("sentences")
    >>> result = text.explain(bed.model, bed.inputs, bed.sampler, test="osft")
    >>> len(highlighted(result).texts) > 3
    True
    """
    from butfor.text.view import directions, has_texts, stretches

    if result.modality != "text" or not has_texts(result):
        raise InputError("the texts of this result are not at hand; highlighted is for butfor.text.explain")
    index = input_index(result, input)
    words: list[tuple[str, str]] = []  # a line may end between them
    for part in stretches(result, directions(result), index, rows_of(result, index).tolist()):
        text = part.text or f"[… {part.gap} …]"
        if part.kind in MARKS:
            words.append((f"{MARKS[part.kind][1]}{' '.join(text.split())}", part.kind))
        else:
            *pieces, last = short(text, max(len(text), 1)).split(" ")
            words += [(f"{piece} ", "") for piece in pieces] + ([(last, "")] if last else [])
    width = WIDTH if ax is None else ax.get_position().width * float(ax.figure.bbox.width) / ax.figure.dpi
    lines = _wrapped(words, max(20, int(width * 72 / (0.602 * SIZE))))
    ax = axes(ax, (WIDTH, 0.17 * len(lines) + 0.5))
    ax.set_axis_off()
    ax.set(xlim=(0, width * 72 / (0.602 * SIZE)), ylim=(len(lines), -0.5))
    for y, line in enumerate(lines):
        x = 0
        for text, kind in line:
            box = {"facecolor": MARKS[kind][0], "edgecolor": "none", "pad": 0.8} if kind else None
            ax.text(x, y + 0.4, text, family="monospace", fontsize=SIZE, va="center", bbox=box, parse_math=False,
                    weight="bold" if kind else "normal")  # fmt: skip
            x += _width(text)
    ax.set_title(f"{short(result.input_names[index], 30)}:  ▲ raises, ▼ lowers the output", fontsize=7, color=SOFT)
    return ax


def _wrapped(words: list[tuple[str, str]], most: int) -> list[list[tuple[str, str]]]:
    """Return words in lines of at most `most` letters; longer words are cut."""
    lines: list[list[tuple[str, str]]] = [[]]
    used = 0
    for text, kind in words:
        rest = text
        while rest:
            if used and used + _width(rest.rstrip()) > most:
                lines.append([])
                used = 0
            lines[-1].append((rest[:most], kind))
            used += _width(rest[:most])
            rest = rest[most:]
    return lines


def _width(text: str) -> int:
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


@styled
def chosen_words(result: Result, *, most: int = 25, ax: Axes | None = None) -> Axes:
    """Draw a bar per word, the most often chosen on top, labelled with how often of how many occurrences.

    It goes to the right where the word raises the output and to the left where it lowers it. Words whose direction is
    not known, since no effect was estimated, have a grey bar to the right.

    Parameters
    ----------
    result : Result
        Of `butfor.text.explain`.
    most : int, default=25
        Bars at most.

    Examples
    --------
    >>> from butfor import simulate, text
    >>> bed = simulate.bed("sentences")
    >>> result = text.explain(bed.model, bed.inputs, bed.sampler, test="osft")
    >>> [label.get_text() for label in chosen_words(result, most=2).get_yticklabels()]
    ['zex  19 of 31', 'zax  2 of 44']
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    from butfor.text.view import word_counts

    shown = [count for count in word_counts(result) if count.chosen][:most]
    names = [f"{count.word}  {count.chosen:,} of {count.tested:,}" for count in shown]
    lines, ax = range(len(shown)), axes(ax, tall(names))
    up, down = [count.up for count in shown], [-count.down for count in shown]
    unknown = [max(0, count.chosen - count.up - count.down) for count in shown]
    for name, colour, hatch, lengths, left in (  # everybody can tell these colours apart
        ("raises the output", "#155cd6", None, up, None),
        ("lowers the output", "#e08a2c", "///", down, None),
        ("direction not known", "#8a96a2", "...", unknown, up),
    ):
        if any(lengths):
            ax.barh(lines, lengths, left=left, color=colour, hatch=hatch, edgecolor=PAPER, label=name)
    name_lines(ax, names, [True] * len(names))
    ax.axvline(0, color=INK, linewidth=0.7)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{abs(value):,.0f}"))
    x_label(ax, f"places where it is unusual ({int(result.chosen.sum()):,} of {len(result.chosen):,})")
    if shown:
        key(ax)
    return ax
