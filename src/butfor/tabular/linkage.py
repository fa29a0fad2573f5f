"""Average linkage of columns: what SciPy's hierarchy gives, without half a second of imports before a result."""

from __future__ import annotations

import numpy as np

from butfor.core.types import Floats, Ints

Merge = tuple[float, int, int]  # at which distance which two clusters become one, each named by one of its members


def average_linkage(distances: Floats) -> list[Merge]:
    """The merges of average linkage on distances (n, n), from the nearest to the farthest.

    By chains of nearest neighbours (Murtagh 1983), in O(n^2); ties are broken as SciPy breaks them.

    >>> average_linkage(np.array([[0.0, 1, 4], [1, 0, 4], [4, 4, 0]]))
    [(1.0, 0, 1), (4.0, 1, 2)]
    """
    between = distances.astype(np.float64)
    np.fill_diagonal(between, np.inf)
    size, chain, merges = np.ones(len(between)), list[int](), list[Merge]()
    while len(merges) < len(between) - 1:
        if not chain:
            chain.append(int(np.flatnonzero(size)[0]))
        while True:
            own = between[chain[-1]]
            nearest = int(own.argmin())
            if len(chain) > 1 and own[chain[-2]] <= own[nearest]:  # the one before is preferred where others tie
                break
            chain.append(nearest)
        gone, left = sorted((chain.pop(), chain.pop()))
        merges.append((float(between[gone, left]), gone, left))
        both = size[gone] + size[left]
        joined = (size[gone] * between[gone] + size[left] * between[left]) / both
        joined[left] = np.inf
        between[left] = between[:, left] = joined
        between[gone] = between[:, gone] = np.inf
        size[gone], size[left] = 0.0, both
    return sorted(merges, key=lambda merge: merge[0])  # stable


def cut(merges: list[Merge], count: int) -> Ints:
    """The cluster (n,) of every member when at most `count` clusters are left; merges at one distance stay together.

    >>> cut([(1.0, 0, 1), (4.0, 1, 2)], 2).tolist()
    [1, 1, 2]
    """
    members = len(merges) + 1
    label = np.arange(members)
    farthest = merges[members - count - 1][0] if count < members else -np.inf
    for distance, one, other in merges:
        if distance <= farthest:
            label[label == label[one]] = label[other]
    return label
