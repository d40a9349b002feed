"""Hypothesis strategies for tests of code that uses this package: tables, models, priors.

They need hypothesis (``pip install hypothesis``), which nothing else here imports.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
from hypothesis import strategies as st

from bayes_gpx.model.gp import GP, GPX

KERNELS = ("expquad", "matern52", "matern32", "linear", "expquad + linear", "expquad * linear")
"""Names of kernels that models are drawn with; each is compiled once."""

LARGEST_OFFSET, SCALES = 1e3, (1e-3, 1e3)
"""Largest distance of a column from 0, in its own scale, and the range of scales."""


def names(count: int) -> st.SearchStrategy[list[str]]:
    """Different names of columns, with blanks, signs and letters of any alphabet."""
    letters = st.characters(exclude_categories=("Cs", "Cc"))
    words = st.text(letters, min_size=1, max_size=12).filter(lambda word: word.strip() == word)
    return st.lists(words, min_size=count, max_size=count, unique=True)


@st.composite
def frames(draw: st.DrawFn, columns: int = 2, rows: int = 12, levels: int = 0) -> pd.DataFrame:
    """Tables of varying finite numbers, with different scales and odd names.

    If `levels` is above 1, the last column is categorical with this number of levels.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    low, high = np.log10(SCALES)
    scale = 10.0 ** np.array([draw(st.floats(low, high)) for _ in range(columns)])
    offset = [draw(st.floats(-LARGEST_OFFSET, LARGEST_OFFSET)) for _ in range(columns)]
    values = scale * (np.array(offset) + rng.standard_normal((rows, columns)))
    frame = pd.DataFrame(values, columns=draw(names(columns)))
    if levels > 1:
        codes = np.append(np.arange(levels), rng.integers(levels, size=rows - levels))
        labels = np.array(draw(names(levels)), dtype=object)
        held = pd.Categorical(labels[rng.permutation(codes)], categories=labels)
        frame[frame.columns[-1]] = held
    return frame


@st.composite
def responses(draw: st.DrawFn, rows: int = 12) -> np.ndarray:
    """Responses (rows,) that vary, on a random scale."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = 10.0 ** draw(st.floats(*np.log10(SCALES)))
    return scale * (draw(st.floats(-10.0, 10.0)) + rng.standard_normal(rows))


@st.composite
def models(
    draw: st.DrawFn,
    families: tuple[str, ...] = ("GP", "GPX"),
    kernels: tuple[str, ...] = KERNELS,
    columns: int = 2,
    rows: int = 12,
) -> tuple[Any, dict[str, np.ndarray]]:
    """Models of normal data with hyperparameters on their scale: (model, dict).

    Signal and noise differ by no more than a factor of thirty, and lengthscales are between a
    third and three deviations of the features.
    """
    X, y = draw(frames(columns, rows)), draw(responses(rows))
    family = {"GP": GP, "GPX": GPX}[draw(st.sampled_from(families))]
    model = family(X, y, kernel=draw(st.sampled_from(kernels)))
    theta = {}
    for h in model.specification.hyperparameters:
        low, high = (0.1, 1.0) if h.name in ("sigma", "sigma_w") else (0.3, 3.0)
        size = model.training.size(h.dim) if h.dim else 1
        values = [draw(st.floats(low, high)) for _ in range(size)]
        theta[h.name] = np.array(values) if h.dim else np.asarray(values[0])
    return model, theta


def priors(size: int | None = None) -> st.SearchStrategy[Any]:
    """Priors of one positive hyperparameter (None for a scalar size), in every supported form."""
    scales = st.floats(0.1, 10.0)
    forms: list[st.SearchStrategy[Any]] = [
        scales,
        scales.map(pm.HalfNormal.dist),
        scales.map(lambda scale: lambda name: pm.HalfNormal(name, scale)),
        scales.map(lambda scale: lambda name, dims: pm.Gamma(name, 2.0, 1.0 / scale, dims=dims)),
    ]
    if size is not None:
        several = st.lists(scales, min_size=size, max_size=size)
        forms += [several, several.map(np.array), several.map(pm.HalfNormal.dist)]
    return st.one_of(forms)
