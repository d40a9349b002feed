"""Other models with the same fit: for another quantity, or with more rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np

from bayes_gpx.aliases import Column, Draws, Table
from bayes_gpx.data.scaling import Scaling
from bayes_gpx.likelihoods.events import KINDS, NEEDED, Event
from bayes_gpx.model.updating import updated
from bayes_gpx.validation import one_of


class Views:
    """Methods that return another model with the same fit."""

    training: Any
    specification: Any

    def of_output(self, name: str) -> Self:
        """Return the model for explanations of one output, in its units.

        For a model with a table of outputs. The posterior is given all outputs.
        """
        if self.training.outputs is None:
            raise ValueError("The model has one response. Use a model with a table of responses.")
        return self._view(training=self.training.of_output(name))

    def of_event(self, of: str, at: float | str) -> Self:
        """Return the model for explanations of an event of y instead of its mean.

        Every explanation function takes the result in place of the model, with the same `idata`;
        many have the options `of` and `at` themselves. They explain on the response scale, at an
        exposure of 1, and predictions are at the exposure of each row.

        Parameters
        ----------
        of : {"survival", "probability", "hazard", "quantile"}
            Survival is the probability that y > at; "probability", for whole numbers, that y = at.
            "hazard" is the density of y over survival, and "quantile" the y that is not exceeded
            with probability `at`: both for "normal", "lognormal", "gamma", "weibull" and
            "loglogistic".
        at : float or str
            A value of y, in its units, or a category by name; for "quantile", a probability.

        Examples
        --------
        >>> import numpy as np
        >>> import bayes_gpx as bx
        >>> X = np.linspace(0.0, 3.0, 20)[:, None]
        >>> model = bx.GP(X, np.exp(X[:, 0]), likelihood="weibull", scale=False)
        >>> theta = {"lengthscale": [1.0], "amplitude": 2.0, "shape": 5.0}
        >>> longer = model.of_event("survival", 10.0)
        >>> found = bx.predictions(longer, theta, [[1.0], [3.0]], keep="summary", progressbar=False)
        >>> found["survival_mean"].values.round(2)
        array([0.  , 0.95])
        """
        one_of("of", of, KINDS)
        observation = self.specification.observation
        if observation.processes:
            raise ValueError(
                f"of is {of!r}, but likelihood={self.specification.likelihood!r} has two latent "
                "values for each row. Take the share of draws of y from bx.predictions instead; a "
                "quantile is the mean plus a multiple of the sd, in every explanation's draws."
            )
        if observation.class_shape or not observation.ordered:
            raise ValueError(
                f"of is {of!r}, but likelihood={self.specification.likelihood!r} has no order of "
                "y. Its probabilities are explained without of_event."
            )
        names = getattr(observation, "names", ())
        if isinstance(at, str) and names and of != "quantile":
            one_of("at", at, names)
            at = names.index(at)
        try:
            at = float(at)
        except (TypeError, ValueError):
            raise ValueError(f"at is {at!r}. Pass a number.") from None
        if observation.exposure_name != "exposure":
            raise ValueError(
                f"of is {of!r}, but the model has {observation.exposure_name}=, and the "
                "probability depends on that of each new row. Compare draws of y from "
                f"bx.predictions(..., {observation.exposure_name}=...) instead."
            )
        if of == "probability" and not observation.discrete:
            raise ValueError(f"of is {of!r}, but y is no whole number. Pass of='survival'.")
        if not any(hasattr(observation, name) for name in NEEDED.get(of, ("logp",))):
            jumps = of == "quantile" and observation.discrete
            reason = ": quantiles of whole numbers jump" if jumps else ""
            raise ValueError(
                f"of is {of!r}, which likelihood={self.specification.likelihood!r} does not have"
                f"{reason}. Use 'normal', 'lognormal', 'gamma', 'weibull' or 'loglogistic', or "
                "of='survival'."
            )
        if of != "quantile":
            self._refuse_no_value(at)
        elif not 0.0 < at < 1.0:
            raise ValueError(f"at is {at!r}, but a quantile needs a probability between 0 and 1.")
        self.training.refuse_all_outputs()
        scaling = self.training.y_scaling if observation.scaled else Scaling(0.0, 1.0)
        event = Event(observation, of, at, float(scaling.center), float(scaling.scale))
        return self._view(specification=replace(self.specification, event=event))

    def _refuse_no_value(self, at: float) -> None:
        """Raise if y is never `at`."""
        try:
            self.specification.observation.read(np.array([at]))
        except ValueError:
            raise ValueError(
                f"at is {at!r}, but likelihood={self.specification.likelihood!r} has no such value "
                "of y. Pass a value that y can have."
            ) from None

    def of_weight(self, name: str) -> Self:
        """Return the model for explanations of the weight of one column of Z instead of f.

        For a `GPX`. `derivatives`, `slopes`, `attributions`, `shapley_values` and `comparisons`
        have the option ``of=("weight", name)`` for it; `partial_dependence` takes the result in
        place of the model. They explain the weight function g(x), without the deviations of rows,
        in units of f per unit of the column, and need no Z_new.

        Parameters
        ----------
        name : str
            A column of Z, or "intercept"; of a categorical column, the column of one level.

        Examples
        --------
        >>> import numpy as np
        >>> import bayes_gpx as bx
        >>> X = np.random.default_rng(1).uniform(size=(60, 2))
        >>> Z = np.random.default_rng(2).normal(size=(60, 1))
        >>> model = bx.GPX(X, Z[:, 0] * X[:, 1], Z, scale=False)  # the weight of z0 is x1
        >>> theta = {"lengthscale": [2.0, 2.0], "amplitude": 2.0, "sigma_w": 0.0, "sigma": 0.01}
        >>> options = {"keep": "summary", "progressbar": False}
        >>> found = bx.derivatives(model.of_weight("z0"), theta, [[0.5, 0.5]], **options)
        >>> found["derivative_mean"].values.round(1) + 0.0
        array([[0., 1.]])
        """
        return self._view(training=self.training.of_weight(name))

    def update(
        self,
        idata: Draws,
        X_new: Table,
        y_new: Column,
        *,
        Z_new: Table | None = None,
        groups_new: Column | None = None,
        exposure: Column | None = None,
        seed: int | None = None,
        progressbar: bool = True,
    ) -> tuple[Self, Draws]:
        """Add rows to the training data without another fit.

        Given the hyperparameters, the function is conditioned on all rows. Draws of the
        hyperparameters are weighted by how well they predicted the new rows, and resampled; a
        posterior mode stays as it is. Centers, scales, inducing points and the points of
        constraints do not change.

        Parameters
        ----------
        idata : xarray.DataTree or dict
            A fit of this model, or a dict of fixed hyperparameters.
        X_new, y_new, Z_new : frame or array (m, d), (m,) and (m, p)
            The new rows, with the columns of the training data.
        groups_new, exposure : array (m,), optional
            As of the training rows; a new label is a new group.
        seed : int, optional
        progressbar : bool

        Returns
        -------
        model, idata
            The model of all rows, and its fit. Row labels 0, 1, ... go on; others are kept. `idata`
            has one chain, and its attributes `khat` and `convergence` say whether the weights are
            reliable.

        Warns
        -----
        ConvergenceWarning
            If a few draws have most of the weight. Fit the returned model then.

        Raises
        ------
        ValueError
            For new rows that do not fit the training data, or leave the box of an `HSGP`; and for
            models of several outputs, out-of-core rows, rows with weights, bounds, trials or known
            noise, or sampled latent values.

        Examples
        --------
        >>> import numpy as np
        >>> import bayes_gpx as bx
        >>> X = np.linspace(0.0, 3.0, 20)[:, None]
        >>> model = bx.GP(X, np.sin(X[:, 0]), scale=False)
        >>> theta = {"lengthscale": [1.0], "amplitude": 1.0, "sigma": 0.1}
        >>> model, theta = model.update(theta, [[4.0], [5.0]], np.sin([4.0, 5.0]))
        >>> found = bx.predictions(model, theta, [[4.5]], keep="summary", progressbar=False)
        >>> round(found["f_mean"].item(), 2)  # sin(4.5)
        -0.97
        """
        rows = X_new, Z_new, y_new
        return updated(self, idata, rows, groups_new, exposure, seed, progressbar)

    def _view(self, **changed: Any) -> Self:
        """The model with another attribute; all that is compiled is shared."""
        view = type(self).__new__(type(self))
        view.__dict__.update(self.__dict__, **changed)
        return view
