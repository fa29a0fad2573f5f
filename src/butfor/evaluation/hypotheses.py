"""Inputs x subsets x sampler -> blocks of counterfactuals, each reproducible from the seed alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from butfor.evaluation.calls import answered
from butfor.evaluation.items import Items, ListItems, StandIns, TableItems, same
from butfor.evaluation.samplers import ListsSupport, Sampler, info_of
from butfor.inference.exact import Support
from butfor.inference.selection import Layers
from butfor.streams import stream
from butfor.types import Array, Batch, Floats, InputError, Ints, Item, Model, ModelError, Subset

BLOCK_VALUES = 2**18  # values of the inputs of one block; fixes the blocks, so it may never follow batch_rows
ROUND_VALUES = 2**23  # values of the counterfactuals of one round, likewise
LIST_DRAWS = 128  # images or texts of one round, likewise
SUPPORT = "support"  # the round of jobs whose counterfactuals are listed


@dataclass(frozen=True)
class Block:
    """Consecutive inputs that share a subset, and the rows of the table that are their hypotheses."""

    subset: Subset
    start: int
    stop: int
    key: str | int
    rows: Ints  # (stop - start,)

    @cached_property
    def columns(self) -> slice | Array:
        """The columns of a table's subset, as a slice where they are adjacent: NumPy writes them twice as fast."""
        index = np.asarray(self.subset.index)
        adjacent = len(index) == 1 or (np.diff(index) == 1).all()
        return slice(int(index[0]), int(index[-1]) + 1) if adjacent else index


@dataclass(frozen=True)
class Hypotheses:
    """The hypotheses of a run: inputs, what to redraw in them, by which sampler, from which seed."""

    items: Items
    input_names: tuple[Any, ...]
    subset_names: tuple[str, ...]
    blocks: tuple[Block, ...]
    input_of: Ints  # (hypotheses,)
    subset_of: Ints  # (hypotheses,)
    sampler: Sampler
    seed: int
    round_draws: int
    watch: Watch | None = None  # compares draws, where they must differ
    layers: Layers | None = None  # where hypotheses are parts of others

    @property
    def size(self) -> int:
        return len(self.input_of)

    @property
    def subsets(self) -> list[Subset]:
        """The different subsets, by identity: texts share names."""
        return list({id(block.subset): block.subset for block in self.blocks}.values())

    @property
    def resolution(self) -> Ints:
        """The resolution of each hypothesis (H,); 0 where none is a part of another."""
        return np.zeros(self.size, np.int64) if self.layers is None else self.layers.resolution

    @property
    def parent(self) -> Ints:
        """The hypothesis that each (H,) is a part of; -1: of none."""
        return np.full(self.size, -1) if self.layers is None else self.layers.parent

    @property
    def stepwise(self) -> bool:
        """Whether parts are drawn only where what they are parts of is chosen."""
        return self.layers is not None and self.layers.stepwise

    @cached_property
    def block_order(self) -> tuple[Ints, Ints]:
        """The hypotheses block by block, and where each block begins among them and the last one ends."""
        sizes = [len(block.rows) for block in self.blocks]
        order = np.concatenate([block.rows for block in self.blocks]) if sizes else np.zeros(0, np.int64)
        return order, np.cumsum([0, *sizes])

    def name_of(self, block: Block) -> str:
        """Return the name of a block in an error."""
        return f"subset {block.subset.name!r}" + ("" if self.items.shares_subsets else f" of input {block.key!r}")

    def block_of(self, row: int) -> Block:
        if not self.items.shares_subsets:
            return self.blocks[row]  # one block for each: searching 100,000 of them would take longer than drawing
        return self.blocks[int(self._block_numbers[row])]

    @cached_property
    def _block_numbers(self) -> Ints:
        order, starts = self.block_order
        numbers = np.full(self.size, len(self.blocks))  # of none: an error
        numbers[order] = np.repeat(np.arange(len(self.blocks)), np.diff(starts))
        return numbers


def table_hypotheses(
    items: TableItems, names: Sequence[Any], subsets: Sequence[Subset], sampler: Sampler, seed: int
) -> Hypotheses:
    """Return hypotheses in which every subset is tested on every row, input by input."""
    count, width = items.values.shape
    items.values.setflags(write=False)  # nobody may write into what is observed
    size = int(np.clip(BLOCK_VALUES // width, 1, 256))
    blocks = tuple(
        Block(subset, a, min(a + size, count), a // size, np.arange(a, min(a + size, count)) * len(subsets) + j)
        for a in range(0, count, size)
        for j, subset in enumerate(subsets)
    )
    return Hypotheses(
        items=items,
        input_names=tuple(names),
        subset_names=tuple(subset.name for subset in subsets),
        blocks=blocks,
        input_of=np.repeat(np.arange(count), len(subsets)),
        subset_of=np.tile(np.arange(len(subsets)), count),
        sampler=sampler,
        seed=seed,
        round_draws=int(np.clip(ROUND_VALUES // (size * width), 16, 4096)),
    )


def list_hypotheses(
    items: ListItems, names: Sequence[Any], subsets: Sequence[Sequence[Subset]], sampler: Sampler, seed: int
) -> Hypotheses:
    """Return hypotheses of images or texts, each with its subsets; a block is one input with one of them."""
    pairs = [(i, subset) for i, of_input in enumerate(subsets) for subset in of_input]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(subset.name for _, subset in pairs))}
    return Hypotheses(
        items=items,
        input_names=tuple(names),
        subset_names=tuple(numbers),
        blocks=tuple(Block(subset, i, i + 1, names[i], np.array([row])) for row, (i, subset) in enumerate(pairs)),
        input_of=np.array([i for i, _ in pairs], dtype=np.int64),
        subset_of=np.array([numbers[subset.name] for _, subset in pairs], dtype=np.int64),
        sampler=sampler,
        seed=seed,
        round_draws=LIST_DRAWS,
    )


class Watch:
    """Compares draws until two of one hypothesis differ, which is mostly at once.

    Only hypotheses whose draws are equal *and* unlike the observed value speak against a sampler: one of words may be
    sure of the observed word. It takes 20 of them, of images 3: no two fills are equal by chance.
    """

    def __init__(self, costly: bool = False) -> None:
        self.differ, self.alike, self._enough = False, 0, 3 if costly else 20

    def compare(self, observed: Sequence[Any], drawn: Sequence[Sequence[Any]]) -> None:
        """Compare the draws of each input with each other and with its observed value."""
        for value, (first, *others) in zip(observed, drawn, strict=True):
            if self.differ or not others:
                return
            self.differ = not all(same(first, other) for other in others)
            self.alike += not same(value, first)

    @property
    def is_degenerate(self) -> bool:
        """Whether all draws were equal, and there were enough of them."""
        return not self.differ and self.alike >= self._enough


def no_chance(hypotheses: Hypotheses) -> InputError:
    """Return the error of a sampler that always draws the same; the paper's test cannot go from coarse to fine."""
    without = "" if hypotheses.layers is None else ", without zoom,"
    return InputError(
        f"this test needs draws that differ, but {hypotheses.sampler!r} always draws the same; draw by chance (wrap an "
        f"inpainter in butfor.image.diversify), or use test='osft'{without} as in the paper, without a guarantee"
    )


def always_alike(hypotheses: Hypotheses) -> bool:
    """Return whether draws beyond the first are the same: for a test that draws once and cannot tell by itself."""
    watch = Watch(hypotheses.items.costly)
    for block in hypotheses.blocks[:: max(1, len(hypotheses.blocks) // 200)]:
        values = draw(hypotheses, Job(block, 2, 0)).values
        watch.compare(values[::3], [values[k + 1 : k + 3] for k in range(0, len(values), 3)])
        if watch.differ or watch.is_degenerate:
            break
    return watch.is_degenerate


@dataclass(frozen=True)
class Job:
    """Draw counterfactuals for the inputs of a block; what is evaluated is the same whatever else is left out."""

    block: Block
    draws: int
    round: str | int
    ask: Ints | None = None  # inputs (positions inside the block) to draw for
    keep: Ints | None = None  # those to evaluate, of all that are drawn for
    part: tuple[int, int] | None = None  # the draws to evaluate: first, last

    @property
    def members(self) -> Ints:
        """Positions inside the block of the inputs that are evaluated."""
        if self.ask is None:
            return np.arange(self.block.stop - self.block.start) if self.keep is None else self.keep
        return self.ask if self.keep is None else self.ask[self.keep]

    @property
    def count(self) -> int:
        """The number of inputs that are evaluated."""
        members = self.ask if self.keep is None else self.keep
        return self.block.stop - self.block.start if members is None else len(members)

    @property
    def versions(self) -> int:
        """Evaluations of an input: the observed one and the draws that are evaluated."""
        first, last = self.part or (0, self.draws)
        return last - first + 1

    @cached_property
    def inputs(self) -> Ints:
        """Positions of the inputs that are evaluated among all inputs."""
        return self.block.start + self.members

    @cached_property
    def rows(self) -> Ints:
        """The rows of the table that are their hypotheses."""
        return self.block.rows if self.ask is None and self.keep is None else self.block.rows[self.members]


def partial_job(block: Block, draws: int, round: str | int, ask: Ints, rows: Ints) -> Job:
    """Return a job for inputs of a block whose hypotheses are known: they are not looked up again."""
    job = Job(block, draws, round, ask=ask)
    vars(job).update(rows=rows, inputs=block.start + ask)
    return job


def round_sizes(draws: int, most: int) -> list[int]:
    """Split `draws` into rounds: small ones first, so that a test that stops early draws little in vain.

    >>> round_sizes(1000, most=4096), round_sizes(1000, most=300)
    ([128, 512, 360], [128, 300, 300, 272])
    """
    sizes, size = list[int](), 128
    while (left := draws - sum(sizes)) > 0:
        sizes.append(min(size, most, left))
        size *= 4
    return sizes


def rounds(blocks: Sequence[Block], draws: int, most: int) -> list[Job]:
    """Return jobs that give every input of every block `draws` counterfactuals, at most `most` a round."""
    return [Job(block, size, number) for block in blocks for number, size in enumerate(round_sizes(draws, most))]


def sliced(blocks: Iterable[Block], draws: int, most_draws: int, most_inputs: int) -> Iterator[Job]:
    """Yield jobs in which all rounds of the same inputs follow each other, at most so many inputs at once."""
    for block in blocks:
        jobs, members = rounds([block], draws, most_draws), np.arange(block.stop - block.start)
        if len(members) <= most_inputs:
            yield from jobs
        else:
            for a in range(0, len(members), most_inputs):
                yield from (replace(job, keep=members[a : a + most_inputs]) for job in jobs)


@dataclass(frozen=True, eq=False)
class CounterfactualBatch:
    """Versions of n inputs, input-major: version 0 is the observed input, 1..K are its counterfactuals.

    Of rows of a table only what differs is here, `values` (n * versions, columns); of other inputs everything.
    """

    job: Job
    inputs: Batch
    values: Any
    positions: Ints | None = None  # which evaluations of the job these are, one of each of `inputs`; None: all
    support: Support | None = None  # probabilities of the counterfactuals, where they were listed

    @property
    def versions(self) -> int:
        return self.job.versions if self.positions is None else 1

    @property
    def mass(self) -> Floats | None:  # (n, versions - 1)
        return None if self.support is None else self.support.mass

    @property
    def n_evaluations(self) -> int:
        return len(self.inputs) * self.versions


def draw(hypotheses: Hypotheses, job: Job) -> CounterfactualBatch:
    """Draw the counterfactuals of one job; again gives the same bits."""
    block, items, watch = job.block, hypotheses.items, hypotheses.watch
    inputs = items.block(block.start, block.stop)
    if job.ask is not None:
        inputs = items.take(inputs, job.ask)
    rng = stream(hypotheses.seed, block.subset.key, block.key, job.round)
    try:
        drawn = items.draw(hypotheses.sampler, inputs, block.subset, job.draws, rng)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise ModelError(
            f"the sampler raised {type(error).__name__} on {hypotheses.name_of(block)}: {error}"
        ) from error
    first, last = job.part or (0, job.draws)
    if watch is not None and not watch.differ:
        watch.compare(items.part(inputs, block.subset), items.select_draws(drawn, None, first, last))
        if watch.is_degenerate and items.costly:  # others are refused when the run is over
            raise no_chance(hypotheses)
    if job.keep is not None:
        inputs = items.take(inputs, job.keep)
    values = items.splice(inputs, block.subset, items.select_draws(drawn, job.keep, first, last))
    return CounterfactualBatch(job, inputs, values)


def redraw(hypotheses: Hypotheses, row: int, count: int, sizes: Sequence[int], skip: int = 0) -> Batch:
    """Return counterfactuals `skip` to `skip + count` of those that rounds of these sizes gave one hypothesis."""
    drawn = sum(sizes) - skip
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or not 1 <= count <= drawn:
        raise InputError(f"n must be between 1 and {drawn} (draws that can be made again), got {count!r}")
    block = hypotheses.block_of(row)
    position = np.flatnonzero(block.rows == row)
    values: list[Any] = []
    for number, size in enumerate(sizes):
        if len(values) < skip + count:
            values.extend(draw(hypotheses, Job(block, size, number, keep=position)).values[1:])
    inputs = hypotheses.items.take(hypotheses.items.block(block.start, block.stop), position)
    return hypotheses.items.whole(values[skip : skip + count], inputs, block.subset)


FULL = 1e-9  # a list that leaves no more than this unlisted claims all mass


def listed_block(hypotheses: Hypotheses, block: Block) -> CounterfactualBatch:
    """Return the counterfactuals that the sampler lists for the inputs of a block, with their support."""
    items, sampler, name = hypotheses.items, hypotheses.sampler, f"support of {hypotheses.name_of(block)}"
    assert isinstance(sampler, ListsSupport)
    inputs = items.block(block.start, block.stop)
    try:
        drawn, mass = items.support(sampler, inputs, block.subset, name)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise ModelError(f"the {name} raised {type(error).__name__}: {error}") from error
    numbers = mass.dtype.kind in "fiub" and np.isfinite(mass).all() and (mass >= 0).all()
    if not numbers or (mass.sum(axis=1) > 1 + FULL).any() or (mass.sum(axis=1) <= 0).any():
        raise InputError(f"the {name} has probabilities that are no distribution; they must sum to at most 1")
    mass = np.asarray(mass, np.float64)
    values = items.splice(inputs, block.subset, drawn)
    # Mass beside the list that counts against us: what is not listed or, in a full list, the least mass if the
    # observed value is not among the listed ones; without it p could be 0.
    beside = np.asarray(np.maximum(1 - mass.sum(axis=1), 0))
    full = beside <= FULL
    if full.any():
        keys = np.array(items.keys(values), dtype=object).reshape(len(mass), -1)
        lists_observed = ((keys[:, 1:] == keys[:, :1]) & (mass > 0)).any(axis=1)
        least = np.where(mass > 0, mass, np.inf).min(axis=1)
        beside = np.asarray(np.where(full & ~lists_observed, least, beside))
    support = Support(mass, beside, items.likely(inputs, drawn, mass))
    return CounterfactualBatch(Job(block, mass.shape[1], SUPPORT), inputs, values, support=support)


Overlap = Literal["refuse", "alone"]


class Proposer(Protocol):
    """Gives the subsets of one input. Called with the input's name, so that what is random can be keyed by it."""

    def __call__(self, name: object, item: Item, /) -> Sequence[Subset]: ...


@dataclass(frozen=True)
class SubsetTree:
    """Subsets of one input from coarse to fine: the resolution of each, and the index of the one it is a part of."""

    subsets: tuple[Subset, ...]
    resolution: tuple[int, ...]
    parent: tuple[int, ...]  # -1: none


@runtime_checkable
class ProposesTree(Protocol):
    """Proposes subsets that are parts of each other: `tree` of an input has those that it gives when it is called."""

    def tree(self, name: object, item: Item, /) -> SubsetTree: ...


def layers_of_trees(trees: Sequence[SubsetTree]) -> Layers:
    """Return the layers of images or texts, each with its tree, in the order of their hypotheses."""
    starts = np.cumsum([0, *(len(tree.parent) for tree in trees)])
    pairs = [(parent, start) for tree, start in zip(trees, starts, strict=False) for parent in tree.parent]
    above = np.array([parent + start if parent >= 0 else -1 for parent, start in pairs], np.int64)
    return Layers(np.array([k for tree in trees for k in tree.resolution], np.int64), above, stepwise=True)


def is_blind(proposer: object) -> bool:
    """Return whether subsets are laid blindly: what is tested was then not picked by what it holds (METHODS 0)."""
    return bool(getattr(proposer, "blind", False))


def check_overlap_option(overlap: str) -> None:
    """Refuse another word for what to do about subsets that overlap."""
    if overlap not in ("refuse", "alone"):
        raise InputError(f"overlap must be 'refuse' or 'alone' (test them anyway, each alone), got {overlap!r}")


def unique(subsets: Iterable[Subset], sign: str = " ") -> list[Subset]:
    """Return the subsets with different names: a second "dog" becomes "dog 2", or "dog #2" with that sign.

    >>> [subset.name for subset in unique([Subset("dog", 0), Subset("cat", 1), Subset("dog", 2)])]
    ['dog', 'cat', 'dog 2']
    """
    subsets = list(subsets)
    given = {subset.name for subset in subsets}
    taken: set[str] = set()
    number: dict[str, int] = {}
    out = []
    for subset in subsets:
        name = subset.name
        while name in taken or (name != subset.name and name in given):
            number[subset.name] = number.get(subset.name, 1) + 1
            name = f"{subset.name}{sign}{number[subset.name]}"
        taken.add(name)
        key = name if subset.key == subset.name else subset.key
        out.append(subset if name == subset.name else Subset(name, subset.index, key))
    return out


def proposals(what: str, propose: Callable[[Any, Any], Any], name: object, item: Item) -> list[Subset]:
    """Return what a proposer gives for one input; a user's function may give anything. `what` names the argument."""
    try:
        subsets = list(propose(name, item))
    except InputError:
        raise
    except Exception as error:
        raise ModelError(f"{what} raised {type(error).__name__} on {name!r}: {error}") from error
    for subset in subsets:
        if not isinstance(subset, Subset):
            raise InputError(
                f"{what} gave {subset!r} for {name!r}; a function (name, input) must give a list of "
                "butfor.Subset(name, index), of a box (x1, y1, x2, y2) or a span (start, end)"
            )
    return subsets


MOST_PARTS = 24  # of an input, from which those that are enough are chosen


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of images or texts that may be enough for a decision, and how all but some of them are redrawn."""

    of: Sequence[Sequence[Subset]]  # of each input
    rest: Callable[[Any, Sequence[Subset]], Any]  # input, parts kept -> the index of what is redrawn; None: nothing
    sampler: Sampler  # of such an index
    fills_whole: bool  # whether inputs can be redrawn as a whole

    def __post_init__(self) -> None:
        info = info_of(self.sampler)
        if info.deterministic or info.keeps_input:
            why = "always draws the same" if info.deterministic else "returns the input itself where no draw passes"
            raise InputError(f"what is enough is told by draws that differ, but {self.sampler!r} {why}; drop enough=")


def finest_parts(hypotheses: Hypotheses) -> list[list[Subset]]:
    """Return the subsets of each input at the finest resolution at which they are few; at the finest if at none."""
    parts = [list[Subset]() for _ in hypotheses.input_names]
    resolution, parent = hypotheses.resolution, hypotheses.parent
    for finest in np.unique(resolution)[::-1]:
        some = resolution <= finest
        leaf = some & ~np.isin(np.arange(hypotheses.size), parent[some])
        for i in {int(i) for i in hypotheses.input_of[leaf]}:
            if not parts[i] or len(parts[i]) > MOST_PARTS:
                rows = np.flatnonzero(leaf & (hypotheses.input_of == i))
                parts[i] = [hypotheses.block_of(row).subset for row in rows.tolist()]
    return parts


def with_stand_ins(
    hypotheses: Hypotheses, model: Model, batch_rows: int, describe: Callable[[int], str]
) -> tuple[Hypotheses, dict[int, str]]:
    """Put a good input in the place of each that the model fails on; return also their hypotheses, and why."""
    items, (_, why) = hypotheses.items, answered(hypotheses.items, model, batch_rows, describe)
    if not why:
        return hypotheses, {}
    failed = {row: why[i] for row, i in enumerate(hypotheses.input_of.tolist()) if i in why}
    bad = np.array(sorted(why))
    good = int(np.setdiff1d(np.arange(len(items)), bad)[0])
    if isinstance(items, TableItems):
        values = items.values.copy()
        values[bad] = values[good]
        values.setflags(write=False)
        return replace(hypotheses, items=replace(items, values=values)), failed
    blocks = tuple(block for block in hypotheses.blocks if block.start not in why)
    inputs = StandIns(items.inputs, frozenset(why), good)
    return replace(hypotheses, items=replace(items, inputs=inputs), blocks=blocks), failed
