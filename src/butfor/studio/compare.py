"""The hypotheses of two results -> what is established in both, in one of them only, or in neither."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

MOST = 500  # rows that are listed; all are counted
Tested = Sequence[Any]  # of one hypothesis: input, subset, whether it is chosen, effect as shown or None


def compare(first: Sequence[Tested], second: Sequence[Tested]) -> dict[str, Any]:
    """Hypotheses of the same input and subset side by side, what differs first.

    >>> found = compare([("a", "s", True, "+1")], [("a", "s", False, "+1")])
    >>> found["rows"][0]["verdict"]
    'only in the first'
    """
    left, right = ({(one[0], one[1]): one for one in tested} for tested in (first, second))
    pairs = [(_verdict(left.get(key), right.get(key)), key) for key in dict.fromkeys([*left, *right])]
    pairs.sort(key=lambda pair: pair[0])
    counted = Counter(place for place, _ in pairs)
    return {
        "counts": {verdict: counted[place] for place, verdict in enumerate(ORDER)},
        "common": len(left.keys() & right.keys()),
        "rows": [_listed(place, key, left.get(key), right.get(key)) for place, key in pairs[:MOST]],
        "left_out": max(0, len(pairs) - MOST),
    }


ORDER = ("only in the first", "only in the second", "in both", "in neither")


def _verdict(one: Tested | None, other: Tested | None) -> int:
    """The place in `ORDER`."""
    found = one is not None and bool(one[2]), other is not None and bool(other[2])
    return {(True, False): 0, (False, True): 1, (True, True): 2, (False, False): 3}[found]


def _listed(place: int, key: tuple[str, str], one: Tested | None, other: Tested | None) -> dict[str, Any]:
    cells = ["not tested" if tested is None else tested[3] or "" for tested in (one, other)]
    return {"input": key[0], "subset": key[1], "first": cells[0], "second": cells[1], "verdict": ORDER[place]}
