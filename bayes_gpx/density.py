"""The functions of a PyMC model that inference runs on, compiled with the Python linker.

PyTensor's Python linker compiles in a moment, without a cache, where numba takes a minute on
a cold machine. What is heavy in these functions (LAPACK, BLAS, large elementwise operations)
releases Python's lock, so chains run in parallel threads.
"""

import os

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.backends.arviz import find_observations
from pymc.initial_point import make_initial_point_fn
from pymc.pytensorf import join_nonshared_inputs
from pytensor.compile.mode import Mode
from pytensor.graph.replace import graph_replace
from pytensor.link.basic import PerformLinker
from rich.console import Console
from rich.progress import Progress
from threadpoolctl import threadpool_limits

MODE = Mode(linker="py", optimizer="fast_compile")
"""Python linker: compiles in a moment, runs NumPy and LAPACK."""

BUFFERED_MODE = Mode(linker=PerformLinker(allow_gc=False), optimizer="fast_compile")
"""The same, with every intermediate array kept for the next call."""

THREADED_FROM = 3000
"""Observations from which BLAS is given more than one thread."""

BUFFERED_BELOW = 1000
"""Observations up to which keeping arrays is worth its memory (a third of the time)."""


class Density:
    """A model's log density on the unconstrained vector, compiled.

    Parameters
    ----------
    model : pymc.Model
    jacobian : bool
        Whether the density is of the unconstrained variables (True) or of the
        hyperparameters themselves (False).
    """

    def __init__(self, model, *, jacobian):
        self.model = model
        with pytensor.config.change_flags(mode=MODE):
            self._natural_point = make_initial_point_fn(model=model, return_transformed=False)(0)
            values = model.continuous_value_vars
            self._free = [model.values_to_rvs[v] for v in values]
            self._forward = self._compile_forward()
            point = self._split(self.unconstrain({}))
            logp = model.logp(jacobian=jacobian)
            slopes = pt.grad(logp, values)
            flat = pt.concatenate([g.ravel() for g in slopes])
            outputs, x = join_nonshared_inputs(point, [logp, flat], values)
            self._value_and_slope = pytensor.function(
                [x], outputs, mode=mode_for(model), trust_input=True
            )
            expanded = model.replace_rvs_by_values(model.unobserved_RVs)
            outputs, x = join_nonshared_inputs(point, expanded, values)
            self._expand = pytensor.function([x], outputs, mode=MODE, trust_input=True)

    def _compile_forward(self):
        inputs = {rv: rv.type(rv.name) for rv in self._free}
        pieces = []
        for rv in self._free:
            transform = self.model.rvs_to_transforms[rv]
            value = rv if transform is None else transform.forward(rv, *rv.owner.inputs)
            pieces.append(value.ravel())
        joined = graph_replace([pt.concatenate(pieces)], inputs, strict=False)
        return pytensor.function(list(inputs.values()), joined[0], mode=MODE)

    def unconstrain(self, start):
        """Unconstrained vector of a dict of constrained values; the rest at prior centres."""
        natural = [
            np.broadcast_to(start.get(rv.name, self._natural_point[rv.name]), shape)
            for rv, shape in zip(self._free, self._shapes, strict=True)
        ]
        return self._forward.copy()(*[np.array(v, dtype="float64") for v in natural])

    @property
    def _shapes(self):
        return [np.shape(self._natural_point[rv.name]) for rv in self._free]

    def _split(self, x):
        point, first = {}, 0
        for rv, shape in zip(self._free, self._shapes, strict=True):
            size = int(np.prod(shape))
            value = self.model.rvs_to_values[rv]
            point[value.name] = x[first : first + size].reshape(shape)
            first += size
        return point

    def value_and_slope(self):
        """Function x -> (log density, gradient), for the use of one thread."""
        compiled = self._value_and_slope.copy()

        def evaluate(x):
            with np.errstate(all="ignore"):
                value, slope = compiled(np.array(x, dtype="float64"))
            if not (np.isfinite(value) and np.isfinite(slope).all()):
                return -np.inf, np.zeros_like(x)
            return float(value), slope

        return evaluate

    def expand(self):
        """Function x -> dict of the model's unobserved variables, for one thread."""
        compiled = self._expand.copy()
        names = [rv.name for rv in self.model.unobserved_RVs]

        def evaluate(x):
            return dict(zip(names, compiled(np.array(x, dtype="float64")), strict=True))

        return evaluate


def observations(model):
    """Length of the longest observed variable."""
    return max((len(np.atleast_1d(v)) for v in find_observations(model).values()), default=0)


def mode_for(model):
    """How to compile a function of all observations."""
    return BUFFERED_MODE if observations(model) < BUFFERED_BELOW else MODE


def blas_threads(n, parallel=1):
    """Context in which BLAS uses as many threads as n observations are worth.

    Factors of small matrices gain little by more than one thread, and lose twentyfold by it
    where another process wants the processor; `parallel` chains share the processors.
    """
    enough = n >= THREADED_FROM
    return threadpool_limits(max(1, (os.cpu_count() or 1) // parallel) if enough else 1)


def progress_bar(wanted):
    """Progress display on a terminal or in a notebook; silent where output goes to a file."""
    console = Console(stderr=True)
    visible = wanted and (console.is_terminal or console.is_jupyter)
    return Progress(console=console, disable=not visible, transient=True)


def per_draw(model, idata, graphs, *, progressbar=True, description="Evaluating"):
    """Evaluate graphs of the model's free variables at every posterior draw.

    Parameters
    ----------
    graphs : dict of str to TensorVariable

    Returns
    -------
    dict of arrays, (chain, draw, ...)
    """
    free = model.free_RVs
    inputs = {rv: rv.type(rv.name) for rv in free}
    outputs = graph_replace(list(graphs.values()), inputs, strict=False)
    compiled = pytensor.function(
        list(inputs.values()), outputs, mode=mode_for(model), trust_input=True
    )
    posterior = idata["posterior"]
    columns = [posterior[rv.name].values for rv in free]
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    rows = []
    with progress_bar(progressbar) as progress:
        for at in progress.track(list(np.ndindex(chains, draws)), description=description):
            rows.append(compiled(*[np.asarray(column[at]) for column in columns]))
    return {
        name: np.stack(values).reshape((chains, draws, *np.shape(values[0])))
        for name, values in zip(graphs, zip(*rows, strict=True), strict=True)
    }
