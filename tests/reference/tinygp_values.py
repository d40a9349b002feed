"""Numbers of another package, tinygp: ``python tests/reference/tinygp_values.py`` rewrites them.

tinygp (MIT licence) computes kernels and conditionals in JAX, whose automatic differentiation also
gives the derivatives of the posterior mean and integrated gradients by quadrature. Neither is a
dependency: install ``tinygp==0.3.1`` in an environment of its own. The values are stored beside
this script.
"""

import json
from pathlib import Path

import numpy as np

STORED = Path(__file__).with_suffix(".json")

THETA = {"amplitude": 1.3, "sigma": 0.4}
"""Hyperparameters that all kernels have; others are in `KERNELS`."""

KERNELS = {
    "expquad": {"lengthscale": [0.8, 1.7, 2.5]},
    "matern52": {"lengthscale": [0.8, 1.7, 2.5]},
    "matern32": {"lengthscale": [1.2, 0.9, 3.0]},
    "ratquad": {"lengthscale": [0.8, 1.7, 2.5], "alpha": 1.5},
    "linear": {},
    "polynomial": {"offset": 0.7, "degree": 3.0},
    "expquad * linear": {"expquad_lengthscale": [1.5, 2.0, 1.0]},
}
"""Kernels by name, with their hyperparameters."""


def rows():
    """Training rows X (20, 3) and y, and new rows (4, 3)."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(20, 3))
    y = np.sin(1.5 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=20)
    return X, y, rng.normal(size=(4, 3))


def kernel(name, theta):
    """A kernel of tinygp, in the parameters of bayes_gpx."""
    import jax.numpy as jnp
    from tinygp import kernels, transforms

    if name == "expquad * linear":
        own = {"lengthscale": theta["expquad_lengthscale"]}
        return kernel("expquad", own) * kernels.DotProduct()
    if name == "linear":
        return kernels.DotProduct()
    if name == "polynomial":
        return kernels.Polynomial(order=theta["degree"], sigma=jnp.sqrt(theta["offset"]))
    apart = {"distance": kernels.distance.L2Distance()}
    known = {
        "expquad": kernels.ExpSquared(),
        "matern52": kernels.Matern52(**apart),
        "matern32": kernels.Matern32(**apart),
        "ratquad": kernels.RationalQuadratic(alpha=theta.get("alpha", 1.0), **apart),
    }
    return transforms.Linear(1.0 / jnp.array(theta["lengthscale"]), known[name])


def values(name, own):
    """Log density, and at new rows mean, sd, derivatives and attributions from 0."""
    import jax
    import jax.numpy as jnp
    from tinygp import GaussianProcess

    X, y, new = map(jnp.array, rows())
    covariance = THETA["amplitude"] ** 2 * kernel(name, own)
    process = GaussianProcess(covariance, X, diag=THETA["sigma"] ** 2)
    given = process.condition(y, new, diag=0.0)  # by default it adds 1.5e-8

    def mean(x):
        return process.condition(y, x[None]).gp.loc[0]

    slope = jax.jit(jax.vmap(jax.grad(mean)))
    nodes, weights = np.polynomial.legendre.leggauss(800)
    along = [w / 2 * slope(new * (t + 1) / 2) for t, w in zip(nodes, weights, strict=True)]
    return {
        "log_likelihood": float(given.log_probability),
        "f_mean": given.gp.loc.tolist(),
        "f_sd": jnp.sqrt(given.gp.variance).tolist(),
        "derivative_mean": slope(new).tolist(),
        "attribution_mean": (new * sum(along)).tolist(),
    }


def main():
    """Compute all values, and store them."""
    import jax

    jax.config.update("jax_enable_x64", True)
    found = {name: values(name, own) for name, own in KERNELS.items()}
    STORED.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
