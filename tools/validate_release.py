"""Validation of this release, a page to be signed: python -m tools.validate_release (make validate does)

Runs the mutants of the code that decides and the tests of calibration and faults, compares them with the requirements
of release_requirements.json, and writes build/validation/release.html and release.json. 3 if a requirement is not met.
`butfor validate` is another thing: it validates a user's model, table and reference.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import platform
import subprocess
import sys
import xml.etree.ElementTree as Xml
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tools.code_mutants import ENOUGH, ROOT

REQUIREMENTS = Path(__file__).with_name("release_requirements.json")
TESTS = ("tests/calibration", "tests/faults", "tests/core", "tests/golden", "tests/tabular/exact_trees")
LIBRARIES = ("numpy", "scipy", "pandas", "scikit-learn", "pytest", "hypothesis")
MUTANTS = "At least 95 % of the mutants of inference/ are caught by the tests"


def requirements() -> list[dict[str, Any]]:
    """Return what is required, where it is promised, and the tests that show it."""
    return list(json.loads(REQUIREMENTS.read_text(encoding="utf-8")))


def outcomes(junit: Path) -> dict[str, str]:
    """Return passed, failed or skipped of each test of a record that pytest --junitxml wrote.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "record.xml")
    >>> _ = path.write_text('<t><testcase classname="tests.faults.test_a" name="test_b[1]"><failure/></testcase></t>')
    >>> outcomes(path)
    {'tests/faults/test_a.py::test_b[1]': 'failed'}
    """
    made: dict[str, str] = {}
    for case in Xml.parse(junit).iter("testcase"):
        kinds = {child.tag for child in case}
        state = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        made[name] = "failed" if "failed" in (state, made.get(name)) else state  # setup and teardown count, too
    return made


def matrix(required: list[dict[str, Any]], tests: dict[str, str]) -> list[dict[str, Any]]:
    """Return each requirement with its tests: met if each of those named ran, some passed, and none failed.

    Examples
    --------
    >>> matrix([{"requirement": "x", "source": "", "tests": ["a.py", "b.py::t"]}], {"a.py::s": "passed"})[0]["met"]
    False
    """
    rows = []
    for one in required:
        shown = {name: [state for test, state in tests.items() if _is_of(test, name)] for name in one["tests"]}
        states = [state for found in shown.values() for state in found]
        met = all("passed" in found for found in shown.values()) and "failed" not in states and bool(states)
        counts = {state: states.count(state) for state in ("passed", "failed", "skipped")}
        rows.append({**one, **counts, "not run": [name for name in shown if not shown[name]], "met": met})
    return rows


def _is_of(test: str, name: str) -> bool:
    """Whether a test is the one named, one of its cases, or in the file or folder named."""
    return test == name or test.startswith((f"{name}[", f"{name}::", f"{name}/"))


def run(command: list[str]) -> str:
    """Run a command of this Python in the repository and return what it prints; its exit code is in its record."""
    print("validate:", *command, flush=True)
    done = subprocess.run([sys.executable, *command], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout


def git(*command: str) -> str:
    return subprocess.run(["git", *command], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def mutant_row(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the requirement on mutants with its counts."""
    counted = [row for row in rows if row["same"] is None]
    caught = sum(row["caught by"] is not None for row in counted)
    counts = {"passed": caught, "failed": len(counted) - caught, "skipped": len(rows) - len(counted), "not run": []}
    met = bool(counted) and caught >= ENOUGH * len(counted)
    return {"requirement": MUTANTS, "source": "tools/code_mutants.py", "tests": [], **counts, "met": met}


STYLE = """body{font:14px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0 1em}
table{border-collapse:collapse;width:100%}tr{break-inside:avoid}
td,th{border:1px solid #999;padding:.3em .5em;text-align:left;vertical-align:top;overflow-wrap:anywhere;min-width:5.5em}
.sign{border-top:1px solid #000;margin-top:4em;width:28em}"""


def table(heads: list[str], rows: list[list[object]]) -> str:
    """Return a table in HTML."""
    lines: list[tuple[str, list[Any]]] = [("th", heads), *(("td", row) for row in rows)]
    made = ["".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells) for tag, cells in lines]
    return f"<table><tr>{'</tr><tr>'.join(made)}</tr></table>"


def page(record: dict[str, Any]) -> str:
    """Return the record as a page to be printed and signed."""
    rows: list[list[object]] = [
        [
            one["requirement"],
            one["source"],
            ", ".join(one["tests"]) + (f"; not run: {', '.join(one['not run'])}" if one["not run"] else ""),
            f"{one['passed']} passed, {one['failed']} failed, {one['skipped']} left out",
            "met" if one["met"] else "NOT MET",
        ]
        for one in record["requirements"]
    ]
    alive = [row for row in record["mutants"] if row["caught by"] is None]
    missed: list[list[object]] = [[row["file"], row["line"], row["change"], row["same"] or "missed"] for row in alive]
    title = f"Validation of butfor {html.escape(record['release']['version'])}"
    verdict = "All requirements are met." if record["met"] else "AT LEAST ONE REQUIREMENT IS NOT MET."
    signers = ("Prepared", "Reviewed", "Approved")
    return f"""<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><style>{STYLE}</style>
<h1>{title}</h1><p><b>{verdict}</b> Everything was run
on the commit below, on one machine. The page says what the tests show, and nothing about a user's own model: for that
there is <code>butfor validate</code>.</p><h2>Release</h2>{table(["What", "Value"], list(record["release"].items()))}
<h2>Requirements and tests</h2>{table(["Requirement", "Promised in", "Tests", "Outcome", "Verdict"], rows)}
<h2>Mutants that no test tells apart</h2>{table(["File", "Line", "Change", "Why"], missed)}
<h2>Signatures</h2>{"".join(f"<p class=sign>{who}: name, date, signature</p>" for who in signers)}</html>
"""


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build/validation")
    parser.add_argument("--count", type=int, default=60, help="mutants")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of mutants")
    parser.add_argument(
        "--kept", action="store_true", help="take mutants.json, junit.xml and wheel.txt that are in --out"
    )
    asked = parser.parse_args(given)
    mutants, junit, built = (asked.out / name for name in ("mutants.json", "junit.xml", "wheel.txt"))
    if not asked.kept:
        asked.out.mkdir(parents=True, exist_ok=True)
        for path in (mutants, junit, built):
            path.unlink(missing_ok=True)
        print(
            run(
                [
                    "-m",
                    "tools.code_mutants",
                    "--count",
                    str(asked.count),
                    "--seed",
                    str(asked.seed),
                    "--out",
                    str(mutants),
                ]
            )
        )
        run(["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={junit}", *TESTS])
        built.write_text(run(["-m", "tools.dist"]), encoding="utf-8")
    if missing := [path.name for path in (mutants, junit, built) if not path.exists()]:
        how = "run it without --kept" if asked.kept else "that step ended without its record"
        print(f"validate_release: there is no {missing[0]} in {asked.out}; {how}", file=sys.stderr)
        return 2 if asked.kept else 3
    planted = json.loads(mutants.read_text(encoding="utf-8"))["figures"]["mutants"]
    rows = [mutant_row(planted), *matrix(requirements(), outcomes(junit))]
    wheel = [
        line for line in built.read_text(encoding="utf-8").splitlines() if line.split()[-1].endswith((".whl", ".gz"))
    ]
    built_twice = "Two builds of the commit are the same bytes"
    counts = {"passed": len(wheel), "failed": int(not wheel), "skipped": 0, "not run": [], "met": bool(wheel)}
    rows.append({"requirement": built_twice, "source": "tools/dist.py", "tests": [], **counts})
    changed = ", with changes that are not committed" if git("status", "--porcelain") else ""
    changed += ", with records of an earlier run (--kept)" if asked.kept else ""
    release = {
        "version": version("butfor"),
        "commit": git("rev-parse", "HEAD") + changed,
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "Python": f"{platform.python_version()}; " + ", ".join(f"{name} {version(name)}" for name in LIBRARIES),
        "SHA-256": "; ".join(wheel) or "not built",
        "repeat": f"python -m tools.validate_release --count {asked.count} --seed {asked.seed} (make validate)",
    }
    record = {"release": release, "met": all(row["met"] for row in rows), "requirements": rows, "mutants": planted}
    (asked.out / "release.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (asked.out / "release.html").write_text(page(record), encoding="utf-8")
    unmet = [row["requirement"] for row in rows if not row["met"]]
    print(f"{len(rows) - len(unmet)} of {len(rows)} requirements met; {asked.out}/release.html")
    for one in unmet:
        print(f"not met: {one}", file=sys.stderr)
    return 3 if unmet else 0


if __name__ == "__main__":
    sys.exit(main())
