"""Random functions of a posterior, to be evaluated anywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Column, Draws, Labels, Table
from bayes_gpx.draws import questions
from bayes_gpx.draws.evaluate import evaluate
from bayes_gpx.draws.hyperparameter_draws import refuse_swapped
from bayes_gpx.draws.leave_one_out import log_likelihood_given
from bayes_gpx.draws.points import from_baseline, points
from bayes_gpx.draws.questions import is_nonlinear
from bayes_gpx.draws.random_functions import Functions, answer, draw_functions, log_statements
from bayes_gpx.draws.scales import Latent, Response
from bayes_gpx.draws.views import AtRows, by_chain_rule
from bayes_gpx.explain.answered import each_output, has_outputs
from bayes_gpx.explain.attributions import named
from bayes_gpx.numerics.threads import LOCK, on_cores
from bayes_gpx.posteriors.prior_functions import WAVES
from bayes_gpx.processes.basis_functions import SPECTRAL, NoBasis
from bayes_gpx.system.digests import digest
from bayes_gpx.validation import count

if TYPE_CHECKING:
    from bayes_gpx.draws.points import Points
    from bayes_gpx.draws.questions import Question
    from bayes_gpx.model.model import Model


FUNCTIONS = "functions"
"""Attribute of answers that tells the functions which gave them from others."""


@on_cores
def sample_functions(
    model: Model,
    idata: Draws,
    *,
    draws: int = 1000,
    num_draws: int | None = None,
    waves: int = WAVES,
    cores: int | None = None,
    seed: int | None = None,
    progressbar: bool = True,
) -> RandomFunctions:
    """Draw functions from the posterior that can be evaluated anywhere.

    Use these functions for quantities that are not linear in f, such as the place of a maximum:
    compute the quantity for each function and summarize the results. For values, derivatives and
    attributions use the other functions of the package, which are exact.

    Parameters
    ----------
    model : GP or GPX
        In a GPX, the functions are z' g(x), without `eps_w`.
    idata : xarray.DataTree or dict
        A fit, or a dict of fixed hyperparameters on the model's scale.
    draws : int
        Number of functions if there is a single hyperparameter draw. Otherwise each hyperparameter
        draw gives one.
    num_draws : int, optional
        Thin the hyperparameter draws evenly to at most this many.
    waves : int
        Number of random Fourier features in a prior function, for each summand of the kernel; even.
    seed : int, optional
        Seed of the functions.
    progressbar : bool
        Show progress.

    Returns
    -------
    RandomFunctions

    Raises
    ------
    ValueError
        If `waves` is odd or not positive, or if idata do not fit the model.

    Notes
    -----
    Matheron's rule: a prior function, made of random Fourier features with new frequencies for each
    function, is moved by the exact correction to the data. For any number of waves, the mean and
    covariance over functions are exact. With few waves, single functions look less like draws of a
    Gaussian process; the slopes of a Matern 3/2 are then so heavy-tailed that estimating their
    covariance takes very many functions. Linear and constant summands are exact. Models with basis
    functions draw combinations of these functions; models with inducing points are corrected at
    these points.

    Kernels of a user's own have no such functions. Each question is then answered by exact joint
    draws at the requested points, and different answers do not belong to the same functions
    (`RandomFunctions.joint` is True).

    References
    ----------
    Wilson, Borovitskiy, Terenin, Mostowsky and Deisenroth, "Efficiently sampling functions from
    Gaussian process posteriors" (2020).

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.linspace(0.0, 3.0, 20)[:, None]
    >>> model = bx.GP(X, np.sin(X[:, 0]), scale=False)
    >>> theta = {"lengthscale": [1.0], "amplitude": 1.0, "sigma": 0.01}
    >>> functions = bx.sample_functions(model, theta, draws=50, seed=1, progressbar=False)
    >>> grid = np.linspace(0.0, 3.0, 61)[:, None]
    >>> highest = functions.predictions(grid)["f"].argmax("obs").values
    >>> round(float(grid[highest, 0].mean()), 1)  # where the functions are highest: at pi / 2
    1.6
    """
    refuse_swapped(model, idata)
    count("waves", waves)
    if waves % 2:
        raise ValueError(
            f"waves is {waves}. Pass an even number, because sines and cosines come in pairs."
        )
    options: dict[str, Any] = {
        "draws": draws,
        "num_draws": num_draws,
        "seed": seed,
        "progressbar": progressbar,
    }
    try:
        functions: Functions | None = draw_functions(model, idata, waves=waves, **options)
    except NoBasis:
        functions = None
    return RandomFunctions(model, idata, functions, options)


def _by_output(method: Callable[..., xr.Dataset]) -> Callable[..., xr.Dataset]:
    """A method that answers for each of several outputs, of the same functions."""

    @wraps(method)
    def of_each(self: RandomFunctions, *arguments: Any, **options: Any) -> xr.Dataset:
        if not has_outputs(self._model, self._idata):
            return method(self, *arguments, **options)

        def ask(view: Any, _: Any) -> xr.Dataset:
            functions = self._functions and replace(self._functions, model=view)
            one = RandomFunctions(view, self._idata, functions, self._options)
            one._groups = self._groups
            return method(one, *arguments, **options)

        found = each_output(self._model, {}, ask)
        if self._functions is not None:
            told = found.attrs["dependence"]
            found.attrs["dependence"] = told.replace("independent between", "joint over")
        return found

    return of_each


class RandomFunctions:
    """Functions drawn from a posterior by `sample_functions`.

    Its methods have the names, dims and units of the explanation functions. All methods describe
    the same functions, so their results can be combined draw by draw. For several outputs, results
    have a last dim `output`, and the functions of all outputs are drawn together.

    Attributes
    ----------
    joint : bool
        True if the kernel has no functions that can be evaluated again. Each answer then consists
        of separate joint draws.
    """

    def __init__(
        self, model: Model, idata: Draws, functions: Functions | None, options: Mapping[str, Any]
    ) -> None:
        self._model, self._idata, self._functions = model, idata, functions
        self._options, self.joint = options, functions is None
        self._groups: list[str] = []  # of all answers, so that a label has the same level in each

    @property
    def constrained(self) -> bool:
        """Whether the model has constraints."""
        return self._model.specification.constraints is not None

    @_by_output
    def predictions(
        self,
        X_new: Table | None = None,
        Z_new: Table | None = None,
        *,
        groups_new: Column | None = None,
        obs: Labels | None = None,
    ) -> xr.Dataset:
        """Values of the functions: `f` (chain, draw, obs), on the latent scale."""
        where = self._points(X_new, Z_new, groups_new, obs)
        return self._ask(questions.value(self._model, smooth=True), where)

    @_by_output
    def derivatives(
        self,
        X_new: Table | None = None,
        Z_new: Table | None = None,
        *,
        groups_new: Column | None = None,
        obs: Labels | None = None,
        order: Literal[1, 2] = 1,
        on: Literal["response", "latent"] = "response",
    ) -> xr.Dataset:
        """Return `derivative` (chain, draw, obs, feature), or of `order` 2 `second_derivative`."""
        quantity = questions.derivative(self._model, order)
        return self._ask(quantity, self._points(X_new, Z_new, groups_new, obs), on)

    @_by_output
    def attributions(
        self,
        X_new: Table | None = None,
        Z_new: Table | None = None,
        *,
        baseline: str | Table = "mean",
        method: str = "exact",
        steps: int | None = None,
        groups_new: Column | None = None,
        obs: Labels | None = None,
        on: Literal["response", "latent"] = "response",
    ) -> xr.Dataset:
        """Return `attribution` (chain, draw, obs, feature), and `difference`, which they sum to."""
        where = from_baseline(self._model, self._points(X_new, Z_new, groups_new, obs), baseline)
        quantity = questions.attribution(self._model, named(baseline), method, steps)
        return self._ask(quantity, where, on)

    @_by_output
    def weights(
        self,
        X_new: Table | None = None,
        *,
        groups_new: Column | None = None,
        obs: Labels | None = None,
    ) -> xr.Dataset:
        """Weight functions of a GPX: `weight` (chain, draw, obs, feature), without `eps_w`."""
        quantity = questions.weight(self._model, smooth=True)
        return self._ask(quantity, self._points(X_new, None, groups_new, obs, needs_z=False))

    def log_likelihood(self) -> xr.DataArray:
        """Log density of each training response given the functions, (chain, draw, obs).

        This is ``log p(y_i | f(x_i), theta)`` of y in user units, for the functions of the other
        methods; a GPX's `eps_w` is integrated out. See `bayes_gpx.influence_tree`.

        Raises
        ------
        ValueError
            If `joint`, because there are then no functions to evaluate again.
        """
        model, hyper = self._model, self._lasting().hyper
        model.training.refuse_outputs("Responses given functions", "bx.log_likelihood has theirs.")
        found = self.predictions()
        f = model.training.y_scaling.apply(found["f"].values)
        f = f - model.specification.observation.centers
        terms = xr.DataArray(
            log_likelihood_given(model, hyper, f),
            {name: found[name] for name in ("chain", "draw", "obs")},
            ["chain", "draw", "obs"],
        )
        return terms.assign_attrs({FUNCTIONS: found.attrs[FUNCTIONS]})

    def log_constraints(self) -> xr.DataArray:
        """Log probability of each constraint given the functions, (chain, draw, constraint).

        For bounds this is the probability that they hold at all points of the constraint, noise
        included: for a sign, the sum of ``log normal_cdf(slope / s)``. For values it is their
        density, in user units.

        Raises
        ------
        ValueError
            If `joint`, or for a model without constraints.
        """
        functions = self._lasting()
        constraints = self._model.specification.constraints
        if constraints is None:
            raise ValueError(
                "The model has no constraints. Pass them as in GP(X, y, constraints=[...])."
            )
        terms = log_statements(functions)
        own = np.array([s.name for s in constraints.statements])
        each = np.stack(
            [terms[..., own == name].sum(axis=-1) for name in constraints.names], axis=-1
        )
        hyper = functions.hyper
        draw = np.arange(functions.each) if hyper.alone else hyper.draw
        coords = {"chain": hyper.chain, "draw": draw, "constraint": constraints.names}
        return xr.DataArray(each, coords, ["chain", "draw", "constraint"])

    def _lasting(self) -> Functions:
        """The functions; raises where there are none that could be asked again."""
        if self._functions is None:
            raise ValueError(
                "The model's kernel has no random functions, so each call draws its numbers anew, "
                "and they do not belong to any density of y. Use sums, products and whole powers "
                f"of {', '.join(SPECTRAL)}, Periodic, Linear and Constant, or bx.Additive."
            )
        return self._functions

    def _points(
        self,
        X_new: Table | None,
        Z_new: Table | None,
        groups_new: Column | None,
        obs: Labels | None,
        needs_z: bool = True,
    ) -> Points:
        options: dict[str, Any] = {"groups_new": groups_new, "obs": obs, "needs_z": needs_z}
        with LOCK:  # two threads give two new labels two codes
            where = points(self._model, X_new, Z_new, others=self._groups, **options)
            if len(where.groups) > len(self._groups):
                self._groups[:] = where.groups
        return where

    def _ask(self, quantity: Question, where: Points, on: str = "latent") -> xr.Dataset:
        where, bent = where.having(positions=None), is_nonlinear(self._model, quantity, on)
        if bent and self.joint:
            raise ValueError(
                f"{quantity.name} of the response is computed by random functions, which this "
                "kernel does not have. Pass on='latent'."
            )
        if self._functions is None:
            options = {"joint": True, "on": on, **self._options}
            return evaluate(self._model, self._idata, quantity, where, **options)
        view = AtRows(quantity, where, Latent(self._model))
        if bent:
            view = by_chain_rule(quantity, where, Response(self._model))
        found = answer(self._functions, view, progressbar=self._options["progressbar"])
        return found.assign_attrs({FUNCTIONS: digest(*self._functions.updates)})
