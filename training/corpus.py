"""Reviews from the assets folder: the text of the splits, and their pieces as one long array."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer

HERE = Path(__file__).resolve().parent
WEIGHTS = HERE.parent / "src" / "butfor" / "text" / "weights"


class Reviews(NamedTuple):
    texts: list[str]
    labels: np.ndarray  # (n,) 1 positive, 0 negative, -1 unlabelled


def assets() -> Path:
    return Path(os.environ.get("BUTFOR_ASSETS", HERE.parent.parent / "shared" / "assets"))


def scratch() -> Path:
    """Checkpoints and encoded text stay outside the repository."""
    folder = Path(os.environ.get("BUTFOR_SCRATCH", "/tmp/text-train"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def reviews(split: str) -> Reviews:
    with gzip.open(assets() / "imdb" / f"{split}.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    names = {"pos": 1, "neg": 0, 1: 1, 0: 0, "positive": 1, "negative": 0}
    return Reviews([r["text"] for r in rows], np.array([names.get(r.get("label"), -1) for r in rows]))


def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))


def encoded(split: str) -> list[np.ndarray]:
    """Piece ids of every review of a split, without edges; kept in the scratch folder after the first call."""
    cache = scratch() / f"{split}.npz"
    if cache.exists():
        stored = np.load(cache)
        return np.split(stored["ids"], stored["ends"][:-1])
    rows = [np.array(e.ids, np.int16) for e in tokenizer().encode_batch(reviews(split).texts, add_special_tokens=False)]
    np.savez(cache, ids=np.concatenate(rows), ends=np.cumsum([len(r) for r in rows]))
    return rows
