"""`boxes="where"`: which places of a photograph its output comes from, without boxes and without an inpainter.

Of N evaluations four fifths redraw random places and give a map and the effects of some 50 cells; the rest redraws, on
fresh draws, the regions where the map is strongest, from 40 to 5 % of the picture (METHODS 22).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor._version import __version__
from butfor.evaluation.calls import ask, limited
from butfor.evaluation.hypotheses import Hypotheses, Job, draw, list_hypotheses
from butfor.evaluation.items import ListItems
from butfor.evaluation.progress import Progress, Rows, reporting
from butfor.evaluation.samplers import SamplerInfo
from butfor.image.files import checksum, load_items, propose_regions, source_record
from butfor.image.region import Image, RegionPacking, fill_each
from butfor.inference.decisions import Decision, mixture_low
from butfor.inference.effects import Effects
from butfor.inference.statistics import Evidence, softmax
from butfor.inference.where import SHARES as REDRAWN
from butfor.inference.where import CellEffects, cell_effects, drops, log_capital, mean_low, nested
from butfor.models import Wrapped
from butfor.models.wrap import need
from butfor.results.record import RunRecord
from butfor.results.result import Chunk, Decided, Kept, Moved, Result
from butfor.results.where import CLAIMS, RULE, SHARES, Cells, Located, region_name
from butfor.results.words import Note
from butfor.settings import Settings
from butfor.streams import stream
from butfor.types import Bools, Floats, InputError, Ints, Subset, whole

if TYPE_CHECKING:
    from butfor.run.proposed import NamedItems

DRAWS, LEAST_DRAWS = 250, 100  # evaluations of a photograph
FOR_MAP, OF_CELLS = 0.8, 0.7  # of the evaluations; of those
LARGEST = 0.2  # of a picture, of a cell
CELLS, SIDES = 50, range(4, 11)  # cells of a photograph; of a grid along each side
MAP, FINE, REGION, DONOR = 28, 112, 224, 256  # pixels of a side: of map, cells, regions, photographs that are cut up
NOISE = 64  # pixels of a side of noise, and fewer of an image whose mean colour is taken
MOST_DONORS, BATCH, KEEP = 60, 10, 3
MANY = 10  # photographs whose scores tell a spread
RARE = 0.01  # probability of the class in a photograph that does not have it


@dataclass(frozen=True, eq=False)
class Fills:
    """Fills that know nothing of the region: pieces of photographs without the class, or mean colour and noise."""

    donors: tuple[Image, ...]
    usable: Mapping[str, Ints]  # by checksum of an image: those that do not have its class

    info = SamplerInfo(identity="fills of where", changes_subset_only=True, ignores_dependence=False, fills_whole=True)

    def __repr__(self) -> str:
        return f"where({len(self.donors)} photographs to cut from)"

    def __call__(self, inputs: Sequence[Image], subset: Subset, draws: int, rng: np.random.Generator) -> list[Image]:
        out: list[Image] = []
        for image in inputs:
            usable = self.usable.get(checksum(image), np.zeros(0, np.int64))
            out += fill_each([image], subset, draws, rng, partial(self.fill, usable))
        return out

    def fill(self, usable: Ints, image: Image, _: Bools, rng: np.random.Generator) -> Image:
        """Return a picture of the size of the image that may replace any part of it."""
        cv2 = need("cv2", "image")
        height, width = image.shape[:2]
        if len(usable) and rng.random() < 0.5:
            donor = self.donors[int(usable[rng.integers(len(usable))])]
            down, across = (max(1, round(side * rng.uniform(0.6, 1.0))) for side in donor.shape[:2])
            top, left = rng.integers(donor.shape[0] - down + 1), rng.integers(donor.shape[1] - across + 1)
            piece = donor[top : top + down, left : left + across]
            piece = piece[:, ::-1] if rng.random() < 0.5 else piece
            made = cv2.resize(np.ascontiguousarray(piece), (width, height), interpolation=cv2.INTER_LINEAR)
            return np.asarray(made, np.uint8).reshape(height, width, 3)
        coarse = rng.standard_normal((*rng.integers(4, 40, 2), 3)).astype(np.float32)
        smooth = cv2.resize(coarse, (NOISE, NOISE), interpolation=cv2.INTER_CUBIC)
        step = max(1, min(height, width) // NOISE)
        pixels = image[::step, ::step].reshape(-1, 3)
        made = np.clip(pixels.mean(axis=0) + 0.6 * pixels.std(axis=0) * smooth, 0, 255).astype(np.uint8)
        return np.asarray(cv2.resize(made, (width, height), interpolation=cv2.INTER_LINEAR), np.uint8)


@dataclass(frozen=True, eq=False)
class Output:
    """The output that is asked about, as a number: the probability of a class, or a score."""

    column: int
    logits: bool
    probable: bool

    def __call__(self, outputs: Floats) -> Floats:
        """Return the number (n,) of outputs (n, o)."""
        return np.asarray((softmax(outputs) if self.logits else outputs)[:, self.column])


@dataclass(frozen=True, eq=False)
class Place:
    """Map, cells and their effects of one photograph, from the design."""

    grid: Floats  # (28, 28)
    labels: Ints  # (112, 112)
    cells: CellEffects
    spread: float  # of the output over the design


@dataclass(eq=False)
class Locator:
    """(name, image) -> its four regions; keeps what the design told of each photograph by name."""

    model: Callable[[Sequence[Image], str], Floats]
    fills: Fills
    outputs: Mapping[Any, Output]
    draws: int
    alpha: float
    seed: int
    places: dict[Any, Place] = field(default_factory=dict)

    blind = True  # not chosen by what is unusual in x: nothing is asked of x against its law

    def __repr__(self) -> str:
        return f"where({self.draws} evaluations)"

    def __call__(self, name: Any, image: Image) -> list[Subset]:
        rng, height, width = stream(self.seed, "where", str(name)), *image.shape[:2]
        usable, output = self.fills.usable[checksum(image)], self.outputs[name]
        labels = cells_of(image)
        full = labels[nearest(height, FINE)][:, nearest(width, FINE)]
        count, down, across = int(labels.max()) + 1, pooling(height, MAP), pooling(width, MAP)
        n = round(FOR_MAP * self.draws)
        k = round(OF_CELLS * n)
        shares = rng.choice(REDRAWN, n)
        redrawn = rng.random((k, count)) < shares[:k, None]
        masks, values = np.empty((n, MAP * MAP)), np.empty(n)
        for start in range(0, n, 32):
            batch = []
            for i in range(start, min(start + 32, n)):
                mask = redrawn[i][full] if i < k else _shifted(height, width, float(shares[i]), rng)
                masks[i] = (down @ mask @ across.T).ravel()
                batch.append(np.where(mask[..., None], self.fills.fill(usable, image, mask, rng), image))
            values[start : start + len(batch)] = output(self.model(batch, str(name)))
        cells = np.stack([(down @ (full == j) @ across.T).ravel() for j in range(count)])
        effects = cell_effects(masks, values, redrawn, shares[:k], cells, (MAP, MAP), rng, self.alpha)
        inside = np.clip(values, 1e-4, 1 - 1e-4)
        added = np.log(inside / (1 - inside)) if output.probable else values  # log-odds add up over places, and scores
        grid = drops(masks, added, (MAP, MAP)).drop.reshape(MAP, MAP)
        self.places[name] = Place(grid, labels, effects, float(np.ptp(values)))
        pairs = zip(SHARES, regions(grid, height, width), strict=True)
        return [Subset(region_name(share), mask) for share, mask in pairs]


def cells_of(image: Image) -> Ints:
    """Return the cell (112, 112) of each place of an image: regions of similar colour, about 50 of them."""
    cv2 = need("cv2", "image")
    small = cv2.resize(image, (FINE, FINE), interpolation=cv2.INTER_AREA).reshape(FINE, FINE, 3)
    slic = need("skimage.segmentation", "image").slic
    labels = slic(small, n_segments=CELLS + 10, compactness=12, sigma=1, start_label=0)
    if np.bincount(labels.ravel()).max() > LARGEST * labels.size:  # noise, or one colour: squares
        rows = np.arange(FINE) * 7 // FINE
        labels = rows[:, None] * 7 + rows
    return np.unique(labels, return_inverse=True)[1].reshape(FINE, FINE).astype(np.int64)


def regions(grid: Floats, height: int, width: int) -> list[Bools]:
    """Return the masks (height, width) of the places where a map is strongest, from large to small."""
    cv2 = need("cv2", "image")
    down, across = min(height, REGION), min(width, REGION)
    smooth = cv2.resize(grid, (across, down), interpolation=cv2.INTER_CUBIC).reshape(down, across)
    masks = []
    for pixels in nested(smooth.ravel(), SHARES):
        mask = np.zeros(down * across, bool)
        mask[pixels] = True
        masks.append(mask.reshape(down, across)[nearest(height, down)][:, nearest(width, across)])
    return masks


def pooling(pixels: int, parts: int) -> Floats:
    """Return the share (parts, pixels) of each part that each pixel covers: rows sum to 1.

    >>> pooling(4, 2).tolist()
    [[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]]
    """
    ends, edges = np.linspace(0, pixels, parts + 1), np.arange(pixels + 1)
    low = np.maximum.outer(ends[:-1], edges[:-1])
    high = np.minimum.outer(ends[1:], edges[1:])
    return np.asarray(np.maximum(high - low, 0.0) * parts / pixels)


def nearest(pixels: int, parts: int) -> Ints:
    return ((np.arange(pixels) + 0.5) * parts / pixels).astype(np.int64)


def _shifted(height: int, width: int, share: float, rng: np.random.Generator) -> Bools:
    """Return the redrawn squares of a grid of 4 to 10 a side that is shifted at random."""
    side = int(rng.integers(SIDES.start, SIDES.stop))
    bits, shift = rng.random((side + 1, side + 1)) < share, rng.random(2)
    down, across = (
        ((np.arange(length) + 0.5) * side / length + moved).astype(np.int64)
        for length, moved in zip((height, width), shift, strict=True)
    )
    return np.asarray(bits[np.ix_(down, across)])


def explain_where(
    wrapped: Wrapped,
    given: NamedItems,
    donors: object,
    settings: Settings,
    draws: int | None,
    resolve: Callable[[Floats], tuple[list[Output], tuple[Any, ...] | None, object]],  # from outputs (n, o)
) -> Result:
    """Return where the output of each photograph comes from."""
    draws = DRAWS if draws is None else whole("draws", draws, LEAST_DRAWS)
    need("skimage.segmentation", "image")
    call, size, rows = limited(wrapped.call, settings.options.timeout), settings.options.batch_rows or 32, 0
    with reporting(settings.options.progress) as report:

        def model(images: Sequence[Image], name: str) -> Floats:
            nonlocal rows
            parts = [list(images[i : i + size]) for i in range(0, len(images), size)]
            answers = [ask(call, part, len(part), lambda _row: f"image {name!r}") for part in parts]
            rows += len(images)
            report(Progress("drawing", rows, len(given) * (draws + 1)))
            outputs = np.concatenate(answers).astype(np.float64)
            return outputs.reshape(len(outputs), -1)

        seen = look(given, model, skip=settings.options.on_error == "skip")
        if not seen.keys:
            raise InputError("none of the images can be read; give at least one that can")
        outputs, names, target = resolve(seen.outputs)
        cut = seen if donors is None else seen.with_more(look(load_items(donors), model))
        before = [float(output(x[None])[0]) for output, x in zip(outputs, seen.outputs, strict=True)]
        usable = {key: cut.without(output, key, x) for output, key, x in zip(outputs, seen.keys, before, strict=True)}
        fills = Fills(cut.small, usable)
        outputs_by = dict(zip(seen.names, outputs, strict=True))
        locator = Locator(model, fills, outputs_by, draws, settings.alpha / CLAIMS, settings.seed)
        pixels: dict[str, str] = {}
        proposed = propose_regions(given, locator, settings.options.on_error, whole=True, pixels=pixels)
        items = ListItems(proposed.items, None, costly=True, packing=RegionPacking())
        hypotheses = list_hypotheses(items, proposed.names, proposed.subsets, fills, settings.seed)
        observed = seen.outputs[[seen.names.index(name) for name in proposed.names]]
        output_of = [outputs_by[name] for name in proposed.names]
        places = [locator.places[name] for name in proposed.names]
        little = settings.min_effect
        if little is None:  # a tenth of the spread of scores: over photographs, or over the design where these are few
            scores = cut.outputs[:, output_of[0].column]
            spread = np.std(scores) if len(scores) >= MANY else np.mean([place.spread for place in places])
            little = 0.05 if output_of[0].probable else float(spread) / 10
        decision = None
        if settings.decide is not False and (settings.decide is not None or (names is not None and wrapped.decides)):
            decision = Decision(settings.decide if callable(settings.decide) else None)
        budget = draws - round(FOR_MAP * draws)
        regions_of = [
            confirm(hypotheses, i, observed[i], output, partial(model, name=str(name)), budget, little, settings)
            for i, (name, output) in enumerate(zip(proposed.names, output_of, strict=True))
        ]
    alone = [str(name) for name, key in zip(seen.names, seen.keys, strict=True) if not len(usable[key])]
    notes = [Note("where-no-donors", "info", {"names": alone, "of": len(seen.keys)})] if alone else []
    drawn = [region for each in regions_of for region in each]
    count = len(drawn)
    effect, low, high = (np.array([getattr(region, one) for region in drawn]) for one in ("drop", "low", "high"))
    moves = np.array([region.p for region in drawn]) <= settings.alpha / CLAIMS
    column = np.array([output.column for output in output_of], np.int64)[hypotheses.input_of]
    drawn_of = np.array([len(region.changes) for region in drawn], np.int64)
    evidence = Evidence(
        kind="p",
        values=np.ones(count),  # whether an output is unusual is not tested here
        varied=np.zeros(count, bool),
        observed=np.array([one(x[None])[0] for one, x in zip(output_of, observed, strict=True)])[hypotheses.input_of],
        classes=column,
        draws=drawn_of,
        open=np.zeros(count, bool),
        drawable=np.ones(count, bool),
        scale=np.ones(count),
        least=np.zeros(count),
        surprise=np.full(count, np.nan),
    )
    size = batch_of(budget)
    record = RunRecord(
        test="where",
        draws=draws,
        seed=settings.seed,
        inputs=source_record(repr(locator), proposed.items, pixels),
        alternative="greater",
        target=target,  # type: ignore[arg-type]
        decisions=() if decision is None else decision.named(observed),
        declined=settings.decide is False,
        min_effect=settings.min_effect,
        selection=(RULE, settings.alpha, "input"),
        rounds=(size,) * (budget // size),
        sampler=repr(fills),
        version=__version__,
    )
    kept = []
    for row, region in enumerate(drawn):
        subset = hypotheses.block_of(row).subset
        pieces = [RegionPacking().cut(one, one, subset) for one in region.kept]
        kept += [Chunk(np.array([row]), [pieces], region.outputs[None, :KEEP])] if pieces else []
    return Result(
        input_names=hypotheses.input_names,
        subset_names=hypotheses.subset_names,
        input_of=hypotheses.input_of,
        subset_of=hypotheses.subset_of,
        evidence=evidence,
        effects=Effects(effect, low, high),
        chosen=np.zeros(count, bool),
        alpha=settings.alpha,
        rule=RULE,
        family="input",
        rows=Rows(rows),
        rows_asked=rows,
        hypotheses=hypotheses,
        outputs=observed,
        record=record,
        kept=Kept(tuple(kept)),
        run_notes=(*proposed.notes, *notes),
        output_names=names,
        decided=None if decision is None else decided(decision, drawn, observed[hypotheses.input_of], settings),
        moved=Moved(effect, low, high, moves, little),
        located=located(places, draws),
    )


@dataclass(frozen=True, eq=False)
class Seen:
    """Photographs that could be read: names, checksums, outputs (n, o), and small copies of the first to cut from."""

    names: list[Any]
    keys: list[str]
    outputs: Floats
    small: tuple[Image, ...]

    def with_more(self, more: Seen) -> Seen:
        """Return these and others, to cut from."""
        count = len(self.small)
        outputs = np.concatenate([self.outputs[:count], more.outputs[: len(more.small)]])
        keys = [*self.keys[:count], *more.keys[: len(more.small)]]
        return Seen([], keys, outputs, (*self.small, *more.small))

    def without(self, output: Output, key: str, before: float) -> Ints:
        """Return the photographs to cut from that do not have what one has: its class, or so high a score."""
        values = output(self.outputs[: len(self.small)])
        lacks = values < (max(RARE, before / 10) if output.probable else before)
        return np.flatnonzero(lacks & (np.array(self.keys[: len(self.small)]) != key))


def look(images: NamedItems, model: Callable[[Sequence[Image], str], Floats], *, skip: bool = False) -> Seen:
    """Return what the model says of all photographs that can be read; `skip` leaves out the others."""
    cv2 = need("cv2", "image")
    names, keys, outputs = [], list[str](), list[Floats]()
    small = list[Image]()
    for place, name in enumerate(images.names):
        try:
            image = images[place]
        except InputError:
            if not skip:
                raise
            continue
        names.append(name)
        keys.append(checksum(image))
        outputs.append(model([image], str(name)))
        if len(small) < MOST_DONORS:
            scale = min(1.0, DONOR / max(image.shape[:2]))
            size = [max(1, round(side * scale)) for side in image.shape[1::-1]]
            copy = np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)
            small.append(copy.reshape(*size[::-1], 3))
    return Seen(names, keys, np.concatenate(outputs) if outputs else np.zeros((0, 1)), tuple(small))


@dataclass(frozen=True, eq=False)
class Region:
    """Fresh draws of one region: how far the output fell in each, and what that says of the mean."""

    changes: Floats
    outputs: Floats  # (n, o)
    kept: list[Image]
    p: float  # of a mean drop of at most `little`, or of that of a larger region
    drop: float
    low: float
    high: float


def batch_of(budget: int) -> int:
    """Return how many fresh draws are made at a time."""
    return int(np.clip(budget // 5, 4, BATCH))


def confirm(
    hypotheses: Hypotheses,
    index: int,
    observed: Floats,
    output: Output,
    model: Callable[[Sequence[Image]], Floats],
    budget: int,
    little: float,
    settings: Settings,
) -> list[Region]:
    """Return the regions of one photograph, from large to small: one is drawn once all before it move it."""
    rows, size = np.flatnonzero(hypotheses.input_of == index), batch_of(budget)
    before = float(output(observed[None])[0])
    least, most = (before - 1, before) if output.probable else (-np.inf, np.inf)
    answers: list[list[Floats]] = [[] for _ in rows]
    kept: list[list[Image]] = [[] for _ in rows]
    p, reached = np.ones(len(rows)), 0
    for _ in range(budget // size):  # what is left goes to the last one reached: bets hold whenever drawing stops
        job = Job(hypotheses.block_of(int(rows[reached])), size, len(answers[reached]))
        made = list(draw(hypotheses, job).values[1:])
        kept[reached] = kept[reached] or [one.copy() for one in made[:KEEP]]
        answers[reached].append(model(made))
        changes = before - output(np.concatenate(answers[reached]))
        p[reached] = min(1.0, float(np.exp(-log_capital(changes, little, least)[-1])))
        if p[reached] <= settings.alpha / CLAIMS and reached < len(rows) - 1:
            reached += 1
    regions = []
    for place, p_value in enumerate(np.maximum.accumulate(p).tolist()):
        outputs = np.concatenate(answers[place]) if answers[place] else np.zeros((0, len(observed)))
        changes = before - output(outputs)
        ends = np.nan, np.nan, np.nan
        if len(changes):
            ends = float(changes.mean()), mean_low(changes, least, 0.025), -mean_low(-changes, -most, 0.025)
        regions.append(Region(changes, outputs, kept[place], p_value, *ends))
    return regions


def decided(decision: Decision, drawn: Sequence[Region], observed: Floats, settings: Settings) -> Decided:
    """Return how often each region (H,) changes the decision, regions of a photograph from large to small."""
    before, draws = decision(observed), np.array([len(region.changes) for region in drawn])
    flips = zip(drawn, before, strict=True)
    hits = np.array([float((decision(one.outputs) != was).sum()) if len(one.outputs) else 0.0 for one, was in flips])
    share = np.where(draws > 0, hits / np.maximum(draws, 1), np.nan)
    low, high = mixture_low(hits, draws, 0.025), 1 - mixture_low(draws - hits, draws, 0.025)
    sure = mixture_low(hits, draws, settings.alpha / CLAIMS) > settings.level
    necessary = np.logical_and.accumulate(sure.reshape(-1, len(SHARES)), axis=1).ravel()  # a fixed sequence
    return Decided(share, low, high, necessary, draws, np.zeros(len(drawn), np.int64), settings.level)


def located(places: Sequence[Place], draws: int) -> Located:
    """Return the maps and cells of all photographs."""
    counts = [len(place.cells.effect) for place in places]
    input_of, label = np.repeat(np.arange(len(places)), counts), np.concatenate(list(map(np.arange, counts)))
    down, across = (np.indices((FINE, FINE)) + 0.5) / FINE
    centres = []
    for place in places:
        count = np.bincount(place.labels.ravel())
        centres.append([np.bincount(place.labels.ravel(), axis.ravel()) / count for axis in (across, down)])
    x, y = (np.concatenate([one[k] for one in centres]) for k in (0, 1))
    of_cells = ("effect", "low", "high", "named")
    arrays = (np.concatenate([getattr(place.cells, one) for place in places]) for one in of_cells)
    cells = Cells(input_of, label, x, y, *arrays)
    return Located(cells, np.stack([one.grid for one in places]), np.stack([one.labels for one in places]), draws)
