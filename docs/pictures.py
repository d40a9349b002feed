"""Draw the pictures of the README, of the first page and of the gallery's cards.

    python docs/pictures.py [--gallery]

The script runs the README's example and saves its waterfall. The other pictures explain the same
fit: diabetes data with 442 patients, ten measurements, and a score of the disease's progression
within one year. It also runs the README's commands and takes a picture of the report's first
screen, if Chromium is installed. The map of Taipei needs BAYES_GPX_DATA. With `--gallery` it runs
the code of docs/gallery.md instead, and saves the first picture of each plot.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bayes_gpx as bx

FOLDER = Path(__file__).with_name("_static")
README = Path(__file__).parents[1] / "README.md"
COVERAGE = Path(__file__).parents[1] / "benchmarks" / "calibrated.csv"
QUIET = {"seed": 1, "progressbar": False}
DPI = 130


def example():
    """Run the README's first example; return its variables, and save its picture in the folder."""
    (code, *_) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    space, here = {}, Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            exec(code, space)
        finally:
            os.chdir(here)
    return space


def report():
    """Run the README's commands, and save the first screen of their report."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        return print("no report: install Chromium for its picture")
    blocks = re.findall(r"```bash\n(.*?)```", README.read_text(), re.DOTALL)
    (lines,) = [block for block in blocks if "bayes-gpx fit" in block]
    with tempfile.TemporaryDirectory() as folder:
        for line in lines.splitlines():
            command = line.partition("#")[0].split()
            own = [str(Path(sys.executable).with_name(command[0])), *command[1:]]
            subprocess.run(own, cwd=folder, check=True)
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        options += [f"--user-data-dir={folder}/profile", "--window-size=900,690"]
        options += [f"--screenshot={FOLDER / 'report.png'}", f"file://{folder}/run/report.html"]
        subprocess.run([browser, *options], check=True, capture_output=True)


def gallery():
    """Run the cells of the gallery, and save the first picture of each plot as a card."""
    text = Path(__file__).with_name("gallery.md").read_text()
    cells = re.findall(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    folder, drawn = FOLDER / "gallery", set()
    folder.mkdir(exist_ok=True)

    def saving(name, plot):
        def wrapped(*args, **kwargs):
            found = plot(*args, **kwargs)
            if name not in drawn:
                drawn.add(name)
                figure = found.viz["figure"].item()
                title = figure.get_suptitle()
                figure.suptitle("")  # too small to read on a card
                figure.savefig(folder / f"{name}.png", dpi=60, bbox_inches="tight")
                figure.suptitle(title)
            return found

        return wrapped

    for name in [name for name in bx.__all__ if name.startswith("plot_")]:
        setattr(bx, name, saving(name, getattr(bx, name)))
    space = {}
    for cell in cells:
        exec(cell, space)
        plt.close("all")


def taipei():
    """Run the code about Taipei of docs/howto/effect-size.md, and save its map."""
    page = Path(__file__).with_name("howto") / "effect-size.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    exec(code, {"bx": bx})
    plt.gcf().savefig(FOLDER / "taipei_drivers.png", dpi=DPI)
    plt.close("all")


def coverage():
    """Draw the coverage of 90% intervals by kind of fit, from the table of a benchmark."""
    table = pd.read_csv(COVERAGE, index_col=0).apply(lambda cells: cells.str.rstrip("%"))
    fits = {
        "GPX, NUTS": "GPX, NUTS",
        "GPX, Laplace": "GPX, Laplace",
        "counts, Laplace": "counts, Laplace",
        "classes, NUTS": "labels, NUTS over latent values",
        "8 inducing points, NUTS": "8 inducing points, NUTS",
        "classes, variational": "labels, sparse variational",
    }
    shown = ["f", "y", "derivative", "attribution", "weight", "relevance", "lengthscale"]
    names = ["f", "new response", "slope", *shown[3:]]
    figure, axes = plt.subplots(figsize=(7.0, 2.9), layout="constrained")
    axes.axvspan(90 - 2 * 2.1, 90 + 2 * 2.1, color="0.92")
    axes.axvline(90, color="0.5", linewidth=1)
    for k, (label, column) in enumerate(fits.items()):
        values = table.loc[shown, column].astype(float).to_numpy()
        heights = np.arange(len(shown))[::-1] + 0.12 * (2.5 - k)
        style = {"marker": "os^Dvx"[k], "linestyle": "", "markersize": 5}
        axes.plot(values, heights, label=label, **style)
    axes.set_yticks(np.arange(len(shown))[::-1], names)
    axes.set(xlabel="truths inside 90% intervals, % of 200 runs", xlim=(55, 100))
    figure.legend(loc="outside right upper", frameon=False)
    figure.savefig(FOLDER / "coverage.png", dpi=DPI)


def treatment():
    """Draw the causes of a treated outcome, and a hidden one, as arrows."""
    places = {"X": (0, 1), "treatment": (-1.3, 0), "outcome": (1.3, 0), "hidden": (0, -1)}
    figure, axes = plt.subplots(figsize=(4.6, 2.5), layout="constrained")
    for name, place in places.items():
        box = {"boxstyle": "round", "fc": "white", "ls": "--" if name == "hidden" else "-"}
        text = "X, measured before" if name == "X" else name
        text = "hidden cause" if name == "hidden" else text
        axes.text(*place, text, ha="center", va="center", bbox=box, zorder=3)
    arrows = [(cause, to) for cause in ("X", "hidden") for to in ("treatment", "outcome")]
    for cause, to in [*arrows, ("treatment", "outcome")]:
        style = {"arrowstyle": "-|>", "shrinkA": 18, "shrinkB": 18}
        style |= {"linestyle": "--" if cause == "hidden" else "-", "color": "0.3"}
        if cause == "treatment":
            style |= {"linewidth": 2.5, "color": "C0", "shrinkA": 45, "shrinkB": 40}
        axes.annotate("", places[to], places[cause], arrowprops=style)
    axes.text(0, 0.08, "effect", ha="center", va="bottom", color="C0")
    axes.set(xlim=(-2, 2), ylim=(-1.35, 1.35))
    axes.axis("off")
    figure.savefig(FOLDER / "treatment.png", dpi=DPI)


def main():
    """Fit once, and write the pictures."""
    coverage()
    taipei()
    treatment()
    space = example()
    model, idata, X = space["model"], space["idata"], space["data"].X
    patient = space["explained"]["obs"].values
    waterfall = bx.plot_waterfall(space["explained"], predictions=space["predicted"])
    waterfall.savefig(FOLDER / "readme_waterfall.png", dpi=DPI)
    mean = space["explained"]["attribution_mean"].squeeze().to_series().round(0)
    print(mean.to_dict(), space["predicted"]["y_mean"].item())

    change = {"bmi": (X["bmi"].loc[patient].item(), 25)}
    less = bx.comparisons(model, idata, variables=change, obs=X.index[:8], **QUIET)
    bx.plot_comparisons(less).savefig(FOLDER / "readme_comparisons.png", dpi=DPI)

    some = X.index[:: len(X) // 100]
    shares = bx.attributions(model, idata, obs=some, keep="summary", progressbar=False)
    swarm = bx.plot_beeswarm(shares, max_features=6)
    swarm.savefig(FOLDER / "first_attributions.png", dpi=DPI)

    rows = X.iloc[[0] * 40].reset_index(drop=True)
    rows["bmi"] = np.linspace(X["bmi"].min(), X["bmi"].max(), 40)
    slopes = bx.slopes(model, idata, rows, **QUIET)
    bx.plot_derivatives(slopes, features=["bmi"]).savefig(FOLDER / "first_slopes.png", dpi=DPI)

    ranked = bx.ranking(bx.relevance(model, idata, obs=some, num_draws=200, progressbar=False))
    bx.plot_relevance(ranked).savefig(FOLDER / "first_relevance.png", dpi=DPI)
    report()


if __name__ == "__main__":
    mpl.use("agg")
    gallery() if "--gallery" in sys.argv[1:] else main()
