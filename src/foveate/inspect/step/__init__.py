"""Formulas term by term, with real numbers."""

from foveate.inspect.step.position import position_steps
from foveate.inspect.step.step import Step, steps

__all__ = ["Step", "position_steps", "steps"]
