"""Metrics of predicted numbers and of probabilities of classes: RMSE, MAE and the area under the ROC curve."""

from typing import Literal

import numpy as np
from jaxtyping import Float, Shaped

from foveate.errors import DataError


def rmse(predicted: Float[np.ndarray, " values"], right: Float[np.ndarray, " values"]) -> float:
    """√(mean (ŷ − y)²), in the units of y.

    >>> rmse(np.array([1.0, 5.0]), np.array([1.0, 1.0]))
    2.8284271247461903
    """
    return float(np.sqrt(np.mean((predicted.astype(np.float64) - right) ** 2)))


def mae(predicted: Float[np.ndarray, " values"], right: Float[np.ndarray, " values"]) -> float:
    """mean |ŷ − y|, in the units of y."""
    return float(np.mean(np.abs(predicted.astype(np.float64) - right)))


def roc_auc(scores: Float[np.ndarray, " values"], classes: Shaped[np.ndarray, " values"]) -> float:
    """The chance, from 0 to 1, that an example of class 1 has a higher score than one of class 0; equal scores count
    half.

    >>> roc_auc(np.array([0.1, 0.4, 0.4, 0.8]), np.array([0, 0, 1, 1]))
    0.875

    NaN where a score is NaN, of a model whose training went wrong. Raises DataError where a class has no example.
    Reference: Hanley and McNeil 1982.
    """
    positive = classes == 1
    count, others = int(positive.sum()), int((~positive).sum())
    if not count or not others:
        raise DataError(f"ROC-AUC needs examples of both classes, and {count} of {count + others} are of class 1.")
    if np.isnan(scores).any():
        return float("nan")
    _, place, ties = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = np.cumsum(ties) - (ties - 1) / 2
    return float((ranks[place][positive].sum() - count * (count + 1) / 2) / (count * others))


def property_scores(
    predicted: Float[np.ndarray, "examples targets"],
    right: Float[np.ndarray, "examples targets"],
    predicts: Literal["numbers", "classes"],
) -> dict[str, float]:
    """The means over targets of `rmse` and `mae`, or of `roc_auc`; values that are not known (NaN) are left out.

    Targets without a known value, and without examples of both classes, are left out of the mean.

    Raises DataError where all are left out.
    """
    known = [~np.isnan(column) for column in right.T]
    columns = [(p[here], r[here]) for p, r, here in zip(predicted.T, right.T, known, strict=True) if here.any()]
    if predicts == "classes":
        columns = [(p, r) for p, r in columns if len(np.unique(r)) > 1]
        if not columns:
            raise DataError("ROC-AUC needs examples of both classes of a target. Give more examples.")
        return {"roc_auc": float(np.mean([roc_auc(*pair) for pair in columns]))}
    if not columns:
        raise DataError("There is nothing to score: no target has a known value.")
    return {name: float(np.mean([f(*pair) for pair in columns])) for name, f in (("rmse", rmse), ("mae", mae))}
