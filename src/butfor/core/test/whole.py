"""The coarsest hypothesis, all of an input: whole rows of the reference donate, nothing is drawn (METHODS 14)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from butfor.core.draw.blocks import Block, CounterfactualBatch, Job, Problem
from butfor.core.draw.listing import Support
from butfor.core.test.evidence import Found
from butfor.core.test.exact import found_in_list
from butfor.core.test.statistic import StatisticSpec
from butfor.core.types import Array, Floats

CHUNK_VALUES = 2**22  # values of the rows that are put beside inputs at a time


def ranked_whole(
    problem: Problem,
    spec: StatisticSpec,
    block: Block,
    outputs: Floats,
    reference: Array,
    reference_outputs: Floats,
    seen: Callable[[CounterfactualBatch, Floats], None],
) -> Iterator[Found]:
    """p-values of the inputs of a block whose subset is everything: the rank of an output among the reference's.

    `outputs` (n, outputs) are those of all inputs, `reference` (m, columns) whole rows in the order of the data's
    columns, `reference_outputs` (m, outputs) theirs. The input is one row more, with the same mass.
    """
    rows, columns = len(reference), block.subset.index
    size = max(1, CHUNK_VALUES // ((rows + 2) * reference.shape[1]))
    for start in range(0, block.stop - block.start, size):
        keep = np.arange(start, min(start + size, block.stop - block.start))
        inputs = problem.items.take(problem.items.block(block.start, block.stop), keep)
        values = np.empty((len(keep), rows + 2, len(columns)), inputs.dtype)
        values[:, 0] = values[:, -1] = inputs[:, columns]
        values[:, 1:-1] = reference[:, columns]
        mass = np.full((len(keep), rows + 1), 1 / (rows + 1))
        job = Job(block, rows + 1, "whole", keep=keep)
        batch = CounterfactualBatch(job, inputs, values.reshape(-1, len(columns)), rows + 2, mass=mass)
        own = outputs[block.start + keep][:, None]
        said = np.concatenate([own, np.broadcast_to(reference_outputs, (len(keep), *reference_outputs.shape)), own], 1)
        seen(batch, said)
        yield found_in_list(spec, job, said, Support(mass, np.zeros(len(keep)), np.full(len(keep), 1 / (rows + 1))))
