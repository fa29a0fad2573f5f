"""A photograph with its regions, a text with its words: marked by what is established."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING
from unicodedata import east_asian_width

from butfor.plots.style import INK, SOFT, WIDTH, axes, input_place, key, rows_of, short, styled, tall, x_words
from butfor.results.result import Result
from butfor.types import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from butfor.results.result import Result


SIZE = 7.5  # points of a letter of a text; it is 0.602 of that wide
MARKS = {
    "up": ("#cfe0fb", "▲"),
    "down": ("#fbdcb8", "▼"),
    "both": ("#e2d3f7", "◆"),
    "chosen": ("#cfe6e8", "●"),
}


@styled
def photograph(result: Result, input: object = None, *, side: int = 900, ax: Axes | None = None) -> Axes:
    """Axes with an image of the run: regions that are established in blue, the others in grey, one number in each.

    Parameters
    ----------
    result : of `butfor.image.explain`.
    input : the name of the image; None is the one with most to show.
    side : pixels of its longer side.
    ax : axes to draw on; None makes a figure.

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
    place = input_place(result, input)
    picture = marked_photograph(result, place, side)
    ax = axes(ax, (WIDTH, WIDTH * picture.shape[0] / picture.shape[1] + 0.6))
    ax.imshow(picture)
    ax.set_axis_off()
    ax.set_title(f"{short(result.input_names[place], 40)}", fontsize=7.5)
    words = "\n".join(wrap(f"blue: established; number: {number_words(result)}", 56))
    ax.text(0, -0.02, words, transform=ax.transAxes, va="top", fontsize=6.5, color=SOFT, parse_math=False)
    return ax


@styled
def highlighted(result: Result, input: object = None, *, ax: Axes | None = None) -> Axes:
    """Axes with a text of the run: established words on blue (▲ raises the output) or orange (▼ lowers it).

    Parameters
    ----------
    result : of `butfor.text.explain`.
    input : the name of the text; None is the one with most to show.
    ax : axes to draw on; None makes a figure as high as the text needs.

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
    place = input_place(result, input)
    parts = stretches(result, directions(result), place, rows_of(result, place).tolist())
    width = WIDTH if ax is None else ax.get_position().width * float(ax.figure.bbox.width) / ax.figure.dpi
    words = _words([(part.text or f"[… {part.gap} …]", part.kind) for part in parts])
    lines = _wrapped(words, max(20, int(width * 72 / (0.602 * SIZE))))
    ax = axes(ax, (WIDTH, 0.17 * len(lines) + 0.5))
    ax.set_axis_off()
    ax.set(xlim=(0, width * 72 / (0.602 * SIZE)), ylim=(len(lines), -0.5))
    for y, line in enumerate(lines):
        x = 0
        for text, kind in line:
            sign = MARKS[kind][1] if kind in MARKS else ""
            box = {"facecolor": MARKS[kind][0], "edgecolor": "none", "pad": 0.8} if sign else None
            ax.text(x, y + 0.4, text, family="monospace", fontsize=SIZE, va="center", bbox=box, parse_math=False,
                    weight="bold" if sign else "normal")  # fmt: skip
            x += _wide(text)
    ax.set_title(f"{short(result.input_names[place], 30)}:  ▲ raises, ▼ lowers the output", fontsize=7, color=SOFT)
    return ax


def _words(parts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The text in pieces that a line may end between: words and the space after them; marked ones have their sign."""
    found: list[tuple[str, str]] = []
    for text, kind in parts:
        if kind in MARKS:
            found.append((f"{MARKS[kind][1]}{' '.join(text.split())}", kind))
        else:
            found += [(word, "") for word in _split(text)]
    return found


def _split(text: str) -> list[str]:
    pieces = short(text, max(len(text), 1)).split(" ")
    return [f"{piece} " for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])


def _wrapped(words: list[tuple[str, str]], most: int) -> list[list[tuple[str, str]]]:
    lines: list[list[tuple[str, str]]] = [[]]
    used = 0
    for text, kind in words:
        rest = text
        while rest:
            if used and used + _wide(rest.rstrip()) > most:
                lines.append([])
                used = 0
            piece = rest[:most]
            lines[-1].append((piece, kind))
            used += _wide(piece)
            rest = rest[most:]
    return lines


def _wide(text: str) -> int:
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


UP, DOWN, OTHER = "#155cd6", "#e08a2c", "#8a96a2"  # told apart by every kind of colour vision


@styled
def chosen_words(result: Result, ax: Axes | None = None, most: int = 25) -> Axes:
    """Axes with one bar per word, the most often chosen on top, labelled with how often of how many places.

    It goes to the right where the word raises the output and to the left where it lowers it. Words whose direction is
    not known, since no effect was estimated, have a grey bar to the right.

    Parameters
    ----------
    result : what `butfor.text.explain` returned.
    ax : axes to draw on; None makes a figure.
    most : bars at most.

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
    ax = axes(ax, tall(len(shown)))
    places = range(len(shown))
    others = [max(0, count.chosen - count.up - count.down) for count in shown]
    bars = (
        ("raises the output", UP, None, [count.up for count in shown], None),
        ("lowers the output", DOWN, "///", [-count.down for count in shown], None),
        ("direction not known", OTHER, "...", others, [count.up for count in shown]),
    )
    for label, colour, hatch, lengths, left in bars:
        if any(lengths):
            ax.barh(places, lengths, left=left, color=colour, hatch=hatch, edgecolor="white", label=label)
    ax.set_yticks(places, [f"{_plain(c.word)}  {c.chosen:,} of {c.tested:,}" for c in shown], parse_math=False)
    ax.invert_yaxis()
    ax.axvline(0, color=INK, linewidth=0.7)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{abs(value):,.0f}"))
    x_words(ax, f"places where it is established ({int(result.chosen.sum()):,} of {len(result.chosen):,})")
    if shown:
        key(ax)
    return ax


def _plain(word: str) -> str:
    """A word that a label can hold."""
    word = "".join("\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in word)
    return word if len(word) <= 40 else f"{word[:39]}…"
