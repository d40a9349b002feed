"""What no model takes: more latent values than fit into memory, and parts where rows are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayes_gpx.model.specification import Specification

MOST_CORRELATED = 5000
"""Latent values of classes that correlate, at most: a fit holds some matrices of all their pairs,
of 0.2 GiB each then, and an evaluation of its density takes some 20 seconds."""


def refuse_many(n: int, specification: Specification) -> None:
    """Raise for more latent values of classes that correlate than one matrix can hold of pairs."""
    C, rank = specification.classes or 1, specification.correlation
    if rank and n * C > MOST_CORRELATED:
        raise ValueError(
            f"{n} rows of {C} classes with correlation={rank} have {n * C} latent values that all "
            f"correlate, but at most {MOST_CORRELATED} are supported. Take fewer rows, or "
            "correlation=0, where classes are independent and approximation=bx.Inducing(m) is for "
            "any number of rows."
        )


def refuse_streamed(specification: Specification) -> None:
    """Raise for a model that needs all rows in memory, if data are out-of-core."""
    if specification.hierarchical:
        raise ValueError(
            "X is out-of-core data, but representation='hierarchy' has variables for each row. "
            "Pass representation='collapsed'."
        )
    if specification.approximation is None:
        raise ValueError(
            "X is out-of-core data, but the model has no approximation. Pass "
            "approximation=bx.HSGP(m), for few columns, or approximation=bx.Inducing(m). For other "
            "models take a sample of the rows into memory."
        )
