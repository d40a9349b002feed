"""Reports of every kind of model, opened by a real browser."""

import json
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

import bayes_gpx as bx

pytestmark = [pytest.mark.slow, pytest.mark.browser]

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDE, NARROW = 1200, 390

PROBE = """
<script>
addEventListener("load", () => {
  const images = [...document.images];
  const table = [...document.querySelectorAll("table")].find(t => t.querySelector("td.number"));
  const at = [...table.tBodies[0].rows[0].cells].findIndex(c => c.classList.contains("number"));
  const column = () => [...table.tBodies[0].rows].map(r => Number(r.cells[at].dataset.value));
  table.querySelectorAll("th button")[at].click();
  const up = column();
  table.querySelectorAll("th button")[at].click();
  const picker = document.querySelector(".picker select");
  picker.selectedIndex = 2;
  picker.dispatchEvent(new Event("change"));
  const shown = [...document.querySelectorAll("[data-row]")].filter(part => !part.hidden);
  document.body.dataset.found = JSON.stringify({
    picked: shown.map(part => part.dataset.row), offered: picker.options.length, row: picker.value,
    images: images.length,
    broken: images.filter(i => !(i.complete && i.naturalWidth > 0)).length,
    sideways: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    up, down: column(), fetched: performance.getEntriesByType("resource")
      .filter(e => !e.name.startsWith("data:")).length,
  });
});
</script>
</body>
"""


@pytest.fixture(scope="module")
def browse(tmp_path_factory):
    """Function that runs the system's browser without a window; its output and its log."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.fail(f"no browser on the PATH; expected one of {', '.join(BROWSERS)}")
    profile = tmp_path_factory.mktemp("profile")

    def run(path, *options):
        fixed = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        fixed += [f"--user-data-dir={profile}", "--enable-logging=stderr"]
        command = [found, *fixed, *options, path.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        return done.stdout, done.stderr

    return run


def features(rng, n=40):
    return pd.DataFrame(rng.normal([5, -2, 0], [2, 0.3, 1], (n, 3)), columns=["age", "dose", "bmi"])


def responses(rng, X, kind):
    f = np.sin(X["age"]) - 0.5 * X["bmi"]
    if kind == "bernoulli":
        return pd.Series(np.where(rng.random(len(X)) < 1 / (1 + np.exp(-3 * f)), "sick", "well"))
    if kind == "categorical":
        return pd.Series(np.array(["a", "b", "c"])[np.digitize(f, [-0.5, 0.5])])
    if kind == "poisson":
        return pd.Series(rng.poisson(np.exp(1 + f)))
    return 100 + 12 * f + rng.normal(0, 2, len(X))


KINDS = {
    "GPX by NUTS": (bx.GPX, "normal", {"method": "nuts", "draws": 100, "tune": 150, "chains": 2}),
    "labels by Laplace": (bx.GP, "bernoulli", {"method": "laplace", "draws": 120}),
    "counts": (bx.GPX, "poisson", {}),
    "three labels": (bx.GP, "categorical", {}),
    "weights of three labels": (bx.GPX, "categorical", {}),
    "heavy tails": (bx.GP, "student_t", {}),
}


@pytest.mark.filterwarnings("ignore::bayes_gpx.inference.diagnostics.ConvergenceWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_a_report_of_each_kind_opens_whole(kind, browse, rng, tmp_path):
    build, likelihood, how = KINDS[kind]
    X = features(rng)
    y = responses(rng, X, likelihood).rename("outcome")
    model = build(X, y, likelihood=likelihood)
    idata = model.fit(**how, **({"seed": 1} if how else {}), progressbar=False)
    path = tmp_path / "report.html"
    bx.report(model, idata, X[:9].set_axis(list("abcdefghi")), path=path, seed=1)
    source = path.read_text(encoding="utf-8")
    assert "could not be made" not in source

    probed = tmp_path / "probed.html"
    probed.write_text(source.replace("</body>", PROBE), encoding="utf-8")
    dom, log = browse(probed, "--dump-dom", f"--window-size={NARROW},900")
    assert "CONSOLE" not in log
    found = re.search(r'data-found="([^"]*)"', dom)[1].replace("&quot;", '"')
    found = json.loads(found)
    assert found["images"] == source.count("<img") >= 4
    assert found["broken"] == found["fetched"] == found["sideways"] == 0
    assert found["offered"] == 4 and found["picked"] == [found["row"]] * 2  # words, and a figure
    assert len(found["up"]) > 1
    assert found["up"] == sorted(found["up"]) and found["down"] == found["up"][::-1]

    for width in (WIDE, NARROW):
        shot = tmp_path / f"{width}.png"
        _, log = browse(path, f"--screenshot={shot}", f"--window-size={width},4000")
        assert "CONSOLE" not in log
        pixels = imread(shot)
        assert pixels.shape[1] == width
        inked = (pixels[..., :3] < 0.9).any(axis=2)
        assert inked.any(axis=1).reshape((-1, 100)).any(axis=1).all()  # no empty stretch
