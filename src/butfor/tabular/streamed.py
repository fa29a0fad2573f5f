"""Evidence in a file -> what is chosen of it, over the whole file; a result that is a file and a few numbers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.core.select.guarantees import Guarantee
from butfor.core.select.streaming import bh_threshold, knockoff_plus_threshold
from butfor.core.select.streaming_weights import adaptive_streamed
from butfor.core.types import Bools, Floats
from butfor.run.settings import Settings
from butfor.tabular.block_files import BlockWriter, written_blocks

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class StreamedResult:
    """What `explain_stream` found: the file with every hypothesis, and what is to be said of it."""

    path: Path
    hypotheses: int
    tested: int
    chosen: int
    by_subset: dict[str, int]  # chosen rows of each subset
    threshold: float | None  # of p at most, of z at least; None: weighted
    rows: int = 0
    model_rows: int = 0
    guarantee: Guarantee | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<butfor stream: {self.chosen} of {self.hypotheses} hypotheses chosen, in {self.path}>"

    def summary(self) -> str:
        """The result in a few lines."""
        most = sorted(self.by_subset.items(), key=lambda pair: -pair[1])[:10]
        lines = [
            f"{self.chosen:,} of {self.hypotheses:,} hypotheses on {self.rows:,} rows chosen "
            f"({self.model_rows:,} rows asked of the model).",
            *(f"  {name}: in {count:,} rows" for name, count in most if count),
            str(self.guarantee),
            *self.notes,
        ]
        return "\n".join(lines)

    def to_json(self) -> str:
        """The same for programs."""
        told = {name: value for name, value in vars(self).items() if name not in ("path", "guarantee", "threshold")}
        finite = self.threshold is not None and np.isfinite(self.threshold)
        threshold = self.threshold if finite else None
        return json.dumps(
            {"table": str(self.path), **told, "threshold": threshold, "guarantee": str(self.guarantee)}, indent=1
        )


def choose_streamed(part: Path, out: Path, settings: Settings, floor: float, subsets: int) -> StreamedResult:
    """Choose over all evidence in `part`, and write it again with `chosen` beside it; `floor` is that of one input."""
    kind = "z" if settings.test.name == "osft" else "p"

    def evidence() -> Iterator[Floats]:
        for frame in written_blocks(part, [kind, "tested"]):
            yield frame[kind].to_numpy()[frame["tested"].to_numpy()]

    def matrices() -> Iterator[Floats]:
        left = np.zeros(0)
        for frame in written_blocks(part, [kind, "tested"]):
            values = np.append(left, np.where(frame["tested"], frame[kind], np.nan))
            count = len(values) // subsets * subsets
            left = values[count:]
            yield values[:count].reshape(-1, subsets)

    tested = sum(map(len, evidence()))
    if settings.rule == "adaptive":
        rule = adaptive_streamed(matrices, settings.alpha, settings.seed)
        chosen = (rule.chosen(start, p).reshape(-1) for start, p in _placed(matrices()))
        return _written(part, out, kind, tested, chosen, None)
    if kind == "p":
        limit = bh_threshold(evidence, settings.alpha)
        return _written(part, out, kind, tested, None, limit)
    limit = knockoff_plus_threshold(evidence, settings.alpha, floor * tested / subsets)
    return _written(part, out, kind, tested, None, limit)


def _placed(blocks: Iterator[Floats]) -> Iterator[tuple[int, Floats]]:
    start = 0
    for block in blocks:
        yield start, block
        start += len(block)


def _written(
    part: Path, out: Path, kind: str, tested: int, given: Iterator[Bools] | None, limit: float | None
) -> StreamedResult:
    """The table with what is chosen; it appears when it is whole."""
    final = part.with_name(f".{out.stem}.whole{part.suffix}")
    counts: dict[str, int] = {}
    size, waiting = 0, np.zeros(0, bool)
    try:
        with BlockWriter(final) as writer:
            for frame in written_blocks(part):
                if given is None:
                    values = frame[kind].to_numpy()
                    chosen = (values <= limit if kind == "p" else values >= limit) & frame["tested"].to_numpy()
                else:
                    while len(waiting) < len(frame):
                        waiting = np.append(waiting, next(given))
                    chosen, waiting = waiting[: len(frame)], waiting[len(frame) :]
                _count(counts, frame, chosen)
                writer.write(frame.assign(chosen=chosen))
                size += len(frame)
        os.replace(final, out)
    finally:
        final.unlink(missing_ok=True)
    return StreamedResult(out, size, tested, sum(counts.values()), counts, limit)


def _count(counts: dict[str, int], frame: pd.DataFrame, chosen: Any) -> None:
    for name, count in frame.loc[chosen, "subset"].value_counts().items():
        counts[str(name)] = counts.get(str(name), 0) + int(count)
