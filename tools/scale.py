"""Figures on scale, each in a process of its own: seconds of processor time and the most memory it held.

python tools/scale.py chunks --rows 1000000     osft on so many rows of 10 columns, chunk by chunk, then combined
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

CHUNK = 25_000  # rows


def most_memory() -> float:
    """MB that this process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def chunks(rows: int, folder: Path) -> None:
    import pandas as pd

    rng, names, files = np.random.default_rng(0), [f"x{j}" for j in range(10)], list[Path]()
    sampler = butfor.tabular.gaussian(pd.DataFrame(rng.normal(size=(2000, 10)), columns=names))
    settings = {"test": "osft", "alternative": "greater", "effects": None, "decide": False, "control": False}
    before, start_at = most_memory(), process_time()
    for start in range(0, rows, CHUNK):
        values = rng.normal(size=(min(CHUNK, rows - start), 10))
        values[:, 0] += 6 * (rng.random(len(values)) < 0.3)
        chunk = pd.DataFrame(values, range(start, start + len(values)), columns=names)
        result = butfor.explain(lambda x: x.x0 + x.x1 * x.x2, chunk, sampler, seed=start, **settings)
        files.append(result.save(folder / f"{start}.butfor"))
    found = butfor.combine(files)
    size = sum(file.stat().st_size for file in files) / 1e6
    print(f"{found!r}: {process_time() - start_at:.0f} s, {size:.0f} MB written")
    print(f"most memory {most_memory():.0f} MB ({before:.0f} MB before)")


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
    parser.add_argument("what", choices=("chunks", "columns"))
    parser.add_argument("--rows", type=int, default=1_000_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        chunks(asked.rows, Path(folder)) if asked.what == "chunks" else columns(Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
