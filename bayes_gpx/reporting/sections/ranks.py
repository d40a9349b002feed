"""Which features matter, and which pairs of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import xarray as xr

from bayes_gpx.plots import plot_interactions, plot_relevance
from bayes_gpx.reporting.page import Part, Prose, Section, Table, interval, number, picture

if TYPE_CHECKING:
    from bayes_gpx.reporting.results import Findings


SURE = 90.0
"""Probability of the first rank in percent from which the first is named without reservation."""

UNCLEAR = 0.05
"""p-value above which a feature or pair is said not to be distinguished from none."""

FIRST = 10
"""Pairs of features in the table; features are all in it."""


def _relevance(findings: Findings) -> Iterator[Part]:
    if not findings.comparable:
        yield Prose(
            "Relevance is missing: it needs the divergence between two predictive distributions, "
            "for which this likelihood has no quick formula. See the strongest effects above.",
            "note",
        )
        return
    ranked = findings.ranked
    yield Prose(
        "Relevance measures how quickly the predictive distribution, its mean and its spread, "
        "changes with a feature. It is given per standard deviation of the feature and has no "
        "sign. It is never 0, not even for noise."
    )
    if findings.alone:
        yield Prose(
            "The fit has a single draw of the hyperparameters, so the uncertainty of relevances, "
            "interactions and ranks is unknown.",
            "note",
        )
    yield from _reference(findings, ranked, "relevance", "feature")
    yield from _table(findings, ranked, "average_relevance", "feature", "relevance")
    yield picture(
        plot_relevance(ranked, backend="matplotlib"),
        "Features by relevance"
        + (", and how probable each rank is." if not findings.alone else ".")
        + (" Gray: the reference, up to its 95% quantile." if "relevance_null" in ranked else ""),
    )


def _reference(findings: Findings, ranked: xr.Dataset, what: str, item: str) -> Iterator[Part]:
    """What the reference is, and which of the features or pairs are not beyond it."""
    null = ranked.get(f"{what}_null")
    if null is None:
        yield Prose(
            f"No reference was computed, so a small {what} may be that of noise. For a reference, "
            "pass null=19 in Python or --null 19 on the command line. The model is then refitted "
            "19 times for each feature or pair.",
            "note",
        )
        return
    count = null.sizes["null"]
    how = {
        "feature": "the feature's column permuted",
        "pair": "responses simulated without the interaction",
    }
    yield Prose(
        f"The reference is the {what} in {count} refits with {how[item]}. p is the rank of the "
        f"{what} among them, at least {number(1 / (1 + count))}."
    )
    p = ranked[f"{what}_p"]
    alike = p[item].values[(p > UNCLEAR).values].tolist()
    if alike:
        named = ", ".join(map(str, alike))
        wide = ""
        if not findings.model.specification.observation.scaled:
            wide = (
                " For likelihoods without a scale of the noise, such as for counts and labels, "
                "refits with permuted columns follow the noise. The reference is then wide, and a "
                "feature named here may have a clear slope."
            )
        yield Prose(f"Not distinguished from no effect (p > {UNCLEAR}): {named}.{wide}", "note")


def _table(
    findings: Findings, ranked: xr.Dataset, name: str, item: str, what: str
) -> Iterator[Part]:
    order = ranked["rank_mean"].argsort(kind="stable").values  # as in the figure
    rows: list[list[Any]] = []
    tails = [f"{what}", "from", "to", "P(first), %"]
    tails = tails[:1] if findings.alone else tails
    null = ranked.get(f"{what}_null")
    if null is not None:
        tails += ["reference, 95%", "p"]
        high, p = null.quantile(0.95, "null").values, ranked[f"{what}_p"].values
    for i in order[: FIRST if item == "pair" else None]:
        one = ranked.isel({item: i})
        numbers = [float(one[f"{name}_mean"])]
        if not findings.alone:
            first = float(one["probability_rank"].sel(rank=1))
            numbers += [*map(float, one[f"{name}_interval"].values), 100 * first]
        if null is not None:
            numbers += [float(high[i]), float(p[i])]
        rows.append([str(one[item].item()), *numbers])
    prob = "" if findings.alone else f" with its {ranked.attrs['ci_prob']:.0%} interval"
    columns = [item, *tails]
    yield Table(f"Average {what}{prob}.", columns, rows)
    # The table is in the order of mean ranks; the sentence names the first in most draws.
    label, mean, *rest = rows[0] if findings.alone else max(rows, key=lambda row: row[4])
    ends = "" if findings.alone else f" {interval(*rest[:2])}"
    largest = {"feature": "The most relevant feature", "pair": "The strongest interaction"}
    said = f"{largest[item]} is {label}: {number(mean)}{ends}."
    if not findings.alone and (first := rest[2]) < SURE:
        kind = "feature is clearly the most relevant" if item == "feature" else "interaction is"
        kind += "" if item == "feature" else " clearly the strongest"
        said = f"No {kind}: {label} comes first with a probability of {first:.0f}%."
    yield Prose(said)


def _interactions(findings: Findings) -> Iterator[Part]:
    if findings.model.training.sources[0] < 2 or not findings.comparable:
        return
    ranked = findings.ranked_pairs
    yield Prose(
        "Interaction measures how strongly the effect of one feature on the predictive "
        "distribution depends on another feature."
    )
    yield from _reference(findings, ranked, "interaction", "pair")
    yield from _table(findings, ranked, "average_interaction", "pair", "interaction")
    top = 3 if ranked.sizes["pair"] > 5 else 1
    pc = plot_interactions(ranked, top=top, backend="matplotlib")
    found = ranked["average_interaction_mean"].sizes["pair"]
    d = findings.model.training.sources[0]
    some = "; gray pairs were not computed" if found < d * (d - 1) / 2 else ""
    yield picture(pc, f"Interactions of pairs of features{some}.")


RANKS = Section("relevance", "Which features matter?", (_relevance, _interactions))
