"""The house has floors: a file of bayes_gpx imports only from the floors below its own."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "bayes_gpx"

# Lowest floor first. "name/*" is a folder: its files stand side by side on one floor.
FLOORS = [
    "caches",
    "memory",
    "files",
    "digests",
    "categories",
    "frames",
    "modes",
    "threads",
    "training",
    "lengthscales",
    "approximations",
    "distances",
    "tensors",
    "kernels",
    "additive",
    "smoothness",
    "translation",
    "bases",
    "quadrature",
    "operators",
    "moments",
    "paths",
    "fans",
    "covariances",
    "processes",
    "expansions",
    "conditioning",
    "lapack",
    "evidence",
    "jets",
    "families",
    "tails",
    "expectations",
    "probabilities",
    "links",
    "labels",
    "likelihoods/*",
    "laplace",
    "variational",
    "softmax",
    "native",
    "posteriors/*",
    "specification",
    "inducing",
    "views",
    "marginals",
    "collapsed",
    "pathwise",
    "density",
    "diagnostics",
    "resampling",
    "inference",
    "stochastic",
    "starts",
    "arguments",
    "mixtures",
    "stores",
    "quantities",
    "questions",
    "responses",
    "sensitivity",
    "staged",
    "structures",
    "columns",
    "draws",
    "stein",
    "trajectories",
    "explain/*",
    "svgp",
    "modelling",
    "models",
    "surrogates",
    "placement",
    "metrics",
    "openml",
    "datasets",
    "io",
    "imputations",
    "panels",
    "marks",
    "shown",
    "plots/*",
    "interchange",
    "pages",
    "findings",
    "sections/*",
    "reports",
    "sheets",
    "demo",
    "cli",
    "sklearn",
    "__init__",
]
HEIGHT = {floor.removesuffix("/*"): height for height, floor in enumerate(FLOORS)}


def imported(source):
    """List what a source text takes from the package, as dotted names without `bayes_gpx.`.

    Imports inside functions and under `if TYPE_CHECKING` count. Taking a name that is not a floor
    from the package itself counts as `__init__`; a relative import comes back with its dots.
    """
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            names.append(f"bayes_gpx.{'.' * node.level}{node.module or ''}")
        elif isinstance(node, ast.ImportFrom) and node.module == "bayes_gpx":
            names += [
                f"bayes_gpx.{alias.name}" if alias.name in HEIGHT else "bayes_gpx"
                for alias in node.names
            ]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module)
    return [
        name.removeprefix("bayes_gpx").removeprefix(".") or "__init__"
        for name in names
        if name.split(".")[0] == "bayes_gpx"
    ]


def offences(path, source):
    """List the rules that one file, given by its path inside the package, breaks."""
    parts = path.removesuffix(".py").split("/")
    listed = path.removesuffix(".py") if len(parts) == 1 else "/".join(parts[:-1]) + "/*"
    if listed not in FLOORS:
        return [f"{path} is not on the list of floors in tests/test_floors.py: give it a floor"]
    found = []
    for name in imported(source):
        floor = name.split(".")[0]
        of_own_folder = parts[-1] == "__init__" and floor == parts[0]
        if floor not in HEIGHT:
            found.append(f"{path} imports {name}, which is not on the list of floors")
        elif HEIGHT[floor] >= HEIGHT[parts[0]] and not of_own_folder:
            found.append(f"{path} imports {name}, which is not on a lower floor")
    return found


def test_every_file_imports_only_from_lower_floors():
    files = sorted(PACKAGE.rglob("*.py"))
    assert files
    found = []
    for file in files:
        found += offences(file.relative_to(PACKAGE).as_posix(), file.read_text(encoding="utf-8"))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("kernels.py", "from bayes_gpx.models import GP"),
        ("kernels.py", "import bayes_gpx.draws as draws"),
        ("kernels.py", "from bayes_gpx import frames, io"),
        ("kernels.py", "from bayes_gpx import GP"),
        ("kernels.py", "import bayes_gpx"),
        ("kernels.py", "from bayes_gpx import kernels"),
        ("kernels.py", "from . import frames"),
        ("kernels.py", "from bayes_gpx.nowhere import something"),
        (
            "kernels.py",
            "def late():\n    if True:\n        from bayes_gpx.processes import Process",
        ),
        ("posteriors/exact.py", "from bayes_gpx.posteriors.laplace import laplace"),
        ("posteriors/exact.py", "from bayes_gpx.posteriors import laplace"),
        ("posteriors/exact.py", "from bayes_gpx import posteriors"),
        ("posteriors/__init__.py", "from bayes_gpx.explain.weights import weights"),
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
        ("kernels.py", "import numpy as np\nfrom bayes_gpx_other import models\nimport io"),
        ("kernels.py", "from bayes_gpx import frames\nfrom bayes_gpx.approximations import HSGP"),
        ("posteriors/__init__.py", "from bayes_gpx.posteriors.exact import exact"),
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
