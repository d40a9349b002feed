"""Figure 2 of Yoshikawa and Iwata: sufficiency, the change of predictions with only k features.

Sufficiency is the mean absolute change of the standardized prediction if only the k features with
the largest contributions are kept and all others are set to their means. The paper prints curves
but no numbers.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import gpx_cells
import gpx_data
import papers
from gpx_scores import KEPT

METHODS = ("GPX", "LIME", "SHAP", "KL", "Localized", "Network", "ARD")
MARKERS = "o^vsDXP"


def main(arguments=None):
    paper = papers.Paper("gpx_figure2", __doc__, arguments, cells="gpx")
    names = [name for name in gpx_data.NAMES if name != "paper"]
    cells = gpx_cells.compute(paper, METHODS, names)
    cells = cells[cells["method"].isin(METHODS)]
    summary = papers.over_splits(cells, [f"sufficiency_{k}" for k in KEPT])
    summary.insert(2, "k", summary.pop("metric").str.removeprefix("sufficiency_").astype(int))
    paper.table(summary)
    paper.figure(plot(summary))


def plot(summary):
    """Plot one panel per data set, and one line per method."""
    names = summary["data"].unique()
    figure, axes = plt.subplots(
        2, -(-len(names) // 2), figsize=(11, 6), layout="constrained", squeeze=False
    )
    for axis, name in zip(axes.flat, names, strict=False):
        own = summary[summary["data"] == name]
        for method, line in own.groupby("method", sort=False):
            place = METHODS.index(method)
            style = {"color": f"C{place}", "marker": MARKERS[place], "markersize": 5}
            if method == "GPX":
                style |= {"linewidth": 3, "color": "black"}
            axis.errorbar(line["k"], line["mean"], line["sd"], label=method, capsize=2, **style)
        axis.set(title=name, xlabel="features kept, k", ylim=(0, None), xticks=KEPT[::3])
    for axis in axes.flat[len(names) :]:
        axis.set_axis_off()
    figure.supylabel("mean absolute change of the prediction, sd of y", fontsize="medium")
    shown = [axis.get_legend_handles_labels() for axis in axes.flat]
    by_method = {name: handle for own in shown for handle, name in zip(*own, strict=True)}
    names = [name for name in METHODS if name in by_method]
    handles = [by_method[name] for name in names]
    figure.legend(handles, names, loc="outside lower center", ncols=len(names))
    return figure


if __name__ == "__main__":
    main()
