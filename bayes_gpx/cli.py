"""The command `bayes-gpx`."""

import argparse


def main(arguments=None):
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="bayes-gpx",
        description="Gaussian processes that explain themselves, with uncertainty.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser(
        "demo", help="fit and explain the diabetes data; figures and the fit go into a folder"
    )
    demo.add_argument("--out", default="bayes-gpx-demo", help="folder (default: %(default)s)")
    demo.add_argument("--seed", type=int, default=0, help="random seed (default: %(default)s)")
    given = parser.parse_args(arguments)
    print("Loading PyMC and ArviZ ...", flush=True)
    from bayes_gpx.demo import run

    run(given.out, seed=given.seed, say=lambda line: print(line, flush=True))
    return 0
