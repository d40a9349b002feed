"""What a fit is found to lack: each message where its cause is, and none where it is not."""

import re
import warnings

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import bayes_gpx as bx
from bayes_gpx.model import examination as room

RNG = np.random.default_rng(5)
X = pd.DataFrame(RNG.normal(size=(50, 2)), columns=["dose", "age"])
MEAN = np.sin(X["dose"].to_numpy()) + 0.5 * X["age"].to_numpy()
Y = MEAN + 0.4 * RNG.normal(size=50)


def told(model, method="map", **options):
    """What a fit warns of, which is also in its attributes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", bx.FitWarning)
        warnings.simplefilter("ignore", bx.model.fitting.ConvergenceWarning)
        idata = model.fit(method, seed=0, progressbar=False, **options)
    found = [str(w.message) for w in caught if w.category is bx.FitWarning]
    kept = idata.attrs.get("examination", "")
    assert len(found) == bool(kept) and "About this fit: " * bool(kept) + kept.replace(
        "\n", " "
    ) == "".join(found)
    return kept


@pytest.mark.parametrize("method", ["map", "laplace"])
@pytest.mark.parametrize("family", [bx.GP, bx.GPX])
def test_nothing_is_said_of_a_fit_without_a_fault(family, method):
    priors = {"sigma_w": 0.0} if family is bx.GPX else {}
    assert told(family(X, Y, priors=priors), method) == ""


def test_noise_of_0():
    said = told(bx.GP(X, MEAN))
    assert said.startswith("Sigma is near 0: the function passes through every response. Unless y")
    said = told(bx.GP(X, np.exp(MEAN), likelihood="lognormal"))
    assert "Sigma is near 0: the function passes through every response. Unless y" in said
    assert "Sigma" not in told(bx.GP(X, np.exp(Y), likelihood="lognormal"))
    # Exposures of many sizes make no noise small.
    wide = np.exp(np.linspace(0.0, 12.0, len(Y)))
    noisy = np.exp(0.2 * Y) * wide
    assert "Sigma" not in told(bx.GP(X, noisy, likelihood="lognormal", exposure=wide))


def test_repeated_rows_that_are_interpolated():
    rounded = np.round(2.0 * Y) / 2.0
    twice = pd.concat([X, X]), np.tile(rounded, 2)
    said = told(bx.GP(*twice))
    assert said.startswith("Sigma is no larger than the rounding error of y, since 50 of 100 rows")
    # Measurements that are repeated, and differ, are what noise is learnt from.
    again = np.concatenate([rounded, np.round(2.0 * (MEAN + 0.4 * RNG.normal(size=50))) / 2.0])
    assert "rounding error" not in told(bx.GP(twice[0], again))


def test_a_lengthscale_below_the_spacing_of_values():
    steps = X.assign(step=np.repeat(np.arange(10.0), 5))
    effect = np.repeat(RNG.normal(size=10), 5)
    said = told(bx.GP(steps, Y + 3.0 * effect))
    assert "The lengthscale of step is shorter than the distance" in said


@pytest.mark.parametrize("ard", [True, False])
def test_fits_with_categories_are_examined(ard):
    kinds = X.assign(kind=pd.Categorical(np.resize(["a", "b", "c", "d"], 50)))
    assert told(bx.GP(kinds, Y, ard=ard)) == ""
    assert told(bx.GP(kinds, MEAN, ard=ard)).startswith("Sigma is near 0")
    if ard:  # of dose, age, kind and step, each with one lengthscale
        model = bx.GP(kinds.assign(step=np.repeat(np.arange(10.0), 5)), Y)
        theta = {"lengthscale": [1.0, 1.0, 0.1, 0.1], "amplitude": 1.0, "sigma": 0.3}
        (said,) = room._lengthscales(model, theta)
        assert said.startswith("The lengthscale of step is shorter")
        model = bx.GP(kinds, Y, approximation=bx.HSGP(2, 3.0))
        theta["lengthscale"] = [0.2, 1.0, 1.0]
        assert next(room._box(model, theta)).startswith("2 sines are too few")


def sines_variance(x, lengthscale, m, c):
    """Of the sines of an exponentiated quadratic kernel, on a box from -c to c, at x."""
    k = np.arange(1, m + 1)
    rates = k * np.pi / (2.0 * c)
    density = np.sqrt(2 * np.pi) * lengthscale * np.exp(-0.5 * (lengthscale * rates) ** 2)
    return (density * np.sin(rates * (x + c)) ** 2 / c).sum()


@pytest.mark.parametrize(
    "lengthscales, m, c",
    [((0.5, 2.0), 12, 1.5), ((0.5, 8.0), 12, 1.5), ((0.5, 9.0), 20, 3.0), ((0.1, 0.5), 12, 1.5)],
)
def test_sines_that_lose_prior_variance(lengthscales, m, c):
    inner = np.random.default_rng(4).uniform(-1.0, 1.0, (48, 2))
    at = pd.DataFrame([[-1.0, -1.0], [1.0, 1.0], *inner], columns=X.columns)
    model = bx.GP(at, Y, approximation=bx.HSGP(m, c), scale=False)
    theta = {"lengthscale": np.array(lengthscales), "amplitude": 1.0, "sigma": 0.1}
    said = " ".join(room._box(model, theta))

    def in_the_middle(c):
        return [np.prod([sines_variance(0.0, v, k, c) for v in lengthscales]) for k in (m, 2 * m)]

    of_columns = [
        sines_variance(1.0, own, m, c) / sines_variance(0.0, own, m, c) for own in lengthscales
    ]
    for name, share in zip(X.columns, of_columns, strict=True):
        assert (name in said) == (share < 0.7)
    if min(of_columns) < 0.7:
        assert f"{min(of_columns):.0%} of its prior variance in the middle" in said
        whole, finer = in_the_middle(3.0)
        assert f"HSGP(m={m * (1 + (finer > 1.1 * whole))}, c=3.0)" in said
    whole, finer = in_the_middle(c)
    assert ("too few" in said) == (finer > 1.1 * whole)
    assert said or min(lengthscales) == 0.5


@pytest.mark.parametrize("groups", [None, np.arange(50) % 5])
@pytest.mark.parametrize("priors", [{}, {"sigma_w": 0.0}])
def test_deviations_that_an_approximation_does_not_learn(groups, priors):
    options = {"likelihood": "poisson", "groups": groups, "priors": priors}
    counts = np.random.default_rng(2).poisson(np.exp(MEAN))
    said = told(bx.GPX(X, counts, approximation=bx.HSGP(6, 3.0), **options))
    expected = groups is not None and not priors
    assert ("do not deviate from the smooth ones" in said) == expected


def test_noise_at_the_rounding_error_without_copies():
    said = told(bx.GP(X, np.round(2.0 * MEAN) / 2.0))
    assert said.startswith("Sigma is no larger than the rounding error of y, which is its lower")


def test_more_features_than_rows_tell_apart():
    wide = RNG.normal(size=(20, 12))
    priors = {"sigma": 0.5, "amplitude": 1.0}
    said = told(bx.GP(wide, wide[:, 0], priors=priors))
    assert said.startswith("20 rows cannot tell 12 features apart")
    assert "apart" not in told(bx.GP(wide, wide[:, 0], priors=priors, ard=False))


def test_features_with_a_few_huge_values():
    priors = {"sigma": 0.5, "amplitude": 1.0}
    income = np.exp(3.0 * np.random.default_rng(6).normal(size=50))
    skewed = X.assign(income=income, flag=np.arange(50.0) == 7, few=X.index % 3)
    said = told(bx.GP(skewed, Y, priors=priors))
    assert said.startswith("A few values of income are more than 8 interquartile ranges")
    logs = skewed.assign(income=np.log(skewed["income"]))
    assert "few values" not in told(bx.GP(logs, Y, priors=priors))


@pytest.mark.parametrize("method", ["map", "laplace"])
def test_outliers_of_normal_noise_are_named_by_their_rows(method):
    y = pd.Series(Y, [f"p{k}" for k in range(50)])
    y[["p7", "p31"]] += 8.0
    frame = X.set_axis(y.index)
    model = bx.GP(frame, y)
    with pytest.warns(bx.FitWarning):
        idata = model.fit(method, seed=0, progressbar=False)
    said = idata.attrs["examination"]
    assert "2 of 50 responses lie 4 or more standard deviations" in said
    assert "(rows p7, p31)" in said or "(rows p31, p7)" in said
    assert "responses lie" in "".join(room.examine(model, idata))
    heavy = bx.GP(frame, y, likelihood="student_t", priors={"nu": 4.0})
    assert "responses lie" not in "".join(room.examine(heavy, idata))


def test_deviations_are_those_of_refits_without_each_row():
    """From y, in the sds of a dense prediction by the other rows at the same hyperparameters."""
    model = bx.GP(X, Y, scale=False)
    theta = {"lengthscale": np.array([1.0, 2.0]), "amplitude": 1.2, "sigma": 0.4}
    (away, mean), *_ = room.at_training_rows(model, theta, room._deviation, progressbar=False)
    apart = (X.to_numpy()[:, None] - X.to_numpy()) / theta["lengthscale"]
    K = 1.44 * np.exp(-0.5 * (apart**2).sum(axis=-1))
    center = model.training.y_scaling.center
    for k in (0, 7, 49):
        others = np.delete(np.arange(50), k)
        C = np.linalg.inv(K[np.ix_(others, others)] + 0.16 * np.eye(49))
        expected = K[k, others] @ C @ (Y[others] - center)
        sd = np.sqrt(1.44 - K[k, others] @ C @ K[others, k] + 0.16)
        np.testing.assert_allclose(mean.ravel()[k], expected, rtol=1e-8)
        np.testing.assert_allclose(away.ravel()[k], (Y[k] - center - expected) / sd, rtol=1e-8)


def test_noise_that_varies_with_a_column():
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(rng.normal(size=(120, 2)), columns=["dose", "age"])
    mean = np.sin(rows["dose"].to_numpy())
    grown = mean + 0.3 * np.exp(0.8 * rows["age"].to_numpy()) * rng.normal(size=120)
    said = told(bx.GP(rows, grown))
    assert "The noise varies with age: its sd is" in said and "with the largest age" in said
    assert "with the smallest age" in told(bx.GP(rows.assign(age=-rows["age"]), grown))
    assert told(bx.GP(rows, mean + 0.3 * rng.normal(size=120))) == ""


def test_even_noise_seldom_seems_to_vary():
    rng, along = np.random.default_rng(2), ["a", "b", "c", "d", "e"]
    told = [
        list(room._uneven(np.abs(rng.normal(size=n)), {k: rng.normal(size=n) for k in along}))
        for n in np.repeat([20, 60, 200], 300)
    ]
    assert sum(map(len, told)) <= 5


def test_columns_of_few_values_can_tell_of_noise():
    rng = np.random.default_rng(3)
    flag = np.repeat([0.0, 1.0], 60)
    (said,) = room._uneven(np.abs(rng.normal(size=120)) * (1 + 3 * flag), {"flag": flag})
    assert "likelihood='heteroscedastic_normal', or a logarithm" in said
    few = flag[::2]
    (said,) = room._uneven(np.abs(rng.normal(size=60)) * (1 + 4 * few), {"flag": few})
    assert "='heteroscedastic_normal' with approximation=bx.Inducing(60), or a" in said
    (other,) = room._uneven(1.0 + 3 * flag + rng.uniform(size=120), {"flag": flag}, able=False)
    assert "Use a logarithm" in other and "heteroscedastic" not in other
    (said,) = room._uneven(np.abs(rng.normal(size=120)) * (1 + 3 * flag), {"flag": flag})
    assert "with the largest flag" in said
    ratio = float(said.split(" times")[0].split()[-1])
    assert 3.0 < ratio < 5.3  # 4, with 60 rows on each side
    assert list(room._uneven(np.abs(rng.normal(size=120)), {"flag": np.zeros(120)})) == []
    assert list(room._uneven(np.ones(2), {"two rows": np.array([0.0, 1.0])})) == []


def test_counts_that_vary_more_than_poisson_counts():
    rate = np.exp(1.0 + 0.7 * X["dose"].to_numpy())
    assert "Counts vary" not in told(bx.GP(X, RNG.poisson(rate), likelihood="poisson"))
    wide = RNG.poisson(rate * RNG.gamma(1.5, 1 / 1.5, size=50))
    assert " likelihood='negative_binomial'." in told(bx.GP(X, wide, likelihood="poisson"))
    assert "Counts vary" not in told(bx.GP(X, wide, likelihood="negative_binomial"))


def test_successes_that_vary_more_than_binomial_ones():
    trials = np.resize([20, 60, 200], 50)
    share = 1.0 / (1.0 + np.exp(-0.7 * X["dose"].to_numpy()))
    even = bx.GP(X, RNG.binomial(trials, share), likelihood="binomial", trials=trials)
    assert "Counts vary" not in told(even)
    wide = RNG.binomial(trials, RNG.beta(5.0 * share, 5.0 * (1.0 - share)))
    said = told(bx.GP(X, wide, likelihood="binomial", trials=trials))
    assert "times as much as binomial counts" in said
    assert "likelihood='beta' for proportions, if none is 0 or 1." in said
    # Around a proportion that is nearly the same in all rows it is Pearson's statistic.
    options = {"likelihood": "binomial", "trials": trials, "priors": {"amplitude": 0.003}}
    said, p = told(bx.GP(X, wide, **options)), wide.sum() / trials.sum()
    ratio = np.mean((wide - trials * p) ** 2 / (trials * p * (1.0 - p)))
    found = float(re.search(r"Counts vary (\S+) times", said)[1])
    assert found == pytest.approx(ratio, rel=0.05)
    assert "so intervals are too narrow. Use likelihood='beta'" in said


def test_large_counts_that_other_rows_predict_roughly_are_no_overdispersion():
    """Left-out rates err by more than Poisson noise; functions as rough as noise err more."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    rate = 200.0 * np.exp(np.sin(X[:, 0]) + 0.5 * X[:, 1] * np.cos(X[:, 2]))
    assert "Counts vary" not in told(bx.GP(X, rng.poisson(rate), likelihood="poisson"))
    wide = rng.poisson(rate * rng.gamma(3.0, 1 / 3.0, 40))
    assert "from row to row, as if noise were signal" in told(bx.GP(X, wide, likelihood="poisson"))


def test_what_the_data_say_nothing_of():
    """Deviations of single rows a thousandth of the noise in size."""
    priors = {"lengthscale": 1.0, "amplitude": 1e-3, "sigma_w": pm.HalfNormal.dist(1e-3)}
    said = told(bx.GPX(X, Y, priors=priors), "laplace", draws=1000)
    assert "The posterior of sigma_w equals the prior" in said


def test_a_mode_that_one_start_found(monkeypatch):
    model = bx.GP(X, Y)
    own = model.starts()
    far = [{"lengthscale": np.full(2, 60.0), "amplitude": 1e-3, "sigma": 1.0}] * 2
    monkeypatch.setattr(type(model), "starts", lambda *_: [own[1], *far])
    monkeypatch.setattr("bayes_gpx.inference.optimise.ENOUGH", 1e6)  # others stop where they are
    assert "One of 3 starts found the highest mode" in told(model)


def test_a_fit_is_kept_whose_priors_cannot_be_drawn_from(rng):
    X, y = rng.normal(size=(2, 20))
    model = bx.GP(X[:, None], y, priors={"sigma": pm.HalfFlat.dist()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (bx.FitWarning, bx.ConvergenceWarning))
        fit = model.fit("laplace", draws=room.ENOUGH_DRAWS, seed=1, progressbar=False)
    assert fit["posterior"].sizes["draw"] == room.ENOUGH_DRAWS and "log_likelihood" in fit.children


def test_fits_that_the_user_did_not_ask_for_are_not_examined(monkeypatch):
    """What is said of a model with noise of 0 is not said of the linear model next to it."""
    monkeypatch.setattr("bayes_gpx.model.examination._noise", lambda *_: iter(["No noise."]))
    model = bx.GP(X, Y)
    with pytest.warns(bx.FitWarning, match="No noise"):
        fit = model.fit("map", progressbar=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", bx.FitWarning)
        found = bx.compare({"curved": (model, fit)}, baselines=True)
    assert {"curved", "linear model", "mean only"} == {*found.index}
    with pytest.warns(bx.FitWarning, match="No noise"):
        model.fit("map", progressbar=False)


def test_a_fit_is_kept_where_its_examination_fails(monkeypatch):
    def fails(*_):
        raise ValueError("no factor")

    monkeypatch.setattr("bayes_gpx.model.examination._noise", fails)
    with pytest.warns(bx.FitWarning, match=r"was not examined \(ValueError: no factor\)"):
        assert bx.GP(X, Y).fit("map", progressbar=False)["posterior"].sizes["draw"] == 1
