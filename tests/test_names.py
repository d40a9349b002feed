"""Names that the package does not have are answered with those that were meant."""

import copy
import inspect
import pickle
import pydoc
import re

import numpy as np
import pytest

import bayes_gpx as bx
from bayes_gpx.explain.answered import SHARED
from bayes_gpx.names import FUNCTIONS

X, Y = np.arange(8.0)[:, None], np.sin(np.arange(8.0))


@pytest.fixture(scope="module")
def model():
    return bx.GP(X, Y)


MEANT = {
    "predict": "bx.predictions(model, idata, X_new)?",
    "Attributions": "bx.attributions(model, idata)?",
    "attribution": "bx.attributions(model, idata)?",
    "waterfall": "bx.plot_waterfall(dataset)?",
    "plot": "bx.plot_predictions(bx.predictions(model, idata))?",
    "plot_weigths": "bx.plot_weights(dataset)?",
    "shap_values": "bx.shapley_values(model, idata, X_new)?",
    "inducing_points": None,
    "magic": None,
    "_private": None,
}


@pytest.mark.parametrize("name", MEANT)
def test_an_unknown_attribute_says_what_was_meant(name, model):
    for owner, said in ((bx, "module 'bayes_gpx'"), (model, "'GP' object")):
        with pytest.raises(AttributeError) as refused:
            getattr(owner, name)
        hint = f". Did you mean {MEANT[name]}" if MEANT[name] else ""
        assert str(refused.value) == f"{said} has no attribute {name!r}{hint}"


def test_what_is_suggested_exists():
    for said, call in FUNCTIONS.items():
        assert said == said.lower() and said not in bx.__all__
        for name, given in re.findall(r"(?:^|bx\.)(\w+)\(([\w, ]*)\)", call):
            parameters = inspect.signature(getattr(bx, name)).parameters
            assert not given or set(given.split(", ")) <= set(parameters)
    of_results = {"ranking", "reasons", "group_differences", "with_propensity"}
    for name, target in bx._MAP.items():
        if target.startswith("bayes_gpx.explain:") and name not in of_results:
            assert list(inspect.signature(getattr(bx, name)).parameters)[:2] == ["model", "idata"]


def test_models_are_copied_and_their_own_errors_kept(model):
    for again in (copy.copy(model), pickle.loads(pickle.dumps(model))):
        assert again.training.n == 8

    class Broken(bx.GP):
        @property
        def broken(self):
            return self.training.nothing

    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = Broken(X, Y).broken


OPTIONS = {
    "noise": "Did you mean priors={'sigma': ...} (a standard deviation)?",
    "length_scale": "Did you mean priors={'lengthscale': ...}?",
    "sigma": "Did you mean priors={'sigma': ...}?",
    "kernl": "Did you mean 'kernel'?",
    "family": "Did you mean 'likelihood'?",
    "inducing": "Did you mean approximation=bx.Inducing(m)?",
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("family", ["GP", "GPX"])
def test_an_unknown_option_says_what_was_meant(family, name):
    with pytest.raises(TypeError) as refused:
        getattr(bx, family)(X, Y, **{name: 0.1})
    said = str(refused.value)
    assert said.startswith(f"{family} has no option {name!r}; it has X, y, ")
    assert said.endswith(OPTIONS[name])


def test_signatures_still_list_every_option():
    assert list(inspect.signature(bx.GP).parameters)[:4] == ["X", "y", "kernel", "ard"]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'y'"):
        bx.GP(X)


def test_the_package_lists_public_names_only():
    assert dir(bx) == sorted(bx.__all__)


def test_public_functions_name_every_option_and_say_the_shared_ones_alike():
    forwarding = {
        "attach",
        "calibrate",
        "power_scaling",
        "plot_importances",
    }  # names are the user's
    for name in bx.__all__:
        function = getattr(bx, name)
        if not inspect.isfunction(function) or name in forwarding:
            continue
        kinds = {p.kind: p.name for p in inspect.signature(function).parameters.values()}
        assert kinds.get(inspect.Parameter.VAR_KEYWORD, "pc_kwargs") == "pc_kwargs", name
    for name in ("attributions", "derivatives", "predictions", "slopes", "weights"):
        doc = inspect.getdoc(getattr(bx, name))
        heads = re.findall(r"^(\w+(?:, \w+)*)(?: : .*)?$", doc, re.MULTILINE)
        documented = [option for head in heads for option in head.split(", ")]
        for option in ("num_draws", "seed", "progressbar"):
            assert documented.count(option) == 1
            assert f"\n{option} : {SHARED[option]}\n" in doc


def public_docstrings():
    """Docstrings by name of all public functions and classes, and of the methods of models."""
    found = {name: getattr(bx, name) for name in bx.__all__}
    found |= {f"GP.{name}": getattr(bx.GP, name) for name in ("fit", "of_event", "of_output")}
    return {name: inspect.getdoc(value) for name, value in found.items() if callable(value)}


PARTS = r"\n(?:References|Examples)\n-+\n(?:.|\n)*"
TABLE = r"^ *=[= ]+\n.*\n *=[= ]+\n(?:.*\n)*? *=[= ]+$"


def test_docstrings_are_short():
    """At most 350 words beside tables, references, examples and options that functions share."""
    long = {}
    for name, doc in public_docstrings().items():
        for option, meaning in SHARED.items():
            doc = doc.replace(f"\n{option} : {meaning}\n", "\n")
        words = re.sub(TABLE, "", re.sub(PARTS, "", doc), flags=re.MULTILINE).split()
        if len(words) > (480 if name == "GP" else 350):  # GP has 22 options
            long[name] = len(words)
    assert long == {}


def test_help_fits_on_two_screens():
    lines = {}
    for name in bx.__all__:
        if inspect.isfunction(getattr(bx, name)):
            text = pydoc.render_doc(getattr(bx, name), renderer=pydoc.plaintext)
            lines[name] = len(text.splitlines())
    assert {name: n for name, n in lines.items() if n > 130} == {}
