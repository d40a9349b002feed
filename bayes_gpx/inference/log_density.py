"""Compiled functions of a PyMC model for inference, for few calls or for many."""

# PyTensor's Python linker compiles quickly, and the expensive operations of these functions
# (LAPACK, BLAS, large elementwise operations) release Python's lock. Numba compiles for seconds,
# and pays off if a sampler calls thousands of times from parallel threads. Data are constants of
# the compiled function, so everything that depends only on data is computed once.

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.backends.arviz import find_observations
from pymc.initial_point import make_initial_point_fn
from pymc.logprob.utils import ParameterValueError
from pytensor.compile.mode import Mode
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace, graph_replace
from pytensor.graph.traversal import apply_ancestors, graph_inputs

from bayes_gpx.aliases import Tensor
from bayes_gpx.inference.base import ValueAndSlope
from bayes_gpx.numerics.compile_modes import BUFFERED_MODE, MODE
from bayes_gpx.numerics.threads import LOCK, ThreadedFunction, copy
from bayes_gpx.numerics.upper_blocks import ByUpperBlocks
from bayes_gpx.posteriors.evidence.normal import NormalEvidence, terms_left_out

NATIVE_BELOW = 1000
"""Observations below which machine code is faster; from there on NumPy and LAPACK are as fast."""

LAST = 4096
"""Number of points for which a density keeps its results: four trajectories of depth 10."""

BUFFERED_BELOW = 2000
"""Observations below which arrays are kept for the next call; larger ones take too much memory."""


class Density:
    """A model's log density on the unconstrained vector, compiled."""

    # `jacobian` selects the density of the unconstrained variables (True) or of the hyperparameters
    # themselves (False). `long_run` compiles log density and gradient to machine code if this is
    # faster for thousands of calls. `changing` are shared variables with data that will be replaced
    # between calls; all other data are constants.

    def __init__(
        self,
        model: pm.Model,
        *,
        jacobian: bool,
        long_run: bool = False,
        changing: Sequence[SharedVariable] = (),
    ) -> None:
        self.model, self.jacobian = model, jacobian
        if model.discrete_value_vars:
            raise ValueError(
                f"The model has discrete variables {model.discrete_value_vars}, which have no "
                "gradient. Fix them, or give them continuous priors."
            )
        # Fast maths may order sums differently in code just compiled and in code from the cache;
        # the same seed must give the same draws.
        with LOCK, pytensor.config.change_flags(mode=MODE, numba__fastmath=False):
            self._natural_point = make_initial_point_fn(model=model, return_transformed=False)(0)
            values = model.continuous_value_vars
            self._free = [model.values_to_rvs[v] for v in values]
            self._forward = self._compile_forward()
            logp = model.logp(jacobian=jacobian)
            n = observations(model)
            small = n < NATIVE_BELOW or _any(logp, "by_sums")
            self.native = long_run and small and not _any(logp, "interpreted")
            slopes = pt.grad(logp, values)
            flat = pt.concatenate([g.ravel() for g in cast(list[Tensor], slopes)])
            expanded = model.replace_rvs_by_values(model.unobserved_RVs)
            x = pt.vector("x", shape=(sum(map(_size, self._shapes)),))
            known = _normal_evidence(logp) if self.native else []
            joined = clone_replace(
                [*_frozen([logp, flat, *known], changing), *expanded],
                dict(zip(values, self.split(x), strict=True)),
            )
            several, self._leaves_out = 2 + len(known), bool(known)
            self._visited: OrderedDict = OrderedDict()
            mode, compiled = _plain_mode(n), cast(Any, ThreadedFunction)
            if self.native:  # with numba, imported only where it is used
                from bayes_gpx.posteriors.evidence.numba_forms import NATIVE_MODE

                mode, compiled = NATIVE_MODE, pytensor.function
            self._value_and_slope = compiled([x], joined[:several], mode=mode, trust_input=True)
            self._expand = ThreadedFunction([x], joined[several:], trust_input=True)
            self._graph = x, joined[0]

    def _compile_forward(self) -> Callable:
        """Function from constrained values of the free variables to the unconstrained vector."""
        inputs = {rv: rv.type(rv.name) for rv in self._free}
        pieces = []
        for rv in self._free:
            transform = self.model.rvs_to_transforms[rv]
            value = rv if transform is None else transform.forward(rv, *rv.owner.inputs)
            pieces.append(value.ravel())
        joined = graph_replace([pt.concatenate(pieces)], inputs, strict=False)
        return ThreadedFunction(list(inputs.values()), joined[0])

    def unconstrain(self, start: Mapping[str, Any]) -> np.ndarray:
        """Unconstrained vector of a dict of constrained values; the rest at prior centres."""
        natural = [
            np.broadcast_to(start.get(rv.name, self._natural_point[rv.name]), shape)
            for rv, shape in zip(self._free, self._shapes, strict=True)
        ]
        return self._forward(*[np.array(v, dtype="float64") for v in natural])

    @property
    def _shapes(self) -> list[tuple[int, ...]]:
        return [np.shape(self._natural_point[rv.name]) for rv in self._free]

    def split(self, x: Tensor) -> list[Tensor]:
        """The free variables' parts of x, each in its shape."""
        ends = np.cumsum([*map(_size, self._shapes)]).tolist()
        return [
            x[end - _size(shape) : end].reshape(shape)
            for shape, end in zip(self._shapes, ends, strict=True)
        ]

    def value_and_slope(self, *, own: bool = True) -> ValueAndSlope:
        """Function x -> (log density, gradient), for the running thread, or not `own` for any."""
        if self.native:
            compiled = self._value_and_slope.vm.jit_fn
        else:
            compiled = _for_thread(self._value_and_slope, own)

        def evaluate(x: np.ndarray) -> tuple[float, np.ndarray]:
            try:
                with np.errstate(all="ignore"):
                    value, slope, *known = compiled(np.array(x, dtype="float64"))
            except ParameterValueError:  # such as a probability that overflowed
                return -np.inf, np.zeros_like(x)
            if known:
                in_C, alpha = known
                self._visited[x.tobytes()] = np.diagonal(in_C).copy(), alpha
                if len(self._visited) > LAST:
                    self._visited.popitem(last=False)
            if not (np.isfinite(value) and np.isfinite(slope).all()):
                return -np.inf, np.zeros_like(x)
            return float(value), slope

        return evaluate

    def left_out(self) -> Callable[[np.ndarray], np.ndarray] | None:
        """Function x -> log density of each response given the others (n,), or None."""
        # It is for one thread. It exists only for a joint normal density that is compiled to
        # machine code. A sampler draws points at which the density was evaluated, and the last
        # results are kept. Responses are as in the density.
        if not self._leaves_out:
            return None
        value_and_slope = self.value_and_slope()

        def evaluate(x: np.ndarray) -> np.ndarray:
            if x.tobytes() not in self._visited:
                value_and_slope(x)
            return terms_left_out(*self._visited[x.tobytes()])

        return evaluate

    @cached_property
    def height(self) -> Callable[[np.ndarray], float]:
        """Function x -> log density, without the gradient's cost, for any thread."""
        x, logp = self._graph
        mode = _plain_mode(observations(self.model))
        compiled = ThreadedFunction([x], logp, mode=mode, trust_input=True)

        def evaluate(x: np.ndarray) -> float:
            try:
                with np.errstate(all="ignore"):
                    value = float(compiled(np.array(x, dtype="float64")))
            except ParameterValueError:
                return -np.inf
            return value if np.isfinite(value) else -np.inf

        return evaluate

    def expand(self, *, own: bool = True) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
        """Function x -> dict of unobserved variables, for the running thread, or not `own`."""
        compiled = _for_thread(self._expand, own)
        names = [rv.name for rv in self.model.unobserved_RVs]

        def evaluate(x: np.ndarray) -> dict[str, np.ndarray]:
            return dict(zip(names, compiled(np.array(x, dtype="float64")), strict=True))

        return evaluate


def _for_thread(function: ThreadedFunction, own: bool) -> Callable:
    """The running thread's copy of a function, or a new one for whichever thread gets it."""
    return function.own if own else copy(function.own)


def _size(shape: Sequence[int]) -> int:
    return int(np.prod(shape))


def observations(model: pm.Model) -> int:
    """Length of the longest observed variable."""
    return max((len(np.atleast_1d(v)) for v in find_observations(model).values()), default=0)


def _normal_evidence(graph: Tensor) -> list[Tensor]:
    """Slope and C^-1 y of the `NormalEvidence` in a graph, if there is exactly one."""
    found: Any = [node for node in apply_ancestors([graph]) if isinstance(node.op, NormalEvidence)]
    return found[0].outputs[1:] if len(found) == 1 else []


def _any(graph: Tensor, attribute: str) -> bool:
    """Whether an operation of the graph has this attribute."""
    # `interpreted` if it runs in Python alone, `by_sums` if its time does not grow with n.
    return any(getattr(node.op, attribute, False) for node in apply_ancestors([graph]))


def _plain_mode(n: int) -> Mode:
    """PyTensor's Python linker, for a model of n observations."""
    mode = BUFFERED_MODE if n < BUFFERED_BELOW else MODE
    return mode.register((ByUpperBlocks(), 93))


def _frozen(outputs: Sequence[Tensor], changing: Sequence[SharedVariable]) -> list[Tensor]:
    """The graphs with shared variables, but for changing ones, replaced by their present values."""
    known: dict[Variable, Variable] = {
        v: pt.constant(v.get_value(), name=v.name)
        for v in graph_inputs(outputs)
        if isinstance(v, SharedVariable) and v not in changing
    }
    return cast(list[Tensor], clone_replace(outputs, known))
