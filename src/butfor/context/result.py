"""ContextResult: which parts of prompts the answers rest on. Data and its words; it asks no model."""

from __future__ import annotations

import json
import math
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from butfor._version import __version__
from butfor.results.io import write_files, write_whole
from butfor.results.record import plain, read
from butfor.results.summary import WIDTH
from butfor.results.view import cut
from butfor.results.words import Guarantee, Note, listed
from butfor.types import InputError, whole
from butfor.untrusted import parse_json

if TYPE_CHECKING:
    import pandas as pd

MOST_BYTES = 200_000_000
FORMAT = "butfor context 1"
MOST_NAMED = 4
MARGIN = 24  # for the first words of a line, and how many more there are
MOST_MARKED = 3  # prompts that a terminal shows in full


@dataclass(frozen=True)
class Part:
    """One part of one prompt, or several that are replaced together."""

    prompt: int
    name: str
    members: tuple[str, ...]
    resolution: int
    draws: int
    flip: float  # share of foils with another answer, less the model's own noise
    flip_low: float
    flip_high: float
    necessary: bool
    p_necessary: float  # of a share of at most the level
    p: float  # of what is unusual, as are q and chosen
    q: float
    chosen: bool
    effect: tuple[float, float, float]  # drop of the answer's log-probability, and its 95 % interval
    foils: tuple[str, ...]
    answers: tuple[str, ...]
    changed: tuple[bool, ...]
    status: str


@dataclass(frozen=True)
class ContextSet:
    """Parts that were kept while all others were replaced: how often the answer stays."""

    prompt: int
    columns: tuple[str, ...]
    stay: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class ContextResult:
    """Decisive parts of each prompt, parts that are enough, and unusual ones. Made by `butfor.context.explain`."""

    names: tuple[str, ...]
    prompts: tuple[dict[str, str], ...]
    questions: tuple[str, ...]
    answers: tuple[str, ...]
    noise: tuple[float, ...]  # share of fresh answers to the same prompt that differ; NaN: not sampled
    parts: tuple[Part, ...]
    sets: tuple[ContextSet, ...]
    base: tuple[float, ...]  # share of prompts with all parts replaced that have the same answer
    enough_level: float | None
    level: float
    alpha: float
    draws: int
    seed: int
    foils: str
    scored: bool
    given: tuple[str, ...] | None
    calls: int
    tokens: int
    notes: tuple[Note, ...]
    model: str
    promised: bool
    version: str = __version__

    def __repr__(self) -> str:
        return f"<butfor.context result: {len(self._finest('necessary'))} of {_many(self._single, 'part')} decisive>"

    def __str__(self) -> str:
        return self.summary()

    @property
    def table(self) -> pd.DataFrame:
        """A DataFrame with one row per part of each prompt."""
        import pandas as pd

        single = {(one.prompt, one.columns): (one.stay, one.low, one.high) for one in self.sets}
        before = ["resolution", "draws", "flip", "flip_low", "flip_high", "necessary", "p_necessary"]
        after = ["p", "q", "chosen", "status"]
        rows = [
            (
                self.names[part.prompt],
                part.name,
                *(getattr(part, name) for name in before),
                *single.get((part.prompt, (part.name,)), (math.nan,) * 3),
                *part.effect,
                *(getattr(part, name) for name in after),
            )
            for part in self.parts
        ]
        both = ["stay", "stay_low", "stay_high", "effect", "effect_low", "effect_high"]
        return pd.DataFrame(rows, columns=["input", "subset", *before, *both, *after])

    def enough(self, input: str | None = None) -> pd.DataFrame:
        """Return the smallest sets of parts with which the answer stays, all others replaced.

        Parameters
        ----------
        input : str, optional
            Name of a prompt; None is all of them.

        Returns
        -------
        pandas.DataFrame
            A row per prompt that has such a set: input, columns, stay, stay_low, stay_high, alternatives.
        """
        import pandas as pd

        rows = []
        for i in range(len(self.names)) if input is None else [self.position(input)]:
            if sets := self._sets_of(i):
                first, *others = sets
                ends = (first.stay, first.low, first.high)
                rows.append((self.names[i], first.columns, *ends, tuple(one.columns for one in others)))
        return pd.DataFrame(rows, columns=["input", "columns", "stay", "stay_low", "stay_high", "alternatives"])

    def counterfactuals(self, input: str | None, subset: str, n: int | None = None) -> pd.DataFrame:
        """Return the foils of a part and the model's answer with each.

        Parameters
        ----------
        input : str or None
            Name of a prompt; a result of one needs none.
        subset : str
            Name of a part.
        n : int, optional
            How many; None is all.

        Returns
        -------
        pandas.DataFrame
            foil, answer, and whether the answer is another.
        """
        import pandas as pd

        i = self.position(input)
        part = next((one for one in self.parts if one.prompt == i and one.name == subset), None)
        if part is None:
            known = ", ".join(repr(one.name) for one in self.parts if one.prompt == i)
            raise InputError(f"{self.names[i]!r} has no part {subset!r} that was tested; it has {known}")
        return pd.DataFrame({"foil": part.foils[:n], "answer": part.answers[:n], "changed": part.changed[:n]})

    def position(self, input: str | None) -> int:
        """Return the number of a prompt by its name; a result of one needs none."""
        if input is None and len(self.names) == 1:
            return 0
        if input not in self.names:
            known = ", ".join(map(repr, self.names[:8]))
            raise InputError(f"name a prompt: this result has {known}" if input is None else
                             f"unknown prompt {input!r}; this result has {known}")  # fmt: skip
        return self.names.index(input)

    @property
    def guarantee(self) -> Guarantee:
        """Promise on decisive parts: under which assumption, proven by whom."""
        over = "the parts of all prompts" if max(part.resolution for part in self.parts) == 0 else (
            "the parts of each resolution (not over all resolutions together)")  # fmt: skip
        needs = (
            "foils are drawn independently as the part itself might have been, the model gives equal prompts equal "
            "answers (or samples= was given), and p-values are independent or positively dependent"
        )
        by = "exact binomial tails in stages (Jennison & Turnbull 1983); Benjamini & Hochberg 1995"
        if not self.promised:
            return Guarantee("nothing", self.alpha, over, self._unpromised, "nobody", ())
        return Guarantee("FDR", self.alpha, over, needs, by, ())

    def summary(self, *, full: bool = False) -> str:
        """Return the answer in at most ten lines; `print(result)` shows the same.

        Parameters
        ----------
        full : bool
            Whether the guarantee and the cost come after it.

        Returns
        -------
        str
        """
        lines = [_cut(" ".join(line.split()), WIDTH) for line in self.lines()]  # a name may hold line breaks
        if full:
            lines += ["", f"Guarantee: {self.guarantee}", f"Foils: {self.foils}", f"Model: {self.model}"]
            lines += [f"Cost: {self.calls:,} calls, about {self.tokens:,} tokens; seed {self.seed}"]
        return "\n".join(lines)

    def lines(self) -> list[str]:
        """Return the answer line by line: what the model says, what is decisive, what is enough, what is unusual."""
        count = len(self.names)
        different = f"{len(set(self.answers)):,} different answers" if len(set(self.answers)) > 1 else "one answer"
        first = f"{count:,} prompts, {different}; {_many(self.calls, 'call')}"
        if count == 1:
            first = f"Answer: {json.dumps(cut(self.answers[0], 60), ensure_ascii=False)}"
            first += f" ({_many(self._single, 'part')}, {_many(self.calls, 'call')}, about {self.tokens:,} tokens)"
        lines = [first, f"Decisive: {self._decisive()}"]
        if self.enough_level is not None:
            lines.append(f"Enough: {self._enough()}")
        if self.scored:
            unusual = self._finest("chosen")
            named = [f"{part.name} ({_effect(part)})" for part in unusual]
            needed, most = math.ceil(len(self.parts) / self.alpha) - 1, max(part.draws for part in self.parts)
            reach = f" ({_many(most, 'foil')} a part; it takes {needed})" * (not unusual and most < needed)
            lines.append(f"Unusual: {_some(named) if count == 1 else self._by_prompt(unusual)}{reach}")
        lines += [f"Note: {note.line}" for note in self.notes[:3]]
        if any(math.isfinite(one) and one > 0 for one in self.noise):
            mean = sum(one for one in self.noise if math.isfinite(one)) / count
            less = "subtracted from what is decisive, not from what is enough" if self.enough_level else "subtracted"
            lines.append(f"Noise: {round(100 * mean)} % of fresh answers to the same prompt differ; {less}")
        promise = f"none: {self._unpromised}"
        if self.promised:
            promise = f"of each kind of finding at most {100 * self.alpha:g} % is wrong on average, given these foils"
        return [*lines, f"Promise: {promise}"]

    @property
    def _unpromised(self) -> str:
        if any(note.code == "answers-vary" for note in self.notes):
            return "the model gives the same prompt different answers; ask with samples=5, or temperature 0"
        return "a deleted part is no draw of what might have stood there"

    @property
    def _single(self) -> int:
        return sum(len(part.members) == 1 for part in self.parts)

    def _spent(self, *during: str) -> str:
        """Return why something is open, where the budget ended before it was asked."""
        note = next((note for note in self.notes if note.code == "budget-spent"), None)
        if note is None or note.values.get("at") in during:
            return ""
        return f"the budget ended after {_many(note.values['calls'], 'call')}"

    def _sets_of(self, i: int | None = None) -> list[ContextSet]:
        """Return sets of parts that are enough, of one prompt or of all, the surest first."""
        sets = [one for one in self.sets if one.columns and i in (None, one.prompt)]
        return sorted(sets, key=lambda one: (one.prompt, -one.stay, one.columns))

    def marked(self, *, colour: bool | None = None) -> str:
        """Return the summary and the parts of the first prompts, decisive ones marked, for a terminal.

        Parameters
        ----------
        colour : bool, optional
            None colours where the terminal can.

        Returns
        -------
        str
        """
        on = os.environ.get("NO_COLOR") is None and sys.stdout.isatty() if colour is None else colour
        lines = [self.summary()]
        for i, name in enumerate(self.names[:MOST_MARKED]):
            by_name = {part.name: part for part in self.parts if part.prompt == i}
            enough = {one.columns[0] for one in self.sets if one.prompt == i and len(one.columns) == 1}
            question = " ".join(self.questions[i].split())
            lines += ["", cut(f"{name}: {question} -> {' '.join(self.answers[i].split())}", WIDTH)]
            for one, text in self.prompts[i].items():
                part = by_name.get(one)
                sure = part is not None and part.necessary
                words = f"{one}{' (enough)' * (one in enough)}: {' '.join(text.split())}"
                line = f"{'>' if sure else '|' if one in enough else ' '} {cut(words, WIDTH - 2)}"
                lines.append(f"\033[1;34m{line}\033[0m" if on and sure else line)
        if len(self.names) > MOST_MARKED:
            lines += ["", f"{len(self.names) - MOST_MARKED:,} more prompts are in the report"]
        return "\n".join([*lines, "", "> decisive; | enough by itself"])

    def _finest(self, what: str) -> list[Part]:
        """Return the smallest parts that are marked."""
        marked = [part for part in self.parts if getattr(part, what)]
        inside = [(part.prompt, set(part.members)) for part in marked]
        return [part for part in marked
                if not any(i == part.prompt and other < set(part.members) for i, other in inside)]  # fmt: skip

    def _decisive(self) -> str:
        decisive = sorted(self._finest("necessary"), key=lambda part: -part.flip)
        undecided = sum(part.status in ("open", "not reached") for part in self.parts)
        spent, left = self._spent("unusual", "enough"), ""
        if spent and undecided:
            left = f"; {_many(undecided, 'part')} not decided, {spent}"
        if not decisive:
            if left:
                return left.removeprefix("; ") if undecided == len(self.parts) else f"none so far{left}"
            best = max(self.parts, key=lambda part: 0 if math.isnan(part.flip) else part.flip)
            share = f"; closest is {best.name}: {self._share(best)}" if best.flip > 0 and len(self.names) == 1 else ""
            return f"no part alone{share}"
        if len(self.names) == 1:
            return _some([f"{part.name} ({self._share(part)})" for part in decisive]) + left
        return self._by_prompt(decisive) + left

    def _by_prompt(self, parts: Sequence[Part]) -> str:
        """Return the parts of each of a few prompts, else how many prompts each part is marked for."""
        if len(self.names) > MOST_NAMED:
            counts = Counter(part.name for part in parts).most_common()
            prompts = _many(len({part.prompt for part in parts}), "prompt")
            return f"for {prompts}: {_some([f'{name} ({n})' for name, n in counts])}" if parts else "nothing"
        by_prompt = {i: [part.name for part in parts if part.prompt == i] for i in range(len(self.names))}
        return "; ".join(f"{self.names[i]}: {listed(names)}" for i, names in by_prompt.items() if names) or "nothing"

    def _enough(self) -> str:
        if 1 < len(self.names) <= MOST_NAMED:
            return _some([f"{name}: {self._enough_of(i)}" for i, name in enumerate(self.names)])
        if len(self.names) > 1:
            sets, spent = self._sets_of(), self._spent()
            counts = Counter(" and ".join(one.columns) for one in sets).most_common()
            by_prompt = Counter(one.prompt for one in sets)
            several, anyway = sum(n > 1 for n in by_prompt.values()), sum(not one.columns for one in self.sets)
            text = f"for {_many(len(by_prompt), 'prompt')}: {_some([f'{name} ({n})' for name, n in counts])}"
            text = text if sets else "not decided" if spent else "no set"
            text += f"; either of several for {several}" * bool(several)
            return text + f"; no part needed for {anyway}" * bool(anyway) + f"; {spent}" * bool(spent)
        ends, sets = "", [one for one in self.sets if not one.columns] or self._sets_of(0)
        if sets:
            stay, low, high = (round(100 * one) for one in (sets[0].stay, sets[0].low, sets[0].high))
            ends = f" ({stay} % keep the answer; 95 %: {low} to {high})" if low < high else ""
        return f"{self._enough_of(0)}{ends}"

    def _enough_of(self, i: int) -> str:
        sets = self._sets_of(i)
        if any(one.prompt == i and not one.columns for one in self.sets):
            return "no part is needed"
        if sets:
            return " or ".join(listed(one.columns) for one in sets)
        if len({name for part in self.parts if part.prompt == i for name in part.members}) == 1:
            return "not asked: only one part was tested"
        if spent := self._spent():
            return f"not decided, {spent}"
        level, base = f"{100 * (self.enough_level or 0):g} %", self.base[i]
        if base >= (self.enough_level or 1):
            return f"not sure that any part is needed: {round(100 * base)} % of draws keep the answer without all"
        same = 100 * (1 - self.noise[i])
        noise = f"; fresh answers to the prompt itself are the same in {same:.0f} %"
        return f"no set of parts that surely keeps the answer for {level} of foils" + noise * (self.noise[i] > 0)

    def _share(self, part: Part) -> str:
        """Return in words how often the answer would have been another."""
        if part.status in ("open", "not reached"):
            return "not decided" if part.draws else "not tested"
        changed, another = sum(part.changed), "another answer with"
        if part.flip_low == part.flip_high:
            return "another answer without it" if changed else "the same answer without it"
        if part.status == "given up":
            rest = f"{another} {changed}" if changed else "no other answer"
            return f"given up after {_many(part.draws, 'foil')}: {rest}"
        low, high = (max(0, round(100 * one)) for one in (part.flip_low, part.flip_high))
        less = " less its noise" * math.isfinite(self.noise[part.prompt])
        return f"{another} {changed} of {_many(part.draws, 'foil')}; 95 %{less}: {low} to {high} %"

    def reasons(self, input: str | None = None, k: int = 4) -> pd.DataFrame:
        """Return the `k` strongest reasons of a prompt: decisive parts, then what is enough, then unusual parts.

        Parameters
        ----------
        input : str, optional
            Name of a prompt; a result of one needs none.
        k : int
            How many.

        Returns
        -------
        pandas.DataFrame
            kind, subset, sentence.
        """
        import pandas as pd

        i = self.position(input)
        decisive, unusual = (
            [part for part in self._finest(what) if part.prompt == i] for what in ("necessary", "chosen")
        )
        rows = [("decisive", part.name, self._share(part)) for part in sorted(decisive, key=lambda part: -part.flip)]
        rows += [
            ("enough", " and ".join(one.columns), f"{round(100 * one.stay)} % keep the answer, all others replaced")
            for one in self._sets_of(i)
        ]
        rows += [("unusual", part.name, _effect(part)) for part in unusual]
        return pd.DataFrame(rows[: whole("k", k, 1)], columns=["kind", "subset", "sentence"])

    def report(self, path: str | PathLike[str]) -> Path:
        """Write one offline HTML file and return its path.

        Parameters
        ----------
        path : str or Path
            Of the file; its folder must exist.

        Returns
        -------
        Path
        """
        html = self._html("report")
        return write_whole(Path(path), lambda part: part.write_text(html, encoding="utf-8", errors="replace"))

    def _repr_html_(self) -> str:
        return self._html("fragment")

    def _html(self, form: str) -> str:
        from jinja2 import Environment, PackageLoader

        environment = Environment(loader=PackageLoader("butfor.context", "."), autoescape=True, trim_blocks=True)
        shown = []
        for i, name in enumerate(self.names):
            by_name = {part.name: part for part in self.parts if part.prompt == i}
            texts = [(one, text, by_name.get(one)) for one, text in self.prompts[i].items()]
            groups = [part for part in self.parts if part.prompt == i and len(part.members) > 1 and part.draws]
            sets = [one for one in self.sets if one.prompt == i]
            enough = "" if self.enough_level is None else self._enough_of(i)
            shown.append((name, self.questions[i], self.answers[i], enough, texts, groups, sets))
        return environment.get_template("report.html.j2").render(
            result=self, lines=self.lines(), shown=shown, form=form, share=self._share, guarantee=str(self.guarantee)
        )

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the result as JSON; `butfor.context.load` reads it back.

        Parameters
        ----------
        path : str or Path
            Of the file; its folder must exist.

        Returns
        -------
        Path
        """
        text = self.to_json()
        return write_whole(Path(path), lambda part: part.write_text(text, encoding="utf-8"))

    def to_json(self) -> str:
        """Return the result as JSON, as `save` writes it.

        Returns
        -------
        str
        """
        return json.dumps({"format": FORMAT, **_without_nan(plain(self))})


def load(path: str | PathLike[str]) -> ContextResult:
    """Read a result that was saved; nothing in the file is executed.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    ContextResult
    """
    where = Path(path)
    try:
        if where.stat().st_size > MOST_BYTES:
            raise InputError(f"{where} is larger than {MOST_BYTES:,} bytes; give a file written by result.save")
        given = parse_json(where.read_bytes())
        if not isinstance(given, dict) or given.pop("format", None) != FORMAT:
            raise ValueError("it has another format")
        made: ContextResult = _with_nan(read(ContextResult, given, "result"))
        if not (len(made.names) == len(made.prompts) == len(made.questions) == len(made.answers) == len(made.noise)):
            raise ValueError("its prompts do not fit its answers")
        if not made.names or not {one.prompt for one in made.parts} | {one.prompt for one in made.sets} <= set(
            range(len(made.names))
        ):
            raise ValueError("a part of it is of no prompt")
        if not made.parts or len(made.base) != len(made.names):
            raise ValueError("it has no parts, or not a base for each prompt")
        if any(not (len(one.foils) == len(one.answers) == len(one.changed) == one.draws) for one in made.parts):
            raise ValueError("the foils of a part do not fit its answers")
        for note in made.notes:
            str(note)
    except OSError as error:
        raise InputError(
            f"cannot read {where}: {error.strerror or error}; give a file written by result.save"
        ) from error
    except (ValueError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise InputError(f"{where} is not a saved result of contexts: {str(error)[:120]}") from error
    return made


def write_folder(result: ContextResult, out: Path) -> None:
    """Write `result.butfor`, `table.csv` and `report.html` into `out`: all of them, or none."""
    write_files(
        {
            "result.butfor": result.save,
            "table.csv": lambda path: result.table.to_csv(path, index=False),
            "report.html": result.report,
        },
        out,
    )


def is_context(path: Path) -> bool:
    """Return True for a file that begins as a saved result of contexts does."""
    begin = f'{{"format": "{FORMAT}"'.encode()
    with suppress(OSError), path.open("rb") as file:
        return file.read(len(begin)) == begin
    return False


UNKNOWN = -9e99  # stands for NaN in a file, which JSON cannot hold


def _without_nan(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return UNKNOWN
    if isinstance(value, Mapping):
        return {key: _without_nan(one) for key, one in value.items()}
    return [_without_nan(one) for one in value] if isinstance(value, list) else value


def _with_nan(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_with_nan, value))
    if isinstance(value, ContextResult | Part):
        return replace(value, **{one.name: _with_nan(getattr(value, one.name)) for one in fields(value)})
    return math.nan if value == UNKNOWN else value


def _effect(part: Part) -> str:
    drop, _, most = part.effect
    unbounded = drop > 0 and math.isnan(most) and part.draws > 1  # an answer had a chance of zero
    return f"log-probability {f'at least {drop:.1f} lower' if unbounded else f'{-drop:+.1f}'} without it"


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _cut(text: str, most: int) -> str:
    """Cut between words, where there are any."""
    short = cut(text, most)
    if len(text) <= most or " " not in short[most // 2 :]:
        return short
    return f"{short[:-1].rpartition(' ')[0].rstrip(' ;,(')}…"


def _some(items: Sequence[str]) -> str:
    """Join as many as a line has room for, the first in any case."""
    shown = list(items[:MOST_NAMED])
    while len(shown) > 1 and len("; ".join(shown)) > WIDTH - MARGIN:
        shown.pop()
    more = f"; {len(items) - len(shown)} more" if len(items) > len(shown) else ""
    return "; ".join(shown) + more if items else "nothing"
