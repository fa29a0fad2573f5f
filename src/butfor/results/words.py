"""Notes: what a reader of a result should know, as a code, a severity and values; their English is made here alone.

Code never looks into a sentence. Whoever finds something out makes a `Note`; tests and goldens compare codes and
values; people read `str(note)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["warning", "limit", "info"]
Sentence = str | Callable[..., str]  # a template for str.format, or a function of the values


@dataclass(frozen=True)
class Note:
    """Something a reader of a result should know.

    Parameters
    ----------
    code : str
        Which note it is, a key of `SENTENCES`; it never changes with the wording.
    severity : {"warning", "limit", "info"}
        "warning" changes what may be concluded, "limit" says what could not be found, "info" is good to know.
    values : mapping
        The numbers and names in it: whatever JSON can hold.

    Examples
    --------
    >>> print(Note("interrupted-effects", "warning"))
    Interrupted while effects were estimated: there are none.
    """

    code: str
    severity: Severity
    values: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        sentence = SENTENCES[self.code]
        return sentence.format(**self.values) if isinstance(sentence, str) else sentence(**self.values)


RUN_NOTES: dict[str, Sentence] = {
    "interrupted-effects": "Interrupted while effects were estimated: there are none.",
}
MODEL_NOTES: dict[str, Sentence] = {}
CHECK = "butfor.check_sampler on held-out rows of the reference tells which"


def some(names: Sequence[str]) -> str:
    """Return the first three names in quotes, and how many more there are.

    >>> some(["a", "b", "c", "d"])
    "'a', 'b', 'c' and 1 more"
    """
    shown = ", ".join(repr(str(name)) for name in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


TABLE_NOTES: dict[str, Sentence] = {
    "draws-repeat": lambda subsets: (
        f"Counterfactuals of {some(subsets)} are the observed values again for most inputs: little can be found there."
    ),
    "draws-fractions": lambda subsets: (
        f"Counterfactuals of {some(subsets)} have fractions where the data has a few whole numbers only: no real row "
        "looks like that; use a sampler for mixed columns."
    ),
    "draws-independent": lambda subsets: (
        f"The other columns predict {some(subsets)} in the data but not in counterfactuals: unless the reference "
        f"differs in just that, the sampler ignores how columns depend on each other; {CHECK}."
    ),
    "draws-narrow": lambda subsets: (
        f"Observed values of {some(subsets)} lie beyond nearly all of their draws at both ends: extreme inputs, or a "
        f"sampler that is too narrow; {CHECK}."
    ),
    "draws-wide": lambda subsets: (
        f"Observed values of {some(subsets)} crowd in the middle of their draws: inputs more alike than the reference, "
        f"or a sampler that is too wide; {CHECK}."
    ),
    "repeated-inputs": (
        "Many inputs agree in half of their columns with another input, as several rows of one person do. The promise "
        "needs independent inputs: name what belongs together with groups=data['person']."
    ),
    "index-column": (
        "Column {column!r} has a different value in every row, all inputs on one side and all of the reference on the "
        "other, like an index or a time: leave it out, or it will be the answer."
    ),
    "check-rows": "{used} of {rows} held-out rows were used.",
    "check-columns": lambda checked, left_out: (
        f"{checked} of {checked + len(left_out)} columns, picked at random, were checked. Left out: "
        f"{', '.join(left_out)}. Name columns in subsets= to check those."
    ),
}
IMAGE_NOTES: dict[str, Sentence] = {}
TEXT_NOTES: dict[str, Sentence] = {}
MULTIMODAL_NOTES: dict[str, Sentence] = {}
SENTENCES = RUN_NOTES | MODEL_NOTES | TABLE_NOTES | IMAGE_NOTES | TEXT_NOTES | MULTIMODAL_NOTES
