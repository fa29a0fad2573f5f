"""Wheel, sdist and bills of materials of the last commit into dist/: python -m tools.dist

Wheel and sdist are built twice, from checkouts in folders, with file times and permissions of their own: 1 if a byte
differs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.lock import ROOT
from tools.sbom import EXTRAS, text


def git(*command: str) -> bytes:
    """Return what git prints in the repository."""
    return subprocess.run(["git", *command], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout


def build(source: Path, umask: int, *options: str) -> dict[str, bytes]:
    """Return wheel and sdist by name, built from the last commit, which tar unpacks into a folder."""
    source.mkdir(parents=True)
    unpack = ["tar", "-x", "--no-same-permissions", *options]
    subprocess.run(unpack, cwd=source, input=git("archive", "HEAD"), umask=umask, check=True)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": git("log", "-1", "--format=%ct").decode().strip()}
    command = [sys.executable, "-m", "hatchling", "build", "-d", "built"]
    subprocess.run(command, cwd=source, env=environment, umask=umask, stderr=subprocess.DEVNULL, check=True)
    return {path.name: path.read_bytes() for path in sorted((source / "built").iterdir())}


def main() -> int:
    """Fill dist/ and print what is in it."""
    if git("status", "--porcelain"):
        print("dist: what is not committed is not in it", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        files = build(Path(folder, "first"), 0o022)
        again = build(Path(folder, "second", "elsewhere"), 0o077, "-m")
    if differ := sorted(name for name in files | again if files.get(name) != again.get(name)):
        print(f"dist: two builds of one commit differ in {', '.join(differ)}", file=sys.stderr)
        return 1
    version = next(name for name in files if name.endswith(".tar.gz")).removesuffix(".tar.gz")
    files[f"{version}.cdx.json"] = text([]).encode()
    files[f"{version}-all-extras.cdx.json"] = text(EXTRAS).encode()
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    (ROOT / "dist").mkdir()
    for name, content in files.items():
        (ROOT / "dist" / name).write_bytes(content)
        print(f"{hashlib.sha256(content).hexdigest()}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
