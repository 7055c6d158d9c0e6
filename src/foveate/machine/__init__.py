"""Switches of torch that make it faster on this machine, and the choice between them.

`tune()` uses the switches that `foveate doctor --calibrate` has measured and stored; otherwise rules choose them by the
processor. No command measures when it starts.
"""

from foveate.machine.file import keep, kept, own_file
from foveate.machine.measure import measured, race
from foveate.machine.memory import Reserve
from foveate.machine.switch import Tuning, current, limit_primitives, small_products, use
from foveate.machine.switch_rule import Choice, Processor, by_rules, choices, has_slow_products, multiplies_bfloat16

__all__ = [
    "Choice",
    "Processor",
    "Reserve",
    "Tuning",
    "by_rules",
    "choices",
    "current",
    "has_slow_products",
    "keep",
    "kept",
    "measured",
    "multiplies_bfloat16",
    "own_file",
    "race",
    "small_products",
    "tune",
    "use",
]


def tune() -> Tuning:
    """Apply the switches for this machine, within milliseconds, and return them."""
    limit_primitives()
    use(kept() or by_rules())
    return current()
