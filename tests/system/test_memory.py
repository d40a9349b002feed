"""Memory for matrices of all pairs of rows: asked for before they are made."""

import numpy as np
import pytest

import bayes_gpx as bx
from bayes_gpx.inference.optimise import Maximum
from bayes_gpx.model import fitting
from bayes_gpx.system import memory


def test_what_cannot_fit_is_refused_before_anything_is_made(monkeypatch):
    X = np.random.default_rng(1).normal(size=(2000, 2))
    monkeypatch.setattr(Maximum, "fit", lambda *_, **__: pytest.fail("a fit was begun"))
    monkeypatch.setattr(memory, "available", lambda: 4.99 * 8 * 2000**2)
    with pytest.raises(ValueError, match=r"2000 rows without .*are free.*bx\.Inducing.*bx\.HSGP"):
        bx.GP(X, X[:, 0]).fit("map", progressbar=False)


def test_classes_have_matrices_of_their_own(monkeypatch):
    X = np.random.default_rng(1).normal(size=(1200, 2))
    model = bx.GP(X, np.arange(1200) % 10, likelihood="categorical")
    monkeypatch.setattr(Maximum, "fit", lambda *_, **__: pytest.fail("a fit was begun"))
    monkeypatch.setattr(memory, "available", lambda: 14.9 * 8 * 1200**2)
    with pytest.raises(ValueError, match=r"1200 rows of 10 classes without .*bx\.Inducing"):
        model.fit("map", progressbar=False)


def test_what_takes_hours_is_refused_before_the_first_density(monkeypatch):
    """180 densities of 3 n^3 operations: at 8e9 a second 4500 rows take 6151 s, 4000 rows 4320."""
    X = np.random.default_rng(1).normal(size=(4500, 2))
    monkeypatch.setattr(Maximum, "fit", lambda *_, **__: pytest.fail("a fit was begun"))
    monkeypatch.setattr(fitting, "flops_per_second", lambda: 8e9)
    with pytest.raises(ValueError, match=r"4500 rows .*180 factor.* 103 minutes.*bx\.Inducing"):
        bx.GP(X, X[:, 0]).fit("map", progressbar=False)

    class BegunError(Exception):
        """In the place of a fit."""

    def begin(*_, **__):
        raise BegunError

    monkeypatch.setattr(Maximum, "fit", begin)
    for model, start in (
        (bx.GP(X, X[:, 0], approximation=bx.Inducing(5)), None),
        (bx.GP(X[:4000], X[:4000, 0]), {"lengthscale": 1.0, "amplitude": 1.0, "sigma": 1.0}),
    ):
        with pytest.raises(BegunError):
            model.fit("map", start=start, progressbar=False)


def test_what_may_fit_is_tried():
    free = memory.available()
    assert 0 < free
    for n, approximation in ((1999, None), (10**7, bx.Inducing(5))):
        with memory.room_for_pairs(n, approximation):
            pass


def test_memory_that_ran_out_names_the_cure(monkeypatch):
    for free in (5 * 8 * 3000**2, None):
        monkeypatch.setattr(memory, "available", lambda free=free: free)
        with pytest.raises(MemoryError, match=r"3000 rows .*bx\.Inducing"):
            with memory.room_for_pairs(3000, None):
                raise MemoryError


@pytest.mark.parametrize(
    "files",
    [
        {"memory.max": "5000", "memory.current": "3000", "memory.stat": "inactive_file 1000"},
        {
            "memory/memory.limit_in_bytes": "5000",
            "memory/memory.usage_in_bytes": "3000",
            "memory/memory.stat": "cache 7\ntotal_inactive_file 1000",
        },
    ],
)
def test_a_container_has_what_its_limit_leaves(files, tmp_path, monkeypatch):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(memory, "CONTROL_GROUPS", tmp_path)
    assert memory.available() == 5000 - 3000 + 1000


def test_a_container_without_a_limit_has_what_the_machine_has(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "CONTROL_GROUPS", tmp_path)
    (tmp_path / "memory.max").write_text("max")
    assert memory.available() > 1e6
