"""butfor.context.explain: which part of a prompt does the answer rest on? (METHODS 21)

Three statements, each with its own error:
*decisive*   P(another answer | the part replaced by a foil) > level. The prompt is fixed and only foils are random, so
             neither the prompt nor the answer need be picked blindly. Exact p-values (inference/staged.py), BH.
*enough*     P(the same answer | all other parts replaced) > enough: searched on a few foils, confirmed on fresh ones.
*unusual*    the paper's test: the log-probability of an answer is extreme beside those with foils in the part's place.
             The answer that the observed prompt produced is a selection: with every null true 16 to 25 % of parts have
             p <= .05. So it is given from outside, or likeliest over the prompt and all its foils together.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from os import PathLike
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import logsumexp
from scipy.stats import false_discovery_control

from butfor.context.ask import LEAST_SCORE, Asker, BudgetSpent, functions_of, tokens_of
from butfor.context.foils import Foils, as_foils
from butfor.context.prompt import Prompt, Rendered, as_prompt, check_takes, kind_of
from butfor.context.result import ContextResult, ContextSet, Part
from butfor.evaluation.progress import Progress, reporting
from butfor.inference.effects import interval
from butfor.inference.guarantees import check_alpha
from butfor.inference.selection import bh
from butfor.inference.staged import Stages, above_noise, excess_interval
from butfor.results.words import Note
from butfor.settings import RunOptions
from butfor.streams import stream
from butfor.types import InputError, between, whole

Same = Literal["normalised", "exact"] | Callable[[str, str], bool]
FUTILE = 0.125  # at level .5 three foils that all keep the answer end a part
BRANCHES = 3  # parts of a part, from coarse to fine
SEARCH = 4  # foils of all other parts that all keep the answer before a set is confirmed; none is used again
BEAM, BEST, STEPS, FEW_PARTS = 3, 4, 4, 4
SPENT = (1 / 4, 1 / 4, 1 / 4, 1 / 8, 1 / 16, 1 / 16)  # of alpha, on rounds that confirm: shares of false ones add up
EARLY = 2 / 3  # of that, on sets that all foils keep
LIKELY = 0.75  # of foils of all parts keep the answer: perhaps no part is needed
FEW_TEXTS = 20  # of fewer, replaced together with others, shares say little of texts like them
ASKED = 60  # texts of a function for each part, where parts are replaced together
_Set = tuple[int, tuple[str, ...]]  # a prompt, and the parts of it that are kept
MOST_ANSWERS = 8  # that may be the likeliest over all versions of a prompt


def normalised(answer: str) -> str:
    """Return an answer without case, punctuation at its ends, and extra space.

    >>> normalised(" Lisbon. ") == normalised("lisbon")
    True
    """
    text = " ".join(unicodedata.normalize("NFKC", answer).casefold().split())
    return text.strip(" .,;:!?\"'`")


def as_judge(same: Same) -> Callable[[str, str], bool]:
    """Return the function that tells whether two answers are the same."""
    if same == "exact":
        return lambda one, other: one == other
    if same == "normalised":
        return lambda one, other: normalised(one) == normalised(other)
    if not callable(same):
        raise InputError(f"same must be 'normalised', 'exact' or a function (answer, answer) -> bool, got {same!r}")
    function = check_takes(same, 2, "same: a function (answer, answer) -> bool")

    def judge(one: str, other: str) -> bool:
        try:
            verdict = function(one, other)
        except Exception as error:
            raise InputError(f"same raised {type(error).__name__} on {one!r:.60} and {other!r:.60}: {error}") from error
        if not isinstance(verdict, bool | np.bool_):
            raise InputError(f"same must return True or False, got {verdict!r:.60}; compare a score with a bound")
        return bool(verdict)

    return judge


def explain(
    model: Any,
    prompts: Prompt | Mapping[str, Any] | Sequence[Any],
    foils: Any,
    *,
    parts: Literal["zoom"] | Sequence[str] | None = None,
    same: Same = "normalised",
    answer: str | Sequence[str] | None = None,
    level: float = 0.5,
    alpha: float = 0.1,
    draws: int = 10,
    samples: int = 1,
    enough: float | None = 0.9,
    seed: int = 0,
    budget: int | None = None,
    options: RunOptions | None = None,
    run_dir: str | PathLike[str] | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
    batch_rows: int | None = None,
) -> ContextResult:
    """Find the parts of prompts that the answers rest on.

    Each part is replaced by foils, texts that might have stood there, and the model is asked again. A part is
    *decisive* if the answer would surely have been another for more than `level` of its foils; some parts are *enough*
    if the answer stays nearly always with all others replaced. Foils are drawn until a part cannot be decisive any
    more or `draws` are made, so parts that do not matter cost few calls.

    Parameters
    ----------
    model : callable or object
        A function from a list of prompts to a list of answers, or an object with answer(prompts) and, if it can,
        score(prompts, answers) -> log-probabilities: `butfor.models.openai(url)`, `butfor.models.transformers(...)`.
    prompts : Prompt, list or mapping
        Made by `butfor.context.prompt`; several as a list or by name.
    foils : list, mapping, callable or "drop"
        A pool of texts for every part but instructions; pools by name or kind of a part ("passage"); a function
        (prompt, part, draws, rng) -> texts, asked once for each part; `butfor.context.next_ranks(...)`; "drop" deletes
        the part, without a promise on what would have stood there. No text of a pool stands twice in a part's place.
    parts : "zoom" or list of str, optional
        Which parts to test; "zoom" goes from the whole context to thirds, and on to single parts of what is decisive.
        None is every part that has foils.
    same : {"normalised", "exact"} or callable
        When two answers are the same; "normalised" ignores case, space and punctuation at the ends.
    answer : str or list of str, optional
        An answer from outside, one for each prompt, whose log-probability is tested. None takes the answer that is
        likeliest over the prompt and its foils together.
    level : float
        The share of foils above which a part is decisive.
    alpha : float
        Share of the parts called decisive (or enough, or unusual) that may be wrong on average.
    draws : int
        The most foils of a part: at most as many as its pool has texts.
    samples : int
        More than 1 for a model that answers by chance (temperature above 0): so many times `draws` foils, each with a
        fresh answer, and as many fresh answers to the prompt itself, whose own rate of change is subtracted.
    enough : float, optional
        How often the answer must stay; None does not look for what is enough.
    seed : int
        Of the foils and, where the model takes them, of the answers.
    budget : int, optional
        The most calls of the model; the run ends there with what is decided.
    options : RunOptions, optional
    run_dir : str or path-like, optional
        A folder that keeps every answer: after a crash or a kill the same call asks nothing again.
    progress : bool or callable, optional
    batch_rows : int, optional
        The most prompts that the model is given at a time; 64 by default.

    Returns
    -------
    ContextResult

    Examples
    --------
    >>> import butfor
    >>> reader = lambda prompts: ["4417" if "Lisbon is 4417" in prompt else "unknown" for prompt in prompts]
    >>> made = butfor.context.prompt(
    ...     {"passage 1": "The code of Lisbon is 4417.", "passage 2": "The code of Rome is 2290."},
    ...     question="What is the code of Lisbon?",
    ... )
    >>> pool = [f"The code of {city} is {9000 + k}." for k, city in enumerate(("Oslo", "Bern", "Riga", "Kyiv", "Graz"))]
    >>> result = butfor.context.explain(reader, made, pool)
    >>> result.table.loc[result.table.necessary, "subset"].tolist()
    ['passage 1']
    """
    options = RunOptions() if options is None else options
    run = _run(prompts, foils, same, level, alpha, draws, samples, enough, seed)
    tree = run.tree(parts)
    fixed = _given_answers(answer, len(run.prompts))
    with reporting(options.progress if progress is None else progress) as report:
        asker = Asker(
            model,
            run_dir=options.run_dir if run_dir is None else run_dir,
            budget=None if budget is None else whole("budget", budget, 1),
            batch=options.batch_rows if batch_rows is None else whole("batch_rows", batch_rows, 1),
            report=report,
            most=run.calls(tree, model, fixed is not None)[0],
        )
        return run.perform(asker, tree, fixed)


class Cost(NamedTuple):
    """The most calls of a run, the most tokens of prompts, and calls where few parts matter, as is usual."""

    calls: int
    tokens: int
    likely: int


def cost(
    model: Any,
    prompts: Any,
    foils: Any,
    *,
    parts: Any = None,
    same: Same = "normalised",
    level: float = 0.5,
    alpha: float = 0.1,
    draws: int = 10,
    samples: int = 1,
    enough: float | None = 0.9,
) -> Cost:
    """Return how many calls and prompt tokens `explain` takes, without asking the model.

    Parameters
    ----------
    model, prompts, foils, parts, same, level, alpha, draws, samples, enough : object
        As in `butfor.context.explain`.

    Returns
    -------
    Cost
        calls and tokens at most, and likely calls: one part of each prompt is decisive and enough by itself. With
        those for log-probabilities, where the model tells them.

    Examples
    --------
    >>> from butfor.context import prompt
    >>> pool = [f"{k}." for k in range(10)]
    >>> cost(None, prompt({"passage 1": "A.", "passage 2": "B."}, question="Which?"), pool, enough=None)
    Cost(calls=22, tokens=154, likely=15)
    """
    run = _run(prompts, foils, same, level, alpha, draws, samples, enough, 0)
    size = max(tokens_of(model, one.render()) for one in run.prompts)
    calls, likely = run.calls(run.tree(parts), model)
    return Cost(calls, calls * size, likely)


def _run(
    prompts: Any,
    foils: Any,
    same: Same,
    level: float,
    alpha: float,
    draws: int,
    samples: int,
    enough: float | None,
    seed: int,
) -> _Run:
    names, given = _prompts(prompts)
    run = _Run(
        names=names,
        prompts=given,
        foils=as_foils(foils),
        judge=as_judge(same),
        level=between("level", level, "0.5 is more likely than not"),
        alpha=check_alpha(alpha),
        draws=whole("draws", draws, 1) * whole("samples", samples, 1),
        sampled=samples > 1,
        enough=None if enough is None else between("enough", enough, "0.9 is the default; None does not look"),
        seed=whole("seed", seed, 0),
    )
    known = list(dict.fromkeys(one for prompt in given for name in prompt.parts for one in (kind_of(name), name)))
    if unknown := [name for name in run.foils.pools if name and name not in known]:
        raise InputError(f"foils are named {unknown[0]!r}, which no part is; parts are {', '.join(known[:8])}")
    return run


def _prompts(given: Any) -> tuple[tuple[str, ...], tuple[Prompt, ...]]:
    if isinstance(given, Prompt):
        return ("prompt",), (given,)
    if isinstance(given, Mapping):
        if isinstance(given.get("parts"), Mapping) or (given and all(isinstance(one, str) for one in given.values())):
            raise InputError("prompts is one mapping of texts; make a prompt of it by butfor.context.prompt(parts)")
        names, prompts = tuple(map(str, given)), tuple(map(as_prompt, given.values()))
    elif isinstance(given, Sequence) and not isinstance(given, str):
        prompts = tuple(map(as_prompt, given))
        names = tuple(f"prompt {number}" for number in range(1, len(prompts) + 1))
    else:
        raise InputError(f"prompts are made by butfor.context.prompt, got {type(given).__name__}")
    if not prompts:
        raise InputError("there are no prompts; give at least one")
    if len(set(names)) < len(names):
        raise InputError(f"two prompts are called {Counter(names).most_common(1)[0][0]!r}; give each its own name")
    return names, prompts


def _given_answers(answer: Any, count: int) -> list[str] | None:
    if answer is None:
        return None
    answers = [answer] * count if isinstance(answer, str) else list(answer) if isinstance(answer, Iterable) else []
    if len(answers) != count or not all(isinstance(one, str) and one for one in answers):
        raise InputError(f"answer must be a text for each of {count} prompts, got {len(answers)}: {str(answer)[:60]}")
    return answers


@dataclass
class _Node:
    """One hypothesis: parts of a prompt that are replaced together, and what is known of it."""

    prompt: int
    name: str
    members: tuple[str, ...]
    stages: Stages
    resolution: int = 0
    parent: int = -1
    every: list[dict[str, str]] = field(default_factory=list)  # the most foils
    answers: list[str] = field(default_factory=list)
    changed: int = 0
    ended: bool = False
    necessary: bool = False
    p: float = 1.0
    p_necessary: float = math.nan
    effect: tuple[float, float, float] = (math.nan, math.nan, math.nan)


@dataclass(frozen=True, eq=False)
class _Run:
    names: tuple[str, ...]
    prompts: tuple[Prompt, ...]
    foils: Foils
    judge: Callable[[str, str], bool]
    level: float
    alpha: float
    draws: int
    sampled: bool
    enough: float | None
    seed: int
    pools: dict[tuple[int, str], tuple[str, ...]] = field(default_factory=dict)  # by prompt and part

    def tree(self, parts: Any) -> list[_Node]:
        """Return the hypotheses, each after what it is a part of."""
        nodes: list[_Node] = []
        for number, (name, prompt) in enumerate(zip(self.names, self.prompts, strict=True)):
            tested = self._tested(parts, prompt, name)
            texts = self.foils.texts(prompt, tested, name)
            self.pools.update({(number, part): texts[part] for part in tested})
            if parts == "zoom" and len(tested) > 1:
                self._grow(nodes, number, tested, 0, -1)
            else:
                nodes += [_Node(number, part, (part,), self._stages(number, (part,))) for part in tested]
        return nodes

    def _grow(self, nodes: list[_Node], number: int, parts: list[str], resolution: int, parent: int) -> None:
        """Append a group of parts and, below it, its thirds down to single parts."""
        name = parts[0] if len(parts) == 1 else f"{parts[0]} to {parts[-1]}"
        nodes.append(_Node(number, name, tuple(parts), self._stages(number, parts), resolution, parent))
        here = len(nodes) - 1
        if len(parts) > 1:
            for third in _thirds(parts):
                self._grow(nodes, number, third, resolution + 1, here)

    def _stages(self, i: int, members: Sequence[str]) -> Stages:
        """Return the looks at foils: of one part no more than there are texts, as none of them is drawn twice."""
        size = self.draws
        if self.foils.drop:
            size = size if self.sampled else 1
        elif len(members) == 1 and self.foils.function is None:
            size = min(size, len(self.pools[i, members[0]]))
        return Stages(size, self.level, FUTILE)

    def _prepare(self, tree: list[_Node], notes: list[Note]) -> None:
        """Ask a function for its foils, once for each part, and draw those of every node."""
        together = self.enough is not None or any(len(node.members) > 1 for node in tree)
        count = max(self.draws, ASKED) if together else self.draws
        for i, part in self.pools if self.foils.function is not None else ():
            rng, where = stream(self.seed, self.names[i], "foils", part), self.names[i]
            self.pools[i, part] = texts = self.foils.called(self.prompts[i], part, where, count, rng)
            repeated = count - len(set(texts))
            if repeated and not any(note.code == "foils-repeat" for note in notes):
                notes.append(Note("foils-repeat", "warning", {"part": part, "draws": count, "repeated": repeated}))
        for node in tree:
            if len(node.members) > 1 or self.foils.drop:
                node.every = self._foils(node.prompt, node.members, node.stages.draws, node.name)
                continue
            (part,), pool = node.members, self.pools[node.prompt, node.members[0]]
            rng = stream(self.seed, self.names[node.prompt], node.name, part)
            node.every = [{part: pool[k]} for k in rng.choice(len(pool), node.stages.draws, replace=False)]

    def _tested(self, parts: Any, prompt: Prompt, where: str) -> list[str]:
        if parts is None or parts == "zoom":
            tested = [name for name in prompt.parts if self.foils.serves(name)]
            if not tested:
                known = ", ".join(map(repr, prompt.parts))
                raise InputError(f"no part of {where} has foils: it has {known}; name foils for one of them")
            return tested
        if isinstance(parts, str) or not isinstance(parts, Sequence):
            raise InputError(f"parts must be 'zoom' or a list of names, got {parts!r}")
        for part in parts:
            if part not in prompt.parts:
                raise InputError(f"{where} has no part {part!r}; it has {', '.join(map(repr, prompt.parts))}")
        if not parts:
            raise InputError("parts is empty; name at least one part, or None for all that have foils")
        return list(dict.fromkeys(parts))

    def calls(self, tree: Sequence[_Node], model: Any, given: bool = False) -> tuple[int, int]:
        """Return the most calls that decisions, what is enough, and log-probabilities take, and the likely ones."""
        prompts, singles = len(self.prompts), sum(len(node.members) == 1 for node in tree)
        most = likely = prompts * (1 + (self.draws if self.sampled else 1))
        most += sum(node.stages.draws for node in tree)
        first = sum(node.stages.looks[0] for node in tree if node.parent < 0)
        deep = 1 + max(node.resolution for node in tree)
        drawn = first + prompts * (deep * (tree[0].stages.draws - tree[0].stages.looks[0]) + (deep - 1) * BRANCHES * 3)
        likely += min(drawn, most)
        if model is not None and functions_of(model)[1] is not None:
            answers = 1 if given else MOST_ANSWERS
            most += sum(node.stages.draws + 1 for node in tree) * answers
            likely += drawn + prompts * (2 if given else 4) * self.draws
        if self.enough is not None and singles > prompts:
            looks = [max(self._confirming(self.alpha * one, n).draws for n in range(1, 2 * BEAM + 1)) for one in SPENT]
            sizes = Counter(node.prompt for node in tree if len(node.members) == 1).values()
            beam = sum(min(BEAM * BEST, math.comb(n, step + 1)) for n in sizes for step in range(1, STEPS))
            most += SEARCH * (2 * prompts + singles + beam) + singles + prompts * (looks[0] + BEAM * sum(looks[1:]))
            zoomed = all(node.parent >= 0 or len(node.members) > 1 for node in tree)
            likely += prompts * (SEARCH * (2 - zoomed) + self._confirming(self.alpha * SPENT[0], prompts).sure)
        return most, min(most, likely)

    def _confirming(self, alpha: float, candidates: int) -> Stages:
        """Return the looks that confirm sets: all foils keep the answer, of more of them all but one.

        So many that one of up to 2 * BEAM sets is enough if it alone is.
        """
        assert self.enough is not None
        level = self.enough
        sure = math.ceil(math.log(EARLY * alpha / min(candidates, 2 * BEAM)) / math.log(level))
        draws = sure
        while level**sure + sure * (1 - level) * level ** (draws - 1) > alpha:
            draws += 1
        return Stages(max(self.draws, draws), level, sure=sure)

    def perform(self, asker: Asker, tree: list[_Node], fixed: list[str] | None) -> ContextResult:
        """Ask what has to be asked, and return what follows from it."""
        notes, sets, rendered = list[Note](), list[ContextSet](), list[Rendered]()
        for name, prompt in zip(self.names, self.prompts, strict=True):
            try:
                rendered.append(prompt.render())
            except InputError as error:
                raise InputError(f"{name}: {error}") from error
        self._prepare(tree, notes)
        at = "the prompts themselves"
        observed: list[str] = []
        noise = [(0, 0)] * len(self.prompts)
        base = [math.nan] * len(self.prompts)
        depth = 1 + max(node.resolution for node in tree)
        layers = [[node for node in tree if node.resolution == one] for one in range(depth)]
        try:
            observed = asker.answers(rendered, self._seeds(len(rendered), "observed"))
            noise = self._noise(asker, rendered, observed, notes)
            at = "decisive"
            for layer in layers:
                self._draw(asker, _opened(tree, layer), observed)
                self._decide(_opened(tree, layer), noise)
            at = "unusual"
            if asker.scores:
                self._score(asker, tree, observed, fixed)
            at = "enough"
            if self.enough is not None:
                self._enough(asker, tree, observed, sets, base)
            at = ""
        except BudgetSpent:
            if not observed:
                raise InputError("budget is smaller than the number of prompts; nothing can be said of any") from None
            for layer in layers:
                self._decide(_opened(tree, layer), noise)
            notes.insert(0, Note("budget-spent", "warning", {"calls": asker.calls, "at": at}))
        notes += self._notes(tree, sets, fixed, scored=asker.scores, spent=bool(at))
        return self._result(asker, tree, observed, noise, sets, base, notes, fixed)

    def _notes(
        self, tree: list[_Node], sets: list[ContextSet], fixed: list[str] | None, *, scored: bool, spent: bool
    ) -> Iterator[Note]:
        if self.foils.drop:
            yield Note("foils-dropped", "warning")
        if fixed is not None and not scored:
            yield Note("answer-not-scored", "info")
        if not spent and not self.foils.drop and not any(node.necessary for node in tree):
            roots = [node for node in tree if node.parent < 0]  # nothing is decisive, so nothing below was opened
            draws = max(node.stages.draws for node in roots)
            needed = math.ceil(math.log(self.alpha / len(roots)) / math.log(self.level))
            if self.sampled and draws < self.draws:  # the model's own noise takes more of them
                needed = max(needed, self.draws)
            if draws < needed:
                yield Note("foils-limit", "limit", {"draws": draws, "parts": len(roots), "needed": needed})
        few = min(map(len, self.pools.values()))
        together = bool(sets) or any(node.necessary and len(node.members) > 1 for node in tree)
        if together and few < FEW_TEXTS and not self.foils.drop:
            yield Note("few-texts", "info", {"texts": few})

    def _seeds(self, count: int, *key: str | int) -> list[int] | None:
        if not self.sampled:
            return None
        return [int(one) for one in stream(self.seed, "answers", *key).integers(2**31, size=count)]

    def _noise(
        self, asker: Asker, rendered: list[Rendered], observed: list[str], notes: list[Note]
    ) -> list[tuple[int, int]]:
        """Return how many of how many fresh answers to each prompt differ from the one observed."""
        if not self.sampled:  # greedy: the same prompt must have the same answer; each is asked once more
            again = asker.answers(rendered, [1] * len(rendered))
            vary = sum(not self.judge(one, other) for one, other in zip(observed, again, strict=True))
            if vary:
                notes.append(Note("answers-vary", "warning", {"prompts": vary}))
            return [(0, 0)] * len(rendered)
        seeds = [one for name in self.names for one in self._seeds(self.draws, "again", name) or []]
        fresh = iter(asker.answers([prompt for prompt in rendered for _ in range(self.draws)], seeds))
        noise = [(sum(not self.judge(one, next(fresh)) for _ in range(self.draws)), self.draws) for one in observed]
        changed, name = max(zip([changed for changed, _ in noise], self.names, strict=True))
        if 2 * changed > self.draws:
            values = {"prompt": name, "same": self.draws - changed, "of": self.draws}
            notes.append(Note("answer-rare", "warning", values))
        return noise

    def _draw(self, asker: Asker, nodes: list[_Node], observed: list[str]) -> None:
        while going := [node for node in nodes if not node.ended]:
            requests: list[Rendered] = []
            seeds: list[int] = []
            looks = [next(look for look in node.stages.looks if look > len(node.answers)) for node in going]
            for node, look in zip(going, looks, strict=True):
                number, count = node.stages.looks.index(look), look - len(node.answers)
                requests += [self.prompts[node.prompt].render(one) for one in node.every[len(node.answers) : look]]
                seeds += self._seeds(count, self.names[node.prompt], node.name, number) or [0] * count
            spent = None
            try:
                answers: list[Any] = asker.answers(requests, seeds if self.sampled else None)
            except BudgetSpent as error:  # looks that are complete count
                spent, answers = error, error.known
            following = iter(answers)
            for node, look in zip(going, looks, strict=True):
                new = [next(following) for _ in range(look - len(node.answers))]
                if None not in new:
                    node.answers += new
                    node.changed = sum(not self.judge(observed[node.prompt], one) for one in node.answers)
                    node.ended = node.stages.ends(look, node.changed)
            if spent is not None:
                raise spent

    def _foils(self, i: int, members: Sequence[str], count: int, *key: str | int) -> list[dict[str, str]]:
        """Return foils of several parts together, each drawn anew: as many as are wanted, of these texts."""
        drawn = {}
        for name in members:
            pool, rng = self.pools[i, name], stream(self.seed, self.names[i], *key, name)
            drawn[name] = [pool[k] for k in rng.integers(len(pool), size=count)]
        return [{name: drawn[name][k] for name in members} for k in range(count)]

    def _decide(self, layer: list[_Node], noise: list[tuple[int, int]]) -> None:
        """Call parts of one resolution decisive: BH over all of them, what was not drawn to its end with p = 1.

        Their foils are drawn after those of what they are parts of, so given these the p-values are exact, and BH is
        over the parts that were opened. A deletion that is asked once is known, not drawn.
        """
        for node in layer:
            outcome = (len(node.answers), node.changed)
            if node.ended and self.sampled:
                node.p_necessary = above_noise(node.stages, outcome, *noise[node.prompt], self.level)
            elif node.ended:
                node.p_necessary = float(not node.changed) if self.foils.drop else node.stages.p_value(outcome)
        p = np.array([1.0 if math.isnan(node.p_necessary) else node.p_necessary for node in layer])
        p = np.where(p > self.alpha, 1.0, p)
        for node, sure in zip(layer, bh(p, self.alpha).tolist() if len(p) else [], strict=True):
            node.necessary = bool(sure)

    def _score(self, asker: Asker, tree: list[_Node], observed: list[str], fixed: list[str] | None) -> None:
        """Effects of every part that was drawn, and the paper's p-value of those with all their foils."""
        for node in tree:
            if not node.answers:
                continue
            prompt = self.prompts[node.prompt]
            foils = self._apart(node)
            versions = [prompt.render(), *(prompt.render(one) for one in foils)]
            answer = observed[node.prompt] if fixed is None else fixed[node.prompt]
            scores = asker.log_probabilities(versions, [answer] * len(versions))
            if len(versions) > 2:
                effect, low, high = (float(one[0]) for one in interval(scores[None]))
                node.effect = (effect, low, math.nan if (scores[1:] <= LEAST_SCORE).any() else high)  # at least so much
            if len(node.answers) < node.stages.draws:
                continue  # given up early, which foils have decided: p = 1
            if fixed is None:
                seen = dict(zip([tuple(one.values()) for one in node.every], node.answers, strict=False))
                counts = Counter([observed[node.prompt], *(seen[tuple(one.values())] for one in foils)])  # symmetric
                candidates = sorted(counts, key=lambda one: (-counts[one], one))[:MOST_ANSWERS]
                every = np.stack([asker.log_probabilities(versions, [one] * len(versions)) for one in candidates])
                scores = every[int(np.argmax(logsumexp(np.sort(every), axis=1)))]  # sorted: rounding is symmetric
            near = 1e-6 * max(1.0, float(np.abs(scores).max()))
            node.p = float((1 + (scores[1:] >= scores[0] - near).sum()) / len(scores))  # ties count against us

    def _apart(self, node: _Node) -> list[dict[str, str]]:
        """Return foils that share no text, as the prompt's own parts share none with them.

        Of several parts texts are drawn again, of which the prompt's own are never one: of 4 texts and 19 draws the
        observed one would be above all draws with probability 1/5, not 1/20.
        """
        foils = node.every[: len(node.answers)]
        if self.foils.function is not None or self.foils.drop:
            return foils
        kept, used = [], set[str]()
        for foil in foils:
            texts = set(foil.values())
            if len(texts) == len(foil) and not texts & used:
                kept.append(foil)
                used |= texts
        return kept

    def _enough(
        self, asker: Asker, tree: list[_Node], observed: list[str], sets: list[ContextSet], base: list[float]
    ) -> None:
        """Append sets of parts that surely keep the answer while all others are replaced (METHODS 17).

        Each step asks for sets of all prompts at once; `sets` has what was confirmed when the budget ends. First comes
        the set of no part: what stays whatever stands there needs none. Then the decisive parts, which every set needs;
        these and one more, sought in groups; the best of those and one more. Foils of the search are not used again,
        and the rounds that confirm share alpha (`SPENT`).
        """
        singles = [list(dict.fromkeys(n for node in tree if node.prompt == i for n in node.members))
                   for i in range(len(self.prompts))]  # fmt: skip
        open_prompts = [i for i, parts in enumerate(singles) if len(parts) > 1]
        alone = [node for node in tree if len(node.members) == 1 and node.answers]
        flips = {(node.prompt, node.name): node.changed / len(node.answers) for node in alone}
        spent = iter(SPENT)

        def stay(which: list[_Set], count: int, why: str) -> list[int]:
            """Return of each set how many of `count` fresh foils of all other parts keep the answer."""
            requests: list[Rendered] = []
            seeds: list[int] = []
            for i, kept in which:
                rest = [name for name in singles[i] if name not in kept]
                requests += [self.prompts[i].render(one) for one in self._foils(i, rest, count, why, *kept)]
                seeds += self._seeds(count, self.names[i], why, *kept) or []
            answers = iter(asker.answers(requests, seeds if self.sampled else None))
            return [sum(self.judge(observed[i], next(answers)) for _ in range(count)) for i, _ in which]

        def prior(one: _Set) -> tuple[float, tuple[str, ...]]:
            return -sum(flips.get((one[0], name), 0.0) for name in one[1]), one[1]

        def confirm(candidates: list[_Set]) -> None:
            made = self._confirmed(candidates, self.alpha * next(spent), stay) if candidates else []
            sets.extend(one for one, sure in made if sure)
            for one, _ in made:
                base[one.prompt] = base[one.prompt] if one.columns else one.stay
            open_prompts[:] = [i for i in open_prompts if i not in {one.prompt for one in sets}]

        def search(tried: list[_Set]) -> dict[_Set, int]:
            kept_by = dict(zip(tried, stay(tried, 1, "screen"), strict=True))
            passed = [one for one in tried if kept_by[one]]
            for one, more in zip(passed, stay(passed, SEARCH - 1, "search"), strict=True):
                kept_by[one] += more
            best = sorted((one for one in passed if kept_by[one] == SEARCH), key=prior)
            confirm([one for i in open_prompts for one in [one for one in best if one[0] == i][:BEAM]])
            return kept_by

        whole = {node.prompt: node for node in tree if len(node.members) == len(singles[node.prompt]) > 1}
        for i, node in whole.items():  # with zoom, all parts have been replaced already
            base[i] = 1 - node.changed / len(node.answers)
        new: list[_Set] = [(i, ()) for i in open_prompts if i not in whole]
        for (i, _), kept_draws in zip(new, stay(new, SEARCH, "base"), strict=True):
            base[i] = kept_draws / SEARCH
        confirm([(i, ()) for i in open_prompts if base[i] >= LIKELY])

        core = {i: tuple(sorted(n.name for n in alone if n.prompt == i and n.necessary)) for i in open_prompts}
        search([(i, core[i]) for i in open_prompts if 0 < len(core[i]) < len(singles[i])])
        grown: dict[int, list[tuple[str, ...]]] = {}
        best: dict[int, set[str]] = {}
        for step in range(STEPS):
            if step == 0:
                rest = {i: [one for one in singles[i] if one not in core[i]] for i in open_prompts}
                grown = {i: [tuple(sorted((*core[i], one))) for one in rest[i]] for i in open_prompts}
                tried = self._narrowed(core, rest, stay)
            else:
                tried = [(i, kept) for i in open_prompts for kept in grown[i]]
            kept_by = search([one for one in tried if len(one[1]) < len(singles[one[0]])])
            for i in open_prompts:
                ranked = sorted(grown[i], key=lambda kept: (-kept_by.get((i, kept), 0), *prior((i, kept))))
                if step == 0:
                    best[i] = {name for kept in ranked[:BEST] for name in kept}
                grown[i] = sorted(
                    {tuple(sorted({*kept, one})) for kept in ranked[:BEAM] for one in best[i] if one not in kept}
                )

    def _narrowed(
        self, core: dict[int, tuple[str, ...]], rest: dict[int, list[str]], stay: Callable[..., list[int]]
    ) -> list[_Set]:
        """Return sets of a core and one part of the rest, without thirds of the rest that do not keep the answer."""
        made: list[_Set] = []
        going = [(i, one) for i, parts in rest.items() for one in _thirds(parts, FEW_PARTS)]
        while going:
            made += [(i, tuple(sorted((*core[i], *parts)))) for i, parts in going if len(parts) == 1]
            groups = [(i, parts) for i, parts in going if len(parts) > 1]
            kept = stay([(i, tuple(sorted((*core[i], *parts)))) for i, parts in groups], 1, "narrow")
            passed = [group for group, yes in zip(groups, kept, strict=True) if yes]
            going = [(i, one) for i, parts in passed for one in _thirds(parts, FEW_PARTS)]
        return made

    def _confirmed(
        self, candidates: list[_Set], alpha: float, stay: Callable[..., list[int]]
    ) -> list[tuple[ContextSet, bool]]:
        """Return what is known of the candidates, and which surely keep the answer: exact p-values, BH over them."""
        stages = self._confirming(alpha, len(candidates))
        yes, drawn, going, before = dict.fromkeys(candidates, 0), dict.fromkeys(candidates, 0), candidates, 0
        for look in stages.looks:
            for one, more in zip(going, stay(going, look - before, f"confirm {look}"), strict=True):
                yes[one], drawn[one] = yes[one] + more, look
            going, before = [one for one in going if not stages.ends(look, yes[one])], look
        made = []
        for i, kept in candidates:
            outcome = (drawn[i, kept], yes[i, kept])
            share = outcome[1] / outcome[0]
            ends = (share, share) if self.foils.drop and not self.sampled else stages.interval(outcome)
            made.append(ContextSet(i, kept, share, *ends, stages.p_value(outcome)))
        p = np.array([one.p for one in made])
        return list(zip(made, bh(np.where(p > alpha, 1.0, p), alpha).tolist(), strict=True))

    def _result(
        self,
        asker: Asker,
        tree: list[_Node],
        observed: list[str],
        noise: list[tuple[int, int]],
        sets: list[ContextSet],
        base: list[float],
        notes: list[Note],
        fixed: list[str] | None,
    ) -> ContextResult:
        p = np.array([node.p for node in tree])
        q, chosen = np.full(len(tree), np.nan), np.zeros(len(tree), bool)
        if asker.scores:
            resolutions = np.array([node.resolution for node in tree])
            for resolution in np.unique(resolutions):
                members = resolutions == resolution
                q[members] = np.maximum(false_discovery_control(p[members]), p[members])
            chosen = (q <= self.alpha) & (not self.foils.drop)
        made = []
        for node, is_chosen, of_node in zip(tree, chosen.tolist(), q.tolist(), strict=True):
            n, changed = len(node.answers), noise[node.prompt]
            share, low, high = math.nan, 0.0, 1.0
            if n:
                share = node.changed / n - (changed[0] / changed[1] if self.sampled else 0.0)
            if node.ended:
                outcome = (n, node.changed)
                ends = (share, share)  # of a deletion
                if self.sampled:
                    ends = excess_interval(node.stages, outcome, *changed)
                elif not self.foils.drop:
                    ends = node.stages.interval(outcome)
                low, high = max(-1.0, ends[0]), min(1.0, ends[1])
                status = "tested" if n == node.stages.draws else "given up"
            else:
                status = "open" if n else "not reached"
            made.append(
                Part(
                    prompt=node.prompt,
                    name=node.name,
                    members=node.members,
                    resolution=node.resolution,
                    draws=n,
                    flip=share,
                    flip_low=low,
                    flip_high=high,
                    necessary=node.necessary,
                    p_necessary=math.nan if self.foils.drop and not self.sampled else node.p_necessary,
                    p=node.p if asker.scores and n else math.nan,
                    q=of_node,
                    chosen=is_chosen,
                    effect=node.effect,
                    foils=tuple("\n\n".join(one.values()) for one in node.every[:n]),
                    answers=tuple(node.answers),
                    changed=tuple(not self.judge(observed[node.prompt], one) for one in node.answers),
                    status=status,
                )
            )
        return ContextResult(
            names=self.names,
            prompts=tuple(dict(prompt.parts) for prompt in self.prompts),
            questions=tuple(prompt.last_question for prompt in self.prompts),
            answers=tuple(observed),
            noise=tuple(changed / n if n else math.nan for changed, n in noise),
            parts=tuple(made),
            sets=tuple(sets),
            base=tuple(base),
            enough_level=self.enough,
            level=self.level,
            alpha=self.alpha,
            draws=self.draws,
            seed=self.seed,
            foils=repr(self.foils),
            scored=asker.scores,
            given=None if fixed is None else tuple(fixed),
            calls=asker.calls,
            tokens=asker.tokens,
            notes=tuple(notes),
            model=asker.identity,
            promised=not self.foils.drop and not any(note.code == "answers-vary" for note in notes),
        )


def _opened(tree: list[_Node], layer: list[_Node]) -> list[_Node]:
    return [node for node in layer if node.parent < 0 or tree[node.parent].necessary]


def _thirds(parts: list[str], few: int = 1) -> list[list[str]]:
    """Split a list in three, `few` into single parts."""
    if len(parts) <= few:
        return [[part] for part in parts]
    ends = [round(len(parts) * k / BRANCHES) for k in range(BRANCHES + 1)]
    return [parts[start:end] for start, end in pairwise(ends) if end > start]
