"""Counterfactuals that a run drew, and what the model said of them: reports show these and ask nobody again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from butfor.core.draw.blocks import CounterfactualBatch, Problem
from butfor.core.draw.content import size
from butfor.core.evaluate.batches import Seen
from butfor.core.types import Batch, Floats, Ints


@dataclass(frozen=True, eq=False)
class Chunk:
    """The first counterfactuals of some hypotheses, made small by `Items.pack`."""

    rows: Ints  # (n,)
    pieces: Any  # (n, k, columns), or n lists of k
    outputs: Floats  # (n, k, outputs)
    listed: bool = False  # the likeliest of a list, of which none was drawn


@dataclass(frozen=True, eq=False)
class Kept:
    """What was kept of a run, by hypothesis."""

    chunks: tuple[Chunk, ...] = ()

    @cached_property
    def _places(self) -> dict[int, tuple[int, int]]:
        return {row: (c, i) for c, chunk in enumerate(self.chunks) for i, row in enumerate(chunk.rows.tolist())}

    def __contains__(self, row: int) -> bool:
        return row in self._places

    def listed(self, row: int) -> bool:
        """Whether what was kept of a hypothesis was listed, not drawn."""
        return row in self and self.chunks[self._places[row][0]].listed

    def pieces(self, row: int) -> Any:
        """What was kept of one hypothesis, as it was made small."""
        chunk, place = self._places[row]
        return self.chunks[chunk].pieces[place]

    def outputs(self, row: int) -> Floats:
        """What the model said of the counterfactuals of one hypothesis, (k, outputs)."""
        chunk, place = self._places[row]
        return np.asarray(self.chunks[chunk].outputs[place])

    def whole(self, problem: Problem, row: int, count: int | None = None) -> Batch:
        """The first counterfactuals of one hypothesis, whole; none if they were not kept."""
        if row not in self:
            return []
        subset = problem.block_of(row).subset
        inputs = problem.items.block(int(problem.input_of[row]), int(problem.input_of[row]) + 1)
        return problem.items.whole(problem.items.unpack(self.pieces(row)[:count], inputs[0], subset), inputs, subset)


@dataclass(frozen=True)
class KeepFirst:
    """Looks at the counterfactuals of a job, and takes the first `count`, those set aside left out."""

    count: int
    skip: int

    def __call__(self, problem: Problem, batch: CounterfactualBatch, outputs: Floats) -> tuple[Any, Floats] | None:
        """Them and their outputs (n, k, outputs), where this is the first round."""
        if batch.job.round != 0 and batch.mass is None:
            return None
        wanted = self._wanted(batch)
        if not wanted.size:
            return None
        pieces = problem.items.pack(batch.values, wanted, batch.versions, batch.job.block.subset)
        return pieces, outputs[np.arange(len(wanted))[:, None], wanted]

    def _wanted(self, batch: CounterfactualBatch) -> Ints:
        """Versions to keep of each input (n, k): the first draws, or the likeliest of those that are listed."""
        if batch.mass is not None:
            return 1 + np.sort(np.argsort(-batch.mass, axis=1, kind="stable")[:, : self.count], axis=1)
        first = self.skip - (batch.job.part[0] if batch.job.part else 0)
        versions = np.arange(1 + max(first, 0), min(batch.versions, 1 + first + self.count))
        return np.broadcast_to(versions, (len(batch.inputs), len(versions)))


class Keeper:
    """Hears of every job of a run; keeps the first counterfactuals of each hypothesis.

    `room` counts values: when it is used up nothing more is kept, and what is asked for later is drawn again.
    """

    def __init__(self, count: int, set_aside: int, room: int) -> None:
        self._first, self._room = KeepFirst(count, set_aside), room
        self._chunks: list[Chunk] = []

    @property
    def look(self) -> KeepFirst | None:
        """What to take of the counterfactuals; nothing when there is no room."""
        return self._first if self._room > 0 else None

    def note(self, seen: Seen, found: tuple[Any, Floats] | None) -> None:
        """Keep what was taken of a job."""
        if found is None or self._room <= 0:
            return
        pieces, said = found
        self._chunks.append(Chunk(seen.job.rows, pieces, said, seen.mass is not None))
        self._room -= size(pieces) + said.size

    def kept(self) -> Kept:
        """What was kept."""
        return Kept(tuple(self._chunks))
