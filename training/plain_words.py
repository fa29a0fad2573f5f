"""The words that are as common in praise as in blame: the foil of `small_infiller(among="plain")`.

A word is plain if it comes in about as many positive as negative training reviews: the logarithm of the ratio of the
two counts, 5 added to each, is at most LARGEST in size. Nothing of the test split or of any classifier has a say.
"""

from __future__ import annotations

import numpy as np
from corpus import WEIGHTS, encoded, reviews, tokenizer

LARGEST = 0.3


def main() -> None:
    labels = reviews("train").labels
    counts = np.zeros((2, 10_000))
    for row, label in zip(encoded("train"), labels, strict=True):
        counts[label, np.unique(row)] += 1
    odds = np.log((counts[1] + 5) / (counts[0] + 5))
    known = tokenizer()
    pieces = [known.id_to_token(place) for place in range(counts.shape[1])]
    whole = [not p.startswith(("##", "[", "<")) and any(c.isalnum() for c in p) for p in pieces]
    plain = sorted(pieces[place] for place in np.flatnonzero((np.abs(odds) <= LARGEST) & np.array(whole)))
    (WEIGHTS / "plain.txt").write_text("\n".join(plain) + "\n", encoding="utf-8")
    print(len(plain), "of", sum(whole), "words are plain")


if __name__ == "__main__":
    main()
