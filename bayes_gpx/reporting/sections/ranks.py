"""Which features matter, and which pairs of them."""

from bayes_gpx.plots import plot_interactions, plot_relevance
from bayes_gpx.reporting.page import Prose, Section, Table, interval, number, picture

FIRST = 10
"""Pairs of features in the table; features are all in it."""


def _relevance(findings):
    ranked = findings.ranked
    yield Prose(
        "Relevance measures how quickly the predictive distribution, its mean and its spread, "
        "changes with a feature. It is given per standard deviation of the feature and has no sign."
    )
    if findings.alone:
        yield Prose(
            "The fit has a single draw of the hyperparameters, so the uncertainty of relevances, "
            "interactions and ranks is unknown.",
            "note",
        )
    yield from _table(findings, ranked, "average_relevance", "feature", "relevance")
    yield picture(
        plot_relevance(ranked, backend="matplotlib"),
        "Features by relevance" + ("." if findings.alone else ", and how probable each rank is."),
    )


def _table(findings, ranked, name, item, what):
    order = (-ranked[f"{name}_mean"]).argsort().values
    rows, tails = [], [f"{what}", "from", "to", "P(first), %"]
    for i in order[: FIRST if item == "pair" else None]:
        one = ranked.isel({item: i})
        numbers = [float(one[f"{name}_mean"])]
        if not findings.alone:
            first = float(one["probability_rank"].sel(rank=1))
            numbers += [*map(float, one[f"{name}_interval"].values), 100 * first]
        rows.append([str(one[item].item()), *numbers])
    prob = "" if findings.alone else f" with its {ranked.attrs['ci_prob']:.0%} interval"
    columns = [item, *tails[: len(rows[0]) - 1]]
    yield Table(f"Average {what}{prob}.", columns, rows)
    label, mean, *rest = rows[0]
    ends = "" if findings.alone else f" {interval(*rest[:2])}"
    largest = {"feature": "The most relevant feature", "pair": "The strongest interaction"}
    yield Prose(f"{largest[item]} is {label}: {number(mean)}{ends}.")


def _interactions(findings):
    if findings.model.training.sources[0] < 2:
        return
    ranked = findings.ranked_pairs
    yield Prose(
        "Interaction measures how strongly the effect of one feature on the predictive "
        "distribution depends on another feature."
    )
    yield from _table(findings, ranked, "average_interaction", "pair", "interaction")
    top = 3 if ranked.sizes["pair"] > 5 else 1
    pc = plot_interactions(ranked, top=top, backend="matplotlib")
    yield picture(pc, "Interactions of pairs of features; gray pairs were not computed.")


RANKS = Section("relevance", "Which features matter?", (_relevance, _interactions))
