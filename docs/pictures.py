"""Draw the pictures of the README and of the first page of the documentation.

    python docs/pictures.py

The script runs the README's example and saves its waterfall. The other pictures explain the same
fit: diabetes data with 442 patients, ten measurements, and a score of the disease's progression
within one year. It also runs the README's commands and takes a picture of the report's first
screen, if Chromium is installed.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl
import numpy as np

import bayes_gpx as bx

FOLDER = Path(__file__).with_name("_static")
README = Path(__file__).parents[1] / "README.md"
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
        options += [f"--user-data-dir={folder}/profile", "--window-size=900,790"]
        options += [f"--screenshot={FOLDER / 'report.png'}", f"file://{folder}/run/report.html"]
        subprocess.run([browser, *options], check=True, capture_output=True)


def main():
    """Fit once, and write the pictures."""
    mpl.use("agg")
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
    main()
