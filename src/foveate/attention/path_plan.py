"""The answer of `plan`: the path that runs, the rule that chose it, and the answers of all paths."""

from dataclasses import dataclass
from math import isnan


@dataclass(frozen=True)
class PlannedPath:
    """The answer of one path to an attention of this size."""

    name: str
    reasons: tuple[str, ...]
    """Why it refuses; empty where it accepts."""
    flops: float
    """Of the forward pass; NaN where the path has no `cost`."""
    bytes: float
    """Memory beyond inputs and output, at the peak; NaN where the path has no `cost`."""


@dataclass(frozen=True)
class Plan:
    """The path that runs, and why the others do not."""

    chosen: str
    because: str
    """The attention in words."""
    paths: tuple[PlannedPath, ...]
    rule: str
    """Why the path was chosen among those that accept."""

    def __str__(self) -> str:
        """One line: the path, the attention, the rule, and why the others do not run."""
        accepting = [path.name for path in self.paths if not path.reasons and path.name != self.chosen]
        refusing = [f"{path.name} refused: {', '.join(path.reasons)}" for path in self.paths if path.reasons]
        others = [f"{', '.join(accepting)} would do, too"] if accepting else []
        return f"{self.chosen} ({'; '.join([self.because, self.rule, *others, *refusing])})"

    def table(self) -> str:
        """A line for each path, the chosen one first: arithmetic and memory, or why it refuses."""
        ranked = sorted(self.paths, key=lambda path: (path.name != self.chosen, bool(path.reasons)))
        width = max(len(path.name) for path in ranked)
        lines = []
        for path in ranked:
            mark, rule = ("→", f"  {self.rule}") if path.name == self.chosen else (" ", "")
            answer = f"refuses: {', '.join(path.reasons)}" if path.reasons else f"{_numbers(path)}{rule}"
            lines.append(f"{mark} {path.name:{width}}  {answer}")
        return "\n".join(lines)


def _numbers(path: PlannedPath) -> str:
    if isnan(path.flops):
        return f"{'':33}"
    return f"{path.flops / 1e6:10.1f} MFLOP  {path.bytes / 2**20:8.1f} MiB"
