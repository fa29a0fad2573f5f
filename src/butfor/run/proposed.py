"""Named inputs and what proposes subsets -> what is tested in each; what cannot be used is left out or raised."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

from butfor.evaluation.hypotheses import Proposer, proposals, unique
from butfor.evaluation.items import size
from butfor.results.words import Note, as_note
from butfor.settings import OnError
from butfor.types import InputError, Item, Subset, warn_user


@dataclass(frozen=True, eq=False)
class NamedItems(Sequence[Any]):
    """Inputs by name. `open` makes one from what was given when it is asked for: files are never all in memory."""

    names: tuple[Any, ...]
    sources: tuple[Any, ...]
    open: Callable[[Any, Any], Any]  # name, source -> input

    def __len__(self) -> int:
        return len(self.sources)

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> NamedItems: ...
    def __getitem__(self, place: int | slice) -> Item | NamedItems:
        if isinstance(place, slice):
            return self.some(range(*place.indices(len(self))))
        return self.open(self.names[place], self.sources[place])

    def some(self, places: Iterable[int]) -> NamedItems:
        """Only the inputs at these places."""
        kept = list(places)
        return replace(self, names=tuple(self.names[i] for i in kept), sources=tuple(self.sources[i] for i in kept))


def check_names(names: Sequence[Any], what: str, hint: str = "") -> None:
    """Refuse no inputs at all, and two of the same name; `what` is the plural."""
    if not names:
        raise InputError(f"there are no {what}; give at least one")
    if len(set(names)) < len(names):
        taken: set[Any] = set()
        twice = next(name for name in names if name in taken or taken.add(name))  # type: ignore[func-returns-value]
        raise InputError(f"two {what} are called {twice!r}; names must differ{hint}")


@dataclass(frozen=True)
class Words:
    """How a modality speaks of its inputs."""

    one: str  # "image"
    many: str  # "images"
    argument: str  # "boxes"
    nothing: str  # "no region"
    sign: str  # before the number of a name that comes again


@dataclass(frozen=True)
class Proposed:
    """The inputs that have something to test, their subsets, notes on the others, and the largest one's size."""

    items: NamedItems
    subsets: tuple[tuple[Subset, ...], ...]
    notes: tuple[Note, ...]
    largest: int

    @property
    def names(self) -> tuple[Any, ...]:
        return self.items.names


def propose(
    items: NamedItems,
    proposer: Proposer,
    words: Words,
    on_error: OnError,
    check: Callable[[Any, Any, Sequence[Subset]], None],
    more_notes: Sequence[Note | str] = (),
    warning: type[UserWarning] = UserWarning,
) -> Proposed:
    """Look at every input once. `on_error="skip"` leaves out those that cannot be used; `check` says which."""
    kept, subsets, largest = list[int](), list[tuple[Subset, ...]](), 0
    failed, empty = dict[str, str](), list[str]()
    for place, name in enumerate(items.names):
        try:
            item = items[place]
            proposed = tuple(unique(proposals(words.argument, proposer, name, item), words.sign))
            check(name, item, proposed)
        except InputError as error:
            if on_error == "raise":
                raise
            failed[str(name)] = str(error)
            continue
        if proposed:
            kept.append(place)
            subsets.append(proposed)
            largest = max(largest, size(item))
        else:
            empty.append(str(name))
    notes, called = [], {"one": words.one, "many": words.many}
    if failed:
        notes.append(Note("inputs-skipped", "warning", {"failed": [list(one) for one in failed.items()], **called}))
    if empty:
        notes.append(Note("inputs-without-subsets", "info", {"names": empty, "nothing": words.nothing, **called}))
    notes += map(as_note, more_notes)
    if not kept:
        raise InputError(f"no {words.one} is left to test; {notes[0] if notes else 'give at least one'}")
    for note in notes:
        warn_user(str(note), warning)
    return Proposed(items.some(kept), tuple(subsets), tuple(notes), largest)
