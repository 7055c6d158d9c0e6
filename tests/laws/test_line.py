"""Every mechanism is one line of TOML in an encoder, a decoder, across, and in a recurrent decoder: there it learns and
decodes, or it is refused before any training, with what to choose instead.
"""

import tomllib

import pytest
import torch

from foveate.config import build, to_toml
from foveate.data.batch import Batch
from foveate.decode import GreedyConfig, decode
from foveate.errors import UsageError
from foveate.models import BahdanauConfig, LuongConfig, Seq2Seq, TransformerConfig

TRANSFORMER = (
    "encoder_layers = 1\ndecoder_layers = 1\nblock.model_dim = 8\nblock.num_heads = 2\nblock.feedforward_dim = 8"
)
PLACES = {
    "encoder": (TransformerConfig, f"{TRANSFORMER}\nblock.encoder_attention"),
    "decoder": (TransformerConfig, f"{TRANSFORMER}\nblock.decoder_attention"),
    "cross": (TransformerConfig, f"{TRANSFORMER}\nblock.cross_attention"),
    "bahdanau": (BahdanauConfig, "embedding_dim = 4\nhidden_dim = 8\nmaxout_dim = 4\nattention"),
    "luong": (LuongConfig, "embedding_dim = 4\nhidden_dim = 8\nattention"),
}
TRANSFORMERS = {"encoder", "decoder", "cross"}
ACROSS = {"cross", "bahdanau", "luong"}
ONE_WIDTH = {"bahdanau"}
"""Whose memory is twice as wide as its decoder."""
RULES = (
    "causal()",
    "window(left=2, right=1)",
    "dilated(left=2, right=0, step=2)",
    "around(left=2, right=2)",
    "block(4)",
    "chunk(2, left=1)",
    "summary(block=4, count=1)",
    "global_tokens(1)",
    "longformer(window=4, tokens=1)",
    "sparse(block=4, summaries=1)",
    "prefix(2)",
    "neighbourhood(columns=3, reach=1)",
    "neighbourhood(columns=3, reach=(0, 2), first=1)",
    "edges([[0, 1], [1, 2]], self_loops=True)",
    "~window(left=1, right=0)",
    "nothing()",
)
PARTS: dict[str, set[str]] = {
    'score = "dot"': ONE_WIDTH,
    'score = { kind = "scaled_dot", scale = 0.3 }': ONE_WIDTH,
    'score = "general"': set(),
    'score = "additive"': set(),
    'score = { kind = "cosine", beta = 5.0, learned = true }': ONE_WIDTH,
    'score = { kind = "location", max_length = 40 }': set(),
    'score = { kind = "location_aware", channels = 3, width = 5 }': TRANSFORMERS,
    'score = "shaw_relative"': ONE_WIDTH,
    'score = "gat"': ONE_WIDTH,
    'score = "gat_v2"': set(),
    'normaliser = { kind = "softmax", temperature = 0.5 }': set(),
    'normaliser = "relu"': set(),
    'normaliser = { kind = "relu", normalised = false }': set(),
    'normaliser = "sigmoid"': set(),
    'normaliser = "sparsemax"': set(),
    'normaliser = "entmax"': set(),
    'normaliser = { kind = "hard", mode = "argmax" }': set(),
    'normaliser = { kind = "hard", mode = "straight_through" }': set(),
    'normaliser = { kind = "hard", mode = "gumbel" }': set(),
    'normaliser = { kind = "hard", mode = "sample" }': TRANSFORMERS,
    'bias = "alibi"': set(),
    'bias = { kind = "gaussian", sigma = 3.0 }': set(),
    'bias = "relative_buckets"': set(),
    'transforms = ["rotary"]': ONE_WIDTH,
    'transforms = ["rotary", "qk_norm"]': ONE_WIDTH,
    'visibility = "same_segment()"': set(PLACES),
    'visibility = "block(4, strided=True)"': {"decoder"},
    'visibility = "random_blocks(block=2, count=1)"': {"decoder"},
    'visibility = "bigbird(block=2)"': {"decoder"},
    **{f'visibility = "{rule}"': set() for rule in RULES},
}
MECHANISMS: dict[str, set[str]] = {
    '"local_monotonic"': set(),
    '"local_predictive"': {"decoder"},
    '{ kind = "local_predictive", window = 3, renormalise = true }': {"decoder"},
    '"linear"': ONE_WIDTH,
    '"performer"': ONE_WIDTH,
    '"linformer"': ONE_WIDTH | {"decoder"},
    '"reformer"': ACROSS,
    '"sinkhorn"': ACROSS,
    '"synthesizer"': ACROSS,
    '{ kind = "synthesizer", form = "dense" }': ACROSS,
    '{ kind = "synthesizer", form = "random" }': ACROSS,
    '"local_block"': ACROSS,
    '"sparse"': ACROSS,
    '"longformer"': ACROSS,
    '"bigbird"': ACROSS | {"decoder"},
}
LINES = {f'{{ kind = "attention", {part} }}': places for part, places in PARTS.items()} | MECHANISMS
SOURCE = Batch.of([[5, 6, 7, 8, 9, 4, 11, 2], [9, 2], [4, 4, 10, 2]])
TARGET = Batch.of([[1, 9, 8, 7, 2], [1, 4, 2], [1, 3, 3, 5, 5, 2]])


def made(place: str, line: str) -> Seq2Seq:
    torch.manual_seed(0)
    kind, settings = PLACES[place]
    config = build(kind, tomllib.loads(f"{settings} = {line}"))
    assert build(kind, tomllib.loads(to_toml(config))) == config
    return config.build(13, 13)


@pytest.mark.parametrize("line", LINES)
def test_one_line_learns_and_decodes_or_is_refused_with_what_to_choose(line: str) -> None:
    for place in PLACES:
        if place in LINES[line]:
            with pytest.raises((UsageError, ValueError), match=r"Choose|Leave|Use it in|Give random = 0"):
                made(place, line)
            continue
        model = made(place, line)
        model.loss(SOURCE, TARGET).backward()
        gradients = [part.grad for part in model.parameters() if part.grad is not None]
        assert gradients
        assert all(gradient.isfinite().all() for gradient in gradients)
        with torch.no_grad():
            found = decode(model, model.eval().start(SOURCE), sentences=3, config=GreedyConfig(max_length=3, forbid=()))
            best = found[1][0]
            predicted = [1, *best.tokens, *([2] if best.finished else [])]
            one = Batch(SOURCE.ids[1:2], SOURCE.lengths[1:2])
            assert model(one, Batch.of([predicted])).argmax(-1).tolist() == predicted[1:]
