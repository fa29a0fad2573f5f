"""Install the lock twice, each time into an empty environment, and compare all files: python -m tools.reproducible

Both stand at the same path, one after the other, since scripts name the path of their Python. Every file is compared,
content and permissions, but compiled Python (.pyc holds the time at which its source was written; pip is told to write
none). 1 if a file differs.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from tools.lock import ROOT


def install(folder: Path) -> dict[str, str]:
    """Return the hash of every file of a new environment with all that is locked, and with butfor."""
    venv.create(folder, clear=True, symlinks=True, with_pip=True)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    for files in ("requirements-cpu.lock", "requirements.lock"):
        done = subprocess.run([*pip, "--no-compile", "--require-hashes", "-r", files], cwd=ROOT, check=False)
        if done.returncode and files == "requirements.lock":
            raise SystemExit("reproducible: the lock cannot be installed; pip says why above")
    subprocess.run([*pip, "--no-compile", "--no-build-isolation", "-e", "."], cwd=ROOT, check=True)
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            with path.open("rb") as file:
                hashed = hashlib.file_digest(file, "sha256").hexdigest()
            found[str(path.relative_to(folder))] = f"{path.stat().st_mode:o} {hashed}"
    return found


def main() -> int:
    """Print how many files were compared, and which of them differ."""
    with tempfile.TemporaryDirectory() as place:
        first = install(Path(place, "environment"))
        second = install(Path(place, "environment"))
    differ = sorted(name for name in first | second if first.get(name) != second.get(name))
    print("\n".join([f"{len(first):,} files of two installs compared: {len(differ)} differ", *differ]))
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main())
