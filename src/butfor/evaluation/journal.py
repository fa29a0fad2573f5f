"""A run directory: units that are done are kept until the run is, so that a run cut short goes on where it was.

A unit is known by all that was asked in it, and the directory by all that the run was asked for: what differs is
refused by name. A random sample of the whole journal is asked again, so that a model changed in between is found out.

The file of a run directory: records with checksums in sqlite, locked by one process, and one sentence for a disk.

Single records have a key. Results of units are many and small: all of a second are one bundle, with one checksum.
"""

from __future__ import annotations

import json
import random
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from butfor.evaluation.evaluator import Engine, HasMark, UnitResult, Workplace, WorkUnit, evaluate_unit
from butfor.evaluation.hypotheses import Block, Job
from butfor.evaluation.items import Items, content_digest, digest
from butfor.inference.exact import Support
from butfor.types import Array, Batch, InputError, Model, ModelError, warn_user

Plain = Any  # what JSON can hold
Buffer = Any  # bytes, or an array that lies in one piece
PLAIN = (bool, int, float)
SIMPLE = {bool, int, float, type(None)}
FEW = 4  # members of a collection from which on it pays to look whether they are alike
MANY = 4096  # integers from which on it pays to look how large they are


def encode(value: object) -> bytes:
    """A header in JSON, its length in front, and then the bytes of all arrays.

    >>> decode(encode({"a": (1, np.arange(3)), "b": [b"x", None, "y"]}))
    {'a': (1, array([0, 1, 2])), 'b': [b'x', None, 'y']}
    """
    parts: list[Buffer] = []
    header = json.dumps(_plain(value, parts)).encode()
    return b"".join([len(header).to_bytes(8, "little"), header, *parts])


def _plain(value: object, parts: list[Buffer]) -> Plain:
    if isinstance(value, np.ndarray):  # most of all
        return _array(value, parts)
    if value is None or isinstance(value, PLAIN):
        return value
    if isinstance(value, str):
        return {"s": value.encode("utf-8", "surrogatepass").hex()}
    if isinstance(value, np.generic):
        return {"g": _plain(np.asarray(value), parts)}
    if isinstance(value, bytes):
        parts.append(value)
        return {"b": len(value)}
    if isinstance(value, dict):
        return {"d": [[_plain(key, parts), _plain(one, parts)] for key, one in value.items()]}
    if isinstance(value, list | tuple):
        return {"l" if isinstance(value, list) else "t": _members(value, parts)}
    raise TypeError(f"a journal cannot keep {type(value).__name__}")


def _members(values: Sequence[Any], parts: list[Buffer]) -> Plain:
    """Members of a collection; many that are alike are put together, which takes one header for all of them."""
    kinds = set(map(type, values)) if len(values) >= FEW else set()
    if kinds and kinds <= SIMPLE:
        return list(values)
    if kinds == {np.ndarray} and len({one.dtype for one in values}) == 1:
        shapes = [one.shape for one in values]
        wide = values[0].ndim > 2 and shapes[0][-1] > 1
        return {"c": [shapes, _array(np.concatenate([one.ravel() for one in values]), parts, wide)]}
    if kinds in ({tuple}, {list}):
        lengths = list(map(len, values))
        if kinds == {tuple} and lengths[0] and len(set(lengths)) == 1:
            return {"z": [_members(column, parts) for column in zip(*values, strict=True)]}
        every = [one for own in values for one in own]
        return {"n": ["t" if kinds == {tuple} else "l", lengths, _members(every, parts)]}
    return [_plain(one, parts) for one in values]


def _array(value: Array, parts: list[Buffer], wide: bool = False) -> Plain:
    if value.dtype == bool:
        parts.append(np.packbits(value).tobytes())
        return {"f": value.shape}
    small = _smaller(value, wide or (value.ndim > 2 and value.shape[-1] > 1))
    plain = small.dtype.kind in "fiu" and small.flags.c_contiguous
    parts.append(small if plain else np.ascontiguousarray(small).tobytes())
    return {"a": (small.dtype.str, value.dtype.str, value.shape)}


def _smaller(value: Array, wide: bool) -> Array:
    """float64 that came from float32 as float32 (networks with several outputs), small integers as bytes: the same
    numbers in less room."""
    if value.dtype == np.int64 and value.size >= MANY and value.min() >= -128 and value.max() < 128:
        return value.astype(np.int8)
    if value.dtype != np.float64 or not wide:
        return value
    single = value.astype(np.float32)
    return single if np.array_equal(single, value) else value


def decode(content: bytes) -> Any:
    """What was encoded; its checksum must have been looked at before."""
    length = int.from_bytes(content[:8], "little")
    place = [8 + length]
    return _back(json.loads(content[8 : 8 + length]), memoryview(content), place)


def _back(plain: Plain, content: memoryview, place: list[int]) -> Any:
    if not isinstance(plain, dict):
        return plain
    ((kind, given),) = plain.items()
    if kind == "s":
        return bytes.fromhex(given).decode("utf-8", "surrogatepass")
    if kind == "g":
        return _back(given, content, place)[()]
    if kind == "a":
        stored, wanted, shape = np.dtype(given[0]), np.dtype(given[1]), given[2]
        size = stored.itemsize * int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(_taken(content, place, size), stored).reshape(shape)
        return array.astype(wanted)
    if kind == "f":  # flags, eight to a byte
        count = int(np.prod(given, dtype=np.int64))
        bits = np.frombuffer(_taken(content, place, -(-count // 8)), np.uint8)
        return np.unpackbits(bits, count=count).astype(bool).reshape(given)
    if kind == "b":
        return bytes(_taken(content, place, given))
    if kind == "d":
        return {_back(key, content, place): _back(one, content, place) for key, one in given}
    found = _members_back(given, content, place)
    return found if kind == "l" else tuple(found)


def _members_back(plain: Plain, content: memoryview, place: list[int]) -> list[Any]:
    if isinstance(plain, list):
        return [_back(one, content, place) for one in plain]
    ((kind, given),) = plain.items()
    if kind == "c":
        shapes, header = given
        ends = np.cumsum([int(np.prod(shape, dtype=np.int64)) for shape in shapes])
        split = np.split(_back(header, content, place), ends[:-1])
        return [one.reshape(shape) for one, shape in zip(split, shapes, strict=True)]
    if kind == "n":
        kind, lengths, every = given
        members = iter(_members_back(every, content, place))
        made = (list(islice(members, length)) for length in lengths)
        return list(made) if kind == "l" else [tuple(one) for one in made]
    return list(zip(*[_members_back(column, content, place) for column in given], strict=True))


def _taken(content: memoryview, place: list[int], size: int) -> memoryview:
    place[0] += size
    return content[place[0] - size : place[0]]


def encode_results(results: Sequence[UnitResult]) -> bytes:
    """Results of units; of jobs of which nothing was found or listed nothing is written."""
    return encode([_fields(result) for result in results])


def _fields(result: UnitResult) -> tuple[Any, ...]:
    width = len(result.found[0]) if result.found else 0
    places = list(dict.fromkeys(place for place, own in enumerate(result.found) for one in own if one is not None))
    found = [result.found[place] for place in places]
    supports = {i: (one.mass, one.beside, one.least) for i, one in enumerate(result.supports) if one is not None}
    rest = (result.rows, result.news, result.chance, result.failed, result.summary, result.sample)
    return (len(result.found), width, result.outputs, places, found, supports, *rest)


def decode_results(content: bytes) -> list[UnitResult]:
    """The same, back."""
    return [_result(*fields) for fields in decode(content)]


def _result(
    jobs: int, width: int, outputs: Any, places: list[int], found: list[Any], supports: dict[int, Any], *rest: Any
) -> UnitResult:
    known = dict(zip(places, found, strict=True))
    every = tuple(known.get(place, (None,) * width) for place in range(jobs))
    listed = tuple(Support(*supports[place]) if place in supports else None for place in range(jobs))
    return UnitResult(outputs, every, listed, *rest)


FILE, FORMAT = "journal.sqlite", 3
COMMAND = "command.json"  # how the command line was called, for `butfor resume`
KEY = 20  # bytes of the key of a unit
SECONDS, BYTES = 1.0, 2**24  # records of at most so long, or of so many bytes, are written together
LOCKED = "run_dir {place} is in use by another process; wait for it, or name another folder"
DISK = (
    "run_dir {place} cannot be written ({error}): the disk is full, read-only or failing; what was finished is kept: "
    "make room and run the same again"
)
UNUSABLE = "run_dir {place} cannot be used: {error}; name another folder"
DAMAGED = "The journal in {place} was damaged: {lost}; what is missing is asked again."


class Store:
    """Records by key. A record whose checksum is not its own is dropped, which is said, and counts as not there."""

    def __init__(self, place: Path) -> None:
        self.place, self.dropped, self.closed = place, 0, False
        self._since, self._bytes = time.monotonic(), 0  # not the clock, which may be set back
        self._waiting: list[tuple[Callable[[], bytes], UnitResult]] = []
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(UNUSABLE.format(place=place, error=error.strerror or error)) from error
        try:
            self._open()
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise InputError(LOCKED.format(place=place)) from error
            if "unable to open" in str(error) or "readonly" in str(error) or "full" in str(error):
                raise InputError(DISK.format(place=place, error=error)) from error
            self._anew()
        except sqlite3.DatabaseError:
            self._anew()

    def _open(self) -> None:
        self._base = sqlite3.connect(self.place / FILE, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            self._base.execute("PRAGMA page_size=65536")  # records are large: a quarter of the time
            self._base.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._base.execute("PRAGMA journal_mode=WAL")
            self._base.execute("PRAGMA synchronous=OFF")  # an empty file need not survive the power
            self._base.execute("PRAGMA wal_autocheckpoint=0")  # once, at the end: not everything twice
            self._base.execute("BEGIN EXCLUSIVE")  # others are refused from here on, until we close or die
            self._base.execute("CREATE TABLE IF NOT EXISTS records (key BLOB PRIMARY KEY, body BLOB, digest BLOB)")
            self._base.execute(
                "CREATE TABLE IF NOT EXISTS bundles (number INTEGER PRIMARY KEY, keys BLOB, body BLOB, digest BLOB)"
            )
            self._base.execute("COMMIT")
            self._base.execute("PRAGMA synchronous=NORMAL")
            self._base.execute("SELECT count(*) FROM records").fetchone()
            self._base.execute("SELECT count(*) FROM bundles").fetchone()
        except BaseException:
            self._base.close()
            raise
        self._begun = False
        self._bundle_of: dict[bytes, int] | None = None  # the bundle that a unit is in, by its key
        self._read: tuple[int, dict[bytes, UnitResult]] = (-1, {})  # the bundle that was read last

    def _anew(self) -> None:
        """A file that sqlite cannot read at all: begin again, and say so."""
        try:
            (self.place / f"{FILE}-probe").write_bytes(
                bytes(4096)
            )  # a disk that fails is no damage: nothing is deleted
            for name in (*names(), f"{FILE}-probe"):
                (self.place / name).unlink(missing_ok=True)
        except OSError as error:
            raise InputError(DISK.format(place=self.place, error=error.strerror or error)) from error
        warn_user(DAMAGED.format(place=self.place, lost="it could not be read at all"), UserWarning)
        self._open()

    def count(self) -> int:
        """Records and bundles, counted up to two; units that wait are one."""
        rows: list[tuple[object]] = []
        with self._careful():
            rows = self._base.execute("SELECT 1 FROM records UNION ALL SELECT 1 FROM bundles LIMIT 2").fetchall()
        return len(rows) + bool(self._waiting)

    def units(self) -> list[bytes]:
        """The keys of all units."""
        return list(self._bundles)

    @property
    def _bundles(self) -> dict[bytes, int]:
        if self._bundle_of is None:
            rows: list[tuple[int, object]] = []
            with self._careful():
                rows = self._base.execute("SELECT number, keys FROM bundles ORDER BY number").fetchall()
            self._bundle_of = {key: number for number, keys in rows for key in _apart(keys)}
        return self._bundle_of

    def unit(self, key: bytes) -> UnitResult | None:
        """What came of a unit; None where it is not there, or damaged."""
        number = self._bundles.get(key)
        if number is None:
            return None
        if self._read[0] != number:
            row = None
            with self._careful():
                asked = "SELECT keys, body, digest FROM bundles WHERE number = ?"
                row = self._base.execute(asked, (number,)).fetchone()
            keys, body, digest = (None, None, None) if row is None else row
            if not (isinstance(keys, bytes) and isinstance(body, bytes) and digest == _digest(keys, body)):
                self._bundle_of = {one: own for one, own in self._bundles.items() if own != number}
                self._drop("DELETE FROM bundles WHERE number = ?", number)
                return None
            self._read = number, dict(zip(_apart(keys), decode_results(body), strict=True))
        return self._read[1].get(key)

    def get(self, key: bytes) -> bytes | None:
        """The record of a key; None where there is none, or a damaged one."""
        row = None
        with self._careful():
            row = self._base.execute("SELECT body, digest FROM records WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        body, digest = row
        if not isinstance(body, bytes) or digest != _digest(key, body):
            self._drop("DELETE FROM records WHERE key = ?", key)
            return None
        return body

    def _drop(self, how: str, which: object) -> None:
        self.dropped += 1
        if self.dropped == 1:
            warn_user(DAMAGED.format(place=self.place, lost="a record is not what was written"), UserWarning)
        with self._careful():
            self._base.execute(how, (which,))

    @contextmanager
    def _careful(self) -> Iterator[None]:
        """What a damaged file does to a question: it counts as not answered."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            if any(word in str(error) for word in ("full", "readonly", "I/O")):
                raise InputError(DISK.format(place=self.place, error=error)) from error
            if self.dropped == 0:
                warn_user(DAMAGED.format(place=self.place, lost=str(error)), UserWarning)
            self.dropped += 1

    def put_soon(self, key: Callable[[], bytes], result: UnitResult, size: int) -> None:
        """Keep what came of a unit: it is written with others, a second after the last ones or at the end."""
        self._waiting.append((key, result))
        self._bytes += size
        if time.monotonic() - self._since > SECONDS or self._bytes > BYTES:
            self.write()

    def write(self) -> None:
        """Write the units that wait."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            keys = b"".join([key() for key, _ in waiting])
            body = encode_results([result for _, result in waiting])
            self._insert("INSERT INTO bundles (keys, body, digest) VALUES (?, ?, ?)", keys, body)
        try:
            self.commit()
        except sqlite3.DatabaseError as error:
            raise InputError(DISK.format(place=self.place, error=error)) from error

    def put(self, key: bytes, body: bytes) -> None:
        """Keep a record; it is on disk within a second."""
        self._insert("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", key, body)
        if not self._waiting and time.monotonic() - self._since > SECONDS:
            self.write()

    def _insert(self, how: str, key: bytes, body: bytes) -> None:
        try:
            if not self._begun:
                self._base.execute("BEGIN")
                self._begun = True
            self._base.execute(how, (key, body, _digest(key, body)))
        except sqlite3.DatabaseError as error:
            damaged = "malformed" in str(error) or "not a database" in str(error)
            if not damaged:
                raise InputError(DISK.format(place=self.place, error=error)) from error
            self._base.close()
            self._anew()
            self._insert(how, key, body)

    def commit(self) -> None:
        """Write what is there."""
        self._since, self._bytes = time.monotonic(), 0
        if self._begun:
            self._base.execute("COMMIT")
            self._begun = False

    def close(self, *, needed: bool = True) -> None:
        """Write what can be written, and let others in; nothing is written where it is not `needed` any more."""
        self.closed = True
        with suppress(sqlite3.DatabaseError, InputError):
            if needed:
                self.write()
            else:
                self._base.execute("PRAGMA synchronous=OFF")
        with suppress(sqlite3.DatabaseError):
            self._base.close()


def holds_units(place: Path) -> bool:
    """Whether anything in the run directory is worth going on with."""
    if not (place / FILE).exists():
        return False
    try:
        with closing(sqlite3.connect(place / FILE, timeout=0)) as base:
            return base.execute("SELECT 1 FROM bundles LIMIT 1").fetchone() is not None
    except sqlite3.DatabaseError:
        return True  # in use, or damaged: not ours to throw away


def clear(place: Path) -> None:
    """Delete a journal, and its folder if nothing else is in it."""
    for name in (*names(), COMMAND):
        (place / name).unlink(missing_ok=True)
    with suppress(OSError):
        place.rmdir()


def names() -> tuple[str, ...]:
    """Files that sqlite makes."""
    return FILE, f"{FILE}-wal", f"{FILE}-shm", f"{FILE}-journal"


def _apart(keys: object) -> list[bytes]:
    """The keys of the units of a bundle."""
    if not isinstance(keys, bytes) or len(keys) % KEY:
        return []  # damaged
    return [keys[start : start + KEY] for start in range(0, len(keys), KEY)]


def _digest(key: bytes, body: bytes) -> bytes:
    """Tells damage from what was written; it need not withstand malice."""
    return len(body).to_bytes(8, "little") + crc32(body, crc32(key)).to_bytes(4, "little")


AGAIN, MOST_AGAIN, EACH = 3, 64, 50  # of so many units of a former run one, at least and at most so many, is looked at
MANIFEST = b"manifest"
OTHER = "run_dir {place} holds another run ({what}); name another folder, or delete this one"
CHANGED = (
    "run_dir {place} holds other answers than the model gives now: it was changed since (or it or the sampler answers "
    "by chance); name another folder, or delete this one"
)
_LATER: ContextVar[list[Path] | None] = ContextVar("later", default=None)


@dataclass(frozen=True)
class Journal:
    """An engine and a model whose answers are kept; `finish` is for a run that is done."""

    engine: Engine
    model: Model
    store: Store | None = None

    def finish(self) -> None:
        """Nothing is left to go on with: the answers go, or will when the result is safe."""
        if self.store is not None:
            later = _LATER.get()
            self.store.close(needed=later is not None)
            if later is None:
                clear(self.store.place)
            else:
                later.append(self.store.place)


@contextmanager
def until_written() -> Iterator[None]:
    """Runs in here leave their journals until the end of it, when what they found has been written."""
    places: list[Path] = []
    token = _LATER.set(places)
    try:
        yield
    finally:
        _LATER.reset(token)
    for place in places:
        clear(place)


@contextmanager
def journal(
    engine: Engine, model: Model, folder: str | PathLike[str] | None, asked: Callable[[], Mapping[str, str]]
) -> Iterator[Journal]:
    """The engine and the model, with their answers kept in `folder`; `asked` tells all that the run depends on."""
    if folder is None:
        yield Journal(engine, model)
        return
    store, fresh = Store(Path(folder)), False
    try:
        former = _begin(store, asked())
        fresh = former is None
        keeping = Keeping(engine, store, former or frozenset(), fresh)
        yield Journal(keeping, Remembered(model, store), store)
    except InputError as error:
        refused = fresh and not isinstance(error, ModelError)  # of a model that failed the answers are kept
        if refused and not store.closed and not store.dropped:
            store.close()
            _clear_if_no_unit(store.place)
        raise
    finally:
        if not store.closed:
            empty = store.count() < 2 and not store.dropped
            store.close()
            if empty:
                clear(store.place)  # nothing was answered: nothing to go on with


def _clear_if_no_unit(place: Path) -> None:
    """A call that was refused, and then mended, is another run: it may use the folder if nothing was done."""
    if not holds_units(place):
        with suppress(OSError):  # of a disk that cannot be written
            clear(place)


def told_before(folder: str | Path) -> dict[str, str]:
    """What a run that is kept in a folder was asked for; nothing where there is none."""
    if not (Path(folder) / FILE).exists():
        return {}
    store = Store(Path(folder))
    try:
        kept = store.get(MANIFEST)
    finally:
        store.close()
    return {} if kept is None else dict(json.loads(kept))


def _begin(store: Store, asked: Mapping[str, str]) -> frozenset[bytes] | None:
    """Keys of some units of a run of the same kind, None where there was none; another run is refused."""
    told = {"format": str(FORMAT), **asked}
    kept = store.get(MANIFEST)
    if kept is None:
        if store.count():
            raise InputError(OTHER.format(place=store.place, what="what it was asked cannot be read"))
        store.put(MANIFEST, json.dumps(told).encode())
        store.commit()
        return None
    before: dict[str, str] = json.loads(kept)
    differ = [name for name in {**before, **told} if before.get(name) != told.get(name)]
    if differ:
        what = ", ".join(_difference(name, before.get(name), told.get(name)) for name in differ)
        raise InputError(OTHER.format(place=store.place, what=what))
    units = store.units()
    return frozenset(random.sample(units, min(len(units), max(AGAIN, min(MOST_AGAIN, len(units) // EACH)))))


def _difference(name: str, before: str | None, now: str | None) -> str:
    """One thing that is not as it was; what is long is not shown."""
    shown = all(one is None or len(one) < 40 for one in (before, now))
    return f"{name}: {before}, now {now}" if shown else f"other {name}"


@dataclass(frozen=True, eq=False)
class Keeping:
    """An engine whose results are kept; those of a former run are given at once."""

    engine: Engine
    store: Store
    again: frozenset[bytes]
    fresh: bool = False  # there was no former run
    _places: dict[tuple[object, ...], tuple[Workplace, bytes]] = field(default_factory=dict)
    _blocks: dict[int, tuple[bytes, Block]] = field(default_factory=dict)
    _items: dict[int, tuple[Items, list[bytes]]] = field(default_factory=dict)

    def map(self, place: Workplace, units: Iterable[WorkUnit]) -> Iterator[tuple[int, UnitResult]]:
        """Results as they come."""
        keys: dict[int, Callable[[], bytes]] = {}

        def looked_up() -> Iterator[WorkUnit]:
            for number, unit in enumerate(units):
                if self.fresh:
                    keys[number] = partial(self._key, place, unit)
                    yield unit
                    continue
                key = self._key(place, unit)
                result = self.store.unit(key)
                if result is None:
                    keys[number] = partial(bytes, key)
                    yield unit
                else:
                    if key in self.again:
                        self._compare(place, unit, result)
                    yield replace(unit, result=result)

        for number, result in self.engine.map(place, looked_up()):
            if number in keys:
                self.store.put_soon(keys.pop(number), result, _size(result))
            yield number, result

    def _key(self, place: Workplace, unit: WorkUnit) -> bytes:
        """All that was asked in a unit."""
        if place.key not in self._places:
            self._places[place.key] = (place, self._place_digest(place))
        made = blake2b(self._places[place.key][1], digest_size=KEY)
        kinds = [(job.draws, job.round, job.part) for job in unit.jobs]
        made.update(repr(kinds[:1] if kinds.count(kinds[0]) == len(kinds) else kinds).encode())
        made.update(self._block_digests(unit.jobs))
        some = [one for job in unit.jobs for one in (job.ask, job.keep)]
        made.update(np.array([-1 if one is None else len(one) for one in some], np.int32).tobytes())
        members = [one for one in some if one is not None]
        made.update(np.concatenate(members).astype(np.int32).tobytes() if members else b"")
        made.update(repr([None if look is None else type(look).__name__ for look in unit.looks]).encode())
        if unit.known:
            made.update(repr({row: sorted(known) for row, known in unit.known.items()}).encode())
        made.update(unit.summary.mark if isinstance(unit.summary, HasMark) else content_digest(unit.summary))
        return made.digest()

    def _place_digest(self, place: Workplace) -> bytes:
        """What all units of a workplace share."""
        problem = place.problem
        known = self._items.setdefault(id(problem.items), (problem.items, []))[1]
        if not known:
            known.append(items_digest(problem.items))
        told = (problem.seed, place.batch_rows, place.outputs, sorted(place.repeating), problem.round_draws)
        return blake2b(repr(told).encode() + known[0], digest_size=20).digest()

    def _block_digests(self, jobs: tuple[Job, ...]) -> bytes:
        """What tells blocks from others; they are in many units, and held, so that none takes the place of another."""
        known = self._blocks
        for job in jobs:
            if id(job.block) not in known:
                block = job.block
                told = repr((block.subset.name, block.start, block.stop, block.key, block.rows[:1].tolist()))
                content = told.encode("utf-8", "surrogatepass") + digest_any(block.subset.index)
                known[id(block)] = (blake2b(content, digest_size=16).digest(), block)
        return b"".join([known[id(job.block)][0] for job in jobs])

    def _compare(self, place: Workplace, unit: WorkUnit, then: UnitResult) -> None:
        """A few inputs of one job are asked again, counterfactuals and all; which is left to chance.

        Draws of the whole job are made again, since they share a stream, but only those of these inputs are evaluated.
        """
        if unit.summary is None:
            number = random.randrange(len(unit.jobs))
            job, said = unit.jobs[number], then.outputs[number]
        elif then.sample is not None:
            number, inputs, said = then.sample
            whole = unit.jobs[number]
            job = replace(whole, keep=inputs if whole.keep is None else whole.keep[inputs])
        else:
            return  # put together of parts whose workers died
        alone = replace(unit, jobs=(job,), looks=(), summary=None, known={})
        (now,) = evaluate_unit(place, alone).outputs
        if not _same(now, said):
            raise InputError(CHANGED.format(place=self.store.place))


def _size(result: UnitResult) -> int:
    """About how many bytes are held as long as a result waits."""
    return 8 * sum(outputs.size for outputs in result.outputs) + 256 * len(result.news) + result.rows[0]


class Remembered:
    """A model whose answers outside of units are kept by the content of their batch; the first is asked again."""

    def __init__(self, model: Model, store: Store) -> None:
        self.model, self._store, self._compared = model, store, False

    def __call__(self, batch: Batch) -> Any:
        key = b"call" + fingerprint(batch)
        kept = self._store.get(key)
        if kept is None:
            outputs = np.asarray(self.model(batch))
            if outputs.dtype.kind in "fiub":  # others are refused by who asked
                self._store.put(key, encode(outputs))
            return outputs
        then = decode(kept)
        if not self._compared:  # a model may keep its name and be trained again
            self._compared = True
            if not _same(np.asarray(self.model(batch)), then):
                raise InputError(CHANGED.format(place=self._store.place))
        return then


def _same(now: Array, then: Array) -> bool:
    """Whether answers are the same; what rounding may do to them is no difference."""
    near = 1e-4 * float(np.abs(then).max(initial=0.0)) if then.dtype.kind in "fiu" else 0.0
    return now.shape == then.shape and np.allclose(now, then, rtol=0.0, atol=near, equal_nan=True)


def fingerprint(batch: Batch) -> bytes:
    """Equal for equal batches, by their whole content: arrays, frames, lists of images, texts or mappings of them.

    >>> fingerprint(np.zeros((2, 2))) == fingerprint(np.zeros((2, 2))) != fingerprint(np.zeros((4, 1)))
    True
    """
    made = blake2b(digest_size=20)
    if isinstance(batch, np.ndarray):
        made.update(digest_any(batch))
    elif isinstance(batch, list | tuple):
        made.update(repr(len(batch)).encode() + b"".join(map(digest_any, batch)))
    else:
        import pandas as pd

        frame = pd.DataFrame(batch)
        made.update(repr((list(frame.columns), list(map(str, frame.dtypes)), len(frame))).encode())
        made.update(pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes())
    return made.digest()


def digest_any(thing: object) -> bytes:
    """The content of an input or of a subset's index."""
    if isinstance(thing, np.ndarray) and thing.dtype == object:
        return digest(repr(thing.tolist()))
    if isinstance(thing, tuple | list):
        return digest(str(len(thing))) + b"".join(map(digest_any, thing))
    return digest(thing)


def items_digest(items: Any) -> bytes:
    """The content of all inputs of a run."""
    made = blake2b(repr(len(items)).encode(), digest_size=20)
    step = 256
    for start in range(0, len(items), step):
        block = items.block(start, min(start + step, len(items)))
        made.update(fingerprint(block))
    return made.digest()
