"""What a method of attribution is given: inputs and a model, further rows, and what is known of the model's inside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from types import MethodType
from typing import Any

import numpy as np

from butfor import simulate
from butfor.evaluation.samplers import ListsSupport, Sampler
from butfor.simulate import network, populations
from butfor.types import Bools, Floats, InputError


@dataclass(frozen=True, eq=False)
class Task:
    """One bed with one seed."""

    bed: str
    seed: int
    inputs: Floats  # (n, d)
    model: Callable[[Any], Floats]
    sampler: Sampler
    truth: Bools | None  # (n, d); None where more inputs are asked than the bed has
    inside: Any = None  # the weights of a network, or an estimator made of trees

    @property
    def width(self) -> int:
        return int(self.inputs.shape[1])

    @property
    def weights(self) -> tuple[Floats, ...] | None:
        """Of the network; None where the model is none."""
        return self.inside if isinstance(self.inside, tuple) else None

    @property
    def trees(self) -> Any:
        """The estimator made of trees; None where the model is none."""
        return None if isinstance(self.inside, tuple) else self.inside

    @property
    def listed(self) -> bool:
        """Whether the sampler lists what it may draw."""
        return isinstance(self.sampler, ListsSupport)

    def reference(self, count: int) -> Floats:
        """Rows that Q describes: those without signals."""
        return populations.population(self.bed, self.seed, count, signals=False)

    def training(self, count: int) -> Floats:
        """Rows that are made as the inputs are."""
        return populations.population(self.bed, self.seed, count, signals=True)


def task_of(name: str, seed: int, inputs: int | None = None) -> Task:
    """The bed of that name; with another number of inputs than it has they are fresh ones, without their truth."""
    made = simulate.bed(name, seed)
    task = Task(name, seed, made.inputs, made.model, made.sampler, made.truth, _inside(made.model))
    if inputs is None or inputs == len(made.inputs):
        return task
    if inputs < len(made.inputs):
        return replace(task, inputs=made.inputs[:inputs], truth=made.truth[:inputs])
    return replace(task, inputs=task.training(inputs), truth=None)


def _inside(model: object) -> Any:
    if isinstance(model, partial) and model.func is network.predict:
        return tuple(model.keywords["weights"])
    return model.__self__ if isinstance(model, MethodType) else None


@dataclass
class CountedModel:
    """A model, and the rows that it was asked for."""

    model: Callable[[Any], Floats]
    rows: int = 0

    def __call__(self, batch: Any) -> Floats:
        self.rows += len(batch)
        return np.asarray(self.model(batch))


def required(task: Task, what: str) -> Any:
    """The inside of the model, where a method needs it; a sentence where it has none of that kind."""
    inside = task.weights if what == "network" else task.trees
    if inside is None:
        raise InputError(f"this method needs a {what}, got the model of bed {task.bed!r}; leave it out there")
    return inside
