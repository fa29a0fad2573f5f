"""The command `butfor validate`: a pack for the user's own model, table and reference, or the verification of one."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from butfor.cli.options import CALLED, MODEL, TEST, Output, Trust, bar, command, finish, library_settings, opt
from butfor.cli.options import working as writing
from butfor.cli.tables import DATA_HELP, MODEL_HELP, Columns, Rows, SamplerName
from butfor.report.write import RESULT
from butfor.tabular.files import sampler_named
from butfor.types import InputError
from butfor.untrusted import read_bounded
from butfor.validation.checks import SIZES
from butfor.validation.run import BILL, FACTS, MANIFEST, PAGE, seal_of, verify

PACK = "The pack"
USE_HELP = "What the explanations are for: a sentence, or a text file (UTF-8); printed in the pack."
LIMITS_HELP = "What they must not be used for: likewise."
SIZE_HELP = f"How much is simulated: {', '.join(SIZES)}."
VERIFY_HELP = "Check a pack instead: are files and verdicts as they were written? Exit code 3 if not."
LONGEST = 100_000  # bytes of a text


@dataclass(frozen=True, kw_only=True)
class PackRows(Rows):
    """Where rows come from; nothing is needed for --verify."""

    data: Annotated[Path | None, opt(DATA_HELP)] = None  # type: ignore[assignment]


@dataclass(frozen=True, kw_only=True)
class PackOutput(Output):
    """Where the pack is written; nothing is needed for --verify."""

    out: Annotated[Path | None, opt("Folder to write into; it is made if need be.")] = None  # type: ignore[assignment]


@command(only=("alpha", "target", "decide"), without=("subsets",))
def validate(
    *,
    model: Annotated[str | None, opt(MODEL_HELP, panel=MODEL)] = None,
    trust: Trust,
    rows: PackRows,
    columns: Columns,
    sampler: SamplerName = "auto",
    size: Annotated[str, opt(SIZE_HELP, panel=TEST)] = "standard",
    intended_use: Annotated[str, opt(USE_HELP, panel=PACK)] = "",
    limits: Annotated[str, opt(LIMITS_HELP, panel=PACK)] = "",
    check: Annotated[Path | None, opt(VERIFY_HELP, "--verify", panel=PACK)] = None,
    output: PackOutput,
    **settings: Any,
) -> None:
    """Test the explanations of a model on its own data; write a validation pack to be signed.

    Exit code 0: every requirement that could be tested is met. 3: one is not, or a pack that is verified was changed.
    """
    if check is not None:
        wrong = verify(check)
        if wrong:
            typer.echo("\n".join([f"The pack {check} does not verify:", *wrong]))
            raise typer.Exit(3)
        seal = f"SHA-256 of {FACTS}: {seal_of(check)}\nCompare it with the signed page."
        typer.echo(f"The pack {check} is as written.\n{seal}")
        return
    given = {"--model": model, "--data": rows.data, "--out": output.out}
    if missing := ", ".join(name for name, value in given.items() if value is None):
        raise InputError(f"{missing} is missing; give a model, data, a reference and --out, or --verify PACK")
    assert model is not None
    assert output.out is not None
    from butfor.validation import run

    with writing(output):
        fit, box = sampler_named(sampler), trust.load(model)
        read = columns.read_tables(box, **vars(rows))
        validation = run.validate(
            box, read.data, read.reference, sampler=None if sampler == "auto" else fit, size=size,  # type: ignore[arg-type]
            reference_groups=read.reference_groups,
            intended_use=_text(intended_use, "--intended-use"), limits=_text(limits, "--limits"), seed=output.seed,
            files=_files(model, rows), command=shlex.join(["butfor", *CALLED.get("arguments", [])]),
            progress=bar(output), **library_settings(settings, box),
        )  # fmt: skip
        seal = validation.write(output.out)
    names = {"Page": PAGE, "Figures": FACTS, "Result": RESULT, "Bill": BILL, "Manifest": MANIFEST}
    if validation.result is None:
        del names["Result"]
    words = f"{validation.summary()}\n\nSHA-256 of {FACTS}: {seal}"
    finish(output, lambda: words, validation.to_json, names)
    if not validation.passed:
        raise typer.Exit(3)


def _text(given: str, option: str) -> str:
    """Return a sentence as it is, or what a text file holds."""
    if not given.endswith((".txt", ".md")):
        return given
    try:
        return read_bounded(Path(given), option, LONGEST).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{option} {Path(given)} is not UTF-8; save it again as UTF-8") from error


def _files(model: str, rows: Rows) -> dict[str, Path]:
    """Return the files whose hashes go into the pack; a model at an address has none."""
    path = Path(model.rpartition(":")[0] if ".py:" in model else model)
    named: Sequence[tuple[str, Path | None]] = (("model", path), ("data", rows.data), ("reference", rows.reference))
    return {name: one for name, one in named if one is not None and one.is_file()}
