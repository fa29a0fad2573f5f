"""Asking a language model: equal questions once, answers kept on disk as they come, a budget that is never passed."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from time import monotonic
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from butfor.context.prompt import Rendered
from butfor.evaluation.progress import Progress, Report
from butfor.types import Floats, InputError, ModelError
from butfor.untrusted import private_file, private_folder

FILE = "answers.jsonl"
BATCH = 64
CHARACTERS = 4  # of a token, about
LEAST_SCORE, ABOVE_ZERO = -745.0, 1e-6  # the logarithm of the smallest number above zero; rounding


class BudgetSpent(Exception):
    """No further call is allowed; `known` has an answer, or None, to each of the prompts."""

    def __init__(self, known: list[Any]) -> None:
        super().__init__("the budget is spent")
        self.known = known


class Asker:
    """A model, what it has answered so far, and what that cost.

    Answers are kept under a digest of model, settings, prompt and sample, so a killed run asks nothing again. They are
    written a batch at a time, or each when it comes by a model that takes `on_answer`, a function (row, answer).
    """

    def __init__(
        self,
        model: Any,
        *,
        run_dir: str | os.PathLike[str] | None,
        budget: int | None,
        batch: int | None,
        report: Report,
        most: int | None = None,
    ) -> None:
        self._answer, self._score = functions_of(model)
        self._seeded, self._writing = "seeds" in _parameters(self._answer), Lock()
        self._model, self._batch, self._report, self._most = model, batch or BATCH, report, most
        self.calls = self.tokens = 0
        self._budget, self._began, self._checks = budget, monotonic(), False
        self.identity, known = identity_of(model)
        self._kept: dict[str, Any] = {}
        self._file: Path | None = None
        if run_dir is not None:
            self._open(Path(run_dir))
            self._checks = not known and bool(self._kept)

    @property
    def scores(self) -> bool:
        """True if the model tells log-probabilities of answers."""
        return self._score is not None

    def _open(self, folder: Path) -> None:
        try:
            private_folder(folder)
            self._file = folder / FILE
            lines = self._file.read_bytes().split(b"\n") if self._file.exists() else []
        except OSError as error:
            raise InputError(f"cannot use run_dir {folder}: {error.strerror or error}; name another folder") from error
        for line in lines[:-1]:  # what follows the last line break was being written when the run was killed
            try:
                key, value = json.loads(line)
                if not isinstance(key, str) or not isinstance(value, str | float):
                    raise TypeError
                self._kept[key] = value
            except (ValueError, TypeError):
                raise InputError(f"{self._file} is damaged; delete it, or name another run_dir") from None
        if lines and lines[-1]:
            whole = sum(len(line) + 1 for line in lines[:-1])
            with self._file.open("r+b") as file:
                file.truncate(whole)

    def answers(self, prompts: Sequence[Rendered], seeds: Sequence[int] | None = None) -> list[str]:
        """Return the answer to each prompt; `seeds` tell fresh samples of one prompt apart."""
        given = list(seeds) if seeds is not None else [0] * len(prompts)
        sampled = seeds is not None and self._seeded
        keys = [self._key("answer", prompt, seed) for prompt, seed in zip(prompts, given, strict=True)]

        def ask(rows: list[int], **more: Any) -> list[str]:
            batch = [prompts[row] for row in rows]
            more |= {"seeds": [given[row] for row in rows]} if sampled else {}
            given_back = _called(self._answer, "the model", batch, **more)
            if isinstance(given_back, str | bytes) or not isinstance(given_back, Iterable):
                raise ModelError(
                    f"the model gave {type(given_back).__name__} to {len(batch)} prompts; expected a list of texts"
                )
            made = list(given_back)
            if len(made) != len(batch) or not all(isinstance(one, str) for one in made):
                kinds = ", ".join(sorted({type(one).__name__ for one in made}))
                raise ModelError(
                    f"the model gave {len(made)} answers ({kinds}) to {len(batch)} prompts; expected texts"
                )
            return made

        if self._checks and (sampled or seeds is None):
            row = next((row for row, key in enumerate(keys) if key in self._kept), None)
            if row is not None:  # the folder may be another model's, of the same name
                self._checks, self.calls = False, self.calls + 1
                if ask([row]) != [self._kept[keys[row]]]:
                    raise InputError(
                        f"the model answers a prompt otherwise than the answer kept in {self._file}; name another "
                        "run_dir, or give the model an attribute identity if it is the same one"
                    )
        return self._all(keys, prompts, ask, self._answer)

    def log_probabilities(self, prompts: Sequence[Rendered], answers: Sequence[str]) -> Floats:
        """Return the log-probability of each answer given its prompt."""
        score = self._score
        assert score is not None
        keys = [self._key("score", prompt, answer) for prompt, answer in zip(prompts, answers, strict=True)]

        def ask(rows: list[int], **more: Any) -> list[float]:
            some = [answers[row] for row in rows]
            given_back = _called(score, "the model's score", [prompts[row] for row in rows], some, **more)
            try:
                made = np.asarray(given_back, float)
            except (TypeError, ValueError):
                made = np.full(len(rows), np.nan)
            bad = made[~(made <= ABOVE_ZERO)] if made.shape == (len(rows),) else [f"shape {made.shape}"]
            if len(bad):
                raise ModelError(
                    f"the model gave {bad[0]} as log-probability of one of {len(rows)} answers; expected a number for "
                    "each, at most 0"
                )
            return [max(one, LEAST_SCORE) for one in made.tolist()]

        return np.array([max(one, LEAST_SCORE) for one in self._all(keys, prompts, ask, score)], float)

    def _key(self, what: str, prompt: Rendered, extra: object) -> str:
        text = json.dumps([self.identity, what, prompt, extra], ensure_ascii=False)
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    def _all(
        self,
        keys: list[str],
        prompts: Sequence[Rendered],
        ask: Callable[..., list[Any]],
        function: Callable[..., Any],
    ) -> list[Any]:
        missing = {key: row for row, key in reversed(list(enumerate(keys))) if key not in self._kept}
        rows = sorted(missing.values(), key=lambda row: json.dumps(prompts[row]))  # shared prefixes side by side
        keeps = "on_answer" in _parameters(function)
        for start in range(0, len(rows), self._batch):
            some = rows[start : start + self._batch]
            if self._budget is not None and self.calls + len(some) > self._budget:
                some = some[: max(0, self._budget - self.calls)]
                if not some:
                    break
            batch = [keys[row] for row in some]
            more = {"on_answer": lambda at, one, batch=batch: self._keep([(batch[at], one)])} if keeps else {}
            self._keep(zip(batch, ask(some, **more), strict=True))
            self.calls += len(some)
            self.tokens += sum(tokens_of(self._model, prompts[row]) for row in some)
            self._report(Progress("answers", self.calls, self._most, seconds=monotonic() - self._began))
        known = [self._kept.get(key) for key in keys]
        if None in known:
            raise BudgetSpent(known)
        return known

    def _keep(self, pairs: Iterable[tuple[str, Any]]) -> None:
        with self._writing:
            new = {key: value for key, value in pairs if key not in self._kept}
            self._kept.update(new)
            if new and self._file is not None:
                lines = "".join(json.dumps(pair) + "\n" for pair in new.items())
                with private_file(self._file).open("ab") as file:
                    file.write(lines.encode())


def tokens_of(model: Any, prompt: Rendered) -> int:
    """Return the number of tokens of a prompt, about."""
    text = prompt if isinstance(prompt, str) else "\n".join(str(one["content"]) for one in prompt)
    count = getattr(model, "tokens", None)
    return int(count(text)) if callable(count) else max(1, len(text) // CHARACTERS)


def functions_of(model: Any) -> tuple[Callable[..., Sequence[str]], Callable[..., Any] | None]:
    """Return how a model answers and, if it can, how it scores."""
    answer = getattr(model, "answer", None)
    if not callable(answer):
        if not callable(model):
            raise InputError(
                f"model must be a function from a list of prompts to a list of answers, or have answer(prompts); got "
                f"{type(model).__name__}; butfor.models.openai(url) is a server"
            )
        return model, None
    score = getattr(model, "score", None)
    able = getattr(model, "scores", True)
    return answer, score if callable(score) and (able() if callable(able) else able) else None


def _called(function: Callable[..., Any], who: str, prompts: list[Rendered], *more: Any, **named: Any) -> Any:
    try:
        return function(prompts, *more, **named)
    except (InputError, BudgetSpent):
        raise
    except (Exception, SystemExit) as error:
        first = prompts[0] if isinstance(prompts[0], str) else prompts[0][-1]["content"]
        which = "" if len(prompts) == 1 else f"one of {len(prompts)} prompts, the first is "
        raise ModelError(f"{who} raised {type(error).__name__} on {which}{first!r:.80}: {error}") from error


def identity_of(model: Any) -> tuple[str, bool]:
    """Return what tells a model from others, and whether that is all of it; else only its answers can tell."""
    identity = getattr(model, "identity", None)
    if isinstance(identity, str):
        return identity, True
    core = model
    while isinstance(core, partial):
        core = core.func
    named = core if hasattr(core, "__qualname__") else type(core)
    try:
        content, known = "".join(_content(model, named.__module__, {})), True
    except Exception:  # what of somebody else's object cannot be read is not known
        content, known = "", False
    digest = blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{named.__module__}.{named.__qualname__} ({digest if known else 'content not known'})", known


def _content(value: Any, home: str, seen: dict[int, Any]) -> Iterator[str]:
    """Yield what a function or an object of the module `home` computes with: source, closure, arguments, attributes,
    and what it uses of that module; what cannot be read raises."""
    if id(value) in seen:
        return
    seen[id(value)] = value  # also keeps it, so that its id is of nothing else
    inside: list[Any] = []
    if isinstance(value, str | int | float | bytes | None):
        yield repr(value)
    elif isinstance(value, list | tuple | dict):
        yield f"{len(value)} of "
        inside = [*value.items()] if isinstance(value, dict) else [*value]
    elif isinstance(value, partial):
        inside = [value.func, value.args, value.keywords]
    elif isinstance(value, MethodType):
        inside = [value.__func__, value.__self__]
    elif isinstance(value, ModuleType | type | BuiltinFunctionType) or (
        isinstance(value, FunctionType) and value.__module__ != home
    ):
        yield getattr(value, "__qualname__", value.__name__)
    elif isinstance(value, FunctionType):
        yield f"{inspect.getsource(value)}{value.__code__.co_code!r}"
        used = inspect.getclosurevars(value)
        inside = [value.__defaults__, dict(used.nonlocals), dict(sorted(used.globals.items()))]
    elif type(value).__module__ == home:
        yield inspect.getsource(type(value))
        inside = [vars(value)]
    else:
        from joblib import hash as joblib_hash

        yield joblib_hash(value)
    for one in inside:
        yield from _content(one, home, seen)


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()
