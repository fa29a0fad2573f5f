"""Foils: what stands in the place of a part, drawn as the part itself might have been (METHODS 21).

Passages: next ranks of the same retriever, or passages of other queries. Examples: their labelled pool. Turns: the same
role in other logs. Deletion is no draw of any distribution of prompts: `"drop"` is offered without a promise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from butfor.context.prompt import FIXED, Prompt, check_takes, kind_of
from butfor.types import InputError

LEAST_FOILS = 2


@dataclass(frozen=True, eq=False)
class Foils:
    """Foils of a part: a pool, a pool of its own, or a function of the user's."""

    pools: Mapping[str, tuple[str, ...]]  # by name of a part or by kind; "" serves all that have none of their own
    function: Callable[..., Sequence[str]] | None = None
    drop: bool = False
    inside: bool = False  # whether other parts of the prompt are foils

    def __repr__(self) -> str:
        if self.drop:
            return "foils by deletion"
        if self.function is not None:
            return f"foils by {getattr(self.function, '__name__', type(self.function).__name__)}"
        pools = [f"{name or 'all parts'} ({len(pool)})" for name, pool in self.pools.items()]
        return f"foils of {', '.join(pools)}"

    def serves(self, name: str) -> bool:
        """Return True if there are foils of a part."""
        if self.drop or self.function is not None or name in self.pools or kind_of(name) in self.pools:
            return True
        return "" in self.pools and kind_of(name) not in FIXED

    def key(self, name: str) -> str:
        """Return the pool that serves a part."""
        return next((one for one in (name, kind_of(name)) if one in self.pools), "")

    def texts(self, prompt: Prompt, names: Sequence[str], where: str) -> dict[str, tuple[str, ...]]:
        """Return what may stand in the place of each part, before a function is asked; too few are refused."""
        there = set() if self.inside else set(prompt.parts.values())
        known, made = dict[str, tuple[str, ...]](), dict[str, tuple[str, ...]]()
        for name in names:
            key = self.key(name)
            if key not in known:  # a passage of the prompt is no foil of another
                known[key] = tuple(one for one in self.pools.get(key, ()) if one not in there)
            made[name] = ("",) if self.drop else known[key]
            if not self.drop and self.function is None and len(known[key]) < LEAST_FOILS:
                raise InputError(
                    f"part {name!r} of {where} has {len(known[key])} foils that are not in the prompt; give at least "
                    f"{LEAST_FOILS}, such as the next ranks of the retriever"
                )
        return made

    def called(self, prompt: Prompt, name: str, where: str, count: int, rng: np.random.Generator) -> tuple[str, ...]:
        """Return `count` foils of the function's, which is asked once for a part: one that takes no chance from `rng`
        would give the same ones each time."""
        assert self.function is not None
        try:
            given = self.function(prompt, name, count, rng)
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"foils raised {type(error).__name__} for {name!r} of {where}: {error}") from error
        what = f"the foils of {name!r} of {where}"
        made = _list(given, what)
        if len(made) != count:
            raise InputError(f"{what} must be {count} texts, got {len(made)}; enough=None needs no more than draws=")
        if count > 1 and len(set(made)) < LEAST_FOILS:
            raise InputError(f"{what} are {count} times {made[0]!r:.60}; give at least {LEAST_FOILS} different texts")
        return made


def as_foils(given: Any) -> Foils:
    """Return foils from a pool, pools by kind or name, a function, or "drop"."""
    if isinstance(given, Foils):
        return given
    if isinstance(given, str):
        if given != "drop":
            raise InputError(f"foils is {given!r}; give a list of texts, a mapping of them, a function, or 'drop'")
        return Foils({}, drop=True)
    if callable(given):
        return Foils({}, check_takes(given, 4, "foils: a function (prompt, part, draws, rng) -> texts"))
    if isinstance(given, Mapping):
        return Foils({str(name): _texts(pool, f"the foils of {name!r}") for name, pool in given.items()})
    if isinstance(given, Iterable):
        return Foils({"": _texts(given, "foils")})
    raise InputError(f"foils must be texts, a mapping, a function or 'drop', got {type(given).__name__}")


def _list(given: Any, what: str) -> tuple[str, ...]:
    made = [] if isinstance(given, str | bytes) or not isinstance(given, Iterable) else list(given)
    if not made or not all(isinstance(one, str) for one in made):
        raise InputError(f"{what} must be a list of texts, got {type(given).__name__}: {given!r:.60}")
    return tuple(map(str, sorted(made) if isinstance(given, Set) else made))  # a set has no order of its own


def _texts(given: Any, what: str) -> tuple[str, ...]:
    texts = tuple(dict.fromkeys(_list(given, what)))
    if len(texts) < LEAST_FOILS:
        raise InputError(f"{what} has {len(texts)} different texts; give at least {LEAST_FOILS}")
    return texts


def next_ranks(retrieved: Sequence[str] | Mapping[str, Sequence[str]], *, kind: str = "passage") -> Foils:
    """Take the passages that a retriever ranked next, or those of other queries, as foils.

    Passages that are in the prompt are never its foils, so the whole ranking may be given.

    Parameters
    ----------
    retrieved : sequence of str, or mapping of sequences
        The ranking of one query, or the rankings of several queries by name, whose passages then serve all prompts.
    kind : str
        Which parts they replace: "passage 1", "passage 2" and so on by default.

    Returns
    -------
    Foils

    Examples
    --------
    >>> next_ranks(["first", "second", "third", "fourth"])
    foils of passage (4)
    """
    if isinstance(retrieved, Mapping):
        pooled = [text for ranking in retrieved.values() for text in _texts(ranking, "a ranking")]
        return Foils({kind: _texts(pooled, "retrieved")})
    return Foils({kind: _texts(retrieved, "retrieved")})
