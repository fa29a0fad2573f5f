"""The bill of materials (CycloneDX 1.6) of butfor with some extras: python -m tools.sbom [--extras image,text]

Names, versions, hashes and who needs whom are those of requirements.lock, licences those of installed metadata. Nothing
depends on the clock: the same lock gives the same bytes. A hash is that of one file of a release, so every file is an
external reference of its package.
"""

from __future__ import annotations

import argparse
import json
import re
from typing import Any

from packaging.utils import canonicalize_name

from butfor import __version__
from tools.licences import licence, locked
from tools.lock import closure, project, required

EXTRAS = sorted(set(project()) - {"", "build-system", "dev", "docs"})  # those that users install


def component(name: str, version: str, terms: str) -> dict[str, Any]:
    """Return a library of the bill."""
    single = re.fullmatch(r"[\w.-]+", terms) and not terms.startswith("LicenseRef")
    purl = f"pkg:pypi/{name}@{version}"
    made = {"type": "library", "bom-ref": purl, "name": name, "version": version}
    return {**made, "licenses": [{"license": {"id": terms}} if single else {"expression": terms}], "purl": purl}


def bill(extras: list[str]) -> dict[str, Any]:
    """Return the bill of materials of the package with these extras."""
    lock = locked()
    wanted = required(extras)
    names = sorted(closure(lock, wanted))
    butfor = component("butfor", __version__, "Apache-2.0")
    libraries = []
    for name in names:
        one = component(name, lock[name].version, licence(name))
        files = [[{"alg": "SHA-256", "content": value}] for value in lock[name].hashes]
        one["externalReferences"] = [{"type": "distribution", "url": one["purl"], "hashes": file} for file in files]
        libraries.append(one)
    reference = {one["name"]: one["bom-ref"] for one in [butfor, *libraries]}
    needs = {"butfor": sorted({canonicalize_name(one.name) for one in wanted}), **{n: lock[n].needs for n in names}}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": butfor},
        "components": libraries,
        "dependencies": [
            {"ref": reference[name], "dependsOn": [reference[need] for need in listed]}
            for name, listed in needs.items()
        ],
    }


def text(extras: list[str]) -> str:
    """Return the bill as it is written to a file."""
    return json.dumps(bill(extras), indent=1) + "\n"


def main() -> None:
    """Print the bill of the extras that are asked for, else of all that users install."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extras", default=",".join(EXTRAS))
    print(text([extra for extra in parser.parse_args().extras.split(",") if extra]), end="")


if __name__ == "__main__":
    main()
