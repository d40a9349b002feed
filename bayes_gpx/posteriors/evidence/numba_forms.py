"""Machine code by numba: a form of `NormalEvidence`, and a mode for functions in threads.

Importing this file registers the forms with PyTensor. It takes over a second, so only samplers
import it, and models that a user samples by PyMC.
"""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import llvmlite.binding
import numba
import numpy as np
import pytensor
from numba.extending import overload, register_jitable

# Numba fills this module as it runs; mypy sees an empty one.
from numba.types import ExternalFunction, void, voidptr  # type: ignore[attr-defined]
from pytensor.compile.mode import NUMBA, Mode
from pytensor.configdefaults import config
from pytensor.graph.basic import Apply, Constant
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.link.numba.cache import CACHED_SRC_FUNCTIONS
from pytensor.link.numba.dispatch.basic import (
    get_numba_type,
    numba_funcify_and_cache_key,
    numba_njit,
    register_funcify_and_cache_key,
)
from pytensor.link.numba.linker import NumbaLinker
from pytensor.tensor.math import Dot

from bayes_gpx.aliases import Tensor
from bayes_gpx.kernels import distance
from bayes_gpx.kernels.distance import CLOSE, LEAST, ScaleSlopes, SquaredDistances
from bayes_gpx.numerics import lapack
from bayes_gpx.posteriors.evidence import factors, laplace, normal, sums
from bayes_gpx.posteriors.evidence.expectation_propagation import PropagatedSites
from bayes_gpx.posteriors.evidence.factors import (
    factor,
    half,
    inverse,
    signed_factor,
    signed_solve,
    solve,
    symmetric,
)
from bayes_gpx.posteriors.evidence.intervals import IntervalSites, interval_sites
from bayes_gpx.posteriors.evidence.laplace import (
    LaplaceEvidence,
    at_mode,
    climb,
    local_graph,
    nothing,
)
from bayes_gpx.posteriors.evidence.normal import (
    LowRankEvidence,
    NormalEvidence,
    low_rank_logp_and_slopes,
)
from bayes_gpx.posteriors.evidence.sums import SumsEvidence, sums_logp_and_slopes

type Form = tuple[Callable, str | None]
"""Machine code of an operation, and under which it is kept; None where it is not."""

_potrf, _potrs, _invert = lapack.potrf, lapack.potrs, lapack.invert

_ROOMS = distance, factors, normal, lapack, laplace, sums
_SOURCES = [Path(cast(str, room.__file__)) for room in _ROOMS] + [Path(__file__)]
_EDITION = sha256(b"".join(path.read_bytes() for path in _SOURCES)).hexdigest()
"""Digest of the sources that machine code is made from."""


def _key(*parts: Any) -> str:
    """Under which machine code is kept on disk, until a source that it is made from changes."""
    return sha256(str((*parts, _EDITION)).encode()).hexdigest()


def _linked(routine: Callable, name: str, number: int) -> None:
    """Teach numba a LAPACK routine by name: unlike its address, that holds in other processes."""
    symbol = f"bayes_gpx_{name}"
    llvmlite.binding.add_symbol(symbol, lapack.address(name))
    external = ExternalFunction(symbol, void(*[voidptr] * number))

    @overload(routine)
    def _call(*arguments: Any) -> Callable:
        def call(*arguments: Any) -> None:
            external(*arguments)

        return call


for _name, _number in lapack.ARGUMENTS.items():
    _linked(getattr(lapack, _name[1:]), _name, _number)


@register_funcify_and_cache_key(NormalEvidence)
def _normal_evidence(op: Any, node: Apply, **kwargs: Any) -> Form:
    """For C (n, n) and y (n,): the log density, its derivative in C, and C^-1 y."""

    @numba_njit
    def normal_evidence(C: np.ndarray, y: np.ndarray) -> Any:
        n = y.shape[0]
        factor, alpha = C.copy(), y.copy()
        uplo = np.array([ord("L")], np.uint8)
        order, one, info = np.array([n], np.int32), np.array([1], np.int32), np.zeros(1, np.int32)
        u, k, i = uplo.ctypes, order.ctypes, info.ctypes
        _potrf(u, k, factor.ctypes, k, i)
        if info[0] != 0 or not np.isfinite(factor[-1, -1]):
            return np.asarray(-np.inf), np.zeros((n, n)), np.zeros(n)
        half_logdet = 0.0
        for j in range(n):
            half_logdet += np.log(factor[j, j])
        _potrs(u, k, one.ctypes, factor.ctypes, k, alpha.ctypes, k, i)
        logp = -0.5 * np.sum(y * alpha) - half_logdet - 0.5 * n * np.log(2 * np.pi)
        _invert(factor)
        for r in range(n):
            factor[r, :r] = 0.0
            for c in range(r, n):
                factor[r, c] = alpha[r] * alpha[c] - factor[r, c]
            factor[r, r] *= 0.5
        return np.asarray(logp), factor, alpha

    return normal_evidence, _key("normal")


@overload(symmetric)
def _symmetric(upper: np.ndarray) -> Any:
    def fill(upper: np.ndarray) -> np.ndarray:
        for i in range(len(upper)):
            for j in range(i):
                upper[i, j] = upper[j, i]
        return upper

    return fill


for _function in (
    lapack.invert,
    nothing,
    factor,
    solve,
    half,
    inverse,
    signed_factor,
    signed_solve,
):
    register_jitable(_function)
# Inlined, since code with a function among its arguments has an address in it and can't be kept.
for _inlined in (climb, at_mode):
    register_jitable(inline="always")(_inlined)


@register_funcify_and_cache_key(LaplaceEvidence)
def _laplace_evidence(op: Any, node: Apply, **kwargs: Any) -> Form:
    concave, options = op.likelihood.concave, {"mode": NATIVE_MODE, "on_unused_input": "ignore"}
    compiled = pytensor.function(*local_graph(op.likelihood), **options)
    local, own = numba_funcify_and_cache_key(compiled.maker.fgraph)

    @numba_njit
    def laplace_evidence(
        K: np.ndarray, y: np.ndarray, exposure: np.ndarray, *own: np.ndarray
    ) -> Any:
        K, rest = np.ascontiguousarray(K), (y, exposure, *own)
        arrived, f, alpha = climb(local, K, rest, np.zeros(len(K)), concave)
        return at_mode(local, K, rest, f, alpha, concave) if arrived else nothing(len(K))

    return laplace_evidence, None if own is None else _key("laplace", own, concave)


@register_funcify_and_cache_key(LowRankEvidence)
def _low_rank_evidence(op: Any, node: Apply, **kwargs: Any) -> Form:
    compiled = numba_njit(low_rank_logp_and_slopes)

    @numba_njit
    def low_rank_evidence(F: np.ndarray, D: np.ndarray, y: np.ndarray) -> Any:
        logp, in_F, in_D, alpha = compiled(F, np.ascontiguousarray(D), y)
        return np.asarray(logp), in_F, in_D, alpha

    return low_rank_evidence, _key("low rank")


@register_funcify_and_cache_key(SumsEvidence)
def _sums_evidence(op: Any, node: Apply, **kwargs: Any) -> Form:
    compiled = numba_njit(sums_logp_and_slopes)

    @numba_njit
    def sums_evidence(
        scales: np.ndarray,
        variance: np.ndarray,
        gram: np.ndarray,
        cross: np.ndarray,
        square: np.ndarray,
        n: np.ndarray,
        start: np.ndarray,
    ) -> Any:
        given = scales, variance.item(), gram, cross, square.item(), n.item(), start
        logp, in_scales, in_variance = compiled(*given)
        return np.asarray(logp), in_scales, np.asarray(in_variance)

    return sums_evidence, _key("sums")


@register_funcify_and_cache_key(IntervalSites)
def _interval_sites(op: Any, node: Apply, **kwargs: Any) -> Form:
    """In Python, which numba calls back: SciPy's functions of normal tails have no form here."""

    @numba_njit
    def sites(C: np.ndarray, y: np.ndarray, low: np.ndarray, high: np.ndarray) -> Any:
        with numba.objmode(mean="float64[::1]", variance="float64[::1]", log_factor="float64"):
            mean, variance, log_factor = interval_sites(C, y, low, high)
        return mean, variance, np.asarray(log_factor)

    return sites, None


@register_funcify_and_cache_key(PropagatedSites)
def _propagated_sites(op: Any, node: Apply, **kwargs: Any) -> Form:
    """In Python, which numba calls back, as for `IntervalSites`."""
    kinds = numba.types.Tuple([get_numba_type(output.type) for output in node.outputs])

    def called(*inputs: np.ndarray) -> tuple:
        storage = [[None] for _ in node.outputs]
        op.perform(node, inputs, storage)
        return tuple(found[0] for found in storage)

    @numba_njit
    def sites(*inputs: np.ndarray) -> Any:
        with numba.objmode(found=kinds):
            found = called(*inputs)
        return found

    return sites, None


@numba_njit
def _centered(
    points: np.ndarray, center: np.ndarray, scale: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows with their squared norms."""
    rows, squares = np.empty(points.shape), np.zeros(len(points))
    for i in range(len(points)):
        for k in range(points.shape[1]):
            rows[i, k] = (points[i, k] - center[k]) / scale[k]
            squares[i] += rows[i, k] ** 2
    return rows, squares


@numba_njit
def _center(points: np.ndarray) -> np.ndarray:
    center = np.zeros(points.shape[1])
    for i in range(len(points)):
        center += points[i]
    return center / len(points)


@numba_njit
def _squared(X: np.ndarray, Xs: np.ndarray, scale: np.ndarray, least: float) -> np.ndarray:
    """Squared distances (n, m) of rows X (n, d) from Xs (m, d), in units of the scale (d,)."""
    center = _center(Xs)
    (A, a), (B, b) = _centered(X, center, scale), _centered(Xs, center, scale)
    found = np.dot(A, B.T)
    for i in range(len(A)):
        for j in range(len(B)):
            squares = a[i] + b[j]
            square = max(squares - 2.0 * found[i, j], 0.0)
            if squares > least and CLOSE * square < squares:
                square = 0.0
                for k in range(X.shape[1]):
                    square += ((X[i, k] - Xs[j, k]) / scale[k]) ** 2
            found[i, j] = square
    return found


@numba_njit
def _squared_within(X: np.ndarray, scale: np.ndarray, least: float) -> np.ndarray:
    found = _squared(X, X, scale, least)
    for i in range(len(X)):
        found[i, i] = 0.0
    return found


@numba_njit
def _slopes(
    G: np.ndarray, found: np.ndarray, X: np.ndarray, Xs: np.ndarray, scale: np.ndarray
) -> np.ndarray:
    """`ScaleSlopes` (d,) of weights G (n, m) and squared distances that were found, (n, m)."""
    center, d = _center(Xs), X.shape[1]
    (A, a), (B, b) = _centered(X, center, scale), _centered(Xs, center, scale)
    G, total, there = np.copy(G), np.zeros(d), np.zeros(len(B))
    for i in range(len(A)):
        here = 0.0
        for j in range(len(B)):
            squares = a[i] + b[j]
            if squares > LEAST and CLOSE * found[i, j] < squares:
                for k in range(d):
                    total[k] += G[i, j] * ((X[i, k] - Xs[j, k]) / scale[k]) ** 2
                G[i, j] = 0.0
            here += G[i, j]
            there[j] += G[i, j]
        for k in range(d):
            total[k] += here * A[i, k] ** 2
    mixed = np.dot(np.ascontiguousarray(G), B)
    for j in range(len(B)):
        for k in range(d):
            total[k] += there[j] * B[j, k] ** 2
    for i in range(len(A)):
        for k in range(d):
            total[k] -= 2.0 * A[i, k] * mixed[i, k]
    return total


@register_funcify_and_cache_key(SquaredDistances)
def _squared_distances(op: Any, node: Apply, **kwargs: Any) -> Form:
    if op.scaled:

        @numba_njit
        def between(X: np.ndarray, Xs: np.ndarray, scale: np.ndarray) -> np.ndarray:
            return _squared(X, Xs, scale, LEAST)

        @numba_njit
        def within(X: np.ndarray, scale: np.ndarray) -> np.ndarray:
            return _squared_within(X, scale, LEAST)

    else:

        @numba_njit
        def between(X: np.ndarray, Xs: np.ndarray) -> np.ndarray:
            return _squared(X, Xs, np.ones(X.shape[1]), 0.0)

        @numba_njit
        def within(X: np.ndarray) -> np.ndarray:
            return _squared_within(X, np.ones(X.shape[1]), 0.0)

    one = len(node.inputs) == 1 + op.scaled
    return (within if one else between), _key("distances", one, op.scaled)


@register_funcify_and_cache_key(ScaleSlopes)
def _scale_slopes(op: Any, node: Apply, **kwargs: Any) -> Form:
    @numba_njit
    def between(
        G: np.ndarray, found: np.ndarray, X: np.ndarray, Xs: np.ndarray, scale: np.ndarray
    ) -> np.ndarray:
        return _slopes(G, found, X, Xs, scale)

    @numba_njit
    def within(G: np.ndarray, found: np.ndarray, X: np.ndarray, scale: np.ndarray) -> np.ndarray:
        return _slopes(G, found, X, X, scale)

    one = len(node.inputs) == 4
    return (within if one else between), _key("slopes of scale", one)


class _Product(Dot):
    """`Dot` of two matrices of floats, by numba's own product.

    PyTensor's numba form of `Dot` takes ten seconds to compile on a cold machine; this takes
    one.
    """


@register_funcify_and_cache_key(_Product)
def _product(op: Any, node: Apply, **kwargs: Any) -> Form:
    @numba_njit
    def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.dot(np.ascontiguousarray(x), np.ascontiguousarray(y))

    return product, _key("product")


@node_rewriter([Dot])
def _plain_products(fgraph: Any, node: Apply) -> list | None:
    if type(node.op) is Dot and all(cast(Tensor, v).dtype == "float64" for v in node.inputs):
        return [_Product()(*node.inputs)]
    return None


LARGEST_KEPT = 10**6
"""Bytes of a constant beyond which numba refers to it by address, and so keeps no code."""


class _Released(NumbaLinker):
    """Functions that release Python's lock, for chains in threads."""

    def jit_compile(self, fn_and_cache: tuple) -> Callable:
        function, key = fn_and_cache
        graph = cast(FunctionGraph, self.fgraph)
        constants = (v.data for v in graph.variables if isinstance(v, Constant))
        sizes = [data.nbytes for data in constants if isinstance(data, np.ndarray)]
        cache = key is not None and max(sizes, default=0) <= LARGEST_KEPT
        if cache:
            CACHED_SRC_FUNCTIONS[function.py_func] = _key(key, "released", config.numba__fastmath)
        return numba_njit(function.py_func, final_function=True, cache=cache, nogil=True)


NATIVE_MODE = Mode(_Released(), NUMBA.provided_optimizer).register(
    (dfs_rewriter(_plain_products), 100)
)
"""Numba: seconds to compile, then twice as fast as the Python linker and truly parallel."""
