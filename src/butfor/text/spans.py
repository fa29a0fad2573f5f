"""Subsets: spans chosen by a person, in a list, a mapping or a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, SupportsIndex

from butfor.core.draw.proposers import Overlap, check_overlap_option, unique
from butfor.core.parsing import read_json
from butfor.core.types import InputError, Subset
from butfor.text.edit import Span
from butfor.text.segment import splits_character
from butfor.text.subsets import SIGN, check_overlap, label

Named = tuple[str | None, Span]
FORM = 'a span is [start, end], ["name", start, end] or {"start": ..., "end": ..., "name": ...}'


@dataclass(frozen=True, eq=False)
class Spans:
    """Spans by text name, or the same spans for every text. Made by `spans`."""

    by_text: Mapping[str, list[Named]] | None
    everywhere: list[Named] | None
    overlap: Overlap

    @property
    def blind(self) -> bool:
        """Whether they are the same for every text: what is tested was then not picked by what it holds."""
        return self.by_text is None

    def __repr__(self) -> str:
        if self.by_text is None:
            return f"spans({len(self.everywhere or [])} for every text)"
        return f"spans({sum(map(len, self.by_text.values()))} in {len(self.by_text)} texts)"

    def __call__(self, name: object, text: str) -> list[Subset]:
        given = self.everywhere if self.everywhere is not None else self._of(name)
        spans = [(called or label(text[a:b]) or f"{a}-{b}", _fitting(name, text, (a, b))) for called, (a, b) in given]
        found = unique((Subset(called, span) for called, span in spans), SIGN)
        check_overlap(name, found, text, self.overlap, "spans")
        return found

    def _of(self, name: object) -> list[Named]:
        assert self.by_text is not None
        for key in (str(name), Path(str(name)).name, Path(str(name)).stem):
            if key in self.by_text:
                return self.by_text[key]
        known = ", ".join(list(self.by_text)[:5]) + (", ..." if len(self.by_text) > 5 else "")
        raise InputError(f"there are no spans for text {name!r}; spans are given for {known}")


def _fitting(name: object, text: str, span: Span) -> Span:
    start, end = span
    if not 0 <= start < end <= len(text):
        raise InputError(
            f"span ({start}, {end}) of text {name!r} is not within its {len(text)} characters; offsets count "
            "characters (not bytes) from 0, the end is not included"
        )
    if splits_character(text, start) or splits_character(text, end):
        raise InputError(
            f"span ({start}, {end}) of text {name!r} begins or ends inside one character (a letter and its accent, a "
            "joined emoji); move it to the whole character"
        )
    return start, end


def spans(source: Any, *, overlap: Overlap = "refuse") -> Spans:
    """Spans of characters, half-open, to test in each text.

    Parameters
    ----------
    source : a list of spans or a mapping {span name: (start, end)} for every text, a mapping {text name: such a list
        or mapping}, or a JSON file of one of these, as it is or under the key "spans". A span is (start, end),
        (name, start, end) or {"start", "end", "name"}.
    overlap : "refuse" spans that overlap, or test them anyway, each "alone".

    Examples
    --------
    >>> some = spans({"review": {"praise": (2, 12)}})
    >>> [(subset.name, subset.index) for subset in some("review", "A great film.")]
    [('praise', (2, 12))]
    """
    check_overlap_option(overlap)
    if isinstance(source, str | Path):
        source = _read(Path(source))
    if isinstance(source, Mapping) and source and all(_span(value) is None for value in source.values()):
        by_text = {str(name): _entries(own, f"text {name!r}") for name, own in source.items()}
        return Spans(by_text, None, overlap)
    found = _entries(source, "every text")
    if not found:
        raise InputError("spans is empty; give at least one span")
    return Spans(None, found, overlap)


def _read(path: Path) -> object:
    content = read_json(path, "the file of spans")
    return content["spans"] if isinstance(content, dict) and set(content) == {"spans"} else content


def _entries(given: object, where: str) -> list[Named]:
    if isinstance(given, Mapping) and _span(given) is None:
        return [(str(name), _entry(value, where)[1]) for name, value in given.items()]
    if _span(given) is not None or isinstance(given, str) or not isinstance(given, Sequence):
        raise InputError(f"the spans of {where} are {given!r:.80}, expected a list of them; {FORM}")
    return [_entry(value, where) for value in given]


def _entry(value: object, where: str) -> Named:
    if (found := _span(value)) is None:
        raise InputError(f"one of the spans of {where} is {value!r:.80}; {FORM}")
    return found


def _span(value: object) -> Named | None:
    """A span and its name, if it has one; None where this is no span."""
    name: object = None
    match value:
        case {"start": SupportsIndex() as start, "end": SupportsIndex() as end, **rest}:
            name = rest.get("name", rest.get("label"))
        case [SupportsIndex() as start, SupportsIndex() as end]:
            pass
        case [name, SupportsIndex() as start, SupportsIndex() as end]:
            pass
        case _:
            return None
    if _span(name) is not None or isinstance(start, bool) or isinstance(end, bool):
        return None
    return None if name is None else str(name), (int(start), int(end))
