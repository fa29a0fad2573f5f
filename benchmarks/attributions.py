"""Other methods of attribution on our beds (LIME, SHAP, captum, shapiq, L2X) beside butfor's tests.

Each is a function of a `Task` that returns scores (n, d) with signs. A package is imported only where it is used.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from types import MethodType
from typing import Any

import numpy as np

from benchmarks.beds import population
from benchmarks.figures import Figures, quietly
from butfor import ReachWarning, Result, explain, few_shot, irt, osft, sequential, simulate
from butfor.evaluation.samplers import ListsSupport, Sampler, method
from butfor.settings import Procedure
from butfor.simulate import network
from butfor.tabular import from_values
from butfor.types import Alternative, Bools, Floats, InputError


@dataclass(frozen=True, eq=False)
class Task:
    """One bed with one seed: inputs and a model, further rows, and what is known of the model's inside."""

    bed: str
    seed: int
    inputs: Floats  # (n, d)
    model: Callable[[Any], Floats]
    sampler: Sampler
    truth: Bools | None  # (n, d); None where there are more inputs than the bed has
    weights: tuple[Floats, ...] | None = None  # of a network
    trees: Any = None  # an estimator made of trees

    @property
    def width(self) -> int:
        return int(self.inputs.shape[1])

    @property
    def lists_support(self) -> bool:
        """Whether the sampler lists what it may draw."""
        return isinstance(self.sampler, ListsSupport)

    def reference(self, count: int) -> Floats:
        """Return rows that Q describes: those without signals."""
        return population(self.bed, self.seed, count, signals=False)

    def training(self, count: int) -> Floats:
        """Return rows that are made as the inputs are."""
        return population(self.bed, self.seed, count, signals=True)


def task_of(name: str, seed: int, inputs: int | None = None) -> Task:
    """Return the bed of that name; where it has too few inputs they are fresh ones, without their truth."""
    made = simulate.bed(name, seed)
    model: object = made.model
    is_network = isinstance(model, partial) and model.func is network.predict
    weights = tuple(model.keywords["weights"]) if isinstance(model, partial) and is_network else None
    trees = model.__self__ if isinstance(model, MethodType) else None
    task = Task(name, seed, made.inputs, made.model, made.sampler, made.truth, weights, trees)
    if inputs is None or inputs == len(made.inputs):
        return task
    if inputs < len(made.inputs):
        return replace(task, inputs=made.inputs[:inputs], truth=made.truth[:inputs])
    return replace(task, inputs=task.training(inputs), truth=None)


def required(task: Task, what: str) -> Any:
    """Return the inside of the model, or refuse a model that is no network, or not made of trees."""
    inside = task.weights if what == "network" else task.trees
    if inside is None:
        raise InputError(f"this method needs a {what}, got the model of bed {task.bed!r}; leave it out there")
    return inside


# butfor's tests

ALPHAS = (0.05, 0.1, 0.2, 0.4)
ALTERNATIVES: tuple[Alternative, ...] = ("greater", "two-sided")
ALPHA = 0.1  # of the default call
TESTS: dict[str, Callable[[], Procedure | None]] = {
    "irt": partial(irt, 100),  # the paper's K
    "osft": osft,
    "sequential": sequential,
    "few-shot": few_shot,
    "exact": lambda: None,  # where Q is a list nothing is left to draw; trees are read where no test is named
}
FIXED = ("irt", "osft")  # their evidence does not depend on alpha: one run serves all levels


def chosen_at(task: Task, name: str, alternative: Alternative) -> Bools:
    """Return what the test chooses at each of ALPHAS, (levels, n, d)."""
    if name in FIXED:
        result = one_test(task, name, alternative, ALPHAS[-1])
        chosen = [result.select(alpha=alpha).chosen for alpha in ALPHAS]
    else:
        chosen = [one_test(task, name, alternative, alpha).chosen for alpha in ALPHAS]
    return np.stack(chosen).reshape(len(ALPHAS), *task.inputs.shape)


def one_test(task: Task, name: str, alternative: Alternative = "two-sided", alpha: float = ALPHA) -> Result:
    """Run a test once, without effects."""
    sampler, model = task.sampler, task.model
    if name == "exact":
        model = task.model if task.trees is None else task.trees
    elif task.lists_support and (values := method(sampler, "values")) is not None:
        sampler = from_values(values)  # draws even where it could list
    settings: Figures = {"test": TESTS[name](), "alternative": alternative, "alpha": alpha, "effects": None}
    with warnings.catch_warnings(action="ignore", category=ReachWarning):
        return explain(model, task.inputs, sampler, seed=task.seed, **settings)


# LIME (Ribeiro, Singh & Guestrin 2016): the weights of a linear model of many perturbed rows around each input


def lime_quartiles(task: Task) -> Floats:
    """Default settings, quartiles of the inputs themselves: as the paper's authors ran it."""
    return lime_weights(task, task.inputs, discretize_continuous=True)


def lime_values(task: Task) -> Floats:
    """Values instead of quartiles, each weight times its standardised value: a contribution, as a linear model's."""
    standardised = (task.inputs - task.inputs.mean(axis=0)) / task.inputs.std(axis=0)
    return np.asarray(lime_weights(task, task.inputs) * standardised)


def lime_weights(task: Task, rows: Floats, discretize_continuous: bool = False) -> Floats:
    """Linear weights per standard deviation of a column of these rows, or of its quartiles."""
    from lime.lime_tabular import LimeTabularExplainer

    options = {"random_state": task.seed, "discretize_continuous": discretize_continuous}
    explainer = LimeTabularExplainer(rows, mode="regression", **options)
    scores = np.zeros(task.inputs.shape)
    for row, score in zip(task.inputs, scores, strict=True):
        for column, weight in explainer.explain_instance(row, task.model, num_features=task.width).local_exp[1]:
            score[column] = weight
    return scores


# SHAP (Lundberg & Lee 2017): Shapley values by its kernel, by permutations, by partitions, of networks, of trees

BACKGROUND = 100  # rows that Q describes, in place of which features are left out
KERNEL_BACKGROUND = 20  # the kernel asks background x 2,048 rows and more of each input; its page advises a summary
BUDGET = 500  # evaluations an input


def shap_kernel_paper(task: Task) -> Floats:
    """100 samples, the first 100 inputs as background, features picked by AIC: as the paper's authors ran it."""
    return _shap_kernel(task, task.inputs[:BACKGROUND], nsamples=100, l1_reg="aic")


def shap_kernel(task: Task, **options: object) -> Floats:
    """The defaults of the current release (ten features an input), with rows that Q describes as background."""
    return _shap_kernel(task, task.reference(KERNEL_BACKGROUND), **options)


def _shap_kernel(task: Task, background: Floats, **options: object) -> Floats:
    import shap

    np.random.seed(task.seed)  # noqa: NPY002 - shap draws from the global generator
    explainer = shap.KernelExplainer(task.model, background)
    return np.asarray(explainer.shap_values(task.inputs, silent=True, **options))


def shap_permutation(task: Task) -> Floats:
    """Default settings: 500 evaluations an input, or as many as one permutation takes."""
    import shap

    masker = shap.maskers.Independent(task.reference(BACKGROUND), max_samples=BACKGROUND)
    explainer = shap.PermutationExplainer(task.model, masker, seed=task.seed)
    return np.asarray(explainer(task.inputs, max_evals=max(BUDGET, 2 * task.width + 1), silent=True).values)


def shap_partition(task: Task) -> Floats:
    """Owen values over a clustering of the background, default settings."""
    import shap

    masker = shap.maskers.Partition(task.reference(BACKGROUND), max_samples=BACKGROUND)
    np.random.seed(task.seed)  # noqa: NPY002 - as above
    return np.asarray(shap.PartitionExplainer(task.model, masker)(task.inputs, silent=True).values)


def shap_deep(task: Task) -> Floats:
    """DeepExplainer on the network, with the background."""
    import shap
    import torch

    net = torch_network(required(task, "network"))
    explainer = shap.DeepExplainer(net, torch.as_tensor(task.reference(BACKGROUND)))
    values = explainer.shap_values(torch.as_tensor(task.inputs), check_additivity=False)
    return np.asarray(values).reshape(task.inputs.shape)


def shap_tree(task: Task, interventional: bool = False) -> Floats:
    """TreeExplainer: by the rows that went down each path, or with a background."""
    import shap

    background = {"data": task.reference(BACKGROUND), "feature_perturbation": "interventional"}
    explainer = shap.TreeExplainer(required(task, "tree ensemble"), **(background if interventional else {}))
    return np.asarray(explainer.shap_values(task.inputs, check_additivity=False))


def shapiq_values(task: Task) -> Floats:
    """shapiq (Muschalik et al. 2024): single features, marginal imputer, the approximator that it picks itself."""
    import shapiq

    explainer = shapiq.TabularExplainer(
        model=task.model,
        data=task.reference(BACKGROUND),
        index="SV",
        max_order=1,
        sample_size=BACKGROUND,
        random_state=task.seed,
    )
    explained = [explainer.explain(row[None], budget=BUDGET) for row in task.inputs]
    return np.stack([one.get_n_order_values(1) for one in explained])


# Gradients of the paper's network, by captum


def torch_network(weights: tuple[Floats, ...]) -> Any:
    """Return the paper's network as a torch module in float64, with outputs (n, 1)."""
    import torch

    layers: list[Any] = []
    for matrix, bias in zip(weights[::2], weights[1::2], strict=True):
        layer = torch.nn.Linear(matrix.shape[0], matrix.shape[1], dtype=torch.float64)
        with torch.no_grad():
            layer.weight.copy_(torch.as_tensor(matrix.T.copy()))
            layer.bias.copy_(torch.as_tensor(np.atleast_1d(bias)))
        layers += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def captum_scores(task: Task, method: str, baseline: int = 0, **options: object) -> Floats:
    """Return what a method of captum says of the network, against `baseline` rows that Q describes (0: none).

    Saliency (Simonyan, Vedaldi & Zisserman 2014) keeps its sign; InputXGradient is called Taylor in the paper;
    DeepLift (Shrikumar, Greenside & Kundaje 2017) and IntegratedGradients take the mean of the rows.
    """
    import torch
    from captum import attr

    if baseline:
        rows = task.reference(baseline)
        options["baselines"] = torch.as_tensor(rows if method == "DeepLiftShap" else rows.mean(axis=0, keepdims=True))
    inputs = torch.as_tensor(task.inputs).clone().requires_grad_()
    net = torch_network(required(task, "network"))
    explained = quietly(getattr(attr, method)(net).attribute, inputs, **options)  # captum sets hooks on ReLUs
    return np.asarray(explained.detach().numpy())


# L2X (Chen, Song, Wainwright & Jordan 2018, "Learning to Explain"): a network that picks k features of each row.
# A first network gives a logit to every feature; k draws of a relaxed categorical (Gumbel softmax), their maximum per
# feature, mask the row; a second network predicts the model's output from the masked row. Both are trained together;
# the logits rank the features of a row. The paper's authors trained it on the 100 inputs; here it has 200,000 rows.

L2X_ROWS, L2X_BATCH, PASSES, RATE = 200_000, 500, 2, 1e-3
TEMPERATURE = 0.5  # at the authors' .1 the TPR was lower (.42, here .54)
SHRINK = 1e-3  # weight of the squared weights in the loss


def l2x(task: Task, rows: int = L2X_ROWS) -> Floats:
    """Return scores in the order of the logits within each row: the best feature of each row first, and so on.

    k is what it should be: the mean number of true features in a row.
    """
    import torch

    assert task.truth is not None
    picked = max(1, round(float(task.truth.sum(axis=1).mean())))
    training = task.training(rows)
    response = np.concatenate([task.model(part) for part in np.array_split(training, max(1, rows // 20_000))])
    spread = training.std(axis=0)  # no centring: what is masked is 0, as in the paper
    scaled = torch.as_tensor(training / spread, dtype=torch.float32)
    target = torch.as_tensor((response - response.mean()) / response.std(), dtype=torch.float32)
    with torch.random.fork_rng():
        torch.manual_seed(task.seed)
        selector = _train(scaled, target, picked)
    with torch.no_grad():
        logits = selector(torch.as_tensor(task.inputs / spread, dtype=torch.float32)).numpy()
    return np.asarray(-np.argsort(np.argsort(-logits, axis=1), axis=1), np.float64) + task.width


def _train(rows: Any, target: Any, picked: int) -> Any:
    """Return the trained selector: rows (n, d) -> logits (n, d)."""
    import torch

    width = rows.shape[1]
    selector = _stack([width, 100, 100, width])
    predictor = _stack([width, 200, 200, 1], normed=True)
    steps = PASSES * (len(rows) // L2X_BATCH)
    optimizer = torch.optim.Adam([*selector.parameters(), *predictor.parameters()], lr=RATE, weight_decay=2 * SHRINK)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        at = step * L2X_BATCH % (len(rows) - len(rows) % L2X_BATCH)
        batch, wanted = rows[at : at + L2X_BATCH], target[at : at + L2X_BATCH]
        uniform = torch.rand(len(batch), picked, width).clamp_min(1e-20)
        gumbel = -torch.log(-torch.log(uniform).clamp_max(-1e-20))
        mask = torch.softmax((selector(batch)[:, None] + gumbel) / TEMPERATURE, dim=2).amax(dim=1)
        loss: Any = torch.nn.functional.mse_loss(predictor(batch * mask)[:, 0], wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return selector.eval()


def _stack(sizes: list[int], normed: bool = False) -> Any:
    import torch

    layers: list[Any] = []
    for before, after in pairwise(sizes):
        layers += [torch.nn.Linear(before, after), torch.nn.ReLU()]
        layers += [torch.nn.BatchNorm1d(after)] if normed else []
    return torch.nn.Sequential(*layers[: -2 if normed else -1])


# All of them by name


@dataclass(frozen=True)
class Attribution:
    """A method that gives a number to every feature of every input, and no error rate."""

    score: Callable[..., Floats]  # Task -> (n, d), with signs
    package: str
    needs: str = ""  # "network" or "trees": what the model must be
    two_sided_only: bool = False


ATTRIBUTIONS: dict[str, Attribution] = {
    "LIME": Attribution(lime_quartiles, "lime"),
    "LIME, values": Attribution(lime_values, "lime"),
    "SHAP kernel, as in the paper": Attribution(shap_kernel_paper, "shap"),
    "SHAP kernel": Attribution(shap_kernel, "shap"),
    "SHAP kernel, l1_reg off": Attribution(partial(shap_kernel, l1_reg=False), "shap"),
    "SHAP permutation": Attribution(shap_permutation, "shap"),
    "SHAP partition": Attribution(shap_partition, "shap"),
    "SHAP deep": Attribution(shap_deep, "shap", "network"),
    "SHAP tree": Attribution(shap_tree, "shap", "trees"),
    "SHAP tree, interventional": Attribution(partial(shap_tree, interventional=True), "shap", "trees"),
    "L2X": Attribution(l2x, "torch", two_sided_only=True),
    "Saliency": Attribution(partial(captum_scores, method="Saliency", abs=False), "captum", "network"),
    "DeepLIFT": Attribution(partial(captum_scores, method="DeepLift", baseline=1000), "captum", "network"),
    "Taylor": Attribution(partial(captum_scores, method="InputXGradient"), "captum", "network"),
    "captum DeepLiftShap": Attribution(
        partial(captum_scores, method="DeepLiftShap", baseline=BACKGROUND), "captum", "network"
    ),
    "captum IntegratedGradients": Attribution(
        partial(captum_scores, method="IntegratedGradients", baseline=1000), "captum", "network"
    ),
    "shapiq": Attribution(shapiq_values, "shapiq"),
}


def applies(task: Task, name: str) -> bool:
    """Return whether a method can read this model, or list what this sampler draws."""
    if name in TESTS:
        return name != "exact" or task.lists_support
    return {"": True, "network": task.weights is not None, "trees": task.trees is not None}[ATTRIBUTIONS[name].needs]
