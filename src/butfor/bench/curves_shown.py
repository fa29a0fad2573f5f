"""The figures of `butfor bench curves` for people: tables in Markdown, and the paper's figure 2 in light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from butfor.bench.curves import ABOUT_MODEL, PAPER, at_level, beside_default
from butfor.bench.output import Figures, table
from butfor.report.write import write_files

SHOWN = (0.1, 0.2)
SIDES = {"greater": "1-sided", "two-sided": "2-sided"}
TITLES = {
    "correlated-discontinuous": "Cor., Disc.",
    "independent-discontinuous": "Ind., Disc.",
    "correlated-network": "Cor., NN",
    "independent-network": "Ind., NN",
    "linear": "zero weights",
    "interactions": "interactions",
    "boosted-trees": "boosted trees",
    "copies": "copies",
}
OWN = {  # full lines with marks: on light ground, on dark ground
    "irt": ("#0b6e4f", "#3ddc97"),
    "osft": ("#58a4b0", "#9bd1d9"),
    "sequential": ("#004e89", "#4aa3ff"),
    "few-shot": ("#6f7de8", "#b3b9ff"),
    "exact": ("#111111", "#ffffff"),
}
PEERS = {  # broken lines, a colour for each family; the same in both figures
    "LIME": ("#d1495b", (4, 1.5)),
    "LIME, values": ("#d1495b", (1, 1)),
    "SHAP kernel, as in the paper": ("#e07a1f", (1, 1)),
    "SHAP kernel": ("#e07a1f", (4, 1.5)),
    "SHAP kernel, l1_reg off": ("#e07a1f", (5, 1, 1, 1)),
    "SHAP permutation": ("#c9a227", (4, 1.5)),
    "SHAP deep": ("#c9a227", (1, 1)),
    "SHAP tree": ("#c9a227", (5, 1, 1, 1)),
    "SHAP tree, interventional": ("#c9a227", (2, 2)),
    "L2X": ("#b5179e", (4, 1.5)),
    "Saliency": ("#9a8c98", (4, 1.5)),
    "DeepLIFT": ("#9a8c98", (1, 1)),
    "Taylor": ("#9a8c98", (5, 1, 1, 1)),
}
THEMES = {"light": ("#ffffff", "#1a1a1a", "#d9d9d9"), "dark": ("#11151a", "#e8e8e8", "#3a4048")}


def markdown(figures: Figures) -> str:
    """The figures as tables: our default beside every peer's oracle, then all methods."""
    machine, versions = figures["machine"], ", ".join(f"{name} {v}" for name, v in figures["versions"].items())
    lines = [
        f"butfor {figures['version']}, {versions}; seed {figures['seed']}, up to {figures['runs']} runs of 100 inputs",
        f"each, {machine['processor']}, Python {machine['python']}, numpy {machine['numpy']}.",
        "",
        *(f"{name}: {why}." for name, why in figures["missing"].items()),
        "Our default at alpha = .1, which is told nothing, and the best of the others if an oracle tells them where to",
        "cut so that the FDR is ours (rounded up to a whole per cent), for each run by itself and once for all runs:",
        "",
        *_beside(beside_default(figures)),
        "",
        "Every method. Ours: FDR / TPR at alpha .1 and .2. Others: the oracle's TPR at FDR .1 and .2, for each run /",
        "once for all runs. Seconds: of the processor, one run, all levels and both sides for ours.",
        "",
        *_all(figures["cells"]),
    ]
    return "\n".join(lines) + "\n"


def _beside(rows: Sequence[Figures]) -> list[str]:
    header = ["bed", "", "test", "FDR", "TPR (s.e.)", "best other, per run", "once for all runs", "above us"]
    return table(header, [_beside_row(row) for row in rows])


def _beside_row(row: Figures) -> list[str]:
    best = [f"{row[rule]:.3f} {row[f'{rule}_by']}" for rule in ("per_run", "mean_curve")]
    above = "; ".join(row["per_run_above"]) or "none"
    own = f"{row['tpr']:.3f} ({row['tpr_se']:.3f})"
    return [row["bed"], SIDES[row["alternative"]], row["test"], f"{row['fdr']:.3f}", own, *best, above]


def _all(cells: Sequence[Figures]) -> list[str]:
    lines = []
    for bed, name in dict.fromkeys((cell["bed"], cell["method"]) for cell in cells):
        sides = {c["alternative"]: c for c in cells if (c["bed"], c["method"]) == (bed, name)}
        shown = [_cell(sides[side], level) if side in sides else "" for side in SIDES for level in SHOWN]
        first = next(iter(sides.values()))
        lines.append([bed, name, first["runs"], *shown, f"{first['seconds']:.1f}"])
    levels = (f"{side}, {level:g}" for side in SIDES.values() for level in SHOWN)
    return table(["bed", "method", "runs", *levels, "s"], lines)


def _cell(cell: Figures, level: float) -> str:
    if "points" in cell:
        (point,) = (point for point in cell["points"] if point["alpha"] == level)
        return f"{point['fdr']:.3f} / {point['tpr']:.3f}"
    return f"{at_level(cell['per_run'], level):.3f} / {at_level(cell['mean_curve'], level):.3f}"


def write_pictures(figures: Figures, out: Path) -> list[Path]:
    """Two figures, each light and dark, as SVG: the paper's four beds, and those whose truth is about the model."""
    made = {}
    for name, beds in (("curves-paper", PAPER), ("curves-model", ABOUT_MODEL)):
        there = [bed for bed in beds if any(cell["bed"] == bed for cell in figures["cells"])]
        for theme in THEMES if there else ():
            made[f"{name}-{theme}.svg"] = partial(_save, picture(figures, there, theme))
    write_files(made, out)
    return [out / file for file in made]


def _save(figure: Any, path: Path) -> None:
    import matplotlib as mpl

    # The same figures give the same file, and letters stay letters.
    with mpl.rc_context({"svg.hashsalt": "butfor", "svg.fonttype": "none"}):
        figure.savefig(path, format="svg", facecolor=figure.get_facecolor(), metadata={"Date": None})


def picture(figures: Figures, beds: Sequence[str], theme: str) -> Any:
    """TPR against FDR, one panel per bed and side, one legend."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    ground, ink, grid = THEMES[theme]
    style: Any = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), ink)
    methods = list(dict.fromkeys(cell["method"] for cell in figures["cells"] if cell["bed"] in beds))
    with mpl.rc_context({**style, "font.size": 8.0}):
        figure = Figure(figsize=(2.5 * len(beds) + 0.4, 6.2), layout="constrained", facecolor=ground)
        axes = figure.subplots(2, len(beds), sharex=True, sharey=True, squeeze=False)
        for across, bed in enumerate(beds):
            for down, side in enumerate(SIDES):
                ax = axes[down][across]
                ax.set(title=f"{SIDES[side]}, {TITLES[bed]}", xlim=(0, 0.5), ylim=(-0.02, 1.02), facecolor=ground)
                ax.grid(color=grid, linewidth=0.5)
                own = [c for c in figures["cells"] if (c["bed"], c["alternative"]) == (bed, side)]
                _panel(ax, own, figures["levels"], theme)
        for ax in axes[-1]:
            ax.set_xlabel("FDR")
        for ax in axes[:, 0]:
            ax.set_ylabel("TPR")
        lines = {line.get_label(): line for ax in axes.flat for line in ax.get_lines()}
        shown = [name for name in methods if name in lines]
        figure.legend([lines[name] for name in shown], shown, loc="outside lower center", ncol=5, frameon=False)
    return figure


def _panel(ax: Any, cells: Sequence[Figures], levels: Sequence[float], theme: str) -> None:
    """Ours: what was chosen at a row of levels. Theirs: the oracle of each run, the kinder of the two rules."""
    for cell in cells:
        name = cell["method"]
        if "points" in cell:
            colour = OWN[name][theme == "dark"]
            fdr, tpr = ([point[rate] for point in cell["points"]] for rate in ("fdr", "tpr"))
            ax.plot(fdr, tpr, color=colour, linewidth=1.6, marker="o", markersize=3, label=name, zorder=3)
        else:
            colour, dashes = PEERS[name]
            ax.plot(levels, cell["per_run"], color=colour, dashes=dashes, linewidth=1.2, label=name)
