"""Units in parts, for those that end their worker: halves of one, and their results put together again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from butfor.core.evaluate.workplace import UnitResult, Workplace, WorkUnit


def halves(unit: WorkUnit) -> tuple[WorkUnit, ...]:
    """Two units of half the jobs, without a summary; a single job cannot be parted, since its inputs share a stream."""
    if len(unit.jobs) < 2:
        return (unit,)
    middle, plain = len(unit.jobs) // 2, replace(unit, summary=None)
    return replace(plain, jobs=unit.jobs[:middle]), replace(plain, jobs=unit.jobs[middle:])


def joined(unit: WorkUnit, parts: list[UnitResult]) -> UnitResult:
    """The result of a unit from those of its halves."""
    outputs = tuple(one for part in parts for one in part.outputs)
    assert len(unit.jobs) == len(outputs)
    return UnitResult(
        outputs=outputs if unit.summary is None else (),
        found=tuple(one for part in parts for one in part.found),
        supports=tuple(one for part in parts for one in part.supports),
        rows=(sum(p.rows[0] for p in parts), sum(p.rows[1] for p in parts), sum(p.rows[2] for p in parts)),
        news={key: one for part in parts for key, one in part.news.items()},
        chance=(any(part.chance[0] for part in parts), sum(part.chance[1] for part in parts)),
        failed={row: why for part in parts for row, why in part.failed.items()},
        summary=None if unit.summary is None else unit.summary(unit.jobs, outputs),
    )


def failed_unit(place: Workplace, unit: WorkUnit, why: str) -> UnitResult:
    """Of a unit that nobody can do: outputs that are all equal, and its hypotheses named as failed."""
    outputs = tuple(np.zeros((len(job.members), job.versions, place.outputs)) for job in unit.jobs)
    return UnitResult(
        outputs=outputs if unit.summary is None else (),
        found=tuple((None,) * len(unit.looks) for _ in unit.jobs),
        supports=(None,) * len(unit.jobs),
        rows=(0, 0, 0),
        failed={row: why for job in unit.jobs for row in job.rows.tolist()},
        summary=None if unit.summary is None else unit.summary(unit.jobs, outputs),
    )
