"""The page's scripts against the package's own functions, and against formulas."""

import base64
import json
import re
from functools import cache

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from py_mini_racer import MiniRacer
from scipy import special, stats
from threadpoolctl import threadpool_info, threadpool_limits

import bayes_gpx as bx
import matrix_of_calls
from bayes_gpx.reporting import browser_state
from bayes_gpx.reporting.what_if import SCRIPTS
from what_if import BASE64


def data_of(path):
    text = path.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return found[1], text


@pytest.fixture
def engine():
    """V8 with the scripts that compute, without those that draw."""
    context = MiniRacer()
    context.eval(BASE64)
    root = bx.__path__[0]
    for name in SCRIPTS[:-2]:
        with open(f"{root}/reporting/browser/{name}.js", encoding="utf-8") as file:
            context.eval(file.read())
    yield context
    context.close()


def call(engine, expression):
    return json.loads(engine.eval(f"JSON.stringify({expression})"))


@pytest.fixture
def opened(engine, tmp_path):
    """Function that makes a page and loads its model into the engine."""

    def load(model, idata, *args, **options):
        path = bx.what_if(model, idata, *args, path=tmp_path / "page.html", **options)
        text, page = data_of(path)
        engine.eval(f"globalThis.model = modelOf({text})")
        return json.loads(text) | {"text": page}

    return load


def rows_of(rng, n=25, d=3):
    return pd.DataFrame(
        rng.normal([5, -2, 0][:d], [2, 0.3, 1][:d], (n, d)), columns=list("abc")[:d]
    )


def smooth(X):
    z = (X - X.mean()) / X.std()
    return np.sin(z.iloc[:, 0]) + 0.5 * z.iloc[:, 1] * z.iloc[:, -1]


def summaries(found, keys=("mean", "sd", "low", "high")):
    return np.array([[row[key] for key in keys] for row in found])


def expected(result, name):
    ends = result[f"{name}_interval"].values
    return np.stack([result[f"{name}_mean"], result[f"{name}_sd"], ends[..., 0], ends[..., 1]], -1)


def agree(found, known, within=1e-3):
    """Means, sds and ends of intervals, within a share of the posterior sd."""
    sd = known[..., 1:2]
    np.testing.assert_array_less(np.abs(found - known) / sd, within)


QUIET = {"keep": "summary", "progressbar": False}

KERNELS = {
    "expquad": {"lengthscale": [1.5, 2.0, 3.0], "amplitude": 1.2},
    "matern52": {"lengthscale": [1.5, 2.0, 3.0], "amplitude": 1.2},
    "matern32": {"lengthscale": [1.5, 2.0, 3.0], "amplitude": 1.2},
    "ratquad": {"lengthscale": [1.5, 2.0, 3.0], "amplitude": 1.2, "alpha": 0.7},
    "periodic": {"lengthscale": [1.5, 2.0, 3.0], "amplitude": 1.2, "period": 4.0},
    "linear + expquad": {
        "linear_amplitude": 0.5,
        "expquad_amplitude": 1.0,
        "expquad_lengthscale": [1.5, 2.0, 3.0],
    },
    "linear * matern52": {"amplitude": 1.0, "matern52_lengthscale": [1.5, 2.0, 3.0]},
}


def additive(d):
    base = pm.gp.cov.Matern52
    return bx.Additive(d, ls=[1.5, 2.0, 3.0], order=2, base=base) + pm.gp.cov.Constant(0.5)


QUICK = {("expquad", bx.GP)}

CASES = [
    pytest.param(kernel, family, marks=() if (kernel, family) in QUICK else pytest.mark.slow)
    for kernel in (*KERNELS, additive)
    for family in (bx.GP, bx.GPX)
]


@pytest.mark.parametrize(("kernel", "family"), CASES)
def test_the_page_computes_what_the_package_does(kernel, family, opened, engine, rng):
    X = rows_of(rng)
    model = family(X, smooth(X).rename("y"), kernel=kernel)
    theta = {**(KERNELS[kernel] if isinstance(kernel, str) else {}), "sigma": 0.3}
    if family is bx.GPX:
        theta |= {"sigma_w": 0.1}
    new = rows_of(rng, 4)
    data = opened(model, theta, new)
    at = "model.points.map(x => "
    found = call(engine, f"{at} predict(model, x))")
    known = bx.predictions(model, theta, new, **QUIET)
    agree(summaries(found), expected(known, "f"))
    agree(summaries([own["y"] for own in found]), expected(known, "y"))

    start = "[...model.baselines.mean, ...x.slice(model.baselines.mean.length)]"
    found = call(engine, f"{at} attributions(model, x, {start}))")
    known = bx.attributions(model, theta, new, **QUIET)
    found = np.stack([summaries(row) for row in found])
    agree(found, expected(known, "attribution"))

    found = np.stack([summaries(row) for row in call(engine, f"{at} slopes(model, x))")])
    agree(found, expected(bx.derivatives(model, theta, new, **QUIET), "derivative"))

    found = np.stack(
        [summaries(row) for row in call(engine, f"{at} shapleyValues(model, x, {start}))")]
    )
    known = bx.shapley_values(model, theta, new, **QUIET)
    agree(found, expected(known, "attribution"))

    if family is bx.GPX:
        found = call(engine, f"{at} weights(model, x))")
        for name, of in (("weight", bx.weights), ("contribution", bx.contributions)):
            own = np.stack([summaries([part[name] for part in row]) for row in found])
            agree(own, expected(of(model, theta, new, **QUIET), name))
    assert data["attributions"]


RESPONSES = {
    "bernoulli": (lambda f: np.where(f > 0.0, "sick", "well"), {}, "probability"),
    "poisson": (lambda f: np.round(np.exp(1.0 + f)), {}, "rate"),
}


@pytest.mark.parametrize(
    "likelihood", ["bernoulli", pytest.param("poisson", marks=pytest.mark.slow)]
)
def test_the_response_of_the_page_is_the_package_s(likelihood, opened, engine, rng):
    made, more, name = RESPONSES[likelihood]
    X = rows_of(rng, 30, 2)
    model = bx.GP(X, pd.Series(made(smooth(X)), name="y"), likelihood=likelihood)
    theta = {"lengthscale": [1.5, 2.0], "amplitude": 1.2, **more}
    new = rows_of(rng, 3, 2)
    opened(model, theta, new)
    engine.eval("model.each = 20000")
    at = "model.points.map(x => "
    found = summaries(call(engine, f"{at} predict(model, x, 'response'))"))
    options = {"draws": 20000, "progressbar": False, "seed": 1}
    known = expected(bx.predictions(model, theta, new, **options, keep="summary"), name)
    assert np.all(np.abs(found[:, 0] - known[:, 0]) < 1e-4 * known[:, 1])
    agree(found, known, 0.03)

    start = "model.baselines.mean"
    calls = {
        "attributions": (bx.attributions, f"attributions(model, x, {start}, 'response')"),
        "shapley_values": (bx.shapley_values, f"shapleyValues(model, x, {start}, 'response')"),
        "slopes": (bx.derivatives, "slopes(model, x, 'response')"),
    }
    for function, asked in calls.values():
        quantity = "derivative" if function is bx.derivatives else "attribution"
        known = function(model, theta, new, **options)
        found = np.stack([summaries(row) for row in call(engine, f"{at} {asked})")])
        moments = np.stack([known[f"{quantity}_mean"], known[f"{quantity}_sd"]], -1)
        assert np.all(np.abs(found[..., 0] - moments[..., 0]) < 1e-3 * moments[..., 1])
        drawn = known[quantity].values[0]
        ends = np.quantile(drawn, [0.05, 0.95], axis=0)
        both = np.stack([moments[..., 0], moments[..., 1], *ends], -1)
        agree(found, both, 0.1)  # both are Monte Carlo


def of_codes(kind, rng):
    """A model with codes, its hyperparameters, and options for rows of each model and page."""
    X = rows_of(rng, 24, 2)  # few enough that the page keeps all
    f, new = smooth(X), rows_of(rng, 3, 2)
    theta = {"lengthscale": [1.5, 2.0], "amplitude": 1.2}
    if kind == "groups":
        groups = np.tile(["u", "v", "w"], 8)
        model = bx.GP(X, (f + (groups == "u")).rename("y"), groups=groups)
        given = ["w", "u", "elsewhere"]
        return model, theta | {"sigma": 0.3, "group_amplitude": 0.7}, new, given
    if kind == "outputs":
        y = pd.DataFrame({"y": f, "z": X["b"] - f + 0.3 * rng.normal(size=24)})
        model = bx.GPX(X, y)
        both = {name: [value, value] for name, value in theta.items()}
        return model, both | {"sigma": [0.3, 0.5], "sigma_w": [0.1, 0.2]}, new, None
    y = pd.Series(np.select([f > 0.3, X["b"] > -2.0], ["up", "down"], "flat"), name="y")
    return bx.GP(X, y, likelihood="categorical"), theta, new, None


@pytest.mark.parametrize(
    "kind",
    [
        "classes",
        "groups",
        "outputs",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("GP correlated", "GP correlated groups", "GP two processes")
        ),
    ],
)
def test_outputs_classes_and_groups_are_explained_as_by_the_package(kind, opened, engine, rng):
    """f and its attributions exactly, and probabilities within Monte Carlo error."""
    if kind in matrix_of_calls.builders():
        model, theta = matrix_of_calls.model(kind)
        rows = matrix_of_calls.new_rows(model)
        new, groups = rows["X_new"], rows.get("groups_new")
    else:
        model, theta, new, groups = of_codes(kind, rng)
    data = opened(model, theta, new, groups=groups)
    own = {} if groups is None else {"groups_new": groups}
    start = "[...model.baselines.mean, ...x.slice(model.baselines.mean.length)]"
    options = {"draws": 8000, "progressbar": False, "seed": 1, **own}
    explained = cache(lambda verb: verb(model, theta, new, **options))  # of all classes
    for k, function in enumerate(data["functions"]):
        engine.eval(f"model = showing(model, {k})")
        at = "model.points.map(x => "
        asked = model if kind != "outputs" else model.of_output(function["name"])
        found = call(engine, f"{at} attributions(model, x, {start}, 'latent'))")
        known = bx.attributions(asked, theta, new, **own, on="latent", **QUIET)
        if "class" in known.dims:
            known = known.isel({"class": k})
        moments = np.stack([known["attribution_mean"], known["attribution_sd"]], -1)
        agree(np.stack([summaries(row, ("mean", "sd")) for row in found]), moments)
        if function["response"] is None:
            continue
        engine.eval("model.each = 8000")
        calls = {
            "derivative": [(bx.derivatives, "slopes(model, x, 'response')")],
            "attribution": [
                (bx.attributions, f"attributions(model, x, {start}, 'response')"),
                (bx.shapley_values, f"shapleyValues(model, x, {start}, 'response')"),
            ],
        }
        for name, asked_for in calls.items():
            for function, expression in asked_for:
                found = np.stack([summaries(row) for row in call(engine, f"{at} {expression})")])
                result = explained(function).isel({"class": k})
                moments = [result[f"{name}_mean"].values, result[f"{name}_sd"].values]
                off = np.abs(found[..., 0] - moments[0])
                assert (off < 0.02 * moments[1] + 1e-4).all()
                np.testing.assert_allclose(found[..., 1], moments[1], rtol=0.1)
                drawn = result[name].values[0]  # 4 Monte Carlo errors of both
                for end, prob in ((2, 0.05), (3, 0.95)):
                    below = (drawn < found[..., end]).mean(axis=0)
                    np.testing.assert_allclose(below, prob, atol=0.014)
        if data["functions"][0]["response"]["softmax"]:
            each = "model.functions.map((_, c) => predict(showing(model, c), x, 'response').mean)"
            np.testing.assert_allclose(np.sum(call(engine, f"{at} {each})"), axis=1), 1.0)
        sums = call(engine, f"{at} [attributions(model, x, {start}, 'response'), {start}, x])")
        for parts, first, last in sums:
            ends = [call(engine, f"smooth(model, {x}, 'response').mean") for x in (first, last)]
            assert sum(p["mean"] for p in parts) == pytest.approx(ends[1] - ends[0], abs=1e-3)


def test_a_page_of_one_output_is_that_of_the_output(opened, engine, rng):
    """With its own noise, and its own deviations from the weights."""
    model, theta, new, _ = of_codes("outputs", rng)
    one = model.of_output("z")
    assert [f["name"] for f in opened(one, theta, new)["functions"]] == ["z"]
    found = call(engine, "model.points.map(x => predict(model, x))")
    known = bx.predictions(one, theta, new, **QUIET)
    agree(summaries(found), expected(known, "f"))
    agree(summaries([own["y"] for own in found]), expected(known, "y"))


def table_of(values, slopes, low, step):
    own = {"values": values.tolist(), "slopes": slopes.tolist()}
    return json.dumps({"low": low, "step": step, **own})


def test_expectations_over_normal_f_are_those_of_quadrature(engine):
    f = np.linspace(-20, 20, 401)
    S = special.expit
    engine.eval(f"globalThis.table = {table_of(S(f), S(f) * S(-f), f[0], f[1] - f[0])}")
    z, weights = np.polynomial.hermite_e.hermegauss(150)
    weights = weights / weights.sum()
    for mean, sd in ((0.3, 1.0), (-4.0, 2.0), (1.0, 1e-6)):
        at = mean + sd * z
        p = S(at)
        slope = p * (1 - p)
        exact = [weights @ v for v in (p, p**2, slope, slope * (1 - 2 * p))]
        found = call(engine, f"expected(table, {mean}, {sd**2})")
        np.testing.assert_allclose(found[:3], exact[:3], atol=2e-6)
        np.testing.assert_allclose(found[3], exact[3], atol=2e-4)  # a cubic's second derivative


def test_summaries_of_mixtures_are_those_of_scipy(engine):
    means, sds = np.array([0.0, 2.0, -1.0]), np.array([1.0, 0.1, 2.0])
    found = call(engine, f"summary({means.tolist()}, {(sds**2).tolist()}, 0.9)")
    below = [stats.norm.cdf(found[end], means, sds).mean() for end in ("low", "high")]
    np.testing.assert_allclose(below, [0.05, 0.95], atol=1e-12)
    assert found["mean"] == pytest.approx(means.mean())
    assert found["sd"] ** 2 == pytest.approx((sds**2).mean() + means.var())
    z = np.array([-30.0, -8.0, -3.1, -2.9, 0.0, 0.4, 5.0])
    cdf = [engine.eval(f"normalCdf({v})") for v in z]
    np.testing.assert_allclose(cdf, stats.norm.cdf(z), rtol=1e-12)


def test_random_functions_differ_between_draws(engine):
    found = np.array([call(engine, f"Array.from(normals(4000, {s}))") for s in range(3)])
    assert stats.kstest(found.ravel(), "norm").pvalue > 1e-3
    assert np.abs(np.corrcoef(found) - np.eye(3)).max() < 4 / np.sqrt(4000)


def test_derivatives_of_every_kernel_are_finite_differences(engine):
    """Of a sum with a product, on scales near to one another, against central differences."""
    scaled = {"columns": [0, 2], "lengthscale": 0, "period": None, "alpha": 1}
    linear = {"kind": "linear", "columns": [1, 2], "center": 2, "weights": 1}
    for kind in ("ExpQuad", "Matern52", "Matern32", "RatQuad"):
        for period in (None, 3):
            own = {"kind": kind, **scaled, "period": period}
            form = {"kind": "sum", "parts": [own, {"kind": "product", "parts": [own, linear]}]}
            engine.eval(
                f"globalThis.jet = jetOf({json.dumps(form)}, [[1.1, 0.7], [1.3], [0.2], [2.5]], "
                "[{columns: [0, 1], rates: [0.5, -1.0]}, {columns: [2], rates: [2.0]}]);"
                "function at(x, y) { const out = new Float64Array(7); jet(x, y, out); "
                "return Array.from(out); }"
            )
            x, y, h = np.array([0.1, 0.4, -0.3]), np.array([-0.5, 0.2, 0.6]), 1e-4
            moves = np.array([[0.5, -1.0, 0.0], [0.0, 0.0, 2.0]])

            def jet(u, v):
                return call(engine, f"at({u.tolist()}, {v.tolist()})")

            def value(u, v):
                return jet(u, v)[0]

            found = jet(x, y)
            for j, m in enumerate(h * moves):
                first = (value(x + m, y) - value(x - m, y)) / (2 * h)
                second = (value(x, y + m) - value(x, y - m)) / (2 * h)
                mixed = value(x + m, y + m) - value(x + m, y - m)
                mixed = (mixed - value(x - m, y + m) + value(x - m, y - m)) / (4 * h * h)
                known = [first, second, mixed]
                np.testing.assert_allclose(found[1 + j :: 2], known, rtol=2e-5, atol=2e-6)


def test_categories_dates_and_a_separate_z_find_their_columns(opened, engine, rng):
    n = 40
    X = pd.DataFrame(
        {
            "place": pd.Categorical(rng.choice(["north", "south", "west"], n)),
            "day": pd.Timestamp("2024-03-01") + pd.to_timedelta(rng.integers(0, 90, n), "D"),
            "size </script>": rng.normal(3.0, 2.0, n),
        }
    )
    Z = pd.DataFrame(
        {"dose": rng.normal(size=n), "kind": pd.Categorical(rng.choice(["u", "v"], n))}
    )
    y = pd.Series(Z["dose"] * (X["place"] == "north") + 0.1 * X.iloc[:, 2], name="y")
    model = bx.GPX(X, y, Z)
    theta = {"lengthscale": [1.0, 2.0, 1.5], "amplitude": 1.0, "sigma_w": 0.05, "sigma": 0.2}
    data = opened(model, theta, X[:3], Z[:3])
    assert [f["kind"] for f in data["features"]] == [
        "category",
        "date",
        "number",
        "number",
        "category",
    ]
    at = "model.points.map(x => "
    agree(
        summaries(call(engine, f"{at} predict(model, x))")),
        expected(bx.predictions(model, theta, X[:3], Z[:3], **QUIET), "f"),
    )
    start = "[...model.baselines.mean, ...x.slice(model.baselines.mean.length)]"
    found = call(engine, f"{at} attributions(model, x, {start}))")
    known = expected(bx.attributions(model, theta, X[:3], Z[:3], **QUIET), "attribution")
    agree(np.stack([summaries(row) for row in found]), known)
    found = call(engine, f"{at} slopes(model, x)[0])")
    assert found == [None] * 3


def test_rows_that_stand_for_the_others_keep_the_posterior(opened, engine, rng):
    """f of many rows from a few of them, at many draws: the page says how far off it is."""
    X = rows_of(rng, 200, 3)
    model = bx.GP(X, smooth(X) + 0.2 * rng.normal(size=200))
    idata = model.fit("laplace", draws=40, seed=1, progressbar=False)
    new = rows_of(rng, 20)
    data = opened(model, idata, new)
    kept = len(base64.b64decode(data["state"]["rows"])) // (8 * 3)
    assert kept < 200 and len(data["draws"]) == 20
    found = summaries(call(engine, "model.points.map(x => predict(model, x))"))
    known = expected(bx.predictions(model, idata, new, num_draws=20, **QUIET), "f")
    off = np.abs(found - known) / known[:, 1:2]
    assert off[:, 0].max() < 0.1 and off[:, 1].max() < 0.03


@pytest.mark.slow
@pytest.mark.parametrize("name", matrix_of_calls.builders())
def test_every_model_of_the_matrix_has_a_page_or_a_reason(name, opened, engine):
    """Pages of exact models and of inducing points are the model; others state their error."""
    model, theta = matrix_of_calls.model(name)
    new = matrix_of_calls.new_rows(model)
    rows = new["X_new"], new.get("Z_new")
    groups = {"groups": new["groups_new"]} if "groups_new" in new else {}
    parts = name in ("GP polynomial", "GP orthogonal", "GP of objects")
    if parts or model.training.sparse:
        with pytest.raises(ValueError, match="what_if|which the page cannot evaluate"):
            opened(model, theta, *rows, **groups)
        return
    data = opened(model, theta, *rows, **groups)
    spec, outputs = model.specification, model.training.outputs
    bound = spec.constraints is not None
    kept = bool(model.inducing) and not spec.codes and not bound  # f there is all that it knows
    exact = kept or (spec.approximation is None and spec.constraints is None)
    said = "stores too few rows" in data["text"] or "an approximation of it" in data["text"]
    within = 1e-3 if exact else 1.0 if said else 0.15
    for k, function in enumerate(data["functions"]):
        own = model if outputs is None else model.of_output(function["name"])
        found = call(engine, f"model.points.map(x => predict(showing(model, {k}), x, 'latent'))")
        known = bx.predictions(own, theta, **new, on="latent", **QUIET)
        if "class" in known.dims:
            known = known.isel({"class": k})
        if "f_interval" in known:
            agree(summaries(found), expected(known, "f"), within)
            if "y" in found[0] and within < 1.0:
                agree(summaries([o["y"] for o in found]), expected(known, "y"), within)
        else:  # of classes
            moments = np.stack([known["f_mean"], known["f_sd"]], -1)
            agree(summaries(found, ("mean", "sd")), moments, within)


def test_the_page_says_what_it_cannot_show(rng, tmp_path):
    X = rows_of(rng, 30)
    path = tmp_path / "page.html"
    poly = bx.GP(X, smooth(X), kernel="polynomial")
    theta = {"amplitude": 1.0, "offset": 1.0, "sigma": 0.3}
    with pytest.raises(ValueError, match="Power"):
        bx.what_if(poly, theta, path=path)
    gp = bx.GP(X, smooth(X))
    with pytest.raises(ValueError, match="draws is 0"):
        bx.what_if(
            gp, {"lengthscale": [1.0] * 3, "amplitude": 1.0, "sigma": 0.1}, path=path, draws=0
        )
    assert not path.exists()


def test_a_category_has_one_weight_and_one_contribution(opened, engine, rng):
    """The weight of the row's level, and the sum over the indicators with its own interval."""
    X = rows_of(rng)
    X["</script><!--"] = pd.Categorical(rng.choice(["x", "<!--<script>"], len(X)))
    model = bx.GPX(X, smooth(X.iloc[:, :3]).rename("y"))
    theta = {"lengthscale": [1.5, 2.0, 3.0, 2.0], "amplitude": 1.2, "sigma": 0.3, "sigma_w": 0.2}
    new = X[:4]
    data = opened(model, theta, new)
    assert data["features"][3]["name"] == "</script><!--"
    found = call(engine, "model.points.map(x => weights(model, x))")
    known = bx.contributions(model, theta, new, **QUIET)
    own = np.stack([summaries([part["contribution"] for part in row]) for row in found])
    assert own.shape == (4, 4, 4)
    agree(own, expected(known, "contribution"))
    each = bx.weights(model, theta, new, **QUIET)
    for row, found_here, level in zip(range(4), found, new.iloc[:, 3], strict=True):
        name = f"</script><!--={level}"
        assert found_here[3]["name"] == name
        at = each.isel(obs=[row]).sel(feature=[name])
        agree(summaries([found_here[3]["weight"]])[None], expected(at, "weight"))


def test_small_matrices_have_one_blas_thread(monkeypatch):
    """Several take ten times as long for them, and wait for other processes."""
    threads, kept = [], browser_state._kept

    def noted(*args):
        found = [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]
        threads.append(max(found))
        return kept(*args)

    monkeypatch.setattr(browser_state, "_kept", noted)
    rng = np.random.default_rng(0)
    model = bx.GP(rng.normal(size=(8, 1)), rng.normal(size=8))
    theta = {"lengthscale": [1.0], "amplitude": 1.0, "sigma": 0.3}
    with threadpool_limits(2, user_api="blas"):
        browser_state.state_of(model, theta, 1, rng)
    assert set(threads) == {1}
