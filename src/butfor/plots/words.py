"""Bars of a run on texts: the words chosen most often, and which way they move the output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from butfor.plots.style import INK, axes, key, styled, tall, x_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from butfor.core.result.result import Result

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

    from butfor.text.word_counts import word_counts

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
