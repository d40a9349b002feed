"""Answer twenty questions of an auditor about one row, from the JSON of `to_json` alone.

python audit.py explained.json
"""

import json
import math
import sys


def at(numbers, name, **labels):
    """A number of a variable, or a list, at labels of some of its dims."""
    variable = numbers["data_vars"][name]
    values, dims = variable["data"], variable["dims"]
    for dim in dims:
        if dim in labels:  # these come first
            values = values[numbers["coords"][dim]["data"].index(labels[dim])]
    return values


def answers(said, row):
    """Answers about the attributions of a row, by question."""
    numbers, model, fit = said["numbers"], said["model"], said["convergence"]
    features = numbers["coords"]["feature"]["data"]
    each = {
        feature: (
            at(numbers, "attribution_mean", obs=row, feature=feature),
            *at(numbers, "attribution_interval", obs=row, feature=feature),
        )
        for feature in features
    }
    first = max(each, key=lambda feature: abs(each[feature][0]))
    total = math.fsum(mean for mean, _, _ in each.values())
    whole = at(numbers, "difference_mean", obs=row)
    return {
        "What was estimated?": said["estimands"]["attribution"],
        "In which unit?": said["units"]["attribution"],
        "For which rows?": numbers["coords"]["obs"]["data"],
        "What were the values of this row?": dict(
            zip(features, at(numbers, "value", obs=row), strict=True)
        ),
        "Compared with which baseline?": said["baseline"],
        "Which feature matters most?": first,
        "How much?": each[first][0],
        "How certain is that?": each[first][1:],
        "What kind of interval is it?": (
            said["intervals"]["probability"],
            said["intervals"]["kinds"]["attribution"],
        ),
        "Of which features is the sign known?": [
            feature for feature, (_, low, high) in each.items() if low > 0 or high < 0
        ],
        "Do the attributions add up?": abs(total - whole) <= 1e-6 * abs(whole)
        and said["completeness"]["largest_error"] <= 1e-6 * abs(whole),
        "Which model was fitted?": model["structure"],
        "To how many rows, of which response?": (model["rows"], model["response"]),
        "Which priors?": {h["name"]: h["prior"] for h in model["hyperparameters"]},
        "How was it fitted?": (fit["method"], fit["chains"], fit["draws"]),
        "Did it converge?": (fit["state"], fit["r_hat"]),
        "What should a reader know?": said["cautions"],
        "What did the software warn of?": said["warnings"],
        "Which versions?": said["versions"],
        "Can I reproduce it?": (said["function"], said["seed"], said["digests"]),
    }


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        said = json.load(file)
    for row in said["numbers"]["coords"]["obs"]["data"]:
        print(f"Row {row}")
        for question, answer in answers(said, row).items():
            print(f"  {question} {json.dumps(answer, ensure_ascii=False)}")
