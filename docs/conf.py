"""Sphinx settings: pages in Markdown, notebooks run at build time, the API from docstrings."""

from importlib.metadata import version as version_of

project = "bayes_gpx"
author = copyright = "The bayes_gpx developers"
release = version = version_of("bayes_gpx")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
]
exclude_patterns = ["_build", "evidence", "**/__pycache__"]
templates_path = ["_templates"]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

# Notebooks are stored without outputs: running them is what shows that they still work.
nb_execution_mode = "force"
nb_execution_timeout = 900
nb_execution_raise_on_error = True

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False

html_theme = "furo"
html_title = f"bayes_gpx {release}"


def _of_scikit_learn(app, what, name, found, skip, options):
    """Leave out what estimators inherit: its references lead into scikit-learn's own pages."""
    return skip or str(getattr(found, "__module__", "")).startswith("sklearn.")


def setup(app):
    """Connect what is left out."""
    app.connect("autodoc-skip-member", _of_scikit_learn)
