"""Tones become letters: CTC, attention, and both together write tunes of tones that they have not heard, and attention
moves through the recording from its beginning to its end.
"""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from foveate.attention import AttentionConfig, LocationAwareConfig, record, window
from foveate.data.batch import Batch
from foveate.decode import GreedyConfig, best_path, decode
from foveate.models import Recogniser, RecogniserConfig, SpellerConfig
from foveate.nn import BlockConfig, SubsamplingConfig, TransformerEncoderConfig, Vectors

Written = tuple[Sequence[int], Sequence[int]]
"""The tokens that a recogniser writes, and those of the tones."""
BANDS, TONES, FIRST = 12, 6, 4
"""The width of a frame, the number of different tones, and the id of the first of them."""
BATCH, STEPS = 24, {"ctc": 350, "attention": 600, "joint": 800}
ENCODER = TransformerEncoderConfig(
    block=BlockConfig(
        model_dim=48,
        num_heads=2,
        feedforward_dim=96,
        norm="pre",
        dropout=0.0,
        encoder_attention=AttentionConfig(visibility=window(left=8, right=8)),
    ),
    num_layers=2,
)
SPELLER = SpellerConfig(
    embedding_dim=16,
    hidden_dim=48,
    attention=AttentionConfig(score=LocationAwareConfig(hidden_dim=32, channels=4, width=15)),
    dropout=0.0,
)
FRONT = {"subsampling": SubsamplingConfig(factor=2, hidden_dim=48), "encoder": ENCODER, "dropout": 0.0}
CONFIGS = {
    "ctc": RecogniserConfig(**FRONT),
    "attention": RecogniserConfig(**FRONT, decoder=SPELLER, ctc_weight=0.0),
    "joint": RecogniserConfig(**FRONT, decoder=SPELLER, ctc_weight=0.5),
}


def tunes(generator: np.random.Generator) -> tuple[Batch, list[list[int]]]:
    """Recordings of three to six tones with pauses, in noise, and the ids of the tones."""
    recordings, written = [], []
    for _ in range(BATCH):
        tones = generator.integers(0, TONES, generator.integers(3, 7))
        parts = []
        for tone in tones:
            parts += [np.zeros((generator.integers(2, 6), BANDS))]
            parts += [np.tile(np.eye(BANDS)[2 * tone], (generator.integers(4, 9), 1))]
        clean = np.concatenate(parts)
        recordings.append((clean + generator.normal(0, 0.2, clean.shape)).astype(np.float32))
        written.append((FIRST + tones).tolist())
    return Batch.of(recordings), written


def ended(written: list[list[int]]) -> Batch:
    return Batch.of([[1, *tokens, 2] for tokens in written])


def trained(config: RecogniserConfig, steps: int) -> Recogniser:
    torch.manual_seed(0)
    model, generator = config.build(Vectors(BANDS), FIRST + TONES), np.random.default_rng(0)
    optimiser = torch.optim.AdamW(model.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, steps)
    for _ in range(steps):
        source, written = tunes(generator)
        optimiser.zero_grad()
        (model.loss(source, ended(written)) / BATCH).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimiser.step()
        schedule.step()
    return model.eval()


def parts(recogniser: Recogniser) -> list[str]:
    heads = {"ctc": recogniser.ctc_output, "attention": recogniser.decoder}
    return [name for name, head in heads.items() if head is not None]


def share_in_place(pairs: list[Written]) -> float:
    """The share of tones that are written in their place."""
    right = sum(one == other for tokens, tones in pairs for one, other in zip(tokens, tones, strict=False))
    return right / sum(max(len(tokens), len(tones)) for tokens, tones in pairs)


@pytest.fixture(scope="module", params=CONFIGS)
def recogniser(request: pytest.FixtureRequest) -> Recogniser:
    return trained(CONFIGS[request.param], STEPS[request.param])


@torch.inference_mode()
def test_tunes_that_were_not_heard_are_written(recogniser: Recogniser) -> None:
    generator, pairs = np.random.default_rng(1), {"ctc": list[Written](), "attention": list[Written]()}
    for _ in range(8):
        source, written = tunes(generator)
        if recogniser.ctc_output is not None:
            pairs["ctc"] += zip([best.tokens for best in best_path(*recogniser.ctc(source))], written, strict=True)
        if recogniser.decoder is not None:
            state, config = recogniser.start(source), GreedyConfig(max_length=12)
            searched = decode(recogniser, state, sentences=BATCH, config=config)
            pairs["attention"] += zip([best.tokens for [best] in searched], written, strict=True)
    assert {name for name, each in pairs.items() if each} == set(parts(recogniser))
    for name in parts(recogniser):
        assert share_in_place(pairs[name]) >= 0.99, name


@torch.inference_mode()
@pytest.mark.parametrize("recogniser", ["attention", "joint"], indirect=True)
def test_attention_moves_forwards_over_the_tones(recogniser: Recogniser) -> None:
    source, written = tunes(np.random.default_rng(2))
    with record(recogniser) as recording:
        recogniser(source, ended(written))
    (cross,) = recording.of_kind("cross")
    peaks = [weights[: len(tones)].argmax(-1) for weights, tones in zip(cross.weights()[:, 0], written, strict=True)]
    steps = torch.cat([each.diff() for each in peaks])
    assert (steps >= 0).all()
    assert (steps > 0).float().mean() >= 0.95
