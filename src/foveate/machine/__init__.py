"""What this machine is good at: switches of torch, which are in force, and how they are chosen.

`tune()` takes those that `foveate doctor --calibrate` measured on this machine and kept; otherwise rules decide by what
the processor says of itself. No command measures at its start.
"""

from foveate.machine.file import keep, kept, own_file
from foveate.machine.measure import measured, race
from foveate.machine.switch import Tuning, current, small_products, use
from foveate.machine.switch_rule import Choice, Processor, by_rules, choices, has_slow_products

__all__ = [
    "Choice",
    "Processor",
    "Tuning",
    "by_rules",
    "choices",
    "current",
    "has_slow_products",
    "keep",
    "kept",
    "measured",
    "own_file",
    "race",
    "small_products",
    "tune",
    "use",
]


def tune() -> Tuning:
    """Put the switches in force that suit this machine, within milliseconds, and return them."""
    use(kept() or by_rules())
    return current()
