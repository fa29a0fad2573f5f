"""ContextResult: which parts of prompts the answers rest on. Data and its words; it asks no model."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from butfor._version import __version__
from butfor.results.io import write_whole
from butfor.results.record import plain, read
from butfor.results.summary import WIDTH
from butfor.results.view import cut
from butfor.results.words import Guarantee, Note, listed
from butfor.types import InputError
from butfor.untrusted import parse_json

if TYPE_CHECKING:
    import pandas as pd

MOST_BYTES = 200_000_000
MOST_NAMED = 4


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
    p: float
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
        decisive = sum(part.necessary for part in self.parts)
        return f"<butfor.context result: {decisive} of {len(self.parts)} parts decisive>"

    def __str__(self) -> str:
        return self.summary()

    @property
    def table(self) -> pd.DataFrame:
        """A DataFrame with one row per part of each prompt."""
        import pandas as pd

        single = {(one.prompt, one.columns[0]): one for one in self.sets if len(one.columns) == 1}
        rows = []
        for part in self.parts:
            stay = single.get((part.prompt, part.name))
            rows.append(
                {
                    "input": self.names[part.prompt],
                    "subset": part.name,
                    "resolution": part.resolution,
                    "draws": part.draws,
                    "flip": part.flip,
                    "flip_low": part.flip_low,
                    "flip_high": part.flip_high,
                    "necessary": part.necessary,
                    "stay": math.nan if stay is None else stay.stay,
                    "stay_low": math.nan if stay is None else stay.low,
                    "stay_high": math.nan if stay is None else stay.high,
                    "effect": part.effect[0],
                    "effect_low": part.effect[1],
                    "effect_high": part.effect[2],
                    "p": part.p,
                    "q": part.q,
                    "chosen": part.chosen,
                    "status": part.status,
                }
            )
        return pd.DataFrame(rows)

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
        for i in range(len(self.names)) if input is None else [self._position(input)]:
            sets = sorted((one for one in self.sets if one.prompt == i), key=lambda one: (-one.stay, one.columns))
            if sets:
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

        i = self._position(input)
        part = next((one for one in self.parts if one.prompt == i and one.name == subset), None)
        if part is None:
            known = ", ".join(repr(one.name) for one in self.parts if one.prompt == i)
            raise InputError(f"{self.names[i]!r} has no part {subset!r} that was tested; it has {known}")
        return pd.DataFrame({"foil": part.foils[:n], "answer": part.answers[:n], "changed": part.changed[:n]})

    def _position(self, input: str | None) -> int:
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
            why = "a deleted part is no draw of what might have stood there"
            return Guarantee("nothing", self.alpha, over, why, "nobody", ())
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
        lines = [cut(" ".join(line.split()), WIDTH) for line in self.lines()]  # a name may hold line breaks
        if full:
            lines += ["", f"Guarantee: {self.guarantee}", f"Foils: {self.foils}", f"Model: {self.model}"]
            lines += [f"Cost: {self.calls:,} calls, about {self.tokens:,} tokens; seed {self.seed}"]
        return "\n".join(lines)

    def lines(self) -> list[str]:
        """Return the answer line by line: what the model says, what is decisive, what is enough, what is unusual."""
        count = len(self.names)
        first = f"{count:,} prompts, {len(set(self.answers)):,} different answers; {self.calls:,} calls"
        if count == 1:
            first = f"Answer: {json.dumps(cut(self.answers[0], 60), ensure_ascii=False)}"
            first += f" ({len(self.parts):,} parts tested in {self.calls:,} calls, about {self.tokens:,} tokens)"
        lines = [first, f"Decisive: {self._decisive()}"]
        if self.enough_level is not None:
            lines.append(f"Enough: {self._enough()}")
        if self.scored:
            unusual = self._finest("chosen")
            named = [f"{part.name} ({-part.effect[0]:+.1f} log-probability without it)" for part in unusual]
            lines.append(f"Unusual: {_some(named) if count == 1 else _counted(unusual)}")
        lines += [f"Note: {note.line}" for note in self.notes[:3]]
        if any(math.isfinite(one) and one > 0 for one in self.noise):
            mean = sum(one for one in self.noise if math.isfinite(one)) / count
            lines.append(f"Noise: {round(100 * mean)} % of fresh answers to the same prompt differ; that is subtracted")
        promise = "none: a deleted part is no draw of what might have stood there"
        if self.promised:
            promise = f"of each kind of finding at most {100 * self.alpha:g} % is wrong on average, given these foils"
        return [*lines, f"Promise: {promise}"]

    def _finest(self, what: str) -> list[Part]:
        """Return the smallest parts that are marked."""
        marked = [part for part in self.parts if getattr(part, what)]
        inside = [(part.prompt, set(part.members)) for part in marked]
        return [part for part in marked
                if not any(i == part.prompt and other < set(part.members) for i, other in inside)]  # fmt: skip

    def _decisive(self) -> str:
        decisive = sorted(self._finest("necessary"), key=lambda part: -part.flip)
        if not decisive:
            best = max(self.parts, key=lambda part: 0 if math.isnan(part.flip) else part.flip)
            share = f"; closest is {best.name}: {_share(best)}" if best.flip > 0 and len(self.names) == 1 else ""
            return f"no part alone{share}"
        if len(self.names) == 1:
            return _some([f"{part.name} ({_share(part)})" for part in decisive])
        return _counted(decisive)

    def _enough(self) -> str:
        answered = {one.prompt for one in self.sets}
        if len(self.names) > 1:
            anyway = sum(base >= (self.enough_level or 1) for base in self.base)
            counts = Counter(" and ".join(one.columns) for one in self.sets).most_common()
            several = sum(sum(one.prompt == i for one in self.sets) > 1 for i in answered)
            text = _some([f"{name} for {n}" for name, n in counts]) if counts else "no set"
            text += f"; either of several for {several}" * bool(several)
            return text + f"; no part needed for {anyway}" * bool(anyway)
        if self.base and self.base[0] >= (self.enough_level or 1):
            share = round(100 * self.base[0])
            return f"no part is needed: with all of them replaced the answer stays in {share} % of draws"
        sets = sorted(self.sets, key=lambda one: (-one.stay, one.columns))
        if not sets:
            return f"no set of up to 4 parts keeps the answer in {100 * (self.enough_level or 0):g} % of foils"
        stay, low, high = (round(100 * one) for one in (sets[0].stay, sets[0].low, sets[0].high))
        ends = f"{stay} % keep the answer; 95 %: {low} to {high}"
        return " or ".join(listed(one.columns) for one in sets) + f" ({ends})"

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
            shown.append((name, self.questions[i], self.answers[i], texts, groups, sets))
        return environment.get_template("report.html.j2").render(
            result=self, lines=self.lines(), shown=shown, form=form, share=_share, guarantee=str(self.guarantee)
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
        text = json.dumps({"format": "butfor context 1", **_without_nan(plain(self))})
        return write_whole(Path(path), lambda part: part.write_text(text, encoding="utf-8"))


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
        if not isinstance(given, dict) or given.pop("format", None) != "butfor context 1":
            raise ValueError("it has another format")
        made: ContextResult = read(ContextResult, given, "result")
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
    return _with_nan(made)


UNKNOWN = -9e99  # stands for NaN in a file, which JSON cannot hold


def _without_nan(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return UNKNOWN
    if isinstance(value, Mapping):
        return {key: _without_nan(one) for key, one in value.items()}
    return [_without_nan(one) for one in value] if isinstance(value, list) else value


def _with_nan(made: ContextResult) -> ContextResult:
    def back(value: float) -> float:
        return math.nan if value == UNKNOWN else value

    parts = tuple(
        replace(
            part, flip=back(part.flip), p=back(part.p), q=back(part.q),
            effect=(back(part.effect[0]), back(part.effect[1]), back(part.effect[2])),
        )
        for part in made.parts
    )  # fmt: skip
    return replace(made, parts=parts, noise=tuple(map(back, made.noise)), base=tuple(map(back, made.base)))


def _share(part: Part) -> str:
    """Return in words how often the answer would have been another."""
    if not part.draws:
        return "not tested"
    changed = f"another answer with {sum(part.changed)} of {part.draws} foils"
    return f"{changed}; 95 %: {round(100 * part.flip_low)} to {round(100 * part.flip_high)} %"


def _some(items: Sequence[str]) -> str:
    more = f"; {len(items) - MOST_NAMED} more" if len(items) > MOST_NAMED else ""
    return "; ".join(items[:MOST_NAMED]) + more if items else "nothing"


def _counted(parts: Sequence[Part]) -> str:
    prompts = len({part.prompt for part in parts})
    counts = Counter(part.name for part in parts).most_common()
    return f"a part for {prompts}: {_some([f'{name} for {n}' for name, n in counts])}" if parts else "nothing"
