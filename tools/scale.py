"""Figures on scale, each in a process of its own: seconds of processor time and the most memory it held.

python tools/scale.py stream --rows 1000000     osft on so many rows of 10 columns from a Parquet file
python tools/scale.py thresholds --count 100000000     BH over so many p-values, by passes over blocks and in memory
python tools/scale.py columns     40 rows x 10,000 columns of CSV, read and explained
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from pathlib import Path
from time import process_time

import numpy as np

import butfor
from butfor.inference.streaming import bh_threshold
from butfor.tabular.stream import explain_stream

BLOCK = 1_000_000


def most_memory() -> float:
    """MB that this process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def stream(rows: int, folder: Path) -> None:
    import pandas as pd
    import pyarrow
    from pyarrow import parquet

    rng, path, names = np.random.default_rng(0), folder / "rows.parquet", [f"x{j}" for j in range(10)]
    writer = None
    for start in range(0, rows, 100_000):
        values = rng.normal(size=(min(100_000, rows - start), 10))
        values[:, 0] += 6 * (rng.random(len(values)) < 0.3)
        table = pyarrow.Table.from_pandas(pd.DataFrame(values, columns=names), preserve_index=False)
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()
    reference = butfor.tabular.gaussian(pd.DataFrame(rng.normal(size=(2000, 10)), columns=names))
    asked = {"test": "osft", "alternative": "greater"}
    before, start_at = most_memory(), process_time()
    found = explain_stream(lambda x: x.x0 + x.x1 * x.x2, path, reference, out=folder / "found.parquet", **asked)
    seconds = process_time() - start_at
    size = found.path.stat().st_size / 1e6
    print(f"{found.hypotheses:,} hypotheses, {found.chosen:,} chosen: {seconds:.0f} s, {size:.0f} MB written")
    print(f"most memory {most_memory():.0f} MB ({before:.0f} MB before)")


def thresholds(count: int) -> None:
    def blocks():  # type: ignore[no-untyped-def]
        for number in range(0, count, BLOCK):
            rng = np.random.default_rng(number)
            p = rng.random(min(BLOCK, count - number))
            p[: len(p) // 20] **= 6
            yield np.ceil(p * 100_001) / 100_001 if number % 2 else p  # half of them tied, as drawn ones are

    start = process_time()
    threshold = bh_threshold(blocks, 0.1)
    chosen = sum(int((p <= threshold).sum()) for p in blocks())
    print(f"{count:,} p-values in blocks: {chosen:,} chosen in {process_time() - start:.0f} s, {most_memory():.0f} MB")
    start = process_time()
    p = np.concatenate(list(blocks()))
    known = butfor.selection.bh(p, 0.1)
    same = bool((known == (p <= threshold)).all())
    print(f"in memory: {int(known.sum()):,} chosen in {process_time() - start:.0f} s, {most_memory():.0f} MB; {same=}")


def columns(folder: Path) -> None:
    import pandas as pd

    rng, names = np.random.default_rng(0), [f"x{j}" for j in range(10_000)]
    frame = pd.DataFrame(rng.normal(size=(40, 10_000)), columns=names)
    frame.insert(0, "group", np.where(np.arange(40) < 30, "control", "ill"))
    frame.loc[30:, "x7"] += 8
    frame.to_csv(folder / "wide.csv", index=False)
    (folder / "model.py").write_text("def risk(rows):\n    return rows['x7'] + rows['x9']\n")
    from butfor.tabular.files import TableRequest, read_tables

    start = process_time()
    read = read_tables(TableRequest(folder / "wide.csv", reference_where="group == 'control'"))
    print(f"40 x 10,000 of CSV read in {process_time() - start:.1f} s")
    start = process_time()
    found = butfor.explain(lambda rows: rows["x7"] + rows["x9"], read.data, read.reference)
    print(f"explained in {process_time() - start:.1f} s: {len(found.chosen):,} hypotheses, {most_memory():.0f} MB")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("stream", "thresholds", "columns"))
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--count", type=int, default=100_000_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if asked.what == "thresholds":
            thresholds(asked.count)
        else:
            stream(asked.rows, Path(folder)) if asked.what == "stream" else columns(Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
