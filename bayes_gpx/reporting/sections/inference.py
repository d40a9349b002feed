"""Convergence of the inference in plain words, with numbers and figures."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import arviz as az
import numpy as np
import pymc as pm
import xarray as xr

from bayes_gpx.assess.compare import scores
from bayes_gpx.inference.diagnostics import FEWEST_DRAWS, LOWEST_BFMI
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.plots.selection import shortened
from bayes_gpx.reporting.page import TONES, Part, Prose, Section, Table, number, picture

if TYPE_CHECKING:
    from bayes_gpx.reporting.results import Findings


MOST_PANELS, TITLE = 12, 25
"""Panels of a figure, one for each number that is a hyperparameter; and letters of a title."""

PRIOR_DRAWS = 2000
"""Draws of each prior, plotted with the posterior."""

DIVISION = "\N{DIVISION SLASH}"
"""In the place of the slash in a label, which a DataTree takes for a path."""


def _convergence(findings: Findings) -> Iterator[Part]:
    if not findings.fitted:
        yield Prose("The hyperparameters were given, not inferred.", "note")
        return
    diagnosis, (state, summary) = findings.diagnosis, findings.convergence
    if findings.gives == "mode":
        yield Prose(
            "The fit is the posterior mode, a single draw of the hyperparameters. There are no "
            "chains to diagnose, and the intervals below ignore the uncertainty of the "
            "hyperparameters.",
            "note",
        )
    elif state and summary:
        yield Prose(summary, TONES[state])
    elif findings.gives == "weighted":  # a file of an earlier version
        yield Prose("Whether these draws are reliable was not recorded. Fit again.", "note")
    if diagnosis is not None:
        yield Prose(
            f"R-hat at most {number(diagnosis.r_hat, 4)}, effective sample sizes at least "
            f"{number(diagnosis.ess_bulk)} (bulk) and {number(diagnosis.ess_tail)} (tail), "
            f"{diagnosis.divergences} of {diagnosis.draws} transitions divergent."
        )


def _energy(findings: Findings) -> Iterator[Part]:
    if not findings.fitted or "energy" not in findings.idata["sample_stats"]:
        return
    if findings.idata["posterior"].sizes["draw"] < FEWEST_DRAWS:
        return
    found = az.bfmi(findings.idata)["energy"].values
    findings.facts["bfmi"] = found
    low = (found < LOWEST_BFMI).any()
    text = f"E-BFMI of the chains: {', '.join(map(number, found))}."
    cure = f" Below {LOWEST_BFMI} the sampler explores slowly: try other priors or longer chains."
    yield Prose(text + (cure if low else ""), "bad" if low else "good")


def _starts(findings: Findings) -> Iterator[Part]:
    if not findings.fitted or not findings.idata.children.get("starts"):
        return
    starts = findings.idata["starts"].to_dataset()
    if "log_density" not in starts or not starts.sizes.get("start"):
        return
    density = starts["log_density"].values
    near = int((density > density.max() - 0.1).sum())
    converged = int(starts["converged"].sum())
    known = {"count": len(density), "converged": converged, "best": near}
    findings.facts["starting_points"] = known
    yield Prose(
        f"The optimiser started from {len(density)} places; {converged} converged, and {near} "
        "reached the best optimum found."
    )


def _numbers(findings: Findings) -> Iterator[Part]:
    if not findings.fitted:
        named = findings.hyper.values.items()
        rows = [[n, ", ".join(number(v) for v in np.ravel(a[0, 0]))] for n, a in named]
        yield Table("Hyperparameters, as given.", ["hyperparameter", "value"], rows)
        return
    draws = _draws(findings)
    if findings.alone:
        rows = [[name, float(values.ravel()[0])] for name, values in _each(draws)]
        yield Table("Hyperparameters.", ["hyperparameter", "value"], rows)
        return
    chains = findings.gives == "chains" and len(findings.hyper.chain) > 1
    kind = "all" if chains else "stats"  # what is said of chains is not defined for one
    summary = az.summary(draws, kind=kind, ci_prob=findings.prob, round_to="none")
    caption = f"Hyperparameters: posterior mean, sd, {findings.prob:.0%} interval"
    caption += ", diagnostics." if chains else "."
    rows = [[str(name), *map(float, row)] for name, *row in summary.itertuples()]
    columns = [c.replace("_", " ") for c in summary.columns]
    columns[2:4] = "from", "to"
    yield Table(caption, ["hyperparameter", *columns], rows)


def _draws(findings: Findings) -> xr.Dataset:
    model = findings.model
    names = [variable.name for variable in model.variables.values()]
    return findings.idata["posterior"].to_dataset()[names]


def _each(draws: xr.Dataset) -> Iterator[tuple[str, np.ndarray]]:
    """Each number of a Dataset with its name, and its draws."""
    for name, array in draws.data_vars.items():
        if array.ndim == 2:
            yield str(name), array.values
            continue
        labels = [map(str, array[dim].values) for dim in array.dims[2:]]
        for place, each in zip(np.ndindex(array.shape[2:]), product(*labels), strict=True):
            label = ", ".join(each).replace("/", DIVISION)
            yield f"{name}[{label}]", array.values[:, :, *place]


def _titles(names: Sequence[str]) -> dict[str, str]:
    """Titles of panels that are three in a row, by the names of their quantities."""
    texts = (text.replace("$", r"\$") for text in shortened(names, TITLE))  # no formula
    return dict(zip(names, texts, strict=True))


def _panels(count: int) -> dict[str, Any]:
    """Options of a figure with so many panels, three in a row."""
    size = {
        "figsize": (9.0, 0.6 + 2.2 * -(-count // 3)),
        "figsize_units": "inches",
        "layout": "constrained",
    }
    return {"backend": "matplotlib", "col_wrap": 3, "figure_kwargs": size}


def _prior(findings: Findings) -> Iterator[Part]:
    """Prior against posterior; the values of a single draw as lines."""
    if not findings.fitted:
        return
    posterior, variables = _draws(findings), list(findings.model.variables.values())
    drawn = pm.draw(variables, draws=PRIOR_DRAWS, random_seed=findings.seed, mode=MODE)
    dims = [array.dims[2:] for array in posterior.data_vars.values()]
    prior = xr.Dataset(
        {
            variable.name: (("chain", "draw", *own), array[None])
            for variable, own, array in zip(variables, dims, drawn, strict=True)
        }
    ).assign_coords({d: posterior[d] for own in dims for d in own if d in posterior.coords})
    both = [dict(_each(one)) for one in (prior, posterior)]
    titles = _titles(list(both[1])[:MOST_PANELS])
    trees = [
        xr.Dataset({t: (("chain", "draw"), one[n]) for n, t in titles.items()}) for one in both
    ]
    tree = xr.DataTree.from_dict(dict(zip(("prior", "posterior"), trees, strict=True)))
    options = _panels(len(titles))
    if findings.alone:
        pc = az.plot_dist(
            tree,
            group="prior",
            visuals={"point_estimate_text": False, "point_estimate": False},
            **options,
        )
        az.add_lines(pc, values={t: float(trees[1][t].values.flat[0]) for t in trees[1]})
        said = "Priors (curves) and the values found (lines)."
    else:
        pc = az.plot_prior_posterior(tree, **options)
        said = "Prior and posterior. Where they agree, the data say little."
    for name, title in titles.items():
        panel = pc.viz["plot"][title].item()
        every = np.concatenate([np.quantile(one[name], [0.005, 0.97]) for one in both])
        panel.set_xlim(every.min(), every.max() + 0.05 * np.ptp(every))
    left = len(both[1]) - len(titles)
    yield picture(pc, said + (f" {left} more are not shown." if left else ""))


def _trace(findings: Findings) -> Iterator[Part]:
    if not findings.fitted or len(findings.hyper.chain) < 2:
        return
    draws = dict(list(_each(_draws(findings)))[:MOST_PANELS])
    titles = _titles([*draws])
    found = xr.Dataset({titles[n]: (("chain", "draw"), values) for n, values in draws.items()})
    found = found.assign_coords(chain=findings.hyper.chain, draw=findings.hyper.draw)
    tree = xr.DataTree.from_dict({"posterior": found})
    pc = az.plot_trace(tree, **_panels(len(draws)))
    yield picture(
        pc, "Draws in their order, one colour for each chain. The chains should look alike."
    )


def _loo(findings: Findings) -> Iterator[Part]:
    if not findings.fitted or not findings.idata.children.get("log_likelihood"):
        yield Prose("Leave-one-out checks need 100 draws or more: fit by Laplace or NUTS.", "note")
        return
    name = findings.model.in_model("y")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of Pareto k, which is told below
        if findings.model.specification.weighted:
            found = scores(findings.model, findings.idata)
        else:
            found = az.loo(findings.idata, var_name=name, pointwise=True)
    bad = np.asarray(found.pareto_k).ravel() > found.good_k
    tone = "bad" if bad.any() else "good"
    known = {name: float(found[name]) for name in ("elpd", "se", "p", "good_k")}
    findings.facts["loo"] = known | {"bad_k": int(bad.sum()), "rows": bad.size}
    yield Prose(
        f"Leave-one-out expected log predictive density {number(found.elpd, 4)} ± "
        f"{number(found.se)}, with {number(found.p)} effective parameters."
    )
    rows = findings.model.training.X.index[bad]
    first = ", ".join(map(str, rows[:8])) + (" and others" if len(rows) > 8 else "")
    yield Prose(
        f"{int(bad.sum())} of {bad.size} observations have a Pareto k above {number(found.good_k)}"
        + (
            f" ({first}): they influence the posterior strongly, so LOO is unreliable for them."
            if len(rows)
            else "."
        ),
        tone,
    )
    yield picture(
        az.plot_khat(found, backend="matplotlib"),
        "Pareto k of each observation. Observations with a high k influence the fit most.",
    )


INFERENCE = Section(
    "inference", "Can the inference be trusted?",
    (_convergence, _energy, _starts, _numbers, _prior, _trace, _loo),
)  # fmt: skip
