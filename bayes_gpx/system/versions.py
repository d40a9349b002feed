"""Versions of the packages that results depend on, for reports and for bug reports."""

import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("bayes_gpx", "pymc", "pytensor", "arviz", "nutpie", "numba", "numpy", "scipy", "xarray")
"""Packages with reported versions."""


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers may depend on, by name."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def show_versions() -> None:
    """Print the versions of Python, the operating system and the dependencies.

    Include them in bug reports, with ``repr(model)``.

    Examples
    --------
    >>> import bayes_gpx as bx
    >>> bx.show_versions()  # doctest: +ELLIPSIS
    system: ...
    python: ...
    bayes_gpx: ...
    """
    for name, found in {"system": platform.platform(), **versions()}.items():
        print(f"{name}: {found}")  # noqa: T201
