"""The page in a real browser: its numbers at random points, its controls, widths and times."""

import base64
import html
import json
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

import bayes_gpx as bx
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore::bayes_gpx.inference.diagnostics.ConvergenceWarning"),
]

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
POINTS = 1000

PROBE = """
<script>
addEventListener("load", async () => {
  const rest = () => new Promise((done) => setTimeout(done, 600));
  const press = (target, key) =>
    target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  await rest();
  const points = POINTS_HERE, report = {};
  const mean = model.baselines.mean;
  report.found = points.map((x) => predict(model, x, "latent"));
  report.parts = points.slice(0, 100).map((x) => attributions(model, x, mean, "latent"));
  const said = () => document.getElementById("prediction").textContent;
  const before = said();
  const why = () => document.getElementById("why").textContent;
  const explained = why();
  const slider = document.querySelector('#features input[type="range"]');
  press(slider, "PageUp");
  await rest();
  report.moved = said() !== before && why() !== explained;
  const box = document.querySelector('#features input[type="number"]');
  box.value = "300";
  box.dispatchEvent(new Event("change"));
  await rest();
  report.outside = document.getElementById("outside").textContent;
  document.getElementById("keep").click();
  document.getElementById("next").click();
  await rest();
  report.compared = document.getElementById("comparison").textContent;
  report.rows = document.querySelectorAll("#numbers tbody tr").length;
  const named = (own) =>
    own.labels?.length || own.getAttribute("aria-label") || own.textContent.trim();
  const controls = [...document.querySelectorAll("input, select, button")];
  report.unnamed = controls.filter((own) => !named(own)).length;
  report.sideways = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  const loaded = performance.getEntriesByType("resource");
  report.fetched = loaded.filter((entry) => !entry.name.startsWith("data:")).length;
  document.body.dataset.report = JSON.stringify(report);
});
</script>
</body>
"""


def browse(tmp_path, page, *options):
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.fail(f"no browser on the PATH; expected one of {', '.join(BROWSERS)}")
    fixed = [*OPTIONS, f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr"]
    command = [found, *fixed, *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert "CONSOLE" not in done.stderr
    return done.stdout


def unpacked(text, kind="<f8"):
    return np.frombuffer(base64.b64decode(text), kind)


def stored_posterior(data, hyper, X):
    """Moments of f at X for each draw, and of its integrated gradients, from the page's state."""
    rows = unpacked(data["state"]["rows"]).reshape(-1, data["state"]["columns"])
    m, d = rows.shape
    t, weight = np.polynomial.legendre.leggauss(40)
    t, weight = 0.5 * (t + 1), 0.5 * weight
    start = np.array(data["baselines"]["mean"])
    values, parts = [], []
    for draw, (_, theta) in zip(data["draws"], hyper, strict=True):
        ls, variance = theta["lengthscale"], theta["amplitude"] ** 2

        def k(A, B, ls=ls, variance=variance):
            apart = ((A[:, None] - B[None]) / ls) ** 2
            return variance * np.exp(-0.5 * apart.sum(-1))

        K = k(rows, rows)
        K += data["state"]["jitter"] * variance * np.eye(m)
        L = np.linalg.cholesky(K)
        F = np.zeros((m, m))
        F[np.tril_indices(m)] = draw["step"] * unpacked(draw["factor"], "<i2")
        mean, half = L @ unpacked(draw["beta"]), L @ F
        gain = np.linalg.solve(K, np.eye(m))

        def moments(c, prior, mean=mean, half=half, gain=gain):
            C = c @ gain
            return C @ mean, prior - (C * c).sum(-1) + ((C @ half) ** 2).sum(-1)

        values.append(moments(k(X, rows), variance))
        each = []
        for x in X[:100]:
            path = start + t[:, None] * (x - start)
            over = k(path, rows)
            slopes = -over[:, :, None] * (path[:, None] - rows[None]) / ls**2
            c = (x - start) * np.einsum("t,tmd->md", weight, slopes)
            delta = (t[:, None] - t[None])[..., None] * (x - start)
            bend = k(path, path)[..., None] * (1 / ls**2 - delta**2 / ls**4)
            prior = (x - start) ** 2 * np.einsum("t,s,tsd->d", weight, weight, bend)
            each.append(moments(c.T, prior))
        parts.append(np.moveaxis(np.array(each), 1, 0))
    return np.array(values), np.array(parts)


def mixture(moments):
    """Mean, sd and 90% interval of equal mixtures: moments (draws, 2, k)."""
    means, sds = moments[:, 0], np.sqrt(moments[:, 1])
    mean = means.mean(axis=0)
    sd = np.sqrt((sds**2 + means**2).mean(axis=0) - mean**2)
    ends = [
        [
            optimize.brentq(
                lambda v, k=k, p=p: stats.norm.cdf(v, means[:, k], sds[:, k]).mean() - p,
                mean[k] - 9 * sd[k],
                mean[k] + 9 * sd[k],
            )
            for k in range(len(mean))
        ]
        for p in (0.05, 0.95)
    ]
    return np.stack([mean, sd, *ends], -1)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("what_if")
    data = bx.datasets.load("diabetes")
    model = bx.GP(data.X, data.y)
    idata = model.fit("laplace", draws=200, seed=1, progressbar=False)
    path = bx.what_if(model, idata, path=folder / "page.html", seed=1)
    return model, idata, path


def test_the_browser_computes_the_stored_posterior(page, tmp_path, rng):
    model, idata, path = page
    text = path.read_text(encoding="utf-8")
    assert path.stat().st_size <= 2e6
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])
    assert len(data["draws"]) == 20
    scaled = model.training.X_scaling.apply(model.training.X.values)
    X = np.column_stack([rng.choice(column, POINTS) for column in scaled.T])
    probed = tmp_path / "probed.html"
    probe = PROBE.replace("POINTS_HERE", json.dumps(X.tolist()))
    probed.write_text(text.replace("</body>", probe), encoding="utf-8")
    dom = browse(tmp_path, probed, "--dump-dom", "--virtual-time-budget=600000")
    report = json.loads(html.unescape(re.search(r'data-report="([^"]*)"', dom)[1]))

    values, parts = stored_posterior(data, hyperparameter_draws(model, idata, 20), X)
    unit, center = (data["functions"][0]["scale"][name] for name in ("factor", "center"))
    known = mixture(values * np.array([unit, unit**2])[:, None])
    known[:, [0, 2, 3]] += center
    found = np.array([[f[key] for key in ("mean", "sd", "low", "high")] for f in report["found"]])
    assert np.abs((found - known) / known[:, 1:2]).max() < 1e-3

    flat = parts.reshape(len(parts), 2, -1) * np.array([unit, unit**2])[:, None]
    known = mixture(flat).reshape(100, -1, 4)
    found = [
        [[own[k] for k in ("mean", "sd", "low", "high")] for own in f] for f in report["parts"]
    ]
    assert np.abs((np.array(found) - known) / known[..., 1:2]).max() < 1e-3

    assert report["moved"] and "age is 300, above the largest value 79" in report["outside"]
    assert report["compared"].startswith("Difference: ")
    assert report["rows"] == 10
    assert report["fetched"] == report["unnamed"] == 0


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_no_width_scrolls_sideways(page, width, tmp_path):
    _, _, path = page
    probed = tmp_path / "probed.html"
    source = path.read_text(encoding="utf-8").replace("</body>", PROBE)
    probed.write_text(source.replace("POINTS_HERE", "[]"), encoding="utf-8")
    options = ["--dump-dom", f"--window-size={width},900", "--virtual-time-budget=60000"]
    dom = browse(tmp_path, probed, *options)
    report = json.loads(html.unescape(re.search(r'data-report="([^"]*)"', dom)[1]))
    assert report["sideways"] == 0


CHOICES = """
<script>
addEventListener("load", async () => {
  const rest = () => new Promise((done) => setTimeout(done, 900)), report = {};
  const texts = ["prediction", "others", "why", "comparison", "numbers"];
  const said = () => texts.map((id) => document.getElementById(id).textContent);
  const choose = async (id, value) => {
    const menu = document.getElementById(id);
    menu.value = value;
    menu.dispatchEvent(new Event("change"));
    await rest();
    return said();
  };
  await rest();
  report.first = said();
  report.second = await choose("of", 1);
  report.latent = await choose("scale", "latent");
  document.getElementById("keep").click();
  report.moved = await choose("feature-1", 1);
  report.shapley = await choose("method", "shapley");
  document.body.dataset.report = JSON.stringify(report);
});
</script>
</body>
"""


def test_a_menu_chooses_the_class_and_the_group(tmp_path, rng):
    """Of three classes in groups: what is said follows each menu, in the browser."""
    X = pd.DataFrame({"a": rng.normal(size=30)})
    groups = np.tile(["u", "v"], 15)
    y = np.select([X["a"] > 0.5, X["a"] > -0.5], ["high", "middle"], "low")
    model = bx.GP(X, pd.Series(y, name="grade"), likelihood="categorical", groups=groups)
    theta = {"lengthscale": [1.0], "amplitude": 2.0, "group_amplitude": 1.0}
    path = bx.what_if(model, theta, path=tmp_path / "page.html")
    text = path.read_text(encoding="utf-8").replace("</body>", CHOICES)
    path.write_text(text, encoding="utf-8")
    dom = browse(tmp_path, path, "--dump-dom", "--virtual-time-budget=60000")
    report = json.loads(html.unescape(re.search(r'data-report="([^"]*)"', dom)[1]))
    first, second, latent, moved, shapley = report.values()
    assert first[0].startswith("probability that grade is high: ")
    assert re.match("Others: low .*; middle ", first[1])
    assert second[0].startswith("probability that grade is low: ")
    assert re.match("Others: high .*; middle ", second[1])
    assert latent[0].startswith("latent value of grade, low: ")
    assert moved[0] != latent[0] and moved[3].startswith("Difference: ")
    assert len({first[2], second[2], latent[2]}) == 3 and len(shapley[4]) > 0
