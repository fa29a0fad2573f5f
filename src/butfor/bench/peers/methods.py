"""Every method by its name: what it needs to be installed, where it applies, and what it promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from butfor.bench.peers import learned, lime_scores, networks, shap_scores, shapiq_scores
from butfor.bench.peers.task import Task
from butfor.types import Floats

NONE = "none"


@dataclass(frozen=True)
class Attribution:
    """A method that gives a number to every feature of every input, and no error rate."""

    score: Callable[[Task], Floats]  # (n, d), with signs
    package: str
    needs: str = ""  # "network" or "trees": what the model must be
    two_sided_only: bool = False
    promises: str = NONE

    def applies(self, task: Task) -> bool:
        """Whether the model is of the kind that it reads."""
        return {"": True, "network": task.weights is not None, "trees": task.trees is not None}[self.needs]


ATTRIBUTIONS: dict[str, Attribution] = {
    "LIME": Attribution(lime_scores.as_authors, "lime"),
    "LIME, values": Attribution(lime_scores.continuous, "lime"),
    "SHAP kernel, as in the paper": Attribution(shap_scores.kernel_as_authors, "shap"),
    "SHAP kernel": Attribution(shap_scores.kernel, "shap"),
    "SHAP kernel, l1_reg off": Attribution(shap_scores.kernel_full, "shap"),
    "SHAP permutation": Attribution(shap_scores.permutation, "shap"),
    "SHAP partition": Attribution(shap_scores.partition, "shap"),
    "SHAP deep": Attribution(shap_scores.deep, "shap", "network"),
    "SHAP tree": Attribution(shap_scores.tree, "shap", "trees"),
    "SHAP tree, interventional": Attribution(shap_scores.interventional_tree, "shap", "trees"),
    "L2X": Attribution(learned.l2x, "torch", two_sided_only=True),
    "Saliency": Attribution(networks.saliency, "captum", "network"),
    "DeepLIFT": Attribution(networks.deep_lift, "captum", "network"),
    "Taylor": Attribution(networks.taylor, "captum", "network"),
    "captum DeepLiftShap": Attribution(networks.deep_lift_shap, "captum", "network"),
    "captum IntegratedGradients": Attribution(networks.integrated_gradients, "captum", "network"),
    "shapiq": Attribution(shapiq_scores.tabular, "shapiq"),
}
CURVES = (  # those of the paper's figure 2, and the current forms of what it compares
    "LIME",
    "LIME, values",
    "SHAP kernel, as in the paper",
    "SHAP kernel",
    "SHAP kernel, l1_reg off",
    "SHAP permutation",
    "SHAP deep",
    "SHAP tree",
    "SHAP tree, interventional",
    "L2X",
    "Saliency",
    "DeepLIFT",
    "Taylor",
)


def installed(package: str) -> str | None:
    """The version of a package, None where it is not installed.

    >>> installed("no such package") is None
    True
    """
    try:
        return version(package)
    except PackageNotFoundError:
        return None
