"""The licence of every package of the lock, as installed metadata give it: python -m tools.licences > LICENCES.md"""

from __future__ import annotations

import re
import sys
from importlib import metadata

from tools.lock import ROOT, Locked, closure, project, read, required

SPDX = {  # what packages without a licence expression write -> its identifier
    "Apache 2.0": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "Apache License v2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "2-clause BSD": "BSD-2-Clause",
    "3-Clause BSD License": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
BY_HAND = {  # metadata that name no licence, or no single one; read in the package itself
    "appnope": "BSD-2-Clause",  # not installed here: needed on macOS
    "colorama": "BSD-3-Clause",  # not installed here: needed on Windows
    "docutils": "LicenseRef-public-domain AND BSD-2-Clause AND GPL-3.0-or-later",
    "nest-asyncio2": "BSD-2-Clause",
    "partd": "BSD-3-Clause",
    "skops": "MIT",
    **{f"sphinxcontrib-{kind}help": "BSD-2-Clause" for kind in ("apple", "dev", "html", "qt")},
    **{f"sphinxcontrib-{kind}": "BSD-2-Clause" for kind in ("jsmath", "serializinghtml")},
}
PERMISSIVE = {
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "CNRI-Python", "ISC", "MIT", "MIT-CMU",
    "PSF-2.0", "Zlib",
}  # fmt: skip
WEAK_COPYLEFT = {"MPL-2.0"}
EXCEPTIONS = {  # package -> what its wheels contain besides, or what its licence names
    "docutils": "its Emacs mode is GPL-3.0-or-later and not in the wheel; needed for documentation only.",
    "opencv-python-headless": "the wheels contain FFmpeg (LGPL-2.1-or-later), libgfortran and libquadmath.",
}
RUNTIMES = "numpy, scipy, scikit-learn, torch, xgboost-cpu"
GCC = (
    "Linux wheels contain libgfortran or libgomp (GPL-3.0-or-later WITH GCC-exception-3.1) or libquadmath "
    "(LGPL-2.1-or-later)."
)


def locked() -> dict[str, Locked]:
    """Return the packages of requirements.lock."""
    return read((ROOT / "requirements.lock").read_text(encoding="utf-8"))


def licence(name: str) -> str:
    """Return the SPDX expression of a package, or what it writes instead."""
    if name in BY_HAND:
        return BY_HAND[name]
    facts = metadata.metadata(name)
    if expression := facts.get("License-Expression"):
        return str(expression)
    kinds = [line.rpartition(" :: ")[2] for line in facts.get_all("Classifier", ()) if line.startswith("License ::")]
    for said in [facts.get("License") or "", *kinds]:
        if said in SPDX or not identifiers(said) - PERMISSIVE - WEAK_COPYLEFT:
            return SPDX.get(said, said)
    return (facts.get("License") or ", ".join(kinds) or "not given").split("\n")[0]


def identifiers(expression: str) -> set[str]:
    """Return the licences of an expression; what follows WITH only permits more."""
    parts = re.split(r" AND | OR |[()]", expression)
    return {part.partition(" WITH ")[0].strip() for part in parts} - ({""} if expression else set())


def unknown(found: dict[str, str]) -> dict[str, str]:
    """Return the packages whose licence is neither permissive nor weakly copyleft, nor a listed exception."""
    allowed = PERMISSIVE | WEAK_COPYLEFT
    return {name: text for name, text in found.items() if identifiers(text) - allowed and name not in EXCEPTIONS}


def page() -> str:
    """Return LICENCES.md."""
    lock = locked()
    used = {extra: closure(lock, required([extra])) for extra in project()}
    rows = []
    for name in sorted(lock):
        extras = [
            extra
            for extra, names in used.items()
            if extra not in ("", "build-system", "dev") and name in names - used[""]
        ]
        users = "always" if name in used[""] else ", ".join(extras) or "development"
        rows.append(f"| {name} | {licence(name)} | {users} |")
    exceptions = EXCEPTIONS | {RUNTIMES: GCC}
    notes = "\n".join(f"- {name}: {text}" for name, text in exceptions.items())
    return f"""# Licences

butfor itself: Apache-2.0 ([LICENSE](LICENSE)). Below, what it depends on, directly or not, as the packages' metadata
say; "always" is needed to run it, the rest by the extras that are named. Nothing of it is contained in
butfor's own files. Written by `make docs` from requirements.lock.

All are permissive or weakly copyleft ({", ".join(sorted(WEAK_COPYLEFT))}), but:

{notes}

| package | licence | needed by |
|---|---|---|
{chr(10).join(rows)}
"""


if __name__ == "__main__":
    sys.stdout.write(page())
