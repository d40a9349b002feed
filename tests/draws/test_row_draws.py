"""Draws of the response's explanations, joint within rows: against functions, and by themselves."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, softmax

import bayes_gpx as bx

RNG = np.random.default_rng(8)
X = RNG.normal(size=(30, 3))
F = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
NEW = RNG.normal(size=(3, 3))
THETA = {"lengthscale": [1.2, 1.8, 1.5], "amplitude": 1.3}
QUIET = {"progressbar": False}
SIZE = 1500
Y = {
    "bernoulli": (F + RNG.logistic(size=30) * 0.3 > 0).astype(int),
    "poisson": RNG.poisson(np.exp(0.5 * F)),
    "categorical": np.digitize(F, [-0.6, 0.6]),
}


def fitted(kind):
    """A model and hyperparameters, of each kind of posterior once."""
    if kind == "GPX":
        model = bx.GPX(X, Y["bernoulli"], likelihood="bernoulli", scale=False)
        return model, {"lengthscale": 1.5, "amplitude": 0.7, "sigma_w": 0.2}
    options = {"basis": {"approximation": bx.HSGP([5, 5, 5], 2.5)}}.get(kind, {})
    likelihood = "poisson" if kind == "basis" else kind
    return bx.GP(X, Y[likelihood], likelihood=likelihood, scale=False, **options), THETA


EXPLAINED = {
    "attribution": (bx.attributions, {"baseline": X[:1].mean(axis=0)}),
    "derivative": (bx.derivatives, {}),
    "second_derivative": (bx.derivatives, {"order": 2}),
    "shapley": (bx.shapley_values, {"baseline": X[0]}),
    "comparison": (bx.comparisons, {"variables": {"x0": (0.0, 1.0), "x1": (-1.0, 1.0)}}),
}


def vectors(found):
    """Draws (draw, row, component) of the first quantity of a result, and its other moments."""
    name = next(
        n for n in found if n in {"attribution", "derivative", "second_derivative", "comparison"}
    )
    values = found[name].values[0]
    return values.reshape((*values.shape[:2], -1))


def by_functions(model, theta, what):
    """Draws on random functions."""
    if what != "comparison":
        explain, options = EXPLAINED[what]
        options = options | {"draws": SIZE, "seed": 2, "joint": True, **QUIET}
        return vectors(explain(model, theta, NEW[:2], **options))
    functions = bx.sample_functions(model, theta, draws=SIZE, seed=2, **QUIET)
    found = []
    for column, ends in enumerate(((0.0, 1.0), (-1.0, 1.0))):
        two = []
        for end in ends:
            moved = NEW[:2].copy()
            moved[:, column] = end
            f = functions.predictions(moved)["f"].values[0]
            two.append(softmax(f, axis=-1) if f.ndim == 3 else expit(f))
        found.append(two[1] - two[0])
    found = np.stack(found, axis=2)
    return found.reshape((*found.shape[:2], -1))


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("bernoulli", "derivative"), ("bernoulli", "second_derivative"),
        ("bernoulli", "comparison"), ("categorical", "attribution"),
        ("GPX", "attribution"), ("basis", "shapley"), ("basis", "derivative"),
        pytest.param("categorical", "comparison", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_draws_have_the_moments_of_random_functions(kind, what):
    """Which are other code: waves, moved to the data, and asked along paths."""
    model, theta = fitted(kind)
    explain, options = EXPLAINED[what]
    own = vectors(explain(model, theta, NEW[:2], seed=1, draws=SIZE, **options, **QUIET))
    other = by_functions(model, theta, what)
    spread = np.maximum(other.std(axis=0), 1e-12)
    gap = np.abs(own.mean(axis=0) - other.mean(axis=0)) / spread
    assert gap.max() < 5.5 * np.sqrt(2 / SIZE)
    apart = [(v - other.mean(axis=0)) / spread for v in (own, other)]
    products = [v[:, :, :, None] * v[:, :, None] for v in apart]  # within each row
    error = np.sqrt((products[0].var(axis=0) + products[1].var(axis=0)) / SIZE)
    gap = np.abs(products[0].mean(axis=0) - products[1].mean(axis=0))
    assert (gap < 5.5 * error).all()


def test_rows_are_independent_and_draws_complete():
    model, theta = fitted("bernoulli")
    twice = np.concatenate([NEW[:2], NEW[:1]])
    found = bx.attributions(model, theta, twice, draws=SIZE, seed=3, **QUIET)
    drawn = found["attribution"].values[0]
    between = np.corrcoef(drawn[:, 0, 0], drawn[:, 2, 0])[0, 1]
    assert abs(between) < 5 / np.sqrt(SIZE)
    together = bx.attributions(model, theta, twice, draws=100, seed=3, joint=True, **QUIET)
    assert_allclose(together["attribution"][:, :, 0], together["attribution"][:, :, 2], atol=1e-8)
    assert 0.0 < found["completeness_residual"].max() < 1e-7
    assert "independent between observations" in found.attrs["dependence"]
    assert "joint over features and observations" in together.attrs["dependence"]


def test_draws_do_not_depend_on_other_rows_or_blocks(monkeypatch):
    model, theta = fitted("poisson")
    options = {"draws": 50, "seed": 4, **QUIET}
    whole = bx.attributions(model, theta, NEW, **options)
    assert_allclose(
        bx.attributions(model, theta, NEW, obs=[0, 1], **options)["attribution"],
        whole["attribution"][:, :, :2],
        rtol=1e-6,
        atol=1e-8,
    )
    monkeypatch.setattr("bayes_gpx.draws.row_draws.TOGETHER", 1)
    apart = bx.attributions(model, theta, NEW, **options)
    assert_allclose(apart["attribution"], whole["attribution"], rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("kernel", ["periodic", "expquad * linear"])
def test_kernels_without_random_functions_explain_probabilities(kernel):
    model = bx.GP(X, Y["bernoulli"], likelihood="bernoulli", kernel=kernel, scale=False)
    theta = {name: np.full(3, 1.5) if size else 1.1 for name, size in model.hyperparameters.items()}
    options = {"draws": 500, "seed": 6, **QUIET}
    found = bx.attributions(model, theta, NEW, baseline=X[0], **options)
    ends = [
        bx.predictions(model, theta, rows, on="latent", keep="summary", **QUIET)
        for rows in (NEW, X[:1])
    ]
    normal = RNG.normal(size=(100_000, 1))
    p = [expit(e["f_mean"].values + e["f_sd"].values * normal).mean(axis=0) for e in ends]
    assert_allclose(found["difference_mean"], p[0] - p[1], atol=0.005)
    assert np.abs(found["completeness_residual"]).max() < 1e-6


@pytest.mark.parametrize("what", ["attribution", "derivative"])
def test_draws_of_a_rate_know_the_center_of_its_log(what):
    """Counts of some 60: the model's f is the log rate less a center of 4."""
    y = np.random.default_rng(1).poisson(60.0 * np.exp(0.3 * F))
    model = bx.GP(X, y, likelihood="poisson")
    assert model.training.y_scaling.center > 3.0
    explain, options = EXPLAINED[what]
    theta = THETA | {"amplitude": 0.4}
    found = explain(model, theta, NEW[:2], draws=SIZE, seed=1, **options, **QUIET)
    values = found[what].values[0]
    error = values.std(axis=0) / SIZE**0.5
    assert_allclose((values.mean(axis=0) - found[f"{what}_mean"].values) / error, 0.0, atol=4.0)
