"""BERT as one graph: logits of the token at every position of padded texts."""

from foveate.export.onnx import block_graph, encoder_graph
from foveate.export.onnx.encoder_graph import Texts
from foveate.export.onnx.operator_graph import Graph
from foveate.models import BERT


def refusals(model: BERT) -> list[str]:
    """The parts of a model that cannot be exported."""
    return encoder_graph.refusals(model)


def max_length(model: BERT) -> int | None:
    """The largest number of tokens that the graph represents."""
    return model.max_length


def graphs(model: BERT) -> dict[str, Graph]:
    """The graph, by file name."""
    graph = Graph("model")
    texts, vocab = Texts.given(graph, "tokens", "texts"), model.embedding.num_embeddings
    hidden = encoder_graph.bert(graph, model, texts, graph.input("segments", ["texts", "length"], integer=True))
    transformed = block_graph.activated(graph, graph.linear(hidden, model.head.dense), model.head.activation)
    logits = graph.product(graph.norm(transformed, model.head.norm), model.embedding.weight, model.head.bias)
    graph.output("logits", texts.padded(graph, logits, vocab), ["texts", "length", vocab])
    return {"model.onnx": graph}
