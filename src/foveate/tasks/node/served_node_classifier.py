"""A model over the nodes of a graph behind an address."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from foveate.inspect import Trace
from foveate.tasks.node.use import ClassifiedNode, NodeClassifier
from foveate.tasks.served import LOOK, Answered, Served, numbered, require_settings


class ServedNodeClassifier(Served):
    """Classifies the nodes of the graph that the run has stored. A text is the name of a node."""

    verb = "predict"
    look = (*LOOK, "hops")
    smaller = "Ask for fewer `hops`"
    reader: NodeClassifier

    def __init__(self, reader: NodeClassifier) -> None:
        super().__init__(reader)
        self.sample = (reader.graph.name(0), {})

    @cached_property
    def classified(self) -> Sequence[ClassifiedNode]:
        """All nodes, because the class of one needs a pass over the whole graph."""
        return self.reader.classify()

    def answer(self, texts: Sequence[str], settings: Mapping[str, Any]) -> list[Answered]:
        """`{"label": …, "probabilities": {class: …}}`, the most probable class first."""
        require_settings(settings, self.settings)
        nodes = [self.classified[number] for number in numbered(texts, self.reader.number)]
        return [Answered({"label": one.label, "probabilities": one.probabilities}, 1) for one in nodes]

    def traced(self, text: str, settings: Mapping[str, Any]) -> tuple[Trace, dict[str, Any]]:
        """The edges that the answer depends on, of all hops that the model looks, or of so many `hops`."""
        self.require_no_target(settings)
        return self.reader.trace(text, hops=settings.get("hops")), self.summary(text)

    def strange(self, text: str, settings: Mapping[str, Any]) -> list[str]:
        """No word: the graph has a node of this name, or the question is refused."""
        return []

    def tokens(self, text: str) -> int:
        """One, the node."""
        return 1
