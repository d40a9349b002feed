"""Write a fit and its explanations to one HTML file that opens from disk."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from os import PathLike
from os.path import relpath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import arviz as az
import jinja2
import matplotlib as mpl

from bayes_gpx.aliases import Column, Draws, Labels, Table
from bayes_gpx.draws.hyperparameter_draws import refuse_swapped
from bayes_gpx.export.tables import ATTRIBUTION_METHODS
from bayes_gpx.numerics.progress import progress_bar
from bayes_gpx.numerics.threads import on_cores
from bayes_gpx.reporting.json_form import document, plain
from bayes_gpx.reporting.page import Page, Prose, compose, number
from bayes_gpx.reporting.results import Findings
from bayes_gpx.reporting.sections import CONSTRAINTS, MODELS, SECTIONS
from bayes_gpx.reporting.what_if import refuse_what_if, what_if as write_page
from bayes_gpx.system.files import replaced, writable
from bayes_gpx.system.warning import warn
from bayes_gpx.validation import count, one_of

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model

STYLE = "arviz-variat"
"""Style of figures; ArviZ provides it."""

SIZES = {"font.size": 10, "axes.labelsize": 10, "axes.titlesize": 11, "figure.titlesize": 12}
SIZES |= dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 9)
"""Font sizes in figures, in points."""


@on_cores
def report(
    model: Model,
    idata: Draws,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    path: str | PathLike,
    groups_new: Column | None = None,
    y_new: Column | None = None,
    obs: Labels | None = None,
    baseline: str | Table = "mean",
    attribution: Literal["integrated_gradients", "shapley"] = "integrated_gradients",
    others: Mapping[str, tuple[Model, Draws]] | None = None,
    ci_prob: float | None = None,
    null: int | bool | None = None,
    what_if: str | PathLike | None = None,
    cores: int | None = None,
    seed: int | None = None,
    progressbar: bool = True,
) -> Path:
    """Write an HTML report of a fit: diagnostics, scores and explanations.

    The file loads nothing when it is opened. Its script element "results" contains the numbers of
    its sentences as JSON, in the form of `to_json`. A section that fails contains the error.

    Parameters
    ----------
    model : GP or GPX
    idata : xarray.DataTree or dict
        A fit, or a dict of fixed hyperparameters on the model's scale.
    X_new, Z_new, groups_new : frames or arrays of m rows, optional
        New rows to explain; None for the training rows. Averages use at most 100 of them.
    y_new : array or pandas.Series (m,), optional
        Responses of the new rows, which score the predictions. Otherwise each training row in turn
        is left out.
    path : str or path
        The HTML file, in an existing folder. An earlier file is replaced only at the end.
    obs : label or list of labels, optional
        Rows to explain one by one. By default there are three, with the lowest, a middle and the
        highest prediction.
    baseline : {"mean", "median", "zero"}, array (d,) or (B, d), or frame row
        The baseline of attributions; see `attributions`.
    attribution : {"integrated_gradients", "shapley"}
        Attribute single rows by `attributions` or by `shapley_values`.
    others : dict of (model, idata), optional
        Other models of the same response, rows and columns, by name, fitted by the same method. A
        section shows `compare`, the explanations of each model, and their average by `combined`.
    ci_prob : float, optional
        Probability of all intervals; 90% by default.
    null : int or bool, optional
        Replicates of the reference for relevance and interactions, see `relevance`; True for 19. By
        default only relevance has a reference, for up to 150 rows and 10 features.
    what_if : str or path, optional
        Also write a page with sliders to this file, see `what_if`, and link it.
    seed : int, optional
        The report states it.
    progressbar : bool
        Count the written sections.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    ValueError
        If the path cannot be written to, or rows, labels, `idata` or other models do not fit
        the model, before anything is computed.
    """
    refuse_swapped(model, idata)
    model.training.refuse_outputs("report", "Fit a model of one column of y.")
    model.training.refuse_sparse("report")
    target = writable(path)
    page_beside = None if what_if is None else writable(what_if)
    if page_beside is not None:
        refuse_what_if(model, idata)
    if seed is None:
        seed = secrets.randbelow(2**32)
    count("seed", seed, 0)
    one_of("attribution", attribution, ATTRIBUTION_METHODS)
    options: dict[str, Any] = {
        "groups_new": groups_new,
        "attribution": attribution,
        "others": others,
    }
    options |= {"ci_prob": ci_prob, "null": null}
    options |= {"obs": obs, "y_new": y_new, "baseline": baseline, "seed": int(seed)}
    findings = Findings(model, idata, X_new, Z_new, **options)
    if page_beside is not None:
        options = {"path": page_beside, "ci_prob": ci_prob, "seed": int(seed)}
        write_page(model, idata, X_new, Z_new, groups=groups_new, **options)
    beside = [CONSTRAINTS] if model.specification.constraints is not None else []
    beside += [MODELS] if findings.others else []
    sections = [*SECTIONS[:-1], *beside, *SECTIONS[-1:]]
    pages = [Page(section.key, section.title) for section in sections]
    reached = 0
    try:
        with (
            mpl.rc_context(),
            az.rc_context({"stats.ci_prob": findings.prob}),
            progress_bar(progressbar) as progress,
        ):
            az.style.use(STYLE)
            mpl.rcParams.update(SIZES)  # type: ignore[arg-type]  # names of settings are strings
            both = zip(pages, sections, strict=True)
            said = "Writing the report, by section"
            for page, section in progress.track(both, total=len(pages), description=said):
                compose(section, findings, page)
                reached += 1
    finally:
        for page in pages[reached:]:
            page.failed = True
            page.parts.append(Prose("The report was interrupted before this was complete.", "bad"))
        link = None if page_beside is None else relpath(page_beside, target.parent)
        html = _html(findings, pages, link).encode()
        with replaced(target) as file:
            file.write(html)
    if failed := [repr(page.title) for page in pages if page.failed]:
        warn(f"Parts of the report could not be made, under {', '.join(failed)}. It says why.")
    return target


def _html(findings: Findings, pages: Sequence[Page], link: str | None) -> str:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("bayes_gpx.reporting"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["number"] = number
    data = findings.model.training
    about = {
        "title": f"{data.y_name}: predictions, explained",
        "link": link,
        "subtitle": f"{findings.model.specification.family} fitted to {data.n} observations of "
        f"{data.sources[0]} feature{'s' * (data.sources[0] != 1)}",
    }
    about["results"] = _json(findings)
    return environment.get_template("report.html.j2").render(pages=pages, **about)


def _json(findings: Findings) -> str:
    """The numbers of all sentences, as JSON that a script element can hold."""
    results = findings.results().items()
    said = {name: document(found, findings.model, findings) for name, found in results}
    text = json.dumps({"results": said, "facts": plain(findings.facts)}, allow_nan=False)
    return text.replace("<", "\\u003c")
