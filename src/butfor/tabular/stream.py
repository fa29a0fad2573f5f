"""Tables that do not fit into memory: tested block by block, chosen over the whole file at the end."""

from __future__ import annotations

import csv
import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.evaluation.hypotheses import BLOCK_VALUES, table_problem
from butfor.evaluation.samplers import info_of
from butfor.inference.streaming import adaptive_streamed, bh_threshold, knockoff_plus_threshold
from butfor.models.wrap import is_frame, model_name, one_line
from butfor.results.notes import reach
from butfor.results.result import Result, family_members
from butfor.results.words import Guarantee, Note
from butfor.run.run import RunContext, run
from butfor.settings import Settings
from butfor.tabular.explain import default_batch_rows, reference_of, sampler_notes_of, subset_tree
from butfor.tabular.files import (
    PARQUET,
    TableRequest,
    check_header,
    check_lines,
    evaluated,
    framed,
    listed,
    matches,
    model_columns,
    named_rows,
    plain_types,
    read_table,
    same_file,
    typed,
)
from butfor.tabular.splice import bind_model, bind_sampler, is_data
from butfor.tabular.subsets import is_nested
from butfor.tabular.table import Table, as_frame, items_of
from butfor.types import Bools, Floats, InputError, ReachWarning, whole

if TYPE_CHECKING:
    import pandas as pd


READ = 65_536  # rows that are read at a time


def read_blocks(path: Path, what: str, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
    """The rows of a CSV or Parquet file, some at a time, each column of the same type throughout."""
    if path.suffix.lower() not in PARQUET:
        yield from _csv_blocks(path, what)
        return
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise InputError(
            f"the {what} {path} is Parquet, which needs pyarrow; pip install 'butfor[parquet]', or give a CSV file"
        ) from error
    try:
        with open(path, "rb") as file:
            yield from _parquet_blocks(arrow, parquet.ParquetFile(file), path, what, columns)
    except OSError as error:
        reason = error.strerror or one_line(error)
        raise InputError(f"the {what} {path} cannot be read: {reason}; name a Parquet file") from error
    except arrow.ArrowException as error:
        raise InputError(f"the {what} {path} cannot be read as Parquet: {one_line(error)}") from error


def _parquet_blocks(
    arrow: Any, file: Any, path: Path, what: str, columns: Sequence[str] | None
) -> Iterator[pd.DataFrame]:
    import pandas as pd

    gappy, start = _gappy(file), 0
    for batch in file.iter_batches(batch_size=READ, columns=columns):
        table = plain_types(arrow, arrow.Table.from_batches([batch]), path, what)
        frame = framed(table)
        if isinstance(frame.index, pd.RangeIndex):  # rows are numbered through, whatever block they are in
            frame.index = pd.RangeIndex(start, start + len(frame))
        kinds = {name: frame[name].dtype for name in gappy.intersection(frame.columns)}
        frame = frame.astype(
            {name: float if kind.kind in "iu" else object for name, kind in kinds.items() if kind.kind in "iub"}
        )
        if not start:
            check_header(list(map(str, frame.columns)), path, what)
        start += len(frame)
        yield frame


def _gappy(file: Any) -> set[str]:
    """Columns in which some value is missing, or may be: pandas then has no whole numbers in any of their blocks."""
    found = set()
    for group in range(file.metadata.num_row_groups):
        for place in range(file.metadata.num_columns):
            column = file.metadata.row_group(group).column(place)
            known = column.statistics
            if known is None or not known.has_null_count or known.null_count:
                found.add(column.path_in_schema)
    return found


def _csv_blocks(path: Path, what: str) -> Iterator[pd.DataFrame]:
    import pandas as pd

    check_lines(path, what)
    try:
        kinds: dict[str, set[Any]] = {}
        with pd.read_csv(path, encoding="utf-8", index_col=False, chunksize=READ) as parts:
            for part in parts:
                for name, dtype in part.dtypes.items():
                    kinds.setdefault(str(name), set()).add(dtype)
        types = {name: one for name, some in kinds.items() if (one := _common(some)) is not None}
        with pd.read_csv(path, encoding="utf-8", index_col=False, chunksize=READ, dtype=types) as parts:
            yield from parts
    except (pd.errors.ParserError, ValueError) as error:
        raise InputError(f"the {what} {path} cannot be read as CSV: {one_line(error)}") from error


def _common(kinds: set[Any]) -> Any:
    """The type that reading the file as a whole would give a column; None: pandas finds it out itself."""
    letters = {kind.kind for kind in kinds}
    if len(kinds) == 1:
        return None if letters == {"O"} else next(iter(kinds))
    if letters <= set("iu"):
        return "float64" if letters == {"i", "u"} else max(kinds, key=lambda kind: kind.itemsize)
    return "float64" if letters <= set("iuf") else object if "O" in letters and letters != {"O", "b"} else None


def in_blocks(frames: Iterable[pd.DataFrame], rows: int) -> Iterator[pd.DataFrame]:
    """The same rows in blocks of exactly so many, but for the last."""
    import pandas as pd

    kept: list[pd.DataFrame] = []
    for frame in frames:
        kept.append(frame)
        while sum(map(len, kept)) >= rows:
            whole = kept[0] if len(kept) == 1 else pd.concat(kept)
            yield whole.iloc[:rows]
            kept = [whole.iloc[rows:]]
    if sum(map(len, kept)):
        yield kept[0] if len(kept) == 1 else pd.concat(kept)


class BlockWriter:
    """A table that is written a block at a time, by its ending as Parquet or CSV."""

    def __init__(self, path: Path) -> None:
        self.path, self._file, self._writer = path, None, None  # type: Path, Any, Any

    def __enter__(self) -> BlockWriter:
        return self

    def __exit__(self, *_: object) -> None:
        for part in (self._writer, self._file):
            if part is not None and not isinstance(part, bool):
                part.close()

    def write(self, frame: pd.DataFrame) -> None:
        if self.path.suffix.lower() not in PARQUET:
            if self._file is None:
                self._file = open(self.path, "w", encoding="utf-8", newline="")  # noqa: SIM115
            frame.to_csv(self._file, index=False, header=self._file.tell() == 0, quoting=csv.QUOTE_MINIMAL)
            return
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        schema = None if self._writer is None else self._writer.schema
        try:
            table = arrow.Table.from_pandas(frame, schema=schema, preserve_index=False)
        except arrow.ArrowException as error:
            raise InputError(
                f"the names of the inputs are of another type than in earlier blocks ({one_line(error)}); give all "
                "rows names of one type"
            ) from error
        if self._writer is None:
            self._writer = parquet.ParquetWriter(self.path, table.schema)
        self._writer.write_table(table)


def usual_ending() -> str:
    """.parquet where pyarrow is there, else .csv."""
    return ".parquet" if find_spec("pyarrow") is not None else ".csv"


def written_blocks(path: Path, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
    """What a BlockWriter wrote, block by block; numbers are the same bits."""
    if path.suffix.lower() in PARQUET:
        with open(path, "rb") as file:
            for batch in import_module("pyarrow.parquet").ParquetFile(file).iter_batches(READ * 4, columns=columns):
                yield batch.to_pandas()
        return
    import pandas as pd

    exact = dict.fromkeys(("observed", "p", "z"), str)  # not all versions of pandas read back what they wrote
    with pd.read_csv(path, chunksize=READ * 4, usecols=columns, dtype=exact) as frames:  # type: ignore[arg-type]
        for frame in frames:
            yield frame.astype({name: float for name in exact if name in frame.columns})


@dataclass(frozen=True, eq=False)
class StreamedResult:
    """What `explain_stream` found: the file with every hypothesis, and what is to be said of it."""

    path: Path
    hypotheses: int
    tested: int
    chosen: int
    by_subset: dict[str, int]  # chosen rows of each subset
    threshold: float | None  # of p at most, of z at least; None: weighted
    rows: int = 0
    model_rows: int = 0
    guarantee: Guarantee | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<butfor stream: {self.chosen} of {self.hypotheses} hypotheses chosen, in {self.path}>"

    def summary(self) -> str:
        """The result in a few lines."""
        most = sorted(self.by_subset.items(), key=lambda pair: -pair[1])[:10]
        lines = [
            f"{self.chosen:,} of {self.hypotheses:,} hypotheses on {self.rows:,} rows chosen "
            f"({self.model_rows:,} rows asked of the model).",
            *(f"  {name}: in {count:,} rows" for name, count in most if count),
            str(self.guarantee),
            *self.notes,
        ]
        return "\n".join(lines)

    def to_json(self) -> str:
        """The same for programs."""
        told = {name: value for name, value in vars(self).items() if name not in ("path", "guarantee", "threshold")}
        finite = self.threshold is not None and np.isfinite(self.threshold)
        threshold = self.threshold if finite else None
        return json.dumps(
            {"table": str(self.path), **told, "threshold": threshold, "guarantee": str(self.guarantee)}, indent=1
        )


def choose_streamed(part: Path, out: Path, settings: Settings, floor: float, subsets: int) -> StreamedResult:
    """Choose over all evidence in `part`, and write it again with `chosen` beside it; `floor` is that of one input."""
    kind = "z" if settings.test.name == "osft" else "p"

    def evidence() -> Iterator[Floats]:
        for frame in written_blocks(part, [kind, "tested"]):
            yield frame[kind].to_numpy()[frame["tested"].to_numpy()]

    def matrices() -> Iterator[Floats]:
        left = np.zeros(0)
        for frame in written_blocks(part, [kind, "tested"]):
            values = np.append(left, np.where(frame["tested"], frame[kind], np.nan))
            count = len(values) // subsets * subsets
            left = values[count:]
            yield values[:count].reshape(-1, subsets)

    tested = sum(map(len, evidence()))
    if settings.rule == "adaptive":
        rule = adaptive_streamed(matrices, settings.alpha, settings.seed)
        chosen = (rule.chosen(start, p).reshape(-1) for start, p in _placed(matrices()))
        return _written(part, out, kind, tested, chosen, None)
    if kind == "p":
        limit = bh_threshold(evidence, settings.alpha)
        return _written(part, out, kind, tested, None, limit)
    limit = knockoff_plus_threshold(evidence, settings.alpha, floor * tested / subsets)
    return _written(part, out, kind, tested, None, limit)


def _placed(blocks: Iterator[Floats]) -> Iterator[tuple[int, Floats]]:
    start = 0
    for block in blocks:
        yield start, block
        start += len(block)


def _written(
    part: Path, out: Path, kind: str, tested: int, given: Iterator[Bools] | None, limit: float | None
) -> StreamedResult:
    """The table with what is chosen; it appears when it is whole."""
    final = part.with_name(f".{out.stem}.whole{part.suffix}")
    counts: dict[str, int] = {}
    size, waiting = 0, np.zeros(0, bool)
    try:
        with BlockWriter(final) as writer:
            for frame in written_blocks(part):
                if given is None:
                    values = frame[kind].to_numpy()
                    chosen = (values <= limit if kind == "p" else values >= limit) & frame["tested"].to_numpy()
                else:
                    while len(waiting) < len(frame):
                        waiting = np.append(waiting, next(given))
                    chosen, waiting = waiting[: len(frame)], waiting[len(frame) :]
                _count(counts, frame, chosen)
                writer.write(frame.assign(chosen=chosen))
                size += len(frame)
        os.replace(final, out)
    finally:
        final.unlink(missing_ok=True)
    return StreamedResult(out, size, tested, sum(counts.values()), counts, limit)


def _count(counts: dict[str, int], frame: pd.DataFrame, chosen: Any) -> None:
    for name, count in frame.loc[chosen, "subset"].value_counts().items():
        counts[str(name)] = counts.get(str(name), 0) + int(count)


OPTIONS = ("test", "rule", "alternative", "target", "link", "alpha", "draws", "min_effect", "picked", "control", "seed",
           "batch_rows", "progress")  # fmt: skip
FITS = {"sequential": ("bh",), "irt": ("bh", "adaptive"), "osft": ("knockoff+",)}
HYPOTHESES = 250_000  # of one block
MANY = 10**7  # hypotheses that a file is taken to have, before it is read
OVER_FILE = "all hypotheses of the file, chosen together after its last block (not over the rows of a block)"


def explain_stream(
    model: object,
    data: object,
    sampler: object,
    *,
    out: str | Path,
    subsets: object = None,
    block_rows: int | None = None,
    **options: Any,
) -> StreamedResult:
    """Which features of each row of a file matter, in memory that does not grow with the file.

    Rows are read and tested block by block with the streams they would have in one run: the same seed gives the same
    evidence whatever the blocks, for irt and osft that of `butfor.explain`. Evidence is written as it comes; when all
    is there, a few passes over it choose over all hypotheses of the file. The family is the file. A sequential test
    goes on to p-values of about .001: where less than a hundredth of all hypotheses are signals, use irt with more
    draws, or osft. There are no effects, no zoom and no report: explain the rows of interest with `butfor.explain`.

    Parameters
    ----------
    model : as in `explain`.
    data : path of a CSV or Parquet file, or an iterable of frames or arrays with the same columns.
    sampler : a sampler, or reference data, which stays in memory.
    out : file to write, one row per hypothesis; its ending says whether Parquet or CSV.
    subsets : None for single columns, a list, or {name: columns}; no tree.
    block_rows : rows that are tested at a time; None suits the memory of a laptop.
    **options : settings.

    Examples
    --------
    >>> import tempfile
    >>> rng = np.random.default_rng(0)
    >>> blocks = (rng.normal([5, 0], 1, size=(100, 2)) for _ in range(3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     out, reference = f"{folder}/found.csv", rng.normal(size=(200, 2))
    ...     found = explain_stream(lambda x: x[:, 0], blocks, reference, out=out, test="osft")
    >>> found.rows, found.hypotheses, found.chosen > 200
    (300, 600, True)
    """
    settings, target = _settings(options, subsets), _target(Path(out).expanduser())
    return _streamed(_Tested(model, _fitted(sampler), subsets, settings), data, target, block_rows)


def _fitted(sampler: Any) -> Any:
    """Reference data as a sampler, fitted once for all blocks."""
    if not is_data(sampler):
        return sampler
    from butfor.tabular.explain import auto

    return auto(sampler)


def _streamed(tested: _Tested, data: Any, target: Path, block_rows: int | None) -> StreamedResult:
    """Evidence into a file beside the target, then the choice over it; nothing is left behind where that fails."""
    part = target.with_name(f".{target.stem}.part{target.suffix}")
    try:
        with BlockWriter(part) as writer:
            for frame in tested.blocks(_frames(data), block_rows):
                writer.write(frame)
        if tested.first is None:
            raise InputError("the data has no rows; give at least one")
        made = choose_streamed(part, target, tested.settings, tested.floor, len(tested.first.subset_names))
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}; name another file") from error
    finally:
        part.unlink(missing_ok=True)
    said = {"guarantee": tested.guarantee(), "notes": tested.notes(made)}
    return replace(made, rows=tested.rows, model_rows=tested.asked, **said)


def _settings(options: Mapping[str, Any], subsets: object) -> Settings:
    """What was asked for; what needs the whole table in memory is refused."""
    settings = Settings.of({**options, "effects": None, "decide": False}, test="sequential")
    name, rule = settings.test.name, settings.rule
    if name not in FITS or settings.test.early_stop:
        raise InputError(f"a stream takes test='sequential', 'irt' without early_stop, or 'osft', got {name!r}")
    if rule not in FITS[name]:
        raise InputError(f"a stream with test={name!r} takes rule={' or '.join(map(repr, FITS[name]))}, got {rule!r}")
    if settings.target == "truth":
        raise InputError("target='truth' needs labels of all rows, which a stream does not hold; use butfor.explain")
    if subsets == "zoom" or is_nested(subsets):
        raise InputError("a stream tests one layer of subsets: columns, a list or {name: columns}, not a tree")
    draws = settings.draws_for(MANY)
    # What its block would choose at p = .02 the file may not: drawing goes on, as it does for bounds, to about .001.
    return replace(settings, draws=draws, test=replace(settings.test, draws=draws), bounds=True)


def _target(path: Path) -> Path:
    if path.suffix.lower() not in (*PARQUET, ".csv"):
        raise InputError(f"out must end in .parquet or .csv, got {path}")
    if path.suffix.lower() in PARQUET and usual_ending() == ".csv":
        raise InputError(f"{path} is Parquet, which needs pyarrow; pip install 'butfor[parquet]', or name a .csv file")
    return path


def _frames(data: Any) -> Iterator[pd.DataFrame]:
    import pandas as pd

    if isinstance(data, str | Path):
        yield from read_blocks(Path(data).expanduser(), "data")
        return
    if isinstance(data, np.ndarray) or is_frame(data) or not isinstance(data, Iterable):
        data = [data]
    start = 0
    for block in data:
        given = as_frame(block, "data")
        frame = given if is_frame(given) else pd.DataFrame(np.asarray(given))
        if isinstance(frame.index, pd.RangeIndex) and frame.index.start == 0:  # rows are numbered through
            frame = frame.set_axis(pd.RangeIndex(start, start + len(frame)), axis=0)
        if not is_frame(given):
            frame.attrs["array"] = True  # the model gets an array again
        start += len(frame)
        yield frame


class _Tested:
    """One pass over the data; what is known when it is over."""

    def __init__(self, model: object, sampler: object, subsets: object, settings: Settings) -> None:
        self._model, self._sampler, self._subsets, self.settings = model, sampler, subsets, settings
        self.first: Result | None = None
        self.rows = self.asked = 0
        self.filtered = self.deterministic = False

    def blocks(self, frames: Iterator[pd.DataFrame], rows: int | None) -> Iterator[pd.DataFrame]:
        head = next(frames, None)
        if head is None:
            return
        width = head.shape[1]
        size = int(np.clip(BLOCK_VALUES // max(1, width), 1, 256))  # blocks of the core: a stream each
        count = width if self._subsets in (None, "columns") else len(self._subsets)  # type: ignore[arg-type]
        wanted = HYPOTHESES // max(1, count) if rows is None else whole("block_rows", rows, 1)
        for frame in in_blocks(chain([head], frames), max(size, wanted // size * size)):
            found = self._run(frame.to_numpy() if head.attrs.get("array") else frame, self.rows // size)
            yield self._written(found, frame.index)
            self.rows += len(frame)

    def _run(self, data: Any, number: int) -> Result:
        wrapped = bind_model(self._model, data)
        table, fitted = bind_sampler(data, self._sampler)
        tree = subset_tree(table, fitted, self._subsets or "columns")
        problem = table_problem(items_of(table), table.index, tree.subsets, fitted, self.settings.seed)
        problem = replace(problem, blocks=tuple(replace(block, key=block.key + number) for block in problem.blocks))  # type: ignore[operator]
        start = self.first is None
        context = RunContext(
            problem=problem,
            wrapped=wrapped,
            model_name=model_name(self._model),
            batch_rows=default_batch_rows(table),
            describe=partial(_name_row, table, self.rows),
            sampler_notes=partial(sampler_notes_of, problem, table, tree.subsets, None) if start else list,
            inputs=table.record(),
            keep=(0, 0),
            reference=reference_of(problem, table, tree, self.settings.seed) if start else None,
        )
        rule = "bh" if self.settings.rule == "adaptive" else self.settings.rule
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReachWarning)  # of a block; that of the file is said at the end
            result = run(context, replace(self.settings, rule=rule))
        self._note(result)
        return result

    def _note(self, result: Result) -> None:
        if self.first is None:
            self.first = result
        self.asked += result.rows
        self.deterministic |= bool(result.record.deterministic)

    def _written(self, result: Result, names: Any) -> pd.DataFrame:
        """The evidence of a block, one row per hypothesis."""
        import pandas as pd

        assert self.first is not None
        found, first = result.evidence, self.first
        tested = family_members(found, self.settings.rule, "run", len(first.input_names))
        self.filtered |= bool((found.drawable & ~tested).any())
        tested = tested & self._calibrated()[result.subset_of]
        return pd.DataFrame(
            {
                "input": names.to_numpy()[result.input_of],
                "subset": np.array(first.subset_names, dtype=object)[result.subset_of],
                "observed": found.observed,
                "draws": found.draws,
                found.kind: found.values,
                "tested": tested,
            }
        )

    def _calibrated(self) -> Bools:
        """Of each subset, whether the control of the first block found nothing against it."""
        assert self.first is not None
        control = self.first.control
        known = None if control is None else control.calibrated
        return np.ones(len(self.first.subset_names), bool) if known is None else known

    @property
    def floor(self) -> float:
        """The share of null values of an input, over its subsets, that lie beyond all that the sampler draws."""
        assert self.first is not None
        law = info_of(self.first.problem.sampler).floor
        return float(sum(law(subset) for subset in self.first.problem.subsets))

    def guarantee(self) -> Any:
        assert self.first is not None
        made = replace(self.first, rule=self.settings.rule).guarantee
        dropped = Note("filtered", "warning")
        more = (dropped,) if self.filtered and dropped not in made.caveats else ()
        return replace(made, family=OVER_FILE, caveats=(*more, *made.caveats))

    def notes(self, made: StreamedResult) -> tuple[str, ...]:
        """What the first block says of the sampler, and how far the whole file reaches."""
        assert self.first is not None
        settings, first = self.settings, self.first
        h = settings.test.h if settings.test.name == "sequential" else 1
        floor = first.record.floor
        limits = reach(settings.test.name, settings.rule, settings.alpha, made.tested, settings.draws or 1, h, floor)
        control = [] if first.control is None else [str(first.control)]
        return tuple(map(str, (*control, *first.run_notes, *limits)))


def _name_row(table: Table, start: int, row: int) -> str:
    return f"row {start + row} of the data (index {table.index[row]!r})"


def read_stream(request: TableRequest) -> tuple[Iterator[pd.DataFrame], pd.DataFrame]:
    """Blocks of the rows to explain and the whole reference, with the model's columns; the first block decides them."""
    if request.reference is None or same_file(request):
        raise InputError("--stream reads the data once; give the reference as a file of its own: --reference FILE")
    for option, given in (("--categories", request.categories), ("--truth", request.truth)):
        if given:
            raise InputError(f"{option} needs all rows at once, and --stream reads them in blocks; drop one of them")
    reference = read_table(request.reference, "reference")
    blocks = read_blocks(request.data, "data")
    head = next(blocks, None)
    if head is None:
        raise InputError(f"the data {request.data} has columns but no rows; give at least one row")
    dates = listed(request.dates, dict.fromkeys([*head.columns, *reference.columns]), "--dates: ")
    both = typed({"data": head, "reference": reference}, dates, [])
    reference = both["reference"]
    columns = model_columns(both["data"], reference, request)
    if request.reference_where is not None:
        reference = reference[matches(reference, request.reference_where, "--reference-where")]

    def picked() -> Iterator[pd.DataFrame]:
        for block in chain([head], blocks):
            frame = typed({"data": block}, dates, [])["data"]
            if request.data_where is not None:
                frame = frame[evaluated(frame, request.data_where, "--data-where")]
            yield named_rows(frame, request.index)[columns]

    return picked(), reference[columns]
