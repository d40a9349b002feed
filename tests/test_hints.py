"""What users are told who call things by the names of elsewhere, or in another order."""

import inspect

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import bayes_gpx as bx
from bayes_gpx.inference.methods import METHODS
from bayes_gpx.likelihoods import KNOWN
from bayes_gpx.model.named_kernels import KERNELS
from bayes_gpx.plots.layout import BACKENDS, backend_named
from bayes_gpx.validation import SYNONYMS, meant, one_of

HYPERPARAMETERS = ("lengthscale", "amplitude", "sigma")
CHOICES = {
    "backend": BACKENDS,
    "kernel": KERNELS,
    "likelihood": KNOWN,
    "method": METHODS,
    "fit": list(inspect.signature(bx.GP.fit).parameters),
    "priors": HYPERPARAMETERS,
    "hyperparameters": HYPERPARAMETERS,
}


@pytest.fixture(scope="module")
def fitted():
    X = np.linspace(0.0, 3.0, 12)[:, None]
    model = bx.GP(X, np.sin(X[:, 0]), priors={"sigma": 0.1})
    return model, model.fit("map", progressbar=False)


@pytest.mark.parametrize("argument", [name for name in SYNONYMS if name in CHOICES])
def test_every_synonym_leads_to_a_name_that_there_is(argument):
    for said, name in SYNONYMS[argument].items():
        assert said == said.lower() and said not in CHOICES[argument]
        hint = meant(argument, said.upper(), CHOICES[argument])
        assert hint.startswith(" Did you mean ") and name.partition(" ")[0] in hint
        assert name.partition(" ")[0] in CHOICES[argument]


@pytest.mark.parametrize(
    ("argument", "said", "name"),
    [
        ("kernel", "RBF", "expquad"),
        ("kernel", "Squared Exponential", "expquad"),
        ("kernel", "Matern52", "matern52"),
        ("likelihood", "gaussian", "normal"),
        ("likelihood", "binary", "bernoulli"),
        ("method", "NUTS", "nuts"),
        ("method", "mcmc", "nuts"),
    ],
)
def test_a_hint_is_what_was_meant(argument, said, name):
    choices = CHOICES[argument]
    with pytest.raises(ValueError, match=f"unknown '{said}'. Pass one of") as refused:
        one_of(argument, said, choices)
    hint = str(refused.value).partition("Did you mean ")[2]
    assert hint.startswith(repr(name))


def test_a_synonym_is_no_hint_where_its_name_is_no_choice():
    assert meant("method", "mcmc", ["exact", "taylor"]) == meant("name", "rbf", KERNELS) == ""


@pytest.mark.parametrize("method", ["map", "nuts"])
def test_names_of_pymc_lead_to_the_arguments_of_fit(method, fitted):
    model, _ = fitted
    with pytest.raises(TypeError, match="no option 'random_seed'. Did you mean 'seed'"):
        model.fit(method, random_seed=1, progressbar=False)


def verbs():
    """Public functions of a model and its idata, by name."""
    spaces = {"": vars(bx) | {name: getattr(bx, name) for name in bx.__all__}}
    spaces["metrics."] = vars(bx.metrics)
    return {
        space + name: member
        for space, members in spaces.items()
        for name, member in members.items()
        if inspect.isfunction(member)
        and list(inspect.signature(member).parameters)[:2] == ["model", "idata"]
    }


@pytest.mark.parametrize("name", verbs())
def test_model_and_idata_in_each_others_place(name, fitted):
    verb, (model, idata) = verbs()[name], fitted
    needed = [
        p for p in list(inspect.signature(verb).parameters.values())[2:]
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]  # fmt: skip
    others = {parameter.name: None for parameter in needed}
    with pytest.raises(ValueError, match="model and idata are swapped"):
        verb(idata, model, **others)
    with pytest.raises(ValueError, match="model is a ndarray. Pass a bx.GP or bx.GPX"):
        verb(np.ones(3), idata, **others)


def test_there_are_as_many_verbs_as_the_test_should_find():
    assert {"predictions", "save", "report", "metrics.sufficiency"} <= set(verbs())
    assert len(verbs()) >= 21


def test_y_before_x_is_seen():
    X = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [0.0, 1.0, 0.0]})
    for first, second in ((X["a"], X), (X["a"].to_numpy(), X.to_numpy())):
        with pytest.raises(ValueError, match="are they swapped"):
            bx.GPX(first, second)


@pytest.mark.parametrize("dtype", [object, str, "category"])
@pytest.mark.parametrize("likelihood", ["normal", "student_t", "poisson"])
def test_words_as_response_name_the_likelihood_that_takes_them(dtype, likelihood):
    X = np.arange(6.0)[:, None]
    for labels, taker in (("ababab", "bernoulli"), ("abcabc", "categorical")):
        y = pd.Series(list(labels)).astype(dtype)
        with pytest.raises(ValueError, match=f"y holds words, such as 'a'.*likelihood='{taker}'"):
            bx.GP(X, y, likelihood=likelihood)
        assert bx.GP(X, y, likelihood=taker).training.labels == tuple(sorted(set(labels)))


def test_an_unknown_backend_is_refused(fitted, monkeypatch):
    shown = bx.attributions(*fitted, draws=2, progressbar=False)
    with pytest.raises(ValueError, match="backend: unknown 'mpl'.*Did you mean 'matplotlib'"):
        bx.plot_attributions(shown, obs=0, backend="mpl")
    monkeypatch.setattr("bayes_gpx.plots.layout.find_spec", lambda name: None)
    with pytest.raises(ValueError, match="pip install bokeh"):
        backend_named("bokeh")


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.nc does not exist. Pass a file written"):
        bx.load(tmp_path / "none.nc")


X = np.linspace(0.0, 3.0, 12)[:, None] ** [1.0, 2.0]


@pytest.mark.parametrize("ard", [True, False])
def test_a_distribution_is_a_prior_like_its_lambda(ard):
    y, gamma = np.sin(X[:, 0]), pm.Gamma.dist(3.0, 2.0)
    given = {"lengthscale": gamma, "sigma": pm.HalfNormal.dist(0.3)}
    written = {
        "lengthscale": lambda name, dims: pm.Gamma(name, 3.0, 2.0, dims=dims),
        "sigma": lambda name: pm.HalfNormal(name, 0.3),
    }
    one, two = (bx.GP(X, y, ard=ard, priors=priors) for priors in (given, written))
    start = two.pymc.initial_point(0)
    assert one.pymc.initial_point(0).keys() == start.keys()
    density = [m.pymc.compile_logp(mode="FAST_COMPILE")(start) for m in (one, two)]
    assert density[0] == pytest.approx(density[1], rel=1e-12)
    assert one.pymc.named_vars_to_dims == two.pymc.named_vars_to_dims
    assert list(one.pymc.coords) == list(two.pymc.coords)
    again = bx.GP(X, y, ard=ard, priors=given)  # the same distribution serves several models
    assert again.pymc["sigma"] is not one.pymc["sigma"] and gamma.name is None


def test_a_distribution_of_as_many_values_is_taken_and_of_others_not():
    y = np.sin(X[:, 0])
    two = pm.HalfNormal.dist([1.0, 5.0])
    model = bx.GP(X, y, priors={"lengthscale": two})
    assert model.pymc["lengthscale"].type.shape == (2,)
    for wrong in (pm.HalfNormal.dist([1.0, 2.0, 3.0]), pm.Dirichlet.dist([1.0, 1.0])):
        with pytest.raises(ValueError, match="prior of lengthscale has shape"):
            bx.GP(X, y, priors={"lengthscale": wrong})
    with pytest.raises(ValueError, match="prior of sigma has shape"):
        bx.GP(X, y, priors={"sigma": two})


def test_what_is_no_prior_is_told_how_one_is_written():
    y = np.sin(X[:, 0])
    with pytest.raises(ValueError, match=r"pm.HalfNormal\(name, 1, dims=dims\)"):
        bx.GP(X, y, priors={"sigma": "HalfNormal"})
    with pytest.raises(ValueError, match=r"Pass pm.Gamma.dist\(...\), or lambda name, dims"):
        bx.GP(X, y, priors={"sigma": pm.Gamma})
    with pm.Model(), pytest.raises(ValueError, match=r"pm.Deterministic\(name, variable\)"):
        bx.GP(X, y, priors={"sigma": pm.HalfNormal("own")})
