"""The data sets of Yoshikawa and Iwata, standardized and split as in their experiments.

X and y are standardized on all rows, then split by ``KFold(5, shuffle=True, random_state=0)``. The
drug reviews could not be obtained. For the reviews of papers, the authors use sentence vectors of a
pretrained network as X, which cannot be computed from the reviews alone. Here X is a truncated
singular value decomposition of tf-idf, and Z indicates the words that occur, as in the paper.
"""

from typing import NamedTuple

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.model_selection import KFold, train_test_split

import bayes_gpx as bx
from gpx_methods import Rows, Split

NAMES = ("diabetes", "boston", "fish", "digits", "abalone", "paper", "wine")
SPLITS = 5
COMPONENTS = 100
"""Dimensions of X for texts."""

REVIEWS = "paper_reviews/paper_reviews.csv.gz"


class Problem(NamedTuple):
    """A data set: rows, feature names, X as a function of Z, and the divisor of X."""

    name: str
    rows: Rows
    features: list
    embed: object
    spread: np.ndarray

    def splits(self, chosen=None):
        """The five splits of training and test rows."""
        folds = KFold(SPLITS, shuffle=True, random_state=0).split(self.rows.X)
        return [
            Split(self.rows.of(train), self.rows.of(test), self.embed, seed=number)
            for number, (train, test) in enumerate(folds)
        ]


def problem(name, folder=None):
    """Load one of `NAMES`."""
    if name == "paper":
        return _reviews(folder)
    data = bx.datasets.load(name, path=folder, **({"kind": "both"} if name == "wine" else {}))
    y = data.y.to_numpy(float)
    if name == "digits":
        y = np.where(y >= 5, 1.0, -1.0)
    raw = data.X.to_numpy(float)
    X, features = standardised(raw), list(data.X.columns)
    return Problem(name, Rows(X, X, standardised(y)), features, lambda Z: Z, raw.std(axis=0))


def images(per_digit, rows=None):
    """Digits as in the paper's figures: training rows, held-out images, and their digits.

    Pixels of each image are between 0 and 1; y is 1 for the digits 5 to 9 and -1 for the others.
    `per_digit` limits the held-out images of each digit, and `rows` limits the training rows; by
    default, all are used.
    """
    data = bx.datasets.load("digits")
    X, digits = data.X.to_numpy(float), data.y.to_numpy(int)
    X = X - X.min(axis=1, keepdims=True)
    X = X / X.max(axis=1, keepdims=True)
    train, test = train_test_split(np.arange(len(X)), test_size=0.2, random_state=0)
    order = test[np.argsort(digits[test], kind="stable")]
    chosen = np.concatenate([order[digits[order] == digit][:per_digit] for digit in range(10)])
    every = Rows(X, X, np.where(digits >= 5, 1.0, -1.0))
    return every.of(train[:rows]), every.of(chosen), digits[chosen]


def _reviews(folder):
    table = bx.datasets.load("paper_reviews", path=folder)
    words = CountVectorizer(min_df=2, binary=True)
    Z = words.fit_transform(table.X["text"]).astype(float)
    weigh = TfidfTransformer().fit(Z)
    reduce = TruncatedSVD(COMPONENTS, random_state=0).fit(weigh.transform(Z))
    plain = reduce.transform(weigh.transform(Z))
    center, scale = plain.mean(axis=0), plain.std(axis=0)

    def embed(changed):
        return (reduce.transform(weigh.transform(changed)) - center) / scale

    rows = Rows(embed(Z), Z.toarray(), standardised(table.y.to_numpy(float)))
    return Problem("paper", rows, list(words.get_feature_names_out()), embed, scale)


def standardised(values):
    """Center columns and divide them by their sd; constant columns become 0."""
    spread = values.std(axis=0)
    return (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
