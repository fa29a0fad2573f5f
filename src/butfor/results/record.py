"""RunRecord: what was asked, drawn and seen in a run. Its fields are the file format; `read` checks a file by them."""

from __future__ import annotations

import types
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache, partial
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from butfor.results.words import Note
from butfor.types import Alternative, Family

Scalar = str | int | float | bool | None
Count = Annotated[int, (0, 2**63 - 1)]  # the least and the largest value
Seed = Annotated[int, (0, 2**128 - 1)]
Share = Annotated[float, (0, 1)]
FitKind = Literal["known", "counted", "cross-fitted", "reference alone", "taken as right"]
Controlled = Literal["done", "not wanted", "too few rows", "no reference"]


@dataclass(frozen=True)
class ColumnRecord:
    """Type of a column as it was given, and levels that its numbers stand for."""

    kind: Literal["number", "flag", "category", "time"]
    dtype: str | None = None
    levels: tuple[Scalar, ...] | None = None
    categories: tuple[Scalar, ...] | None = None
    ordered: bool | None = None


@dataclass(frozen=True)
class TableInputs:
    """A table: all but its numbers and its row labels."""

    columns: tuple[str, ...]
    kinds: tuple[ColumnRecord, ...]
    labels: tuple[Scalar, ...] | None = None  # of the columns of a frame; None: an array
    modality: Literal["table"] = "table"


@dataclass(frozen=True)
class ImageInputs:
    """Images: where they are, how they were read, and what tells them from others."""

    boxes: str
    files: tuple[str, ...] | None
    longest: Annotated[int, (1, 2**31)] | None
    most_pixels: Count
    pixels: tuple[str, ...]  # checksums
    modality: Literal["image"] = "image"


@dataclass(frozen=True)
class TextInputs:
    """Texts, and how they were split."""

    units: str
    texts: tuple[str, ...]
    modality: Literal["text"] = "text"


@dataclass(frozen=True)
class MultimodalInputs:
    """Inputs of several parts, which no file holds."""

    parts: tuple[str, ...]
    modality: Literal["multimodal"] = "multimodal"


@dataclass(frozen=True)
class CheckRecord:
    """Verdicts of `butfor.check_sampler` on rows that the sampler was not fitted on."""

    subset_names: tuple[str, ...]
    verdicts: tuple[str, ...]
    ok: bool
    sentence: str


@dataclass(frozen=True)
class ImportanceRecord:
    """The global question: one hypothesis for each subset, over all inputs."""

    inputs: Count
    passes: Count  # 0: Student's t
    fit: FitKind = "known"
    loss: str | None = None
    classes: tuple[Scalar, ...] = ()  # predicted for the inputs, where each is tested for its predicted class
    stand_ins: tuple[tuple[str, ...], ...] = ()  # columns that predict each other
    why: str | None = None  # this sampler was taken
    check: CheckRecord | None = None


@dataclass(frozen=True)
class RunRecord:
    """Settings, draws and observations of a run; the guarantee and the notes of a result are made from it.

    >>> record = RunRecord(test="irt", draws=19, seed=7, inputs=MultimodalInputs(parts=("photo", "note")))
    >>> read(RunRecord, plain(record), "record") == record
    True
    >>> read(RunRecord, {**plain(record), "seed": "x"}, "record")
    Traceback (most recent call last):
    ValueError: its record.seed is 'x'
    """

    # asked
    test: Literal["sequential", "irt", "osft", "few-shot", "holdout", "contrast", "where"]
    draws: Annotated[int, (0, 10**9)]
    seed: Seed
    inputs: TableInputs | ImageInputs | TextInputs | MultimodalInputs
    alternative: Alternative | None = None  # None: a loss can only rise
    target: Scalar = None
    link: Literal["logit", "log"] | None = None
    center: Count = 0
    h: Count | None = None  # of the sequential test
    delta: float | None = None  # of early_stop
    scale: str | None = None  # of few-shot
    picked: bool = False
    decisions: tuple[Scalar, ...] = ()  # on the inputs, by a rule of the user's; else it is the predicted class
    declined: bool = False  # decide=False: the user wants to know of no decision
    simultaneous: bool = False  # intervals of decisions hold all together within a resolution; else one by one
    min_effect: float | None = None
    selection: tuple[str, float, Family] | None = None  # rule, alpha and family that drawing was stopped for
    # drawn
    rounds: tuple[Count, ...] = ()
    set_aside: Count = 0
    exact: Count = 0  # hypotheses all of whose outcomes are known
    untested: tuple[Count, ...] = ()  # hypotheses that the model or the sampler failed on
    uncovered: tuple[Count, ...] = ()  # hypotheses whose observed value the sampler cannot draw
    interrupted: bool = False
    # seen of the sampler
    sampler: str = ""
    assumes: str = ""  # of the data: a key of SAMPLERS, or words
    floor: Share = 0.0  # the least p-value that it allows
    dependence_ignored: bool = False
    deterministic: bool = False
    data_dependent: bool = False  # subsets were picked by what is in them
    controlled: Controlled = "no reference"
    judged: Note | None = None  # whether counterfactuals look real
    # where it came from
    version: str = ""
    model: str | None = None
    data: str | None = None
    reference: str | None = None
    importance: ImportanceRecord | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a table; none of anything else."""
        return self.inputs.columns if isinstance(self.inputs, TableInputs) else ()

    @property
    def alpha(self) -> float:
        """The alpha of the run: of its stopping, its decisions and its features, whatever is selected later."""
        return 0.1 if self.selection is None else self.selection[1]

    def get(self, name: str) -> Any:
        """Return a field of the record, of its inputs or of the global question; None where there is none."""
        parts = (self, self.inputs, self.importance)
        return next((getattr(part, name) for part in parts if hasattr(part, name)), None)


def plain(value: Any) -> Any:
    """Return a record as JSON can hold it."""
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    return {str(key): plain(one) for key, one in value.items()} if isinstance(value, Mapping) else value


def read(kind: Any, value: Any, name: str) -> Any:
    """Return JSON `value` as an instance of the annotation `kind`; a file that does not fit raises ValueError."""
    origin, args = get_origin(kind), get_args(kind)
    if kind is Any or (kind == Scalar and isinstance(value, str | int | float | bool | None)):
        return value
    if origin is Annotated:
        least, most = args[1]
        if least <= (number := read(args[0], value, name)) <= most:
            return number
    elif origin in (Union, types.UnionType):
        for one in args:
            if not is_dataclass(one):
                with suppress(ValueError):
                    return read(one, value, name)
            elif isinstance(value, dict) and value.get("modality") == getattr(one, "modality", None):
                return read(one, value, name)
    elif origin is Literal:
        if any(type(value) is type(one) and value == one for one in args):
            return value
    elif origin is tuple and isinstance(value, list):
        of_each = [args[0]] * len(value) if args[-1] is Ellipsis else args
        if len(of_each) == len(value):
            return tuple(read(one, part, name) for one, part in zip(of_each, value, strict=True))
    elif origin in (dict, Mapping) and isinstance(value, dict):
        return {key: read(args[1], one, name) for key, one in value.items()}
    elif isinstance(kind, type) and is_dataclass(kind) and isinstance(value, dict):
        hints, inside = _hints(kind), f"{name}." if name else ""
        for one in fields(kind):
            if one.name not in value and one.default is one.default_factory is MISSING:
                raise ValueError(f"its {inside}{one.name} is missing")
        for key in value:
            if key not in hints:
                raise ValueError(f"its {inside}{short(key)} is not known here")
        return kind(**{key: read(hints[key], part, f"{inside}{key}") for key, part in value.items()})
    elif kind in (None, types.NoneType):
        if value is None:
            return None
    elif kind is float:
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300:
            return float(value)
    elif type(value) is kind:
        return value
    raise ValueError(f"its {name} is {short(value)}")


_hints = cache(partial(get_type_hints, include_extras=True))


def short(value: object) -> str:
    """Return a value of a file in at most 60 characters and one line."""
    return " ".join(f"{value!r:.60}".split())
