"""All that a run depends on, in words and digests: a run directory is for one run, and says what differs in another."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from hashlib import blake2b
from typing import Any

import numpy as np

from butfor._version import __version__
from butfor.core.draw.blocks import Job, Problem, draw
from butfor.core.draw.samplers import info_of, name_of
from butfor.engine.journal import fingerprint, items_digest
from butfor.run.settings import Settings

APART = ("run_dir", "progress", "workers", "timeout", "on_error")  # what may be another when a run goes on


def manifest(
    problem: Problem, model_name: str, batch_rows: int, settings: Settings, reference: Any = None
) -> dict[str, str]:
    """The version, the settings, and what tells model, data, reference and sampler from others."""
    told = {"butfor": __version__, "model": model_name, "data": items_digest(problem.items).hex()}
    if reference is not None:
        told["reference"] = items_digest(reference).hex()
    told["sampler"] = _sampler(problem)
    told["subsets"] = blake2b(repr(problem.subset_names).encode("utf-8", "replace"), digest_size=20).hexdigest()
    own = {field.name: _said(vars(settings)[field.name]) for field in fields(settings) if field.name not in APART}
    return told | own | {"batch_rows": str(settings.batch_rows or batch_rows)}


def _said(value: object) -> str:
    """A setting in words; of labels and groups a digest, of functions their name."""
    if callable(value) and not isinstance(value, type):
        return name_of(value)
    if isinstance(value, str | int | float | bool) or value is None:
        return repr(value)
    text = _lasting(value) if not hasattr(value, "__len__") else repr(np.asarray(value, dtype=object).tolist())
    return text if len(text) <= 200 else blake2b(text.encode("utf-8", "replace"), digest_size=20).hexdigest()


def _lasting(thing: object) -> str:
    """A repr without places in memory."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(thing))


def _sampler(problem: Problem) -> str:
    """Its name and, where that costs little, what it draws."""
    said = re.sub(r" at 0x[0-9a-fA-F]+", "", info_of(problem.sampler).identity)
    made = blake2b(said.encode("utf-8", "replace"), digest_size=20)
    if not problem.items.costly:
        quiet = replace(problem, watch=None)
        for block in {0: problem.blocks[0], 1: problem.blocks[-1]}.values():
            try:
                drawn = draw(quiet, Job(block, 1, "fingerprint")).values
            except Exception:  # it says so itself when it is used
                continue
            made.update(fingerprint(drawn))
    return made.hexdigest()
