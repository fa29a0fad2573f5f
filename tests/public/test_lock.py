"""The lock agrees with pyproject.toml and constraints.txt, or that is seen; licences; the bill of materials."""

import importlib.metadata
import json
import re
import shutil
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

import butfor
from tools import licences, lock, sbom

ROOT = Path(__file__).parents[2]
FILES = ("pyproject.toml", "constraints.txt", "requirements.lock", "requirements-cpu.lock")
LOCK = lock.read((ROOT / "requirements.lock").read_text(encoding="utf-8"))


def of_the_lock():
    """Whether the packages here are those of the lock: in the CI job with the lowest versions they are not."""
    found = {canonicalize_name(one.name): one.version.split("+")[0] for one in importlib.metadata.distributions()}
    return all(one.version == found.get(name, one.version) for name, one in LOCK.items())


locked_versions = pytest.mark.skipif(not of_the_lock(), reason="other versions than those of the lock are installed")


def test_the_lock_agrees_with_what_is_asked_for():
    assert lock.drift() == []  # python -m tools.relock


def without(name):
    """The lock without the lines of a package."""
    return lambda text: text.replace(LOCK[name].text, "")


EXTRA = LOCK["rich"].text.replace("rich==", "richer==")
DRIFTS = {
    "a version below what is asked for": (
        "requirements.lock",
        lambda text: text.replace(f"\nnumpy=={LOCK['numpy'].version}", "\nnumpy==1.25.0"),
        "numpy>=1.26 is asked for, and the lock has numpy 1.25.0",
    ),
    "a changed version that would do": (
        "requirements.lock",
        lambda text: text.replace(f"\nrich=={LOCK['rich'].version}", "\nrich==99.0"),
        "was changed since the lock was written",
    ),
    "a changed hash": (
        "requirements.lock",
        lambda text: text.replace(LOCK["rich"].hashes[0], "0" * 64),
        "was changed since the lock was written",
    ),
    "without its hashes": (
        "requirements.lock",
        lambda text: re.sub(r"(?m)^rich==(\S+) \\\n(    --hash.*\n)+", r"rich==\1\n", text),
        "is asked for, and the lock has no rich",
    ),
    "a missing package": ("requirements.lock", without("rich"), "is asked for, and the lock has no rich"),
    "a missing package that another needs": ("requirements.lock", without("cycler"), "matplotlib needs cycler"),
    "an extra package": ("requirements.lock", lambda text: text + EXTRA, "nothing needs richer"),
    "a new dependency": (
        "pyproject.toml",
        lambda text: text.replace('  "rich>=13",', '  "rich>=13",\n  "shap",'),
        "shap is asked for, and the lock has no shap",
    ),
    "a new build dependency": (
        "pyproject.toml",
        lambda text: text.replace('["hatchling>=1.25"]', '["hatchling>=1.25", "hatch-vcs"]'),
        "hatch-vcs is asked for",
    ),
    "a new bound that the lock meets": (
        "pyproject.toml",
        lambda text: text.replace('"rich>=13"', '"rich>=14"'),
        "was changed since the lock was written",
    ),
    "another torch": (
        "constraints.txt",
        lambda text: text.replace("torch==2.13.0", "torch==2.14.1"),
        "torch==2.14.1 is asked for, and the lock has torch 2.13.0",
    ),
    "another torch without CUDA": (
        "requirements-cpu.lock",
        lambda text: text.replace("torch==2.13.0", "torch==2.14.1"),
        "requirements-cpu.lock has torch 2.14.1+cpu, and the lock has not",
    ),
}


@pytest.mark.parametrize("name", DRIFTS)
def test_a_drift_is_seen(name, tmp_path):
    file, change, said = DRIFTS[name]
    for one in FILES:
        shutil.copy(ROOT / one, tmp_path)
    assert lock.drift(tmp_path) == []
    before = (tmp_path / file).read_text(encoding="utf-8")
    (tmp_path / file).write_text(change(before), encoding="utf-8")
    assert (tmp_path / file).read_text(encoding="utf-8") != before
    assert any(said in sentence for sentence in lock.drift(tmp_path))


def test_a_part_of_the_lock_has_what_an_extra_needs_and_no_more():
    base, text = (lock.closure(LOCK, lock.required(extras)) for extras in ([], ["text"]))
    assert {"numpy", "scipy", "markupsafe"} < base < text
    assert "tokenizers" in text - base
    assert not {"torch", "hatchling", "pytest"} & text
    assert lock.closure(LOCK, lock.required(lock.EVERYTHING)) == set(LOCK)


def test_the_lock_names_no_index_and_no_path():
    for name in ("requirements.lock", "requirements-cpu.lock"):
        assert not re.search(r"://|file:|/", (ROOT / name).read_text(encoding="utf-8"))


@locked_versions
def test_every_licence_is_known_and_permissive_or_weakly_copyleft():
    assert licences.unknown({name: licences.licence(name) for name in LOCK}) == {}


@pytest.mark.parametrize("terms", ["GPL-3.0-only", "MIT AND AGPL-3.0-or-later", "not given", "", "Proprietary"])
def test_another_licence_is_seen(terms):
    assert licences.unknown({"new": terms, "known": "MIT OR Apache-2.0 WITH LLVM-exception"}) == {"new": terms}


@locked_versions
def test_the_page_of_licences_is_the_one_the_code_writes():
    assert (ROOT / "LICENCES.md").read_text(encoding="utf-8") == licences.page()  # make docs


@locked_versions
def test_the_bill_of_materials_names_every_package_once():
    bill = json.loads(sbom.text(sbom.EXTRAS))
    assert sbom.text(sbom.EXTRAS) == sbom.text(sbom.EXTRAS)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["version"] == butfor.__version__
    listed = {one["name"]: one for one in bill["components"]}
    assert set(listed) == lock.closure(LOCK, lock.required(sbom.EXTRAS))
    hashes = [file["hashes"][0]["content"] for file in listed["numpy"]["externalReferences"]]
    assert hashes == LOCK["numpy"].hashes
    known = {one["bom-ref"] for one in [bill["metadata"]["component"], *bill["components"]]}
    assert {one["ref"] for one in bill["dependencies"]} == known
    assert {need for one in bill["dependencies"] for need in one["dependsOn"]} <= known
