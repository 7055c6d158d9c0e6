"""The attention of a trained model in one input, for `look`."""

import argparse
from collections.abc import Callable
from functools import cached_property

from foveate.inspect import TimeAlignment, Trace
from foveate.inspect.alignment import Alignment
from foveate.inspect.answer_switch import Ablator, Reader, TextAblator
from foveate.inspect.rerun import Rerunner


class Sight:
    """The attention of a trained model in one input. A task with drawings or reruns of its own has a subclass."""

    def __init__(self, read: Callable[[], Trace]) -> None:
        self._read = read

    @cached_property
    def trace(self) -> Trace:
        """The whole trace, made on first use."""
        return self._read()

    def alignment(self, arguments: argparse.Namespace) -> Alignment | None:
        """The alignment that is drawn without a viewer; None: the map that the viewer opens first."""
        return None

    def times(self, arguments: argparse.Namespace) -> TimeAlignment | None:
        """The times that are drawn; None: those of the map, where its keys are frames of sound."""
        return None

    @property
    def rerunner(self) -> Rerunner | None:
        """Runs the model behind the viewer on changed inputs; None where that is not possible."""
        return None

    @property
    def ablator(self) -> Ablator | None:
        """Answers again with words or heads switched off; None where that is not possible."""
        return None


class ReadingSight(Sight):
    """The attention of a model that reads words."""

    def __init__(self, reader: Reader, text: str) -> None:
        super().__init__(lambda: reader.trace(text))
        self.reader, self.text = reader, text

    @property
    def ablator(self) -> TextAblator | None:
        ablator = TextAblator(self.reader, self.text, self.trace)
        return ablator if ablator.hides else None
