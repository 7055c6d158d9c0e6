"""Taggers and classifiers as one graph: from padded sentences or texts to logits of labels."""

from typing import cast

from foveate.export.onnx import encoder_graph, picture_graph, pooling_graph, subsampling_graph
from foveate.export.onnx.encoder_graph import Texts
from foveate.export.onnx.operator_graph import Graph
from foveate.export.plain_attention import input_refusals
from foveate.models.bert import BERTEncoder
from foveate.models.classifier import Classifier
from foveate.models.picture_encoder import PictureEncoder
from foveate.models.tagger import FrameTagger, PieceTagger, Spelling, Tagger
from foveate.nn.embed import PatchEmbedding, Patches, Tokens, Vectors
from foveate.nn.encoder import Encoder

Labeller = Tagger | PieceTagger | FrameTagger | Classifier
INPUTS = (Tokens, Vectors)
"""The inputs of classifiers and taggers of vectors that can be exported. BERT in ONNX reads tokens only."""


def refusals(model: Labeller) -> list[str]:
    """The parts of a model that cannot be exported."""
    if isinstance(model.encoder, PictureEncoder):
        reasons = picture_graph.refusals(model.encoder)
    else:
        reasons = encoder_graph.refusals(model.encoder)
    if isinstance(model, Classifier):
        reasons += pooling_graph.refusals(model.pooling)
        reasons += [] if model.subsampling is None else subsampling_graph.refusals(model.subsampling)
    if isinstance(model.encoder, BERTEncoder):
        reasons += input_refusals(model)
    return reasons


def max_length(model: Labeller) -> int | None:
    """The largest number of tokens that the graph represents; None without a limit, and for pictures of one size."""
    if isinstance(model.encoder, PictureEncoder) or isinstance(getattr(model, "input", None), Patches):
        return None
    limit = encoder_graph.max_length(model.encoder)
    return limit * model.stride if isinstance(model, Classifier) and limit is not None else limit


def graphs(model: Labeller) -> dict[str, Graph]:
    """The graph, by file name."""
    graph = Graph("model")
    if isinstance(model, Classifier):
        _classifier(graph, model)
    elif isinstance(model, FrameTagger):
        _frame_tagger(graph, model)
    else:
        _tagger(graph, model)
    return {"model.onnx": graph}


def _tagger(graph: Graph, model: Tagger | PieceTagger) -> None:
    """Logits at every word, or at every piece. Those at padding are undefined."""
    if isinstance(model, Tagger):
        texts = Texts.given(graph, "words", "sentences")
        x, width = texts.embedded(graph, model.embedding), model.embedding.embedding_dim
        if model.spelling is not None:
            x = graph.op("Concat", x, _spelt(graph, model.spelling), axis=1)
            width += model.spelling.window.joined.out_features
        x = encoder_graph.encoded(graph, model.encoder, texts, x, width)
    else:
        texts = Texts.given(graph, "pieces", "sentences")
        x = encoder_graph.bert(graph, model.encoder, texts)
    labels = model.output.out_features
    logits = texts.padded(graph, graph.linear(x, model.output), labels)
    graph.output("logits", logits, ["sentences", "length", labels])


def _frame_tagger(graph: Graph, model: FrameTagger) -> None:
    """Logits at every vector. Those at padding are undefined."""
    read = model.encoder
    assert isinstance(model.input, Vectors)
    assert not isinstance(read, BERTEncoder)
    texts, labels = Texts.given_vectors(graph, "rows", model.input.width), model.output.out_features
    x = texts.embedded(graph, model.embedding)
    x = encoder_graph.encoded(graph, read, texts, x, encoder_graph.embedding_dim(model.embedding))
    graph.output("logits", texts.padded(graph, graph.linear(x, model.output), labels), ["rows", "length", labels])


def _spelt(graph: Graph, spelling: Spelling) -> str:
    """The vector of each word from its characters: the maximum of each feature. Padding is zero, like places without
    a feature.
    """
    ids = graph.input("spellings", ["sentences", "length", "letters"], integer=True)
    lengths = graph.input("spelling_lengths", ["sentences", "length"], integer=True)
    spelt = Texts.of(graph, graph.shaped(ids, -1, graph.size(ids, 2)), graph.shaped(lengths, -1))
    x = encoder_graph.neighbours(graph, spelling.window, spelt, spelt.embedded(graph, spelling.embedding))
    features = spelt.silent(graph, spelt.padded(graph, graph.op("Relu", x), spelling.window.joined.out_features))
    return graph.op("ReduceMax", features, graph.whole(1), keepdims=0)


def _classifier(graph: Graph, model: Classifier) -> None:
    """Logits of each text or picture, and the weights of attention pooling."""
    read = model.encoder
    if isinstance(read, PictureEncoder):
        count = read.class_tokens + read.grid[0] * read.grid[1]
        pixels, texts = picture_graph.given(graph, read.patches, count)
        _answer(graph, model, texts, picture_graph.encoded(graph, read, pixels, texts), "pictures")
        return
    if isinstance(model.input, Patches) and isinstance(model.embedding, PatchEmbedding):
        pixels, texts = picture_graph.given(graph, model.input, model.input.count)
        x = picture_graph.embedded(graph, model.input, model.embedding, pixels, texts.batch)
        x = encoder_graph.encoded(graph, cast(Encoder, read), texts, x, model.embedding.project.out_features)
        _answer(graph, model, texts, x, "pictures")
        return
    if isinstance(model.input, Vectors):
        texts = Texts.given_vectors(graph, "texts", model.input.width)
    else:
        texts = Texts.given(graph, "tokens", "texts")
    if isinstance(read, BERTEncoder):
        x = encoder_graph.bert(graph, read, texts, encoder_graph.segments(graph, read, texts))
    elif model.subsampling is not None:
        assert isinstance(model.input, Vectors)
        x = graph.shaped(texts.ids, -1, model.input.width)
        x, texts = subsampling_graph.subsampled(graph, model.subsampling, texts, x, model.input.width)
        x = encoder_graph.encoded(graph, read, texts, x, model.subsampling.output_dim)
    else:
        x = texts.embedded(graph, model.embedding)
        x = encoder_graph.encoded(graph, read, texts, x, encoder_graph.embedding_dim(model.embedding))
    _answer(graph, model, texts, x, "texts")


def _answer(graph: Graph, model: Classifier, texts: Texts, x: str, batch: str) -> None:
    vector, weights = pooling_graph.pooled(graph, model.pooling, texts, x, model.encoder.output_dim)
    graph.output("logits", graph.linear(vector, model.output), [batch, model.output.out_features])
    if weights:
        graph.output("weights", weights, [batch, "length" if model.subsampling is None else "outputs"])
