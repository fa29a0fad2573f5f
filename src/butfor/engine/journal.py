"""A run directory: units that are done are kept until the run is, so that a run cut short goes on where it was.

A unit is known by all that was asked in it, and the directory by all that the run was asked for: what differs is
refused by name. A random sample of the whole journal is asked again, so that a model changed in between is found out.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from butfor.core.draw.blocks import Block, Job
from butfor.core.draw.content import content_digest, digest
from butfor.core.draw.items import Items
from butfor.core.evaluate.units import evaluate_unit
from butfor.core.evaluate.workplace import Engine, HasMark, UnitResult, Workplace, WorkUnit
from butfor.core.types import Array, Batch, InputError, Model, ModelError
from butfor.engine.encoding import decode, encode
from butfor.engine.store import FILE, FORMAT, KEY, Store, clear, holds_units

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
    engine: Engine, model: Model, folder: str | Path | None, asked: Callable[[], Mapping[str, str]]
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
