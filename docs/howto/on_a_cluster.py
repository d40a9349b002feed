"""The page "On a cluster" as a script: `python docs/howto/on_a_cluster.py`, with the extra `dask`.

A GPX of rides in five partitions, fitted by NUTS and explained by two processes. For another
cluster replace `LocalCluster`, and `rides` by `dask.dataframe.read_parquet` of its files.
"""

from argparse import ArgumentParser
from pathlib import Path

import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd

import bayes_gpx as bx


def rides_of(day):
    """One partition: the rides of one day."""
    rng = np.random.default_rng(day)
    place = pd.DataFrame(rng.uniform(-1, 1, size=(10_000, 2)), columns=["east", "north"])
    length = rng.gamma(2.0, 2.0, size=len(place))
    price = (2 + np.sin(3 * place["east"])) * length + rng.normal(size=len(place))
    return place.assign(length=length, price=price)


def main(arguments=None):
    """Fit, explain, and print mean contributions."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results", "on_a_cluster"))
    parser.add_argument("--draws", type=int, default=200)
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        rides = dd.from_map(rides_of, range(5))
        sums = {"approximation": bx.HSGP(8), "priors": {"sigma_w": 0.0}}
        model = bx.GPX(rides, "price", ["length"], intercept=True, **sums)
        idata = model.fit("nuts", draws=given.draws, tune=given.draws, chains=2, seed=1)
        path = given.out / "contributions.zarr"
        explained = bx.contributions(
            model, idata, path=path, executor=client.get_executor(), num_draws=10, seed=1
        )
    print(explained.sizes)
    print(explained["contribution"].mean(("chain", "draw", "obs")).to_series())


if __name__ == "__main__":
    main()
