"""Inputs x subsets x sampler -> blocks of counterfactuals, each reproducible from the seed alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from butfor.core.chance import Watch
from butfor.core.streams import stream
from butfor.core.types import Batch, Floats, InputError, Ints, ModelError, Sampler, Subset

BLOCK_VALUES = 2**18  # values of the inputs of one block; fixes the blocks, so it may never follow batch_rows
ROUND_VALUES = 2**23  # values of the counterfactuals of one round, likewise
LIST_DRAWS = 128  # images or texts of one round, likewise
Check = Callable[[Any, Any, Subset], None]  # input, counterfactual, subset: raises what is wrong with it
MOST_LOOKED = 200  # hypotheses whose draws are compared to see whether there is chance in them
NO_CHANCE = (
    "this test needs draws that differ, but {sampler!r} always draws the same; draw by chance (wrap an inpainter in "
    "butfor.image.diversify), or use test='osft' as in the paper, without a guarantee"
)


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
    watch: Watch | None = None  # looks at what is drawn, where that must differ
    check: Check | None = None  # of each draw, where a user's own sampler makes them

    @property
    def size(self) -> int:
        return len(self.input_of)


def table_problem(
    inputs: np.ndarray[Any, Any], names: Sequence[Any], subsets: Sequence[Subset], sampler: Sampler, seed: int
) -> Problem:
    """Every subset is tested on every row; hypotheses are listed input by input."""
    count, width = inputs.shape
    inputs = inputs.view()
    inputs.setflags(write=False)  # nobody may write into what is observed
    size = int(np.clip(BLOCK_VALUES // width, 1, 256))
    starts = range(0, count, size)
    blocks = tuple(
        Block(subset, a, min(a + size, count), a // size, np.arange(a, min(a + size, count)) * len(subsets) + j)
        for a in starts
        for j, subset in enumerate(subsets)  # blocks of the same inputs stand together: see calls._evaluate_alike
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


def list_problem(
    inputs: Sequence[Any],
    names: Sequence[str],
    subsets: Sequence[Sequence[Subset]],
    sampler: Sampler,
    seed: int,
    check: Check | None = None,
) -> Problem:
    """Every input, an image or a text, with subsets of its own; a block is one input with one of them.

    `inputs` may be any sequence that opens an input when it is asked for: none is held here.
    """
    pairs = [(i, subset) for i, own in enumerate(subsets) for subset in own]
    known = {name: place for place, name in enumerate(dict.fromkeys(subset.name for _, subset in pairs))}
    blocks = tuple(Block(subset, i, i + 1, names[i], np.array([row])) for row, (i, subset) in enumerate(pairs))
    return Problem(
        inputs=inputs,
        input_names=tuple(names),
        subset_names=tuple(known),
        blocks=blocks,
        input_of=np.array([i for i, _ in pairs], dtype=np.int64),
        subset_of=np.array([known[subset.name] for _, subset in pairs], dtype=np.int64),
        sampler=sampler,
        seed=seed,
        round_draws=LIST_DRAWS,
        check=check,
    )


@dataclass(frozen=True)
class Job:
    """Draw `draws` counterfactuals for the inputs of a block.

    `ask` names the inputs (positions inside the block) to draw for; `keep` those to evaluate of all that were drawn
    for, and `part` the draws to evaluate: what is kept is then the same whatever else is left out.
    """

    block: Block
    draws: int
    round: str | int
    ask: Ints | None = None
    keep: Ints | None = None
    part: tuple[int, int] | None = None

    @property
    def members(self) -> Ints:
        """Positions inside the block of the inputs that are evaluated."""
        asked = np.arange(self.block.stop - self.block.start) if self.ask is None else self.ask
        return asked if self.keep is None else asked[self.keep]

    @property
    def versions(self) -> int:
        """Rows per input: the observed one and the draws that are evaluated."""
        first, last = self.part or (0, self.draws)
        return last - first + 1

    @property
    def rows(self) -> Ints:
        """Where their hypotheses stand in the table."""
        return self.block.rows[self.members]


@dataclass(frozen=True, eq=False)
class Drawn:
    """Versions of n inputs, input-major: version 0 is the observed input, 1..K are its counterfactuals.

    Arrays keep only what differs, `values` (n * versions, columns); other inputs are whole, a list of n * versions.
    """

    job: Job
    inputs: Batch
    values: Any
    versions: int
    places: Ints | None = None  # which rows of the job these are, where not all
    base: tuple[int, ...] | None = None  # equal bases: equal rows but for the subset's columns

    @property
    def rows(self) -> int:
        return len(self.inputs) * self.versions

    @cached_property
    def columns(self) -> Any:
        """The subset's columns, as a slice where they stand together: NumPy then writes them twice as fast."""
        index = np.asarray(self.job.block.subset.index)
        together = (np.diff(index) == 1).all()
        return slice(int(index[0]), int(index[-1]) + 1) if together else index


def draw(problem: Problem, job: Job) -> Drawn:
    """The counterfactuals of one job; calling it again gives the same bits."""
    block, inputs = job.block, problem.inputs[job.block.start : job.block.stop]
    rng = stream(problem.seed, block.subset.name, block.key, job.round)
    first, last = job.part or (0, job.draws)
    if isinstance(inputs, np.ndarray):
        inputs = inputs if job.ask is None else inputs[job.ask]
        fresh = _columns(problem.sampler, inputs, block.subset, job.draws, rng)[:, first:last]
        _look(problem, inputs[:, block.subset.index], fresh)
        if job.keep is not None:
            inputs, fresh = inputs[job.keep], fresh[job.keep]
        values = np.concatenate([inputs[:, None, block.subset.index], fresh], axis=1)
        whole_block = job.ask is None and job.keep is None
        base = (block.start, block.stop, last - first) if whole_block else None
        return Drawn(job, inputs, values.reshape(-1, values.shape[2]), last - first + 1, base=base)
    asked = inputs if job.ask is None else [inputs[i] for i in job.ask]
    whole = _whole(problem.sampler, asked, block, job.draws, rng)
    _check_count(len(whole), len(asked), job.draws, block.subset)
    sets = [whole[i * job.draws : (i + 1) * job.draws] for i in range(len(asked))]
    _look(problem, asked, sets)
    if problem.check is not None:
        for observed, own in zip(asked, sets, strict=True):
            for made in own:
                problem.check(observed, made, block.subset)
    kept = range(len(asked)) if job.keep is None else job.keep
    items = [x for i in kept for x in (asked[i], *whole[i * job.draws + first : i * job.draws + last])]
    return Drawn(job, [asked[i] for i in kept], items, last - first + 1)


def _whole(sampler: Any, inputs: Batch, block: Block, draws: int, rng: np.random.Generator) -> Batch:
    """Whole counterfactuals of images or texts."""
    try:
        return sampler(inputs, block.subset, draws, rng)
    except InputError:
        raise
    except Exception as error:
        where = f"subset {block.subset.name!r} of input {block.key!r}"
        raise ModelError(f"the sampler raised {type(error).__name__} on {where}: {error}") from error


def _columns(sampler: Any, inputs: np.ndarray[Any, Any], subset: Subset, draws: int, rng: Any) -> Floats:
    """New values of the subset's columns, (n, draws, columns)."""
    try:
        values = np.asarray(sampler.values(inputs, subset, draws, rng))
    except InputError:
        raise
    except Exception as error:
        raise ModelError(f"the sampler raised {type(error).__name__} on subset {subset.name!r}: {error}") from error
    _check_count(len(values) if values.ndim else 0, len(inputs), draws, subset)
    if values.size != len(values) * len(subset.index) or values.dtype.kind not in "fiub":
        raise ModelError(
            f"the sampler returned {values.dtype} values of shape {values.shape} for subset {subset.name!r}; expected "
            f"numbers, {len(subset.index)} a row"
        )
    if not np.isfinite(values.sum()) and _not_allowed(values, getattr(sampler, "takes_missing", False)):
        raise ModelError(f"the sampler drew NaN or infinity for subset {subset.name!r}; check what it was fitted on")
    return values.reshape(len(inputs), draws, len(subset.index)).astype(inputs.dtype, copy=False)


def _not_allowed(values: Floats, missing: bool) -> bool:
    """Whether there is infinity among them, or NaN where that does not stand for a missing value."""
    return bool(np.isinf(values).any() if missing else not np.isfinite(values).all())


def _check_count(got: int, inputs: int, draws: int, subset: Subset) -> None:
    if got != inputs * draws:
        raise ModelError(
            f"the sampler returned {got} counterfactuals for subset {subset.name!r}, expected {inputs * draws} "
            f"({inputs} inputs x {draws} draws, input-major)"
        )


def _look(problem: Problem, observed: Any, drawn: Any) -> None:
    """Refuse a sampler of images that always draws the same once that is plain, others when the run is over.

    One column of a table may well be constant where others are not.
    """
    if problem.watch is None or problem.watch.differ:
        return
    problem.watch.look(observed, drawn)
    if problem.watch.point and getattr(observed[0], "ndim", 0) > 1:
        raise InputError(NO_CHANCE.format(sampler=problem.sampler))


def always_alike(problem: Problem) -> bool:
    """Whether draws beyond the first are the same: for a test that draws once and cannot tell by itself."""
    watch = Watch()
    for block in problem.blocks[:: max(1, len(problem.blocks) // MOST_LOOKED)]:
        drawn = draw(problem, Job(block, 2, 0))
        sets = [drawn.values[k : k + 3] for k in range(0, drawn.rows, 3)]
        watch.look([versions[0] for versions in sets], [versions[1:] for versions in sets])
        if watch.differ or watch.point:
            break
    return watch.point


def round_sizes(draws: int, most: int) -> list[int]:
    """How `draws` are split into rounds: small ones first, so that a test that stops early draws little in vain.

    >>> round_sizes(1000, most=4096), round_sizes(1000, most=300)
    ([128, 512, 360], [128, 300, 300, 272])
    """
    sizes: list[int] = []
    size = 128
    while (left := draws - sum(sizes)) > 0:
        sizes.append(min(size, most, left))
        size *= 4
    return sizes


def rounds(blocks: Sequence[Block], draws: int, most: int) -> list[Job]:
    """The jobs that give every input of every block `draws` counterfactuals, at most `most` a round, block by block."""
    return [Job(block, size, number) for block in blocks for number, size in enumerate(round_sizes(draws, most))]


def redraw(problem: Problem, row: int, count: int, sizes: Sequence[int], skip: int = 0) -> Batch:
    """Counterfactuals `skip` to `skip + count` of those that rounds of these sizes gave one hypothesis, whole."""
    drawn = sum(sizes) - skip
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or not 1 <= count <= drawn:
        raise InputError(f"n must be between 1 and {drawn} (what the run drew for each hypothesis), got {count!r}")
    block = next(block for block in problem.blocks if row in block.rows)
    position = np.flatnonzero(block.rows == row)
    parts: list[Any] = []
    for number, size in enumerate(sizes):
        if sum(map(len, parts)) < skip + count:
            parts.append(draw(problem, Job(block, size, number, keep=position)).values[1:])
    if isinstance(problem.inputs, np.ndarray):
        out = np.repeat(problem.inputs[block.start + position], count, axis=0)
        out[:, block.subset.index] = np.concatenate(parts)[skip : skip + count]
        return out
    return [item for part in parts for item in part][skip : skip + count]
