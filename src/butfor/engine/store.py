"""The file of a run directory: records with checksums in sqlite, locked by one process, and one sentence for a disk.

Single records have a key. Results of units are many and small: all of a second are one bundle, with one checksum.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from zlib import crc32

from butfor.core.evaluate.workplace import UnitResult
from butfor.core.types import InputError
from butfor.core.warn import warn_user
from butfor.engine.encoding import decode_results, encode_results

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
