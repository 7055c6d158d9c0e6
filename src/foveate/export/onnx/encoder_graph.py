"""All encoders in ONNX operators: a vector for each token of padded texts."""

from dataclasses import dataclass
from typing import Any, cast

from torch import nn

from foveate.attention.onnx import Places
from foveate.data.tokeniser import EOS
from foveate.export.onnx import block_graph, stack
from foveate.export.onnx.operator_graph import Graph
from foveate.export.plain_attention import POSITIONS
from foveate.models.bert import BERTEncoder
from foveate.nn.embed import VectorEmbedding
from foveate.nn.encoder import (
    CNNEncoder,
    Encoder,
    RecurrentAttentionEncoder,
    RNNEncoder,
    TransformerEncoder,
    WindowEncoder,
)
from foveate.nn.neighbour import Neighbours

AnyEncoder = Encoder | BERTEncoder


@dataclass(frozen=True)
class Texts:
    """The inputs of a graph: ids [batch, length] or vectors [batch, length, width], and the length of each row."""

    ids: str
    lengths: str
    batch: str
    length: str
    real: str
    """Real tokens: [batch, length], of type Bool."""

    @classmethod
    def of(cls, graph: Graph, ids: str, lengths: str) -> "Texts":
        length = graph.size(ids, 1)
        return cls(ids, lengths, graph.size(ids, 0), length, graph.visible(lengths, length))

    @classmethod
    def given(cls, graph: Graph, ids: str, batch: str) -> "Texts":
        """Texts whose ids and lengths are inputs of the graph."""
        tokens = graph.input(ids, [batch, "length"], integer=True)
        return cls.of(graph, tokens, graph.input("lengths", [batch], integer=True))

    @classmethod
    def given_vectors(cls, graph: Graph, batch: str, width: int) -> "Texts":
        """Rows of vectors, `features`, whose values and lengths are inputs of the graph."""
        vectors = graph.input("features", [batch, "length", width])
        return cls.of(graph, vectors, graph.input("lengths", [batch], integer=True))

    def embedded(self, graph: Graph, embedding: nn.Module) -> str:
        """The embeddings as rows [batch · length, dim]."""
        if isinstance(embedding, VectorEmbedding):
            return graph.linear(graph.shaped(self.ids, -1, embedding.in_features), embedding)
        return graph.op("Gather", graph.weight(cast(nn.Embedding, embedding).weight), graph.shaped(self.ids, -1))

    def padded(self, graph: Graph, rows: str, width: int) -> str:
        """From rows to [batch, length, width]."""
        return graph.shaped(rows, self.batch, self.length, width)

    def silent(self, graph: Graph, padded: str) -> str:
        """[batch, length, width] with zeros at padding."""
        return graph.op("Where", graph.op("Unsqueeze", self.real, graph.whole(2)), padded, graph.number(0.0))


def embedding_dim(embedding: nn.Module) -> int:
    """The width of embedded tokens or vectors."""
    return (
        embedding.out_features
        if isinstance(embedding, VectorEmbedding)
        else cast(nn.Embedding, embedding).embedding_dim
    )


def refusals(encoder: AnyEncoder) -> list[str]:
    """The parts of an encoder that cannot be exported."""
    if isinstance(encoder, TransformerEncoder | BERTEncoder):
        return block_graph.refusals("layer", encoder.blocks)
    if isinstance(encoder, RNNEncoder | CNNEncoder | WindowEncoder):
        return []
    known = isinstance(encoder, RecurrentAttentionEncoder)
    return ["its encoder is a recurrent attention network" if known else f"{type(encoder).__name__} is unknown"]


def max_length(encoder: AnyEncoder) -> int | None:
    """The largest number of positions that the graph represents; None without a limit."""
    if isinstance(encoder, TransformerEncoder):
        return block_graph.limit(encoder.max_length, encoder.position, encoder.blocks)
    return encoder.max_length


def encoded(graph: Graph, encoder: Encoder, texts: Texts, x: str, input_dim: int) -> str:
    """Rows [batch · length, output_dim] from rows [batch · length, input_dim]."""
    if isinstance(encoder, TransformerEncoder):
        return _transformer(graph, encoder, texts, x)
    if isinstance(encoder, RNNEncoder):
        padded = texts.padded(graph, x, input_dim)
        hidden, _ = stack.encoded(graph, encoder.network, padded, texts.lengths, texts.real)
        return graph.shaped(hidden, -1, encoder.output_dim)
    if isinstance(encoder, CNNEncoder):
        for number, layer in enumerate(encoder.layers):
            new = graph.op("Relu", neighbours(graph, cast(Neighbours, layer), texts, x))
            x = graph.op("Add", x, new) if number else new
        return x
    assert isinstance(encoder, WindowEncoder)
    x = graph.op("Relu", neighbours(graph, encoder.first, texts, x))
    for other in encoder.others:
        x = graph.op("Relu", graph.linear(x, cast(nn.Linear, other)))
    return x


def neighbours(graph: Graph, layer: Neighbours, texts: Texts, x: str) -> str:
    """A convolution over [batch, dim, length]; input and output are rows."""
    if not layer.left and not layer.right:
        return graph.linear(x, layer.joined)
    width = layer.left + 1 + layer.right
    weight = layer.joined.weight.unflatten(1, (width, -1)).mT.contiguous()  # [outputs, inputs, width]
    channels = graph.turned(texts.silent(graph, texts.padded(graph, x, weight.shape[1])), 0, 2, 1)
    parts = [graph.weight(weight), graph.weight(layer.joined.bias)]
    sums = graph.op("Conv", channels, *parts, pads=[layer.left, layer.right])
    return graph.shaped(graph.turned(sums, 0, 2, 1), -1, weight.shape[0])


def segments(graph: Graph, encoder: BERTEncoder, texts: Texts) -> str:
    """The segment of each token: the second text begins after the first end. Empty for a model with one segment."""
    if encoder.config.num_segments < 2:
        return ""
    end = graph.op("Cast", graph.op("Equal", texts.ids, graph.single(EOS)), to=7)  # int64
    return graph.op("Min", graph.op("CumSum", end, graph.single(1), exclusive=1), graph.single(1))


def bert(graph: Graph, encoder: BERTEncoder, texts: Texts, segments: str = "") -> str:
    """Rows [batch · length, model_dim] of texts; without segments, all tokens are in the first."""
    x, dim = texts.embedded(graph, encoder.embedding), encoder.output_dim
    if segments:
        kind = graph.op("Gather", graph.weight(encoder.segment.weight), graph.shaped(segments, -1))
    else:
        kind = graph.table(encoder.segment.weight[0])
    places = _places(graph, texts, max_length(encoder))
    here = graph.op("Gather", graph.weight(encoder.position.weight), places.query)
    x = texts.padded(graph, graph.op("Add", x, kind), dim)
    x = graph.norm(graph.shaped(graph.op("Add", x, here), -1, dim), encoder.embedding_norm)
    return graph.norm(block_graph.encoded(graph, cast(Any, encoder.blocks), x, texts.batch, places), encoder.norm)


def _transformer(graph: Graph, encoder: TransformerEncoder, texts: Texts, x: str) -> str:
    x = graph.norm(x, encoder.norm)
    if isinstance(encoder.project, nn.Linear):
        x = graph.linear(x, encoder.project)
    places = _places(graph, texts, max_length(encoder))
    shape = (texts.batch, texts.length, encoder.output_dim)
    x = block_graph.placed(graph, x, encoder.position, shape, places, texts.lengths)
    return graph.norm(block_graph.encoded(graph, cast(Any, encoder.blocks), x, texts.batch, places), encoder.last_norm)


def _places(graph: Graph, texts: Texts, limit: int | None) -> Places:
    place = graph.places(graph.whole(0), texts.length)
    return Places(place, place, limit or POSITIONS, real=texts.real)
