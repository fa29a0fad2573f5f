"""What the check of a sampler means for a global result: the subsets that it rejects are never chosen."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from butfor.core.types import Bools

REJECTED = "The sampler did not pass its check on {names}: nothing is said of {them}."
UNCHECKED = "{count} subsets were not checked."
TOGETHER = (
    "The check of the sampler calls no single subset wrong, but the shape of all columns together: a fault too small "
    "to be seen in one of them, by which p-values may be somewhat too small or too large."
)
WITHHELD = (
    "Not chosen, whatever {their} p-value, since the sampler did not pass its check there: {names}. A sampler that "
    "draws {them} as the data has {them} may tell more (check_sampler says what is wrong)."
)
MOST_NAMED = 6  # subsets that a sentence names


class Check(Protocol):
    """What was found of the sampler on rows that it has not seen, as `butfor.check_sampler` gives it."""

    @property
    def subset_names(self) -> tuple[str, ...]: ...
    @property
    def verdicts(self) -> tuple[Any, ...]: ...
    @property
    def ok(self) -> bool: ...
    @property
    def sentence(self) -> str: ...


@dataclass(frozen=True)
class SavedCheck:
    """What a file keeps of a check."""

    subset_names: tuple[str, ...]
    verdicts: tuple[str, ...]
    ok: bool
    sentence: str


def kept_check(check: Check | None) -> dict[str, Any] | None:
    """A check as plain words, for a file."""
    if check is None:
        return None
    kept = SavedCheck(check.subset_names, tuple(map(str, check.verdicts)), check.ok, check.sentence)
    return {**asdict(kept)}


def read_check(subset_names: list[str], verdicts: list[str], ok: bool, sentence: str) -> SavedCheck:
    return SavedCheck(tuple(subset_names), tuple(verdicts), ok, sentence)


def rejected_by(check: Check | None, subset_names: tuple[str, ...]) -> Bools:
    """Subsets (S,) that a check calls anything but ok; one that was not checked is not rejected."""
    wrong = set()
    if check is not None:
        wrong = {name for name, said in zip(check.subset_names, check.verdicts, strict=True) if str(said) != "ok"}
    return np.array([name in wrong for name in subset_names], bool)


def shortened(names: list[str]) -> str:
    """The name of a group: its columns, or the first of them."""
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def them(marked: Bools) -> str:
    return "it" if marked.sum() == 1 else "them"
