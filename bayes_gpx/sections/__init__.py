"""The sections of a report, in its order."""

from bayes_gpx.sections.card import CARD
from bayes_gpx.sections.cautions import CAUTIONS
from bayes_gpx.sections.checks import CHECKS
from bayes_gpx.sections.citing import CITING
from bayes_gpx.sections.inference import INFERENCE
from bayes_gpx.sections.observations import OBSERVATIONS
from bayes_gpx.sections.ranks import RANKS
from bayes_gpx.sections.slopes import SLOPES

SECTIONS = (CARD, CAUTIONS, INFERENCE, CHECKS, RANKS, SLOPES, OBSERVATIONS, CITING)
