"""From one draw to all: compile once, loop, sample, name. The only file that does.

Graphs are written for one draw. Here they become functions of hyperparameters, data and
jitter, shared by all models of one structure, so that neither new points nor a second model
of the same kind compile anything.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pytensor.graph.replace import graph_replace

from bayes_gpx.arguments import hyperparameter_draws
from bayes_gpx.collapsed import again, conditioned, prior
from bayes_gpx.conditioning import with_jitter
from bayes_gpx.density import BUFFERED_MODE, MODE, blas_threads, progress_bar
from bayes_gpx.fans import TOGETHER
from bayes_gpx.mixtures import Conditional
from bayes_gpx.quantities import Gathered
from bayes_gpx.specification import Specification, count, one_of
from bayes_gpx.staged import Staged

BUFFERED_BELOW = 1000
"""Observations up to which keeping arrays is worth its memory (a third of the time)."""

BLOCK_BYTES = 32 * 2**20
"""Size of the largest array that a block of rows may need."""

LARGEST_JOINT = 5000
"""Most quantities that are drawn jointly."""

SYMBOLS = {
    "X": pt.dmatrix,
    "y": pt.dvector,
    "Z": pt.dmatrix,
    "jitter": pt.dscalar,
    "alpha": pt.dvector,
    "root": pt.dmatrix,
    "X_new": pt.dmatrix,
    "Z_new": pt.dmatrix,
    "positions": pt.lvector,
    "baseline": pt.dvector,
    "baselines": pt.dmatrix,
    "U": pt.dmatrix,
    "U_Z": pt.dmatrix,
}


@dataclass(frozen=True)
class Structure:
    """What decides a model's graphs; the key of compiled functions.

    A callable kernel may read anything, so what it returned, and the variables below it,
    belong to the structure: two models share functions only if their kernels have names.
    """

    specification: Specification
    hyperparameters: tuple
    d: int
    called_kernel: object
    own_variables: tuple
    intercept: bool
    buffered: bool

    @staticmethod
    def of(model):
        """Structure of a model."""
        return Structure(
            model.specification,
            tuple(model.hyperparameters.items()),
            model.training.d,
            model.called_kernel,
            model.own_variables,
            model.training.intercept,
            model.training.n < BUFFERED_BELOW,
        )


CHANGING = ("jitter", "alpha", "root")
"""Symbols whose values differ from draw to draw."""


@lru_cache(maxsize=256)
def compiled(structure, build, names, *, buffered=False):
    """Compile a build function's graphs as functions of hyperparameters and `names`.

    The hyperparameters and `CHANGING` change from call to call; what depends on the other
    symbols alone is computed once for all draws.

    Parameters
    ----------
    structure : Structure
    build : callable
        From the specification, the prior process, the dict of hyperparameters and the namespace
        `s` of symbols to a list of graphs; hashable.
    names : tuple of str
        Keys of `SYMBOLS`, the arguments after the hyperparameters; those of `CHANGING` first.
    buffered : bool
        Keep intermediate arrays between calls, where the structure allows it.

    Returns
    -------
    Staged
    """
    theta = {
        name: pt.tensor(name, dtype="float64", shape=(None,) * ndim)
        for name, ndim in structure.hyperparameters
    }
    symbols = {n: SYMBOLS[n](n) for n in names}
    for points in {"X", "X_new", "U", "baselines"} & symbols.keys():
        symbols[points] = pt.tensor(points, dtype="float64", shape=(None, structure.d))
    if "baseline" in symbols:
        symbols["baseline"] = pt.tensor("baseline", dtype="float64", shape=(structure.d,))
    context = SimpleNamespace(
        **{**dict.fromkeys(SYMBOLS), "jitter": 0.0, **symbols, "intercept": structure.intercept}
    )
    process = prior(structure.specification, theta, structure.d, structure.called_kernel, context)
    outputs = build(structure.specification, process, theta, context)
    own = {rv: theta[rv.name] for rv in structure.own_variables}
    outputs = graph_replace(outputs, own, strict=False) if own else outputs
    changing = [*theta.values(), *(symbols[n] for n in names if n in CHANGING)]
    fixed = [symbols[n] for n in names if n not in CHANGING]
    mode = BUFFERED_MODE if buffered and structure.buffered else MODE
    return Staged(changing, fixed, outputs, mode)


def _factorise(specification, process, theta, s):
    q = conditioned(specification, process, theta, s)
    return [q.alpha, q.root]


@dataclass(frozen=True)
class _Ask:
    """Posterior moments of an operator: the build function of an explanation."""

    operator: Callable
    moment: str
    total: Callable | None

    def __call__(self, specification, process, theta, s):
        s.sample = "new" if s.positions is None else s.positions
        q = again(specification, process, theta, s)
        posterior = q(self.operator(s))
        outputs = [posterior.mean, getattr(posterior, self.moment)]
        if self.total is not None:
            total = q(self.total(s))
            outputs += [total.mean, total.variance]
        return outputs


def scalars(model, idata, build, *, num_draws=None, progressbar=True):
    """Evaluate ``build``, a list of graphs of the training data alone, at every draw.

    Returns
    -------
    list of arrays (chain, draw, ...), the HyperparameterDraws, and the largest relative jitter
    """
    hyper = hyperparameter_draws(model, idata, num_draws)
    data, rows, largest = _data(model), [], 0.0
    staged = compiled(Structure.of(model), build, ("jitter", *data), buffered=True)
    function = staged.given(*data.values())
    with blas_threads(model.training.n), progress_bar(progressbar) as progress:
        for _, theta in progress.track(hyper, total=len(hyper), description="Leave-one-out"):
            found, jitter = with_jitter(lambda j, t=theta: function(*t.values(), np.asarray(j)))
            rows.append([np.array(array) for array in found])
            largest = max(largest, jitter)
    shape = len(hyper.chain), len(hyper.draw)
    columns = [np.stack(column) for column in zip(*rows, strict=True)]
    return [c.reshape((*shape, *c.shape[1:])) for c in columns], hyper, largest


def explain(
    model,
    idata,
    quantity,
    where,
    *,
    draws=1000,
    num_draws=None,
    features=None,
    covariance=False,
    joint=False,
    keep="draws",
    on="response",
    path=None,
    seed=None,
    progressbar=True,
):
    """Posterior of a linear quantity at points, for every hyperparameter draw.

    Parameters
    ----------
    model : Model
    idata : xarray.DataTree or dict
        A fit of this model, or a dict of fixed hyperparameters.
    quantity : Quantity
    where : Points
    draws : int
        With a single hyperparameter draw: how many conditional draws to take. With more,
        each hyperparameter draw gives one.
    num_draws : int, optional
        Thin the hyperparameter draws evenly to at most this many.
    features : list of str, optional
        Only these components.
    covariance : bool
        Also the covariance between components, `name_cov`.
    joint : bool
        Draw all observations jointly.
    keep : {"draws", "summary"}
    on : {"response", "latent"}
        The same where noise is normal.
    path : str or path, optional
        Stream the draws to a new zarr store there, instead of holding them in memory. An
        earlier store is replaced; any other file or folder is left alone and refused.
    seed : int, optional
    progressbar : bool

    Returns
    -------
    xarray.Dataset
    """
    one_of("keep", keep, ("draws", "summary"))
    one_of("on", on, ("response", "latent"))
    count("draws", draws)
    if seed is not None:
        count("seed", seed, 0)
    hyper = hyperparameter_draws(model, idata, num_draws)
    sampled = keep == "draws"
    shape, size = (len(hyper.chain), len(hyper.draw)), len(where.X) * len(quantity.factor)
    if joint and size > LARGEST_JOINT:
        raise ValueError(
            f"joint=True would draw {size} quantities jointly; at most {LARGEST_JOINT} are. "
            "Explain fewer observations at a time with obs=."
        )
    by_variance = quantity.components is None or not (sampled or covariance or quantity.total)
    moment = "cov" if joint else "variance" if by_variance else "block"
    each, m = draws if hyper.alone else 1, len(where.X)
    gathered = Gathered(quantity, features, m, covariance)
    stores = gathered.open((shape[0], shape[1] * each, m), path) if sampled else {}
    _keep_freed_memory()
    root_seed, largest_jitter = np.random.SeedSequence(seed).entropy, 0.0
    with blas_threads(model.training.n), progress_bar(progressbar) as progress:
        tracked = progress.track(hyper, total=len(hyper), description="Explaining")
        for at, theta, rows, (mean, second, *total), jitter in _moments(
            model, tracked, quantity, where, moment, each
        ):
            largest_jitter = max(largest_jitter, jitter)
            noise = float(theta["sigma"]) if quantity.noisy else None
            part = Conditional(
                mean, second, moment, gathered.drawn, quantity.factor, quantity.offset
            )
            gathered.add(rows, part, noise, total)
            if not sampled:
                continue
            key = np.random.SeedSequence(root_seed, spawn_key=(*at, rows.start))
            normal = np.random.default_rng(key).standard_normal(
                (2 if quantity.noisy else 1, each, *part.mean.shape)
            )
            kept = (at[0], slice(at[1] * each, (at[1] + 1) * each), rows)
            for name, array in gathered.sample(part, noise, normal).items():
                stores[name][kept] = array
    dataset = gathered.dataset(model, where, stores if path is None else {})
    if sampled:
        draw = np.arange(each) if hyper.alone else hyper.draw
        dataset = dataset.assign_coords(chain=hyper.chain, draw=draw)
    dataset.attrs.update(
        units=quantity.units,
        likelihood=model.specification.likelihood,
        relative_jitter=largest_jitter,
        dependence=DEPENDENCE[joint],
        samples=quantity.samples or SAMPLES[where.positions is None],
        bayes_gpx=version("bayes_gpx"),
        pymc=pm.__version__,
    )
    if path is None or not sampled:
        return dataset
    dataset.to_zarr(path, mode="a", consolidated=False)
    return xr.open_zarr(path, chunks=None, consolidated=False)


def _keep_freed_memory():
    """Have the C library keep what arrays free, by freeing one block of just under 32 MiB.

    glibc gives blocks back to the system and takes them again page by page, which is half of
    the time of an explanation, until it has seen a block of that size freed.
    """
    np.empty(32 * 2**20 - 2**16, np.uint8)


DEPENDENCE = {
    False: "joint over features within an observation, independent between observations",
    True: "joint over features and observations",
}
SAMPLES = {True: "new samples, with fresh eps_w", False: "training samples, with their own eps_w"}


def _data(model):
    """What the model conditions on, by the names of `SYMBOLS`."""
    return {**model.training.scaled(), **model.inducing}


def _moments(model, hyper, quantity, where, moment, each):
    """Yield, for each draw and block of rows: position, hyperparameters, rows, moments, jitter.

    The blocks depend on the model and the quantity alone, never on how many rows are asked for:
    their first rows are part of the seeds.
    """
    structure, data = Structure.of(model), _data(model)
    at_points = {"X_new": where.X}
    if where.Z is not None:
        at_points["Z_new"] = where.Z
    if where.positions is not None:
        at_points["positions"] = where.positions
    common, paths = dict(data), 1
    if where.baseline is not None:
        paths = len(np.atleast_2d(where.baseline))
        common["baseline" if where.baseline.ndim == 1 else "baselines"] = where.baseline
    staged = compiled(structure, _factorise, ("jitter", *data), buffered=True)
    factorise = staged.given(*data.values())
    total = quantity.total and quantity.total[1]
    build = _Ask(quantity.operator, moment, total)
    names = ("jitter", "alpha", "root", *common, *at_points)
    ask = compiled(structure, build, names)
    m, c = len(where.X), len(quantity.factor)
    pairs = TOGETHER * paths**2 * max(c**2, TOGETHER) if paths > 1 else 0
    squares = 16 * c**2 if quantity.square else 0
    width = 8 * max(c * paths * max(model.training.n, each), pairs, squares)
    size = m if moment == "cov" else max(1, BLOCK_BYTES // width)
    blocks = [slice(first, min(first + size, m)) for first in range(0, m, size)]

    def asked(rows):
        return ask.given(*common.values(), *[values[rows] for values in at_points.values()])

    only = asked(blocks[0]) if len(blocks) == 1 else None
    for at, theta in hyper:
        given = list(theta.values())
        (alpha, root), jitter = with_jitter(lambda j, g=given: factorise(*g, np.asarray(j)))
        for rows in blocks:
            found = (only or asked(rows))(*given, np.asarray(jitter), alpha, root)
            yield at, theta, rows, found, jitter
