"""The statistic of a hypothesis: outputs of an input and its counterfactuals -> numbers that can be compared.

Of outputs (n, versions, outputs) of n inputs, version 0 is the observed input, versions 1..K are its counterfactuals.
`tied_values` picks one output and makes values equal that differ by rounding alone; `tail_statistic` turns them so that
large values speak against the null; `Evidence` is what a test makes of that, one entry per hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from typing import Any, Literal

import numpy as np

from butfor.types import Alternative, Array, Bools, Floats, InputError, Ints


@dataclass(frozen=True)
class Target:
    """Which number of an output row is tested: one class for all, a class per input, or the predicted one."""

    kind: Literal["output", "fixed", "per-input", "predicted"]
    classes: Ints | None = None  # (1,) for "fixed", (inputs,) for "per-input"


def averaged_target(target: Target, outputs: Floats, link: str | None) -> Target:
    """Return what is averaged over inputs, of outputs (n, outputs): of two probabilities the same class for all inputs.

    What speaks for one of two classes speaks as much against the other, so which of them is tested is a matter of sign,
    and a two-sided test may take the one that most inputs are called.

    >>> averaged_target(Target("predicted"), np.array([[0.1, 0.9], [0.2, 0.8]]), None)
    Target(kind='fixed', classes=array([1]))
    """
    known = outputs[np.isfinite(outputs).all(axis=1)]  # others were skipped
    mirrored = link in (None, "logit") and outputs.shape[1] == 2 and np.allclose(known.sum(axis=1), 1, atol=1e-5)
    if target.kind != "predicted" or not mirrored:
        return target
    return Target("fixed", np.array([np.bincount(known.argmax(axis=1), minlength=2).argmax()]))


def pick(outputs: Floats, target: Target, inputs: Ints) -> tuple[Floats, Ints]:
    """Return one number per version (n, versions) and the class it is of (n,), from outputs (n, versions, outputs).

    "predicted" takes the class with the largest output over the observed input *and* its draws: a rule symmetric in
    them, so the observed one stays exchangeable (METHODS 0).
    """
    count = len(outputs)
    if target.kind == "output":
        classes = np.zeros(count, np.int64)
    elif target.kind == "predicted":
        classes = outputs.max(axis=1).argmax(axis=1)
    else:
        assert target.classes is not None
        classes = np.broadcast_to(target.classes, count) if target.kind == "fixed" else target.classes[inputs]
    if outputs.shape[2] == 1:
        return outputs[:, :, 0], classes
    return np.take_along_axis(outputs, classes[:, None, None], axis=2)[:, :, 0], classes


def linked(values: Floats, link: str | None) -> Floats:
    """Return values on the scale of the test; the link is strictly increasing, so it never changes who is larger."""
    if link is None:
        return values
    if link == "logit" and (values.min() < 0 or values.max() > 1):
        raise InputError(f"link='logit' needs probabilities, got outputs from {values.min():g} to {values.max():g}")
    if link == "log" and values.min() < 0:
        raise InputError(f"link='log' needs outputs that are not negative, got {values.min():g}")
    logs = np.log(np.maximum(values, np.finfo(np.float64).tiny))
    return logs if link == "log" else logs - np.log1p(-np.minimum(values, 1 - 2.0**-53))


@dataclass(frozen=True)
class Rounding:
    """How far two outputs of one and the same row may lie apart: the model's arithmetic, not its answer (METHODS 6)."""

    relative: float
    absolute: float  # the largest of all
    local: Floats | None = None  # (inputs, outputs) of each output near each input, where they differ

    def near(self, inputs: Ints, classes: Ints) -> Floats | float:
        """Return the absolute tolerance (n, 1) of output classes[i] near input inputs[i]."""
        if self.local is None:
            return self.absolute
        return np.asarray(self.local[inputs, np.minimum(classes, self.local.shape[1] - 1)][:, None])

    def merge_ties(self, values: Floats, near: Floats | float | None = None) -> Floats:
        """Return values (n, versions) in which draws that differ from the observed by rounding alone are equal to it.

        `near` is the absolute tolerance (n, 1) where it is known for these inputs and outputs.
        """
        observed = values[:, :1]
        tolerance = np.maximum(self.relative * np.abs(observed), self.absolute if near is None else near)
        gap = values - observed
        np.abs(gap, out=gap)
        snapped = snap(values)  # after comparing: two values a bit apart may lie on either side of an edge
        np.copyto(snapped, snapped[:, :1].copy(), where=gap <= tolerance)
        return snapped

    def same(self, outputs: Floats, inputs: Ints) -> Bools:
        """Return which versions of outputs (n, versions, outputs) differ from the observed by rounding alone."""
        observed = outputs[:, :1]
        near = self.absolute if self.local is None else self.local[inputs][:, None, :]
        gap = outputs - observed
        np.abs(gap, out=gap)
        close = gap <= np.maximum(self.relative * np.abs(observed), near)
        return np.asarray(close[:, :, 0] if close.shape[2] == 1 else close.all(axis=2))


def snap(values: Floats) -> Floats:
    """Round to 33 significant bits (Veltkamp): the same bits whatever the batch a float64 row was computed in.

    Versions, along axis 1, that differ by little of what they are (1e11 + x) stay as they are: the bits that tell them
    apart would be lost.
    """
    single = values.ndim == 1 or not values.size
    high, low = (values, values) if single else (values.max(axis=1, keepdims=True), values.min(axis=1, keepdims=True))
    if max(high.max(initial=0.0), -low.min(initial=0.0)) > 2.0**1000:
        return values.copy()  # too large to be scaled
    scaled = values * (2.0**20 + 1)
    rest = scaled - values
    np.subtract(scaled, rest, out=scaled)
    if single:
        return scaled
    size, spread = np.maximum(high, -low), high - low
    flat = (spread < 2.0**-20 * size) & (spread > 2.0**-46 * size)  # below that it is rounding
    if flat.any():
        np.copyto(scaled, values, where=flat)
    return scaled


def tail_statistic(values: Floats, alternative: Alternative, centre: Floats | None = None) -> Floats:
    """Return T (n, versions) whose large values speak against the null; `centre` (n,) is needed for two sides.

    Two-sided T is |y - c|, which orders values as the paper's (y - c)^2 does; `osft` squares it again.

    >>> tail_statistic(np.array([[1.0, -3.0]]), "two-sided", np.array([0.0]))
    array([[1., 3.]])
    """
    if alternative == "greater":
        return values
    if alternative == "less":
        return -values
    assert centre is not None
    distance = np.abs(values - centre[:, None])
    observed = distance[:, :1]  # two values on either side of c that are equally far but for rounding are a tie
    return np.where(np.abs(distance - observed) <= 1e-9 * observed, observed, distance)


def by_rule(name: str, rule: Callable[[Any], Any], outputs: Floats, kind: str, example: float) -> Array:
    """Return what a user's rule `name` says of outputs (..., outputs), or refuse what is not one value of each row."""
    flat = outputs.reshape(-1, outputs.shape[-1])
    try:
        made = np.asarray(rule(flat[:, 0] if flat.shape[1] == 1 else flat))
    except Exception as error:
        raise InputError(f"{name} raised {type(error).__name__} on outputs of {len(flat)} rows: {error}") from error
    if made.shape != (len(flat),) or (kind == "booleans" and made.dtype != bool):
        one = "outputs" if flat.shape[1] == 1 else "outputs[:, 1]"
        raise InputError(
            f"{name} must turn outputs of {len(flat)} rows into {len(flat)} {kind}, got {made.dtype} of shape "
            f"{made.shape}; for example {name}=lambda outputs: {one} >= {example}"
        )
    return made.reshape(outputs.shape[:-1])


@dataclass
class Tally:
    """How many draws passed the rule of `Picked`, over a run."""

    drawn: int = 0
    accepted: int = 0


@dataclass(frozen=True)
class Picked:
    """The rule that picked the inputs, outputs (n,) or (n, outputs) -> bool (n,); draws it rejects are not counted."""

    rule: Callable[[Any], Any]
    tally: Tally = field(default_factory=Tally)

    def passes(self, outputs: Floats) -> Bools:
        """Return which of outputs (..., outputs) the rule would have picked."""
        return by_rule("picked", self.rule, outputs, "booleans", 0.9)

    def accept(self, outputs: Floats) -> Bools:
        """Return the same for draws, and count them."""
        passed = self.passes(outputs)
        self.tally.drawn += passed.size
        self.tally.accepted += int(passed.sum())
        return passed


Scale = Literal["shares", "logits", "marginal"]  # probabilities of one class of several, their logits, one each


@dataclass(frozen=True)
class StatisticSpec:
    """The statistic of every hypothesis: which number, on which scale, in which direction, around which centre."""

    target: Target
    rounding: Rounding
    alternative: Alternative
    link: str | None = None
    center: int = 0  # pilot draws whose mean is the centre of the statistic; 0 where it has none
    picked: Picked | None = None  # the rule by which the inputs were picked, if their outputs had a say
    margin: float = 0.0  # an effect of at most so much is a null, too
    class_of_each: bool = False  # the predicted class is that of each version, around the mean of the pilot draws
    outlier: Scale | None = None  # the statistic is how far each version lies from the others, all outputs together

    def at(self, inputs: Ints) -> StatisticSpec:
        """Return the same for some inputs (n,), counted from 0: tolerances and classes of others need not travel."""
        rounding, target = self.rounding, self.target
        if rounding.local is not None:
            rounding = replace(rounding, local=rounding.local[inputs])
        if target.kind == "per-input" and target.classes is not None:
            target = replace(target, classes=target.classes[inputs])
        return replace(self, rounding=rounding, target=target)


def tied_values(outputs: Floats, spec: StatisticSpec, inputs: Ints) -> tuple[Floats, Ints]:
    """Return values (n, versions) on the scale of the test, equal where rounding alone differs, and classes (n,)."""
    numbers, classes = pick(outputs, spec.target, inputs)
    near = spec.rounding.near(inputs, classes)
    return linked(spec.rounding.merge_ties(numbers, near), spec.link), classes


@dataclass(frozen=True)
class ValueSet:
    """All values of some hypotheses, (n, 1 + draws), the observed one first; their statistic; their classes (n,)."""

    values: Floats
    statistic: Floats
    classes: Ints


def value_set(inputs: Ints, outputs: Floats, spec: StatisticSpec) -> ValueSet:
    """Return values and statistic from outputs (n, 1 + center + draws, outputs) of inputs (n,).

    The pilot draws that make the centre come first and are set aside: the centre must not be made of the values it is
    compared with.
    """
    pilot, compared = outputs[:, 1 : 1 + spec.center], outputs
    if spec.center:
        compared = np.delete(outputs, slice(1, 1 + spec.center), axis=1)
    if spec.class_of_each:
        centre = linked(snap(pilot), spec.link).mean(axis=1)
        statistic, values, classes = class_statistic(compared, spec, centre, inputs)
        return ValueSet(values, statistic, classes)
    if spec.outlier is not None:
        shown = replace(
            spec, target=Target("per-input", compared[:, 0].argmax(axis=1))
        )  # to be shown, not to be tested
        values, classes = tied_values(compared, shown, np.arange(len(compared)))
        return ValueSet(values, outlier_statistic(compared, spec, inputs), classes)
    values, classes = tied_values(compared, spec, inputs)
    if not spec.center:
        two_sided = spec.alternative == "two-sided"  # few-shot makes its own centre
        return ValueSet(values, values if two_sided else tail_statistic(values, spec.alternative), classes)
    pilots, _ = pick(pilot, Target("per-input", classes), np.arange(len(classes)))
    middle = linked(snap(pilots), spec.link).mean(axis=1)  # snapped as the values are
    return ValueSet(values, tail_statistic(values, spec.alternative, middle), classes)


def outlier_statistic(outputs: Floats, spec: StatisticSpec, inputs: Ints) -> Floats:
    """Return the distance (n, versions) of each version's outputs (n, versions, outputs) from the mean of all others.

    T_v = H(p_v, mean of p_u over u != v),   H(p, q)^2 = 1/2 sum (p_c^1/2 - q_c^1/2)^2   (Hellinger)

    p are the probabilities, or the softmax of logits; of outputs that are a probability each, p and 1 - p of all of
    them count. Symmetric in the K + 1 versions, and no class is picked, so nothing is picked by looking (METHODS 22).
    """
    same = spec.rounding.same(outputs, inputs)
    outputs = np.where(same[:, :, None], outputs[:, :1], outputs)  # equal but for rounding: a tie
    shares = softmax(outputs) if spec.outlier == "logits" else np.maximum(outputs, 0.0)
    if spec.outlier == "marginal":
        shares = np.concatenate([shares, np.maximum(1 - shares, 0.0)], axis=2) / outputs.shape[2]
    others = (shares.sum(axis=1, keepdims=True) - shares) / (shares.shape[1] - 1)
    distance = np.sqrt(0.5 * ((np.sqrt(shares) - np.sqrt(np.maximum(others, 0.0))) ** 2).sum(axis=2))
    local = spec.rounding.local
    near = spec.rounding.absolute if local is None else local[inputs].max(axis=1, keepdims=True)
    # of two distances no larger than rounding can make them none is larger; the others keep their size
    return spec.rounding.merge_ties(distance, np.maximum(near, 1e-9))


def softmax(outputs: Floats) -> Floats:
    """Return logits (..., classes) as probabilities."""
    raised = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def centred_statistic(
    rows: Ints, inputs: Ints, outputs: Floats, spec: StatisticSpec, centre: Floats | None
) -> tuple[Floats, Floats, Ints]:
    """Return statistic (n, versions), observed value and class (n,), where centres (H, outputs) are known already.

    Hypotheses `rows` (n,) are of inputs `inputs` (n,); they may be of several subsets.
    """
    if spec.class_of_each:
        assert centre is not None
        statistic, values, classes = class_statistic(outputs, spec, centre[rows], inputs)
        return statistic, values[:, 0], classes
    values, classes = tied_values(outputs, spec, inputs)
    middle = None if centre is None else np.take_along_axis(centre[rows], classes[:, None], axis=1)[:, 0]
    return tail_statistic(values, spec.alternative, middle), values[:, 0], classes


def class_statistic(outputs: Floats, spec: StatisticSpec, centre: Floats, inputs: Ints) -> tuple[Floats, Floats, Ints]:
    """Return statistic and values (n, versions), and the observed input's class (n,), from centres (n, outputs).

    T(y) = y[c] - b[c] with c the class that y itself predicts (METHODS 0). The centre b is made of pilot draws, so T is
    one and the same function for the observed input and its draws, which stay exchangeable whatever the classes are.
    """
    local = spec.rounding.local
    near = spec.rounding.absolute if local is None else local[inputs][:, None]
    planes = outputs.transpose(2, 0, 1)
    top = reduce(np.maximum, planes)[:, :, None]  # quicker than max over a short last axis
    is_top = outputs >= top - np.maximum(spec.rounding.relative * np.abs(top), near)
    if outputs.shape[2] == 2:  # the first of classes that are equal but for rounding
        best = np.asarray(is_top[:, :, 1] > is_top[:, :, 0], np.int64)  # many times quicker than argmax of two
    else:
        best = np.asarray(is_top.argmax(axis=2))

    def of_class(values: Floats) -> Floats:
        """The number (n, versions) of each version's class, from one plane (n, versions or 1) for each class."""
        if len(values) == 2:
            return np.asarray(np.where(best == 0, values[0], values[1]))  # many times quicker than looking up
        every = np.broadcast_to(values, (len(values), *best.shape))
        return np.asarray(np.take_along_axis(every, best[None], axis=0)[0])

    exact = of_class(planes)
    values = spec.rounding.merge_ties(exact, spec.rounding.near(inputs, best[:, 0]))
    exact = linked(np.where(values == values[:, :1], exact[:, :1], exact), spec.link)  # not snapped: b is not, either
    middle = of_class(centre.T[:, :, None])
    centred, size = exact - middle, np.abs(exact) + np.abs(middle)
    # outputs of two classes can lie equally far from their centres: a tie, which counts against us
    tied = np.abs(centred - centred[:, :1]) <= 2.0**-44 * (size + size[:, :1])
    centred = np.where(tied, centred[:, :1], centred)
    zero = np.zeros(len(values)) if spec.alternative == "two-sided" else None
    return tail_statistic(centred, spec.alternative, zero), linked(values, spec.link), best[:, 0]


EvidenceKind = Literal["p", "z", "w", "e"]


@dataclass(frozen=True)
class Evidence:
    """The evidence of a test, one entry per hypothesis."""

    kind: EvidenceKind
    values: Floats  # (H,)
    varied: Bools  # (H,) False: all values equal, whatever was drawn
    observed: Floats  # (H,)
    classes: Ints  # (H,) output that was tested
    draws: Ints  # (H,)
    open: Bools  # (H,) True: neither chosen nor given up when drawing stopped
    drawable: Bools  # (H,) False: hardly any draw passed `picked`, so there is no evidence
    scale: Floats  # (H,) what the values are divided by before a selection; 1 but for few-shot
    least: Floats  # (H,) the least p-value that a listed support allows; 0 elsewhere
    surprise: Floats  # (H,) share of counterfactuals with a less extreme statistic; NaN: not known

    @property
    def scaled(self) -> Floats:
        """The values that rules compare; scores that are equal but for rounding stay together."""
        return snap(self.values / self.scale) if self.kind == "w" else self.values

    def without(self, rows: Ints) -> Evidence:
        """Return it with nothing against the null of hypotheses that could not be tested; they stay in their family."""
        if not rows.size:
            return self
        null = {"values": 1.0 if self.kind == "p" else 0.0, "surprise": np.nan, "varied": True, "drawable": True}
        changed = {name: getattr(self, name).copy() for name in (*null, "open")}
        for name, value in {**null, "open": False}.items():
            changed[name][rows] = value
        return replace(self, **changed)


@dataclass(frozen=True)
class PartialEvidence:
    """Evidence on some hypotheses; fields left None take the defaults of `gather`."""

    rows: Ints  # (n,) which hypotheses
    values: Floats
    observed: Floats
    classes: Ints
    varied: Bools | None = None
    draws: int | None = None
    drawable: Bools | None = None
    least: Floats | None = None
    surprise: Floats | None = None


def gather(kind: EvidenceKind, size: int, draws: int, parts: Iterable[PartialEvidence]) -> Evidence:
    """Return the evidence on all hypotheses; where there is none, nothing speaks against the null."""
    values, least, drawn = np.full(size, 1.0 if kind == "p" else 0.0), np.zeros(size), np.full(size, draws)
    observed, classes = np.full(size, np.nan), np.zeros(size, np.int64)
    varied, drawable, surprise = np.ones(size, bool), np.zeros(size, bool), np.full(size, np.nan)
    optional = {"varied": varied, "draws": drawn, "least": least, "surprise": surprise}
    for part in parts:
        values[part.rows], observed[part.rows], classes[part.rows] = part.values, part.observed, part.classes
        drawable[part.rows] = True if part.drawable is None else part.drawable
        for name, array in optional.items():
            if (given := getattr(part, name)) is not None:
                array[part.rows] = given
    is_open, scale = np.zeros(size, bool), np.ones(size)
    return Evidence(kind, values, varied, observed, classes, drawn, is_open, drawable, scale, least, surprise)


def not_drawn(rows: Ints) -> PartialEvidence:
    """Return evidence on hypotheses (n,) that are not drawn: they stay in the family with p = 1."""
    unknown = np.full(len(rows), np.nan)
    return PartialEvidence(rows, np.ones(len(rows)), unknown, np.zeros(len(rows), np.int64), draws=0, surprise=unknown)


def merged_evidence(before: Evidence, after: Evidence, now: Bools) -> Evidence:
    """Return the evidence of `after` where `now` (H,), that of `before` elsewhere."""
    names = [field.name for field in fields(Evidence) if field.name != "kind"]
    return Evidence(before.kind, **{name: np.where(now, vars(after)[name], vars(before)[name]) for name in names})


def share_below(statistic: Floats) -> Floats:
    """Return the share of the draws (n,) that are less extreme than the observed value.

    >>> share_below(np.array([[3.0, 1.0, 2.0, 3.0]]))
    array([0.66666667])
    """
    return np.asarray((statistic[:, 1:] < statistic[:, :1]).sum(axis=1) / (statistic.shape[1] - 1))


def varies(statistic: Floats) -> Bools:
    """Return False where all K + 1 values are equal: no draw can ever be surprising there (METHODS 6)."""
    return np.asarray((statistic != statistic[:, :1]).any(axis=1))
