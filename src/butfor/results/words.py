"""Notes: what a reader of a result should know, as a code, a severity and values; their English is made here alone.

Code never looks into a sentence. Whoever finds something out makes a `Note`; tests and goldens compare codes and
values; people read `str(note)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
TABLE_NOTES: dict[str, Sentence] = {}


def _files_ignored(names: list[str]) -> str:
    one = len(names) == 1
    left = "file of the folder is no image and was" if one else "files of the folder are no images and were"
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{len(names)} {left} left out: {', '.join(map(repr, names[:5]))}{more}."


def _fills_judged(
    odd: int, fills: int, real: int, regions: int, same: int, *, by_image: bool, implausible: bool
) -> str:
    among = "real patches of the same image" if by_image else "what really is in regions of other images"
    unchanged = f" {same} of the fills kept are the region as it is." if same else ""
    advice = (
        " Where fills do not look real, a region may be chosen for that alone: use another sampler, or "
        "butfor.plausible(sampler, butfor.image.judge, 0.05)."
    )
    return (
        f"Do fills look real? By texture and edge, beside {among}, {odd} of {fills} fills look odder than 95 of 100 "
        f"real ones, and so do {real} of {regions} regions as they are.{unchanged}{advice if implausible else ''}"
    )


IMAGE_NOTES: dict[str, Sentence] = {"files-ignored": _files_ignored, "fills-judged": _fills_judged}
TEXT_NOTES: dict[str, Sentence] = {}
MULTIMODAL_NOTES: dict[str, Sentence] = {}
SENTENCES = RUN_NOTES | MODEL_NOTES | TABLE_NOTES | IMAGE_NOTES | TEXT_NOTES | MULTIMODAL_NOTES
