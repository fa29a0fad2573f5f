"""The commands on tables: `butfor explain`, `butfor global`, `butfor treatment` and `butfor check-sampler`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from butfor.cli.options import (
    MODEL,
    ROWS,
    TEST,
    Output,
    Trust,
    bar,
    command,
    finish,
    kept,
    library_settings,
    opt,
    stopped_early,
    working,
    written,
)
from butfor.combine import combine as choose_over
from butfor.report.write import REPORT, RESULT, TABLE, save_png, write_folder
from butfor.results.io import write_files
from butfor.settings import Procedure, few_shot, irt, sequential
from butfor.tabular.files import SAMPLERS, TableRequest, Tables, read_subsets, read_tables, sampler_named
from butfor.types import InputError

MODEL_HELP = (
    "file.onnx, file.skops, file.py:function (from a pandas DataFrame of the feature columns to one number per row or "
    "one column per output), an http(s) address of the Open Inference Protocol V2, or a .pkl, .pickle or .joblib file "
    "with --trust-pickle."
)
REFERENCE_HELP = "CSV or .parquet file with what you compare against: controls, the other class, last year."
SAMPLER_HELP = f"Sampler of counterfactuals, fitted on the reference: {', '.join(SAMPLERS)} (see samplers.md)."
DATA_HELP = (
    "CSV (UTF-8, one header line) or .parquet file with the rows to explain. Columns may hold numbers, yes and no, "
    "text and, in Parquet, times; some may be missing."
)
REFERENCE_WHERE_HELP = (
    "Rows of the reference, such as \"diagnosis == 'benign'\". Without --reference it splits the data: the rows it "
    "matches are the reference, the others are explained."
)
REFERENCE_GROUPS_HELP = "Column of the reference whose equal values mark rows that belong together; not for the model."
DROP_HELP = (
    "Columns that are not for the model: a,b,c. Text columns that are named in an expression which picks rows are left "
    "out anyway, numbers are not."
)
SUBSETS_HELP = (
    "What to test: zoom (from all columns over groups down to single ones: the default), columns (each by itself), or "
    'a JSON file: {"name": ["column", ...]}, a mapping of such mappings, or a list.'
)
ModelName = Annotated[str, opt(MODEL_HELP, panel=MODEL)]
SamplerName = Annotated[str, opt(SAMPLER_HELP, panel=TEST)]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Where rows come from."""

    panel = ROWS
    data: Annotated[Path, opt(DATA_HELP)]
    reference: Annotated[Path | None, opt(REFERENCE_HELP)] = None
    reference_where: Annotated[str | None, opt(REFERENCE_WHERE_HELP)] = None
    data_where: Annotated[str | None, opt('Rows to explain, such as "age > 40 and `my column` != 0".')] = None
    reference_groups: Annotated[str | None, opt(REFERENCE_GROUPS_HELP)] = None


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Columns of the tables, and the subsets of them to test."""

    panel = ROWS
    features: Annotated[
        list[str] | None, opt("Columns for the model, in this order: a,b,c. Default: what it was fitted on, or all.")
    ] = None
    drop: Annotated[list[str] | None, opt(DROP_HELP)] = None
    dates: Annotated[list[str] | None, opt("Text columns with dates to read as times: a,b. ISO 8601, 2024-02-29.")] = (
        None
    )
    categories: Annotated[
        list[str] | None, opt("Columns to give the model as pandas categories: a,b. Default: text stays text.")
    ] = None
    index: Annotated[str | None, opt("Column with the names of the rows; not for the model.")] = None
    subsets: Annotated[Path | None, opt(SUBSETS_HELP)] = None

    def read_subsets(self) -> str | dict[str, Any] | list[Any] | None:
        if self.subsets is None or self.subsets.name in ("zoom", "columns"):
            return None if self.subsets is None else self.subsets.name
        return read_subsets(self.subsets)

    def read_tables(self, model: object, **rows: Any) -> Tables:
        """Read the rows to explain and the reference, with the columns for the model, which may know them itself."""
        from butfor.models import wrap

        known = None if model is None else wrap(model).columns
        columns = {name: value for name, value in vars(self).items() if name != "subsets"}
        given = {name: value for name, value in (columns | rows).items() if value is not None}
        return read_tables(TableRequest(**given, known=None if known is None else list(map(str, known))))


TRUTH_HELP = "Column with the true labels, for --target truth; not for the model."
CLUSTERS_HELP = "Column whose equal values mark rows that belong together, as several of one person; not for the model."
EARLY_STOP_HELP = "With --test irt: the same answer for fewer model evaluations."


@command()
def explain(
    *,
    model: ModelName,
    trust: Trust,
    rows: Rows,
    columns: Columns,
    truth: Annotated[str | None, opt(TRUTH_HELP, panel=ROWS)] = None,
    clusters: Annotated[str | None, opt(CLUSTERS_HELP, panel=ROWS)] = None,
    sampler: SamplerName = "auto",
    h: Annotated[int | None, opt("Exceedances at which the sequential test stops. Default: 10.", panel=TEST)] = None,
    early_stop: Annotated[bool, opt(EARLY_STOP_HELP, "--early-stop", panel=TEST)] = False,
    scale: Annotated[str | None, opt("shrunk: for --test few-shot where subsets differ in scale.", panel=TEST)] = None,
    output: Output,
    **settings: Any,
) -> None:
    """Test the features of every row of a table; write result.butfor, table.csv and report.html."""
    from butfor import explain as run

    if settings.get("target") == "truth" and truth is None:
        raise InputError("--target truth needs the true labels; name their column with --truth")
    name, options = settings.get("test", "sequential"), {"h": h, "early-stop": early_stop or None, "scale": scale}
    makers: tuple[Callable[..., Procedure], ...] = (sequential, irt, few_shot)
    for (option, value), maker in zip(options.items(), makers, strict=True):
        if value is not None:
            settings["test"] = maker(**{option.replace("-", "_"): value})
            if settings["test"].name != name:
                raise InputError(f"--{option} is for --test {settings['test'].name}, not for {name}; drop it")
    with working(output):
        fit, box = sampler_named(sampler), trust.load(model)
        read = columns.read_tables(box, **vars(rows), truth=truth, clusters=clusters)
        if truth is not None:
            settings.setdefault("target", "truth")
        typed_settings, subsets = library_settings(settings, box), columns.read_subsets()
        with kept(typed_settings.pop("run_dir", None), output.out) as run_dir:
            groups: dict[str, Any] = {"groups": read.clusters, "reference_groups": read.reference_groups}
            result = run(
                box, read.data, fit(read.reference), subsets=subsets, y=read.truth, **groups, **output.how(run_dir),
                **typed_settings,
            )  # fmt: skip
            result = written(result, output, model=model, **read.sources)
    finish(output, result.summary, result.to_json)
    stopped_early(result, output)


IMPORTANCE = "importance.png"
LABELS_HELP = (
    "Column with the true labels of rows that the model was not fitted on: tests which features its skill rests on. "
    "The reference is then the population of the data (default: the data itself). Without labels: which features set "
    "the data apart from the reference."
)
LOSS_HELP = "With --labels: squared or log. Default: log for several outputs, else squared."
PASSES_HELP = "Recombinations of them, which cost no model evaluations. Default: 999."
GLOBAL = ("alpha", "rule", "alternative", "target", "link", "draws", "exact", "batch_rows", "workers", "run_dir")


@command(
    only=(*GLOBAL, "on_error", "timeout"),
    without=("index",),
    rule="One of bh, by, holm, bonferroni.",
    target="Without --labels, which output: its label or number, or predicted.",
    draws="Counterfactuals of each row. Default: 20.",
)
def global_(
    *,
    model: ModelName,
    trust: Trust,
    rows: Rows,
    labels: Annotated[str | None, opt(LABELS_HELP, "--labels", "--truth", panel=ROWS)] = None,
    columns: Columns,
    sampler: SamplerName = "auto",
    loss: Annotated[str | None, opt(LOSS_HELP, panel=TEST)] = None,
    passes: Annotated[int | None, opt(PASSES_HELP, panel=TEST)] = None,
    output: Output,
    **settings: Any,
) -> None:
    """Test every feature once, over all rows together; write a report, a picture, the table and the result."""
    from butfor.tabular.global_importance import global_importance

    with working(output):
        fit, box = sampler_named(sampler), trust.load(model)
        named = {"truth": labels, "truth_option": "--labels", "itself": labels is not None}
        read = columns.read_tables(box, **vars(rows), **named)
        typed_settings = library_settings(settings, box)
        with kept(typed_settings.pop("run_dir", None), output.out) as run_dir:
            typed_settings |= {"loss": loss, "passes": passes, "subsets": columns.read_subsets()}
            result = global_importance(
                box, read.data, None if read.truth is None else np.asarray(read.truth), reference=fit(read.reference),
                reference_groups=read.reference_groups, **output.how(run_dir), **typed_settings,
            )  # fmt: skip
            result = result.with_sources(model=model, **read.sources)
            picture = {IMPORTANCE: lambda path: save_png(result.plot, path, len(result.chosen))}
            write_folder(result, output.out, picture)
    names = {"Report": REPORT, "Picture": IMPORTANCE, "Table": TABLE, "Result": RESULT}
    finish(output, result.summary, result.to_json, names)


ATTRIBUTE_HELP = (
    "Column with the protected attribute, or several, whose combinations are asked about: sex,band. Where the model "
    "does not get it, name it in --drop as well, unless the model knows its columns."
)
LEGITIMATE_HELP = "Columns that may differ between people for good reasons, and always stay as they are: a,b,c."
PROXIES_HELP = "Columns that tell the attribute, and are redrawn together with it: a,b,c."
FAVOURABLE_HELP = (
    "The decision that people hope for: a class, or true or false with --decide. Only people without it are asked "
    "about. Default: any change of the decision counts."
)
PEOPLE_HELP = "Column whose equal values mark rows of one person, who is counted once; not for the model."


@command(
    only=("decide", "level", "alpha", "draws", "batch_rows", "timeout", "workers", "run_dir"),
    without=("subsets",),
    alpha="At most this share of the people accused is accused wrongly, on average. Default: 0.1.",
    level="The decision is otherwise if it is in more than this share of the draws. Default: 0.5.",
    draws="Of each person and value, at most. Default: 200.",
)
def treatment(
    *,
    model: ModelName,
    trust: Trust,
    rows: Rows,
    attribute: Annotated[list[str], opt(ATTRIBUTE_HELP, panel=TEST)],
    legitimate: Annotated[list[str] | None, opt(LEGITIMATE_HELP, panel=TEST)] = None,
    proxies: Annotated[list[str] | None, opt(PROXIES_HELP, panel=TEST)] = None,
    favourable: Annotated[str | None, opt(FAVOURABLE_HELP, panel=TEST)] = None,
    columns: Columns,
    clusters: Annotated[str | None, opt(PEOPLE_HELP, panel=ROWS)] = None,
    output: Output,
    **settings: Any,
) -> None:
    """Ask of every person whether the decision would have been otherwise but for a protected attribute."""
    from butfor import treatment as run
    from butfor.models import wrap

    with working(output):
        box = trust.load(model)
        named, known = _split(attribute), wrap(box).columns
        given = _split(columns.features) or list(known or ())
        beside = [one for one in named if one in _split(columns.drop) or (given and one not in given)]
        if beside:
            drop = [one for one in _split(columns.drop) if one not in beside]
            columns = replace(columns, drop=drop or None, features=[*given, *beside] if given else None)
        read = columns.read_tables(box, **vars(rows), clusters=clusters)
        typed_settings, compared = library_settings(settings, box), dict[str, Any](attribute=named)
        frames = [read.data, read.reference]
        if beside:
            if lacking := [one for one in named if one not in read.data.columns]:
                raise InputError(f"--attribute: there is no column {lacking[0]!r}")
            values = [frame[named].astype(str).agg(" / ".join, axis=1).where(frame[named].notna().all(axis=1))
                      for frame in frames]  # fmt: skip
            compared = {"attribute": values[0].rename(" x ".join(named)), "reference_attribute": values[1]}
            frames = [frame.drop(columns=beside) for frame in frames]
        with kept(typed_settings.pop("run_dir", None), output.out) as run_dir:
            result = run(
                box, frames[0], frames[1], **compared, legitimate=_split(legitimate) or None,
                proxies=_split(proxies) or None,
                favourable=_favourable(favourable, wrap(box).classes, decides="decide" in settings),
                groups=read.clusters, reference_groups=read.reference_groups, **output.how(run_dir), **typed_settings,
            )  # fmt: skip
            write_files({TABLE: lambda path: result.table.to_csv(path, index=False), REPORT: result.report}, output.out)
    finish(output, result.summary, result.to_json, {"Report": REPORT, "Table": TABLE})


def _split(entries: list[str] | None) -> list[str]:
    """Return the names of an option that may be repeated, or hold several with commas between."""
    return [name for entry in entries or () for name in entry.split(",") if name]


def _favourable(typed: str | None, classes: tuple[Any, ...] | None, *, decides: bool) -> Any:
    """Return what was typed as a class of the model, or as what an expression gives."""
    if typed is None:
        return None
    if decides:
        if typed.lower() not in ("true", "false"):
            raise InputError(f"--favourable must be true or false with --decide, got {typed!r}")
        return typed.lower() == "true"
    return next((one for one in classes or () if str(one) == typed), typed)


CHECK, SHARE = "check.png", 0.2
HELD_OUT_HELP = "CSV or .parquet file with rows of the population of the reference that the sampler is not fitted on."
BOX_HELP = f"Compare also the outputs on real rows and on draws: {MODEL_HELP}"


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Rows that the sampler is fitted on, and rows that it is checked on."""

    panel = ROWS
    reference: Annotated[Path, opt(REFERENCE_HELP)]
    held_out: Annotated[Path | None, opt(HELD_OUT_HELP)] = None
    hold_out: Annotated[
        float | None, opt(f"Or the share of the reference to hold out, at random. Default: {SHARE}.")
    ] = None
    reference_where: Annotated[str | None, opt("Rows of the reference, such as \"diagnosis == 'benign'\".")] = None
    held_out_where: Annotated[str | None, opt("Rows of the --held-out file, likewise.")] = None

    def rows(self) -> dict[str, object]:
        """Return the tables as those of a run, whose data are the held-out rows."""
        held_out, reference = self.held_out, self.reference
        where = {"data_where": self.held_out_where, "reference_where": self.reference_where}
        if held_out is None:
            if self.held_out_where is not None:
                raise InputError("--held-out-where picks rows of the --held-out file, and none was given; name it")
            share = SHARE if self.hold_out is None else self.hold_out
            return {"data": reference, **where, "hold_out": share, "what": "reference"}
        if self.hold_out is not None:
            raise InputError("--held-out and --hold-out were both given; use one of them")
        if held_out.exists() and reference.exists() and held_out.samefile(reference):
            words = f"is the reference itself, which the sampler is fitted on; use --hold-out {SHARE}"
            raise InputError(f"--held-out {held_out} {words}")
        return {"data": held_out, "reference": reference, **where, "what": "held-out data"}


@command(
    only=("draws", "alpha"),
    without=("index",),
    draws="Counterfactuals of each held-out row. Default: 99.",
    alpha="Share of checks that call a right sampler wrong. Default: 0.03.",
)
def check(
    *,
    held_out: HeldOut,
    model: Annotated[str | None, opt(BOX_HELP, panel=MODEL)] = None,
    columns: Columns,
    sampler: SamplerName = "auto",
    trust: Trust,
    output: Output,
    **settings: Any,
) -> None:
    """Compare a sampler with held-out rows; print verdicts and scores by feature, write table.csv and check.png.

    The exit code is 0 whatever the verdict is.
    """
    from butfor import check_sampler

    with working(output):
        fit, rows = sampler_named(sampler), held_out.rows()
        box = None if model is None else trust.load(model)
        read = columns.read_tables(box, **rows, seed=output.seed)
        subsets = columns.read_subsets()
        fitted = fit(read.reference)
        same: dict[str, Any] = {"subsets": subsets, "seed": output.seed, "progress": bar(output)}
        checked = check_sampler(fitted, read.data, box, **same, **settings)
        files: dict[str, Callable[[Path], object]] = {
            TABLE: lambda path: checked.table.to_csv(path, index=False),
            CHECK: lambda path: save_png(checked.plot, path, len(checked.verdicts)),
        }
        write_files(files, output.out)

    def as_json() -> str:
        names = ("ok", "headline", "sentence", "together", "together_p", "alpha", "rows", "draws", "left_out")
        described = {"sampler": repr(fitted), **{name: getattr(checked, name) for name in names}}
        table = json.loads(checked.table.to_json(orient="records"))
        return json.dumps({**described, "notes": list(map(str, checked.notes)), "table": table})

    words = f"{why}\n" if (why := getattr(fitted, "why", "")) else ""
    words += f"{fitted!r}, checked on {read.sources['data']}\n\n"
    finish(output, lambda: words + checked.summary(), as_json, {"Picture": CHECK, "Table": TABLE})


def combine(
    files: Annotated[list[Path], typer.Argument(help="Files written by result.save, or folders with result.butfor.")],
    out: Annotated[Path, typer.Option(help="Table of what is chosen, .csv or .parquet.")],
    alpha: Annotated[float, typer.Option(help="Error rate over all files together.")] = 0.1,
    rule: Annotated[str | None, typer.Option(help="As in explain. Default: that of the runs.")] = None,
) -> None:
    """Choose over the results of many runs at once: chunks of a large table, jobs of a cluster."""
    combined = choose_over([file / RESULT if file.is_dir() else file for file in files], alpha, rule)
    path = combined.write(out)
    typer.echo(f"{combined.summary()}\n\nTable: {path}")
