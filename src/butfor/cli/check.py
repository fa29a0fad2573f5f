"""`butfor check-sampler`: is what is drawn from a reference like the reference?"""

from __future__ import annotations

from functools import partial
from json import dumps, loads
from pathlib import Path
from typing import Annotated

import typer

from butfor import check_sampler
from butfor.cli.common import bar, finish, working
from butfor.cli.options import MODEL, ROWS, TEST, Output, Trust, given
from butfor.cli.panels import command, needed, option, panel
from butfor.cli.tables import MODEL_HELP, REFERENCE_HELP, SamplerName, TableColumns, sampler_named, tables
from butfor.core.types import InputError
from butfor.report.folder import TABLE, write_files
from butfor.report.picture import save_png
from butfor.tabular.check_result import SamplerCheck
from butfor.tabular.splice import TableSampler

CHECK = "check.png"
SHARE = 0.2
BOX_HELP = f"Check also what the model says of the draws: {MODEL_HELP}"
DRAWS_HELP = "Counterfactuals of each held-out row. Default: 99."
ALPHA_HELP = "Share of checks that call a right sampler wrong. Default: 0.03."


@panel(ROWS)
class HeldOut:
    reference: Path = needed(REFERENCE_HELP)
    held_out: Path | None = option(
        "CSV or .parquet file with rows of the reference's own population that the sampler is not fitted on."
    )
    hold_out: float | None = option(f"Or the share of the reference to hold out, at random. Default: {SHARE}.")
    reference_where: str | None = option("Rows of the reference, such as \"diagnosis == 'benign'\".")
    held_out_where: str | None = option("Rows of the --held-out file, likewise.")

    def rows(self) -> dict[str, object]:
        """As the tables of a run: the held-out rows are its data."""
        self._check()
        where = {"data_where": self.held_out_where, "reference_where": self.reference_where}
        if self.held_out is not None:
            return {"data": self.held_out, "reference": self.reference, **where, "what": "held-out data"}
        share = SHARE if self.hold_out is None else self.hold_out
        return {"data": self.reference, **where, "hold_out": share, "what": "reference"}

    def _check(self) -> None:
        held_out, reference = self.held_out, self.reference
        if held_out is not None and self.hold_out is not None:
            raise InputError("--held-out and --hold-out were both given; use one of them")
        if held_out is None and self.held_out_where is not None:
            raise InputError("--held-out-where picks rows of the --held-out file, and none was given; name it")
        if held_out is not None and held_out.exists() and reference.exists() and held_out.samefile(reference):
            raise InputError(
                f"--held-out {held_out} is the reference itself, which the sampler is fitted on; use --hold-out {SHARE}"
            )


@command(without=("index",))
def check(
    *,
    held: HeldOut,
    model: Annotated[str | None, typer.Option(help=BOX_HELP, rich_help_panel=MODEL)] = None,
    columns: TableColumns,
    sampler: SamplerName = "auto",
    draws: Annotated[int | None, typer.Option(help=DRAWS_HELP, rich_help_panel=TEST)] = None,
    alpha: Annotated[float | None, typer.Option(help=ALPHA_HELP, rich_help_panel=TEST)] = None,
    trust: Trust,
    output: Output,
) -> None:
    """Hold a sampler against held-out rows; print verdicts and scores by feature, write table.csv and check.png.

    The exit code is 0 whatever the verdict is.
    """
    with working(output):
        make, rows = sampler_named(sampler), held.rows()
        box = None if model is None else trust.load(model)
        read = tables(columns, box, **rows, seed=output.seed)
        asked = given(subsets=columns.groups(), draws=draws, alpha=alpha)
        made = make(read.reference)
        found = check_sampler(made, read.data, box, seed=output.seed, progress=bar(output), **asked)
        files = {
            TABLE: lambda path: found.table.to_csv(path, index=False),
            CHECK: lambda path: save_png(found.plot, path, len(found.verdicts)),
        }
        write_files(files, output.out)
    words = partial(_in_words, found, made, read.sources["data"])
    finish(output, words, partial(_as_json, found, repr(made)), {"Picture": CHECK, "Table": TABLE})


def _in_words(found: SamplerCheck, sampler: object, rows: str) -> str:
    why = f"{sampler.why}\n" if isinstance(sampler, TableSampler) and sampler.why else ""
    return f"{why}{sampler!r}, checked on {rows}\n\n{found.summary()}"


def _as_json(found: SamplerCheck, sampler: str) -> str:
    """The check as JSON."""
    described = {"sampler": sampler, "ok": found.ok, "headline": found.headline, "sentence": found.sentence}
    together = {"together": found.together, "together_p": found.together_p, "alpha": found.alpha}
    counts = {"rows": found.rows, "draws": found.draws, "left_out": list(found.left_out), "notes": list(found.notes)}
    return dumps({**described, **together, **counts, "table": loads(found.table.to_json(orient="records"))})
