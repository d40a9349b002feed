"""The option --json: the numbers of the tables, valid by the schema, and nothing else printed."""

import json
import re
import subprocess
from importlib.resources import files

import jsonschema
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx import cli
from bayes_gpx.export import tables

VALID = jsonschema.Draft202012Validator(
    json.loads(files("bayes_gpx").joinpath("schema.json").read_text())
)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A fit of rows with ids, groups, categories and gaps; and the folder with rows to explain."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"visit": [f"v{k}" for k in range(24)]})
    frame["patient"] = np.repeat([7, 8, 9], 8)
    frame["dose, mg"] = rng.normal(size=24).round(3)
    frame["kind"] = rng.permutation(["a", "b", "b"] * 8)
    frame["pain"] = frame["dose, mg"] + 0.5 * (frame["patient"] - 8) + 0.3 * rng.normal(size=24)
    folder = tmp_path_factory.mktemp("json")
    frame.to_csv(folder / "data.csv", index=False)
    new = frame.iloc[[5, 3, 20]].reset_index(drop=True)
    new.loc[1, "dose, mg"] = np.nan
    new.to_csv(folder / "new.csv", index=False)
    roles = ["--id", "visit", "--groups", "patient", "--categorical", "kind", "--impute", "median"]
    how = ["--model", "gp", "--method", "laplace", "--draws", "30", "--seed", "11"]
    words = ["fit", folder / "data.csv", "--target", "pain", *roles, *how, "--out", folder / "run"]
    cli.main([*map(str, words), "--quiet"])
    return folder, new


@pytest.fixture
def printed(capsys):
    """Run a command with --json: each text that it printed, valid and read again; all messages."""

    def run(*words):
        capsys.readouterr()
        assert cli.main([*map(str, words), "--json"]) == 0
        out, err = capsys.readouterr()
        found = json.loads(out)
        found = found if isinstance(found, list) else [found]
        for text in found:
            VALID.validate(text)
        return {text["function"]: text for text in found}, err

    return run


def columns(result, quantity, table):
    """Compare mean, sd and interval of a quantity with the columns of a table."""
    for moment in ("mean", "sd"):
        values = result[f"{quantity}_{moment}"].values.ravel()
        assert_allclose(values, table[f"{quantity}_{moment}"], rtol=1e-12, atol=1e-14)
    ends = result[f"{quantity}_interval"].values.reshape(-1, 2)
    assert_allclose(ends, table[[f"{quantity}_lower", f"{quantity}_upper"]], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("rows", [100, 2])  # that are computed at once
def test_predictions_are_those_of_the_table(fitted, printed, tmp_path, monkeypatch, rows):
    monkeypatch.setattr(tables, "CHUNK", rows)
    folder, new = fitted
    words = ["predict", folder / "run", folder / "new.csv", "--out", tmp_path / "p.csv"]
    found, messages = printed(*words, "--ci-prob", "0.8")
    said, table = found["predictions"], pd.read_csv(tmp_path / "p.csv")
    again = bx.from_json(json.dumps(said))
    assert again["obs"].values.tolist() == table["row"].tolist() == [1, 2, 3]
    for name in ("id", "group", "observed"):
        assert again[name].values.tolist() == table[name].tolist()
    assert again["filled_in"].values.tolist() == ["", "dose, mg", ""]
    for quantity in ("f", "y"):
        columns(again, quantity, table)
    assert said["intervals"]["probability"] == 0.8
    assert said["seed"] == {"fit": 11, "call": 0} and said["warnings"] == []
    _, idata = bx.load(folder / "run" / "fit.nc")
    assert said["convergence"]["method"] == "laplace"
    assert said["convergence"]["pareto_k"] == idata.attrs["khat"]
    assert "Filled in 1 missing value" in messages and "wrote" in messages


@pytest.mark.parametrize("rows", [100, 2])
def test_explanations_are_those_of_the_table(fitted, printed, tmp_path, monkeypatch, rows):
    monkeypatch.setattr(tables, "CHUNK", rows)
    folder, _ = fitted
    words = ["explain", folder / "run", folder / "new.csv", "--out", tmp_path / "e.csv"]
    found, _ = printed(*words, "--baseline", "median")
    table, rows = pd.read_csv(tmp_path / "e.csv"), pd.read_csv(tmp_path / "e_predictions.csv")
    assert {*found} == {"predictions", "attributions"}
    said = found["attributions"]
    again = bx.from_json(json.dumps(said))
    columns(again, "attribution", table)
    assert again["level"].values[:, 1].tolist() == table["value"][1::2].tolist()
    assert said["baseline"]["name"] == "median" and {*said["baseline"]["values"]} == {
        "dose, mg",
        "kind",
    }
    columns(bx.from_json(json.dumps(found["predictions"])), "y", rows)


def test_weights_and_contributions_come_along(folder, printed, tmp_path):
    words = ["explain", folder / "run", folder / "new.csv", "--out", tmp_path / "e.csv"]
    found, _ = printed(*words, "--attribution", "shapley")
    table = pd.read_csv(tmp_path / "e.csv")
    assert {*found} == {"predictions", "weights", "contributions", "shapley_values"}
    for quantity, function in (("weight", "weights"), ("contribution", "contributions")):
        columns(bx.from_json(json.dumps(found[function])), quantity, table)
    own = bx.from_json(json.dumps(found["weights"]))["weight_deviation_sd"].values.ravel()
    assert_allclose(own, table["weight_deviation_sd"])
    shares = bx.from_json(json.dumps(found["shapley_values"]))
    columns(shares, "attribution", table)


def test_next_rows_are_those_of_the_printed_lines(fitted, printed, capsys, tmp_path):
    folder, new = fitted
    words = ["next", folder / "run", folder / "data.csv", "--size", "2"]
    words += ["--out", tmp_path / "n.csv"]
    cli.main([*map(str, words)])
    first, second, sds, _ = capsys.readouterr().out.splitlines()
    found, messages = printed(*words)
    assert messages.startswith("wrote ")
    again = bx.from_json(json.dumps(found["next_rows"]))
    assert_allclose(again["score"], pd.read_csv(tmp_path / "n.csv")["score"])
    chosen = zip(again["selected"].values, again["selected_score"].values, strict=True)
    for k, (line, (row, score)) in enumerate(zip((first, second), chosen, strict=True), 1):
        assert line == f"{k}. row {row} (v{row - 1}): score {score:.3g}"
    assert again["id"].sel(candidate=1).item() == "v0"
    assert f"{again['sd_before'].values.mean():.3g} today" in sds


def test_rows_outside_the_data_are_told_once_for_all_blocks(fitted, printed, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "CHUNK", 2)
    folder, new = fitted
    new.assign(**{"dose, mg": [90.0, 0.0, 80.0]}).to_csv(tmp_path / "far.csv", index=False)
    found, messages = printed("predict", folder / "run", tmp_path / "far.csv", "--seed", "3")
    (told,) = found["predictions"]["warnings"]
    kind, _, text = told.partition(": ")
    assert kind == "ExtrapolationWarning" and "dose, mg in 2, as far as 90" in text
    assert messages.count("Warning") == 1
    assert found["predictions"]["seed"]["call"] == 3


@pytest.mark.parametrize("command", ["predict", "explain"])
def test_json_needs_no_file_and_nothing_needs_one_of_them(
    fitted, printed, refused, command, tmp_path, monkeypatch
):
    folder, _ = fitted
    monkeypatch.chdir(tmp_path)
    words = [command, folder / "run", folder / "new.csv"]
    found, messages = printed(*words, "--quiet")
    assert "predictions" in found and messages == "" and not [*tmp_path.iterdir()]
    code, told = refused(*words)
    assert code == 2 and "Pass a CSV file, --json, or both" in told


def test_a_file_of_predictions_needs_one_of_explanations(fitted, refused, tmp_path):
    folder, _ = fitted
    words = ["explain", folder / "run", folder / "new.csv", "--json"]
    code, told = refused(*words, "--predictions", tmp_path / "p.csv")
    assert code == 2 and "Pass both, or neither" in told


def test_the_real_command_prints_json_alone(folder, command):
    words = [command, "predict", folder / "run", folder / "new.csv", "--json"]
    done = subprocess.run(words, capture_output=True, text=True)
    VALID.validate(json.loads(done.stdout))


def test_a_page_with_sliders_starts_in_the_groups_of_a_file(fitted, tmp_path):
    folder, new = fitted
    page = tmp_path / "page.html"
    words = ["what-if", folder / "run", folder / "new.csv", "--out", page, "--quiet"]
    assert cli.main([*map(str, words)]) == 0
    shown = re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.S)[1]
    data = json.loads(shown)
    group = data["features"][-1]
    assert group["name"] == "group" and group["levels"] == ["7", "8", "9", "a new group"]
    codes = [group["levels"][int(point[group["columns"][0]])] for point in data["points"]]
    assert codes == new["patient"].astype(str).tolist() and data["labels"] == list(new["visit"])
