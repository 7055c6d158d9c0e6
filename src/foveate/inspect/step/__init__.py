"""Shows formulas term by term, with real numbers."""

from foveate.inspect.step.sinusoid import position_steps
from foveate.inspect.step.step import Step, Steps, steps

__all__ = ["Step", "Steps", "position_steps", "steps"]
