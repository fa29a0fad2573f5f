"""A run directory: tasks that are done are kept until the run is, so that a run cut short goes on where it was.

A task is known by all that it computes, and the directory by all that the run depends on: what differs is refused by
name. A random sample of the journal is evaluated again, so that a model changed in between is noticed.

The file is sqlite, locked by one process: records by key, each with a checksum, those of a second in one transaction.
"""

from __future__ import annotations

import json
import random
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from butfor.evaluation.evaluator import Engine, Extract, Stage, Task, TaskResult, evaluate_task
from butfor.evaluation.hypotheses import Block
from butfor.evaluation.items import Items, content_digest, digest
from butfor.evaluation.progress import WorkerState
from butfor.evaluation.samplers import name_of
from butfor.inference.exact import Support
from butfor.types import Array, Batch, InputError, Model, ModelError, warn_user
from butfor.untrusted import private_file, private_folder

FILE, FORMAT = "journal.sqlite", 4
FILES = (FILE, f"{FILE}-wal", f"{FILE}-shm", f"{FILE}-journal")  # that sqlite makes
COMMAND = "command.json"  # how the command line was called, for `butfor resume`
KEY = 20  # bytes of the key of a task; keys of other records are of other lengths
SECONDS, BYTES = 1.0, 2**24  # records of at most so long, or of so many bytes, are written together
AGAIN, MOST_AGAIN, EACH = 3, 64, 50  # one of so many tasks of a former run is evaluated again, at least and at most
MANIFEST = b"manifest"
DISK = (
    "run_dir {folder} cannot be written ({error}): the disk is full, read-only or failing; what was finished is kept: "
    "make room and run the same again"
)
DAMAGED = "The journal in {folder} was damaged: {lost}; what is missing is asked again."
OTHER = "run_dir {folder} holds another run ({what}); name another folder, or delete this one"
CHANGED = (
    "run_dir {folder} holds other answers than the model gives now: it was changed since (or it or the sampler answers "
    "by chance); name another folder, or delete this one"
)


def encode(value: object) -> bytes:
    """Return a header in JSON, its length in front, and then the bytes of all arrays; no pickle.

    In the header a list is what is not plain: its first member tells an array, bytes, a list, a tuple or a dict.

    >>> decode(encode({"a": (1, np.arange(3)), "b": [b"x", None, "y"]}))
    {'a': (1, array([0, 1, 2])), 'b': [b'x', None, 'y']}
    """
    parts: list[bytes] = []

    def plain(value: Any) -> Any:
        if isinstance(value, np.generic):
            return ["g", *plain(np.asarray(value))]
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            parts.append(value.tobytes())
            return ["a", value.dtype.str, value.shape]
        if isinstance(value, tuple | list):
            return ["t" if isinstance(value, tuple) else "l", *map(plain, value)]
        if isinstance(value, dict):
            return ["d", *((plain(key), plain(member)) for key, member in value.items())]
        if isinstance(value, bytes):
            parts.append(value)
            return ["b", len(value)]
        raise TypeError(f"a journal cannot keep {type(value).__name__}")

    header = json.dumps(plain(value)).encode()
    return b"".join([len(header).to_bytes(8, "little"), header, *parts])


def decode(content: bytes) -> Any:
    """Return what was encoded; its checksum must have been compared before."""
    start = 8 + int.from_bytes(content[:8], "little")
    position = start

    def restore(plain: Any) -> Any:
        nonlocal position
        if not isinstance(plain, list):
            return plain
        kind, *given = plain
        if kind == "t":
            return tuple(map(restore, given))
        if kind == "l":
            return list(map(restore, given))
        if kind == "d":
            return {restore(key): restore(member) for key, member in given}
        if kind == "b":
            position += given[0]
            return content[position - given[0] : position]
        if kind == "g":
            return restore(given)[()]
        dtype, shape = np.dtype(given[0]), given[1]
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(content, dtype, count, position).reshape(shape).copy()
        position += array.nbytes
        return array

    return restore(json.loads(content[8:start]))


class Store:
    """Records by key. One whose checksum differs is dropped with a warning, and counts as not there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.dropped, self.closed = folder, 0, False
        self._since, self._bytes = time.monotonic(), 0  # not the clock, which may be set back
        self._waiting: list[tuple[Callable[[], bytes], TaskResult]] = []
        try:
            private_folder(folder)
        except OSError as error:
            raise InputError(
                f"run_dir {folder} cannot be used: {error.strerror or error}; name another folder"
            ) from error
        try:
            self._open()
        except sqlite3.OperationalError as error:
            if _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise InputError(
                    f"run_dir {folder} is in use by another process; wait for it, or name another folder"
                ) from error
            if _code(error) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL):
                raise InputError(DISK.format(folder=folder, error=error)) from error
            self._begin_again()
        except sqlite3.DatabaseError:
            self._begin_again()

    def _open(self) -> None:
        with suppress(OSError):  # sqlite says what is the matter; its other files are made as this one is
            private_file(self.folder / FILE)
        self._base = sqlite3.connect(self.folder / FILE, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            for statement in (
                "PRAGMA page_size=65536",  # records are large: a quarter of the time
                "PRAGMA locking_mode=EXCLUSIVE",
                "PRAGMA journal_mode=WAL",
                "PRAGMA synchronous=OFF",  # an empty file need not survive the power
                "PRAGMA wal_autocheckpoint=0",  # once, at the end: not everything twice
                "BEGIN EXCLUSIVE",  # others are refused from here on, until we close or die
                "CREATE TABLE IF NOT EXISTS records (key BLOB PRIMARY KEY, body BLOB, digest BLOB)",
                "COMMIT",
                "PRAGMA synchronous=NORMAL",
                "SELECT count(*) FROM records",
            ):
                self._base.execute(statement).fetchone()
        except BaseException:
            self._base.close()
            raise
        self._in_transaction = False

    def _begin_again(self) -> None:
        """Replace a file that sqlite cannot read at all, with a warning."""
        probe = self.folder / f"{FILE}-probe"
        try:
            probe.write_bytes(bytes(4096))  # a disk that fails is no damage: nothing is deleted
            for path in (*(self.folder / name for name in FILES), probe):
                path.unlink(missing_ok=True)
        except OSError as error:
            raise InputError(DISK.format(folder=self.folder, error=error.strerror or error)) from error
        warn_user(DAMAGED.format(folder=self.folder, lost="it could not be read at all"), UserWarning)
        self._open()

    def _fetch(self, statement: str, *values: object) -> list[Any]:
        """Return the rows of a query; of a damaged file none, with a warning."""
        try:
            return self._base.execute(statement, values).fetchall()
        except sqlite3.DatabaseError as error:
            if _code(error) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR):
                raise InputError(DISK.format(folder=self.folder, error=error)) from error
            self._warn(str(error))
            return []

    def _warn(self, lost: str) -> None:
        if self.dropped == 0:
            warn_user(DAMAGED.format(folder=self.folder, lost=lost), UserWarning)
        self.dropped += 1

    def count(self) -> int:
        """Return the number of records, counted up to two; tasks that wait are one."""
        return len(self._fetch("SELECT 1 FROM records LIMIT 2")) + bool(self._waiting)

    def units(self) -> list[bytes]:
        return [key for (key,) in self._fetch("SELECT key FROM records WHERE length(key) = ? ORDER BY rowid", KEY)]

    def unit(self, key: bytes) -> TaskResult | None:
        """Return the result of a task; None where it is not there, or damaged."""
        if (body := self.get(key)) is None:
            return None
        outputs, numbers, supports, *others = decode(body)
        return TaskResult(outputs, numbers, tuple(None if one is None else Support(*one) for one in supports), *others)

    def get(self, key: bytes) -> bytes | None:
        """Return the record of a key; None where there is none, or a damaged one."""
        for body, checksum in self._fetch("SELECT body, digest FROM records WHERE key = ?", key):
            if isinstance(body, bytes) and checksum == _checksum(key, body):
                return body
            self._warn("a record is not what was written")
            self._fetch("DELETE FROM records WHERE key = ?", key)
        return None

    def put_soon(self, key: Callable[[], bytes], result: TaskResult, size: int) -> None:
        """Keep the result of a task: it is written with others, a second after the last ones or at the end."""
        self._waiting.append((key, result))
        self._bytes += size
        if time.monotonic() - self._since > SECONDS or self._bytes > BYTES:
            self.write()

    def put(self, key: bytes, body: bytes) -> None:
        """Keep a record; it is on disk within a second."""
        self._insert(key, body)
        if not self._waiting and time.monotonic() - self._since > SECONDS:
            self.write()

    def write(self) -> None:
        waiting, self._waiting = self._waiting, []
        for key, result in waiting:
            supports = tuple(None if one is None else (one.mass, one.beside, one.least) for one in result.supports)
            self._insert(key(), encode([*(vars(result) | {"supports": supports}).values()]))
        self._since, self._bytes = time.monotonic(), 0
        try:
            if self._in_transaction:
                self._base.execute("COMMIT")
                self._in_transaction = False
        except sqlite3.DatabaseError as error:
            raise InputError(DISK.format(folder=self.folder, error=error)) from error

    def _insert(self, key: bytes, body: bytes) -> None:
        try:
            if not self._in_transaction:
                self._base.execute("BEGIN")
                self._in_transaction = True
            self._base.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", (key, body, _checksum(key, body)))
        except sqlite3.DatabaseError as error:
            if _code(error) not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise InputError(DISK.format(folder=self.folder, error=error)) from error
            self._base.close()
            self._begin_again()
            self._insert(key, body)

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


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF  # without what extends it


def _checksum(key: bytes, body: bytes) -> bytes:
    """Tell damage from what was written; it need not withstand malice."""
    return len(body).to_bytes(8, "little") + crc32(body, crc32(key)).to_bytes(4, "little")


def holds_units(folder: Path) -> bool:
    """Return whether anything in the run directory is worth going on with."""
    if not (folder / FILE).exists():
        return False
    try:
        with closing(sqlite3.connect(folder / FILE, timeout=0)) as base:
            return base.execute("SELECT 1 FROM records WHERE length(key) = ?", (KEY,)).fetchone() is not None
    except sqlite3.DatabaseError:
        return True  # in use, or damaged: not ours to throw away


def clear(folder: Path) -> None:
    """Delete a journal, and its folder if nothing else is in it."""
    for name in (*FILES, COMMAND):
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


_FINISHED: ContextVar[list[Path] | None] = ContextVar("finished", default=None)


@contextmanager
def until_written() -> Iterator[None]:
    """Leave the journals of runs in here until the end of it, when their results have been written."""
    folders: list[Path] = []
    token = _FINISHED.set(folders)
    try:
        yield
    finally:
        _FINISHED.reset(token)
    for folder in folders:
        clear(folder)


@dataclass(frozen=True)
class Journal:
    """An engine and a model whose answers are kept; `finish` is for a run that is done."""

    engine: Engine
    model: Model
    store: Store | None = None

    def finish(self) -> None:
        """Delete the answers, or leave that to `until_written`: nothing is left to go on with."""
        if self.store is not None:
            folders = _FINISHED.get()
            self.store.close(needed=folders is not None)
            if folders is None:
                clear(self.store.folder)
            else:
                folders.append(self.store.folder)


@contextmanager
def journal(
    engine: Engine, model: Model, folder: str | PathLike[str] | None, manifest: Callable[[], Mapping[str, str]]
) -> Iterator[Journal]:
    """Give the engine and the model with their answers kept in `folder`; `manifest` has all that the run depends on."""
    if folder is None:
        yield Journal(engine, model)
        return
    store, fresh = Store(Path(folder)), False
    try:
        former = _begin(store, {"format": str(FORMAT), **manifest()})
        fresh = former is None
        recording = Recording(engine, store, former or frozenset(), fresh)
        yield Journal(recording, RecordedModel(model, store), store)
    except InputError as error:
        # A call that was refused, and then mended, is another run: it may use the folder if nothing was done.
        refused = fresh and not isinstance(error, ModelError)  # of a model that failed the answers are kept
        if refused and not store.closed and not store.dropped:
            store.close()
            if not holds_units(store.folder):
                with suppress(OSError):  # of a disk that cannot be written
                    clear(store.folder)
        raise
    finally:
        if not store.closed:
            empty = store.count() < 2 and not store.dropped
            store.close()
            if empty:
                clear(store.folder)  # nothing was answered: nothing to go on with


def _begin(store: Store, manifest: Mapping[str, str]) -> frozenset[bytes] | None:
    """Return keys of a few tasks of a former run with this manifest, None where there was none; refuse another run."""
    record = store.get(MANIFEST)
    if record is None:
        if store.count():
            raise InputError(OTHER.format(folder=store.folder, what="what it was asked cannot be read"))
        store.put(MANIFEST, json.dumps(manifest).encode())
        store.write()
        return None
    before: dict[str, str] = json.loads(record)
    differences = []
    for name in {**before, **manifest}:
        then, now = before.get(name), manifest.get(name)
        if then != now:
            short = all(value is None or len(value) < 40 for value in (then, now))
            differences.append(f"{name}: {then}, now {now}" if short else f"other {name}")
    if differences:
        raise InputError(OTHER.format(folder=store.folder, what=", ".join(differences)))
    units = store.units()
    return frozenset(random.sample(units, min(len(units), max(AGAIN, min(MOST_AGAIN, len(units) // EACH)))))


@dataclass(frozen=True, eq=False)
class Recording:
    """An engine whose results are kept; those of a former run are given at once."""

    engine: Engine
    store: Store
    again: frozenset[bytes]  # tasks of a former run that are compared with what the model returns now
    fresh: bool = False  # there was no former run
    _stages: dict[tuple[object, ...], tuple[Stage, bytes]] = field(default_factory=dict)
    _blocks: dict[int, tuple[Block, bytes]] = field(default_factory=dict)
    _items: dict[int, tuple[Items, bytes]] = field(default_factory=dict)

    @property
    def states(self) -> dict[str, WorkerState]:
        return getattr(self.engine, "states", {})

    def map(self, stage: Stage, tasks: Iterable[Task]) -> Iterator[tuple[int, TaskResult]]:
        keys: dict[int, Callable[[], bytes]] = {}

        def looked_up() -> Iterator[Task]:
            for number, task in enumerate(tasks):
                if self.fresh:
                    keys[number] = partial(self._key, stage, task)
                    yield task
                    continue
                key = self._key(stage, task)
                result = self.store.unit(key)
                if result is None:
                    keys[number] = partial(bytes, key)
                    yield task
                else:
                    if key in self.again:
                        self._compare(stage, task, result)
                    yield replace(task, result=result)

        for number, result in self.engine.map(stage, looked_up()):
            if number in keys:
                size = 8 * sum(outputs.size for outputs in result.outputs) + 256 * len(result.news) + result.rows[0]
                self.store.put_soon(keys.pop(number), result, size)
            yield number, result

    def _key(self, stage: Stage, task: Task) -> bytes:
        """Return the digest of all that a task computes; those of its parts are kept beside them, by identity."""
        if stage.key not in self._stages:
            hypotheses = stage.hypotheses
            if id(hypotheses.items) not in self._items:
                self._items[id(hypotheses.items)] = (hypotheses.items, items_digest(hypotheses.items))
            sizes = (stage.batch_rows, stage.n_outputs, sorted(stage.repeating), hypotheses.round_draws)
            shared = (hypotheses.seed, *sizes)
            self._stages[stage.key] = (stage, repr(shared).encode() + self._items[id(hypotheses.items)][1])
        for job in task.jobs:
            if id(job.block) not in self._blocks:
                block = job.block
                name = repr((block.subset.name, block.start, block.stop, block.key, block.rows[:1].tolist()))
                content = name.encode("utf-8", "surrogatepass") + digest_any(block.subset.index)
                self._blocks[id(block)] = (block, blake2b(content, digest_size=16).digest())
        made = blake2b(self._stages[stage.key][1], digest_size=KEY)
        kinds = [(job.draws, job.round, job.part) for job in task.jobs]
        made.update(repr(kinds[:1] if kinds.count(kinds[0]) == len(kinds) else kinds).encode())
        made.update(b"".join([self._blocks[id(job.block)][1] for job in task.jobs]))
        chosen = [positions for job in task.jobs for positions in (job.ask, job.keep)]
        made.update(np.array([-1 if one is None else len(one) for one in chosen], np.int32).tobytes())
        made.update(b"".join([one.astype(np.int32).tobytes() for one in chosen if one is not None]))
        made.update(repr([None if extract is None else _name(extract) for extract in task.extracts]).encode())
        if task.known:
            made.update(repr({row: sorted(known) for row, known in task.known.items()}).encode())
        mark = getattr(task.summary, "mark", None)
        made.update(content_digest(task.summary) if mark is None else mark)
        return made.digest()

    def _compare(self, stage: Stage, task: Task, then: TaskResult) -> None:
        """Draw one job again and evaluate a few of its inputs; which is left to chance."""
        if task.summary is None:
            number = random.randrange(len(task.jobs))
            job, outputs = task.jobs[number], then.outputs[number]
        elif then.sample is not None:
            number, inputs, outputs = then.sample
            job = task.jobs[number]
            job = replace(job, keep=inputs if job.keep is None else job.keep[inputs])
        else:
            return  # put together of parts whose workers died
        alone = replace(task, jobs=(job,), extracts=(), summary=None, known={})
        now = evaluate_task(stage, alone).outputs[0]
        if not _close(now, outputs):  # as rounding may have it in other company: how far does that go?
            fewer = replace(stage, batch_rows=max(1, stage.batch_rows // 3))
            if not _close(now, outputs, evaluate_task(fewer, alone).outputs[0]):
                raise InputError(CHANGED.format(folder=self.store.folder))


class RecordedModel:
    """A model whose answers outside of tasks are kept by the content of their batch; the first is asked again."""

    def __init__(self, model: Model, store: Store) -> None:
        self.model, self._store, self._compared = model, store, False

    def __call__(self, batch: Batch) -> Any:
        key = b"call" + fingerprint(batch)
        record = self._store.get(key)
        if record is None:
            outputs = np.asarray(self.model(batch))
            if outputs.dtype.kind in "fiub":  # others are refused by the caller
                self._store.put(key, encode(outputs))
            return outputs
        then = decode(record)
        if not self._compared:  # a model may keep its name and be trained again
            self._compared = True
            now = np.asarray(self.model(batch))  # the very same call
            if not _close(now, then) and not _close(now, then, np.asarray(self.model(batch))):
                raise InputError(CHANGED.format(folder=self._store.folder))
        return then


def _name(extract: Extract) -> str:
    return name_of(extract.func if isinstance(extract, partial) else extract)


ROUNDINGS = 64  # machine numbers by which the same arithmetic may differ on another machine


def _close(now: Array, then: Array, repeated: Array | None = None) -> bool:
    """Return whether answers are the same but for rounding, of which `repeated`, once more, shows how much there is."""
    if now.shape != then.shape or then.dtype.kind not in "fiu" or now.dtype.kind not in "fiu":
        return now.shape == then.shape and np.array_equal(now, then)
    single = then.dtype != np.float64 or np.array_equal(then, then.astype(np.float32), equal_nan=True)
    near = ROUNDINGS * np.finfo(np.float32 if single else np.float64).eps * np.abs(then)
    if repeated is not None and repeated.shape == now.shape:
        near = near + 8 * float(np.nanmax(np.abs(repeated - now), initial=0.0))
    return bool(((np.abs(now - then) <= near) | (np.isnan(now) & np.isnan(then))).all())


def fingerprint(batch: Batch) -> bytes:
    """Return bytes that are equal for equal batches: arrays, frames, lists of images, texts or mappings of them.

    >>> fingerprint(np.zeros((2, 2))) == fingerprint(np.zeros((2, 2))) != fingerprint(np.zeros((4, 1)))
    True
    """
    if isinstance(batch, np.ndarray):
        content = digest_any(batch)
    elif isinstance(batch, list | tuple):
        content = repr(len(batch)).encode() + b"".join(map(digest_any, batch))
    else:
        import pandas as pd

        frame = pd.DataFrame(batch)
        content = repr((list(frame.columns), list(map(str, frame.dtypes)), len(frame))).encode()
        content += pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes()
    return blake2b(content, digest_size=20).digest()


def digest_any(value: object) -> bytes:
    if isinstance(value, np.ndarray) and value.dtype == object:
        return digest(repr(value.tolist()))
    if isinstance(value, tuple | list):
        return digest(str(len(value))) + b"".join(map(digest_any, value))
    return digest(value)


def items_digest(items: Any) -> bytes:
    made = blake2b(repr(len(items)).encode(), digest_size=20)
    for start in range(0, len(items), 256):
        made.update(fingerprint(items.block(start, min(start + 256, len(items)))))
    return made.digest()
