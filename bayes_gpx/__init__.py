"""Gaussian processes that explain their predictions, with PyMC, PyTensor and ArviZ.

Build a model (`GP` or `GPX`), call its method `fit`, and ask a question:

==================================================  ====================================
question                                            function
==================================================  ====================================
Why is this prediction high?                        `attributions`, `shapley_values`
What if a feature had another value?                `comparisons`
What would the treatment change?                    `treatment_effects`
How does the response change along a feature?       `partial_dependence`, `components`
Where is an effect steep, flat or reversed?         `slopes`, `derivatives`
Which features matter, and is the ranking certain?  `relevance`, `ranking`, `importances`
What are the main reasons for a prediction?         `reasons` of `attributions`
Do groups of rows differ by more than a size?       `group_differences` of a result with ``by=``
Which features interact?                            `interactions`, `sobol_indices`
Which few features predict as well as all?          `project`
What is the coefficient of a feature in this row?   `weights`, `contributions` of a `GPX`
Does the model beat a linear regression?            `compare` with ``baselines=True``
What will the next response be?                     `predictions`, `jackknife_plus`
Which rows should be measured next?                 `next_rows`
==================================================  ====================================

Each function takes the model, its fit and new rows, and returns an xarray Dataset. A function whose
name begins with `plot_` draws such a Dataset. Names are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bayes_gpx.system.caches import use_writable_folder as _use_writable_folder

if TYPE_CHECKING:  # what editors and type checkers read; `__getattr__` loads it
    from bayes_gpx import (
        likelihoods as likelihoods,
        posteriors as posteriors,
        sklearn as sklearn,
        testing as testing,
    )
    from bayes_gpx.assess import metrics as metrics
    from bayes_gpx.assess.calibrate import calibrate as calibrate
    from bayes_gpx.assess.compare import compare as compare
    from bayes_gpx.assess.jackknife import jackknife_plus as jackknife_plus
    from bayes_gpx.assess.project import project as project
    from bayes_gpx.data import datasets as datasets
    from bayes_gpx.draws.constraints_met import (
        ConstraintConflictWarning as ConstraintConflictWarning,
    )
    from bayes_gpx.explain import (
        attributions as attributions,
        comparisons as comparisons,
        components as components,
        contributions as contributions,
        derivatives as derivatives,
        group_differences as group_differences,
        importances as importances,
        interactions as interactions,
        log_likelihood as log_likelihood,
        loo_predictions as loo_predictions,
        next_rows as next_rows,
        partial_dependence as partial_dependence,
        path_slopes as path_slopes,
        predictions as predictions,
        ranking as ranking,
        reasons as reasons,
        relevance as relevance,
        sample_functions as sample_functions,
        shapley_values as shapley_values,
        slopes as slopes,
        sobol_indices as sobol_indices,
        treatment_effects as treatment_effects,
        weights as weights,
        with_propensity as with_propensity,
    )
    from bayes_gpx.explain.attributions import CompletenessWarning as CompletenessWarning
    from bayes_gpx.explain.imputation import combined as combined
    from bayes_gpx.export.arviz import (
        power_scaling as power_scaling,
        predictive_checks as predictive_checks,
        sample_posterior_predictive as sample_posterior_predictive,
    )
    from bayes_gpx.export.attachment import attach as attach
    from bayes_gpx.export.influence import influence_tree as influence_tree
    from bayes_gpx.export.long_form import to_pandas as to_pandas
    from bayes_gpx.export.refits import SamplingWrapper as SamplingWrapper
    from bayes_gpx.export.shap import to_shap as to_shap
    from bayes_gpx.inference.diagnostics import ConvergenceWarning as ConvergenceWarning
    from bayes_gpx.kernels.additive import Additive as Additive
    from bayes_gpx.kernels.precomputed import Precomputed as Precomputed
    from bayes_gpx.model import constraints as constraints
    from bayes_gpx.model.gp import GP as GP, GPX as GPX
    from bayes_gpx.model.interaction_model import interaction_model as interaction_model
    from bayes_gpx.model.lengthscale_prior import lengthscale_prior as lengthscale_prior
    from bayes_gpx.model.placement import optimise_inducing as optimise_inducing
    from bayes_gpx.model.storage import load as load, save as save
    from bayes_gpx.plots import (
        plot_attributions as plot_attributions,
        plot_beeswarm as plot_beeswarm,
        plot_comparisons as plot_comparisons,
        plot_components as plot_components,
        plot_contributions as plot_contributions,
        plot_dependence as plot_dependence,
        plot_derivatives as plot_derivatives,
        plot_heatmap as plot_heatmap,
        plot_image as plot_image,
        plot_importances as plot_importances,
        plot_interactions as plot_interactions,
        plot_map as plot_map,
        plot_partial_dependence as plot_partial_dependence,
        plot_path as plot_path,
        plot_predictions as plot_predictions,
        plot_project as plot_project,
        plot_relevance as plot_relevance,
        plot_slopes as plot_slopes,
        plot_waterfall as plot_waterfall,
        plot_weights as plot_weights,
    )
    from bayes_gpx.processes import operators as operators
    from bayes_gpx.processes.approximations import (
        HSGP as HSGP,
        Inducing as Inducing,
        RandomFeatures as RandomFeatures,
    )
    from bayes_gpx.processes.basis_process import expanded as expanded
    from bayes_gpx.processes.gaussian_process import GaussianProcess as GaussianProcess
    from bayes_gpx.processes.weight_process import WeightProcess as WeightProcess
    from bayes_gpx.reporting.describe import describe as describe
    from bayes_gpx.reporting.json_form import from_json as from_json, to_json as to_json
    from bayes_gpx.reporting.report import report as report
    from bayes_gpx.reporting.what_if import what_if as what_if
    from bayes_gpx.system.versions import show_versions as show_versions
    from bayes_gpx.system.warning import (
        ExtrapolationWarning as ExtrapolationWarning,
        FitWarning as FitWarning,
        PosteriorPredictiveWarning as PosteriorPredictiveWarning,
    )

_MAP = {
    # the composable core, for people who write their own PyMC model
    "Additive": "bayes_gpx.kernels.additive:Additive",
    "operators": "bayes_gpx.processes.operators",
    "posteriors": "bayes_gpx.posteriors",
    "likelihoods": "bayes_gpx.likelihoods",
    "GaussianProcess": "bayes_gpx.processes.gaussian_process:GaussianProcess",
    "WeightProcess": "bayes_gpx.processes.weight_process:WeightProcess",
    "expanded": "bayes_gpx.processes.basis_process:expanded",
    "testing": "bayes_gpx.testing",
    # models
    "GP": "bayes_gpx.model.gp:GP",
    "GPX": "bayes_gpx.model.gp:GPX",
    "interaction_model": "bayes_gpx.model.interaction_model:interaction_model",
    "lengthscale_prior": "bayes_gpx.model.lengthscale_prior:lengthscale_prior",
    "Precomputed": "bayes_gpx.kernels.precomputed:Precomputed",
    "constraints": "bayes_gpx.model.constraints",
    "Inducing": "bayes_gpx.processes.approximations:Inducing",
    "HSGP": "bayes_gpx.processes.approximations:HSGP",
    "optimise_inducing": "bayes_gpx.model.placement:optimise_inducing",
    "RandomFeatures": "bayes_gpx.processes.approximations:RandomFeatures",
    # verbs
    "predictions": "bayes_gpx.explain:predictions",
    "weights": "bayes_gpx.explain:weights",
    "contributions": "bayes_gpx.explain:contributions",
    "components": "bayes_gpx.explain:components",
    "sobol_indices": "bayes_gpx.explain:sobol_indices",
    "derivatives": "bayes_gpx.explain:derivatives",
    "shapley_values": "bayes_gpx.explain:shapley_values",
    "slopes": "bayes_gpx.explain:slopes",
    "path_slopes": "bayes_gpx.explain:path_slopes",
    "attributions": "bayes_gpx.explain:attributions",
    "relevance": "bayes_gpx.explain:relevance",
    "interactions": "bayes_gpx.explain:interactions",
    "ranking": "bayes_gpx.explain:ranking",
    "reasons": "bayes_gpx.explain:reasons",
    "group_differences": "bayes_gpx.explain:group_differences",
    "importances": "bayes_gpx.explain:importances",
    "partial_dependence": "bayes_gpx.explain:partial_dependence",
    "comparisons": "bayes_gpx.explain:comparisons",
    "treatment_effects": "bayes_gpx.explain:treatment_effects",
    "with_propensity": "bayes_gpx.explain:with_propensity",
    "sample_functions": "bayes_gpx.explain:sample_functions",
    "log_likelihood": "bayes_gpx.explain:log_likelihood",
    "loo_predictions": "bayes_gpx.explain:loo_predictions",
    "next_rows": "bayes_gpx.explain:next_rows",
    "combined": "bayes_gpx.explain.imputation:combined",
    "metrics": "bayes_gpx.assess.metrics",
    "compare": "bayes_gpx.assess.compare:compare",
    "calibrate": "bayes_gpx.assess.calibrate:calibrate",
    "jackknife_plus": "bayes_gpx.assess.jackknife:jackknife_plus",
    "project": "bayes_gpx.assess.project:project",
    "ExtrapolationWarning": "bayes_gpx.system.warning:ExtrapolationWarning",
    "FitWarning": "bayes_gpx.system.warning:FitWarning",
    "PosteriorPredictiveWarning": "bayes_gpx.system.warning:PosteriorPredictiveWarning",
    "ConvergenceWarning": "bayes_gpx.inference.diagnostics:ConvergenceWarning",
    "ConstraintConflictWarning": "bayes_gpx.draws.constraints_met:ConstraintConflictWarning",
    "CompletenessWarning": "bayes_gpx.explain.attributions:CompletenessWarning",
    # data, keeping and showing
    "datasets": "bayes_gpx.data.datasets",
    "save": "bayes_gpx.model.storage:save",
    "load": "bayes_gpx.model.storage:load",
    "plot_attributions": "bayes_gpx.plots:plot_attributions",
    "plot_beeswarm": "bayes_gpx.plots:plot_beeswarm",
    "plot_components": "bayes_gpx.plots:plot_components",
    "plot_contributions": "bayes_gpx.plots:plot_contributions",
    "plot_dependence": "bayes_gpx.plots:plot_dependence",
    "plot_derivatives": "bayes_gpx.plots:plot_derivatives",
    "plot_heatmap": "bayes_gpx.plots:plot_heatmap",
    "plot_image": "bayes_gpx.plots:plot_image",
    "plot_interactions": "bayes_gpx.plots:plot_interactions",
    "plot_importances": "bayes_gpx.plots:plot_importances",
    "plot_map": "bayes_gpx.plots:plot_map",
    "plot_partial_dependence": "bayes_gpx.plots:plot_partial_dependence",
    "plot_comparisons": "bayes_gpx.plots:plot_comparisons",
    "plot_path": "bayes_gpx.plots:plot_path",
    "plot_predictions": "bayes_gpx.plots:plot_predictions",
    "plot_project": "bayes_gpx.plots:plot_project",
    "plot_relevance": "bayes_gpx.plots:plot_relevance",
    "plot_slopes": "bayes_gpx.plots:plot_slopes",
    "plot_waterfall": "bayes_gpx.plots:plot_waterfall",
    "plot_weights": "bayes_gpx.plots:plot_weights",
    "predictive_checks": "bayes_gpx.export.arviz:predictive_checks",
    "sample_posterior_predictive": "bayes_gpx.export.arviz:sample_posterior_predictive",
    "power_scaling": "bayes_gpx.export.arviz:power_scaling",
    "attach": "bayes_gpx.export.attachment:attach",
    "influence_tree": "bayes_gpx.export.influence:influence_tree",
    "SamplingWrapper": "bayes_gpx.export.refits:SamplingWrapper",
    "to_pandas": "bayes_gpx.export.long_form:to_pandas",
    "to_shap": "bayes_gpx.export.shap:to_shap",
    "to_json": "bayes_gpx.reporting.json_form:to_json",
    "from_json": "bayes_gpx.reporting.json_form:from_json",
    "describe": "bayes_gpx.reporting.describe:describe",
    "report": "bayes_gpx.reporting.report:report",
    "what_if": "bayes_gpx.reporting.what_if:what_if",
    "show_versions": "bayes_gpx.system.versions:show_versions",
    "sklearn": "bayes_gpx.sklearn",
}

__all__ = list(_MAP)

_use_writable_folder()


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version(__name__)
    if name not in _MAP:
        from bayes_gpx.names import no_attribute

        raise no_attribute("module 'bayes_gpx'", name)
    module, _, member = _MAP[name].partition(":")
    found = import_module(module)
    value = getattr(found, member) if member else found
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_MAP)
