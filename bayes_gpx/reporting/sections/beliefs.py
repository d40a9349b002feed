"""What was believed of the function beside the data, and whether it holds."""

from bayes_gpx.draws.believed import UNLIKELY
from bayes_gpx.posteriors.base import BELIEVED, BELIEVED_WHITENED
from bayes_gpx.reporting.page import Prose, Section, Table, number

OFTEN = 0.1
"""Probability of a violation at a training row, on average, from which it is pointed out."""

FEW = 5
"""Points with bounds up to which expectation propagation is accurate."""

STAGES = ("prior", "data", "posterior")
"""What the probabilities of a belief are given: nothing, the data alone, and both."""


def contradicted(findings):
    """Names of beliefs to which the data alone give next to no probability at one of their points.

    Yields a sentence for a reader who looks at nothing else.
    """
    found = findings.beliefs
    if found is None:
        return
    unlikely = (found["data_probability"] < UNLIKELY).values
    names = dict.fromkeys(found["belief_of_statement"].values[unlikely].tolist())
    if names:
        yield Prose(
            f"The data contradict what was believed: alone, they give {', '.join(names)} a "
            f"probability below {UNLIKELY:.0%} at one or more points. Compare with a model "
            "without these beliefs before using either.",
            "bad",
        )


def _table(findings):
    found, rows = findings.beliefs, []
    of_statement, low = found["belief_of_statement"].values, found["low"].values
    for name, violation in zip(found["belief"].values, found["violation"].values, strict=True):
        own = of_statement == name
        lowest = [100 * found[f"{stage}_probability"].values[own].min() for stage in STAGES]
        known = (low == found["high"].values)[own].all()
        outside = "" if known else 100 * float(violation)
        rows.append([str(name), int(own.sum()), *map(float, lowest), outside])
    yield Prose(
        "The model was given knowledge of the function beside the data. It holds at the points "
        "where it was stated; between them the function is free."
    )
    columns = ["belief", "points", "prior, %", "data alone, %", "posterior, %", "violated, %"]
    yield Table(
        "Probability of each belief at the point where it is lowest: before the data, given the "
        "data alone, and given the beliefs too. Of a known value it is the probability of being "
        "at least as far off. Last, the probability that bounds are violated at a training row, "
        "on average over the rows.",
        columns,
        rows,
    )


def _verdict(findings):
    told = list(contradicted(findings))
    yield from told
    found = findings.beliefs
    if not told:
        lowest = float(found["data_probability"].min())
        yield Prose(
            f"The data contradict no belief: alone, they give each a probability of {lowest:.1%} "
            "or more at each of its points.",
            "good",
        )
    often = found["belief"].values[(found["violation"] > OFTEN).values]
    if len(often):
        yield Prose(
            f"Away from its points, {', '.join(often)} does not hold everywhere: state it at "
            "more rows (at=) if it matters there.",
            "note",
        )
    bounds = int((found["low"] < found["high"]).sum())
    names = findings.model.latent_names
    sampled = {names.get(BELIEVED), names.get(BELIEVED_WHITENED)} & {*findings.posterior_variables}
    if bounds > FEW and not sampled:
        apart = findings.model.specification.normal
        cure = "truncated='sample'" if apart else "method='nuts' and latent='sample'"
        yield Prose(
            f"There are {number(bounds)} points with bounds, each replaced by an observation with "
            "noise (expectation propagation). With that many, intervals are too narrow: fit with "
            f"{cure}.",
            "note",
        )


BELIEFS = Section("beliefs", "Does what was believed hold?", (_table, _verdict))
