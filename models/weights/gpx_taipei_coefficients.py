"""How much does a meter to the station cost here? Spatially varying coefficients of house prices.

This is a regression with Gaussian processes of place as coefficients: a GPX with X = longitude and
latitude, and Z = the other features of a house and a constant. The model is from

    Y. Yoshikawa and T. Iwata, "Gaussian process regression with interpretable sample-wise
    feature weights", IEEE Transactions on Neural Networks and Learning Systems 34 (2023)
    5789-5803.

The data are houses in Sindian, New Taipei, as in K. Butler, G. Feng and P. M. Djurić, "Explainable
learning with Gaussian processes". The model is fitted to four of five houses.

The maps show the coefficients at the places of all houses. The coefficient of `intercept` is the
price difference between a house with average features there and the average house.
"""

import sys
from pathlib import Path

from sklearn.model_selection import train_test_split

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import script

PLACE = ["longitude", "latitude"]


def main(arguments=None):
    run = script.Run("gpx_taipei_coefficients", __doc__, arguments, data="taipei", method="nuts")
    place, house = run.data.X[PLACE], run.data.X.drop(columns=PLACE)
    X, X_test, Z, Z_test, y, y_test = train_test_split(
        place, house, run.data.y, test_size=0.2, random_state=0
    )

    model = bx.GPX(X, y, Z, intercept=True)
    idata = run.fit(model)

    predicted = bx.predictions(model, idata, X_test, Z_test, seed=run.seed)
    run.score(predicted, y_test)
    run.figure(script.plot_predictions(predicted, y_test), "predictions")

    # Leave out eps_w, the deviation of a single house: a map shows the shared weights.
    places = place.drop_duplicates()
    coefficients = bx.weights(model, idata, places, smooth=True, keep="summary")
    run.figure(bx.plot_map(coefficients, places, max_features=5), "coefficients")


if __name__ == "__main__":
    main()
