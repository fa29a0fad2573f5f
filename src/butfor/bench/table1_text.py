"""Table 1's figures in Markdown."""

from __future__ import annotations

from typing import Any

from butfor.bench.output import table
from butfor.bench.reference import ALPHA

Cell = dict[str, Any]


def text(figures: dict[str, Any]) -> str:
    """Two tables: at the paper's alpha beside what it should be, and at the others."""
    cells: list[Cell] = figures["cells"]
    main = [cell for cell in cells if cell["alpha"] == ALPHA and cell["method"] == "paper"]
    filtered = {_key(cell): cell for cell in cells if cell["method"] == "butfor"}
    lines = [
        "# Table 1",
        "",
        f"butfor {figures['version']}, seed {figures['seed']}, {figures['runs']} runs; K = {figures['draws']} in IRT;",
        f"{figures['seconds']:g} s with {figures['workers']} workers on {figures['machine']['processor']}.",
        "Mean FDR/TPR over the runs, standard errors in brackets. *Paper*: what it printed, one draw of ten runs.",
        "*Expected*: mean of many independent re-runs. *Within*: is the mean within 3 standard errors of the expected",
        f"one (FDR, TPR)? A standard error below {figures['floor']:g} is taken for that. *Without no-variation*: IRT",
        "as butfor does it by default; hypotheses whose values are all equal leave the family before BH.",
        "",
        f"## alpha = {ALPHA:g}",
        "",
        *table(
            ["bed", "test", "measured FDR/TPR", "paper", "expected", "within", "without no-variation"],
            [_main_row(cell, filtered.get(_key(cell))) for cell in main],
        ),
        "",
    ]
    if any(cell["alpha"] != ALPHA for cell in cells):
        lines += ["## Every alpha", "", *_every_alpha(cells), ""]
    return "\n".join(lines)


def _key(cell: Cell) -> tuple[Any, ...]:
    return cell["bed"], cell["test"], cell["alternative"], cell["alpha"]


def _main_row(cell: Cell, filtered: Cell | None) -> list[str]:
    fdr, tpr = cell["fdr"], cell["tpr"]
    within = ", ".join("yes" if rate["within_3_se"] else "**no**" for rate in (fdr, tpr))
    return [
        *_label(cell),
        _measured(cell),
        f"{_short(fdr['paper'])}/{_short(tpr['paper'])}",
        f"{_short(fdr['expected'])}/{_short(tpr['expected'])}",
        within,
        "" if filtered is None else _measured(filtered),
    ]


def _label(cell: Cell) -> list[str]:
    side = {"greater": "1-sided", "two-sided": "2-sided"}[cell["alternative"]]
    return [cell["bed"], f"{cell['test'].upper()} {side}"]


def _measured(cell: Cell) -> str:
    return "/".join(
        _short(rate["mean"]) + ("" if rate["se"] is None else f" ({_short(rate['se'])})")
        for rate in (cell["fdr"], cell["tpr"])
    )


def _short(value: float) -> str:
    """As the paper prints a rate, without the leading zero.

    >>> _short(0.0254), _short(0.0), _short(1.0)
    ('.025', '0', '1')
    """
    rounded = f"{value:.3f}"
    return rounded.rstrip("0").rstrip(".") if float(rounded) in (0.0, 1.0) else rounded.lstrip("0")


def _every_alpha(cells: list[Cell]) -> list[str]:
    alphas = sorted({cell["alpha"] for cell in cells})
    rows: dict[tuple[str, ...], dict[float, str]] = {}
    for cell in cells:
        method = "without no-variation" if cell["method"] == "butfor" else "as in the paper"
        rows.setdefault((*_label(cell), method), {})[cell["alpha"]] = _measured(cell)
    header = ["bed", "test", "family", *(f"{alpha:g}" for alpha in alphas)]
    return table(header, [[*label, *(found[alpha] for alpha in alphas)] for label, found in rows.items()])
