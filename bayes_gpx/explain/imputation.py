"""Combine results of several fits, to imputed copies of the data or of several models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

AVERAGED = ("value", "baseline", "baseline_value", "center", "offset", "exposure", "trials")
"""Variables that are averaged over results, like means and probabilities."""

DRAWS = {"chain", "draw"}
"""Dims of variables with draws, which are concatenated over results."""


def combined(results: Sequence[xr.Dataset], weights: Sequence[float] | None = None) -> xr.Dataset:
    """Combine results of several fits into their mixture.

    For multiple imputation: complete the table m times by draws of its missing entries, fit a model
    to each copy, explain each fit, and combine. The uncertainty then includes the missing values.

    For model averaging: explain several models of the same data, and combine the results with the
    weights of `compare`. The uncertainty then includes the choice of the model.

    Parameters
    ----------
    results : list of xarray.Dataset
        Results of `predictions`, `weights`, `contributions`, `derivatives` or `attributions` for
        each fit. All describe the same rows and features, and have equally many draws, or none.
    weights : list of float, optional
        A weight for each result, at least 0; weights are divided by their sum. Equal by default.

    Returns
    -------
    xarray.Dataset
        The mixture of the results, with the variables of each result but `_interval`. `_mean`,
        `_sd` and `_cov` are exact. `_between` is added: the sd of the means over results, the part
        of `_sd` due to differences between imputations or models. Values, centers and baselines are
        averaged; residuals are the largest.

        Without weights, the draws of the results become additional chains. R-hat between these
        chains measures how much results differ. It does not check convergence, so check each fit.
        With weights, there are as many draws as in one result, taken evenly from each result in
        proportion to its weight.

    Raises
    ------
    ValueError
        For no results, results that differ in rows, features, baselines or numbers of
        draws, invalid weights, and variables without a known mixture, such as bands.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> from sklearn.experimental import enable_iterative_imputer
    >>> from sklearn.impute import IterativeImputer
    >>> rng, results = np.random.default_rng(1), []
    >>> X = rng.normal(size=(30, 2))
    >>> y = X.sum(axis=1) + 0.3 * rng.normal(size=30)
    >>> X[4, 1] = np.nan
    >>> for seed in range(2):
    ...     imputer = IterativeImputer(sample_posterior=True, random_state=seed)
    ...     whole = imputer.fit_transform(np.column_stack([X, y]))[:, :2]
    ...     model = bx.GP(whole, y)
    ...     idata = model.fit("map", progressbar=False)
    ...     results.append(bx.attributions(model, idata, [[1.0, 0.0]], progressbar=False))
    >>> bx.combined(results)["attribution_mean"].dims
    ('obs', 'feature')

    Notes
    -----
    Impute with y among the predictors; otherwise relations with y come out too weak.

    References
    ----------
    Rubin, "Multiple imputation for nonresponse in surveys" (1987); Gelman et al., "Bayesian data
    analysis" (2013), section 18.2.
    """
    results = list(results)
    if not results:
        raise ValueError("results is empty. Pass the Dataset of each imputation.")
    results = [
        found.drop_vars([name for name in found if str(name).endswith("_interval")])
        for found in results
    ]
    first = results[0]
    names, sizes = set(first), dict(first.sizes)
    for k, found in enumerate(results):
        if set(found) != names or dict(found.sizes) != sizes:
            raise ValueError(
                f"Result {k} has {sorted(map(str, found))} of sizes {dict(found.sizes)}, but the "
                f"first has {sorted(map(str, names))} of {sizes}. Call the same explanation "
                "function for each."
            )
        if found.attrs.get("event") != first.attrs.get("event"):
            raise ValueError(
                f"Result {k} is of {found.attrs.get('event')}, but the first of "
                f"{first.attrs.get('event')}. Pass the same `of` and `at` for each."
            )
        named = found.attrs.get("baseline")
        rows = found.get("baseline")
        same = named != "given" or rows is None or rows.equals(first["baseline"])
        if named != first.attrs.get("baseline") or not same:
            pair = found, first
            said = [r.attrs.get("baseline") if same else r["baseline"].values for r in pair]
            raise ValueError(
                f"Result {k} has the baseline {said[0]!r}, but the first {said[1]!r}. Pass the "
                "same `baseline` for each."
            )
        for dim in set(first.coords) & set(first.dims) - DRAWS:
            if not found[dim].equals(first[dim]):
                raise ValueError(
                    f"Result {k} has other labels along {dim!r} than the first. Explain the same "
                    "observations and features in each."
                )
    share = _shares(weights, len(results))
    variables = {}
    for name in first:
        each = [found[name].variable for found in results]
        stacked = xr.Variable.concat(each, "imputation")
        variables[name] = _mixed(str(name), stacked, first, results, share, weights is None)
        if str(name).endswith("_mean"):
            between = _averaged((stacked - _averaged(stacked, share)) ** 2, share) ** 0.5
            variables[f"{str(name).removesuffix('_mean')}_between"] = between
    dropped = {"chain"} if weights is None else set()
    coords = {c: v for c, v in first.coords.items() if c not in dropped}
    made = xr.Dataset(variables, coords, {**first.attrs, "imputations": len(results)})
    jitters = [found.attrs.get("relative_jitter", 0.0) for found in results]
    return made.assign_attrs(relative_jitter=max(jitters))


def _shares(weights: Sequence[float] | None, count: int) -> xr.Variable:
    """Weights that sum to 1, (imputation,)."""
    values = np.ones(count) if weights is None else np.asarray(weights, dtype="float64")
    if values.shape != (count,) or not (np.isfinite(values) & (values >= 0)).all():
        raise ValueError(
            f"weights are {weights!r}. Pass a number of at least 0 for each of {count} results."
        )
    if not values.sum():
        raise ValueError("weights are all 0. Pass at least one above 0.")
    return xr.Variable("imputation", values / values.sum())


def _mixed(
    name: str,
    stacked: xr.Variable,
    first: xr.Dataset,
    results: Sequence[xr.Dataset],
    share: xr.Variable,
    equal: bool,
) -> xr.Variable:
    """One variable of the mixture."""
    if DRAWS <= set(stacked.dims):
        chains = stacked.transpose("imputation", "chain", "draw", ...)
        if equal:
            values = chains.values.reshape((-1, *chains.shape[2:]))
        else:
            values = _by_share(chains.values, share.values)
        return xr.Variable(chains.dims[1:], values).transpose(*first[name].dims)
    for end, power in (("_sd", 2), ("_cov", 1)):
        mean = f"{name.removesuffix(end)}_mean"
        if name.endswith(end) and mean in first:
            means = xr.Variable.concat([found[mean].variable for found in results], "imputation")
            apart = means - _averaged(means, share)
            bis = [f"{dim}_bis" if f"{dim}_bis" in stacked.dims else dim for dim in apart.dims]
            other = apart if power == 2 else xr.Variable(bis, apart.values)
            whole = _averaged(stacked**power + apart * other, share)
            return whole**0.5 if power == 2 else whole.transpose(*first[name].dims)
    if name in AVERAGED or name.endswith("_mean") or "probability" in name:
        return _averaged(stacked, share)
    if name.startswith("completeness_residual"):
        return stacked.max("imputation")
    raise ValueError(
        f"{name} of several fits cannot be combined to a mixture. Pass the results of "
        "bx.predictions, weights, contributions, derivatives or attributions."
    )


def _averaged(stacked: xr.Variable, share: xr.Variable) -> xr.Variable:
    """Weighed mean of what all results know; NaN where one does not."""
    return (stacked * share).sum("imputation", skipna=False)


def _by_share(draws: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Draws (chain, draw, ...) from several results (result, chain, draw, ...), by weight."""
    # Cumulative counts are rounded, so the counts add up; the draws of each result are taken
    # evenly.
    count, (chains, each) = len(share), draws.shape[1:3]
    ends = np.round(np.cumsum(share) * chains * each).astype(int)
    sizes = np.diff(ends, prepend=0)
    flat = draws.reshape((count, chains * each, *draws.shape[3:]))
    taken = [
        one[np.linspace(0, len(one), size, endpoint=False).astype(int)]
        for one, size in zip(flat, sizes, strict=True)
    ]
    return np.concatenate(taken).reshape(draws.shape[1:])
