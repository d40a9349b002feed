"""The models: frames, kernel and priors become a plain `pymc.Model` with named dims."""

import json
import os
from functools import cached_property

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

from bayes_gpx import inference
from bayes_gpx.evidence import leave_one_out, normal_logp
from bayes_gpx.frames import (
    Scaling,
    identity_scaling,
    read_features,
    read_response,
    standard_scaling,
)
from bayes_gpx.likelihoods import LIKELIHOODS
from bayes_gpx.posteriors.exact import noisy_covariance
from bayes_gpx.specification import Specification, create_variables, fixed_value, one_of

FIT_METHODS = ("map", "laplace", "nuts")
DRAWS_WORTH_LOO = 100
"""From this many draws on, `fit` adds leave-one-out terms for `arviz.loo`."""

INTERCEPT = "intercept"


class Model:
    """What `GP` and `GPX` share; abstract.

    Attributes
    ----------
    X : Frame
        Training features in user units.
    Z : Frame or None
        Features that GPX weighs, with the intercept column if there is one.
    y : array (n,)
        Response in user units.
    X_scaling, Z_scaling, y_scaling : Scaling
    specification : Specification
    hyperparameters : dict
        Hyperparameter name -> number of dimensions of one draw.
    fixed : dict of arrays
        Those that are not inferred.
    priors : dict
        As given.
    """

    def __init__(
        self, X, y, specification, *, Z=None, intercept=False, priors, scale, name, scalings=None
    ):
        self.specification, self.name, self.scale = specification, name, scale
        self.intercept, self.z_is_x = intercept, Z is None
        self.X = read_features(X, "X")
        self.y = read_response(y, self.X.index)
        self.y_name = str(getattr(y, "name", None) or "y")
        self.Z = self._read_weighed(Z) if specification.family == "GPX" else None
        self.X_scaling, self.y_scaling, self.Z_scaling = scalings or self._scalings()
        self.priors = dict(priors or {})
        self._build()

    @classmethod
    def restored(cls, X, y, specification, scalings, **settings):
        """The model with scalings that were frozen before; for `bayes_gpx.io`."""
        model = cls.__new__(cls)
        Model.__init__(model, X, y, specification, scalings=scalings, **settings)
        return model

    def _scalings(self):
        X = standard_scaling(self.X, "X") if self.scale else identity_scaling(self.d)
        return X, self._response_scaling(), self._weighed_scaling() if self.Z is not None else None

    def _read_weighed(self, Z):
        frame = self.X if Z is None else read_features(Z, "Z", prefix="z")
        if len(frame) != len(self.X):
            raise ValueError(f"X has {len(self.X)} rows and Z has {len(frame)}; expected as many.")
        return frame.with_column(INTERCEPT, np.ones(len(frame))) if self.intercept else frame

    def _weighed_scaling(self):
        if not self.scale:
            return identity_scaling(self.p)
        columns = self.p - self.intercept
        own = type(self.Z)(self.Z.values[:, :columns], self.Z.columns[:columns], self.Z.index)
        scaling = standard_scaling(own, "Z")
        if not self.intercept:
            return scaling
        return Scaling(np.append(scaling.center, 0.0), np.append(scaling.scale, 1.0))

    def _response_scaling(self):
        if not self.scale:
            return Scaling(0.0, 1.0)
        center, scale = float(self.y.mean()), float(self.y.std())
        if scale <= 1e-14 * np.abs(self.y).max():
            raise ValueError("y is constant, which cannot be scaled. Expected a varying response.")
        return Scaling(center, scale)

    @property
    def d(self):
        """Number of columns of X."""
        return len(self.X.columns)

    @property
    def p(self):
        """Number of features that are weighed; 1 for a GP."""
        return 1 if self.Z is None else len(self.Z.columns)

    def size(self, dim):
        """Length of the dim "feature" or "z_feature"."""
        return {"feature": self.d, "z_feature": self.p}[dim]

    def _rename(self, name):
        return f"{self.name}_{name}" if self.name else name

    def _build(self):
        outer = pm.Model.get_context(error_if_none=False)
        self._pymc = pm.Model() if outer is None else outer
        rename, spec = self._rename, self.specification
        obs, feature, z_feature = rename("obs"), rename("feature"), rename("z_feature")
        with self._pymc:
            self._pymc.add_coords({obs: self.X.index, feature: list(self.X.columns)})
            x = pm.Data(rename("X"), self.X.values, dims=(obs, feature))
            z = None
            x_model = z_model = self.X_scaling.apply(x)
            if self.Z is not None:
                self._pymc.add_coords({z_feature: list(self.Z.columns)})
                if not self.z_is_x or self.intercept:
                    z = pm.Data(rename("Z"), self.Z.values, dims=(obs, z_feature))
                    z_model = self.Z_scaling.apply(z)
            else:
                z_model = None
            theta, self.fixed = create_variables(
                spec, self.priors, d=self.d, p=self.p, rename=rename
            )
            before = {rv.name for rv in self._pymc.free_RVs}
            process = spec.process(theta, self.d)
            own = [rv for rv in self._pymc.free_RVs if rv.name not in before]
            C = noisy_covariance(process, x_model, theta["sigma"], z_model)
            center, scale = self.y_scaling.center, self.y_scaling.scale
            pm.CustomDist(
                rename("y"),
                pt.full((x.shape[0],), center),
                scale**2 * C,
                logp=lambda value, mean, C: normal_logp(value - mean, C),
                dist=lambda mean, C, size: pm.MvNormal.dist(mean, C, size=size),
                signature="(n),(n,n)->(n)",
                observed=self.y,
                dims=obs,
            )
            y = pt.as_tensor(self.y_scaling.apply(self.y))
            _, mean, variance = leave_one_out(y, C)
            terms = LIKELIHOODS[spec.likelihood].log_predictive(y, mean, variance)
            self._leave_one_out = terms - np.log(scale)
        self.hyperparameters = {h.name: h.ndim for h in spec.hyperparameters}
        self.hyperparameters |= {rv.name: rv.ndim for rv in own}
        self._own = [rv.name for rv in own]

    @cached_property
    def pymc(self):
        """The generative `pymc.Model`: hyperparameters and collapsed y, in user units."""
        from bayes_gpx import evidence_numba  # noqa: F401

        return self._pymc

    @property
    def signature_key(self):
        """Attribute of an idata that holds the signature of the model that was fitted."""
        return self._rename("bayes_gpx_model")

    @property
    def signature(self):
        """Text that tells one model from another: structure, columns and size."""
        spec = self.specification
        kernel = spec.kernel if isinstance(spec.kernel, str) else "callable"
        return json.dumps(
            {
                "family": spec.family,
                "kernel": kernel,
                "ard": spec.ard,
                "likelihood": spec.likelihood,
                "weight_prior": spec.weight_prior,
                "scale": self.scale,
                "features": self.X.columns,
                "z_features": None if self.Z is None else self.Z.columns,
                "n": len(self.X),
            }
        )

    def posterior_name(self, hyperparameter):
        """Name of a hyperparameter's variable in the posterior group."""
        return hyperparameter if hyperparameter in self._own else self._rename(hyperparameter)

    def fixed_hyperparameters(self, values):
        """Check a complete dict of fixed hyperparameters, on the model's scale.

        Returns
        -------
        dict of arrays by hyperparameter name

        Raises
        ------
        ValueError
            For a name that is unknown or missing, or a value that is not admissible.
        """
        for name in values:
            one_of("hyperparameters", name, self.hyperparameters)
        missing = [n for n in self.hyperparameters if n not in values and n not in self.fixed]
        if missing:
            raise ValueError(
                f"The dict of fixed hyperparameters lacks {missing}; expected all of "
                f"{list(self.hyperparameters)}, on the model's scale."
            )
        sizes = {"feature": self.d, "z_feature": self.p}
        known = {h.name: h for h in self.specification.hyperparameters}
        checked = {
            name: fixed_value(known[name], value, sizes)
            if name in known
            else np.asarray(value, dtype="float64")
            for name, value in values.items()
        }
        return {**self.fixed, **checked}

    def data(self):
        """Training data on the model's scale: X, y and, for GPX, Z."""
        data = {"X": self.X_scaling.apply(self.X.values), "y": self.y_scaling.apply(self.y)}
        if self.Z is not None:
            data["Z"] = self.Z_scaling.apply(self.Z.values)
        return data

    def read_new(self, X_new, Z_new=None, *, needs_z=True):
        """Read new samples in user units; returns frames X and Z (None for a GP)."""
        X = read_features(X_new, "X_new", like=self.X.columns, minimum_rows=1)
        if self.Z is None:
            if Z_new is not None:
                raise ValueError("Z_new was given, but this model has no Z; leave it out.")
            return X, None
        weighed = self.Z.columns[: self.p - self.intercept]
        if self.z_is_x:
            if Z_new is not None:
                raise ValueError("Z_new was given, but this model weighs X itself; leave it out.")
            Z = X
        elif Z_new is None:
            if needs_z:
                raise ValueError(
                    "This model weighs features Z of their own; pass Z_new with the columns "
                    f"{list(weighed)} beside X_new."
                )
            return X, None
        else:
            Z = read_features(Z_new, "Z_new", prefix="z", like=weighed, minimum_rows=1)
        if len(Z) != len(X):
            raise ValueError(f"X_new has {len(X)} rows and Z_new has {len(Z)}; expected as many.")
        return X, Z.with_column(INTERCEPT, np.ones(len(Z))) if self.intercept else Z

    def starts(self):
        """Where optimisers start: around the median heuristic, and the priors' centres."""
        data = self.data()
        x = data["X"][:: max(1, len(data["X"]) // 500)]
        squares = (x**2).sum(axis=1)
        distances = squares[:, None] + squares[None] - 2 * x @ x.T
        apart = np.median(np.sqrt(np.maximum(distances[np.triu_indices(len(x), 1)], 0.0))) or 1.0
        size = float(data["y"].std()) or 1.0
        z_norm = np.sqrt((data["Z"] ** 2).sum(axis=1).mean()) if "Z" in data else 1.0
        kinds = {h.name: h.kind for h in self.specification.hyperparameters}
        starts = [{}]
        for reach, signal, noise, own in START_GRID:
            by_kind = {
                "lengthscale": reach * apart,
                "amplitude": signal * size / z_norm,
                "sigma": noise * size,
                "sigma_w": own * size / z_norm,
            }
            starts.append({self._rename(n): by_kind[k] for n, k in kinds.items() if k in by_kind})
        return starts

    def fit(
        self,
        method="map",
        *,
        draws=1000,
        tune=1000,
        chains=4,
        seed=None,
        progressbar=True,
        **kwargs,
    ):
        """Infer the hyperparameters.

        Parameters
        ----------
        method : {"map", "laplace", "nuts"}
            "map" maximises the posterior density of the hyperparameters themselves and
            gives one draw. "laplace" draws from a normal approximation at the mode of the
            unconstrained density. "nuts" samples, from starts around that mode.
        draws, tune, chains : int
            Of "nuts", for each chain; "laplace" gives `draws` in one chain.
        seed : int, optional
        progressbar : bool
        **kwargs
            Of "nuts": `nuts_sampler` ("nutpie", or "pymc", "numpyro", "blackjax"), `cores`,
            and whatever the sampler takes.

        Returns
        -------
        xarray.DataTree
            Groups posterior, sample_stats, observed_data, constant_data, starts (the end of
            each start of the optimiser) and, from 100 draws on, log_likelihood with the
            leave-one-out terms that `arviz.loo` needs.

        Warns
        -----
        ConvergenceWarning
            If an optimiser or sampler did not converge.
        """
        one_of("method", method, FIT_METHODS)
        common = {"progressbar": progressbar, **kwargs}
        if method != "map":
            common |= {"draws": draws, "seed": seed}
        if method == "nuts":
            common |= {"tune": tune, "chains": chains}
            parallel = min(chains, common.get("cores") or os.cpu_count() or 1)
        else:
            parallel = 1
        fitter = getattr(inference, f"fit_{method}")
        with inference.blas_threads(len(self.y), parallel):
            idata = fitter(self._pymc, self.starts(), **common)
        idata.attrs[self.signature_key] = self.signature
        if idata["posterior"].sizes["chain"] * idata["posterior"].sizes["draw"] < DRAWS_WORTH_LOO:
            return idata
        with inference.blas_threads(len(self.y)):
            idata["log_likelihood"] = self._log_likelihood(idata, progressbar)
        return idata

    def _log_likelihood(self, idata, progressbar):
        terms = inference.per_draw(
            self._pymc,
            idata,
            {"terms": self._leave_one_out},
            progressbar=progressbar,
            description="Leave-one-out",
        )["terms"]
        obs, posterior = self._rename("obs"), idata["posterior"]
        coords = {obs: self.X.index, "chain": posterior["chain"], "draw": posterior["draw"]}
        variables = {self._rename("y"): (("chain", "draw", obs), terms)}
        return xr.DataTree(xr.Dataset(variables, coords))


START_GRID = (
    (1.0, 1.0, 0.1, 0.1),
    (1.0, 0.7, 0.7, 0.1),
    (3.0, 1.0, 0.5, 0.05),
    (0.3, 1.0, 0.3, 0.1),
)
"""Lengthscale over the median distance; prior sd of f, noise sd and eps_w's share over sd(y)."""


class GP(Model):
    """Gaussian process regression.

    ``y = f(x) + noise``, f a zero-mean Gaussian process (of the scaled response), noise
    N(0, sigma^2).

    Parameters
    ----------
    X : pandas or polars frame, xarray.DataArray or array (n, d)
    y : series or array (n,)
    kernel : str or callable
        "expquad", "matern52", "matern32", "ratquad", "linear", "polynomial", "periodic",
        joined by ``+`` and ``*``; or ``kernel(d)``, called inside the model, that
        returns a PyMC covariance function complete with its amplitude.
    ard : bool
        One lengthscale for each feature.
    likelihood : {"normal"}
    priors : dict, optional
        Hyperparameter name -> callable returning a PyMC variable (called with the name, and
        `dims` if it takes them), object with ``create_variable(name)``, or fixed number.
    scale : bool
        Standardise X and y (sd with ddof 0). Priors and hyperparameters are on the scaled
        units, every result is in user units.
    name : str
        Prefix of variables and dims, for a model built inside a ``with pm.Model()`` block.

    Raises
    ------
    ValueError
        For data that is not finite, numeric, varying and of matching size, and for unknown
        names, before any sampling starts.

    Notes
    -----
    Exact: memory grows with n^2, time with n^3.
    """

    def __init__(
        self,
        X,
        y,
        *,
        kernel="expquad",
        ard=True,
        likelihood="normal",
        priors=None,
        scale=True,
        name="",
    ):
        specification = Specification("GP", kernel, ard, likelihood)
        super().__init__(X, y, specification, priors=priors, scale=scale, name=name)


class GPX(Model):
    """Regression with a Gaussian process on each feature's weight [1]_.

    ``y = z' w(x) + noise``, ``w_l(x) = g_l(x) + eps_w,l``: g_l are zero-mean Gaussian
    processes with the kernel, `eps_w` ~ N(0, sigma_w^2) is each sample's own, and noise is
    N(0, sigma^2).

    Parameters
    ----------
    X : pandas or polars frame, xarray.DataArray or array (n, d)
        What the weights vary with.
    y : series or array (n,)
    Z : like X, (n, p), optional
        Features that are weighed; X itself by default.
    kernel, ard, likelihood, priors, scale, name
        As in `GP`; `scale` standardises Z too.
    weight_prior : {"shared", "per_feature", "horseshoe"}
        One amplitude for all weight functions; one for each; or one for each under a
        regularised horseshoe, where `eps_w,l` has sd ``sigma_w amplitude_l``.
    intercept : bool
        Weigh a constant 1 too, as the last column `intercept`.

    Notes
    -----
    `sigma_w` is weakly identified: the data see it only through the variance of y growing
    with the length of z, so its prior matters. State it when you publish weights of training
    samples.

    References
    ----------
    .. [1] Yoshikawa and Iwata, "Gaussian process regression with interpretable sample-wise
       feature weights", IEEE Transactions on Neural Networks and Learning Systems 34 (2023)
       5789-5803, equations 3 to 6 and 13.
    """

    def __init__(
        self,
        X,
        y,
        Z=None,
        *,
        kernel="expquad",
        ard=True,
        likelihood="normal",
        priors=None,
        scale=True,
        name="",
        weight_prior="shared",
        intercept=False,
    ):
        specification = Specification("GPX", kernel, ard, likelihood, weight_prior)
        super().__init__(
            X, y, specification, Z=Z, intercept=intercept, priors=priors, scale=scale, name=name
        )
