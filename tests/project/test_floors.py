"""The house has floors: a file of bayes_gpx imports only from those that stand below its own."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "bayes_gpx"

# Lowest wing first, and in each wing the lowest file first.
HOUSE = """
system: versions warning digests files memory tasks caches
aliases
names
validation
numerics: lapack special jets coalitions quadrature columns linear_algebra
    gaussian_expectations truncated_normal compile_modes threads row_sums upper_blocks
    sparse_products
    progress
data: categorical dates fingerprints moments numbers features scaling sparse gaps outputs response
    groups row_data row_source out_of_core training reading sheets data_files datasets
kernels: distance tensor_products base profiles stationary elementary composite centred additive
    precomputed normal_form summands from_pymc
processes: operators base path_moments integrated_gradients expected_gradients
    players shapley covariance gaussian_process weight_process indexed_process
    class_process basis_functions approximations random_products basis_process
likelihoods: base tails log_link softmax_expectations predictive continuous counts classification
    heteroscedastic derived positive proportions binomial zero_inflated ordinal events own rows
    quantiles
posteriors: evidence/sites evidence/normal evidence/newton evidence/factors evidence/intervals
    evidence/laplace evidence/softmax
    evidence/correlated evidence/processes evidence/step_graphs evidence/variational evidence/sums
    evidence/row_bounds evidence/by_group evidence/groups
    evidence/coupled_classes
    evidence/expectation_propagation evidence/constrained_coefficients
    evidence/numba_forms constraints base
    gaussian exact low_rank by_group
    laplace correlated softmax latent prior_functions strategies/collapsed strategies/on_rows
    strategies/exact strategies/laplace strategies/through_coefficients strategies/low_rank
    strategies/variational strategies/sampled strategies/by_group strategies/correlated
    strategies/processes strategies/propagation strategies/choice minibatch pathwise
    predictive_derivatives component_variances
inference: base methods diagnostics log_density datatree optimise laplace nuts automatic
    stochastic
draws: protocols hyperparameter_draws points level_moves intervals claims stores questions
    averages scales naming normals new_responses results graphs turns each_draw evaluate
    constraints_met truncated leave_one_out left_out_together views answers row_draws
    random_functions candidates
model: named_kernels hyperparameters unsupported specification constraints given_values priors
    lengthscale_prior bound_data latent_variables fixed_basis observed_response inducing_points
    starting_points examination fitting description updating views model gp placement
    interaction_model refits stored_summaries storage
explain: answered null joint_draws predictions entries weights components sobol derivatives
    attributions fanova shapley_values sensitivities relevance ranking reasons
    group_differences importances partial_dependence conditional_variance comparisons next_rows
    slopes sample_functions loo_predictions imputation propensity treatment_effects
assess: removal metrics compare replicates calibrate jackknife projection project
plots: selection layout visuals predictions effects derivatives attributions beeswarm images
    relevance
export: long_form attachment influence shap tables arviz refits
reporting: page fit estimands results sections/card sections/cautions sections/inference
    sections/checks sections/observations sections/ranks sections/slopes sections/summary
    sections/models json_form describe kernel_form browser_state what_if report
demo
cli_arguments
cli_rows
cli_runs
cli_json
cli_explain
cli_next
cli_what_if
cli
sklearn
testing: agreement kernels likelihoods strategies
"""


def floors(house):
    """Files by their paths without ``.py``, lowest first; the roof of a wing is its `__init__`."""
    found = []
    for line in house.strip().replace("\n    ", " ").splitlines():
        wing, *files = line.replace(":", "").split()
        inner = ""
        for name in files:
            folder = name.rpartition("/")[0]
            if inner and folder != inner:
                found.append(f"{wing}/{inner}/__init__")
            inner = folder
            found.append(f"{wing}/{name}")
        found.append(f"{wing}/__init__" if files else wing)
    return [*found, "__init__"]


FLOORS = floors(HOUSE)
HEIGHT = {file: height for height, file in enumerate(FLOORS)}


def file_of(module, name=""):
    """The file that a dotted name of the package leads to; None for none."""
    path = "/".join([*module.split(".")[1:], *([name] if name else [])])
    for file in (path, f"{path}/__init__".removeprefix("/")):
        if file in HEIGHT:
            return file
    return file_of(module) if name else None


def imported(source):
    """List the files that a source text takes from the package, or what it takes from nowhere.

    Imports inside functions and under `if TYPE_CHECKING` count; a relative import is nowhere.
    """
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [(alias.name, file_of(alias.name)) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            found.append((f"bayes_gpx.{'.' * node.level}{node.module or ''}", None))
        elif isinstance(node, ast.ImportFrom):
            found += [(f"{node.module}.{a.name}", file_of(node.module, a.name)) for a in node.names]
    return [(name, file) for name, file in found if name.split(".")[0] == "bayes_gpx"]


def offences(path, source):
    """List the rules that one file, given by its path inside the package, breaks."""
    own = path.removesuffix(".py")
    if own not in HEIGHT:
        return [f"{path} is not on the list of floors in tests/project/test_floors.py"]
    found = []
    for name, file in imported(source):
        if file is None:
            found.append(f"{path} imports {name}, which is not on the list of floors")
        elif HEIGHT[file] >= HEIGHT[own]:
            found.append(f"{path} imports {name}, which is not on a lower floor")
    return found


def test_every_file_imports_only_from_lower_floors():
    files = {f.relative_to(PACKAGE).as_posix(): f for f in sorted(PACKAGE.rglob("*.py"))}
    assert sorted(FLOORS) == sorted(name.removesuffix(".py") for name in files)
    found = []
    for path, file in files.items():
        found += offences(path, file.read_text(encoding="utf-8"))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("kernels/base.py", "from bayes_gpx.model.gp import GP"),
        ("kernels/base.py", "import bayes_gpx.draws.evaluate as draws"),
        ("kernels/base.py", "from bayes_gpx.model import gp"),
        ("kernels/base.py", "from bayes_gpx import GP"),
        ("kernels/base.py", "import bayes_gpx"),
        ("kernels/base.py", "from bayes_gpx import kernels"),
        ("kernels/base.py", "from bayes_gpx.kernels import base"),
        ("kernels/base.py", "from bayes_gpx.kernels.composite import Sum"),
        ("kernels/base.py", "from . import distance"),
        ("kernels/base.py", "from bayes_gpx.nowhere import something"),
        ("kernels/base.py", "def late():\n    if True:\n        from bayes_gpx.cli import main"),
        ("posteriors/exact.py", "from bayes_gpx.posteriors.laplace import laplace"),
        ("posteriors/exact.py", "from bayes_gpx.posteriors import laplace"),
        ("posteriors/exact.py", "from bayes_gpx import posteriors"),
        ("posteriors/__init__.py", "from bayes_gpx.explain.weights import weights"),
        ("reporting/page.py", "from bayes_gpx.reporting.sections import card"),
        ("nowhere.py", "import numpy"),
        ("kernels/nowhere.py", "import numpy"),
        ("explain/deep/nowhere.py", "import numpy"),
    ],
)
def test_a_broken_rule_is_caught(path, source):
    assert len(offences(path, source)) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("kernels/base.py", "import numpy as np\nfrom bayes_gpx_other import models\nimport io"),
        ("kernels/base.py", "from bayes_gpx.kernels import distance\nimport bayes_gpx.validation"),
        ("posteriors/__init__.py", "from bayes_gpx.posteriors.exact import exact"),
        ("posteriors/exact.py", "from bayes_gpx.posteriors.evidence import normal"),
        ("reporting/report.py", "from bayes_gpx.reporting.sections import SECTIONS"),
        ("explain/weights.py", "from bayes_gpx.posteriors import exact"),
        ("__init__.py", "from bayes_gpx import kernels\nfrom bayes_gpx.cli import main"),
    ],
)
def test_a_kept_rule_passes(path, source):
    assert offences(path, source) == []


def test_no_file_hides_a_public_name():
    """Importing a file sets its name on the package, over a function of that name."""
    from bayes_gpx import _MAP

    files = {file.stem for file in PACKAGE.iterdir()}
    assert not [name for name, target in _MAP.items() if ":" in target and name in files]
