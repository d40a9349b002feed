"""Colors of signs and of uncertainty stay different for color-blind readers."""

import itertools

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from numpy.testing import assert_allclose

from bayes_gpx.plots.predictions import INSIDE, OUTSIDE
from bayes_gpx.plots.visuals import CERTAIN, NEGATIVE, POSITIVE, UNCERTAIN, pale

SEEN = {
    "everyone": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
}
"""Linear RGB as it is seen: Machado, Oliveira and Fernandes, IEEE TVCG 15 (2009), severity 1."""

TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
"""From linear sRGB, with the white point D65."""


def lab(color, seen="everyone"):
    """CIE L*a*b* of a color as it is seen."""
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(np.array(SEEN[seen]) @ linear, 0.0, 1.0) / TO_XYZ.sum(axis=1)
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def on_white(color, opacity):
    return tuple(1.0 - opacity * (1.0 - np.array(to_rgb(color))))


def test_known_colors_have_their_coordinates():
    assert_allclose(lab("#ffffff"), [100.0, 0.0, 0.0], atol=1e-9)
    assert_allclose(lab("#ff0000"), [53.24, 80.09, 67.20], atol=0.01)
    # Red and green of equal lightness are one hue without the cones for green.
    apart = [np.linalg.norm(lab("#c00000", s) - lab("#006000", s)) for s in SEEN]
    assert apart[0] > 100.0 > 2 * apart[2]


@pytest.mark.parametrize("seen", SEEN)
def test_signs_and_uncertainty_are_told_by_color(seen):
    """A distance of 2.3 is just noticeable."""
    sure = [lab(on_white(color, CERTAIN), seen) for color in (POSITIVE, NEGATIVE)]
    unsure = [lab(on_white(color, UNCERTAIN), seen) for color in (POSITIVE, NEGATIVE)]
    assert_allclose(unsure, [lab(pale(color), seen) for color in (POSITIVE, NEGATIVE)], atol=0.5)
    white = lab("#ffffff", seen)
    assert np.linalg.norm(sure[0] - sure[1]) > 40.0
    for one, other in itertools.product(sure, unsure):
        assert np.linalg.norm(one - other) > 40.0
    for one, other in itertools.combinations([*unsure, white], 2):
        assert np.linalg.norm(one - other) > 12.0
    assert np.linalg.norm(lab(INSIDE, seen) - lab(OUTSIDE, seen)) > 40.0
