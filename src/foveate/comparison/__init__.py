"""Comparing: variants of one configuration, on the same data with the same budget, over several random starts."""

from foveate.comparison.comparison import Planned, compare, design_of, plan
from foveate.comparison.comparison_report import table
from foveate.comparison.design import Budget, CompareConfig, Design
from foveate.comparison.result import Estimate, Result, paired

__all__ = [
    "Budget",
    "CompareConfig",
    "Design",
    "Estimate",
    "Planned",
    "Result",
    "compare",
    "design_of",
    "paired",
    "plan",
    "table",
]
