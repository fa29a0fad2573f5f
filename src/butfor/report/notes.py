"""Notes of a run by their weight: what may mislead a reader first, what is only good to know last."""

from __future__ import annotations

from dataclasses import dataclass

HEAVY = (
    "do not rely", "No error rate", "not calibrated", "picked", "false discover", "ignores how columns", "fitted on",
    "Nearly all", "nearly all", "looks as if", "interrupted", "stopped", "promises nothing", "is not valid", "fail",
    "rejects it",
)  # fmt: skip
LIGHT = (
    "Exact:",
    "auto takes",
    "remembered",
    "is set to",
    "was taken as",
    "computed from",
    "rows were",
    "the check finds nothing",
)


@dataclass(frozen=True)
class Note:
    """A sentence for the reader with its weight: "Beware", "Good to know" or "Detail"."""

    weight: str
    text: str


def ranked(notes: tuple[str, ...]) -> list[Note]:
    """The heaviest first; among equals as they came.

    >>> [note.weight for note in ranked(("Exact: trees.", "'a' is not calibrated.", "More rows reach further."))]
    ['Beware', 'Good to know', 'Detail']
    """
    order = ("Beware", "Good to know", "Detail")
    return sorted((Note(_weight(text), text) for text in notes), key=lambda note: order.index(note.weight))


def _weight(text: str) -> str:
    if any(text.startswith(words) or words in text for words in LIGHT):
        return "Detail"
    return "Beware" if any(words in text for words in HEAVY) else "Good to know"
