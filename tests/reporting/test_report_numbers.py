"""Every number in a sentence of a report is recomputed from the JSON in its file."""

import json
import re
import warnings
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import bayes_gpx as bx
from bayes_gpx.reporting.results import Findings

RNG = np.random.default_rng(2)
ROWS = 36
NUMBER = r"([+-]?\d+(?:\.\d+)?(?:e[+-]\d+)?)"
INTERVAL = rf"\[{NUMBER}, {NUMBER}\]"


class Sentences(HTMLParser):
    """Paragraphs, list items and headings of each section, and the JSON of the file."""

    def __init__(self, text):
        super().__init__()
        self.found, self.json, self._section, self._open, self._script = [], "", None, None, False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self._section = attrs["id"] if tag == "section" else self._section
        if tag in ("p", "li", "h3") and self._section:
            self._open = ""
        if attrs.get("id") == "results":
            self._open = None
        self._script = attrs.get("id") == "results"

    def handle_data(self, data):
        if self._script:
            self.json += data
        elif self._open is not None:
            self._open += data

    def handle_endtag(self, tag):
        self._script = False
        if tag in ("p", "li", "h3") and self._open is not None:
            self.found.append((self._section, " ".join(self._open.split())))
            self._open = None


class Said:
    """The JSON of a report: each result as a Dataset, and what is said of all of them."""

    def __init__(self, text):
        said = json.loads(text)
        self.facts, texts = said["facts"], said["results"]
        self.results = {name: bx.from_json(json.dumps(one)) for name, one in texts.items()}
        self.any = next(iter(texts.values()))
        self.prob = next(i["probability"] for one in texts.values() if (i := one["intervals"]))
        self.cautions = [c for one in texts.values() for c in one["cautions"]]

    def __getattr__(self, name):
        return self.results[name]

    @property
    def scored(self):
        return self.results.get("held_out", self.left_out)

    @property
    def explained(self):
        return self.results.get("attributed", self.results.get("contributed_chosen"))

    @property
    def response(self):
        return "probability" if "probability_mean" in self.predicted_chosen else "y"


def of(result, quantity):
    """Estimate and interval of a quantity, which has no other dims."""
    return [float(result[f"{quantity}_mean"]), *result[f"{quantity}_interval"].values.tolist()]


def rms(values):
    return float(np.sqrt(np.mean(np.square(values))))


def error(m, j):
    y = j.scored["observed"].values.astype(float)
    own = rms(y - j.scored["y_mean"].values)
    mean = rms(y - np.array(j.facts["predicted_by_mean"]))
    linear = rms(y - np.array(j.facts["predicted_linearly"]))
    return [own, 1 - own**2 / mean**2, linear, mean]


def labelled(j):
    """Observed labels, the most probable ones, and probabilities of the second."""
    labels = np.unique(j.left_out["observed"].values)
    p = j.scored["probability_mean"].values
    return j.scored["observed"].values, labels[(p > 0.5).astype(int)], p, labels[1]


def most_frequent(m, j):
    y, likely, _, _ = labelled(j)
    labels, counts = np.unique(j.left_out["observed"].values, return_counts=True)
    return [100 * (y == likely).mean(), 100 * (y == labels[counts.argmax()]).mean()]


def brier(m, j):
    y, likely, p, second = labelled(j)
    hit = y == second
    score = np.mean((hit - p) ** 2 + ((1 - hit) - (1 - p)) ** 2)
    return [100 * (y == likely).mean(), len(y), score, 2 * hit.mean() * (1 - hit.mean())]


def effect(m, j):
    sd = float(j.sloped["training_sd"].sel(feature=m["name"]))
    found = j.contrasted.isel(contrast=j.contrasted["variable"].values == m["name"])
    return [sd, *of(found.squeeze("contrast"), "comparison")]


def contrast(m, j):
    if m["name"] not in j.contrasted["contrast"].values:  # its name has numbers too
        return []
    return of(j.contrasted.sel(contrast=m["name"]), "comparison")


def completeness(m, j):
    found = j.attributed
    size = abs(found["difference_mean"]).max() + found["difference_sd"].max()
    return [float(found["completeness_residual"].max() / size)]


def first(kind):
    def values(m, j):
        found = j.ranked if kind == "relevance" else j.ranked_pairs
        item = "feature" if kind == "relevance" else "pair"
        size = found[f"average_{kind}_mean"]
        if "alone" not in m.re.groupindex:
            size = found["probability_rank"].sel(rank=1)
        own = found.sel({item: m["name"]})
        assert size.sel({item: m["name"]}) == size.max()
        if "probability" in m.re.groupindex:
            return [100 * float(own["probability_rank"].sel(rank=1))]
        if "alone" in m.re.groupindex:
            return [float(own[f"average_{kind}_mean"])]
        return of(own, f"average_{kind}")

    return values


def reference(m, j):
    count = j.ranked.sizes["null"]
    return [count, 1 / (1 + count)]


def row_of(result, label):
    place = [str(value) for value in result["obs"].values].index(label)
    return result.isel(obs=place)


def heading(m, j):
    j.row = m["row"]
    return of(row_of(j.predicted_chosen, m["row"]), j.response)


def observed(m, j):
    return [float(row_of(j.left_out, j.row)["observed"])]


def difference(m, j):
    return of(row_of(j.explained, j.row), "difference")


def share(m, j):
    """Value and start of a feature, and its share; a mixture by the values in all rows."""
    name = "attribution" if "attribution_mean" in j.explained else "contribution"
    own = row_of(j.explained, j.row).sel(feature=m["name"])
    start = float(own["baseline" if "baseline" in own.data_vars else "center"])
    found = [float(own["value"])]
    if "mixed" in m.re.groupindex:
        rows = j.predicted if m["name"] in j.predicted["feature"] else j.explained
        low, high = np.unique(rows["value"].sel(feature=m["name"]))
        found += [100 * (start - low) / (high - low), high]
    elif "equal" not in m.re.groupindex:
        found.append(start)
    assert ("sign uncertain" in m.string) == (of(own, name)[1] <= 0 <= of(own, name)[2])
    return found + of(own, name)


def level(m, j):
    own = row_of(j.explained, j.row).sel(feature=m["name"])
    assert m["level"] == own["level"].item()
    shares = [100 * share for share in j.facts["shares_of_levels"][m["name"]].values()]
    return shares + of(own, "attribution")


def others(m, j):
    name = "attribution" if "attribution_mean" in j.explained else "contribution"
    mean = row_of(j.explained, j.row)[f"{name}_mean"].values
    rest = np.argsort(-np.abs(mean))[6:]
    return [len(rest), mean[rest].sum(), *j.facts["intervals_of_other_features"][j.row]]


def added(m, j):
    own = row_of(j.explained, j.row)
    return [float(own["contribution_mean"].sum()), float(own["offset"])]


def strongest(m, j):
    used, known = j.sloped.sizes["obs"], j.predicted.sizes["obs"]
    counts = [used] if used == known else [used, known]
    return [*counts, 100 * j.prob]


def loo(m, j):
    found = j.facts["loo"]
    return [found[name] for name in m.re.groupindex]


def convergence(m, j):
    found = j.any["convergence"]
    return [*(found[name] for name in ("r_hat", "ess_bulk", "ess_tail", "divergences", "draws"))]


UNSURE = "(?:, sign uncertain)?"
RULES = {
    rf"The model predicts .* error of {NUMBER} mg \(R² {NUMBER}\)\. A linear regression has "
    rf"{NUMBER}, and the mean (?:rate )?of the .* observations has {NUMBER}\.": error,
    rf"The model gives .* in {NUMBER}% of .* right in {NUMBER}%\.": most_frequent,
    rf"Strongest effects on .*, on average over {NUMBER}(?: of {NUMBER})? observations, with "
    rf"{NUMBER}% intervals": strongest,
    rf"(?P<name>.*) higher by {NUMBER}.* \(one sd\): {NUMBER} {INTERVAL}\.": effect,
    rf"(?P<name>.* → .*): {NUMBER} {INTERVAL}\.": contrast,
    rf".*, with a relative error of {NUMBER}\.": completeness,
    rf"The reference is the relevance in {NUMBER} refits .* at least {NUMBER}\.": reference,
    rf"The most relevant feature is (?P<name>.*): {NUMBER} {INTERVAL}\.": first("relevance"),
    rf"The most relevant feature is (?P<name>.*): {NUMBER}(?P<alone>)\.": first("relevance"),
    r"No feature is clearly the most relevant: (?P<name>.*) comes first with a probability of "
    r"(?P<probability>\d+)%\.": first("relevance"),
    rf"The strongest interaction is (?P<name>.*): {NUMBER} {INTERVAL}\.": first("interaction"),
    r"No interaction is clearly the strongest: (?P<name>.*) comes first with a probability of "
    r"(?P<probability>\d+)%\.": first("interaction"),
    rf".* among {NUMBER} observations\.": lambda m, j: [j.predicted.sizes["obs"]],
    rf"Each prediction is .* with a {NUMBER}% interval\. .*": lambda m, j: [100 * j.prob],
    rf"Observation (?P<row>\w+): (?:prediction|probability of \w+) {NUMBER} {INTERVAL}"
    "(?: mg)?": heading,
    rf"Observed .*: {NUMBER} mg\.": observed,
    rf".* difference from the baseline is {NUMBER} {INTERVAL}.*\.": difference,
    rf"The features add {NUMBER} to the value at average features, {NUMBER}\.": added,
    rf"(?P<name>\w+) is (?P<level>[a-z]+) rather than a mixture \(a {NUMBER}%, b {NUMBER}%\): "
    rf"{NUMBER} {INTERVAL}{UNSURE}\.": level,
    rf"(?P<name>\w+) is {NUMBER} rather than a mixture (?P<mixed>)\({NUMBER}% at {NUMBER}\): "
    rf"{NUMBER} {INTERVAL}{UNSURE}\.": share,
    rf"(?P<name>\w+) is {NUMBER} rather than {NUMBER}(?: mm)?: "
    rf"{NUMBER} {INTERVAL}{UNSURE}\.": share,
    rf"(?P<name>\w+) is {NUMBER}(?: mm)?, as (?:in the baseline|on average)(?P<equal>): "
    rf"{NUMBER} {INTERVAL}{UNSURE}\.": share,
    rf"The {NUMBER} other features: {NUMBER} {INTERVAL}\.": others,
    rf"The remaining feature: {NUMBER} {INTERVAL}\.": lambda m, j: others(m, j)[1:],
    rf"The root mean squared error .* is {NUMBER}; the sd of their response is {NUMBER}\.": (
        lambda m, j: [
            rms(j.scored["observed"] - j.scored["y_mean"]),
            float(j.scored["observed"].astype(float).std()),
        ]
    ),
    rf"The most probable label is right for {NUMBER}% of {NUMBER} observations .* score is "
    rf"{NUMBER} \(0 is perfect; {NUMBER} is what .*\)\.": brier,
    rf"R-hat at most {NUMBER}, effective sample sizes at least {NUMBER} \(bulk\) and {NUMBER} "
    rf"\(tail\), {NUMBER} of {NUMBER} transitions divergent\.": convergence,
    rf"E-BFMI of the chains: {NUMBER}, {NUMBER}\..*": lambda m, j: j.facts["bfmi"],
    rf"Draws around the mode, .* Pareto k is {NUMBER}\. (?:Below|Above) 0\.7, .*": lambda m, j: [
        j.any["convergence"]["pareto_k"]
    ],
    rf"The optimiser started from {NUMBER} places; {NUMBER} converged, and {NUMBER} .*": (
        lambda m, j: [j.facts["starting_points"][k] for k in ("count", "converged", "best")]
    ),
    r"Leave-one-out expected log predictive density (?P<elpd>[-\d.]+) ± (?P<se>[\d.]+), with "
    r"(?P<p>[\d.]+) effective parameters\.": loo,
    r"(?P<bad_k>\d+) of (?P<rows>\d+) observations have a Pareto k above "
    r"(?P<good_k>0\.\d+)\b.*": loo,
    rf"sigma_w, .* Its posterior sd is {NUMBER} times its prior sd\.": lambda m, j: [
        j.facts["sigma_w_sd_ratio"]
    ],
    rf"No training observation is near the baseline: .* {NUMBER} times .*": lambda m, j: [
        j.facts["baseline_sd_ratio"]
    ],
    r"bayes_gpx (.*), on PyMC (.*), PyTensor (.*) and ArviZ (.*)\.": lambda m, j: [
        j.any["versions"][name] for name in ("bayes_gpx", "pymc", "pytensor", "arviz")
    ],
}
"""What the numbers of each sentence are, in their order."""

CONSTANT = (
    "Leave-one-out checks need 100 draws or more",
    "It is never 0, not even for noise",
    "For a reference, pass null=19 in Python",
    "Not distinguished from no effect (p > 0.05)",
)
"""Parts of sentences whose numbers are no results."""


def right(text, value):
    """Whether a text is a value, to as many digits as it has, of three or at least of two."""
    if isinstance(value, str):
        return text == value
    shown, value = float(text), float(value)
    if value == 0.0 or shown == value:
        return shown == value
    if "e" in text:
        return abs(shown / value - 1) <= 0.05
    places, decimals = max(0, 2 - int(np.floor(np.log10(abs(value))))), text.partition(".")[2]
    if len(text.lstrip("+-0.").replace(".", "")) > 1 or not decimals:  # of shares, R², an sd
        places = len(decimals)
    return abs(shown - value) <= 0.5001 * 10.0**-places


def wrong(sentences, j):
    """Sentences with numbers that no rule has, or that are not those of the JSON."""
    found = []
    for section, sentence in sentences:
        if not re.search(r"\d", sentence) or sentence in j.cautions + [
            j.any["convergence"]["summary"]
        ]:
            continue
        cited = section == "citing" and not sentence.startswith("bayes_gpx")
        if cited or any(part in sentence for part in CONSTANT):
            continue
        matched = next((m for p in RULES if (m := re.fullmatch(p, sentence))), None)
        if matched is None:
            found.append((sentence, "no rule"))
            continue
        words = [g for n, g in enumerate(matched.groups(), 1) if n not in _words(matched)]
        shown = [text for text in words if text is not None]
        values = RULES[matched.re.pattern](matched, j)
        same = len(shown) == len(values) and all(map(right, shown, values))
        found += [] if same else [(sentence, values)]
    return found


def _words(matched):
    """Groups that hold no number."""
    index = matched.re.groupindex
    return {
        n
        for name, n in index.items()
        if name in ("name", "row", "level", "mixed", "equal", "alone")
    }


@pytest.fixture(scope="module")
def X():
    frame = pd.DataFrame(RNG.normal(5, 2, (ROWS, 7)), columns=list("pqrstuv"))
    frame.insert(0, "dose", RNG.integers(0, 2, ROWS).astype(float))
    frame["sort"] = pd.Categorical(RNG.choice(["a", "b"], ROWS))
    frame.attrs["units"] = {"p": "mm"}
    return frame.set_index(pd.Index([f"k{n}" for n in range(ROWS)]))


@pytest.fixture(scope="module")
def y(X):
    y = 3 * X["dose"] + np.sin(X["p"]) + 0.4 * X["q"] + 2.0 * (X["sort"] == "b")
    y = (y + 0.3 * RNG.normal(size=ROWS)).rename("weight")
    y.attrs["units"] = "mg"
    return y


def read(model, idata, path, **options):
    options = {"seed": 3, "null": False} | options
    return Sentences(bx.report(model, idata, path=path, **options).read_text())


@pytest.fixture(scope="module")
def sampled(X, y, tmp_path_factory):
    """A report on a GP with a category, by NUTS."""
    model = bx.GP(X, y)
    with pytest.warns(UserWarning):
        fit = {"draws": 60, "tune": 60, "chains": 2, "seed": 1}
        idata = model.fit("nuts", progressbar=False, **fit)
    return read(model, idata, tmp_path_factory.mktemp("report") / "r.html")


@pytest.mark.slow
def test_numbers_of_a_sampled_gp(sampled):
    assert wrong(sampled.found, Said(sampled.json)) == []
    assert len([s for _, s in sampled.found if re.search(r"\d", s)]) > 30


@pytest.mark.slow
def test_a_wrong_digit_is_found(sampled):
    """Of each number of each sentence, one after the other."""
    missed, j = [], Said(sampled.json)
    for k, (section, sentence) in enumerate(sampled.found):
        if section == "citing" or any(part in sentence for part in CONSTANT):
            continue
        for m in re.finditer(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.]*\d)", sentence):
            shown = m.group()
            other = f"{float(shown) * 1.2 + 1:.{len(shown.partition('.')[2])}f}"
            broken = list(sampled.found)
            broken[k] = section, sentence[: m.start()] + other + sentence[m.end() :]
            missed += [] if wrong(broken, j) else [(sentence, shown)]
    assert missed == []


@pytest.mark.slow
def test_numbers_of_a_classifier_with_held_out_rows(X, y, tmp_path):
    X = X.drop(columns=["sort", "v"])
    high = pd.Series(np.where(y > y.median(), "high", "low"), y.index, name="level")
    model = bx.GPX(X[:24], high[:24], likelihood="bernoulli")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of weights and of the fit
        idata = model.fit("laplace", draws=100, seed=1, progressbar=False)
    told = read(model, idata, tmp_path / "r.html", X_new=X[24:], y_new=high[24:])
    assert wrong(told.found, Said(told.json)) == []


def test_numbers_of_contributions_with_own_columns(X, y, tmp_path):
    model = bx.GPX(X[["p"]], y, X[["dose", "q"]])
    idata = model.fit("map", seed=1, progressbar=False)
    told = read(model, idata, tmp_path / "r.html")
    assert wrong(told.found, Said(told.json)) == []


def test_new_responses_of_a_model_with_bounds_are_no_values(tmp_path):
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"x": rng.normal(size=20)})
    kinds = np.where(rng.uniform(size=20) < 0.3, "right", "none")
    model = bx.GP(X, np.exp(X["x"]), likelihood="weibull", censoring=kinds)
    theta = {"lengthscale": [1.0], "amplitude": 1.0, "shape": 2.0}
    with pytest.raises(ValueError, match="y_new was given for a model with censoring="):
        bx.report(model, theta, X[:3], y_new=[1.0, 2.0, 3.0], path=tmp_path / "r.html")


def test_what_is_known_of_rows_with_bounds_is_said():
    X = pd.DataFrame({"x": np.linspace(0.0, 1.0, 8)})
    y = np.column_stack([np.arange(1.0, 9.0), np.arange(2.0, 10.0)])
    kinds = ["none", "left", "right", "interval"] * 2
    y[0::4, 1] = y[0::4, 0]
    model = bx.GP(X, y, censoring=kinds)
    theta = {"lengthscale": [1.0], "amplitude": 1.0, "sigma": 0.5}
    known = {"y_new": None, "obs": None, "baseline": "mean", "seed": 0}
    findings = Findings(model, theta, None, None, **known)
    said = [next(findings.known_of(label)).partition(": ")[2] for label in range(4)]
    assert said == ["1.", "at most 3.", "more than 3.", "between 4 and 5."]
