"""The sections of a report, in its order."""

from bayes_gpx.reporting.sections.beliefs import BELIEFS as BELIEFS
from bayes_gpx.reporting.sections.card import CARD
from bayes_gpx.reporting.sections.cautions import CAUTIONS
from bayes_gpx.reporting.sections.checks import CHECKS
from bayes_gpx.reporting.sections.citing import CITING
from bayes_gpx.reporting.sections.inference import INFERENCE
from bayes_gpx.reporting.sections.models import MODELS as MODELS
from bayes_gpx.reporting.sections.observations import OBSERVATIONS
from bayes_gpx.reporting.sections.ranks import RANKS
from bayes_gpx.reporting.sections.slopes import SLOPES

SECTIONS = (CARD, CAUTIONS, INFERENCE, CHECKS, RANKS, SLOPES, OBSERVATIONS, CITING)
"""All sections, in the order of a report; before the last are `BELIEFS`, where there are any, and
`MODELS`, where there are others."""
