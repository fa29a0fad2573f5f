"""What Table 1 should show at alpha = 0.2: the paper's one draw, and the expectation of re-runs (METHODS 1)."""

from __future__ import annotations

from typing import NamedTuple


class Rates(NamedTuple):
    """False discovery rate and true positive rate."""

    fdr: float
    tpr: float


class Known(NamedTuple):
    """One cell: what the paper printed, and what many independent runs gave on average."""

    paper: Rates
    expected: Rates


ALPHA = 0.2
Cell = tuple[str, str, str]  # bed, test, alternative

TABLE1: dict[Cell, Known] = {
    ("independent-discontinuous", "irt", "greater"): Known(Rates(0.002, 0.393), Rates(0.003, 0.275)),
    ("independent-discontinuous", "irt", "two-sided"): Known(Rates(0.002, 0.392), Rates(0.003, 0.267)),
    ("independent-discontinuous", "osft", "greater"): Known(Rates(0.006, 0.836), Rates(0.007, 0.838)),
    ("independent-discontinuous", "osft", "two-sided"): Known(Rates(0.006, 0.833), Rates(0.007, 0.836)),
    ("independent-network", "irt", "greater"): Known(Rates(0.139, 0.979), Rates(0.134, 0.983)),
    ("independent-network", "irt", "two-sided"): Known(Rates(0.137, 0.913), Rates(0.141, 0.915)),
    ("independent-network", "osft", "greater"): Known(Rates(0.212, 0.962), Rates(0.195, 0.961)),
    ("independent-network", "osft", "two-sided"): Known(Rates(0.189, 0.910), Rates(0.183, 0.925)),
    ("correlated-discontinuous", "irt", "greater"): Known(Rates(0.0, 0.0), Rates(0.0, 0.0)),
    ("correlated-discontinuous", "irt", "two-sided"): Known(Rates(0.0, 0.0), Rates(0.0, 0.0)),
    ("correlated-discontinuous", "osft", "greater"): Known(Rates(0.073, 0.025), Rates(0.09, 0.035)),
    ("correlated-discontinuous", "osft", "two-sided"): Known(Rates(0.044, 0.004), Rates(0.08, 0.010)),
    ("correlated-network", "irt", "greater"): Known(Rates(0.129, 0.716), Rates(0.136, 0.734)),
    ("correlated-network", "irt", "two-sided"): Known(Rates(0.130, 0.641), Rates(0.127, 0.624)),
    ("correlated-network", "osft", "greater"): Known(Rates(0.142, 0.611), Rates(0.159, 0.650)),
    ("correlated-network", "osft", "two-sided"): Known(Rates(0.143, 0.605), Rates(0.158, 0.600)),
}
BEDS = tuple(dict.fromkeys(bed for bed, _, _ in TABLE1))
