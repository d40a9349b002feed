"""Sphinx settings: Markdown pages, notebooks run at build time, and the API from docstrings."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx

import bayes_gpx

sys.path.insert(0, str(Path(__file__).parent))
import architecture  # noqa: E402
import supported  # noqa: E402

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
    "sphinx_design",
]
exclude_patterns = ["_build", "**/__pycache__", "generated/*.md"]
templates_path = ["_templates"]

# A name in backticks links to its page, if there is one; other names stay code.
default_role = "py:obj"
nitpick_ignore_regex = [("py:obj", ".*")]

# Only a kernel names the lexer of a cell, and a build without execution starts no kernel.
suppress_warnings = ["myst-nb.lexer"]

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
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(Path(__file__).with_name("_static") / "scorer.js")

REDIRECTS = {
    "changelog": "contributing",
    "comparisons": "benchmarks",
    "errata": "benchmarks",
    "explanation/components": "howto/time-series",
    "explanation/map": "explanation/trust",
    "explanation/one-idea": "explanation/how-it-works",
    "explanation/shapley": "explanation/attributions",
    "explanation/weights": "explanation/attributions",
    "howto/baseline": "notebooks/04_attributions_and_baselines",
    "howto/cluster": "howto/large-n",
    "howto/hand-over": "howto/export",
    "howto/inside": "howto/pymc",
    "howto/kernel": "howto/kernels",
    "howto/missing": "howto/categorical",
    "howto/pitfalls": "howto/troubleshooting",
    "howto/slow": "howto/large-n",
    "howto/smallest-model": "howto/compare",
    "howto/uncertain": "howto/effect-size",
    "howto/what-if": "howto/command-line",
    "notebooks/01_first_model": "priors",
    "notebooks/09_categories": "howto/categorical",
    "notebooks/10_hierarchy": "howto/pymc",
    "notebooks/11_large_n": "howto/large-n",
    "notebooks/12_papers": "benchmarks",
    "options": "notation",
    "papers": "benchmarks",
    "response": "explanation/how-it-works",
    "scaling": "benchmarks",
    "slopes": "explanation/how-it-works",
    "supported": "explanation/trust",
    "tutorial": "quickstart",
    "waiting": "benchmarks",
}
"""Pages that moved: the old address, and the page that has their content now."""

REDIRECT = """<!DOCTYPE html>
<html>
  <head>
    <meta charset="utf-8">
    <meta http-equiv="refresh" content="0; url={to}">
    <link rel="canonical" href="{to}">
    <title>This page has moved</title>
  </head>
  <body><p>This page has moved to <a href="{to}">{to}</a>.</p></body>
</html>
"""


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


def _redirect(app, exception):
    """Write a page at each old address that leads to the new one."""
    if exception is not None or app.builder.format != "html":
        return
    for old, new in REDIRECTS.items():
        page = Path(app.outdir, f"{old}.html")
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(REDIRECT.format(to="../" * old.count("/") + f"{new}.html"))


def setup(app: Sphinx) -> None:
    """Write what pages include; register the filter for members, formulas, and the redirects."""
    folder = Path(__file__).with_name("generated")
    architecture.write(folder)
    supported.write(folder)
    app.connect("build-finished", _redirect)
    app.connect("autodoc-skip-member", _of_scikit_learn)
    app.add_html_math_renderer("mathml", (_formula, None), (_formula_by_itself, None))
