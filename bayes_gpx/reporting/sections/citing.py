"""What to cite."""

from importlib.metadata import version

from bayes_gpx.reporting.page import Points, Section

GPX = (
    "Y. Yoshikawa and T. Iwata, Gaussian process regression with interpretable sample-wise feature "
    "weights, IEEE Transactions on Neural Networks and Learning Systems 34 (9), 5789-5803, 2023, "
    "doi 10.1109/TNNLS.2021.3131234."
)
ATTRIBUTIONS = (
    "K. Butler, G. Feng and P. M. Djurić, Explainable learning with Gaussian processes, 2024: "
    "attributions of Gaussian processes."
)
GRADIENTS = (
    "M. Sundararajan, A. Taly and Q. Yan, Axiomatic attribution for deep networks, 2017: "
    "integrated gradients."
)
SHAPLEY = (
    "L. S. Shapley, A value for n-person games, 1953; M. Sundararajan and A. Najmi, The many "
    "Shapley values for model explanation, 2020: Shapley values against a baseline."
)
RELEVANCE = (
    "T. Paananen, M. R. Andersen and A. Vehtari, Uncertainty-aware sensitivity analysis using "
    "Rényi divergences, 2021: relevance and interactions."
)


def _works(findings):
    works = [GPX] if findings.model.specification.family == "GPX" else []
    works += [SHAPLEY] if findings.attribution == "shapley" else [ATTRIBUTIONS, GRADIENTS]
    works.append(RELEVANCE)
    works.append(
        f"bayes_gpx {version('bayes_gpx')}, on PyMC {version('pymc')}, PyTensor "
        f"{version('pytensor')} and ArviZ {version('arviz')}."
    )
    yield Points("Please cite what this report uses", works)


CITING = Section("citing", "How to cite", (_works,))
