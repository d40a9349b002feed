"""Every function of every model gives the numbers that it gave before."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

import matrix_of_calls as matrix
from bayes_gpx.numerics.compile_modes import MODE

SAMPLE = [
    ("GP expquad", "attributions latent"),
    ("GP of categories", "relevance"),
    ("GP outputs", "predictions"),
    ("GP groups", "loo_predictions"),
    ("GP waves", "log_likelihood"),
    ("GP constrained", "predictions latent"),
    ("GPX by place", "smooth weights"),
    ("GPX", "contributions"),
]


def stored():
    return json.loads(matrix.STORED.read_text())


def test_all_cells_are_stored():
    found = stored()
    assert list(found) == list(matrix.builders())
    assert all(list(cells) == list(matrix.FUNCTIONS) for cells in found.values())
    works = [not isinstance(cell, str) for cells in found.values() for cell in cells.values()]
    assert sum(works) > 1000


@pytest.mark.parametrize(("model", "function"), SAMPLE, ids=str)
def test_a_sample_of_cells_is_unchanged(model, function):
    assert matrix.differs(model, function, stored()[model][function]) == ""


@pytest.mark.slow
@pytest.mark.parametrize("model", matrix.builders())
def test_all_cells_of_a_model_are_unchanged(model):
    cells = stored()[model].items()
    told = {function: matrix.differs(model, function, cell) for function, cell in cells}
    assert {function: words for function, words in told.items() if words} == {}


@pytest.mark.slow
@pytest.mark.parametrize("model", matrix.builders())
def test_slopes_of_densities_are_differences(model):
    """As PyMC differentiates them, whose rewriting removes what only holds a gradient back."""
    objective = matrix.model(model)[0].objective
    logp, point = objective.compile_logp(mode=MODE), objective.initial_point()
    found = objective.compile_dlogp(mode=MODE)(point)
    names = [value.name for value in objective.value_vars]
    places = [(name, at) for name in names for at in np.ndindex(np.shape(point[name]))]
    for (name, at), own in zip(places, found, strict=True):
        ends = []
        for step in (1e-5, -1e-5):
            moved = np.array(point[name], float)
            moved[at] += step
            ends.append(logp(point | {name: moved}))
        assert_allclose(own, (ends[0] - ends[1]) / 2e-5, rtol=1e-4, atol=1e-4)


def test_a_change_is_told():
    cell = "GP expquad", "predictions latent"
    before = stored()[cell[0]][cell[1]]
    assert "added or removed" in matrix.differs(*cell, {"f_mean": before["f_mean"]})
    moved = before | {"f_mean": [before["f_mean"][0] * (1 + 1e-6), before["f_mean"][1]]}
    assert matrix.differs(*cell, moved).startswith("f_mean: ")
    assert "was ValueError" in matrix.differs(*cell, "ValueError: no")
