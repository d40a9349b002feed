"""The variance that new rows remove is that of a model with these rows, and its best choice."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import bayes_gpx as bx
from known_draws import known

QUIET = {"progressbar": False}
RNG = np.random.default_rng(3)
X, CANDIDATES, ROWS = (RNG.normal(size=(n, 2)) for n in (14, 9, 3))
Z, Z_CANDIDATES, Z_ROWS = (RNG.normal(size=(n, 2)) for n in (14, 9, 3))
Y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * RNG.normal(size=14)
THETA = {"lengthscale": [1.1, 1.7], "amplitude": 1.3, "sigma": 0.4}
QUESTIONS = {
    "predictions": {},
    "attributions": {"baseline": "zero"},
    "slopes": {},
    "shapley_values": {"baseline": "zero"},
    "comparisons": {"variables": {"x0": (0.0, 1.0)}},
}
NAMES = {
    "predictions": "f",
    "attributions": "attribution",
    "slopes": "average_slope",
    "shapley_values": "attribution",
    "comparisons": "comparison",
    "weights": "weight",
    "contributions": "contribution",
}


def refit_sd(question, options, fitted, theta, rows):
    """Sd of the answer of a model with more rows, at the same hyperparameters."""
    given = {} if question == "slopes" else {"keep": "summary"}
    smooth = {"smooth": True} if question == "weights" else {}
    found = getattr(bx, question)(fitted, theta, *rows, **options, **given, **smooth, **QUIET)
    return found[f"{NAMES[question]}_sd"].values


@pytest.mark.parametrize("question", QUESTIONS)
def test_sd_after_new_rows_is_that_of_a_model_with_them(question):
    """Whatever their responses are; two rows, the second chosen given the first."""
    options = QUESTIONS[question]
    model = bx.GP(X, Y, scale=False)
    found = bx.next_rows(
        model, THETA, CANDIDATES, question=question, X_new=ROWS, size=2, **options, **QUIET
    )
    chosen = found["selected"].values
    more = bx.GP(np.vstack([X, CANDIDATES[chosen]]), np.append(Y, [5.0, -7.0]), scale=False)
    before = refit_sd(question, options, model, THETA, [ROWS])
    after = refit_sd(question, options, more, THETA, [ROWS])
    assert_allclose(np.squeeze(found["sd_before"].values), np.squeeze(before), rtol=1e-8)
    assert_allclose(np.squeeze(found["sd_after"].values), np.squeeze(after), rtol=1e-8)
    assert len(set(chosen)) == 2


INSIDE = 0.5 * (CANDIDATES[:6] * 0.2 + X[:6])
GPX_THETA = THETA | {"sigma_w": 0.3}
MODELS = {
    "GPX": (bx.GPX, {}, GPX_THETA),
    "GPX by place": (bx.GPX, {"Z": Z}, GPX_THETA),
    "HSGP": (bx.GP, {"approximation": bx.HSGP(m=[8, 8], c=2.0)}, THETA),
    "waves": (bx.GP, {"approximation": bx.RandomFeatures(60, seed=1)}, THETA),
    "weights": (bx.GP, {"weights": np.linspace(0.5, 1.5, 14)}, THETA),
    "inducing points": (bx.GP, {"approximation": bx.Inducing(X[:5])}, THETA),
    "GPX with inducing points": (bx.GPX, {"approximation": bx.Inducing(X[:5])}, GPX_THETA),
    "groups": (bx.GP, {"groups": list("abcabcabcabcab")}, THETA | {"group_amplitude": 0.7}),
    "groups with HSGP": (
        bx.GP,
        {"groups": list("abcabcabcabcab"), "approximation": bx.HSGP(m=[8, 8], c=2.0)},
        THETA | {"group_amplitude": 0.7},
    ),
    "noise of rows": (
        bx.GP,
        {"noise_sd": np.linspace(0.1, 1.0, 14)},
        {"lengthscale": [1.1, 1.7], "amplitude": 1.3},
    ),
    "constraint": (
        bx.GP,
        {"constraints": [bx.constraints.Slope("x0", mean=0.5, sd=0.4, at=ROWS)]},
        THETA,
    ),
}
ASKED = {
    "GPX": "weights",
    "GPX by place": "contributions",
    "groups": "predictions",
    "groups with HSGP": "predictions",
}


LONG = ("HSGP", "waves", "groups with HSGP", "GPX with inducing points")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in LONG)) for n in MODELS]
)
def test_sd_after_new_rows_of_other_models(name):
    """By Z, in groups, with approximations, known noise and constraints.

    The new group z is the first one of the candidates, and the second one of the rows.
    """
    family, extra, theta = MODELS[name]
    question = ASKED.get(name, "attributions")
    rows = INSIDE[::2]
    grouped, placed, noisy = "groups" in extra, "Z" in extra, "noise_sd" in extra
    options = {"Z_new": Z_ROWS} if placed else {"groups_new": list("ayz")} if grouped else {}
    options |= {"baseline": "zero"} if question == "attributions" else {}
    beside = {"Z_candidates": Z_CANDIDATES[:6]} if placed else {}
    beside |= {"groups_candidates": list("abcaaz")} if grouped else {}
    beside |= {"noise_sd": np.full(6, 0.2)} if noisy else {}
    model = family(X, Y, scale=False, **extra)
    given = {"question": question, "X_new": rows, **options, **beside, **QUIET}
    found = bx.next_rows(model, theta, INSIDE, size=2, **given)
    chosen = found["selected"].values
    added = {"Z": Z_CANDIDATES, "groups": np.array(list("abcaaz")), "noise_sd": np.full(6, 0.2)}
    added["weights"] = np.ones(6)
    extra = extra | {
        key: np.concatenate([extra[key], added[key][chosen]]) for key in added if key in extra
    }
    more = family(np.vstack([X, INSIDE[chosen]]), np.append(Y, [5.0, -7.0]), scale=False, **extra)
    after = refit_sd(question, options, more, theta, [rows])
    if question == "contributions":  # without the deviations of new rows
        deviation = (0.3 * Z_ROWS) ** 2
        after = np.sqrt(after**2 - deviation)
    assert_allclose(found["sd_after"].values, after, rtol=1e-8)


@pytest.mark.parametrize("bounds", ["constraints", "censoring"])
def test_sd_with_bounds_is_approximate(bounds):
    """New rows hardly move the normal approximation of bounds, and remove a third of a variance."""
    extra = {"constraints": [bx.constraints.Increasing("x0", at=5)]}
    kinds = np.where(np.arange(14) % 3, "none", "right")
    if bounds == "censoring":
        extra = {"censoring": kinds}
    options = {"question": "attributions", "X_new": ROWS, "baseline": "zero", **QUIET}
    model = bx.GP(X, Y, scale=False, **extra)
    found = bx.next_rows(model, THETA, CANDIDATES, size=4, **options)
    chosen = CANDIDATES[found["selected"].values]
    if bounds == "censoring":
        extra = {"censoring": np.append(kinds, ["none"] * 4)}
    y = np.append(Y, np.sin(chosen[:, 0]) + 0.3 * chosen[:, 1])
    more = bx.GP(np.vstack([X, chosen]), y, scale=False, **extra)
    after = bx.attributions(more, THETA, ROWS, baseline="zero", keep="summary", **QUIET)
    assert (found["sd_after"] / found["sd_before"]).min() < 0.8
    assert_allclose(found["sd_after"].values, after["attribution_sd"].values, rtol=0.02)


def test_sd_of_a_weight_after_new_rows():
    """What makes the weight of z1 vary: attributions of this weight function."""
    theta = GPX_THETA
    model = bx.GPX(X, Y, Z, scale=False)
    options = {"of": ("weight", "z1"), "baseline": "zero", **QUIET}
    given = {"question": "attributions", "X_new": ROWS, "Z_candidates": Z_CANDIDATES}
    found = bx.next_rows(model, theta, CANDIDATES, size=2, **given, **options)
    chosen = found["selected"].values
    Z_more, y = np.vstack([Z, Z_CANDIDATES[chosen]]), np.append(Y, [5.0, -7.0])
    more = bx.GPX(np.vstack([X, CANDIDATES[chosen]]), y, Z_more, scale=False)
    after = bx.attributions(more, theta, ROWS, keep="summary", **options)
    assert_allclose(found["sd_after"].values, after["attribution_sd"].values, rtol=1e-8)
    assert found.attrs["weight"] == "z1"


def categories(f):
    p = np.exp(f) / np.exp(f).sum(axis=-1, keepdims=True)
    return p[..., None] * (np.eye(3) - p[..., None, :])


INFORMATION = {
    "poisson": (4, np.exp),
    "bernoulli": (2, lambda f: 1.0 / (2.0 + np.exp(f) + np.exp(-f))),
    "categorical": (3, categories),
}


@pytest.mark.parametrize("likelihood", INFORMATION)
def test_other_likelihoods_have_the_information_that_is_expected(likelihood):
    """Against joint draws of f at rows of interest and candidates; exposures count."""
    values, information = INFORMATION[likelihood]
    theta = {name: THETA[name] for name in ("lengthscale", "amplitude")}
    model = bx.GP(X, np.arange(14) % values, likelihood=likelihood, scale=False)
    exposure = {"exposure": np.full(9, 3.0)} if likelihood == "poisson" else {}
    found = bx.next_rows(
        model, theta, CANDIDATES, question="predictions", X_new=ROWS, **exposure, **QUIET
    )
    both = np.vstack([ROWS, CANDIDATES])
    options = {"joint": True, "draws": 20000, "seed": 1, "on": "latent", **QUIET}
    f = bx.predictions(model, theta, both, **options)["f"].values[0]
    W = information(f).mean(axis=0) * (3.0 if exposure else 1.0)
    f = f.reshape((*f.shape[:2], -1)) - f.reshape((*f.shape[:2], -1)).mean(axis=0)
    W = W.reshape((12, f.shape[2], f.shape[2]))
    row = 3 + found["selected"].item()
    V = f[:, row].T @ f[:, row] / len(f)
    c = np.einsum("sqa,sb->qab", f[:, :3], f[:, row]) / len(f)
    gain = W[row] @ np.linalg.inv(np.eye(len(V)) + V @ W[row])
    removed = np.squeeze(np.einsum("qab,bc,qac->qa", c, gain, c))
    expected = (found["sd_before"] ** 2 - found["sd_after"] ** 2).values
    assert_allclose(expected, removed, rtol=0.06, atol=0.003)


def test_variances_add_up_over_draws_of_the_hyperparameters():
    """After the row: the average conditional variance, and the variance of today's means."""
    model = bx.GP(X, Y, scale=False)
    thetas = [THETA, {"lengthscale": [0.6, 2.5], "amplitude": 0.8, "sigma": 0.2}]
    options = {"question": "attributions", "X_new": ROWS, "baseline": "zero", **QUIET}
    found = bx.next_rows(model, known(model, thetas), CANDIDATES, **options)
    chosen = found["selected"].values
    more = bx.GP(np.vstack([X, CANDIDATES[chosen]]), np.append(Y, 4.0), scale=False)
    asked = {"baseline": "zero", "keep": "summary", **QUIET}
    each = [bx.attributions(more, theta, ROWS, **asked)["attribution_sd"] for theta in thetas]
    means = [bx.attributions(model, theta, ROWS, **asked)["attribution_mean"] for theta in thetas]
    after = np.sqrt(np.mean([sd**2 for sd in each], axis=0) + np.var(means, axis=0))
    assert_allclose(found["sd_after"].values, after, rtol=1e-8)


def test_score_is_the_variance_that_is_removed():
    """Of every candidate by a model with it; relative to today's, by weights, and by costs."""
    model, cost = bx.GP(X, Y, scale=False), np.linspace(1.0, 3.0, 9)
    asked = {"baseline": "zero", "keep": "summary", **QUIET}
    before = bx.attributions(model, THETA, ROWS, **asked)["attribution_sd"].values ** 2
    removed = np.empty((9, 3, 2))
    for k, row in enumerate(CANDIDATES):
        more = bx.GP(np.vstack([X, row]), np.append(Y, 0.0), scale=False)
        after = bx.attributions(more, THETA, ROWS, **asked)["attribution_sd"].values ** 2
        removed[k] = before - after
    options = {"question": "attributions", "X_new": ROWS, "baseline": "zero", **QUIET}
    found = bx.next_rows(model, THETA, CANDIDATES, cost=cost, **options)
    assert_allclose(found["score"], (removed / before).sum(axis=(1, 2)) / cost, rtol=1e-7)
    found = bx.next_rows(model, THETA, CANDIDATES, scale=[2.0, 0.5], **options)
    assert_allclose(found["score"], (removed * [2.0, 0.5]).sum(axis=(1, 2)), rtol=1e-7)
    assert found["selected"].item() == found["score"].values.argmax()


def test_units_do_not_change_the_choice():
    frame = pd.DataFrame(X, columns=["a", "b"])
    wide = frame.assign(b=1000.0 * frame["b"])
    picked = []
    for table, factor in ((frame, 1.0), (wide, 1000.0)):
        rows = pd.DataFrame(CANDIDATES, columns=["a", "b"], index=list("stuvwxyzq"))
        model = bx.GP(table, 10.0 * Y)
        found = bx.next_rows(
            model, THETA, rows.assign(b=factor * rows["b"]), question="derivatives", size=3, **QUIET
        )
        picked.append(found)
    assert_allclose(picked[0]["score"], picked[1]["score"], rtol=1e-9)
    assert picked[0]["selected"].values.tolist() == picked[1]["selected"].values.tolist()
    assert set(picked[0]["selected"].values) <= set("stuvwxyzq")


@pytest.mark.parametrize("question", ["maximum", "minimum"])
def test_improvement_is_expected_over_f(question):
    """Against draws of f: how far it exceeds the best mean of a training row, in units of y."""
    model = bx.GP(X, 10.0 * Y)
    found = bx.next_rows(model, THETA, CANDIDATES, question=question, **QUIET)
    sign = 1.0 if question == "maximum" else -1.0
    at_rows = bx.predictions(model, THETA, X, keep="summary", **QUIET)["f_mean"].values
    drawn = bx.predictions(model, THETA, CANDIDATES, draws=40000, seed=2, **QUIET)
    f = sign * drawn["f"].values[0]
    expected = np.maximum(f - (sign * at_rows).max(), 0.0).mean(axis=0)
    assert_allclose(found["score"], expected, rtol=0.05, atol=0.02)
    assert_allclose(found["f_mean"], drawn["f_mean"], rtol=1e-8)
    assert_allclose(found["f_sd"], drawn["f_sd"], rtol=1e-7)
    assert found.attrs["best"] == (sign * at_rows).argmax()


def test_a_batch_of_improvements_moves_on():
    """After an imagined response a twin of the chosen row is worth much less."""
    model = bx.GP(X, Y, scale=False)
    theta = THETA | {"sigma": 0.05}
    twins = np.vstack([CANDIDATES, CANDIDATES + 1e-6])
    found = bx.next_rows(model, theta, twins, question="maximum", size=2, seed=1, **QUIET)
    assert len({k % 9 for k in found["selected"].values}) == 2
    again = bx.next_rows(model, theta, twins, question="maximum", size=2, seed=1, **QUIET)
    assert found.identical(again)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"question": "atributions"}, "Did you mean 'attributions'"),
        ({"size": 10}, "size is 10, but there are 9 candidates"),
        ({"cost": np.zeros(9)}, "Pass a positive finite number for each of 9"),
        ({"scale": [1.0, -1.0]}, "or finite weights that are not negative"),
        ({"scale": "sd"}, "scale: unknown 'sd'"),
        ({"variables": "x0"}, "variables was given, but the question 'attributions'"),
        ({"question": "maximum"}, "X_new was given, but the question 'maximum'"),
        ({"candidates": np.zeros((2, 3))}, "candidates has 3 columns, but must have 2"),
        ({"candidates": CANDIDATES[:0]}, "candidates has no rows"),
    ],
)
def test_mistakes_are_named(changed, message):
    options = {"candidates": CANDIDATES, "question": "attributions", "X_new": ROWS} | changed
    with pytest.raises(ValueError, match=message):
        bx.next_rows(bx.GP(X, Y), THETA, **options, **QUIET)


@pytest.mark.parametrize("options", [{"question": "slopes"}, {"question": "maximum", "seed": 1}])
def test_each_of_several_outputs_has_rows_of_its_own(options):
    model = bx.GP(X, pd.DataFrame({"u": Y, "v": 20.0 * Y**2}), scale=False)
    theta = {"lengthscale": [[1.1, 1.7]] * 2, "amplitude": [1.3, 0.8], "sigma": [0.4, 0.2]}
    both = bx.next_rows(model, theta, CANDIDATES, **options, **QUIET)
    for output in "uv":
        alone = bx.next_rows(model.of_output(output), theta, CANDIDATES, **options, **QUIET)
        own = both.sel(output=output)
        assert_array_equal(own["score"], alone["score"])
        assert_array_equal(own["selected"], alone["selected"])
        assert_array_equal(own["position"], alone["position"])
        for name in ("units", "best", "signs_known"):
            assert name not in alone.attrs or own[name] == alone.attrs[name]
    assert both["score"].attrs.get("units") in (None, both.attrs["units"])


def test_models_that_cannot_say_are_refused():
    counts = bx.GP(X, np.arange(14) % 4, likelihood="poisson")
    with pytest.raises(ValueError, match="a view of an event"):
        bx.next_rows(
            counts.of_event("survival", 1), {}, CANDIDATES, question="predictions", **QUIET
        )


@pytest.mark.parametrize("output", ["u", "v"])
def test_sd_after_a_row_of_one_of_several_outputs(output):
    """About u, when the new row measures u; and about v, when it measures v."""
    Y_two = pd.DataFrame({"u": Y, "v": Y**2})
    theta = {"lengthscale": [[1.1, 1.7]] * 2, "amplitude": [1.3, 0.8], "sigma": [0.4, 0.2]}
    theta |= {"factor_lengthscale": [[0.9, 1.2]], "loading": [[0.7], [-0.5]]}
    model = bx.GP(X, Y_two, correlation=1, scale=False)
    options = {"question": "attributions", "X_new": ROWS, "baseline": "zero", **QUIET}
    found = bx.next_rows(model.of_output(output), theta, CANDIDATES, **options)
    row = CANDIDATES[found["selected"].values]
    new = pd.DataFrame({"u": [np.nan], "v": [np.nan]}).assign(**{output: 3.0})
    more = bx.GP(np.vstack([X, row]), pd.concat([Y_two, new]), correlation=1, scale=False)
    asked = {"baseline": "zero", "keep": "summary", **QUIET}
    after = bx.attributions(more.of_output(output), theta, ROWS, **asked)["attribution_sd"]
    assert_allclose(found["sd_after"].values, after.values, rtol=1e-8)


FRUIT = pd.DataFrame(X, columns=["x", "w"]).assign(c=pd.Categorical([*"abcdabcdabcdab"]))
MORE = pd.DataFrame(CANDIDATES, columns=["x", "w"]).assign(
    c=pd.Categorical([*"abcdabcda"], categories=[*"abcd"])
)


@pytest.mark.parametrize("question", ["slopes", "derivatives"])
def test_there_are_no_slopes_of_categories(question):
    """As in the functions that answer: every sign can be known, and scales are of numbers."""
    model = bx.GP(FRUIT, 3 * FRUIT["x"] + 2 * FRUIT["w"], scale=False)
    theta = {"lengthscale": [2.0, 2.0, 1.0], "amplitude": 3.0, "sigma": 0.3}
    asked = {"question": question, "obs": [0], **QUIET}
    found = bx.next_rows(model, theta, MORE, **asked)
    assert found["sd_before"]["feature"].values.tolist() == ["x", "w"]
    same = bx.next_rows(model, theta, MORE, features=["x", "w"], scale=[1.0, 1.0], **asked)
    assert_allclose(same["sd_before"], found["sd_before"])
    with pytest.raises(ValueError, match=r"\['c'\] are categorical"):
        bx.next_rows(model, theta, MORE, features=["c"], **asked)


def test_costs_belong_to_their_rows():
    model = bx.GP(X, Y, scale=False)
    rows = pd.DataFrame(CANDIDATES, [*"abcdefghi"], ["x0", "x1"])
    cost = pd.Series(np.arange(1.0, 10.0), rows.index)
    with pytest.raises(ValueError, match="The index of cost differs"):
        bx.next_rows(model, THETA, rows, question="predictions", cost=cost[::-1], **QUIET)
    found = bx.next_rows(model, THETA, rows, question="predictions", cost=cost, **QUIET)
    plain = bx.next_rows(model, THETA, rows, question="predictions", **QUIET)
    assert_allclose(found["score"] * cost.values, plain["score"])


def test_labels_of_candidates_may_be_of_another_kind(tmp_path):
    """Dates of training rows, words of candidates; and the best row is named in a file."""
    days = pd.date_range("2024-01-01", periods=14)
    model = bx.GP(pd.DataFrame(X, days, ["x0", "x1"]), Y, scale=False)
    plain = bx.GP(X, Y, scale=False)
    rows = pd.DataFrame(CANDIDATES, [*"abcdefghi"], ["x0", "x1"])
    options = {"question": "maximum", "size": 2, "seed": 1, **QUIET}
    found = bx.next_rows(model, THETA, rows, **options)
    same = bx.next_rows(plain, THETA, CANDIDATES, **options)
    assert_allclose(found["score"], same["score"])
    assert found.attrs["best"].startswith(str(days[same.attrs["best"]].date()))
    found.to_netcdf(tmp_path / "found.nc")
    assert found["score"].attrs["units"] == "y"


def test_what_is_told_of_chosen_rows():
    model, rows = bx.GP(X, Y, scale=False), pd.DataFrame(CANDIDATES, [*"abcdefghi"], ["x0", "x1"])
    options = {"question": "attributions", "X_new": ROWS, "baseline": X[:1], **QUIET}
    found = bx.next_rows(model, THETA, rows, size=2, **options)
    first, second = found["selected"].values
    assert f"Chosen, in this order: {first}, {second}." in bx.describe(found)
    assert_allclose(found["baseline"], X[0])
    assert bx.to_pandas(found)["score"].tolist() == found["score"].values.tolist()


def test_sd_by_a_variational_fit_after_new_rows():
    """With normal noise the fit is the optimal one, as is the model with more rows."""
    priors = {"lengthscale": THETA["lengthscale"], "amplitude": THETA["amplitude"]}
    options = {"scale": False, "approximation": bx.Inducing(X[:5])}
    model = bx.GP(X, Y, priors=priors, **options)
    idata = model.fit("svgp", start=THETA, **QUIET)
    asked = {"question": "predictions", "X_new": ROWS, "size": 2}
    found = bx.next_rows(model, idata, INSIDE, **asked, **QUIET)
    chosen = INSIDE[found["selected"].values]
    more = bx.GP(np.vstack([X, chosen]), np.append(Y, [5.0, -7.0]), **options)
    theta = THETA | {"sigma": idata["posterior"]["sigma"].item()}
    after = bx.predictions(more, theta, ROWS, keep="summary", **QUIET)["f_sd"]
    assert_allclose(found["sd_after"].values, after.values, rtol=1e-8)


def test_rows_of_a_sparse_z_count_as_dense_ones():
    from scipy import sparse

    after, asked = [], {"question": "predictions", "X_new": ROWS, "size": 2}
    for told in (np.asarray, sparse.csr_matrix):
        model = bx.GPX(X, Y, told(Z), scale=False)
        beside = {"Z_new": told(Z_ROWS), "Z_candidates": told(Z_CANDIDATES)}
        found = bx.next_rows(model, GPX_THETA, CANDIDATES, **asked, **beside, **QUIET)
        after.append(found["sd_after"].values)
    assert_allclose(*after, rtol=1e-8)


def test_weights_of_a_sparse_z_are_not_asked_about():
    from scipy import sparse

    model = bx.GPX(X, Y, sparse.csr_matrix(Z), scale=False)
    options = {"X_new": ROWS, "Z_candidates": sparse.csr_matrix(Z_CANDIDATES), **QUIET}
    theta = THETA | {"sigma_w": 0.1}
    with pytest.raises(ValueError, match="question is 'weights', but Z is sparse"):
        bx.next_rows(model, theta, CANDIDATES, question="weights", **options)
