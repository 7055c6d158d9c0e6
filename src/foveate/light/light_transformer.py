"""The Transformer of `foveate.models` in numpy, for one sentence at a time and its hypotheses. No padding, no masks."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from foveate.light.weight import Array, NotSupportedError

EPSILON = 1e-5
"""That of torch's LayerNorm."""
ATTENTION: dict[str, Any] = {
    "kind": "attention",
    "score": {"kind": "scaled_dot", "scale": None},
    "normaliser": {"kind": "softmax", "temperature": 1.0},
    "visibility": "everything()",
    "bias": None,
    "transforms": [],
}
"""The configuration of the only attention that is computed here: softmax(QKᵀ/√d)V."""
ATTENTIONS = ("encoder_attention", "decoder_attention", "cross_attention")
BLOCK = {"model_dim", "num_heads", "feedforward_dim", "norm", "activation", "bias", *ATTENTIONS}
DROPOUTS = {"dropout", "attention_dropout", "feedforward_dropout"}
MODEL = {"kind", "block", "encoder_layers", "decoder_layers", "position", "share", "output_bias"}
OTHERS = {"encoder": None, "target_position": "same"}
"""Settings of a model with the only value that is supported."""


@dataclass(frozen=True)
class Product:
    """x Wᵀ + b"""

    weight: Array
    bias: Array | None

    def __call__(self, x: Array) -> Array:
        y: Array = x @ self.weight.T
        return y if self.bias is None else y + self.bias


@dataclass(frozen=True)
class Norm:
    """Layer normalisation."""

    weight: Array
    bias: Array

    def __call__(self, x: Array) -> Array:
        away = x - x.mean(-1, keepdims=True)
        deviation = np.sqrt((away * away).mean(-1, keepdims=True) + np.float32(EPSILON))
        result: Array = away / deviation * self.weight + self.bias
        return result


@dataclass(frozen=True)
class Layer:
    """The weights of a block."""

    joined: Product
    """Queries, keys and values of the self-attention."""
    output: Product
    expand: Product
    contract: Product
    norms: tuple[Norm, ...]
    """Those of the self-attention, the cross-attention if there is one, and the feed-forward network."""


@dataclass(frozen=True)
class Crossing:
    """The weights of a decoder block's attention to the source."""

    query: Product
    joined: Product
    """Keys and values."""
    output: Product


@dataclass(frozen=True)
class LightState:
    """The memory of a decoder for one sentence."""

    past: Array
    """Keys and values of its words so far, [layers, 2, rows, heads, length, head_dim]."""
    memory: Array
    """Those of the source, [layers, 2, heads, length, head_dim]."""

    @property
    def time(self) -> int:
        """The number of steps before."""
        return int(self.past.shape[4])

    def select(self, rows: list[int]) -> "LightState":
        """The state of these rows, in this order."""
        return replace(self, past=self.past[:, :, rows])


class LightTransformer:
    """Encoder and decoder from a configuration and weights by name, both as a run folder holds them.

    Raises NotSupportedError for any setting or weight that this does not compute exactly as `foveate.models` does.
    """

    def __init__(
        self, config: Mapping[str, Any], weights: Mapping[str, Array], source_vocab: int, target_vocab: int
    ) -> None:
        _require_supported(config)
        block, self._weights, self._used = config["block"], weights, set[str]()
        self.heads, self.norm_first, self.activation = block["num_heads"], block["norm"] == "pre", block["activation"]
        self.width, self.position = block["model_dim"], config["position"]
        self.hidden = block["feedforward_dim"]
        self.target_embedding = self._weight("target_embedding.weight", target_vocab, self.width)
        self.source_embedding = self.target_embedding
        if config["share"] != "all":
            self.source_embedding = self._weight("source_embedding.weight", source_vocab, self.width)
        table = self.target_embedding
        if config["share"] == "none":
            table = self._weight("output_weight", target_vocab, self.width)
        self.logits = Product(table, self._weight("output_bias", target_vocab) if config["output_bias"] else None)
        self.encoder = [self._layer(f"encoder.{number}") for number in range(config["encoder_layers"])]
        self.decoder = [
            (self._layer(f"decoder.{number}", "cross"), self._crossing(f"decoder.{number}.cross_attention"))
            for number in range(config["decoder_layers"])
        ]
        self.encoder_norm = self._norm("encoder_norm") if self.norm_first else None
        self.decoder_norm = self._norm("decoder_norm") if self.norm_first else None
        self.size = sum(weight.size for weight in weights.values())
        if unused := weights.keys() - self._used:
            raise NotSupportedError(f"{min(unused)} is not a weight of this model")

    def encode(self, source: list[int]) -> Array:
        """The encoder's output [length, model_dim] for the ids of a sentence with its end."""
        x = self._embedded(self.source_embedding, source, 0)
        for layer in self.encoder:
            query, key, value = _split(layer.joined(self._before(layer, 0, x)), 3, self.heads)
            x = self._after(layer, 0, x + layer.output(_merge(_attend(query, key, value))))
            x = self._feed_forward(layer, x)
        return x if self.encoder_norm is None else self.encoder_norm(x)

    def start(self, source: list[int], rows: int = 1) -> LightState:
        """The state of a sentence's rows before the first step."""
        encoded = self.encode(source)
        memory = np.stack([_split(crossing.joined(encoded), 2, self.heads) for _, crossing in self.decoder])
        past = np.zeros((len(self.decoder), 2, rows, self.heads, 0, self.width // self.heads), np.float32)
        return LightState(past, memory)

    def step(self, state: LightState, tokens: list[int]) -> tuple[LightState, Array]:
        """The state after each row's newest token, and the logits [rows, vocab] of the next."""
        x, pasts = self._embedded(self.target_embedding, tokens, state.time, step=0), []
        for (layer, crossing), past, memory in zip(self.decoder, state.past, state.memory, strict=True):
            joined = layer.joined(self._before(layer, 0, x)).reshape(len(tokens), 3, self.heads, 1, -1)
            past = np.concatenate([past, joined[:, 1:].swapaxes(0, 1)], axis=3)
            pasts.append(past)
            x = self._after(layer, 0, x + layer.output(_attend(joined[:, 0], *past).reshape(x.shape)))
            query = _split(crossing.query(self._before(layer, 1, x)), 1, self.heads)[0]
            x = self._after(layer, 1, x + crossing.output(_merge(_attend(query, *memory))))
            x = self._feed_forward(layer, x)
        hidden = x if self.decoder_norm is None else self.decoder_norm(x)
        return replace(state, past=np.stack(pasts)), self.logits(hidden)

    @np.errstate(all="ignore")
    def crossings(self, source: list[int], target: list[int]) -> list[Array]:
        """The weights [heads, target, source] of each layer's attention to the source when a target is forced, which
        begins with the begin token.
        """
        state, results = self.start(source), []
        x = self._embedded(self.target_embedding, target, 0)
        later = np.triu(np.full((len(target), len(target)), -np.inf, np.float32), 1)
        for (layer, crossing), memory in zip(self.decoder, state.memory, strict=True):
            query, key, value = _split(layer.joined(self._before(layer, 0, x)), 3, self.heads)
            x = self._after(layer, 0, x + layer.output(_merge(_weights(query, key, later) @ value)))
            query = _split(crossing.query(self._before(layer, 1, x)), 1, self.heads)[0]
            weights = _weights(query, memory[0])
            results.append(weights)
            x = self._after(layer, 1, x + crossing.output(_merge(weights @ memory[1])))
            x = self._feed_forward(layer, x)
        return results

    def _embedded(self, table: Array, ids: list[int], first: int, step: int = 1) -> Array:
        """Embeddings of ids at the positions `first`, `first + step` …"""
        if ids and not 0 <= min(ids) <= max(ids) < len(table):
            raise NotSupportedError("an id is not in the vocabulary")
        places = first + step * np.arange(len(ids))
        scaled: Array = table[ids] * np.float32(math.sqrt(self.width)) + self._positions(places)
        return scaled

    def _positions(self, places: Any) -> Array:
        """p(pos, 2j) = sin(pos · base^(−2j/d)), p(pos, 2j+1) = cos(…); see `foveate.nn.position_vector.Sinusoid`."""
        pairs = np.arange(0, self.width, 2, dtype=np.float64)
        angle = places[:, None] * np.exp(pairs * (-math.log(self.position["base"]) / self.width))
        sines, cosines = np.sin(angle).astype(np.float32), np.cos(angle).astype(np.float32)
        if self.position["layout"] == "interleaved":
            return np.stack([sines, cosines], axis=-1).reshape(len(places), -1)
        return np.concatenate([sines, cosines], axis=-1)

    def _before(self, layer: Layer, place: int, x: Array) -> Array:
        return layer.norms[place](x) if self.norm_first else x

    def _after(self, layer: Layer, place: int, x: Array) -> Array:
        return x if self.norm_first else layer.norms[place](x)

    def _feed_forward(self, layer: Layer, x: Array) -> Array:
        hidden = layer.expand(self._before(layer, -1, x))
        active = np.maximum(hidden, 0) if self.activation == "relu" else hidden / (1 + np.exp(-hidden))
        return self._after(layer, -1, x + layer.contract(active))

    def _layer(self, name: str, *more: str) -> Layer:
        attention, feedforward, width = f"{name}.attention", f"{name}.feedforward", self.width
        return Layer(
            joined=self._product(width, width, *(f"{attention}.{part}" for part in ("query", "key", "value"))),
            output=self._product(width, width, f"{attention}.output"),
            expand=self._product(self.hidden, width, f"{feedforward}.expand"),
            contract=self._product(width, self.hidden, f"{feedforward}.contract"),
            norms=tuple(self._norm(f"{name}.{part}_residual.norm") for part in ("attention", *more, "feedforward")),
        )

    def _crossing(self, name: str) -> Crossing:
        return Crossing(
            query=self._product(self.width, self.width, f"{name}.query"),
            joined=self._product(self.width, self.width, f"{name}.key", f"{name}.value"),
            output=self._product(self.width, self.width, f"{name}.output"),
        )

    def _product(self, outputs: int, inputs: int, *names: str) -> Product:
        """One product for several layers with the same input."""
        weights = [self._weight(f"{name}.weight", outputs, inputs) for name in names]
        biases = [self._weight(f"{name}.bias", outputs) for name in names if f"{name}.bias" in self._weights]
        if len(biases) not in (0, len(names)):
            raise NotSupportedError(f"only some of {', '.join(names)} have a bias")
        return Product(_joined(weights), _joined(biases) if biases else None)

    def _norm(self, name: str) -> Norm:
        return Norm(self._weight(f"{name}.weight", self.width), self._weight(f"{name}.bias", self.width))

    def _weight(self, name: str, *shape: int) -> Array:
        if name not in self._weights or self._weights[name].shape != shape:
            raise NotSupportedError(f"{name} is not among the weights with the shape {shape}")
        self._used.add(name)
        return self._weights[name]


def _joined(parts: list[Array]) -> Array:
    """The rows of all parts; a single one is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _split(x: Array, parts: int, heads: int) -> Array:
    """[rows, parts · heads · head_dim] as [parts, heads, rows, head_dim]."""
    return x.reshape(len(x), parts, heads, -1).transpose(1, 2, 0, 3)


def _merge(x: Array) -> Array:
    """[heads, rows, head_dim] as [rows, heads · head_dim]."""
    return x.transpose(1, 0, 2).reshape(x.shape[1], -1)


def _weights(query: Array, key: Array, bias: Array | None = None) -> Array:
    """softmax(QKᵀ/√d + B)"""
    scores: Array = query @ key.swapaxes(-1, -2) * np.float32(1 / math.sqrt(query.shape[-1]))
    scores = scores if bias is None else scores + bias
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    result: Array = weights / weights.sum(-1, keepdims=True)
    return result


def _attend(query: Array, key: Array, value: Array) -> Array:
    context: Array = _weights(query, key) @ value
    return context


def _require_supported(config: Mapping[str, Any]) -> None:
    """Raises NotSupportedError with the first setting that the numpy model lacks."""
    if config.get("kind") != "transformer":
        raise NotSupportedError(f"the model is {config.get('kind')}, not a Transformer")
    block, position = config.get("block"), config.get("position")
    if not isinstance(block, dict) or not isinstance(position, dict):
        raise NotSupportedError("the model has no settings of blocks and positions")
    if config.keys() - OTHERS.keys() != MODEL or block.keys() - DROPOUTS != BLOCK:
        raise NotSupportedError("the model has other settings than this version writes")
    for name, only in OTHERS.items():
        if config.get(name, only) != only:
            raise NotSupportedError(f"{name} is {config[name]}")
    for name in ATTENTIONS:
        if block[name] != ATTENTION:
            raise NotSupportedError(f"{name} is not softmax(QKᵀ/√d)V over everything")
    if block["norm"] not in ("pre", "post") or block["activation"] not in ("relu", "silu"):
        raise NotSupportedError(f"blocks have the norm {block['norm']} and the activation {block['activation']}")
    if position.keys() != {"kind", "base", "layout"} or position["kind"] != "sinusoidal":
        raise NotSupportedError("positions are not sinusoidal")
    if not isinstance(position["base"], int | float) or not position["base"] > 0:
        raise NotSupportedError(f"the base of positions is {position['base']}")
    sizes = [block[name] for name in ("num_heads", "model_dim", "feedforward_dim")]
    sizes += [config[name] for name in ("encoder_layers", "decoder_layers")]
    if any(type(size) is not int or size < 1 for size in sizes) or sizes[1] % sizes[0]:
        raise NotSupportedError(f"heads, widths and layers are {sizes}")
    if config["share"] not in ("none", "output", "all"):
        raise NotSupportedError(f"share is {config['share']}")
