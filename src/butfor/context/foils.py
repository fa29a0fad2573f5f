"""Foils: what stands in the place of a part, drawn as the part itself might have been (METHODS 21).

Passages: next ranks of the same retriever, or passages of other queries. Examples: their labelled pool. Turns: the same
role in other logs. Deletion is no draw of any distribution of prompts: `"drop"` is offered without a promise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from butfor.context.prompt import FIXED, Prompt, kind_of
from butfor.types import InputError

LEAST_FOILS = 2


@dataclass(frozen=True, eq=False)
class Foils:
    """Draws foils of a part: of a pool, of a pool of its own, or by a function of the user's."""

    pools: Mapping[str, tuple[str, ...]]  # by name of a part or by kind; "" serves all that have none of their own
    function: Callable[..., Sequence[str]] | None = None
    drop: bool = False

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

    def size(self, prompt: Prompt, name: str) -> int | None:
        """Return the number of different foils of a part; None where that is not known."""
        return None if self.function is not None else 1 if self.drop else len(self._pool(prompt, name))

    def _pool(self, prompt: Prompt, name: str) -> tuple[str, ...]:
        pool = self.pools.get(name) or self.pools.get(kind_of(name)) or self.pools.get("", ())
        there = set(prompt.parts.values())
        return tuple(one for one in pool if one not in there)  # a passage of the prompt is no foil of another

    def draw(self, prompt: Prompt, name: str, draws: int, rng: np.random.Generator) -> list[str]:
        """Return foils of one part, each drawn independently."""
        if self.drop:
            return [""] * draws
        if self.function is None:
            pool = self._pool(prompt, name)
            return [pool[k] for k in rng.integers(len(pool), size=draws)]
        given = self.function(prompt, name, draws, rng)
        made = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
        if len(made) != draws or not all(isinstance(one, str) for one in made):
            raise InputError(f"the foils of {name!r} must be {draws} texts, got {len(made)}: {str(made)[:60]}")
        return made

    def check(self, prompt: Prompt, name: str, where: str) -> None:
        """Refuse a part that has too few foils."""
        size = self.size(prompt, name)
        if size is not None and not self.drop and size < LEAST_FOILS:
            raise InputError(
                f"part {name!r} of {where} has {size} foils that are not in the prompt; give at least {LEAST_FOILS}, "
                "such as the next ranks of the retriever"
            )


def as_foils(given: Any) -> Foils:
    """Return foils from a pool, pools by kind or name, a function, or "drop"."""
    if isinstance(given, Foils):
        return given
    if isinstance(given, str):
        if given != "drop":
            raise InputError(f"foils is {given!r}; give a list of texts, a mapping of them, a function, or 'drop'")
        return Foils({}, drop=True)
    if callable(given):
        return Foils({}, given)
    if isinstance(given, Mapping):
        return Foils({str(name): _texts(pool, f"the foils of {name!r}") for name, pool in given.items()})
    if isinstance(given, Sequence):
        return Foils({"": _texts(given, "foils")})
    raise InputError(f"foils must be texts, a mapping, a function or 'drop', got {type(given).__name__}")


def _texts(given: Any, what: str) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(one, str) for one in given):
        raise InputError(f"{what} must be a list of texts, got {type(given).__name__}")
    texts = tuple(dict.fromkeys(given))
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
