"""Tables that do not fit into memory: tested block by block, chosen over the whole file at the end."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.core.checks import whole
from butfor.core.draw.blocks import BLOCK_VALUES, table_problem
from butfor.core.draw.samplers import info_of
from butfor.core.result.result import Result
from butfor.core.result.table import family_members
from butfor.core.select.guarantees import FILTER
from butfor.core.select.reach import reach
from butfor.core.types import Bools, InputError, ReachWarning
from butfor.models.rows import is_frame
from butfor.models.wrap import model_name
from butfor.run.context import RunContext
from butfor.run.run import run
from butfor.run.settings import Settings, takes
from butfor.tabular.bind import bind_model, bind_sampler, is_data
from butfor.tabular.block_files import BlockWriter, in_blocks, read_blocks, usual_ending
from butfor.tabular.explain import default_batch_rows, reference_of, sampler_notes_of, subset_tree
from butfor.tabular.files import PARQUET
from butfor.tabular.streamed import StreamedResult, choose_streamed
from butfor.tabular.table import Table, as_frame, items_of
from butfor.tabular.zoom import is_nested

if TYPE_CHECKING:
    import pandas as pd

OPTIONS = ("test", "rule", "alternative", "target", "link", "alpha", "draws", "min_effect", "picked", "control", "seed",
           "batch_rows", "progress")  # fmt: skip
FITS = {"sequential": ("bh",), "irt": ("bh", "adaptive"), "osft": ("knockoff+",)}
HYPOTHESES = 250_000  # of one block
MANY = 10**7  # hypotheses that a file is taken to have, before it is read
OVER_FILE = "all hypotheses of the file, chosen together after its last block (not over the rows of a block)"


@takes(OPTIONS)
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
    from butfor.tabular.auto import auto

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
            metadata=table.metadata(),
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
        self.deterministic |= bool(result.provenance["deterministic"])

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
        more = (FILTER,) if self.filtered and FILTER not in made.caveats else ()
        return replace(made, family=OVER_FILE, caveats=(*more, *made.caveats))

    def notes(self, made: StreamedResult) -> tuple[str, ...]:
        """What the first block says of the sampler, and how far the whole file reaches."""
        assert self.first is not None
        settings, first = self.settings, self.first
        h = settings.test.h if settings.test.name == "sequential" else 1
        floor = first.provenance.get("floor", 0.0)
        limits = reach(settings.test.name, settings.rule, settings.alpha, made.tested, settings.draws or 1, h, floor)
        control = [] if first.control is None else [str(first.control)]
        return (*control, *first.run_notes, *limits)


def _name_row(table: Table, start: int, row: int) -> str:
    return f"row {start + row} of the data (index {table.index[row]!r})"
