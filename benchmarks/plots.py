"""Plots of the results. matplotlib is optional: ``pip install -e '.[bench]'``; without it, tables are all there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

Series = Mapping[str, Sequence[tuple[float, float]]]
"""A line's name and its points."""

_OURS = "#c2410c"
_OTHERS = ("#1d4ed8", "#0f766e", "#7c3aed", "#a16207", "#be185d", "#475569")


def lines(path: Path, panels: Mapping[str, Series], x_label: str, *, logarithmic: Sequence[str] = ()) -> str:
    """Panels side by side, one per title, the same lines in each. Returns why there is no plot, or ""."""
    try:
        import matplotlib
    except ImportError:
        return "no plot: matplotlib is missing (pip install -e '.[bench]')"
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "parley", "font.size": 9, "svg.fonttype": "path"})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(panels), figsize=(4.2 * len(panels), 3.4), squeeze=False)
    for axis, (title, series) in zip(axes[0], panels.items(), strict=True):
        others = iter(_OTHERS * 3)
        for name, points in series.items():
            ours = name.startswith("Parley")
            x, y = zip(*sorted(points), strict=True)
            axis.plot(
                *(x, y),
                color=_OURS if ours else next(others),
                linewidth=2.4 if ours else 1.3,
                marker="o",
                markersize=4,
                label=name,
                zorder=3 if ours else 2,
            )
            axis.set_xticks(sorted(x), [f"{value:g}" for value in sorted(x)])
        axis.set_title(title)
        axis.set_xlabel(x_label)
        if title in logarithmic:
            axis.set_yscale("log")
        else:
            axis.set_ylim(bottom=0)
        axis.grid(alpha=0.25)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=min(4, len(labels)), frameon=False, fontsize=8)
    figure.tight_layout(rect=(0, 0.06 + 0.06 * ((len(labels) - 1) // 4), 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return ""
