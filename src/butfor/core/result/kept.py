"""Counterfactuals that a run drew, and what the model said of them: reports show these and ask nobody again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from butfor.core.draw.blocks import CounterfactualBatch, Problem
from butfor.core.draw.content import size
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


class Keeper:
    """Is shown every batch of a run; keeps the first `count` draws of each hypothesis, those set aside left out.

    `room` counts values: when it is used up nothing more is kept, and what is asked for later is drawn again.
    """

    def __init__(self, problem: Problem, count: int, set_aside: int, room: int) -> None:
        self._problem, self._count, self._skip, self._room = problem, count, set_aside, room
        self._chunks: list[Chunk] = []

    def __call__(self, batch: CounterfactualBatch, outputs: Floats) -> None:
        """Versions of some inputs, and their outputs (n, versions, outputs)."""
        if self._room <= 0 or (batch.job.round != 0 and batch.mass is None):
            return
        wanted = self._wanted(batch)
        if wanted.size:
            pieces = self._problem.items.pack(batch.values, wanted, batch.versions, batch.job.block.subset)
            said = outputs[np.arange(len(wanted))[:, None], wanted]
            self._chunks.append(Chunk(batch.job.rows, pieces, said, batch.mass is not None))
            self._room -= size(pieces) + said.size

    def _wanted(self, batch: CounterfactualBatch) -> Ints:
        """Versions to keep of each input (n, k): the first draws, or the likeliest of those that are listed."""
        if batch.mass is not None:
            return 1 + np.sort(np.argsort(-batch.mass, axis=1, kind="stable")[:, : self._count], axis=1)
        first = self._skip - (batch.job.part[0] if batch.job.part else 0)
        versions = np.arange(1 + max(first, 0), min(batch.versions, 1 + first + self._count))
        return np.broadcast_to(versions, (len(batch.inputs), len(versions)))

    def kept(self) -> Kept:
        """What was kept."""
        return Kept(tuple(self._chunks))
