"""The public edge for images: one call from a classifier and photographs to regions with a guarantee."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np

from butfor.evaluation.hypotheses import is_blind, list_problem
from butfor.evaluation.items import ListItems
from butfor.evaluation.progress import Progress
from butfor.evaluation.samplers import HasNotes, Sampler, SeesRun, info_of
from butfor.image.cache import cached
from butfor.image.inputs import as_proposer, is_zoom, load_items, propose_regions, source_record, with_its_attributes
from butfor.image.models import huggingface_classifier, torch_classifier
from butfor.image.plausibility import fills_judged
from butfor.image.region import RegionPacking, check_drawn
from butfor.models import Wrapped, wrap
from butfor.models.wrap import model_name
from butfor.results.result import Result
from butfor.results.words import Note, as_note
from butfor.run.overlap import overlap_note
from butfor.run.proposed import Proposed
from butfor.run.run import RunContext, check_zoom, run, with_layers
from butfor.settings import EffectsOf, Link, OnError, Procedure, RunOptions, Settings, default_test, documented
from butfor.types import Alternative, Family, InputError

HELD_VALUES = 2**26  # values of the images that the model is given at a time: 64 MB
MOST_ROWS = 32
KEEP = (3, 2**28)  # counterfactuals of each hypothesis that are kept, and the values of all of them


@documented
def explain(
    model: Any,
    images: object,
    sampler: Any,
    *,
    boxes: object = None,
    fills: str | Path | None = None,
    test: str | Procedure | None = None,
    alternative: Alternative | None = None,
    rule: str | None = None,
    family: Family = "run",
    groups: Any = None,
    weights_by: Any = None,
    target: Any = None,
    y: Any = None,
    link: Link | None = None,
    alpha: float = 0.1,
    decide: Callable[[Any], Any] | Literal[False] | None = None,
    level: float = 0.5,
    min_effect: float | None = None,
    draws: int | None = None,
    bounds: bool = False,
    picked: Callable[[Any], Any] | None = None,
    effects: EffectsOf | None = None,
    seed: int = 0,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
    options: RunOptions | None = None,
    workers: Any = None,
    run_dir: str | PathLike[str] | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
    batch_rows: int | None = None,
    timeout: float | None = None,
    on_error: OnError | None = None,
) -> Result:
    """Which regions of each image the classifier relies on: those but for which its answer would be surprising.

    `test=None` is "few-shot" (1/alpha draws a region), or `butfor.sequential(h=1)` with fewer than 10 images or
    `family="input"`, where few-shot promises nothing. With `boxes="zoom"` it is "sequential", and "osft" for a sampler
    that always draws the same: that is how the paper did it, but Q is then a single point and nothing is promised.
    `target=None` is the class with the largest output over the image *and* its counterfactuals; "observed-class" is the
    paper's, which inflates discoveries. For classes the alternative is "greater" unless you say otherwise. Effects need
    16 fresh draws for each region chosen (200 after "irt" and "sequential"), so they are estimated only where you ask
    for them, and never for a sampler that always draws the same.

    Parameters
    ----------
    model : a classifier of `butfor.image`, a torch module, a Hugging Face pipeline, or a function of a list of images.
    images : a folder, a list of files or arrays, a mapping name -> image, or `butfor.image.folder(...)`; files are
        opened one at a time.
    sampler : redraws a region given the rest of its image: an inpainter, `donor`, your own
        `(images, subset, draws, rng) -> images`.
    boxes : what to test: a list, mapping or file for `butfor.image.boxes`, one list of boxes for each image, masks,
        "grid" (three by three, the default), "zoom" (coarse to fine: cells that split in four where they are chosen),
        "superpixels", "random", or any function (name, image) -> subsets such as `detected_boxes(detector)`.
    fills : a folder that keeps the sampler's draws, so that another alpha, test or model costs no inpainting.
    effects : "chosen" estimates effects from fresh draws for what was chosen, "all" for every region; None saves those.
    {settings}

    Examples
    --------
    >>> from butfor.image import donor
    >>> rng = np.random.default_rng(0)
    >>> noise = rng.integers(90, 110, (12, 24, 24, 3), dtype=np.uint8)
    >>> noise[:, :8, :8] += 100  # a bright corner, which is all that the model looks at
    >>> result = explain(lambda batch: [x[:8, :8].mean() for x in batch], list(noise), donor(), alternative="greater")
    >>> result.table[result.chosen].subset.unique().tolist()
    ['row 1 column 1']
    """
    named = locals()
    wrapped, given = classifier(model), load_items(images)
    fixed = info_of(sampler).deterministic
    if fixed and effects is not None:
        raise InputError(
            f"effects need fresh draws, but {sampler!r} always draws the same; wrap it in butfor.image.diversify"
        )
    usual = "sequential" if is_zoom(boxes) else "osft" if fixed else default_test(len(given), family, dear=True)
    settings = Settings.of(named, test=usual, alternative=None if target in (None, "output") else "greater")
    whole = info_of(sampler).fills_whole
    proposer = as_proposer(boxes, settings.seed, given.names, whole=whole)
    check_zoom(proposer, settings)
    pixels: dict[str, str] = {}
    found = propose_regions(given, proposer, settings.options.on_error, whole=whole, pixels=pixels)
    drawing = prepared(sampler, found, fills)
    check = None if info_of(drawing).changes_subset_only else check_drawn
    items = ListItems(found.items, check, costly=True, packing=RegionPacking())
    context = RunContext(
        problem=with_layers(list_problem(items, found.names, found.subsets, drawing, settings.seed), proposer, found),
        wrapped=wrapped,
        model_name=model_name(model),
        batch_rows=rows_at_a_time(found),
        describe=lambda row: f"image {found.names[row]!r}",
        sampler_notes=partial(_sampler_notes, found, drawing, settings.seed),
        inputs=source_record(repr(proposer), found.items, pixels),
        data_dependent=not is_blind(proposer),
        keep=KEEP,
        kept_notes=fills_judged,
    )
    result = run(context, settings.for_inputs(given.names, found.names))
    notes = overlap_note(result) if test is None else []
    return replace(result, run_notes=(*result.run_notes, *notes))


def classifier(model: Any) -> Wrapped:
    """A model of images: torch modules and Hugging Face pipelines as images go into them, others as they are."""
    if any(kind.__module__.startswith("transformers.pipelines") for kind in type(model).__mro__):
        model = huggingface_classifier(model)
    elif any(kind.__module__ == "torch.nn.modules.module" for kind in type(model).__mro__):
        model = torch_classifier(model)
    names = getattr(model, "classes", None)
    return Wrapped(model, tuple(names)) if names is not None and callable(model) else wrap(model)


def prepared(sampler: Any, found: Proposed, fills: str | Path | None) -> Sampler:
    """The sampler, able to redraw attributes where there are some, with its fills kept where that is asked for."""
    if not callable(sampler):
        raise InputError(
            f"sampler must be a function (images, subset, draws, rng) -> images such as butfor.image.donor(), got "
            f"{type(sampler).__name__}"
        )
    able = with_its_attributes(sampler, found.subsets)
    able = able.for_run(found.items, found.subsets) if isinstance(able, SeesRun) else able
    return able if fills is None else cached(able, fills)


def rows_at_a_time(found: Proposed) -> int:
    """Images the model gets at a time where the user does not say: about 64 MB of them."""
    return int(np.clip(HELD_VALUES // max(1, found.largest), 1, MOST_ROWS))


def _sampler_notes(found: Proposed, sampler: Sampler, seed: int) -> list[Note]:
    """Sentences on the images, and what the sampler says of its draws."""
    own = sampler.notes(found.items, found.subsets, seed) if isinstance(sampler, HasNotes) else []
    return [*found.notes, *map(as_note, own)]
