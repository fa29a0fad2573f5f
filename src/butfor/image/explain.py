"""The public edge for images: one call from a classifier and photographs to regions with a guarantee."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from butfor.evaluation.hypotheses import is_blind, list_problem
from butfor.evaluation.items import ListItems
from butfor.evaluation.samplers import HasNotes, Sampler, SeesRun, info_of
from butfor.image.cache import cached, not_kept
from butfor.image.inputs import as_proposer, is_zoom, load_items, propose_regions, source_metadata, with_its_attributes
from butfor.image.models import huggingface_classifier, torch_classifier
from butfor.image.plausibility import fills_judged
from butfor.image.region import RegionPacking, check_drawn
from butfor.models import Wrapped, wrap
from butfor.models.wrap import model_name
from butfor.results.result import Result
from butfor.run.proposed import Proposed
from butfor.run.run import RunContext, check_zoom, run, with_layers
from butfor.run.suited import Suited, by_cost, suited
from butfor.settings import NAMES, Procedure, Settings, of_those_left, sequential, takes
from butfor.types import InputError

HELD_VALUES = 2**26  # values of the images that the model is given at a time: 64 MB
MOST_ROWS = 32
KEEP = (3, 2**28)  # counterfactuals of each hypothesis that are kept, and the values of all of them


@takes(NAMES, effects=None)
def explain(
    model: Any,
    images: object,
    sampler: Any,
    *,
    boxes: object = None,
    fills: str | Path | None = None,
    **options: object,
) -> Result:
    """Which regions of each image the classifier relies on: those but for which its answer would be surprising.

    `test=None` measures what a fill and a row of the model cost: it is "sequential", whose answer depends less on the
    seed, where that is expected to take five minutes at most, else "few-shot" (1/alpha draws a region; also where
    `draws` or `rule` are given), and for fewer than 10 images, of which few-shot promises nothing,
    `butfor.sequential(h=1)`. The result says which and why. With `boxes="zoom"` it is "sequential", and "osft" for
    a sampler that always draws the same: that is how the paper did it, but Q is then a single point and nothing is
    promised.
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
    fills : a folder that keeps the sampler's draws, so that another alpha, test or model costs no inpainting; not where
        no test is named and draws turn out to be cheap.
    effects : "chosen" estimates effects from fresh draws for what was chosen, "all" for every region; None saves those.
        Where no test is named and draws turn out to be cheap, None is "all".
    **options : settings.

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
    wrapped, given = classifier(model), load_items(images)
    settings = _settings(sampler, options, is_zoom(boxes))
    whole = info_of(sampler).fills_whole
    proposer = as_proposer(boxes, settings.seed, given.names, whole=whole)
    check_zoom(proposer, settings)
    pixels: dict[str, str] = {}
    found = propose_regions(given, proposer, settings.on_error, whole=whole, pixels=pixels)
    drawing = prepared(sampler, found, fills)
    check = None if info_of(drawing).changes_subset_only else check_drawn
    items = ListItems(found.items, check, costly=True, packing=RegionPacking())
    metadata = {"modality": "image", "boxes": repr(proposer), "data_dependent": not is_blind(proposer)}
    context = RunContext(
        problem=with_layers(list_problem(items, found.names, found.subsets, drawing, settings.seed), proposer, found),
        wrapped=wrapped,
        model_name=model_name(model),
        batch_rows=rows_at_a_time(found),
        describe=lambda row: f"image {found.names[row]!r}",
        sampler_notes=partial(_sampler_notes, found, drawing, settings.seed),
        metadata=metadata | source_metadata(found.items, pixels),
        keep=KEEP,
        kept_notes=fills_judged,
    )
    found_test = Suited(settings)
    if by_cost(options) and settings.test.name == "few-shot":
        bare = replace(context, problem=replace(context.problem, sampler=prepared(not_kept(sampler), found, None)))
        found_test = suited(bare, partial(_settings, sampler, options, False), settings.run_dir)
        if found_test.cheap:  # many draws that cost little: keeping them costs more
            context = bare
    result = run(context, of_those_left(found_test.settings, given.names, found.names))
    return found_test.told(result)


def _settings(sampler: object, options: dict[str, object], zoom: bool, test: Procedure | None = None) -> Settings:
    """The settings with the defaults of images: effects of every region where draws are cheap."""
    fixed = info_of(sampler).deterministic
    if fixed and options.get("effects") is not None:
        raise InputError(
            f"effects need fresh draws, but {sampler!r} always draws the same; wrap it in butfor.image.diversify"
        )
    cheap = test == sequential() and options.get("effects") is None  # chosen by cost
    usual = "sequential" if zoom else "osft" if fixed else "few-shot"
    alternative = None if options.get("target") in (None, "output") else "greater"
    effects = {"effects": "all"} if cheap else {}
    return Settings.of(options | effects, test=test or usual, alternative=alternative)


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


def _sampler_notes(found: Proposed, sampler: Sampler, seed: int) -> list[str]:
    """Sentences on the images, and what the sampler says of its draws."""
    own = sampler.notes(found.items, found.subsets, seed) if isinstance(sampler, HasNotes) else []
    return [*found.notes, *own]
