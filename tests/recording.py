"""What a run draws, written down: for tests that compare it with a plain loop."""

from collections import defaultdict

import numpy as np

from butfor.streams import stream
from butfor.tabular import from_values


class Recorder:
    """A sampler whose draws are kept by (input, subset), in order; column 0 of the data names the input.

    Draws by which a run only looks at its sampler ("quick check") are none of the test's and are not kept.
    """

    def __init__(self, draw, seed=0, on_first=None):
        self.draw, self.seed, self.on_first = draw, seed, on_first
        self.record = defaultdict(list)
        self.sampler = from_values(self.values)

    def values(self, inputs, subset, draws, rng):
        check = self._is_check(rng, subset.name)
        if not check and not self.record and self.on_first is not None:
            self.on_first()
        fresh = self.draw(rng, (len(inputs), draws))
        for row, new in zip(inputs, fresh, strict=True):
            if not check:
                self.record[int(row[0]), subset.name].extend(new.tolist())
        return fresh.reshape(-1, 1)

    def _is_check(self, rng, name):
        state = str(rng.bit_generator.state)
        streams = (stream(self.seed, name, key, "quick check") for key in range(8))
        return any(state == str(other.bit_generator.state) for other in streams)


def numbered(rows):
    """The rows with their number as column 0."""
    return np.column_stack([np.arange(len(rows)), rows])
