"""What to test in an image or a text: one shape, `(name, input) -> subsets`, for everything that proposes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from butfor.core.types import InputError, Item, ModelError, Subset

Overlap = Literal["refuse", "alone"]
CheckOverlap = Callable[[Any, Sequence[Subset], Any, Overlap], None]  # name, subsets, input, what to do about it


class Proposer(Protocol):
    """Gives the subsets of one input. Called with the input's name, so that what is random can be keyed by it."""

    def __call__(self, name: object, item: Item, /) -> Sequence[Subset]: ...


def is_blind(proposer: object) -> bool:
    """Whether it lays subsets blindly: what is tested was then not picked by what it holds (METHODS 0)."""
    return bool(getattr(proposer, "blind", False))


@dataclass(frozen=True)
class Together:
    """The subsets of several proposers, one after the other."""

    parts: tuple[Proposer, ...]
    overlap: Overlap
    check: CheckOverlap = field(repr=False)
    sign: str = field(repr=False)

    @property
    def blind(self) -> bool:
        """Whether all of them are laid blindly."""
        return all(map(is_blind, self.parts))

    def __call__(self, name: object, item: Item) -> list[Subset]:
        found = unique((subset for part in self.parts for subset in part(name, item)), self.sign)
        self.check(name, found, item, self.overlap)
        return found


def join(parts: tuple[Proposer, ...], overlap: Overlap, check: CheckOverlap, what: str, sign: str = " ") -> Together:
    """Several proposers as one; `what` names the input in an error, `sign` stands before a number in a name."""
    check_overlap_option(overlap)
    for part in parts:
        if not callable(part):
            raise InputError(f"together takes functions (name, {what}) -> subsets, got {type(part).__name__}")
    return Together(parts, overlap, check, sign)


def check_overlap_option(overlap: str) -> None:
    """Refuse another word for what to do about subsets that overlap."""
    if overlap not in ("refuse", "alone"):
        raise InputError(f"overlap must be 'refuse' or 'alone' (test them anyway, each alone), got {overlap!r}")


def unique(subsets: Iterable[Subset], sign: str = " ") -> list[Subset]:
    """The same subsets with names of their own: a second "dog" becomes "dog 2", or "dog #2" with that sign.

    >>> [subset.name for subset in unique([Subset("dog", 0), Subset("cat", 1), Subset("dog", 2)])]
    ['dog', 'cat', 'dog 2']
    """
    subsets = list(subsets)
    given = {subset.name for subset in subsets}
    taken: set[str] = set()
    number: dict[str, int] = {}
    out = []
    for subset in subsets:
        name = subset.name
        while name in taken or (name != subset.name and name in given):
            number[subset.name] = number.get(subset.name, 1) + 1
            name = f"{subset.name}{sign}{number[subset.name]}"
        taken.add(name)
        out.append(subset if name == subset.name else Subset(name, subset.index))
    return out


def proposals(what: str, propose: Callable[[Any, Any], Any], name: object, item: Item) -> list[Subset]:
    """What a proposer gives for one input; a user's function may give anything. `what` names the argument."""
    try:
        found = list(propose(name, item))
    except InputError:
        raise
    except Exception as error:
        raise ModelError(f"{what} raised {type(error).__name__} on {name!r}: {error}") from error
    other = [thing for thing in found if not isinstance(thing, Subset)]
    if other:
        raise InputError(
            f"{what} gave {other[0]!r} for {name!r}; a function (name, input) must give a list of butfor.Subset(name, "
            "index), of a box (x1, y1, x2, y2) or a span (start, end)"
        )
    return found
