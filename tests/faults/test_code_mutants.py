"""The tool that plants faults into the code: it finds them, tells which test did, and leaves the tree as it was."""

import ast
import json
import subprocess
import sys

from tools import code_mutants, validate_release
from tools.code_mutants import ROOT

CAUGHT = "inference/irt.py:p_fixed: 1 + hits -> hits"
SAME = "inference/irt.py:schedule: steps[-1] + 1 -> steps[-1]"  # a fifth more, rounded up, is one more anyway


def run(*options):
    command = [sys.executable, "-m", "tools.code_mutants", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_dropped_one_is_caught_and_what_computes_the_same_is_not(tmp_path):
    before = code_mutants.source_of("inference/irt.py")
    out = tmp_path / "table.json"
    small = ("--tests", "src/butfor/inference/irt.py", "--kept", str(tmp_path), "--out", str(out))
    done = run("--only", CAUGHT, "--only", SAME, *small)
    assert done.returncode == 0, done.stdout + done.stderr
    by = {row["id"]: row["caught by"] for row in json.loads(out.read_text())["figures"]["mutants"]}
    assert by == {CAUGHT: "src/butfor/inference/irt.py::butfor.inference.irt.p_fixed", SAME: None}
    assert "1 of 1 mutants caught (100.0%), 1 that compute the same left out" in done.stdout
    assert code_mutants.source_of("inference/irt.py") == before


def test_what_would_be_tried_is_listed_and_what_is_not_there_is_refused():
    listed = run("--list", "--count", "20", "--file", "inference/irt.py").stdout.splitlines()
    assert len(listed) == 20
    assert all(" inference/irt.py:" in line and " -> " in line for line in listed)
    for options in (("--file", "inference/none.py"), ("--only", "inference/irt.py: 1 -> 2")):
        refused = run(*options)
        assert refused.returncode == 2
        assert refused.stderr.startswith("code_mutants: there is no ")


def test_every_mutant_changes_the_code_in_one_place():
    for file in ("inference/irt.py", "inference/where.py", code_mutants.STREAMS[0]):
        source = code_mutants.source_of(file)
        made = code_mutants.mutants(source, file)
        assert len({one.name for one in made}) == len(made) > 1
        whole = ast.unparse(ast.parse(source)).splitlines()
        for one in made[:: max(1, len(made) // 20)]:
            changed = code_mutants.planted(source, one).splitlines()
            assert len(changed) == len(whole)
            assert sum(a != b for a, b in zip(whole, changed, strict=True)) == 1, one.name


def test_mutants_that_are_called_the_same_are_still_there():
    names = {
        one.name for file in code_mutants.files() for one in code_mutants.mutants(code_mutants.source_of(file), file)
    }
    reasons = json.loads(code_mutants.SAME.read_text(encoding="utf-8"))
    assert set(reasons) <= names
    assert all(len(reason) > 20 for reason in reasons.values())


def test_the_seed_chooses_from_every_file_and_kind():
    every = [one for file in code_mutants.files() for one in code_mutants.mutants(code_mutants.source_of(file), file)]
    chosen = code_mutants.picked(every, 130, 0)
    assert chosen == code_mutants.picked(every, 130, 0) != code_mutants.picked(every, 130, 1)
    assert {one.file for one in chosen} == {one.file for one in every}
    assert {one.kind for one in chosen} == {one.kind for one in every}


def test_requirements_of_the_release_name_every_promise_and_tests_that_are_there():
    from butfor.inference.guarantees import PROMISES

    required = validate_release.requirements()
    named = {promise for one in required for promise in one.get("promises", ())}
    assert named == {f"{test}/{rule}" for test, rules in PROMISES.items() for rule in rules}
    for one in required:
        for test in one["tests"]:
            path, _, function = test.partition("::")
            assert (ROOT / path).exists(), test
            assert not function or f"def {function}(" in (ROOT / path).read_text(encoding="utf-8"), test


def record(folder, failed=""):
    """Write what the three steps leave behind: mutants, outcomes of tests, hashes."""
    cases = [test for one in validate_release.requirements() for test in one["tests"]]
    lines = []
    for test in cases:
        path, _, function = test.partition("::")
        place = path.removesuffix(".py").replace("/", ".") + ("" if path.endswith(".py") else ".test_some")
        state = "<failure/>" if test == failed else ""
        lines.append(f'<testcase classname="{place}" name="{function or "test_one"}">{state}</testcase>')
    (folder / "junit.xml").write_text(f"<testsuite>{''.join(lines)}</testsuite>")
    row = {"file": "inference/irt.py", "line": 1, "change": "a -> b", "same": None, "caught by": "tests/a.py::b"}
    (folder / "mutants.json").write_text(json.dumps({"figures": {"mutants": [row]}}))
    (folder / "wheel.txt").write_text("0" * 64 + "  butfor-0.1.0-py3-none-any.whl\n")


def test_the_page_of_a_release_is_written_and_fails_where_a_test_does(tmp_path, capsys):
    assert validate_release.main(["--kept", "--out", str(tmp_path)]) == 2
    record(tmp_path)
    assert validate_release.main(["--kept", "--out", str(tmp_path)]) == 0
    page = (tmp_path / "release.html").read_text()
    assert "All requirements are met" in page
    assert "NOT MET" not in page
    assert page.count("class=sign") == 3
    record(tmp_path, failed="tests/calibration/test_picked.py")
    assert validate_release.main(["--kept", "--out", str(tmp_path)]) == 3
    written = json.loads((tmp_path / "release.json").read_text())
    assert [one["requirement"] for one in written["requirements"] if not one["met"]] == [
        "Trap: inputs picked by their output"
    ]
    assert "NOT MET" in (tmp_path / "release.html").read_text()
    assert "not met: Trap" in capsys.readouterr().err
