"""Estimates of parameters and time for sizes other than the chosen one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from foveate.cli.setup import resolve
from foveate.cli.training import duration
from foveate.errors import FoveateError
from foveate.tasks import TASKS
from foveate.tasks.run_plan import MINUTES, Suggestion

LENGTH = 30


def lengths(name: str, suggestion: Suggestion | None = None) -> list[int]:
    """Those that `Side.probe` asks for, by the data where they have been looked at."""
    usual = suggestion.lengths if suggestion else ()
    return [usual[place] if place < len(usual) else LENGTH for place in range(len(TASKS[name].lengths))]


def other_sizes(
    name: str, suggestion: Suggestion, config: Any, files: Mapping[str, Any], assignments: Sequence[str]
) -> Callable[[float], Iterator[str]]:
    """Sentences on parameters, steps and time of each larger size, given the seconds that this one takes.

    A step's time is taken to grow with parameters and with tokens: within a quarter of what was measured of
    Transformers from 1.6 to 34 million parameters, and of recurrent models from 1.4 to 3.9.
    """
    side = TASKS[name].side

    def parameters(of: Any) -> int:
        model = side.probe(of, lengths(name, suggestion), None).model
        return sum(weight.numel() for weight in model.parameters())

    def sentences(seconds: float) -> Iterator[str]:
        ours, minutes = None, MINUTES[suggestion.size]
        if seconds > 2 * 60 * minutes and config.train.steps == suggestion.settings["train"]["steps"]:
            fitting = max(int(config.train.steps * 60 * minutes / seconds), 1)
            yield (
                f"This machine is slower than the rule for {minutes} minutes takes it to be, or busy: "
                f"--set train.steps={fitting} would fit."
            )
        begun = getattr(config, "initialise_from", None) is not None  # which has a size already
        for size, settings in () if begun else suggestion.others.items():
            try:
                other = resolve(settings, None, files, assignments, kind=side.run_config)
                ours = ours or parameters(config)
                theirs = parameters(other)
            except FoveateError:  # what is set fits this size alone
                continue
            if theirs * other.train.steps <= ours * config.train.steps:
                continue
            work = theirs * other.train.steps * other.data.max_tokens
            there = seconds * work / (ours * config.train.steps * config.data.max_tokens)
            steps = f"{other.train.steps:,} steps"
            time = duration(there).removeprefix("about ")
            yield f"--size {size} would be {theirs:,} parameters and {steps}: roughly {time}."

    return sentences
