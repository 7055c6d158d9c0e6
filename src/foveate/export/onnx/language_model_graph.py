"""Language models as one graph, which continues a state with one or several tokens and returns the new state."""

from typing import Any, cast

from foveate.attention.onnx import Places
from foveate.export.onnx import block_graph, stack
from foveate.export.onnx.operator_graph import Graph
from foveate.export.plain_attention import POSITIONS
from foveate.models import LanguageModel, RecurrentLanguageModel
from foveate.models.gpt import CausalTransformer


def refusals(model: LanguageModel) -> list[str]:
    """The parts of a model that cannot be exported."""
    if isinstance(model, CausalTransformer):
        return block_graph.refusals("layer", model.blocks)
    return [] if isinstance(model, RecurrentLanguageModel) else [f"{type(model).__name__} is unknown"]


def max_length(model: LanguageModel) -> int | None:
    """The largest number of positions that the graph represents; None without a limit."""
    if isinstance(model, CausalTransformer):
        return block_graph.limit(model.max_length, getattr(model, "position", None), model.blocks)
    return model.max_length


def graphs(model: LanguageModel) -> dict[str, Graph]:
    """The graph, by file name. Before the first token, states are zero, and pasts are empty."""
    graph = Graph("step")
    tokens = graph.input("tokens", ["rows", "length"], integer=True)
    if isinstance(model, CausalTransformer):
        _transformer(graph, model, tokens)
    else:
        _recurrent(graph, cast(RecurrentLanguageModel, model), tokens)
    return {"step.onnx": graph}


def _transformer(graph: Graph, model: CausalTransformer, tokens: str) -> None:
    rows, length, dim = graph.size(tokens, 0), graph.size(tokens, 1), model.embedding.embedding_dim
    pasts = list(block_graph.pasts(graph, model.blocks))
    past = graph.size(pasts[0][0], 2)
    end = graph.op("Add", past, length)
    places = Places(graph.places(past, end), graph.places(graph.whole(0), end), max_length(model) or POSITIONS)
    x = graph.op("Gather", graph.weight(model.embedding.weight), graph.shaped(tokens, -1))
    x = block_graph.placed(graph, x, getattr(model, "position", None), (rows, length, dim), places, "")
    for layer, before in zip(cast(Any, model.blocks), pasts, strict=True):
        x = block_graph.residual(graph, layer.attention_residual, x, block_graph.past, layer, before, rows, places)
        x = block_graph.residual(graph, layer.feedforward_residual, x, block_graph.feedforward, layer)
    logits, vocab = graph.product(graph.norm(x, model.norm), model.output_table), model.embedding.num_embeddings
    graph.output("logits", graph.shaped(logits, rows, length, vocab), ["rows", "length", vocab])


def _recurrent(graph: Graph, model: RecurrentLanguageModel, tokens: str) -> None:
    widths, vocab = stack.sizes(model.decoder.layers), model.embedding.num_embeddings
    embedded = graph.op("Gather", graph.weight(model.embedding.weight), graph.turned(tokens, 1, 0))
    hidden, layers = stack.continued(graph, model.decoder, embedded, stack.states(graph, widths))
    weight = model.embedding.weight if model.output_weight is None else model.output_weight
    x = graph.shaped(graph.turned(hidden, 1, 0, 2), -1, model.decoder.output_dim)
    logits = graph.product(x, weight, model.output_bias)
    shape = (graph.size(tokens, 0), graph.size(tokens, 1), vocab)
    graph.output("logits", graph.shaped(logits, *shape), ["rows", "length", vocab])
    for name, value, width in stack.named(layers, widths):
        graph.output(f"new.{name}", value, ["rows", width])
