"""p-values of many inputs -> a weight per hypothesis, learned from the other inputs (METHODS 12)."""

from __future__ import annotations

import numpy as np

from butfor.types import Bools, Floats, InputError, Ints

# p-values are ratios of integers: one that equals its threshold in exact arithmetic is at most it here too.
SLACK = 1 + 1e-12
LEAST_CLUSTERS = 20  # with fewer there is too little to learn from
SPLITS, FOLDS = 5, 5
PENALTIES = np.geomspace(1, 1000, 25)
SHARES = (0.0, 0.5, 0.9)  # of the learned weights; the rest is 1, so that it is never much worse than BH
FULL = 0.8  # a null proportion from here on counts as 1: what it could add is less than what it may cost
PILOT = 64  # first draws, from which a sequential run learns weights (not the pilot draws of a centre)
Weights = tuple[Floats, float]  # of every hypothesis (H,), with mean 1 in every fold; the weighted share of true nulls


def learn_weights(p: Floats, input_of: Ints, label_of: Ints, alpha: float, rng: np.random.Generator) -> Weights:
    """Which labels hold small p-values is learned from inputs of other folds (Ignatiadis & Huber 2021).

    `input_of` is the cluster (H,) of a hypothesis: those of one cluster may depend on each other, those of two may not.
    `label_of` (H,) says which hypotheses are alike over inputs: the subset of a table, a part of speech. Neither may
    depend on the p-values. With fewer than 20 clusters all weights are 1 and so is the share: plain BH.
    """
    names, clusters = np.unique(input_of, return_inverse=True)
    if len(names) < LEAST_CLUSTERS:
        return np.ones(len(p)), 1.0
    learner = Learner(p, label_of, alpha)
    weights = np.zeros(len(p))
    for _ in range(SPLITS):
        fold = (rng.permutation(len(names)) % FOLDS)[clusters]
        for k in range(FOLDS):
            weights[fold == k] += learner.weights(fold != k, fold == k, clusters, rng) / SPLITS
    each = len(p) / len(names)  # hypotheses of a cluster; 2 clusters more, as all of a cluster may move together
    nulls = (2 * each + weights[p > 0.5].sum()) / (len(p) / 2)
    return weights, 1.0 if nulls >= FULL else float(nulls)


class Learner:
    """p-values in the order in which learning reads them: by label, then by size; nothing in it changes."""

    def __init__(self, p: Floats, label_of: Ints, alpha: float) -> None:
        names, labels = np.unique(label_of, return_inverse=True)
        self.p, self.alpha, self.labels, self.count = p, alpha, labels.reshape(-1), len(names)
        floored = np.maximum(p, alpha / 10)  # learning must not chase the smallest p-values
        order = np.lexsort((floored, self.labels))
        p, labels = floored[order], self.labels[order]
        new = np.append(True, (labels[1:] != labels[:-1]) | (p[1:] != p[:-1]))[: len(p)]
        self.steps, self.label_of_step = p[new], labels[new]  # (steps,) different p-values of each label
        self.step = np.empty(len(p), np.int64)
        self.step[order] = np.cumsum(new) - 1  # (H,)

    def weights(self, others: Bools, members: Bools, clusters: Ints, rng: np.random.Generator) -> Floats:
        """Return weights of `members` with mean 1, learned from the p-values of `others` only."""
        share = self._share(others, clusters, rng)
        return 1 - share + share * self._learned(others, members)

    def _share(self, others: Bools, clusters: Ints, rng: np.random.Generator) -> float:
        """How far to trust the weights: the share that finds most, learned on one half of the others for the other."""
        half = (rng.permutation(int(clusters.max()) + 1) % 2)[clusters]
        discoveries = np.zeros(len(SHARES))
        for k in (0, 1):
            test = others & (half == k)
            learned = self._learned(others & (half != k), test)
            discoveries += [_count(self.p[test] / (1 - share + share * learned), self.alpha) for share in SHARES]
        return SHARES[int(discoveries.argmax())]  # the smallest of equals

    def _learned(self, others: Bools, members: Bools) -> Floats:
        learned = self._thresholds(others)[self.labels[members]]
        mean = learned.mean() if learned.size else 0.0
        return learned / mean if mean > 0 else np.ones(learned.size)

    def _thresholds(self, among: Bools) -> Floats:
        """Thresholds (labels,) that would find most of these p-values at a false discovery rate near alpha.

        Discoveries less v times the expected false ones are maximised (a Lagrangian): at penalty v label j takes the t
        that makes max(#{p_j <= t} - 1, 0) - v n_j t largest: a vertex of the upper hull of the points (n_j t, found -
        1) and the origin, the last one that is reached by an edge steeper than v.
        """
        times = np.bincount(self.step[among], minlength=len(self.steps))
        there = times > 0
        size = np.bincount(self.labels[among], minlength=self.count)
        edges, x, y, first = _hull(self.steps[there], self.label_of_step[there], times[there], size)
        steep = np.argsort(-y / x, kind="stable")
        edges, x, y, first = edges[steep], x[steep], y[steep], first[steep]
        spent, discoveries = np.cumsum(x), np.cumsum(y + first)  # n t and #{p <= t}, over all labels
        taken = np.searchsorted(-y / x, -PENALTIES, side="left")  # edges that are steeper than each penalty
        taken = taken[taken > 0] - 1
        for level in (self.alpha, 2 * self.alpha, 4 * self.alpha):
            fits = taken[spent[taken] <= level * discoveries[taken]]
            if fits.size:
                last = int(fits.max()) + 1
                budget = np.bincount(edges[:last], x[:last], minlength=self.count)
                mean = budget.sum() / size.sum()
                return np.where(size > 0, budget / np.maximum(size, 1), mean)  # a label that was not seen: as the mean
        return np.ones(self.count)


def _hull(p: Floats, labels: Ints, times: Ints, size: Ints) -> tuple[Ints, Floats, Floats, Bools]:
    """Edges of every label's upper hull: label, rise of n t, rise of what is found, whether it starts at the origin.

    Different p-values (n,) of each label, smallest first, and how often each is there; `size` (labels,) adds up to it.
    """
    seen = size[size > 0]
    begins = np.searchsorted(labels, np.flatnonzero(size))
    rank = np.cumsum(times) - 1 - (np.cumsum(size) - size)[labels]  # found at t = p, but for one
    starts = begins + np.arange(len(seen))  # of the origins among the points
    points = np.ones(len(p) + len(seen), bool)
    points[starts] = False
    which, x, y = np.empty(len(points), np.int64), np.zeros(len(points)), np.zeros(len(points))
    which[points], which[starts] = labels, labels[begins]
    x[points], y[points] = p * size[labels], rank
    while len(x) > 2:
        dx, dy = x[1:] - x[:-1], y[1:] - y[:-1]
        above = np.ones(len(x), bool)
        above[1:-1] = (which[:-2] != which[2:]) | (dy[:-1] * dx[1:] > dy[1:] * dx[:-1])
        if above.all():
            break
        which, x, y = which[above], x[above], y[above]
    origin = x == 0
    edge = np.flatnonzero(~origin)
    return which[edge], x[edge] - x[edge - 1], y[edge] - y[edge - 1], origin[edge - 1]


def weighted_bh(p: Floats, weights: Floats, nulls: float, alpha: float) -> Bools:
    """Weighted BH (Genovese, Roeder & Wasserman 2006) on p-values (H,), with the null proportion `nulls`.

    Nothing with p > alpha is chosen, whatever its weight: such a p counts as 1, and larger p-values stay valid.

    >>> weighted_bh(np.array([0.04, 0.04, 0.9]), np.array([2.0, 0.5, 0.5]), 1.0, alpha=0.1)
    array([ True, False, False])
    >>> weighted_bh(np.array([0.01, 0.12]), np.array([1.0, 1.5]), 0.5, alpha=0.1)
    array([ True, False])
    """
    ratio = np.where(p > alpha * SLACK, np.inf, weighted_p(p, weights, nulls))
    count = _count(ratio, alpha)
    return ratio <= alpha * SLACK * count / max(1, p.size) if count else np.zeros(p.shape, bool)


def weighted_p(p: Floats, weights: Floats, nulls: float) -> Floats:
    """P / W times the null proportion (H,): what weighted BH compares."""
    if nulls < 1:
        p = np.where(p > 0.5, np.inf, p)  # they were counted as nulls: they are given up, whatever their weight
    return np.asarray(np.divide(p * nulls, weights, out=np.full(p.shape, np.inf), where=weights > 0))


def _count(p: Floats, alpha: float) -> int:
    """How many BH rejects."""
    ordered = np.sort(p[p <= alpha * SLACK])
    passed = ordered <= alpha * SLACK * np.arange(1, ordered.size + 1) / max(1, p.size)
    return int(np.flatnonzero(passed).max(initial=-1)) + 1


def clusters_of(p: Floats, groups: Ints | None) -> Ints:
    """The cluster of every input (n,): inputs of one group together, and inputs with equal p-values (n, d)."""
    _, alike = np.unique(np.nan_to_num(p, nan=2.0), axis=0, return_inverse=True)
    alike = alike.reshape(-1).astype(np.int64)
    return alike if groups is None else joined(alike, groups)


def joined(alike: Ints, groups: Ints) -> Ints:
    """The cluster of every input (n,), where inputs that are alike or of one group are in one; both count from 0.

    >>> joined(np.array([0, 1, 2, 2]), np.array([0, 0, 1, 2]))
    array([0, 0, 1, 1])
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    named = groups + int(alike.max(initial=0)) + 1
    size = int(named.max(initial=0)) + 1
    graph = coo_array((np.ones(len(named)), (alike, named)), shape=(size, size))
    return np.asarray(connected_components(graph, directed=False)[1][alike], np.int64)


LEAST_BLOCKS = 200  # with fewer the numbers that are computed without a block are too rough to find much


def strict_e_values(p: Floats, input_of: Ints, label_of: Ints, alpha: float, rng: np.random.Generator) -> Floats:
    """e-values (H,); those of true nulls sum to at most m = H in expectation if blocks (clusters) are independent.

    For a block b of fold k, W are weights learned from other folds, with sum m_k over the fold; pi_b and r_b are
    computed without b. With t = alpha W r_b / (m pi_b) the e-value is e = (W / pi_b) [P <= t] / t, that is
    [P <= t] m / (alpha r_b).

    1. Given all other blocks only P is random: E[e] <= E[W / pi_b] for a true null, whatever its block's other P do.
    2. If pi_b = 1, the sum over the fold's true nulls is at most m_k. Whether it is 1, the other folds decide.
    3. Else pi_b = (2 M + S_b) / (m_k / 2): S_b sums W [P > .5] over the fold's other blocks, M is the largest sum of W
       of a block. Given the other folds, the parts of S_b are independent, in [0, M], with means u_c of at least half
       their block's null weight. 1 / x is convex: coins that give M or 0 with the same means make E[1 / (2 M + S_b)]
       largest, and that is at most E[1 / (M + S)] with S over all blocks of the fold, b too. For N a sum of independent
       coins E[1 / (1 + N)] = integral of E[s^N] over s in (0, 1) <= 1 / E[N]. So E[1 / pi_b] <= (m_k / 2) / sum of u_c
       <= m_k / (null weight of the fold), and the sum over the fold's true nulls is at most m_k again.
    4. Folds add up to m, and a sum of at most m is all that e-BH needs (compound e-values: Ignatiadis, Wang & Ramdas
       2024).
    """
    names, blocks = np.unique(input_of, return_inverse=True)
    if len(names) < LEAST_BLOCKS:
        raise InputError(
            f"the strict adaptive rule needs at least {LEAST_BLOCKS} independent inputs (or groups), got {len(names)}; "
            "use the rule adaptive, or bh with fewer than 20"
        )
    learner, blocks = Learner(p, label_of, alpha), blocks.reshape(-1)
    fold = (rng.permutation(len(names)) % FOLDS)[blocks]
    e, small = np.zeros(len(p)), np.where(p > alpha * SLACK, np.inf, p)  # nothing with p > alpha is chosen: e is less
    for k in range(FOLDS):
        weights = np.ones(len(p))  # of fold k from all other folds, of others from those that are neither it nor k
        for part in range(FOLDS):
            members = fold == part
            weights[members] = learner.weights((fold != k) & ~members, members, blocks, rng)
        nulls = _nulls(p, weights, fold, k, blocks)
        count = _count_without(small / weights, nulls, fold == k, blocks, alpha)  # 0 outside the fold
        passed = (count > 0) & (small <= alpha * SLACK * weights * count / (len(p) * nulls))
        e[passed] = len(p) / (alpha * count[passed])
    return e


def _nulls(p: Floats, weights: Floats, fold: Ints, k: int, blocks: Ints) -> Floats:
    """pi (H,): of fold k without the own block, of other folds as a whole; 1 if those say that it would not help."""
    high = np.where(p > 0.5, weights, 0.0)
    each = np.bincount(blocks, weights)
    most = np.array([each[np.unique(blocks[fold == part])].max() for part in range(FOLDS)])
    size, above = np.bincount(fold, minlength=FOLDS), np.bincount(fold, high, minlength=FOLDS)
    others = np.arange(FOLDS) != k
    if (2 * most[others].max() + above[others].sum()) / (size[others].sum() / 2) >= FULL:
        return np.ones(len(p))
    mine = np.where(fold == k, np.bincount(blocks, high)[blocks], 0.0)
    return np.asarray((2 * most[fold] + above[fold] - mine) / (size[fold] / 2))


def _count_without(ratio: Floats, nulls: Floats, members: Bools, blocks: Ints, alpha: float) -> Floats:
    """r_b (H,) of the fold's blocks from P / W: less than what BH chooses where the own block has no say, 0 elsewhere.

    BH chooses r, the largest with #{P / W <= alpha r / (m pi)} >= r: going down from m, the first that stands. Of other
    folds pi is their own; the whole fold of b is counted at pi_b, as the pi of its other blocks have seen b.
    """
    outside, inside = np.sort((ratio * nulls)[~members]), np.sort(ratio[members])
    count = np.full(members.sum(), float(len(ratio)))
    while True:
        reach = alpha * count / len(ratio)
        near = reach / nulls[members]
        mine = np.bincount(blocks[members], ratio[members] <= near)[blocks[members]]
        fewer = outside.searchsorted(reach, "right") + inside.searchsorted(near, "right") - mine
        if (fewer == count).all():
            break
        count = fewer
    result = np.zeros(len(ratio))
    # e-BH drops what counts on more than there is
    result[members] = np.maximum(0.7 * count, count - 2.5 * np.sqrt(count))
    return result
