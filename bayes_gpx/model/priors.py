"""Priors: the defaults, and hyperparameters as random variables of a PyMC model."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.custom import CustomDistRV, CustomSymbolicDistRV
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.distributions.shape_utils import change_dist_size
from pymc.distributions.transforms import Interval
from pymc.pytensorf import constant_fold
from pytensor.tensor.random.op import RandomVariable

from bayes_gpx.aliases import Dims, Priors, Rename, Tensor
from bayes_gpx.data.training import TrainingData
from bayes_gpx.model.given_values import fixed_value, grouped, shapes_wanted
from bayes_gpx.model.hyperparameters import Hyperparameter
from bayes_gpx.model.specification import Specification, squared
from bayes_gpx.validation import one_of


def create_variables(
    specification: Specification,
    priors: Priors,
    training: TrainingData,
    *,
    rename: Rename,
) -> tuple[dict[str, Tensor], dict[str, np.ndarray]]:
    """Create hyperparameters in the model on the stack: tensors theta and arrays fixed."""
    # `priors` maps names to a callable that returns a PyMC variable, a distribution such as
    # ``pm.HalfNormal.dist(1)``, an object with ``create_variable(name)``, or fixed numbers.
    # Indicators of one categorical column share its lengthscale.
    if not isinstance(priors, dict):
        raise ValueError(f"priors is a {type(priors).__name__}. Pass a dict by name.")
    horseshoe = specification.weight_prior == "horseshoe" and specification.by_feature
    parts = [f"{a.name}_{part}" for a in specification.amplitudes for part in HORSESHOE_PARTS]
    known = [h.name for h in specification.hyperparameters] + (parts if horseshoe else [])
    for name in priors:
        one_of("priors", name, known)
    d, p = training.sources
    sizes = {"feature": d, "z_feature": training.p, "class": specification.classes or 0}
    sizes["process"] = len(specification.processes)
    sizes |= {"output": specification.outputs or 0, "factor": specification.correlation}
    sizes |= {dim: len(labels) for dim, labels in specification.observation.coords.items()}
    theta, fixed = {}, {}
    for h in specification.hyperparameters:
        dims, shape = tuple(map(rename, h.dims)), tuple(sizes[dim] for dim in h.dims)
        if h.name not in priors and horseshoe and h in specification.amplitudes:
            theta[h.name] = _horseshoe(h, priors, p, training.p, rename)
            continue
        given = [part for part in parts if part in priors and part.startswith(f"{h.name}_")]
        if given and h in specification.amplitudes:
            raise ValueError(f"priors has both {h.name} and its parts {given}; give either.")
        prior = priors[h.name] if h.name in priors else _default(h, d, p, training.least_noise)
        if _makes_a_variable(prior):
            theta[h.name] = _from_prior(prior, rename(h.name), dims, shape)
            if not h.signed:
                _refuse_below_zero(h.name, theta[h.name])
        else:
            _refuse_no_number(h.name, prior)
            fixed[h.name] = fixed_value(h, prior, training, specification)
            theta[h.name] = pt.as_tensor(fixed[h.name])
            continue
        if grouped(h, training) or h.each is not None:
            own = pt.broadcast_to(theta[h.name], shape)
            theta[h.name] = own[..., training.X.groups] if grouped(h, training) else own
            theta[h.name].name = rename(h.name)
    return theta, fixed


def _refuse_no_number(name: str, prior: Any) -> None:
    """Raise for a prior that is no number and makes no variable."""
    if isinstance(prior, pt.TensorVariable):
        raise ValueError(
            f"The prior of {name} is the variable {prior}, which was made before. Wrap it: lambda "
            "name: pm.Deterministic(name, variable)."
        )
    try:
        kind = np.asarray(prior).dtype.kind
    except ValueError:  # lists of different lengths
        kind = "O"
    if kind not in "iuf":
        raise ValueError(
            f"The prior of {name} is {prior!r}. Pass a finite number, or a distribution: "
            f"pm.HalfNormal.dist(1), or {_form()}."
        )


def _refuse_below_zero(name: str, variable: Tensor) -> None:
    """Raise for a distribution on all real numbers; computed variables are not checked."""
    model = pm.modelcontext(None)
    if variable not in model.free_RVs:
        return
    transform = model.rvs_to_transforms[variable]
    if isinstance(transform, Interval):
        least, _ = transform.args_fn(*variable.owner.inputs)
        least = pt.as_tensor_variable(-np.inf if least is None else least)
        (least,) = constant_fold([least], raise_not_constant=False)
        positive = isinstance(least, pt.TensorVariable) or bool(np.all(least >= 0.0))
    else:
        positive = transform is not None or _is_custom(variable)
    if not positive:
        raise ValueError(
            f"The prior of {name} has density below 0. Pass one of positive numbers, such as "
            f"{_form()}, or pm.LogNormal or pm.Gamma in its place."
        )


def _is_custom(variable: Tensor) -> bool:
    return isinstance(variable.owner.op, CustomDistRV | CustomSymbolicDistRV)


def _default(h: Hyperparameter, d: int, p: int, least_noise: np.ndarray | float) -> Any:
    """The default prior of a hyperparameter, or the number that it is fixed at by default."""
    if not callable(h.default):
        return h.default
    floor = {"least": least_noise} if h.in_units_of_y and np.any(least_noise) else {}
    return lambda name, dims: h.default(name, dims, d, p, **floor)


HORSESHOE_PARTS = ("global", "local")
"""What an amplitude's hyperparameters are called, after its name."""

_SLAB = 2.0
"""Width of the slab times sqrt(p): as the prior sd of an amplitude without a horseshoe."""


def _horseshoe(h: Hyperparameter, priors: Priors, p: int, size: int, rename: Rename) -> Tensor:
    """Regularised horseshoe on amplitudes: tau lambda_l, softly capped at the slab's width."""
    # Piironen and Vehtari, Electronic Journal of Statistics 11 (2017) 5018-5051, equation 2.8.
    dims, shape = tuple(map(rename, h.dims)), (size,)
    defaults = {
        "global": lambda name, dims: pm.HalfCauchy(name, beta=1.0 / p, dims=dims),
        "local": lambda name, dims: pm.HalfCauchy(name, beta=1.0, dims=dims),
    }
    tau, local = (
        _from_prior(priors.get(f"{h.name}_{part}", default), rename(f"{h.name}_{part}"), *own)
        for (part, default), own in zip(defaults.items(), (((), ()), (dims, shape)), strict=True)
    )
    wide = tau * local
    slab = _SLAB / np.sqrt(p)
    return pm.Deterministic(rename(h.name), wide / pt.sqrt(1 + (wide / slab) ** 2), dims=dims)


def of_sources(model: Any, sources: Sequence[str]) -> dict[str, Any]:
    """Priors of a model for some columns of its X, where they know how to leave out the others."""
    kept = np.isin(model.training.X.sources, sources)
    return {
        name: prior.of_columns(kept) if hasattr(prior, "of_columns") else prior
        for name, prior in model.priors.items()
    }


def _makes_a_variable(prior: Any) -> bool:
    """Whether a prior is a callable, a distribution, or such as `pymc_extras.prior.Prior`."""
    # The object is recognized by its method, so its package need not be installed.
    return callable(prior) or _is_distribution(prior) or hasattr(prior, "create_variable")


def _is_distribution(prior: Any) -> bool:
    """Whether a prior is what ``pm.HalfNormal.dist(1)`` returns, which belongs to no model."""
    kinds = RandomVariable | SymbolicRandomVariable
    made = isinstance(prior, pt.TensorVariable) and prior.owner is not None
    return made and prior.name is None and isinstance(prior.owner.op, kinds)


def _form(kind: str = "HalfNormal", parameters: str = "1") -> str:
    """How a prior is written, for error messages."""
    return f"lambda name, dims: pm.{kind}(name, {parameters}, dims=dims)"


DISCRETE = ("int", "uint", "bool")
"""What names of types begin with that have no derivatives."""


def _is_discrete(name: str) -> str:
    return (
        f"The prior of {name} is discrete. Pass a distribution of real numbers, such as {_form()}."
    )


def _registered(dist: Tensor, name: str, dims: tuple[str, ...], shape: tuple[int, ...]) -> Tensor:
    """Add a distribution to the model on the stack as a variable, with an entry for each dim."""
    # It is copied, so several models may share one distribution.
    if dist.type.dtype.startswith(DISCRETE):
        raise ValueError(_is_discrete(name))
    if dist.owner.op.ndim_supp or dist.type.shape not in ((), shape):
        raise ValueError(
            f"The prior of {name} has shape {dist.type.shape}. Pass a distribution of "
            f"{shapes_wanted(shape)}."
        )
    return pm.modelcontext(None).register_rv(change_dist_size(dist, shape), name, dims=dims or None)


def _from_prior(prior: Any, name: str, dims: tuple[str, ...], shape: tuple[int, ...]) -> Tensor:
    """Create a variable from the user's prior, and check its name and shape."""
    if not _makes_a_variable(prior):
        raise ValueError(f"The prior of {name} is {prior!r}. Pass a callable here.")
    model = pm.modelcontext(None)
    if _is_distribution(prior):
        return _registered(prior, name, dims, shape)
    if hasattr(prior, "create_variable"):  # see `_makes_a_variable`
        variable = prior.create_variable(name)
    else:
        # One dim is given by its name alone, as PyMC takes it.
        variable = _called(prior, name, dims if len(dims) > 1 else dims[0] if dims else None)
    if variable is None or model.named_vars.get(model.name_for(name)) is not variable:
        raise ValueError(
            f"The prior of {name} returned {variable}. Return the variable that it created under "
            f"that name, such as pm.HalfNormal({name!r}). Wrap an expression of other variables in "
            f"pm.Deterministic({name!r}, ...)."
        )
    if variable.type.dtype.startswith(DISCRETE):
        raise ValueError(_is_discrete(name))
    own = variable.type.shape
    known = zip(own, shape, strict=False)
    if own and (len(own) != len(shape) or any(k not in (None, size) for k, size in known)):
        raise ValueError(
            f"The prior of {name} has shape {own}. Pass a distribution of {shapes_wanted(shape)}."
        )
    return variable


def _called(prior: Any, name: str, dims: Dims) -> Any:
    """What a prior returns; whatever it raises is said in a sentence with the prior's name."""
    try:
        parameters = inspect.signature(prior).parameters
        positional = [
            key
            for key, p in parameters.items()
            if key != "dims"
            and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)
        ]
        named = {"dims": dims} if "dims" in parameters else {}
        return prior(*([name] if positional else []), **named)
    except Exception as failure:
        if isinstance(prior, type) and issubclass(prior, pm.Distribution):
            kind = prior.__name__
            raise ValueError(
                f"The prior of {name} is pm.{kind}, which needs parameters. Pass "
                f"pm.{kind}.dist(...), or {_form(kind, '...')}."
            ) from failure
        raise ValueError(
            f"The prior of {name} failed when it was called: {type(failure).__name__}: {failure}. "
            f"Pass a callable that makes a variable, such as {_form()}."
        ) from failure


def add_covariances(
    specification: Specification, theta: Mapping[str, Any], *, rename: Rename
) -> None:
    """Add the shared covariance of outputs, or the covariance of classes, to the model."""
    dim = "class" if specification.outputs is None else "output"
    dims = rename(dim), rename(f"{dim}_bis")
    if specification.outputs is not None:
        nothing = pt.zeros((specification.outputs, specification.outputs))
        found = sum(squared(theta[h.name], nothing) for h in specification.loadings)
    else:
        found = specification.shared(theta).sum(axis=0)
        centred = found - found.mean(axis=0) - found.mean(axis=1)[:, None] + found.mean()
        pm.Deterministic(rename("output_covariance_centred"), centred, dims=dims)
    pm.Deterministic(rename("output_covariance"), found, dims=dims)
