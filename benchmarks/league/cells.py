"""All methods on one data set: their answers, and the scores of these."""

import time
import warnings

import numpy as np
import ours
import rivals
import truths
from answer import Answer

import bayes_gpx as bx

OURS = {"GP, MAP": (bx.GP, "map"), "GP, Laplace": (bx.GP, "laplace"), "GPX, MAP": (bx.GPX, "map")}


def slopes(g, rows):
    """Derivatives of g by all columns but the treatment."""
    return truths.gradient(g, rows)[:, :4]


def true_values(data, name):
    """The true values of a question."""
    f, mean, rows = data.f, data.mean, data.X.to_numpy()
    some, sds = data.background.to_numpy(), rows[:, :4].std(axis=0)
    return {
        "curve": lambda: truths.effect_curves(f, data.background, data),
        "response curve": lambda: truths.effect_curves(mean, data.background, data),
        "centered curve": lambda: truths.centered_curves(f, data),
        "average slope": lambda: slopes(mean, rows).mean(axis=0),
        "slope": lambda: slopes(f, data.new.to_numpy()),
        "attribution": lambda: truths.integrated_gradients(f, data),
        "Shapley value of a row": lambda: truths.shapley(f, data, data.baseline),
        "Shapley value": lambda: truths.shapley(f, data, data.background),
        "average effect": lambda: truths.treated_effects(mean, data.X).mean(),
        "effect": lambda: truths.treated_effects(f, data.new),
        "response effect": lambda: truths.treated_effects(mean, data.new),
        "mean_absolute_derivative": lambda: np.abs(slopes(f, some)).mean(axis=0) * sds,
        "mean absolute curve": lambda: truths.own_curves(f, data),
        "mean absolute Shapley value": lambda: np.abs(
            truths.shapley(f, data, data.background)[:, :4]
        ).mean(axis=0),
    }[name]()


def answered(data):
    """Name, answers and seconds of each method, what its fit says, and whether rows are far."""
    for name, model in OURS.items():
        began = time.process_time()
        found, said, beyond = ours.answers(data, *model)
        yield name, found, time.process_time() - began, "; ".join(said), int(beyond)
    warnings.simplefilter("ignore")
    peers = {
        "linear, HC3": rivals.linear,
        "EBM, bags": rivals.ebm,
        "stochtree BART": rivals.bart,
        "TreeSHAP, bootstrap": rivals.tree_shap,
        "GP + KernelSHAP, bootstrap": rivals.kernel_shap,
    }
    for name, ask in peers.items():
        began = time.process_time()
        found = list(ask(data))
        yield name, found, time.process_time() - began, "", 0
    for name, said in rivals.apart(data).items():
        answers = [Answer(a, b, *map(np.array, values)) for a, b, *values in said["answers"]]
        yield name, answers, said["seconds"], "", 0


def scored(truth, run):
    """The lines of one data set."""
    data, lines, known = truths.made(truth, run), [], {}
    for method, answers, seconds, *told in answered(data):
        for answer in answers:
            if answer.truth not in known:
                known[answer.truth] = true_values(data, answer.truth)
            values = answer.scores(known[answer.truth])
            spread = float(np.sqrt(np.mean(np.square(known[answer.truth]))))
            line = [truth, run, method, answer.estimand, *values.values(), spread, seconds, *told]
            lines.append([f"{v:.4g}" if isinstance(v, float) else v for v in line])
    return lines
