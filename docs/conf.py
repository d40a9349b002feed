"""Sphinx settings: Markdown pages, notebooks run at build time, and the API from docstrings."""

import sys
from importlib.metadata import version as version_of

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml

import bayes_gpx

# autodoc imports public objects by their public name, but these modules are elsewhere.
for _name in ("constraints", "datasets", "metrics", "operators"):
    sys.modules[f"bayes_gpx.{_name}"] = getattr(bayes_gpx, _name)

project = "bayes_gpx"
author = copyright = "The bayes_gpx developers"
release = version = version_of("bayes_gpx")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
]
exclude_patterns = ["_build", "evidence", "**/__pycache__"]
templates_path = ["_templates"]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

# Notebooks are stored without outputs, so each build runs them and finds any failure.
nb_execution_mode = "force"
nb_execution_timeout = 900
nb_execution_raise_on_error = True

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False

# Browsers render MathML without a download; MathJax needs one.
html_math_renderer = "mathml"
html_theme = "furo"
html_title = f"bayes_gpx {release}"


def _of_scikit_learn(app, what, name, found, skip, options):
    """Leave out members inherited from scikit-learn, because their links lead to its own pages."""
    return skip or str(getattr(found, "__module__", "")).startswith("sklearn.")


def _mathml(node, **options):
    """MathML of a formula, without accents that browsers draw across the next letter."""
    return tex2mathml(node.astext(), **options).replace(' accent="true"', "")


def _formula(translator, node):
    """Write a formula as MathML."""
    translator.body.append(_mathml(node))
    raise SkipNode


def _formula_by_itself(translator, node):
    """Write a formula on its own line as MathML."""
    translator.body.append(f'<div class="math">{_mathml(node, as_block=True)}</div>')
    raise SkipNode


def setup(app):
    """Register the filter for members and the writers for formulas."""
    app.connect("autodoc-skip-member", _of_scikit_learn)
    app.add_html_math_renderer("mathml", (_formula, None), (_formula_by_itself, None))
