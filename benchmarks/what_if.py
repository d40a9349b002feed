"""How large, how fast and how exact is the page of `bx.what_if`?

`python benchmarks/what_if.py` writes pages of the diabetes data, runs their scripts in V8, the
engine of Chromium, and prints for each page its size, its errors against the model with the same
draws, and milliseconds of each part of a redraw (median of 21, and the slowest).
"""

import csv
import json
import re
import tempfile
import warnings
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd
from py_mini_racer import MiniRacer

import bayes_gpx as bx
from bayes_gpx.reporting.what_if import SCRIPTS

HERE = Path(__file__).parent
POINTS, REPEATS = 1000, 21

BASE64 = """
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
function atob(text) {
  let bits = 0, held = 0, found = "";
  for (const letter of text.replace(/=+$/, "")) {
    held = (held << 6) | LETTERS.indexOf(letter);
    bits += 6;
    if (bits >= 8) found += String.fromCharCode((held >> (bits -= 8)) & 255);
  }
  return found;
}
"""
"""What browsers have, and V8 alone has not."""

PARTS = {
    "prediction": "predict(model, x, scale)",
    "attributions": "attributions(model, x, start, scale)",
    "slopes": "slopes(model, x, scale)",
    "curve": "curve(model, Array.from({length: 41}, (_, i) => between(start, x, i / 40)), scale)",
    "comparison": "comparison(model, x, start, scale)",
    "weights": "weights(model, x)",
    "shapley": "shapleyValues(model, x, start, scale)",
}


def fits():
    """Names, models and fits."""
    data = bx.datasets.load("diabetes")
    high = (data.y > 140).rename("high")
    third = pd.qcut(data.y, 3, labels=["low", "middle", "high"]).astype(str)
    both = data.X[["blood_pressure"]].assign(disease=data.y)
    few = data.X[["age", "sex", "bmi", "blood_pressure"]]
    for name, model in (
        ("GP", bx.GP(data.X, data.y)),
        ("GPX", bx.GPX(data.X, data.y)),
        ("GP matern52", bx.GP(data.X, data.y, kernel="matern52")),
        ("GP labels", bx.GP(few, high, likelihood="bernoulli")),
        ("GP of 3 classes", bx.GP(few, third, likelihood="categorical")),
        ("GP of 2 outputs", bx.GP(few[["age", "sex", "bmi"]], both)),
    ):
        yield name, model, model.fit("laplace", draws=200, seed=1, progressbar=False)


def errors(engine, model, idata, rng):
    """Largest errors of means, in posterior sds, and of sds at random points, of the first f."""
    frame = model.training.X
    columns = [rng.choice(column, POINTS) for column in frame.values.T]
    new = np.column_stack(columns)
    options = {"num_draws": 20, "keep": "summary", "progressbar": False, "on": "latent"}
    outputs = model.training.outputs
    shown = model if outputs is None else model.of_output(outputs.names[0])
    known = bx.predictions(shown, idata, new, **options)
    if "class" in known.dims:
        known = known.isel({"class": 0})
    scaled = model.training.X_scaling.apply(new)
    if model.training.Z is not None:
        scaled = np.hstack([scaled, scaled])
    asked = f"JSON.stringify({json.dumps(scaled.tolist())}.map(x => predict(model, x, 'latent')))"
    found = json.loads(engine.eval(asked))
    mean, sd = (np.array([own[key] for own in found]) for key in ("mean", "sd"))
    off = np.abs(mean - known["f_mean"].values) / known["f_sd"].values
    return off.max(), np.abs(sd / known["f_sd"].values - 1.0).max()


def milliseconds(engine, call):
    """Median and largest time of a call at different rows."""
    engine.eval(f"globalThis.once = (x) => {{ {call}; }}")
    asked = f"""
    JSON.stringify(Array.from({{length: {REPEATS + 5}}}, (_, i) => {{
      x = model.points[i];
      start = [...model.baselines.mean, ...x.slice(model.baselines.mean.length)];
      const began = Date.now();
      once(x);
      return Date.now() - began;
    }}).slice(5))"""
    times = json.loads(engine.eval(asked))
    return median(times), max(times)


def main():
    """Print and store a row for each page."""
    rows, rng = [], np.random.default_rng(2)
    scripts = Path(bx.__file__).parent / "reporting" / "browser"
    for name, model, idata in fits():
        with tempfile.TemporaryDirectory() as folder:
            path = bx.what_if(model, idata, path=f"{folder}/page.html", seed=1)
            text, size = path.read_text(encoding="utf-8"), path.stat().st_size
        data = re.search(r'id="data">(.*?)</script>', text, re.S)[1]
        engine = MiniRacer()
        sources = [(scripts / f"{name}.js").read_text() for name in SCRIPTS[:-2]]
        engine.eval("\n".join([BASE64, *sources, "let x, start, scale;"]))
        engine.eval(f"globalThis.model = modelOf({data}); scale = model.response ? 'response' : ''")
        row = {"page": name, "MB": round(size / 1e6, 2)}
        row["rows"] = int(engine.eval("model.draws[0].m"))
        row["mean"], row["sd"] = (round(float(e), 4) for e in errors(engine, model, idata, rng))
        for part, call in PARTS.items():
            shown = part != "weights" or model.training.Z is not None
            if shown and (part != "shapley" or model.training.d <= 8):
                row[f"{part} ms"], row[f"{part} max"] = milliseconds(engine, call)
        engine.close()
        rows.append(row)
        print(row)
    columns = list(dict.fromkeys(key for row in rows for key in row))
    with (HERE / "what_if.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
