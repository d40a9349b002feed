"""Rows that are read in parts: the same numbers as those of one table, and what is refused."""

import re
from decimal import Decimal

import arviz as az
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr
from pyarrow import dataset as arrow

import bayes_gpx as bx
from bayes_gpx.data import out_of_core, row_source as row_sources
from bayes_gpx.data.moments import Moments
from bayes_gpx.data.row_source import FileRows, row_source

rng = np.random.default_rng(3)
N = 90
FRAME = pd.DataFrame(
    {
        "far": 1e6 + rng.normal(size=N),
        "b": rng.uniform(size=N),
        "colour": pd.Categorical(rng.choice(["red", "blue"], N), categories=["red", "blue"]),
        "y": rng.normal(size=N),
    }
)
PARTS = [FRAME[:20], FRAME[20:21], FRAME[21:]]
HSGP = {"approximation": bx.HSGP(3, 1.5)}
THETA = {"lengthscale": [0.7, 1.1, 0.9], "amplitude": 1.2, "sigma": 0.3}
QUIET = {"progressbar": False, "draws": 3, "seed": 1}


class Again:
    """Frames that are made anew each time."""

    def __iter__(self):
        return iter(PARTS)


def files(folder):
    (folder / "more").mkdir()
    for k, part in enumerate(PARTS):
        part.to_parquet(folder / ("more" if k == 2 else "") / f"{k}.parquet")
    return folder


def sources(folder):
    return {
        "list": PARTS,
        "anew": Again(),
        "polars": [pl.from_pandas(part) for part in PARTS],
        "folder": files(folder),
        "glob": f"{folder}/**/*.parquet",
        "Arrow data set": arrow.dataset(folder, format="parquet"),
        "Arrow table": pa.Table.from_pandas(FRAME),
    }


def test_says_what_a_table_in_memory_says(tmp_path):
    table = bx.GP(FRAME.drop(columns="y"), FRAME["y"], **HSGP)
    new = FRAME.drop(columns="y")[:4]
    for name, source in sources(tmp_path).items():
        model = bx.GP(source, "y", **HSGP)
        assert model.training.n == N, name
        for key, value in table.sums.items():
            np.testing.assert_allclose(model.sums[key], value, rtol=1e-8, atol=1e-8)
        for verb in (bx.predictions, bx.attributions):
            one, same = (verb(m, THETA, new, **QUIET) for m in (model, table))
            for variable in one.data_vars:
                if variable.endswith(("_mean", "_sd")):
                    np.testing.assert_allclose(one[variable], same[variable], atol=1e-7)
    assert model.training.X.levels == {"colour": ("red", "blue")}


def test_fits_of_both_agree():
    found = [
        m.fit("map", progressbar=False, start=THETA)["posterior"].to_dataset()
        for m in (bx.GP(PARTS, "y", **HSGP), bx.GP(FRAME.drop(columns="y"), FRAME["y"], **HSGP))
    ]
    for name in found[0]:
        np.testing.assert_allclose(found[0][name], found[1][name], rtol=1e-4)


def test_weights_of_columns_by_name():
    options = {**HSGP, "priors": {"sigma_w": 0.0}, "intercept": True}
    model = bx.GPX(PARTS, "y", ["far"], **options)
    table = bx.GPX(FRAME[["b", "colour"]], FRAME["y"], FRAME[["far"]], **options)
    assert model.training.X.columns == ("b", "colour=red", "colour=blue")
    theta = {"lengthscale": [1.1, 0.9], "amplitude": 1.2, "sigma": 0.3}
    new = FRAME[["b", "colour"]][:4], FRAME[["far"]][:4]
    one, same = (bx.contributions(m, theta, *new, **QUIET) for m in (model, table))
    np.testing.assert_allclose(one["contribution_mean"], same["contribution_mean"], atol=1e-7)
    np.testing.assert_allclose(one["contribution_sd"], same["contribution_sd"], atol=1e-7)


@pytest.mark.parametrize("weighed", [False, True])
def test_rows_are_left_out_by_their_numbers(weighed):
    rows, X = [57, 3, 20, 88, 3], FRAME.drop(columns="y")
    if weighed:
        options = {**HSGP, "priors": {"sigma_w": 0.0}, "intercept": True}
        model = bx.GPX(PARTS, "y", ["far"], **options)
        table = bx.GPX(X[["b", "colour"]], FRAME["y"], X[["far"]], **options)
    else:
        model, table = bx.GP(PARTS, "y", **HSGP), bx.GP(X, FRAME["y"], **HSGP)
    theta = {**THETA, "lengthscale": [0.7, 0.9] if weighed else THETA["lengthscale"]}
    found, expected = (
        bx.log_likelihood(m, theta, obs=rows, progressbar=False) for m in (model, table)
    )
    assert found["obs"].values.tolist() == rows
    for name in found:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match=r"90 training rows .* obs=numpy.random"):
        bx.log_likelihood(model, theta, progressbar=False)
    some = bx.log_likelihood(model, theta, obs=np.arange(N) == 57, progressbar=False)
    np.testing.assert_allclose(some["log_likelihood"], found["log_likelihood"][..., :1], rtol=1e-12)
    for wrong in ([N], [-1], [1.5], []):
        with pytest.raises(ValueError, match="Pass integers from 0 to 89"):
            bx.log_likelihood(model, theta, obs=wrong, progressbar=False)


def test_fits_of_rows_in_parts_are_compared_as_the_message_says():
    fits, terms, rows = {}, {}, [57, 3, 20, 88, 41]
    for name, amplitude in {"small": 0.1, "large": 1.0}.items():
        options = HSGP | {"priors": {"lengthscale": [0.7, 1.1, 0.9], "amplitude": amplitude}}
        table = bx.GP(FRAME.drop(columns="y"), FRAME["y"], **options)
        idata = table.fit("laplace", draws=100, chains=1, seed=1, progressbar=False)
        fits[name] = bx.GP(PARTS, "y", **options), idata
        terms[name] = bx.log_likelihood(table, idata, obs=rows, progressbar=False)
    with pytest.raises(ValueError, match="'small', 'large' are out-of-core.*obs=.* arviz.compare"):
        bx.compare(fits)
    for model, idata in fits.values():
        found = bx.log_likelihood(model, idata, obs=rows, progressbar=False)
        idata["log_likelihood"] = found[["log_likelihood"]]
    frame = az.compare({name: idata for name, (_, idata) in fits.items()}, round_to="none")
    for name, own in terms.items():
        of_table = az.from_dict({"posterior": {"x": np.zeros((1, 100))}})
        of_table["log_likelihood"] = own[["log_likelihood"]]
        expected = az.loo(of_table).elpd
        np.testing.assert_allclose(frame.loc[name, "elpd"], expected, rtol=1e-8)


def test_rows_that_changed_since_are_refused(tmp_path):
    FRAME.to_parquet(tmp_path / "all.parquet")
    model = bx.GP(tmp_path, "y", **HSGP)
    assert model.sums
    FRAME[:50].to_parquet(tmp_path / "all.parquet")
    with pytest.raises(ValueError, match="has 50 rows and had 90"):
        bx.log_likelihood(model, THETA, obs=[3], progressbar=False)


def test_refits_do_not_read_all_rows_into_memory() -> None:
    model = bx.GP(PARTS, "y", **HSGP)
    idata = model.fit("laplace", start=THETA, draws=20, chains=1, seed=0, progressbar=False)
    wrapper = bx.SamplingWrapper(model, idata)
    with pytest.raises(ValueError, match=r"out-of-core data, but this needs to pick some of them"):
        wrapper.sel_observations([3])


def test_picked_rows_are_those_of_a_table_in_the_order_of_their_positions() -> None:
    training = bx.GP(PARTS, "y", **HSGP).training
    table = bx.GP(FRAME.drop(columns="y"), FRAME["y"], **HSGP).training
    for positions in (np.array([57, 3, 20, 3]), slice(15, 25)):
        found, expected = (data.rows(positions) for data in (training, table))
        assert not found.streamed
        assert np.array_equal(found.X.values, expected.X.values)
        assert np.array_equal(found.y, expected.y)
        assert found.X.index.tolist() == expected.X.index.tolist()


@pytest.mark.parametrize("size", [1, 7, 20, 50, 90, 1000])
def test_chunks_are_all_rows_in_their_order(size: int) -> None:
    training = bx.GP(PARTS, "y", **HSGP).training
    table = bx.GP(FRAME.drop(columns="y"), FRAME["y"], **HSGP).training
    for data in (training, table):
        chunks = [*data.chunks(size)]
        assert [chunk.n for chunk in chunks[:-1]] == [min(size, N)] * (len(chunks) - 1)
        assert 0 < chunks[-1].n <= size
        assert np.array_equal(np.vstack([chunk.X.values for chunk in chunks]), table.X.values)
        assert np.array_equal(np.concatenate([chunk.y for chunk in chunks]), table.y)


def test_power_scaling_needs_no_rows():
    model = bx.GP(PARTS, "y", **HSGP)
    table = bx.GP(FRAME.drop(columns="y"), FRAME["y"], **HSGP)
    idata = table.fit("laplace", start=THETA, draws=20, chains=1, seed=0, progressbar=False)
    one, same = (bx.power_scaling(m, idata) for m in (model, table))
    ours, theirs = (tree["log_likelihood"].to_dataset() for tree in (one, same))
    for name in theirs:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-9)


def test_moments_of_parts_are_those_of_the_whole():
    """Of a column whose mean is 1e12 of its sd, too."""
    values = np.stack([1e8 + 1e-4 * rng.normal(size=500), rng.normal(size=500)], axis=1)
    whole, joined = Moments.of(values), Moments.of(values[:3])
    for rows in (values[3:4], values[4:200], values[200:]):
        joined = joined.joined(Moments.of(rows))
    exact = values.astype(np.longdouble)
    assert joined.n == 500
    np.testing.assert_allclose(joined.mean, exact.mean(axis=0).astype(float), rtol=1e-15)
    np.testing.assert_allclose(joined.sd, exact.std(axis=0).astype(float), rtol=1e-4)
    np.testing.assert_array_equal(joined.low, whole.low)
    np.testing.assert_array_equal(joined.high, whole.high)


def test_a_sample_does_not_depend_on_threads_and_holds_rows(monkeypatch):
    monkeypatch.setattr(out_of_core, "SAMPLE", 25)
    found = []
    for threads in (1, 3):
        monkeypatch.setattr("os.cpu_count", lambda threads=threads: threads)
        monkeypatch.setattr("bayes_gpx.numerics.threads._Limit.threads", threads)
        found.append(bx.GP(PARTS, "y", **HSGP).training.X.values)
    assert found[0].shape == (25, 4)
    assert np.array_equal(*found)
    assert set(found[0][:, 0]) <= set(FRAME["far"])


@pytest.mark.parametrize(
    "source, y, message",
    [
        (iter(PARTS), "y", "read once only"),
        (PARTS, "z", r"lacks the columns \['z'\]"),
        (PARTS, FRAME["y"], "pass the name of a column"),
        ("nowhere/*.parquet", "y", "names no files that end in"),
        ([FRAME[:20], FRAME[20:].assign(b=np.nan)], "y", "Frame 1: X, column 'b', has 70 missing"),
        ([FRAME[:20], FRAME[["far", "y"]][20:]], "y", r"Frame 1: it lacks .*'b'.*unlike Frame 0"),
        ([FRAME[:20], FRAME[20:].assign(c=1)], "y", r"Frame 1: it adds \['c'\], unlike Frame 0"),
        ([FRAME[:0], FRAME[:0]], "y", "no rows in any of its parts"),
        ([], "y", "no rows in any of its parts"),
        (pa.Table.from_pandas(FRAME[:0]), "y", "no rows in any of its parts"),
        (3, "y", "X is of type int, but y names a column. Pass out-of-core data as X: the"),
        ({"b": [1.0]}, "y", "X is of type dict of str, but y names a column. .*pass y as values"),
        (["a.txt"], "y", "X is of type list of str, but y names"),
        (pl.LazyFrame(FRAME), "y", r"X is a LazyFrame .* Pass .collect\(\) .*sink_parquet"),
        (pl.LazyFrame(FRAME), FRAME["y"], "X is a LazyFrame"),
        ([FRAME[:20], pl.LazyFrame(FRAME)], "y", "Frame 1 is a LazyFrame"),
        ([pl.LazyFrame(FRAME)], "y", "Frame 0 is a LazyFrame"),
        (arrow.dataset(pa.Table.from_pandas(FRAME)), FRAME["y"], "pass the name of a column"),
        ([FRAME.assign(b=pd.Timestamp(2020, 1, 1))], "y", r"constant columns \['b'\]"),
        ([FRAME.assign(b=pd.Timedelta("1D"))], "y", "Frame 0: X, column 'b', holds dates or dur"),
        ([FRAME.assign(b=[[1.0]] * N)], "y", r"column 'b', holds \[1.0\] \(list\) at row 0"),
        ([FRAME.assign(b=Decimal(3))], "y", r"Decimal.* Convert them by .astype\(float\)"),
        ([FRAME], 3, "y is a int. For out-of-core data, pass the name of a"),
        ([FRAME[:20], 3], "y", "holds a int"),
        ([FRAME[:20], FRAME[20:].assign(b=FRAME["colour"])], "y", "categories in Frame 1 and num"),
        ([FRAME.assign(b=1.0)], "y", "constant columns"),
    ],
)
def test_refuses(source, y, message):
    with pytest.raises(ValueError, match=message):
        bx.GP(source, y, **HSGP)


@pytest.mark.parametrize(
    "Z, message",
    [
        ("far", "Z is a str.* pass a list of names"),
        (FRAME[["far"]], "Z is a DataFrame.* pass a list of names"),
        (["far", "y"], "Z names 'y', which is the response"),
        (["fat"], r"Frame 0: The data set lacks the columns \['fat'\]"),
    ],
)
def test_refuses_weighed_columns(Z, message):
    with pytest.raises(ValueError, match=message):
        bx.GPX(PARTS, "y", Z, **HSGP, priors={"sigma_w": 0.0})


def test_names_the_file_and_its_row(tmp_path):
    FRAME[:20].to_parquet(tmp_path / "0.parquet")
    FRAME[20:].assign(b=FRAME["b"].where(FRAME.index != 85)).to_parquet(tmp_path / "1.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_sources, "BATCH", 50)
        with pytest.raises(ValueError, match=r"1.parquet: X, column 'b'.*at row 65\."):
            bx.GP(tmp_path, "y", **HSGP)


def test_batches_of_arrow_data_are_numbered_on(monkeypatch):
    """Of a table and of a data set, each of which is cut into batches of `BATCH` rows."""
    monkeypatch.setattr(row_sources, "BATCH", 50)
    table = pa.Table.from_pandas(FRAME.assign(b=FRAME["b"].where(FRAME.index != 85)))
    for source in (table, arrow.dataset(table)):
        found = [*row_source(source, by_name=True).frames()]
        assert [*map(len, found)] == [50, 40]
        with pytest.raises(ValueError, match="Arrow data: X, column 'b'.*at row 85"):
            bx.GP(source, "y", **HSGP)


def test_new_rows_that_are_lazy_are_refused():
    model, new = bx.GP(PARTS, "y", **HSGP), pl.LazyFrame(FRAME)
    with pytest.raises(ValueError, match="X_new is a LazyFrame"):
        bx.predictions(model, THETA, new, **QUIET)


def test_files_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "0.parquet").write_bytes(b"")
    with pytest.raises(ValueError, match="0.parquet cannot be read. Write it anew as a whole file"):
        bx.GP(tmp_path, "y", **HSGP)
    (tmp_path / "a.csv").write_text("a,b")
    with pytest.raises(ValueError, match="names no files.*dask.dataframe.read_csv"):
        bx.GP(tmp_path / "a.csv", "y", **HSGP)


def test_columns_that_are_names_of_folders_are_not_lost(tmp_path):
    FRAME.to_parquet(tmp_path, partition_cols=["colour"])
    with pytest.raises(ValueError, match="'colour=blue', and their names are values of a column"):
        bx.GP(tmp_path, "y", **HSGP)
    assert bx.GP(tmp_path / "colour=red", "y", **HSGP).training.X.columns == ("far", "b")
    colours = pa.schema([("colour", pa.dictionary(pa.int32(), pa.string()))])
    folders = arrow.partitioning(colours, flavor="hive", dictionaries="infer")
    found = bx.GP(arrow.dataset(tmp_path, partitioning=folders), "y", **HSGP)
    assert found.training.X.columns == ("far", "b", "colour=blue", "colour=red")


def test_parts_without_rows_and_columns_in_another_order_say_the_same(tmp_path):
    turned = [PARTS[0], FRAME[:0], PARTS[1], PARTS[2][["y", "colour", "b", "far"]]]
    for k, part in enumerate(turned):
        part.to_parquet(tmp_path / f"{k}.PARQUET")
    files = sorted(tmp_path.iterdir())
    expected = bx.GP(PARTS, "y", **HSGP)
    for source in (turned, list(map(str, files))):
        model = bx.GP(source, "y", **HSGP)
        assert model.training.X.columns == expected.training.X.columns
        for key, value in expected.sums.items():
            np.testing.assert_allclose(model.sums[key], value, rtol=1e-12, atol=1e-12)
    found, given = (bx.predictions(m, THETA, keep="summary", **QUIET) for m in (model, expected))
    np.testing.assert_allclose(found["f_mean"], given["f_mean"], atol=1e-9)


def test_numbers_as_names_of_columns_are_their_words():
    numbered = [part.set_axis([0, 1, 2, 3], axis=1) for part in PARTS]
    model = bx.GPX(numbered, "3", ["0"], **HSGP, priors={"sigma_w": 0.0})
    assert model.training.X.columns == ("1", "2=red", "2=blue")
    assert model.training.Z.columns == ("0",)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"obs": [0]}, "obs was given, but all rows are explained"),
        ({"joint": True}, "joint was given, but all rows are explained"),
        ({"executor": "two processes"}, "executor is a str. Pass one of concurrent.futures"),
    ],
)
def test_explanations_in_parts_refuse(options, message):
    model = bx.GP(PARTS, "y", **HSGP)
    with pytest.raises(ValueError, match=message):
        bx.predictions(model, THETA, keep="summary", **options, **QUIET)


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, r"Pass approximation=bx.HSGP\(m\), .* or approximation=bx.Inducing\(m\)"),
        ({"likelihood": "student_t"}, "the model has no approximation"),
        ({"representation": "hierarchy"} | HSGP, "has variables for each row"),
    ],
)
def test_refuses_models_that_need_rows_at_hand(options, message):
    with pytest.raises(ValueError, match=message):
        bx.GP(PARTS, "y", **options)


def test_files_of_fits_hold_no_rows(tmp_path):
    options = {**HSGP, "priors": {"sigma_w": 0.0}, "intercept": True}
    model = bx.GPX(PARTS, "y", ["far"], **options)
    idata = model.fit("map", progressbar=False)
    path = tmp_path / "fit.nc"
    bx.save(model, idata, path)
    with xr.open_datatree(path, engine="h5netcdf") as file:
        assert "rows were read in parts and are not stored" in file.attrs["bayes_gpx_rows"]
        assert file["bayes_gpx"].sizes["obs"] == 1
    again, kept = bx.load(path)
    assert "rows" not in kept.attrs and "rows" not in idata.attrs
    assert re.search(r"^Rows +90, read in parts$", repr(model), re.MULTILINE)
    assert re.search(r"^Rows +90, not stored$", repr(again), re.MULTILINE)
    assert again.training.X.values.shape == (1, len(model.training.X.columns))
    assert again.training.n == N
    new = FRAME[["b", "colour"]][:4], FRAME[["far"]][:4]
    for verb in (bx.predictions, bx.attributions):
        one, same = (verb(m, i, *new, **QUIET) for m, i in ((model, idata), (again, kept)))
        assert one.equals(same)
    refitted = again.fit("map", progressbar=False)
    best = [float(i["sample_stats"]["lp"].max()) for i in (idata, refitted)]
    np.testing.assert_allclose(*best, atol=1e-4)
    for ask in (
        lambda: bx.predictions(again, kept, keep="summary", progressbar=False),
        lambda: bx.slopes(again, kept, progressbar=False),
        lambda: bx.report(again, kept, path=tmp_path / "report"),
    ):
        with pytest.raises(ValueError, match=r"not saved with the fit\. Pass rows .* as X_new, or"):
            ask()


def test_levels_are_those_of_all_parts():
    """Polars and Parquet may declare the levels of a part alone."""
    parts = [FRAME[:20], FRAME[20:].assign(colour=FRAME["colour"].cat.add_categories("green"))]
    model = bx.GP(parts, "y", **HSGP)
    assert model.training.X.levels == {"colour": ("red", "blue", "green")}
    assert not model.training.moments.mean[model.training.X.columns.index("colour=green")]


def test_a_name_is_no_response_of_a_table():
    with pytest.raises(ValueError, match="y is the str 'y', .* Pass the values of the column 'y'"):
        bx.GP(FRAME, "y", **HSGP)


def test_tables_are_tables():
    assert row_source(FRAME) is None
    assert row_source(pl.from_pandas(FRAME)) is None
    assert row_source([[1.0, 2.0]]) is None
    assert row_source(np.zeros((3, 2))) is None
    assert row_source(pa.Table.from_pandas(FRAME)) is None
    assert bx.GP(pa.Table.from_pandas(FRAME[["b"]]), FRAME["y"]).training.n == N


def test_files_are_read_in_the_order_of_their_names(tmp_path):
    assert row_source(files(tmp_path)) == FileRows(
        tuple(str(tmp_path / name) for name in ("0.parquet", "1.parquet", "more/2.parquet"))
    )
