"""The sections of a report, in its order."""

from bayes_gpx.reporting.sections.card import CARD, CITING
from bayes_gpx.reporting.sections.cautions import CAUTIONS, CONSTRAINTS as CONSTRAINTS
from bayes_gpx.reporting.sections.checks import CHECKS
from bayes_gpx.reporting.sections.inference import INFERENCE
from bayes_gpx.reporting.sections.models import MODELS as MODELS
from bayes_gpx.reporting.sections.observations import OBSERVATIONS
from bayes_gpx.reporting.sections.ranks import RANKS
from bayes_gpx.reporting.sections.slopes import SLOPES
from bayes_gpx.reporting.sections.summary import SUMMARY

SECTIONS = (
    SUMMARY, CAUTIONS, RANKS, SLOPES, OBSERVATIONS, CHECKS, INFERENCE, CARD, CITING,
)  # fmt: skip
"""Sections in the order of a report: the answer, its pictures, and what it rests on.

Before the last come `CONSTRAINTS` and `MODELS`, if there are constraints or other models.
"""
