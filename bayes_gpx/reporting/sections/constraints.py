"""Constraints on the function, and whether they hold."""

from bayes_gpx.draws.constraints_met import UNLIKELY
from bayes_gpx.posteriors.base import CONSTRAINED, CONSTRAINED_WHITENED
from bayes_gpx.reporting.page import Prose, Section, Table, number

OFTEN = 0.1
"""Average probability of a violation at a training row above which it is reported."""

FEW = 5
"""Most points with bounds for which expectation propagation is accurate."""

STAGES = ("prior", "data", "posterior")
"""What the probabilities of a constraint are given: nothing, the data alone, and both."""


def contradicted(findings):
    """Names of constraints that the data alone give almost no probability at some point.

    Yields a sentence for readers of the summary only.
    """
    found = findings.constraints
    if found is None:
        return
    unlikely = (found["data_probability"] < UNLIKELY).values
    names = dict.fromkeys(found["constraint_of_statement"].values[unlikely].tolist())
    if names:
        yield Prose(
            f"The data contradict a constraint: alone, they give {', '.join(names)} a "
            f"probability below {UNLIKELY:.0%} at one or more points. Compare with a model "
            "without these constraints before using either.",
            "bad",
        )


def _table(findings):
    found, rows = findings.constraints, []
    of_statement, low = found["constraint_of_statement"].values, found["low"].values
    for name, violation in zip(found["constraint"].values, found["violation"].values, strict=True):
        own = of_statement == name
        lowest = [100 * found[f"{stage}_probability"].values[own].min() for stage in STAGES]
        known = (low == found["high"].values)[own].all()
        outside = "" if known else 100 * float(violation)
        rows.append([str(name), int(own.sum()), *map(float, lowest), outside])
    yield Prose(
        "The model was given knowledge of the function beside the data. It holds at the points "
        "where it was stated; between them the function is free."
    )
    columns = ["constraint", "points", "prior, %", "data alone, %", "posterior, %", "violated, %"]
    yield Table(
        "Probability of each constraint at the point where it is lowest: before the data, given "
        "the data alone, and given the constraints too. Of a known value it is the probability of "
        "being at least as far off. Last, the probability that bounds are violated at a training "
        "row, on average over the rows.",
        columns,
        rows,
    )


def _conflict(findings):
    told = list(contradicted(findings))
    yield from told
    found = findings.constraints
    if not told:
        lowest = float(found["data_probability"].min())
        yield Prose(
            f"The data contradict no constraint: alone, they give each a probability of "
            f"{lowest:.1%} or more at each of its points.",
            "good",
        )
    often = found["constraint"].values[(found["violation"] > OFTEN).values]
    if len(often):
        yield Prose(
            f"Away from its points, {', '.join(often)} does not hold everywhere: state it at "
            "more rows (at=) if it matters there.",
            "note",
        )
    bounds = int((found["low"] < found["high"]).sum())
    names = findings.model.latent_names
    sampled = {names.get(CONSTRAINED), names.get(CONSTRAINED_WHITENED)} & {
        *findings.posterior_variables
    }
    if bounds > FEW and not sampled:
        apart = findings.model.specification.normal
        cure = "truncated='sample'" if apart else "method='nuts' and latent='sample'"
        yield Prose(
            f"There are {number(bounds)} points with bounds, each replaced by an observation with "
            "noise (expectation propagation). With that many, intervals are too narrow: fit with "
            f"{cure}.",
            "note",
        )


CONSTRAINTS = Section("constraints", "Do the constraints hold?", (_table, _conflict))
