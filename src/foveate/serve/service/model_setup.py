"""The setup of a model process: its runs, and how they compute."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Setup:
    """The runs of a model process by name, and how they compute."""

    runs: tuple[tuple[str, str], ...]
    precision: str = "float32"
    threads: int | None = None
    tune: bool = True
    modules: tuple[str, ...] = ()
    """The user's modules that configurations may name."""
