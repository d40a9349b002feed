"""Twenty questions of an auditor, answered from JSON alone, and checked by NumPy and ArviZ."""

import json
import subprocess
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

import arviz as az
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq
from scipy.stats import norm

import bayes_gpx as bx

SCRIPT = Path(__file__).parents[2] / "docs" / "howto" / "audit.py"
PROB, NOISE = 0.8, 0.1


@pytest.fixture(scope="module")
def facts():
    """Data, a fit by NUTS that is too short on purpose, and new rows, one of them far away."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(20, 2)), list(range(100, 120)), ["dose", "age"])
    y = pd.Series(np.sin(X["dose"]) + 0.2 * X["age"], name="pressure")
    model = bx.GP(X, y, priors={"sigma": NOISE})
    with pytest.warns(UserWarning):
        options = {"draws": 30, "tune": 20, "chains": 2, "seed": 7}
        idata = model.fit("nuts", progressbar=False, **options)
    new = pd.DataFrame([[0.1, 0.2], [0.5, 40.0]], ["p", "q"], X.columns)
    return X, y, model, idata, new


@pytest.fixture(scope="module")
def answered(facts, tmp_path_factory):
    """What the script says of both rows, as a process without this package."""
    *_, model, idata, new = facts
    options = {"baseline": "median", "ci_prob": PROB, "seed": 5, "progressbar": False}
    with pytest.warns(bx.ExtrapolationWarning):
        found = bx.attributions(model, idata, new, **options)
    path = tmp_path_factory.mktemp("audit") / "explained.json"
    path.write_text(bx.to_json(found, model=model, idata=idata))
    words = [sys.executable, "-S", SCRIPT, path]  # -S leaves site-packages out
    out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    said, rows = {}, ("\n" + out).split("\nRow ")[1:]
    for text in rows:
        label, *lines = text.splitlines()
        split = (line.strip().partition("? ") for line in lines)
        said[label] = {question: json.loads(answer) for question, _, answer in split}
    return said


def moments(facts, row):
    """Means and variances (draw, feature) of integrated gradients, by quadrature in NumPy."""
    X, y, _, idata, new = facts
    center, scale = X.values.mean(axis=0), X.values.std(axis=0)
    Xs, ys = (X.values - center) / scale, (y.values - y.values.mean()) / y.values.std()
    start, end = (X.median().values - center) / scale, (new.loc[row].values - center) / scale
    nodes, weights = np.polynomial.legendre.leggauss(60)
    nodes, weights = (nodes + 1) / 2, weights / 2
    path = start + nodes[:, None] * (end - start)
    drawn = idata["posterior"].to_dataset().stack(sample=["chain", "draw"])
    found = []
    for k in range(drawn.sizes["sample"]):
        ls, amplitude = drawn["lengthscale"].values[:, k], drawn["amplitude"].values[k]

        def kernel(A, B, ls=ls, amplitude=amplitude):
            gap = (A[:, None] - B) / ls
            return amplitude**2 * np.exp(-0.5 * (gap**2).sum(axis=-1)), gap

        K = kernel(Xs, Xs)[0] + NOISE**2 * np.eye(len(Xs))
        to_data, gap = kernel(path, Xs)
        along = (end - start)[:, None, None] * np.moveaxis(-gap / ls, -1, 0) * to_data
        cross = np.tensordot(weights, along, (0, 1))  # features by training rows
        between, gap = kernel(path, path)
        own = []
        for j in range(2):
            curved = between * (1 - gap[..., j] ** 2) / ls[j] ** 2
            own.append((end - start)[j] ** 2 * weights @ curved @ weights)
        solved = np.linalg.solve(K, np.column_stack([ys, cross.T]))
        variance = np.array(own) - np.einsum("jn,nj->j", cross, solved[:, 1:])
        found.append((cross @ solved[:, 0] * y.values.std(), variance * y.values.var()))
    means, variances = map(np.array, zip(*found, strict=True))
    return means, variances


def quantile(means, sds, probability):
    """Quantile of an equal mixture of normals."""
    low, high = (means - 9 * sds).min(), (means + 9 * sds).max()
    return brentq(lambda x: norm.cdf(x, means, sds).mean() - probability, low, high, xtol=1e-12)


@pytest.mark.parametrize("row", ["p", "q"])
def test_the_numbers_are_those_of_numpy(facts, answered, row):
    said, (means, variances) = answered[row], moments(facts, row)
    mean, names = means.mean(axis=0), ["dose", "age"]
    first = int(np.abs(mean).argmax())
    assert said["Which feature matters most"] == names[first]
    assert_allclose(said["How much"], mean[first], rtol=1e-6)
    tails = 0.5 - PROB / 2, 0.5 + PROB / 2
    sds = np.sqrt(variances)
    ends = [[quantile(means[:, j], sds[:, j], tail) for tail in tails] for j in range(2)]
    assert_allclose(said["How certain is that"], ends[first], rtol=1e-5)
    known = [name for name, (low, high) in zip(names, ends, strict=True) if low > 0 or high < 0]
    assert said["Of which features is the sign known"] == known


def test_there_are_twenty_answers_about_each_row(answered):
    assert [len(said) for said in answered.values()] == [20, 20]


@pytest.mark.parametrize("row", ["p", "q"])
def test_the_facts_are_those_of_the_data_and_the_call(facts, answered, row):
    X, y, _, _, new = facts
    said, median = answered[row], X.median()
    assert "f(x) - f(baseline)" in said["What was estimated"]
    assert said["In which unit"] == y.name
    assert said["For which rows"] == [*new.index]
    assert said["What were the values of this row"] == new.loc[row].to_dict()
    assert said["Compared with which baseline"] == {"name": "median", "values": median.to_dict()}
    assert said["What kind of interval is it"] == [PROB, "equal-tailed credible interval"]
    assert said["Do the attributions add up"] is True
    assert said["To how many rows, of which response"] == [len(y), y.name]
    assert said["Which model was fitted"]["Likelihood"] == "normal"
    assert said["Which model was fitted"]["Kernel"] == "expquad"
    priors = said["Which priors"]
    assert priors["sigma"] == f"fixed at {NOISE}" and {*priors} >= {"lengthscale", "amplitude"}
    (told,) = said["What did the software warn of"]
    assert told.startswith("ExtrapolationWarning") and "as far as 40" in told
    assert any("as far as 40" in text for text in said["What should a reader know"])


def test_the_fit_is_that_of_arviz(facts, answered):
    said, posterior = answered["p"], facts[3]["posterior"].to_dataset()
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    assert said["How was it fitted"] == ["nuts", chains, chains * draws]
    state, r_hat = said["Did it converge"]
    largest = max(float(v.max()) for v in az.rhat(posterior[["lengthscale", "amplitude"]]).values())
    assert state == "not converged"
    assert_allclose(r_hat, largest, rtol=1e-9)
    versions = said["Which versions"]
    assert all(versions[name] == version(name) for name in ("bayes_gpx", "pymc", "numpy"))


def test_a_repeated_fit_and_call_have_the_same_numbers(facts, answered):
    X, y, *_, new = facts
    function, seed, digests = answered["p"]["Can I reproduce it"]
    model = bx.GP(X, y, priors={"sigma": NOISE})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        options = {"draws": 30, "tune": 20, "chains": 2, "seed": seed["fit"]}
        idata = model.fit("nuts", progressbar=False, **options)
        options = {"baseline": "median", "seed": seed["call"], "progressbar": False}
        found = getattr(bx, function)(model, idata, new, **options)
    again = json.loads(bx.to_json(found, model=model, idata=idata))
    assert again["digests"] == digests
    name = answered["p"]["Which feature matters most"]
    mean = found["attribution_mean"].sel(obs="p", feature=name)
    assert float(mean) == answered["p"]["How much"]
