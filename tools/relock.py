"""Write requirements.lock for pyproject.toml and constraints.txt: python -m tools.relock [--upgrade]

pip chooses, for this system; what other systems need in addition is followed through the packages' metadata.
Versions stay as they are locked unless --upgrade says otherwise. Hashes are those of every file that the index has of
a release, so that one lock serves Linux, macOS and Windows. A file that pip takes here and the index does not have
(torch without CUDA) goes into requirements-cpu.lock, which is installed first: of two files whose hashes are in one
lock pip prefers that of the index.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pip._internal.models.index import PyPI  # the index that pip asks where none is named
from pip._vendor.packaging.markers import default_environment
from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from pip._vendor.packaging.version import Version

from tools.lock import EVERYTHING, ROOT, digest, read, required

HERE = default_environment()
ENVIRONMENTS = [
    {**HERE, "sys_platform": system, "platform_system": name, "os_name": kind}
    | {"python_version": version, "python_full_version": f"{version}.0"}
    for system, name, kind in (("linux", "Linux", "posix"), ("darwin", "Darwin", "posix"), ("win32", "Windows", "nt"))
    for version in ("3.11", "3.12", "3.13", "3.14")
]


def resolve(wanted: list[str], pins: list[str]) -> dict[str, Any]:
    """Return what pip would install for these requirements, by name: metadata and file."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    command += ["--only-binary", ":all:", "-c", str(ROOT / "constraints.txt"), "-c", "/dev/stdin", *wanted]
    done = subprocess.run(command, input="\n".join(pins), stdout=subprocess.PIPE, text=True, check=True)
    return {canonicalize_name(one["metadata"]["name"]): one for one in json.loads(done.stdout)["install"]}


def follow(found: dict[str, Any], wanted: list[Requirement]) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Return what each package needs on any system, and under which markers each is needed ("": here, so always)."""
    left, seen = [("", one) for one in wanted], set()
    needs: dict[str, set[str]] = {name: set() for name in found}
    markers: dict[str, set[str]] = {}
    while left:
        marker, one = left.pop()
        name = canonicalize_name(one.name)
        markers.setdefault(name, set()).add(marker)
        if name not in found:
            continue
        if not one.specifier.contains(version := found[name]["metadata"]["version"], prereleases=True):
            raise SystemExit(f"{one} is needed on some system, and pip chose {version} here")
        for extra in {"", *one.extras} - {extra for known, extra in seen if known == name}:
            seen.add((name, extra))
            for need in map(Requirement, found[name]["metadata"].get("requires_dist", ())):
                if not need.marker or any(need.marker.evaluate({**e, "extra": extra}) for e in ENVIRONMENTS):
                    here = not need.marker or need.marker.evaluate({**HERE, "extra": extra})
                    needs[name].add(canonicalize_name(need.name))
                    left.append(("" if here else str(need.marker), need))
    return needs, markers


def hashes(name: str, version: Version) -> set[str]:
    """Return the hash of every file that the index has of a release."""
    asked = urllib.request.Request(f"{os.environ.get('PIP_INDEX_URL') or PyPI.simple_url}/{name}/")
    asked.add_header("Accept", "text/html")
    with urllib.request.urlopen(asked, timeout=120) as answer:
        page = answer.read().decode()
    found = set()
    for file, value in re.findall(r'href="[^"]*/([^"/#]+)#sha256=(\w{64})"', page):
        try:
            parsed = parse_wheel_filename(file) if file.endswith(".whl") else parse_sdist_filename(file)
        except ValueError:
            continue  # an installer of former times
        if parsed[1] == version:
            found.add(value)
    return found


def main() -> None:
    """Write the lock and say how large it is."""
    path, wanted = ROOT / "requirements.lock", required(EVERYTHING)
    former = read(path.read_text(encoding="utf-8")) if path.exists() and "--upgrade" not in sys.argv else {}
    bounds = {canonicalize_name(one.name): one.specifier for one in wanted}
    pins = [f"{n}=={one.version}" for n, one in former.items() if n not in bounds or one.version in bounds[n]]
    asked = [str(one) for one in wanted]
    found = resolve(asked, pins)
    needs, markers = follow(found, wanted)
    while others := sorted(set(markers) - set(found)):  # what only other systems need is asked for by name
        found = resolve(asked := [*asked, *others], pins)
        needs, markers = follow(found, wanted)
    versions = {name: Version(Version(one["metadata"]["version"]).public) for name, one in found.items()}
    with ThreadPoolExecutor(8) as threads:
        listed = dict(zip(versions, threads.map(hashes, versions, versions.values()), strict=True))
    body, local = "", ""
    system = " and ".join(f'{key} == "{HERE[key]}"' for key in ("sys_platform", "platform_machine", "python_version"))
    for name in sorted(found):
        mine = found[name]["download_info"]["archive_info"]["hashes"]["sha256"]
        if mine not in listed[name]:
            exact = f"{name}=={found[name]['metadata']['version']} ; {system}"
            local += f"{exact} \\\n    --hash=sha256:{mine}\n    # needs\n"
        marker = "" if "" in markers[name] else " ; " + " or ".join(sorted(markers[name]))
        lines = " \\\n".join(f"    --hash=sha256:{value}" for value in sorted(listed[name]))
        needed = " ".join(["    # needs", *sorted(needs[name])])
        body += f"{name}=={versions[name]}{marker} \\\n{lines}\n{needed}\n"
    head = "# Written by python -m tools.relock. To install: pip install --no-deps --require-hashes -r"
    path.write_text(f"{head} {path.name}\n# digest: {digest(body)}\n\n{body}", encoding="utf-8")
    if local:
        path.with_name("requirements-cpu.lock").write_text(f"{head} requirements-cpu.lock\n\n{local}", encoding="utf-8")
    print(f"{path.name}: {len(found)} packages, {body.count('--hash=')} files, {len(body) // 1000} KB")


if __name__ == "__main__":
    main()
