"""The figures of `butfor bench curves` for people: tables in Markdown, and the paper's figure 2 in light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from butfor.bench.curves import ABOUT_MODEL, PAPER, at_level, beside_default
from butfor.bench.output import Figures, table
from butfor.bench.peers import ours
from butfor.report.folder import write_files

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
OWN = ("#0b6e4f", "#2ca58d", "#004e89", "#5b9bd5", "#7a3e9d")  # ours: full lines with marks
PEERS = ("#d1495b", "#edae49", "#a05195", "#c8553d", "#b8860b", "#8d6b94")  # theirs: broken lines
DASHES = ((4, 1.5), (1, 1), (5, 1, 1, 1), (2, 2))
THEMES = {"light": ("#ffffff", "#1a1a1a", "#d9d9d9"), "dark": ("#11151a", "#e8e8e8", "#3a4048")}


def markdown(figures: Figures) -> str:
    """The figures as tables: our default beside every peer's oracle, then all methods."""
    machine, versions = figures["machine"], ", ".join(f"{name} {v}" for name, v in figures["versions"].items())
    lines = [
        f"butfor {figures['version']}, {versions}; seed {figures['seed']}, {figures['runs']} runs of 100 inputs each,",
        f"{machine['processor']}, Python {machine['python']}, numpy {machine['numpy']}.",
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
        lines.append([bed, name, *shown, f"{next(iter(sides.values()))['seconds']:.1f}"])
    return table(["bed", "method", *(f"{side}, {level:g}" for side in SIDES.values() for level in SHOWN), "s"], lines)


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

    with mpl.rc_context({"svg.hashsalt": "butfor"}):  # the same figures give the same file
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
                _panel(
                    ax, [c for c in figures["cells"] if (c["bed"], c["alternative"]) == (bed, side)], methods, figures
                )
        figure.supxlabel("FDR")
        figure.supylabel("TPR")
        lines = {line.get_label(): line for ax in axes.flat for line in ax.get_lines()}
        shown = [name for name in methods if name in lines]
        figure.legend([lines[name] for name in shown], shown, loc="outside lower center", ncol=5, frameon=False)
    return figure


def _panel(ax: Any, cells: Sequence[Figures], methods: Sequence[str], figures: Figures) -> None:
    """Ours: what was chosen at a row of levels. Theirs: the oracle of each run, the kinder of the two rules."""
    peers = [name for name in methods if name not in ours.TESTS]
    for cell in cells:
        name = cell["method"]
        if "points" in cell:
            colour = OWN[list(ours.TESTS).index(name)]
            fdr, tpr = ([point[rate] for point in cell["points"]] for rate in ("fdr", "tpr"))
            ax.plot(fdr, tpr, color=colour, linewidth=1.6, marker="o", markersize=3, label=name, zorder=3)
        else:
            place = peers.index(name)
            style = {"color": PEERS[place % len(PEERS)], "dashes": DASHES[place // len(PEERS) % len(DASHES)]}
            ax.plot(figures["levels"], cell["per_run"], linewidth=1.1, label=name, **style)
