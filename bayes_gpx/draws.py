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
import pytensor
import pytensor.tensor as pt
import xarray as xr
from pytensor.graph.replace import graph_replace

from bayes_gpx.arguments import hyperparameter_draws
from bayes_gpx.conditioning import sqrt_psd, with_jitter
from bayes_gpx.inference import MODE, blas_threads, progress_bar
from bayes_gpx.posteriors.exact import exact, restored
from bayes_gpx.specification import Specification, one_of

BLOCK_BYTES = 128 * 2**20
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
}


@dataclass(frozen=True)
class Structure:
    """What decides a model's graphs; the key of compiled functions."""

    specification: Specification
    hyperparameters: tuple
    d: int
    p: int

    @staticmethod
    def of(model):
        """Structure of a model."""
        names = tuple(model.hyperparameters.items())
        return Structure(model.specification, names, model.training.d, model.training.p)

    @property
    def has_Z(self):
        """Whether features are weighed."""
        return self.specification.family == "GPX"


@lru_cache(maxsize=256)
def compiled(structure, build, names):
    """Compile ``build(process, theta, s)`` as a function of hyperparameters and `names`.

    Parameters
    ----------
    structure : Structure
    build : callable
        Module-level function (its identity is the cache's key) from the prior process, the
        dict of hyperparameters and the namespace of symbols to a list of graphs.
    names : tuple of str
        Keys of `SYMBOLS`, the arguments after the hyperparameters.
    """
    spec = structure.specification
    theta = {
        n: pt.tensor(n, dtype="float64", shape=(None,) * k) for n, k in structure.hyperparameters
    }
    symbols = {n: SYMBOLS[n](n) for n in names}
    coords = {"feature": range(structure.d), "z_feature": range(structure.p)}
    with pm.Model(coords=coords) as scratch:
        process = spec.process(theta, structure.d)
    context = SimpleNamespace(**{**dict.fromkeys(SYMBOLS), **symbols})
    outputs = build(process, theta, context)
    own = {rv: theta[rv.name] for rv in scratch.free_RVs}
    outputs = graph_replace(outputs, own, strict=False) if own else outputs
    return pytensor.function(
        [*theta.values(), *symbols.values()],
        outputs,
        mode=MODE,
        on_unused_input="ignore",
        trust_input=True,
    )


def _factorise(process, theta, s):
    q = exact(process, s.X, s.y, theta["sigma"], s.Z, jitter=s.jitter)
    return [q.alpha, q.root]


@dataclass(frozen=True)
class _Ask:
    """Posterior moments of an operator: the build function of an explanation."""

    operator: Callable
    moment: str

    def __call__(self, process, theta, s):
        sample = "new" if s.positions is None else s.positions
        q = restored(process, s.X, s.y, s.alpha, s.root, s.Z)
        posterior = q(self.operator(s.X_new, s.Z_new, sample))
        return [posterior.mean, getattr(posterior, self.moment)]


def each_draw(model, hyper, *, progressbar=True, description="Explaining"):
    """Yield (chain, draw), the hyperparameters of that draw, and the list of them."""
    shape = next(iter(hyper.values())).shape[:2]
    with (
        blas_threads(model.training.n),
        progress_bar(progressbar) as progress,
    ):
        for at in progress.track(list(np.ndindex(*shape)), description=description):
            theta = {name: np.asarray(values[at]) for name, values in hyper.items()}
            yield at, theta


def scalars(model, idata, build, *, progressbar=True):
    """Evaluate ``build``, a list of graphs of the training data alone, at every draw.

    Returns
    -------
    list of arrays (chain, draw, ...), and the largest relative jitter
    """
    hyper = hyperparameter_draws(model, idata)
    structure, data = Structure.of(model), model.training.scaled()
    names = (*data, "jitter")
    function = compiled(structure, build, names)
    found, largest = {}, 0.0
    for at, theta in each_draw(model, hyper, progressbar=progressbar):
        arguments = [*theta.values(), *data.values()]
        found[at], jitter = with_jitter(lambda j, a=arguments: function(*a, np.asarray(j)))
        largest = max(largest, jitter)
    shape = next(iter(hyper.values())).shape[:2]
    columns = zip(*found.values(), strict=True)
    return [np.stack(c).reshape((*shape, *np.shape(c[0]))) for c in columns], largest


class Mixture:
    """Exact moments of a quantity (obs, component) over all its conditionals.

    Parameters
    ----------
    shape : (obs, component)
    covariance : bool
        Also the covariance between the components of each observation.
    """

    def __init__(self, shape, covariance):
        self._count = np.zeros(shape[0], int)
        self._mean, self._within, self._between = (np.zeros(shape) for _ in range(3))
        self._cov = np.zeros((*shape, shape[1])) if covariance else None

    def add(self, rows, mean, variance, cov=None):
        """Add one conditional's moments for some rows (a slice)."""
        self._count[rows] += 1
        shift = mean - self._mean[rows]
        self._mean[rows] += shift / self._count[rows][:, None]
        remaining = mean - self._mean[rows]
        self._between[rows] += shift * remaining
        self._within[rows] += variance
        if self._cov is not None:
            self._cov[rows] += cov + shift[:, :, None] * remaining[:, None, :]

    def moments(self):
        """Mean, standard deviation and covariance (or None), by the law of total variance."""
        n = self._count[:, None]
        sd = np.sqrt((self._within + self._between) / n)
        return self._mean, sd, None if self._cov is None else self._cov / n[..., None]


@dataclass(frozen=True, eq=False)
class Quantity:
    """What a verb asks for and how its numbers are named.

    Attributes
    ----------
    name : str
    operator : callable
        Module-level function (X, Z, sample) -> Operator.
    components : tuple of str or None
        Labels along `feature`; None for one number at each observation.
    factor : array (c,)
        From the model's scale to user units.
    offset : float
        Added after the factor.
    units : str
    noisy : str or None
        Name of the same quantity with observation noise.
    """

    name: str
    operator: Callable
    components: tuple | None
    factor: np.ndarray
    units: str
    offset: float = 0.0
    noisy: str | None = None


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
    path : str or path, optional
        Stream the draws to a zarr store there, instead of holding them in memory.
    seed : int, optional
    progressbar : bool

    Returns
    -------
    xarray.Dataset
    """
    one_of("keep", keep, ("draws", "summary"))
    hyper = hyperparameter_draws(model, idata, num_draws)
    shape = next(iter(hyper.values())).shape[:2]
    conditional = draws if shape == (1, 1) else 1
    picked = _picked(quantity, features)
    m, c = len(where.X), len(picked)
    sampled = keep == "draws"
    moment = "cov" if joint else "block" if c > 1 and (sampled or covariance) else "variance"
    if joint and m * len(quantity.factor) > LARGEST_JOINT:
        raise ValueError(
            f"joint=True would draw {m * len(quantity.factor)} quantities jointly; at most "
            f"{LARGEST_JOINT} are. Explain fewer observations at a time with obs=."
        )
    names = (quantity.name, quantity.noisy) if quantity.noisy else (quantity.name,)
    lead = (shape[0], shape[1] * conditional)
    own = (m, c) if quantity.components else (m,)
    stores = _stores(names, (*lead, *own), path) if sampled else {}
    mixtures = {name: Mixture((m, c), covariance) for name in names}
    factor = quantity.factor[picked]
    conditionals = _conditionals(model, hyper, quantity, where, moment, progressbar)
    entropy = np.random.SeedSequence(seed).entropy
    largest_jitter = 0.0
    for at, theta, jitter, blocks in conditionals:
        largest_jitter = max(largest_jitter, jitter)
        rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=at))
        standard = rng.standard_normal((conditional, m, c)) if sampled else None
        extra = rng.standard_normal((conditional, m, c)) if sampled and quantity.noisy else None
        kept = slice(at[1] * conditional, (at[1] + 1) * conditional)
        noise = float(theta["sigma"]) * factor if quantity.noisy else None
        for rows, mean, second in blocks:
            mean = mean[:, picked] * factor + quantity.offset
            variance, cov, root = _spread(second, moment, quantity, picked, sampled)
            mixtures[quantity.name].add(rows, mean, variance, cov)
            if quantity.noisy:
                noisy_cov = None if cov is None else cov + noise**2
                mixtures[quantity.noisy].add(rows, mean, variance + noise**2, noisy_cov)
            if not sampled:
                continue
            values = mean + _colour(root, standard[:, rows], moment)
            _keep(stores[quantity.name], at[0], kept, rows, values)
            if quantity.noisy:
                noisy = values + extra[:, rows] * noise
                _keep(stores[quantity.noisy], at[0], kept, rows, noisy)
    dataset = _dataset(model, quantity, where, picked, stores, mixtures, path)
    dataset.attrs.update(
        units=quantity.units,
        likelihood=model.specification.likelihood,
        relative_jitter=largest_jitter,
        dependence="joint over observations and features"
        if joint
        else "joint over features within an observation, independent between observations",
        samples="new (fresh eps_w)" if where.positions is None else "training (their own eps_w)",
        bayes_gpx=version("bayes_gpx"),
        pymc=pm.__version__,
    )
    if path is None or not sampled:
        return dataset
    dataset.to_zarr(path, mode="a", consolidated=False)
    return xr.open_zarr(path, chunks=None, consolidated=False)


def _conditionals(model, hyper, quantity, where, moment, progressbar):
    """Yield, for each draw: index, hyperparameters, jitter, and blocks of rows' moments."""
    structure, data = Structure.of(model), model.training.scaled()
    at_points = {"X_new": where.X}
    if where.Z is not None:
        at_points["Z_new"] = where.Z
    if where.positions is not None:
        at_points["positions"] = where.positions
    factorise = compiled(structure, _factorise, (*data, "jitter"))
    names = (*data, "alpha", "root", *at_points)
    ask = compiled(structure, _Ask(quantity.operator, moment), names)
    c = len(quantity.factor)
    size = len(where.X) if moment == "cov" else max(1, BLOCK_BYTES // (8 * model.training.n * c))

    def blocks(fixed):
        for first in range(0, len(where.X), size):
            rows = slice(first, min(first + size, len(where.X)))
            mean, second = ask(*fixed, *[values[rows] for values in at_points.values()])
            yield rows, mean.reshape((-1, c)), second

    for at, theta in each_draw(model, hyper, progressbar=progressbar):
        given = [*theta.values(), *data.values()]
        (alpha, root), jitter = with_jitter(lambda j, g=given: factorise(*g, np.asarray(j)))
        yield at, theta, jitter, blocks([*given, alpha, root])


def _spread(second, moment, quantity, picked, sampled):
    """Variance (m, c), covariance within observations (or None), and a root for sampling."""
    c, factor = len(quantity.factor), quantity.factor[picked]
    if moment == "variance":
        variance = second.reshape((-1, c))[:, picked] * factor**2
        return variance, None, np.sqrt(variance)
    if moment == "block":
        cov = second[:, picked][:, :, picked] * np.multiply.outer(factor, factor)
        return _diagonal(cov), cov, sqrt_psd(cov) if sampled else None
    m = len(second) // c
    full = second.reshape((m, c, m, c))[:, picked][..., picked]
    full = full * factor[:, None, None] * factor
    cov = np.einsum("icid->icd", full)
    size = m * len(picked)
    return _diagonal(cov), cov, sqrt_psd(full.reshape((size, size))) if sampled else None


def _diagonal(cov):
    return np.maximum(np.einsum("mcc->mc", cov), 0.0)


def _colour(root, standard, moment):
    """Give standard normals (draw, m, c) the covariance whose root this is."""
    if moment == "variance":
        return root * standard
    if moment == "block":
        return np.einsum("mij,dmj->dmi", root, standard)
    return (standard.reshape((len(standard), -1)) @ root.T).reshape(standard.shape)


def _picked(quantity, features):
    if quantity.components is None:
        if features is not None:
            raise ValueError(f"{quantity.name} has no features; leave `features` out.")
        return np.array([0])
    if features is None:
        return np.arange(len(quantity.components))
    for feature in features:
        one_of("features", feature, quantity.components)
    return np.array([quantity.components.index(f) for f in features])


def _keep(store, chain, draws, rows, values):
    store[chain, draws, rows] = values if store.ndim == 4 else values[..., 0]


def _stores(names, shape, path):
    """Arrays that draws are written to: in memory, or in a new zarr store."""
    if path is None:
        return {name: np.empty(shape) for name in names}
    import zarr

    group = zarr.open_group(path, mode="w")
    chunks = (1, min(16, shape[1]), min(256, shape[2]), *shape[3:])
    dims = ("chain", "draw", "obs", "feature")[: len(shape)]
    return {
        name: group.create_array(
            name, shape=shape, chunks=chunks, dtype="float64", dimension_names=dims
        )
        for name in names
    }


def _dataset(model, quantity, where, picked, stores, mixtures, path):
    """Name what was computed."""
    own = ("feature",) if quantity.components else ()
    dims = ("obs", *own)
    values, columns = where.X_values, model.training.X.columns
    coords = {"obs": where.index}
    if own:
        labels = [quantity.components[i] for i in picked]
        values = None if where.Z_values is None else where.Z_values[:, picked]
        coords["feature"] = labels
    else:
        coords["feature"] = list(columns)
    variables = {} if values is None else {"value": (("obs", "feature"), values)}

    def squeezed(array):
        return array if own else array[..., 0]

    for name, mixture in mixtures.items():
        mean, sd, cov = mixture.moments()
        variables[f"{name}_mean"] = (dims, squeezed(mean))
        variables[f"{name}_sd"] = (dims, squeezed(sd))
        if cov is not None and own:
            variables[f"{name}_cov"] = (("obs", "feature", "feature_bis"), cov)
            coords["feature_bis"] = labels
    for name, store in stores.items():
        coords |= {"chain": np.arange(store.shape[0]), "draw": np.arange(store.shape[1])}
        if path is None:
            variables[name] = (("chain", "draw", *dims), store)
    dataset = xr.Dataset(variables, coords)
    order = [d for d in ("chain", "draw", "obs", "feature", "feature_bis") if d in dataset.dims]
    return dataset.transpose(*order)
