"""Mutated files over all readers: no traceback, no hang over 10 s, no process over 1 GB.

python tools/mutants.py [--count 5000] [--seed 0] [--only PART]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path
from threading import Timer
from time import monotonic

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
LONGEST, MOST = 10.0, 1_000_000_000  # seconds; bytes of a process


def peak() -> int:
    """The most memory that this process has held since it was last asked to forget, in bytes; 0: not known here."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def forget_peak() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def work(folder: Path) -> None:
    """Read one number a line, make that mutant, read it, say how that went."""
    from butfor.types import InputError
    from mutation import mutant
    from readers import read

    for line in sys.stdin:
        name, seed = json.loads(line)
        whole = (folder / "seeds" / name).read_bytes()
        content = whole if seed is None else mutant(name, whole, np.random.default_rng(seed))
        path = folder / "mutants" / name
        path.write_bytes(content)
        sys.stdout.write("MADE\n")  # from here on it is the reader's time
        sys.stdout.flush()
        forget_peak()
        start, told = monotonic(), ""
        try:
            read(name, path)
            outcome = "read"
        except InputError as error:
            outcome = "refused" if "\n" not in str(error) and len(str(error)) < 2000 else "long"
            told = str(error)[:300]
        except BaseException:
            outcome, told = "traceback", traceback.format_exc()[-1500:]
        answer = {"outcome": outcome, "seconds": monotonic() - start, "peak": peak(), "said": told}
        sys.stdout.write("MUTANT " + json.dumps(answer) + "\n")
        sys.stdout.flush()


class Worker:
    """A process that reads mutants; one that dies or hangs is replaced."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._process = folder, None

    def ask(self, name: str, seed: list[int]) -> dict[str, object]:
        if self._process is None:
            command = [sys.executable, __file__, "--work", str(self._folder)]
            streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": None}
            self._process = subprocess.Popen(command, text=True, cwd=ROOT, **streams)
            for file in sorted((self._folder / "seeds").iterdir()):  # libraries are loaded, and good files are read
                good = self._asked(file.name, None, 600.0)
                assert good["outcome"] == "read", (file.name, good)
        return self._asked(name, seed, LONGEST + 1)

    def _asked(self, name: str, seed: list[int] | None, seconds: float) -> dict[str, object]:
        process = self._process
        timer = Timer(seconds, process.kill)
        try:
            process.stdin.write(json.dumps([name, seed]) + "\n")
            process.stdin.flush()
            while (line := process.stdout.readline()) and line != "MADE\n":
                pass
            timer.start()
            while (line := process.stdout.readline()) and not line.startswith("MUTANT "):
                pass
        except OSError:
            line = ""
        hung = not timer.is_alive()
        timer.cancel()
        if not line:
            self._process = None
            process.stdout.close()
            return {"outcome": "hang" if hung else "crash", "seconds": seconds, "peak": 0, "said": str(process.wait())}
        return json.loads(line.removeprefix("MUTANT "))

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()  # closes both pipes


def run(count: int, seed: int, only: str = "", folder: Path | None = None) -> list[dict[str, object]]:
    """So many mutants, over all kinds of files alike, but twice as many results: what each of them did."""
    if folder is None:
        with tempfile.TemporaryDirectory() as made:
            return run(count, seed, only, Path(made))
    from readers import seeds

    for part in ("seeds", "mutants"):
        (folder / part).mkdir()
    for name, content in seeds(folder).items():
        (folder / "seeds" / name).write_bytes(content)
    names = sorted(file.name for file in (folder / "seeds").iterdir() if only in file.name)
    names += [name for name in names if name.endswith(".butfor")]
    worker, found = Worker(folder), []
    for number in range(count):
        name = names[number % len(names)]
        found.append({"name": name, "seed": [seed, number], **worker.ask(name, [seed, number])})
    worker.close()
    return found


def faults(found: list[dict[str, object]]) -> list[dict[str, object]]:
    """Those that did what no file may do."""
    bad = ("traceback", "hang", "crash", "long")
    return [one for one in found if one["outcome"] in bad or one["seconds"] > LONGEST or one["peak"] > MOST]


def main() -> int:
    """Print how many did what, and every fault; 1 if there is one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--work", type=Path)
    asked = parser.parse_args()
    if asked.work is not None:
        work(asked.work)
        return 0
    start, found = monotonic(), run(asked.count, asked.seed, asked.only)
    bad = faults(found)
    kinds = sorted({str(one["name"]) for one in found})
    for kind in kinds:
        own = [one for one in found if one["name"] == kind]
        outcomes = ", ".join(f"{count} {what}" for what, count in Counter(one["outcome"] for one in own).items())
        slowest, most = max(one["seconds"] for one in own), max(one["peak"] for one in own)
        print(f"{kind:<18} {len(own):>5}: {outcomes}; slowest {slowest:.2f} s, most memory {most / 1e6:.0f} MB")
    print(f"{len(found)} mutants in {monotonic() - start:.0f} s on {os.cpu_count()} cores: {len(bad)} faults")
    for one in bad[:40]:
        print(f"\n{one['name']} {one['seed']}: {one['outcome']} {one['seconds']:.1f} s {one['peak'] / 1e6:.0f} MB")
        print(one["said"])
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
