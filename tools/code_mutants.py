"""Mutants of the code that decides: one small fault at a time in a copy of src, and the tests that should notice.

python -m tools.code_mutants [--count 120] [--seed 0] [--file inference/bounds.py] [--list] [--only ID]

Not `tools.mutants`, which damages files that are read, nor `tools.plant_faults`, which kills runs. First the tests run
once on a copy that notes which statements each of them executes; a mutant is then shown only to those that execute its
statement, quick ones first, until one fails. Both happen in temporary copies, never in place. Mutants that provably
compute the same are named in code_mutants.json with the reason, and are not counted. 1 if too few are caught.
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import json
import os
import re
import resource
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SAME = Path(__file__).with_suffix(".json")  # ID -> why no test can tell it from the code as it is
STREAMS = ("evaluation/hypotheses.py",)  # beside inference/: here only shared streams are planted
QUICK = ("tests/core", "src/butfor/inference", "tests/context/test_staged.py")
WIDE = ("tests/golden", "tests/faults/test_planted_faults.py", "tests/run", "tests/calibration")
MARKS = "not torch and not browser and not assets"
LONGEST = 40.0  # CPU seconds of a test
LOADED = "ignore::pytest.PytestAssertRewriteWarning"  # of hypothesis, which is loaded before the process is forked
MEMORY = 8 * 2**30
ENOUGH = 0.95  # share that must be caught

OPPOSITE: dict[type, type] = {ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Lt: ast.LtE, ast.LtE: ast.Lt}
OPPOSITE |= {ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div}
OPPOSITE |= {ast.Div: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And}
PAIRS = "sf cdf|isf ppf|max min|maximum minimum|fmax fmin|any all|argmax argmin|ceil floor|less greater|left right"
TAILS = {a: b for pair in PAIRS.split("|") for a, b in (pair.split(), pair.split()[::-1])}
LEVELS = re.compile(r"alpha|tail|confidence|BOUNDARY|ALONE")  # names of what an error level is halved or shared from
COUNTED = ("range", "arange", "partition", "slice")  # their whole numbers are positions and counts


@dataclass(frozen=True)
class Mutant:
    """One change of one expression; `line` is that of the statement it is in."""

    file: str  # below src/butfor
    line: int
    function: str
    kind: str
    before: str
    after: str
    number: int  # among equal changes of a function
    node: int  # which node of the walk, and which of its changes
    change: int

    @property
    def name(self) -> str:
        return f"{self.file}:{self.function}: {self.before} -> {self.after}" + f" #{self.number}" * (self.number > 0)


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield every change of an expression, by kind."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OPPOSITE:
        yield "compare", _with(node, ops=[OPPOSITE[type(node.ops[0])](), *node.ops[1:]])
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in OPPOSITE:
        yield "operator", _with(node, op=OPPOSITE[type(node.op)]())
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        if _is_one(node.right):
            yield "dropped one", node.left
        elif _is_one(node.left) and isinstance(node.op, ast.Add):
            yield "dropped one", node.right
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and LEVELS.search(ast.unparse(node.left)):
        yield "level", node.left
    if isinstance(node, ast.BinOp) or (isinstance(node, ast.Compare) and type(node.ops[0]) in OPPOSITE):
        for name in ("left", "right"):
            part: Any = getattr(node, name, None)
            named = isinstance(part, ast.Name | ast.Attribute) and re.search(r"(alpha|tail)$", ast.unparse(part))
            if named and not ast.unparse(node).endswith("> 0"):
                yield "level", _with(node, **{name: ast.BinOp(ast.Constant(2), ast.Mult(), part)})
    if isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):
        yield "sign" if isinstance(node.op, ast.USub) else "not", node.operand
    if isinstance(node, ast.Subscript) and not ast.unparse(node.value).endswith(".shape"):
        yield from (("off by one", _with(node, slice=other)) for other in _one_more(node.slice))
    if isinstance(node, ast.Attribute) and node.attr in TAILS:
        yield "tails", _with(node, attr=TAILS[node.attr])
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in TAILS:
        yield "tails", ast.Constant(TAILS[node.value])
    if isinstance(node, ast.IfExp | ast.If | ast.While):
        yield "not", _with(node, test=ast.UnaryOp(ast.Not(), node.test))
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func).split(".")[-1]
        if called in TAILS and isinstance(node.func, ast.Name):
            yield "tails", _with(node, func=ast.Name(TAILS[called]))
        if called in COUNTED:
            for i, given in enumerate(node.args):
                for other in _one_more(given):
                    yield "off by one", _with(node, args=[*node.args[:i], other, *node.args[i + 1 :]])
        if called == "where" and len(node.args) == 3:
            yield "swapped", _with(node, args=[node.args[0], node.args[2], node.args[1]])
        if called == "stream":  # streams that differ by this key alone are one; or the seed has no say
            for i, given in enumerate(node.args):
                if not isinstance(given, ast.Constant):
                    put: list[ast.expr] = [ast.Constant(0)] if i == 0 else []
                    yield "stream", _with(node, args=[*node.args[:i], *put, *node.args[i + 1 :]])
        if called == "default_rng" and isinstance(node.args[0], ast.List):
            left: list[ast.expr] = [given for given in node.args[0].elts if isinstance(given, ast.Constant)]
            yield "stream", _with(node, args=[ast.List(left)])
        for i, word in enumerate(node.keywords):
            if word.arg == "ddof":
                yield "dropped one", _with(node, keywords=[*node.keywords[:i], *node.keywords[i + 1 :]])


def _with(node: Any, **changed: Any) -> Any:
    other = copy.copy(node)
    vars(other).update(changed)
    return other


def _is_one(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1 and not isinstance(node.value, bool)


def _one_more(node: ast.expr) -> Iterator[ast.expr]:
    """Yield positions, slices and tuples of them with one of their whole numbers one larger."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield ast.Constant(node.value + 1)
    elif isinstance(node, ast.Slice):
        for name in ("lower", "upper"):
            if (end := getattr(node, name)) is not None:
                yield from (_with(node, **{name: other}) for other in _one_more(end))
    elif isinstance(node, ast.Tuple):
        for i, part in enumerate(node.elts):
            yield from (_with(node, elts=[*node.elts[:i], o, *node.elts[i + 1 :]]) for o in _one_more(part))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and _is_one(node.operand):
        yield ast.UnaryOp(ast.USub(), ast.Constant(2))


def walk(node: ast.AST, line: int = 0, function: str = "") -> Iterator[tuple[ast.AST, int, str]]:
    """Yield all that is computed, with the line of its statement and its function; no annotations and no messages."""
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert):
        return
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        function = f"{function}.{node.name}".lstrip(".")
    line = node.lineno if isinstance(node, ast.stmt) else line
    yield node, line, function
    literal = isinstance(node, ast.Subscript) and ast.unparse(node.value) in ("Literal", "Callable", "tuple", "list")
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list") or literal:
            continue
        if name == "iter" and ast.unparse(node.target) == "_":  # type: ignore[attr-defined]
            continue  # halvings: one more changes nothing that anybody could see
        for child in value if isinstance(value, list) else [value]:
            text = isinstance(node, ast.Expr) and isinstance(child, ast.Constant)  # a docstring
            if isinstance(child, ast.AST) and not text:
                yield from walk(child, line, function)


def mutants(source: str, file: str) -> list[Mutant]:
    """Return all mutants of a file.

    >>> [(one.before, one.after) for one in mutants("def p(hits, k):\\n    return (1 + hits) / k", "p.py")]
    [('(1 + hits) / k', '(1 + hits) * k'), ('1 + hits', '1 - hits'), ('1 + hits', 'hits')]
    """
    made, seen = [], Counter[str]()
    for place, (node, line, function) in enumerate(walk(ast.parse(source))):
        for number, (kind, other) in enumerate(changes(node)):
            if file in STREAMS and kind != "stream":
                continue
            before, after = (_shown(one) for one in (node, other))
            one = Mutant(file, line, function, kind, before, after, 0, place, number)
            made.append(_replaced(one, seen[one.name]))
            seen[one.name] += 1
    return made


def _replaced(mutant: Mutant, number: int) -> Mutant:
    return Mutant(**{**vars(mutant), "number": number})


def _shown(node: ast.AST) -> str:
    """An expression on one line; of a statement with a block only its condition."""
    return ast.unparse(node.test if isinstance(node, ast.If | ast.While) else node)


def planted(source: str, mutant: Mutant) -> str:
    """Return the source with the change."""
    tree = ast.parse(source)
    node = next(found for place, (found, *_) in enumerate(walk(tree)) if place == mutant.node)
    _, other = list(changes(node))[mutant.change]
    if isinstance(node, ast.stmt):
        vars(node).update(vars(other))
        return ast.unparse(tree)

    class Put(ast.NodeTransformer):
        def visit(self, one: ast.AST) -> ast.AST:
            return other if one is node else self.generic_visit(one)

    return ast.unparse(ast.fix_missing_locations(Put().visit(tree)))


def noted(source: str, file: str) -> str:
    """Return the source with a note of (file, line) before every statement of every function."""
    tree = ast.parse(source)
    for node in [
        node for function in ast.walk(tree) if isinstance(function, ast.FunctionDef) for node in _blocks(function)
    ]:
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                lines = [(one, ast.parse(f"__noted__.add(({file!r}, {one.lineno}))").body[0]) for one in block]
                setattr(node, name, [part for one, note in lines for part in _in_order(one, note)])
    start = next(
        i for i, one in enumerate(tree.body) if not isinstance(one, ast.Expr) and "__future__" not in ast.unparse(one)
    )
    tree.body[start:start] = ast.parse(
        "import builtins\n__noted__ = vars(builtins).setdefault('__noted__', set())"
    ).body
    return ast.unparse(ast.fix_missing_locations(tree))


def _in_order(one: ast.stmt, note: ast.stmt) -> list[ast.stmt]:
    is_text = isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
    return [one] if is_text else [note, one]


def _blocks(function: ast.AST) -> list[ast.AST]:
    """The function and the blocks in it, but for those of functions in it, which come by themselves."""
    found, left = [], [function]
    while left:
        node = left.pop()
        found.append(node)
        inner = [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.stmt | ast.ExceptHandler)]
        left += [one for one in inner if not isinstance(one, ast.FunctionDef | ast.ClassDef)]
    return found


class Watch:
    """A plugin of pytest: picks and orders the tests, and keeps what each needed, executed and said."""

    def __init__(self, wanted: list[str] | None, *options: str) -> None:
        self.wanted, self.options, self.tests, self.failed = wanted, options, {}, []  # type: ignore[var-annotated]

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self.wanted is not None:
            place = {name: i for i, name in enumerate(self.wanted)}
            items[:] = sorted((one for one in items if one.nodeid in place), key=lambda one: place[one.nodeid])

    def pytest_runtest_setup(self, item: Any) -> None:  # noqa: ARG002
        import builtins

        self.start, self.noted = time.process_time(), vars(builtins).setdefault("__noted__", set())
        self.noted.clear()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)
        if report.when == "teardown":
            seconds = time.process_time() - self.start
            self.tests[report.nodeid] = {"seconds": round(seconds, 3), "lines": sorted(self.noted)}

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(f"{report.nodeid} cannot be imported")


def run_tests(tree: Path, paths: list[str], watch: Watch, cpu: float) -> dict[str, Any]:
    """Run tests of a tree in a process of its own, forked so that libraries are loaded already; what came of it."""
    answer = tree / "answer.json"
    answer.unlink(missing_ok=True)
    pid = os.fork()
    if not pid:
        try:
            os.setsid()
            os.chdir(tree)
            most = int(time.process_time() + cpu) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))  # endless loops
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            signal.alarm(int(20 * cpu))  # and what waits for ever
            mine = [str(tree / "src"), str(tree)]
            sys.path[:] = mine + [part for part in sys.path if part not in ("", str(ROOT), str(ROOT / "src"))]
            os.environ["PYTHONPATH"] = os.pathsep.join(mine)
            quiet = os.open(tree / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(quiet, 1), os.dup2(quiet, 2)
            for name in [name for name in sys.modules if name.split(".")[0] in ("tools", "butfor", "tests")]:
                del sys.modules[name]
            import pytest

            asked = ["-p", "no:cacheprovider", "-m", MARKS, "--tb=line", "-W", LOADED, *watch.options]
            code = pytest.main([*paths, *asked], plugins=[watch])
            answer.write_text(json.dumps({"code": int(code), "failed": watch.failed, "tests": watch.tests}))
        except BaseException as error:
            answer.write_text(json.dumps({"code": 3, "failed": [repr(error)], "tests": {}}))
        finally:
            os._exit(0)
    _, status, used = os.wait4(pid, 0)
    seconds = used.ru_utime + used.ru_stime
    if not answer.exists():
        return {
            "code": 1,
            "failed": [f"ended by signal {os.WTERMSIG(status)}, {seconds:.0f} s"],
            "tests": {},
            "seconds": seconds,
        }
    return {**json.loads(answer.read_text()), "seconds": seconds}


def copied(folder: Path) -> Path:
    """Return a copy of the tree as it stands."""
    left = shutil.ignore_patterns(".git", ".venv", "build", "dist", ".*_cache", "__pycache__", "assets")
    return Path(shutil.copytree(ROOT, folder / "tree", ignore=left))


def write(path: Path, text: str) -> None:
    """Write a module, and forget what was compiled of it."""
    path.write_text(text, encoding="utf-8")
    for old in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        old.unlink()


def files() -> list[str]:
    """Return the files that mutants are made of, below src/butfor."""
    inference = sorted((ROOT / "src/butfor/inference").glob("*.py"))
    return [f"inference/{path.name}" for path in inference if path.name != "__init__.py"] + list(STREAMS)


def source_of(file: str, tree: Path = ROOT) -> str:
    return (tree / "src/butfor" / file).read_text(encoding="utf-8")


def digest(*paths: Path) -> str:
    """Return a number for files."""
    return hashlib.sha256(b"".join(str(path).encode() + path.read_bytes() for path in sorted(paths))).hexdigest()[:16]


def lines_of_tests(paths: list[str], folder: Path) -> dict[str, Any]:
    """Return each test that passes with its CPU seconds and the statements that it executes; kept in a folder."""
    code = digest(*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").glob("*.py"))
    kept = folder / f"{code}.json"
    known = json.loads(kept.read_text()) if kept.exists() else {}
    wanted: dict[str, str] = {}
    for path in (ROOT / path for path in paths):
        every = path.rglob("test_*.py" if "tests" in path.parts else "*.py") if path.is_dir() else [path]
        wanted |= {str(one.relative_to(ROOT)): digest(one) for one in sorted(every)}
    missing = [name for name, number in wanted.items() if known.get(name, {}).get("digest") != number]
    if missing:
        with tempfile.TemporaryDirectory() as made:
            tree = copied(Path(made))
            for file in files():
                write(tree / "src/butfor" / file, noted(source_of(file), file))
            done = run_tests(tree, missing, Watch(None), 4 * 3600)
        for name in missing:
            mine = {test: one for test, one in done["tests"].items() if test.split("::")[0] == name}
            known[name] = {
                "digest": wanted[name],
                "tests": {t: one for t, one in mine.items() if t not in done["failed"]},
            }
        print(f"{len(done['tests'])} tests on the code as it is: {done['seconds']:.0f} s of CPU", flush=True)
        for name in done["failed"]:
            print(f"code_mutants: {name} fails on the code as it is and is left out", file=sys.stderr)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(known))
    return {test: one for name in wanted for test, one in known[name]["tests"].items()}


def shown_to(mutant: Mutant, tests: dict[str, Any], source: str, most: float) -> list[str]:
    """Return the tests that execute its statement: of files that import the code itself first, then quick files."""
    lines = {mutant.line}
    blocks = [one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.FunctionDef | ast.ClassDef)]
    if not mutant.function or any(one.lineno == mutant.line for one in blocks):  # a constant, or a default
        inside = [one for one in blocks if mutant.function and one.name == mutant.function.split(".")[-1]]
        lines = {line for one in inside for line in range(one.lineno, (one.end_lineno or 0) + 1)} or set(range(10**4))
    hit = {
        name: one["seconds"]
        for name, one in tests.items()
        if one["seconds"] <= LONGEST and any(file == mutant.file and line in lines for file, line in one["lines"])
    }
    whole = Counter[str]()
    for name, seconds in hit.items():
        whole[name.split("::")[0]] += seconds

    def place(name: str) -> tuple[Any, ...]:
        path = name.split("::")[0]
        return name.startswith(WIDE), not _is_direct(path), whole[path], path, hit[name]

    total, chosen = 0.0, list[str]()
    for name in sorted(hit, key=place):
        total += hit[name]
        if total > most and chosen:
            break
        chosen.append(name)
    return chosen


@cache
def _is_direct(path: str) -> bool:
    return "butfor.inference" in (ROOT / path).read_text(encoding="utf-8")


def tried(mutant: Mutant, tree: Path, tests: dict[str, Any], most: float) -> dict[str, Any]:
    """Plant a mutant in a copy, run its tests, and take it out again."""
    path, source = tree / "src/butfor" / mutant.file, source_of(mutant.file)
    wanted = shown_to(mutant, tests, source, most)
    row = {"file": mutant.file, "line": mutant.line, "function": mutant.function, "kind": mutant.kind}
    row |= {"change": f"{mutant.before} -> {mutant.after}", "id": mutant.name, "tests": len(wanted)}
    if not wanted:
        return {**row, "caught by": None, "seconds": 0.0}
    write(path, planted(source, mutant))
    try:
        cpu = 10 + 3 * sum(tests[name]["seconds"] for name in wanted)
        done = run_tests(tree, sorted({name.split("::")[0] for name in wanted}), Watch(wanted, "-x"), cpu)
    finally:
        write(path, source)
    ended = None if done["code"] in (0, 5) else f"pytest ended with {done['code']}"
    by = done["failed"][0] if done["failed"] else ended
    return {**row, "caught by": by, "seconds": round(done["seconds"], 1)}


def picked(every: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """Return so many mutants, from every file and kind in turn; where code changes, most of the choice stays."""

    def place(name: str) -> bytes:
        return hashlib.sha256(f"{seed} {name}".encode()).digest()

    strata, chosen = dict[str, list[Mutant]](), list[Mutant]()
    for one in sorted(every, key=lambda one: place(one.name)):
        strata.setdefault(f"{one.file} {one.kind}", []).append(one)
    while len(chosen) < min(count, len(every)):
        chosen += [strata[key].pop() for key in sorted(strata, key=place) if strata[key]]
    return chosen[:count]


def line_of(row: dict[str, Any]) -> str:
    """Return a row of the table as a line."""
    by = "NOT CAUGHT" if row["caught by"] is None else row["caught by"].split("/")[-1]
    return f"{row['file'].split('/')[-1]}:{row['line']}  {row['kind']}  {row['change']}  {by}  {row['seconds']} s"


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--file", action="append", help="below src/butfor; several are possible")
    parser.add_argument("--only", action="append", help="the ID of a mutant, as --list prints it")
    parser.add_argument("--missed", action="store_true", help="those that the file --out says were missed, again")
    parser.add_argument("--tests", action="append", help="tests to choose from, instead of the usual ones")
    parser.add_argument("--quick", action="store_true", help="without golden results and calibration")
    parser.add_argument("--list", action="store_true", help="print the mutants that would be tried, and stop")
    parser.add_argument("--most", type=float, default=150.0, help="CPU seconds of the tests that a mutant is shown to")
    kept = ROOT / "build/code_mutants"
    parser.add_argument("--kept", type=Path, default=kept, help="folder that remembers which tests execute what")
    parser.add_argument("--out", type=Path, help="write the table here, as JSON")
    asked = parser.parse_args(given)
    if unknown := [file for file in asked.file or [] if file not in files()]:
        print(f"code_mutants: there is no {unknown[0]} to mutate; there are {', '.join(files())}", file=sys.stderr)
        return 2
    same = json.loads(SAME.read_text(encoding="utf-8"))
    every = [one for file in asked.file or files() for one in mutants(source_of(file), file)]
    if missing := [name for name in asked.only or [] if name not in {one.name for one in every}]:
        print(f"code_mutants: there is no mutant {missing[0]!r}; --list prints what there is", file=sys.stderr)
        return 2
    earlier = json.loads(asked.out.read_text(encoding="utf-8"))["figures"]["mutants"] if asked.missed else []
    only = asked.only or [row["id"] for row in earlier if row["caught by"] is None and row["id"] not in same]
    chosen = [one for one in every if one.name in only] if asked.only or asked.missed else None
    chosen = picked(every, asked.count, asked.seed) if chosen is None else chosen
    if asked.list:
        for one in chosen:
            print(f"{one.kind:12}{one.name}" + ("   (computes the same)" if one.name in same else ""))
        return 0
    import hypothesis.strategies, pandas, pytest, scipy.stats, sklearn.ensemble  # noqa: E401, F401, I001  # for all

    start = time.perf_counter()
    tests = lines_of_tests(asked.tests or [*QUICK, *(() if asked.quick else WIDE)], asked.kept)
    tried_now: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        tree = copied(Path(folder))
        for one in chosen:
            tried_now.append({**tried(one, tree, tests, asked.most), "same": same.get(one.name)})
            print(line_of(tried_now[-1]), flush=True)
        by = sorted({row["caught by"] for row in tried_now if "::" in str(row["caught by"])})
        flaky = run_tests(tree, sorted({name.split("::")[0] for name in by}), Watch(by), 7200)["failed"] if by else []
    for name in flaky:  # it would have failed without the mutant, too
        print(f"code_mutants: {name} fails on the code as it is; what it caught counts as not caught", file=sys.stderr)
    rows = [{**row, "caught by": None if row["caught by"] in flaky else row["caught by"]} for row in tried_now]
    if asked.missed:
        again = {row["id"]: {**row, "missed at first": True} for row in rows}
        rows = [again.get(row["id"], row) for row in earlier]
    counted = [row for row in rows if row["same"] is None]
    caught = sum(row["caught by"] is not None for row in counted)
    share = caught / max(len(counted), 1)
    print(f"{caught} of {len(counted)} mutants caught ({share:.1%}), {len(rows) - len(counted)} that compute the same "
          f"left out; {len(every)} are possible; {time.perf_counter() - start:.0f} s")  # fmt: skip
    if asked.out:
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text(recorded(rows, len(every), given), encoding="utf-8")
    wrong = [row["id"] for row in rows if row["same"] and row["caught by"]]
    for name in wrong:
        print(f"code_mutants: {name} is called the same function, but a test tells it apart", file=sys.stderr)
    return int(share < ENOUGH or bool(wrong))


def recorded(rows: list[dict[str, Any]], possible: int, given: list[str] | None) -> str:
    """Return the rows as a file of benchmarks/results, counts by file and kind first."""
    from benchmarks.figures import record  # it imports the package, which forked processes must not have

    def counts(name: str) -> list[dict[str, Any]]:
        groups: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            groups.setdefault(row[name], []).append(row)
        return [
            {
                name: group,
                "mutants": sum(row["same"] is None for row in mine),
                "caught": sum(row["same"] is None and row["caught by"] is not None for row in mine),
                "missed at first": sum(row["same"] is None and row.get("missed at first", False) for row in mine),
                "compute the same": sum(row["same"] is not None for row in mine),
            }
            for group, mine in sorted(groups.items())
        ]

    command = shlex.join(["python", "-m", "tools.code_mutants", *(sys.argv[1:] if given is None else given)])
    figures = {"possible": possible, "files": counts("file"), "kinds": counts("kind"), "mutants": rows}
    text = json.dumps(record("mutants", command, {}, figures), indent=1)
    return re.sub(r"\n {4,}", " ", re.sub(r"\n {3}\}", "}", text)) + "\n"  # a line for each row


if __name__ == "__main__":
    sys.exit(main())
