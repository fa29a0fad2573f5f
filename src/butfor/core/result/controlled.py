"""The negative control of a run: what the same test says of rows of the reference's own kind."""

from __future__ import annotations

from dataclasses import dataclass

from butfor.core.test.forecasts import Verified
from butfor.core.types import Bools, Floats


@dataclass(frozen=True, eq=False)
class Control:
    """Rows of the reference that went through the same test, each by a sampler that has not seen it."""

    p: Floats  # (rows, subsets) or other evidence
    chosen: Bools  # (rows, subsets)
    calibrated: Bools | None = None  # (subsets,) False: p-values are too often small; None: the test has no p-values
    off: Floats | None = None  # (subsets,) the statistic of a row minus the mean of its draws', on average over rows
    verified: Verified | None = None  # chances of decisions, where some are asked about; not in files

    @property
    def rows(self) -> int:
        """How many rows."""
        return len(self.chosen)

    def __repr__(self) -> str:
        wrong = 0 if self.calibrated is None else int((~self.calibrated).sum())
        more = f", {_subsets(wrong)} not calibrated" if wrong else ""
        return f"<butfor control: {int(self.chosen.sum())} chosen on {self.rows} rows of the reference{more}>"

    def __str__(self) -> str:
        said = f"The same test on {self.rows} held-out rows of the reference chose {int(self.chosen.sum())}."
        if self.calibrated is None or self.calibrated.all():
            return said
        wrong = int((~self.calibrated).sum())
        return f"{said} {_subsets(wrong)} of {len(self.calibrated)} not calibrated, and never chosen."


def _subsets(count: int) -> str:
    return "1 subset" if count == 1 else f"{count} subsets"
