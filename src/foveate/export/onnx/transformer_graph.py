"""A Transformer as two graphs: the encoder, and one step of the decoder."""

from typing import Any, cast

from torch import nn

from foveate.attention import padding
from foveate.attention.onnx import Places
from foveate.export.onnx import block_graph
from foveate.export.onnx.attention_graph import heads, joined_heads
from foveate.export.onnx.operator_graph import Graph
from foveate.export.plain_attention import multihead_refusals, represented, score_factor
from foveate.models import Transformer
from foveate.nn.multihead import MultiHeadAttention
from foveate.nn.position_vector import UnitInterval
from foveate.nn.ran import RANEncoder


def refusals(model: Transformer) -> list[str]:
    """The parts of a model that cannot be exported."""
    if isinstance(model.encoder, RANEncoder):
        return ["its encoder is a recurrent attention network"]
    encoder, decoder = cast(Any, model.encoder), cast(Any, model.decoder)
    reasons = [*block_graph.refusals("encoder layer", encoder), *block_graph.refusals("decoder layer", decoder)]
    for number, layer in enumerate(decoder):
        reasons += multihead_refusals(f"cross-attention of layer {number}", layer.cross_attention, padding())
    if isinstance(model.target_position, UnitInterval):
        reasons.append("the decoder's positions depend on the length of the sentence")
    return reasons


def max_length(model: Transformer) -> int | None:
    """The largest number of positions that the graphs represent."""
    return represented(model.max_length, model.position, model.target_position)


def graphs(model: Transformer) -> dict[str, Graph]:
    """Both graphs, by file name."""
    return {"encoder.onnx": encoder(model), "step.onnx": step(model)}


def encoder(model: Transformer) -> Graph:
    """Compute every layer's keys and values of the memory from source ids, and empty caches."""
    graph = Graph("encoder")
    source = graph.input("source", ["sentences", "length"], integer=True)
    lengths = graph.input("lengths", ["sentences"], integer=True)
    sentences, length = graph.size(source, 0), graph.size(source, 1)
    place = graph.places(graph.whole(0), length)
    places = Places(place, place, cast(int, max_length(model)), real=graph.visible(lengths, length))
    x = block_graph.embedded(graph, graph.shaped(source, -1), model.source_embedding, model.model_dim)
    x = block_graph.placed(graph, x, model.position, (sentences, length, model.model_dim), places, lengths)
    x = graph.norm(block_graph.encoded(graph, cast(Any, model.encoder), x, sentences, places), model.encoder_norm)
    for number, layer in enumerate(cast(Any, model.decoder)):
        _remember(graph, number, layer, x, sentences)
    return graph


def step(model: Transformer) -> Graph:
    """Compute the logits of the next tokens from the newest ones, which are at position `time`."""
    graph = Graph("step")
    token, time = graph.input("token", ["rows"], integer=True), graph.input("time", [], integer=True)
    lengths = graph.input("lengths", ["sentences"], integer=True)
    sentences, rows, hidden = graph.size(lengths, 0), graph.size(token, 0), ""
    here = graph.op("Unsqueeze", time, graph.whole(0))
    so_far = graph.places(graph.whole(0), graph.op("Add", here, graph.whole(1)))
    places = Places(here, so_far, cast(int, max_length(model)), newest=True)
    x = block_graph.embedded(graph, token, model.target_embedding, model.model_dim)
    x = block_graph.placed(graph, x, model.target_position, (rows, graph.whole(1), model.model_dim), places, "")
    decoder = cast(Any, model.decoder)
    for number, (layer, before) in enumerate(zip(decoder, block_graph.pasts(graph, decoder), strict=True)):
        memory = tuple(graph.input(f"memory.{number}.{part}", shape) for part, shape in _memory(layer).items())
        hidden = hidden or graph.hidden(graph.visible(lengths, graph.size(memory[0], 3)), 1, 2)
        x = block_graph.residual(graph, layer.attention_residual, x, block_graph.past, layer, before, rows, places)
        x = block_graph.residual(graph, layer.cross_residual, x, _look_up, layer, memory, sentences, hidden)
        x = block_graph.residual(graph, layer.feedforward_residual, x, block_graph.feedforward, layer)
    x = graph.norm(x, model.decoder_norm)
    logits = graph.product(x, model.output_table, model.output_bias)
    graph.output("logits", logits, ["rows", model.output_table.shape[0]])
    return graph


def _remember(graph: Graph, number: int, layer: Any, x: str, sentences: str) -> None:
    attention: MultiHeadAttention = layer.cross_attention
    key, value = graph.ops("Split", 2, graph.linear(x, attention.key, attention.value), axis=1, num_outputs=2)
    turned = graph.turned(graph.shaped(key, sentences, -1, attention.num_heads, attention.head_dim), 0, 2, 3, 1)
    for (part, shape), value_of_part in zip(
        _memory(layer).items(),
        (turned, heads(graph, value, attention.num_heads, attention.head_dim, sentences)),
        strict=True,
    ):
        graph.output(f"memory.{number}.{part}", value_of_part, shape)
    own = layer.attention
    nothing = graph.op("Concat", sentences, graph.whole(own.num_heads, 0, own.head_dim), axis=0)
    for part in block_graph.STATE:
        graph.output(
            f"state.{number}.{part}",
            graph.op("ConstantOfShape", nothing),
            ["sentences", own.num_heads, "nothing", own.head_dim],
        )


def _look_up(graph: Graph, x: str, layer: Any, memory: tuple[str, str], sentences: str, hidden: str) -> str:
    """Attention to the memory: the hypotheses of a sentence are queries to one memory. Keys have the layout of
    products: [sentences, heads, head_dim, length].
    """
    attention, (key, value) = layer.cross_attention, memory
    query = heads(graph, graph.linear(x, attention.query), attention.num_heads, attention.head_dim, sentences)
    scores = graph.op("MatMul", graph.op("Mul", query, graph.number(score_factor(attention))), key)
    weights = graph.op("Softmax", graph.op("Add", scores, hidden), axis=-1)
    return joined_heads(graph, graph.op("MatMul", weights, value), attention)


def _memory(layer: nn.Module) -> dict[str, list[int | str]]:
    heads, dim = cast(Any, layer).cross_attention.num_heads, cast(Any, layer).cross_attention.head_dim
    return {"key": ["sentences", heads, dim, "length"], "value": ["sentences", heads, "length", dim]}
