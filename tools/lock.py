"""The lock: each package of development at one version, with the hashes of all files of its release.

python -m tools.lock                        1 where pyproject.toml, constraints.txt and the lock disagree (offline)
python -m tools.lock --extras image,text    print what building and running with these extras needs ("": none of them)

`python -m tools.relock` writes the lock.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

from pip._vendor.packaging.requirements import Requirement  # an empty environment has pip and nothing else
from pip._vendor.packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
EVERYTHING = ["build-system", "dev"]  # what the lock holds
ENTRY = re.compile(r"(?m)^([\w.-]+)==(\S+)(?: ; .+?)? \\\n((?:    --hash=sha256:\w{64}(?: \\)?\n)+)    # needs ?(.*)\n")


class Locked(NamedTuple):
    """One package of the lock, and its lines there."""

    version: str
    hashes: list[str]
    needs: list[str]
    text: str


def read(text: str) -> dict[str, Locked]:
    """Return the packages of a lock by name."""
    found = ENTRY.finditer(text)
    return {one[1]: Locked(one[2], re.findall(r"\w{64}", one[3]), one[4].split(), one[0]) for one in found}


def project(root: Path = ROOT) -> dict[str, list[Requirement]]:
    """Return what pyproject.toml asks for: by extra, always under "", and what builds the package as build-system."""
    written = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    asked = {"": written["project"]["dependencies"], "build-system": written["build-system"]["requires"]}
    asked |= written["project"]["optional-dependencies"]
    return {extra: [Requirement(text) for text in texts] for extra, texts in asked.items()}


def required(extras: list[str], root: Path = ROOT) -> list[Requirement]:
    """Return what the package with these extras asks for; an extra of extras stands for them."""
    asked, listed, found = project(root), ["", *extras], {}
    for extra in listed:
        for one in asked[extra]:
            if one.name == "butfor":
                listed += sorted(one.extras)
            else:
                found[str(one)] = one
    return list(found.values())


def constraints(root: Path = ROOT) -> list[Requirement]:
    """Return the lines of constraints.txt."""
    lines = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def closure(lock: dict[str, Locked], wanted: list[Requirement]) -> set[str]:
    """Return the names of the lock's packages that these requirements need, directly or not."""
    left, names = [canonicalize_name(one.name) for one in wanted], set()
    while left:
        if (name := left.pop()) in lock and name not in names:
            names.add(name)
            left += lock[name].needs
    return names


def digest(body: str, root: Path = ROOT) -> str:
    """Return one hash of the lock's packages and of all that they were chosen for."""
    asked = sorted(map(str, [*required(EVERYTHING, root), *constraints(root)]))
    return hashlib.sha256("\n".join([*asked, body]).encode()).hexdigest()


def drift(root: Path = ROOT) -> list[str]:
    """Return where pyproject.toml, constraints.txt and the lock disagree, a sentence each."""
    head, _, body = (root / "requirements.lock").read_text(encoding="utf-8").partition("\n\n")
    lock, wanted, said = read(body), required(EVERYTHING, root), []
    for one in [*wanted, *constraints(root)]:
        if (name := canonicalize_name(one.name)) not in lock:
            said.append(f"{one} is asked for, and the lock has no {name}")
        elif not one.specifier.contains(lock[name].version, prereleases=True):
            said.append(f"{one} is asked for, and the lock has {name} {lock[name].version}")
    for name, one in lock.items():
        said += [f"{name} needs {need}, which the lock does not have" for need in one.needs if need not in lock]
    said += [f"nothing needs {name}, which the lock has" for name in sorted(set(lock) - closure(lock, wanted))]
    for name, one in read((root / "requirements-cpu.lock").read_text(encoding="utf-8")).items():
        if name not in lock or one.version.split("+")[0] != lock[name].version:
            said.append(f"requirements-cpu.lock has {name} {one.version}, and the lock has not")
    if not said and f"# digest: {digest(body, root)}" not in head.splitlines():
        said.append("pyproject.toml, constraints.txt or the lock was changed since the lock was written")
    return said


def main() -> int:
    """Print what is asked for; 1 if something has drifted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extras")
    asked = parser.parse_args()
    if asked.extras is not None:
        lock = read((ROOT / "requirements.lock").read_text(encoding="utf-8"))
        names = closure(lock, required(["build-system", *filter(None, asked.extras.split(","))]))
        print("".join(lock[name].text for name in sorted(names)), end="")
    for sentence in (said := drift()):
        print(f"requirements.lock: {sentence}; python -m tools.relock writes it again", file=sys.stderr)
    return int(bool(said))


if __name__ == "__main__":
    sys.exit(main())
