"""Two views -> what is established in both, in one of them only, or in neither."""

from __future__ import annotations

from typing import Any

MOST = 500  # rows


def compare(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Rows of the same input and subset side by side, what differs first.

    >>> row = {"input": "a", "subset": "s", "chosen": True, "effect": "+1"}
    >>> one, other = {"rows": [row]}, {"rows": [{**row, "chosen": False}]}
    >>> compare(one, other)["rows"][0]["verdict"]
    'only in the first'
    """
    left, right = ({(row["input"], row["subset"]): row for row in view["rows"]} for view in (first, second))
    rows = [_pair(key, left.get(key), right.get(key)) for key in dict.fromkeys([*left, *right])]
    rows.sort(key=lambda row: ORDER.index(row["verdict"]))
    counts = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in ORDER}
    common = len(left.keys() & right.keys())
    return {"counts": counts, "common": common, "rows": rows[:MOST], "left_out": max(0, len(rows) - MOST)}


ORDER = ("only in the first", "only in the second", "in both", "in neither")


def _pair(key: tuple[str, str], one: dict[str, Any] | None, other: dict[str, Any] | None) -> dict[str, Any]:
    found = [row is not None and bool(row["chosen"]) for row in (one, other)]
    place = {(True, False): 0, (False, True): 1, (True, True): 2, (False, False): 3}[found[0], found[1]]
    cells = ["not tested" if row is None else row.get("effect") or "" for row in (one, other)]
    return {"input": key[0], "subset": key[1], "first": cells[0], "second": cells[1], "verdict": ORDER[place]}
