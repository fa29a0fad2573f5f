"""Inputs x subsets x sampler -> blocks of counterfactuals, each reproducible from the seed alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from butfor.core.streams import stream
from butfor.core.types import Batch, Floats, InputError, Ints, ModelError, Sampler, Subset

BLOCK_VALUES = 2**18  # values of the inputs of one block; fixes the blocks, so it may never follow batch_rows
ROUND_VALUES = 2**23  # values of the counterfactuals of one round, likewise


@dataclass(frozen=True)
class Block:
    """Consecutive inputs that share a subset, and where their hypotheses stand in the table."""

    subset: Subset
    start: int
    stop: int
    key: str | int
    rows: Ints  # (stop - start,)


@dataclass(frozen=True)
class Problem:
    """Everything that is asked: the inputs, what to redraw in them, by which sampler, from which seed."""

    inputs: Batch
    input_names: tuple[Any, ...]
    subset_names: tuple[str, ...]
    blocks: tuple[Block, ...]
    input_of: Ints  # (hypotheses,)
    subset_of: Ints  # (hypotheses,)
    sampler: Sampler
    seed: int
    round_draws: int

    @property
    def size(self) -> int:
        return len(self.input_of)


def table_problem(
    inputs: np.ndarray[Any, Any], names: Sequence[Any], subsets: Sequence[Subset], sampler: Sampler, seed: int
) -> Problem:
    """Every subset is tested on every row; hypotheses are listed input by input."""
    count, width = inputs.shape
    size = int(np.clip(BLOCK_VALUES // width, 1, 256))
    starts = range(0, count, size)
    blocks = tuple(
        Block(subset, a, min(a + size, count), a // size, np.arange(a, min(a + size, count)) * len(subsets) + j)
        for a in starts
        for j, subset in enumerate(subsets)  # blocks of the same inputs stand together: see outputs.Canvas
    )
    return Problem(
        inputs=inputs,
        input_names=tuple(names),
        subset_names=tuple(subset.name for subset in subsets),
        blocks=blocks,
        input_of=np.repeat(np.arange(count), len(subsets)),
        subset_of=np.tile(np.arange(len(subsets)), count),
        sampler=sampler,
        seed=seed,
        round_draws=int(np.clip(ROUND_VALUES // (size * width), 16, 4096)),
    )


@dataclass(frozen=True)
class Job:
    """Draw `draws` counterfactuals for the inputs of a block, of which only those in `keep` are evaluated."""

    block: Block
    draws: int
    round: str | int
    keep: Ints | None = None  # positions inside the block


@dataclass(frozen=True, eq=False)
class Drawn:
    """Versions of n inputs, input-major: version 0 is the observed input, 1..K are its counterfactuals.

    Arrays keep only what differs, `values` (n * versions, columns); other inputs are whole, a list of n * versions.
    """

    job: Job
    inputs: Batch
    values: Any
    versions: int
    base: tuple[int, ...] | None = None  # equal bases: equal rows but for the subset's columns

    @property
    def rows(self) -> int:
        return len(self.inputs) * self.versions


def draw(problem: Problem, job: Job) -> Drawn:
    """The counterfactuals of one job; calling it again gives the same bits."""
    block, inputs = job.block, problem.inputs[job.block.start : job.block.stop]
    rng = stream(problem.seed, block.subset.name, block.key, job.round)
    if isinstance(inputs, np.ndarray):
        fresh = _columns(problem.sampler, inputs, block.subset, job.draws, rng)
        values = np.concatenate([inputs[:, None, block.subset.index], fresh], axis=1)
        base: tuple[int, ...] | None = (block.start, block.stop, job.draws)
        if job.keep is not None:
            inputs, values, base = inputs[job.keep], values[job.keep], None
        flat = values.reshape(-1, values.shape[2])
        return Drawn(job, inputs, flat, job.draws + 1, base)
    whole = problem.sampler(inputs, block.subset, job.draws, rng)
    _check_count(len(whole), len(inputs), job.draws, block.subset)
    kept = range(len(inputs)) if job.keep is None else job.keep
    items = [x for i in kept for x in (inputs[i], *whole[i * job.draws : (i + 1) * job.draws])]
    return Drawn(job, [inputs[i] for i in kept], items, job.draws + 1)


def _columns(sampler: Any, inputs: np.ndarray[Any, Any], subset: Subset, draws: int, rng: Any) -> Floats:
    """New values of the subset's columns, (n, draws, columns)."""
    values = np.asarray(sampler.values(inputs, subset, draws, rng))
    _check_count(len(values), len(inputs), draws, subset)
    if not np.isfinite(values).all():
        raise ModelError(f"the sampler drew NaN or infinity for subset {subset.name!r}; check what it was fitted on")
    return values.reshape(len(inputs), draws, len(subset.index)).astype(inputs.dtype, copy=False)


def _check_count(got: int, inputs: int, draws: int, subset: Subset) -> None:
    if got != inputs * draws:
        raise ModelError(
            f"the sampler returned {got} counterfactuals for subset {subset.name!r}, expected {inputs * draws} "
            f"({inputs} inputs x {draws} draws, input-major)"
        )


def rounds(blocks: Sequence[Block], draws: int, most: int) -> list[Job]:
    """The jobs that give every input of every block `draws` counterfactuals, at most `most` a round, block by block."""
    full, rest = divmod(draws, most)
    sizes = [most] * full + ([rest] if rest else [])
    return [Job(block, size, number) for block in blocks for number, size in enumerate(sizes)]


def redraw(problem: Problem, row: int, count: int, drawn: int) -> Batch:
    """The first `count` of the `drawn` counterfactuals that a run gave one hypothesis: whole inputs, to look at."""
    if not 1 <= count <= drawn:
        raise InputError(f"n must be between 1 and {drawn} (what the run drew for each hypothesis), got {count}")
    block = next(block for block in problem.blocks if row in block.rows)
    position = np.flatnonzero(block.rows == row)
    jobs = rounds([block], drawn, problem.round_draws)[: -(-count // problem.round_draws)]
    parts = [draw(problem, replace(job, keep=position)).values[1:] for job in jobs]
    if isinstance(problem.inputs, np.ndarray):
        out = np.repeat(problem.inputs[block.start + position], count, axis=0)
        out[:, block.subset.index] = np.concatenate(parts)[:count]
        return out
    return [item for part in parts for item in part][:count]
