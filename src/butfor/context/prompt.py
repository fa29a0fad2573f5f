"""Prompts with named parts: passages, examples, turns, tool outputs, instructions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

from butfor.types import InputError

Messages = list[dict[str, Any]]
Rendered = str | Messages
TEMPLATE = "{parts}\nQuestion: {question}\nAnswer:"
Template = str | Callable[[Mapping[str, str], str], Rendered]
FIXED = ("instruction", "system")  # kinds that a common pool of foils does not replace
_PLACE = re.compile(r"\{question\}|\{parts\}")
_NUMBER = re.compile(r"[\s_-]*\d+$")


def kind_of(name: str) -> str:
    """Return the kind of a part: its name without the number.

    >>> kind_of("passage 12"), kind_of("instruction")
    ('passage', 'instruction')
    """
    return _NUMBER.sub("", name) or name


@dataclass(frozen=True, eq=False)
class Prompt:
    """A prompt whose named parts can be replaced. Made by `butfor.context.prompt`."""

    parts: Mapping[str, str]
    question: str = ""
    template: Template = TEMPLATE
    # of messages: all but its content, and text, name of a part, text, ...; a plain text is a message of nothing else
    pieces: tuple[tuple[Mapping[str, Any], tuple[str, ...]], ...] = ()

    def __repr__(self) -> str:
        return f"<butfor prompt: {len(self.parts)} parts>"

    def render(self, replaced: Mapping[str, str] | None = None) -> Rendered:
        """Return the prompt as the model gets it, some parts replaced."""
        parts = {**self.parts, **(replaced or {})}
        if self.pieces:
            texts = [
                (message, "".join(parts[one] if k % 2 else one for k, one in enumerate(pieces)))
                for message, pieces in self.pieces
            ]
            if not texts[0][0]:
                return texts[0][1]
            return [{**message, "content": text or message.get("content", "")} for message, text in texts]
        if callable(self.template):
            try:
                made = self.template(parts, self.question)
            except Exception as error:
                raise InputError(f"the template raised {type(error).__name__}: {error}") from error
            if not isinstance(made, str):
                for number, one in enumerate(made if isinstance(made, list) else [made]):
                    _message(one, number)
            return made
        there = {"{question}": self.question, "{parts}": "\n".join(parts.values())}
        return _PLACE.sub(lambda place: there[place[0]], self.template)  # once: a passage may hold "{question}"

    @property
    def last_question(self) -> str:
        """The question, or the last message if no part of it is replaced."""
        last = self.pieces[-1][1] if self.pieces and self.pieces[-1][0] else ()
        return self.question or (last[0] if len(last) == 1 else "")


def prompt(
    parts: Mapping[str, str] | Sequence[Mapping[str, str]] | str,
    *,
    question: str = "",
    template: Template | None = None,
    spans: Mapping[str, Sequence[int]] | None = None,
) -> Prompt:
    """Make a prompt with named parts.

    Parameters
    ----------
    parts : mapping, list of messages or str
        Texts by name, in their order: `{"instruction": ..., "passage 1": ..., "passage 2": ...}`; or chat messages
        (dicts with role and content), whose parts are the messages, called by role and number ("user 2"), or the
        `spans` of them; or a plain text with `spans`.
    question : str
        Asked after the parts; never replaced.
    template : str or callable, optional
        Where parts and question go: a text with "{parts}" and "{question}", or a function (parts, question) -> text or
        messages. None puts each part on its line, then "Question: ..." and "Answer:".
    spans : mapping, optional
        Parts by name: (start, end) of a plain text, (message, start, end) of messages. What is in no span stays.

    Returns
    -------
    Prompt

    Examples
    --------
    >>> passages = {"passage 1": "Lisbon is in Portugal.", "passage 2": "Rome is in Italy."}
    >>> made = prompt(passages, question="Where is Rome?")
    >>> print(made.render({"passage 2": "Oslo is in Norway."}))
    Lisbon is in Portugal.
    Oslo is in Norway.
    Question: Where is Rome?
    Answer:
    """
    if isinstance(parts, Mapping):
        if spans is not None:
            raise InputError("spans go with a plain text or with messages; parts given by name need none")
        return _named(parts, question, TEMPLATE if template is None else template)
    if template is not None or question:
        raise InputError("question and template go with parts by name; write them into the text or the messages")
    if isinstance(parts, str):
        return _spanned([({}, parts)], {name: (0, *_ints(name, span, 2)) for name, span in (spans or {}).items()})
    if not isinstance(parts, Sequence):
        raise InputError(f"a prompt is a mapping, a list of messages or a text, got {type(parts).__name__}")
    messages = [_message(one, number) for number, one in enumerate(parts)]
    if not messages:
        raise InputError("there are no messages; give at least one dict with role and content")
    if spans is None:
        counts: dict[str, int] = {}
        whole: dict[str, tuple[int, ...]] = {}
        for number, (message, content) in enumerate(messages[:-1]):  # the last message is what is answered
            role = message["role"]
            counts[role] = counts.get(role, 0) + 1
            if content:
                whole[f"{role} {counts[role]}"] = (number, 0, len(content))
        return _spanned(messages, whole)
    return _spanned(messages, {name: _ints(name, span, 3) for name, span in spans.items()})


def as_prompt(given: Any) -> Prompt:
    """Return a prompt, as given or made of a mapping, messages or a mapping with parts and question."""
    if isinstance(given, Prompt):
        return given
    if isinstance(given, Mapping) and isinstance(given.get("parts"), Mapping):
        unknown = set(given) - {"parts", "question", "template", "name", "answer"}
        if unknown:
            raise InputError(f"a prompt has parts, question and template, got {sorted(unknown)[0]!r}")
        return prompt(given["parts"], question=given.get("question", ""), template=given.get("template"))
    if isinstance(given, Mapping) and set(given) == {"role", "content"}:
        raise InputError("a message is no prompt; make one of the messages by butfor.context.prompt(messages)")
    if isinstance(given, Mapping | list):
        return prompt(given)
    raise InputError(f"a prompt is made by butfor.context.prompt, got {type(given).__name__}")


def _named(parts: Mapping[str, str], question: str, template: Template) -> Prompt:
    if not parts:
        raise InputError("the prompt has no parts; name at least one text")
    for name, text in parts.items():
        if not isinstance(name, str) or not name.strip() or not isinstance(text, str):
            raise InputError(f"part {name!r} is {type(text).__name__}; parts are texts by name")
    if isinstance(template, str) and "{parts}" not in template:
        raise InputError("template has no {parts}: write where the parts go, and {question} where the question goes")
    if not callable(template) and not isinstance(template, str):
        raise InputError(f"template must be a text or a function, got {type(template).__name__}")
    if callable(template):
        check_takes(template, 2, "template: a function (parts, question) -> text or messages")
    elif question and "{question}" not in template:
        raise InputError("template has no {question}: write where the question goes, or leave question out")
    return Prompt(dict(parts), str(question), template)


def _message(given: Any, number: int) -> tuple[dict[str, Any], str]:
    """Return all of a message, and its text; one that only calls tools has none."""
    usable = isinstance(given, Mapping) and isinstance(given.get("role"), str) and given["role"]
    text = given.get("content") if usable else None
    if usable and text is None and given.get("tool_calls"):
        return dict(given), ""
    if not isinstance(text, str):
        raise InputError(f"message {number} is no dict with role and content as texts; give both")
    return {name: one for name, one in given.items() if name != "content"}, text


def check_takes(function: Any, count: int, what: str) -> Any:
    """Return a function of the user's that takes so many arguments; refuse another before anything is asked."""
    try:
        signature(function).bind(*range(count))
    except TypeError as error:
        raise InputError(f"{what} is called with {count} arguments: {error}") from error
    except ValueError:  # it has no signature that can be read
        pass
    return function


def _ints(name: str, span: Sequence[int], size: int) -> tuple[int, ...]:
    numbers = tuple(span) if isinstance(span, Sequence) else ()
    if len(numbers) != size or not all(isinstance(one, int) and one >= 0 for one in numbers):
        form = "(start, end)" if size == 2 else "(message, start, end)"
        raise InputError(f"span {name!r} is {span!r}, expected {form}")
    return numbers


def _spanned(messages: Sequence[tuple[Mapping[str, Any], str]], spans: Mapping[str, tuple[int, ...]]) -> Prompt:
    if not spans:
        raise InputError("no part is named; give spans={name: (start, end)}, or a mapping of parts")
    parts: dict[str, str] = {}
    pieces = []
    for number, (message, content) in enumerate(messages):
        at, made = 0, list[str]()
        inside = sorted((start, end, name) for name, (which, start, end) in spans.items() if which == number)
        for start, end, name in inside:
            if start < at or end > len(content) or start >= end:
                raise InputError(
                    f"span {name!r} ({start}, {end}) is empty, overlaps another or leaves its text of {len(content)} "
                    "characters"
                )
            made += [content[at:start], name]
            parts[name], at = content[start:end], end
        pieces.append((message, (*made, content[at:])))
    lost = set(spans) - set(parts)
    if lost:
        raise InputError(
            f"span {sorted(lost)[0]!r} is of message {spans[sorted(lost)[0]][0]}; there are {len(messages)}"
        )
    ordered = {name: parts[name] for name in sorted(parts, key=lambda name: spans[name])}
    return Prompt(ordered, pieces=tuple(pieces))
