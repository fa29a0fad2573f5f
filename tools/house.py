"""The house in numbers: what a reviewer would count in src, printed with what we allow. `--by` lists it by folder.

python tools/house.py [--by]
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src" / "butfor"
ALLOWED = {
    "getattr and hasattr": 40,
    "isinstance on arrays in core": 0,
    "Any in signatures": 250,
    "class names that stand twice": 0,
    "lines": 23_000,
    "median module": 130,
    "longest module": 400,
    "functions over 50 lines": 6,
    "underscore modules in the root": 1,
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One file, read once."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def folder(self) -> str:
        parts = self.path.relative_to(SRC).parts
        return parts[0] if len(parts) > 1 else "root"

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def functions(self) -> list[Function]:
        return [node for node in ast.walk(self.tree) if isinstance(node, Function)]

    @property
    def probes(self) -> int:
        """Calls of getattr and hasattr."""
        names = (node.func for node in ast.walk(self.tree) if isinstance(node, ast.Call))
        return sum(isinstance(name, ast.Name) and name.id in ("getattr", "hasattr") for name in names)

    @property
    def anys(self) -> int:
        """Arguments and returned values that are annotated with nothing but Any."""
        return sum(isinstance(note, ast.Name) and note.id == "Any" for f in self.functions for note in annotations(f))

    @property
    def array_checks(self) -> int:
        return len(re.findall(r"isinstance\([^)]*ndarray", self.text)) if self.folder == "core" else 0

    @property
    def classes(self) -> list[str]:
        return [node.name for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]

    @property
    def long_functions(self) -> list[str]:
        return [f"{self.path.relative_to(SRC)}:{f.name}" for f in self.functions if (f.end_lineno or 0) - f.lineno > 49]


def annotations(function: Function) -> list[ast.expr | None]:
    """What stands behind the arguments and the arrow of a function."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return [*(argument.annotation for argument in every if argument is not None), function.returns]


def modules() -> list[Module]:
    """Every Python file of the package."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(SRC.rglob("*.py"))}
    return [Module(path, text, ast.parse(text)) for path, text in texts.items()]


def counted(found: list[Module]) -> dict[str, float]:
    """Each number of ALLOWED."""
    classes = Counter(name for module in found for name in module.classes)
    sizes = [module.lines for module in found]
    return {
        "getattr and hasattr": sum(module.probes for module in found),
        "isinstance on arrays in core": sum(module.array_checks for module in found),
        "Any in signatures": sum(module.anys for module in found),
        "class names that stand twice": sum(count > 1 for count in classes.values()),
        "lines": sum(sizes),
        "median module": statistics.median(sizes),
        "longest module": max(sizes),
        "functions over 50 lines": sum(len(module.long_functions) for module in found),
        "underscore modules in the root": sum(
            module.folder == "root" and re.match(r"_[a-z]", module.path.name) is not None for module in found
        ),
    }


def by_folder(found: list[Module]) -> str:
    """Where the numbers come from."""
    lines = [f"{'folder':<12} lines  probes  Any  long functions"]
    for folder in sorted({module.folder for module in found}):
        own = [module for module in found if module.folder == folder]
        totals = (sum(getattr(module, name) for module in own) for name in ("lines", "probes", "anys"))
        cells = "  ".join(f"{total:>5}" for total in totals)
        lines.append(f"{folder:<12} {cells}  {', '.join(name for module in own for name in module.long_functions)}")
    twice = Counter(name for module in found for name in module.classes)
    lines.append(f"classes twice: {', '.join(sorted(name for name, count in twice.items() if count > 1)) or 'none'}")
    lines.append(f"over 400 lines: {', '.join(m.path.name for m in found if m.lines > 400) or 'none'}")
    return "\n".join(lines)


def main() -> int:
    """Print the numbers; 1 if one is more than we allow."""
    found = modules()
    numbers = counted(found)
    for name, number in numbers.items():
        verdict = "" if number <= ALLOWED[name] else "   <- too many"
        print(f"{name:<32} {number:>8,g}   allowed {ALLOWED[name]:>6,}{verdict}")
    if "--by" in sys.argv:
        print("\n" + by_folder(found))
    return int(any(number > ALLOWED[name] for name, number in numbers.items()))


if __name__ == "__main__":
    sys.exit(main())
