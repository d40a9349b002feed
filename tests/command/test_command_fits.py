"""Fits by the command: like any other fit, and kept when they are interrupted."""

import signal
import subprocess
import time

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx import cli


def test_the_run_is_a_fit_like_any_other(folder):
    model, idata = bx.load(folder / "run" / "fit.nc")
    data = pd.read_csv(folder / "data.csv")
    again = bx.GPX(data[["a", "c"]], data["price"])
    assert model.specification == again.specification
    fitted = again.fit("map", progressbar=False)
    for name in ("lengthscale", "amplitude", "sigma"):
        assert_allclose(idata["posterior"][name], fitted["posterior"][name], rtol=1e-4)
    assert idata.attrs["seed"] == "5"


@pytest.mark.slow
def test_quiet_says_nothing(folder, tmp_path, capsys):
    options = ["--target", "kind", "--features", "a", "--likelihood", "bernoulli", "--model", "gp"]
    where = ["--method", "map", "--out", str(tmp_path / "labels"), "--quiet"]
    assert cli.main(["fit", f"{folder}/data.csv", *options, *where]) == 0
    said = capsys.readouterr()
    assert said.out == said.err == ""
    cli.main(
        ["explain", str(tmp_path / "labels"), f"{folder}/new.csv", "--out", f"{tmp_path}/e.csv"]
    )
    found = pd.read_csv(tmp_path / "e.csv")
    assert found["prediction_mean"].between(0, 1).all() and "weight_mean" not in found


@pytest.mark.filterwarnings("ignore:The posterior is far from its Laplace")
def test_an_earlier_fit_stays_until_the_new_one_is_complete(folder, tmp_path, monkeypatch, refused):
    monkeypatch.setattr("bayes_gpx.inference.laplace.FEWEST_PROPOSED", 50)
    run, model_fit = tmp_path / "run", bx.GP.fit
    words = ["fit", folder / "data.csv", "--target", "price", "--features", "a", "--model", "gp"]
    words += ["--out", run, "--draws", 5, "--quiet"]
    sampled = ["--method", "nuts"]
    cli.main([*map(str, words), "--method", "map"])
    earlier = (run / "fit.nc").read_bytes()
    code, said = refused(*words)
    assert code == 2 and "--force" in said

    def sampling(draws):
        """Have NUTS return so many draws, or be interrupted."""

        def fit(self, method, **options):
            assert (run / "fit.nc").read_bytes() == earlier
            if method == "nuts" and not draws:
                raise KeyboardInterrupt
            instead = {"nuts": "laplace"}.get(method, method)
            return model_fit(self, instead, draws=draws or 1, seed=1, progressbar=False)

        monkeypatch.setattr(bx.GP, "fit", fit)

    for draws, kept in ((0, 1), (3, 3), (0, 3)):  # by MAP, by NUTS so far, and no MAP in its place
        sampling(draws)
        code, said = refused(*words, *sampled, "--force")
        assert code == 130 and [line[:11] for line in said.splitlines()] == ["Interrupted"]
        assert (run / "fit.nc").read_bytes() == earlier
        assert bx.load(run / "interrupted.nc")[1]["posterior"].sizes["draw"] == kept
    (run / "interrupted.nc").unlink()
    sampling(5)
    cli.main([*map(str, [*words, *sampled]), "--force"])
    assert bx.load(run / "fit.nc")[1]["posterior"].sizes["draw"] == 5
    assert [p.name for p in run.iterdir()] == ["fit.nc"]


def test_an_interruption_before_anything_is_done_leaves_nothing(
    folder, tmp_path, monkeypatch, refused
):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(bx.GPX, "fit", stopped)
    words = ["fit", folder / "data.csv", "--target", "price", "--features", "a"]
    assert refused(*words, "--out", tmp_path / "run") == (130, "Interrupted.\n")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_an_interrupted_fit_keeps_what_is_done(folder, tmp_path, command):
    words = ["fit", folder / "data.csv", "--target", "price", "--features", "a", "--model", "gp"]
    words += ["--method", "nuts", "--draws", 1_000_000, "--tune", 100, "--chains", 2]
    for wait, at_least in ((0.2, 1), (20, 50)):
        run = tmp_path / f"run{wait}"
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen([command, *map(str, words), "--out", str(run)], **pipes)
        next(line for line in process.stdout if line.startswith("Sampling"))
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=300)
        assert process.returncode == 130, said
        foreseen = ("Sampling 2 chains", "Warning: Interrupted", "Warning: Do not trust")
        told = [line for line in said[1].splitlines() if not line.startswith(foreseen)]
        assert [line[:11] for line in told] == ["Interrupted"]
        _, idata = bx.load(run / "fit.nc")
        assert idata["posterior"].sizes["draw"] >= at_least


@pytest.fixture
def rides(tmp_path):
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.uniform(size=(60, 4)), columns=["a", "b", "c", "y"])
    (tmp_path / "rides").mkdir()
    for k in range(3):
        table[20 * k : 20 * (k + 1)].to_parquet(tmp_path / "rides" / f"{k}.parquet")
    return table, tmp_path / "rides"


@pytest.mark.parametrize("form", [pytest.param("{}", marks=pytest.mark.slow), "{}/*.parquet"])
def test_files_in_parts_are_one_table(form, rides, tmp_path, refused):
    table, folder = rides
    out = ["--method", "map", "--quiet", "--out", str(tmp_path / "run")]
    how = ["--target", "y", "--features", "a", "b", "--approximation", "hsgp:4x3"]
    assert cli.main(["fit", form.format(folder), *how, *out]) == 0
    model, idata = bx.load(tmp_path / "run" / "fit.nc")
    again = bx.GPX(
        table[["a", "b"]], table["y"], approximation=bx.HSGP((4, 3)), priors={"sigma_w": 0.0}
    )
    assert model.specification == again.specification
    fitted = again.fit("map", progressbar=False)
    assert_allclose(idata["sample_stats"]["lp"], fitted["sample_stats"]["lp"], rtol=1e-5)
    table[:3].to_csv(tmp_path / "new.csv", index=False)
    explained = ["explain", str(tmp_path / "run"), f"{tmp_path}/new.csv", "--quiet"]
    assert cli.main([*explained, "--out", f"{tmp_path}/e.csv"]) == 0
    assert len(pd.read_csv(tmp_path / "e.csv")) == 6
    assert "Give a file of rows as NEW, or fit" in refused("report", tmp_path / "run")[1]


@pytest.mark.slow
def test_labels_of_files_in_parts(rides, tmp_path):
    table, folder = rides
    for k in range(3):
        part = table[20 * k : 20 * (k + 1)]
        part.assign(y=np.where(part["y"] < part["a"], "cheap", "dear")).to_parquet(
            folder / f"{k}.parquet"
        )
    how = ["--target", "y", "--model", "gp", "--likelihood", "bernoulli", "--inducing", "8"]
    out = ["--method", "map", "--quiet", "--out", str(tmp_path / "run")]
    assert cli.main(["fit", f"{folder}/*.parquet", *how, *out]) == 0
    assert bx.load(tmp_path / "run" / "fit.nc")[0].training.labels == ("cheap", "dear")
    table[:3].to_csv(tmp_path / "new.csv", index=False)
    explained = ["explain", str(tmp_path / "run"), f"{tmp_path}/new.csv", "--quiet"]
    assert cli.main([*explained, "--out", f"{tmp_path}/e.csv"]) == 0
    assert pd.read_csv(tmp_path / "e.csv")["prediction_mean"].between(0.0, 1.0).all()


def test_files_in_parts_are_refused_with_the_flags_that_cure(rides, tmp_path, refused):
    fit = ["fit", rides[1], "--target", "y", "--method", "map", "--out", tmp_path / "run"]
    assert (
        "Pass --approximation hsgp:M, for few columns, or --approximation inducing:M."
        in refused(*fit)[1]
    )
    assert "hsgp:20x30" in refused(*fit, "--approximation", "hsgp:4x")[1]
    assert "one of them" in refused(*fit, "--approximation", "hsgp:4", "--inducing", 3)[1]
    assert "single files" in refused(*fit, "--drop-missing")[1]
    assert "'z'" in refused(*fit[:3], "z", *fit[4:])[1]
