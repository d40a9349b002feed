"""Check that a wheel contains the whole package and nothing else, and time its import.

    python tests/reference/wheel_contents.py dist/*.whl [--tag v0.2.0]
    python tests/reference/wheel_contents.py --import-time

The first command prints the size, and fails if a file is missing or superfluous or the wheel too
large. The second one times the import in the environment of the Python that runs it.
"""

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[2]
DATA = {
    "reporting/browser/draw.js",
    "reporting/browser/explain.js",
    "reporting/browser/kernels.js",
    "reporting/browser/mixture.js",
    "reporting/browser/page.css",
    "reporting/browser/page.html.j2",
    "reporting/browser/page.js",
    "reporting/browser/posterior.js",
    "reporting/browser/response.js",
    "data/diabetes.csv",
    "py.typed",
    "reporting/estimands.csv",
    "reporting/templates/parts.html.j2",
    "reporting/templates/picking.html.j2",
    "reporting/templates/report.html.j2",
    "reporting/templates/sorting.html.j2",
    "reporting/templates/style.html.j2",
    "schema.json",
}
"""Files of the package that are not Python. A new one is a decision: every user downloads it."""

LARGEST = 1_500_000
"""Most bytes of a wheel."""

SLOWEST = 1.0
"""Most seconds of an import, after Python's own start."""


def version() -> str:
    """The version that the project has."""
    found = re.search('^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def faults(wheel: Path, package: Path = ROOT / "bayes_gpx", tag: str = "") -> list[str]:
    """List all that is wrong with a wheel of the package in a folder."""
    found, expected = [], version()
    about = f"bayes_gpx-{expected}.dist-info/"
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
        if f"{about}METADATA" not in names:
            found.append(f"{about}METADATA is missing: the version of the project is {expected}")
    if tag and tag != f"v{expected}":
        found.append(f"the tag is {tag}, and the version of the project is {expected}")
    held = {name.removeprefix("bayes_gpx/") for name in names if name.startswith("bayes_gpx/")}
    found += [
        f"{name} is no file of the package"
        for name in sorted(names)
        if not name.startswith(("bayes_gpx/", about))
    ]
    code = {p.relative_to(package).as_posix() for p in package.rglob("*.py")}
    found += [f"bayes_gpx/{name} is missing" for name in sorted((code | DATA) - held)]
    found += [f"bayes_gpx/{name} is superfluous" for name in sorted(held - code - DATA)]
    size = wheel.stat().st_size
    if size > LARGEST:
        found.append(f"the wheel has {size} bytes, more than {LARGEST}")
    return found


def import_seconds(times: int = 5) -> float:
    """Seconds that the import takes in a fresh process, the least of several times."""

    def least(code: str) -> float:
        taken = []
        for _ in range(times):
            started = time.perf_counter()
            subprocess.run([sys.executable, "-I", "-c", code], check=True)
            taken.append(time.perf_counter() - started)
        return min(taken)

    return least("import bayes_gpx") - least("")


def main() -> int:
    """Print the size of a wheel, or the time of an import; 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", nargs="?", type=Path)
    parser.add_argument("--tag", default="", help="the tag that the version must match")
    parser.add_argument("--import-time", action="store_true")
    given = parser.parse_args()
    if given.import_time:
        seconds = import_seconds()
        print(f"import bayes_gpx: {seconds:.2f} s")
        return int(seconds > SLOWEST)
    wrong = faults(given.wheel, tag=given.tag)
    with ZipFile(given.wheel) as archive:
        number = len(archive.namelist())
    print(f"{given.wheel.name}: {given.wheel.stat().st_size / 1e6:.2f} MB, {number} files")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
