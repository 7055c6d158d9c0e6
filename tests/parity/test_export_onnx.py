"""Tiny random encoder–decoders as ONNX graphs: the same logits at every step, the same words however decoded."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from foveate.attention import AlibiConfig, AttentionConfig, Dot, Entmax, GeneralConfig, Rotary, dilated, window
from foveate.data.batch import Batch
from foveate.decode import BeamConfig, GreedyConfig, SampleConfig, beam_size, decode
from foveate.errors import UsageError
from foveate.export import max_length, onnx_engine, onnx_refusals, save_onnx
from foveate.export.onnx import operator_graph
from foveate.models import BahdanauConfig, FixedContextConfig, LuongConfig, ModelConfig, Seq2Seq, TransformerConfig
from foveate.nn.position_vector import BinaryConfig, LearnedConfig, NoneConfig, SinusoidalConfig
from foveate.nn.transformer_block import BlockConfig

VOCAB, END = 40, 2
LOGITS = 1e-5  # absolute, of logits of a few units: rounding of float32 sums

SPARSE = AttentionConfig(visibility=dilated(left=2, right=2, step=2))
BLOCK = BlockConfig(model_dim=32, num_heads=4, feedforward_dim=48)
NARROW: dict[str, Any] = {"embedding_dim": 16, "hidden_dim": 24}
MODELS: dict[str, ModelConfig] = {
    "fixed context": FixedContextConfig(**NARROW),
    "fixed context, two layers of LSTM, one direction": FixedContextConfig(
        **NARROW, num_layers=2, cell="lstm", bidirectional=False, skip=True, layer_norm=True
    ),
    "Bahdanau": BahdanauConfig(**NARROW, maxout_dim=20),
    "Bahdanau with the lectures' GRU, two layers": BahdanauConfig(**NARROW, cell="lecture_gru", encoder_layers=2),
    "Bahdanau with an LSTM and general scores": BahdanauConfig(
        **NARROW, cell="lstm", attention=LuongConfig().attention
    ),
    "Luong": LuongConfig(**NARROW),
    "Luong, stacked, with plain recurrence and dot products": LuongConfig(
        **NARROW, num_layers=3, cell="rnn", bidirectional=True, skip=True, attention=AttentionConfig(score=Dot())
    ),
    "Luong without feeding, additive": LuongConfig(
        **NARROW, cell="gru", layer_norm=True, input_feeding=False, attention=BahdanauConfig().attention
    ),
    "Transformer, pre-norm": TransformerConfig(block=replace(BLOCK, norm="pre")),
    "Transformer, post-norm, nothing tied": TransformerConfig(
        block=replace(BLOCK, activation="gelu", bias=False), share="none", position=LearnedConfig(max_length=60)
    ),
    "Transformer, all tied, no positions": TransformerConfig(
        block=replace(BLOCK, norm="pre", activation="silu"), share="all", position=NoneConfig(), output_bias=True
    ),
    "Transformer, turned in windows, far places punished": TransformerConfig(
        block=replace(
            BLOCK,
            encoder_attention=AttentionConfig(transforms=(Rotary(),), visibility=window(left=2, right=3)),
            decoder_attention=AttentionConfig(bias=AlibiConfig(), visibility=window(left=2, right=0)),
        ),
        position=NoneConfig(),
    ),
    "Transformer, another gelu": TransformerConfig(
        block=replace(BLOCK, activation="gelu_tanh"), position=SinusoidalConfig(layout="blocks"), decoder_layers=1
    ),
}


def random_model(config: ModelConfig) -> Seq2Seq:
    torch.manual_seed(7)
    model = config.build(VOCAB, VOCAB).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


@pytest.fixture(scope="module")
def source() -> Batch:
    generator = torch.Generator().manual_seed(11)
    lengths = torch.randint(1, 12, (9,), generator=generator).tolist()
    return Batch.of([[*torch.randint(4, VOCAB, (length,), generator=generator).tolist(), END] for length in lengths])


@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS.keys())
def test_logits_of_every_step_are_ours_with_hypotheses_reordered_and_sentences_left_out(
    config: ModelConfig, source: Batch
) -> None:
    model, beam = random_model(config), 2
    engine = onnx_engine(model)
    token, rows = torch.ones(source.size * beam, dtype=torch.int64), torch.arange(source.size * beam)
    with torch.inference_mode():
        ours, theirs = model.start(source, beam), engine.start(source, beam)
        for time in range(5):
            ours, expected = model.step(ours, token)
            theirs, found = engine.step(theirs, token)
            torch.testing.assert_close(found, expected, atol=LOGITS, rtol=0)
            assert expected.std() > 0.1  # there is something to compare
            if time == 2:
                rows = rows.unflatten(0, (-1, beam))[1:].flip(1).flatten()
                ours, theirs, expected = model.select(ours, rows), engine.select(theirs, rows), expected[rows]
            token = (expected.argmax(1) + torch.arange(len(expected))) % VOCAB


@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS.keys())
@pytest.mark.parametrize(
    "way",
    [GreedyConfig(max_length=12), BeamConfig(beam=3, num_best=2, max_length=12), SampleConfig(max_length=12, seed=3)],
    ids=["greedy", "beam", "sample"],
)
def test_every_way_to_decode_gives_our_words(config: ModelConfig, way: Any, source: Batch) -> None:
    model = random_model(config)
    engine, beam = onnx_engine(model), beam_size(way)
    with torch.inference_mode():
        expected = decode(model, model.start(source, beam), sentences=source.size, config=way)
    found = decode(engine, engine.start(source, beam), sentences=source.size, config=way)
    for ours, theirs in zip(expected, found, strict=True):
        assert [each.tokens for each in theirs] == [each.tokens for each in ours]
        assert [each.score for each in theirs] == pytest.approx([each.score for each in ours], abs=12 * LOGITS)


def test_two_files_are_written_that_say_what_they_take(tmp_path: Path) -> None:
    save_onnx(random_model(MODELS["Luong"]), tmp_path / "to")
    assert sorted(path.name for path in (tmp_path / "to").iterdir()) == ["encoder.onnx", "step.onnx"]
    step = onnx.load(tmp_path / "to" / "step.onnx")
    names = {"token", "lengths", "memory.hidden", "memory.features", "state.layer.0.0", "state.layer.0.1", "state.feed"}
    assert {each.name for each in step.graph.input} == names
    assert {each.name for each in step.graph.output} == {
        "logits",
        *(f"new.{name}" for name in names if name.startswith("state.")),
    }


def test_weights_that_one_file_cannot_hold_are_in_a_second_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = TransformerConfig(block=BLOCK)
    save_onnx(random_model(config), tmp_path / "one")
    monkeypatch.setattr(operator_graph, "LARGEST", 1_000)
    for _ in range(2):
        save_onnx(random_model(config), tmp_path / "two")
    names = ["encoder.onnx", "encoder.onnx.data", "step.onnx", "step.onnx.data"]
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == names
    given = {"source": np.array([[5, 6, END]]), "lengths": np.array([3])}
    one, two = (onnxruntime.InferenceSession(tmp_path / name / "encoder.onnx") for name in ("one", "two"))
    names = [value.name for value in one.get_inputs()]
    given = dict(zip(names, given.values(), strict=True))
    for mine, right in zip(two.run(None, given), one.run(None, given), strict=True):
        np.testing.assert_array_equal(mine, right)
    with pytest.raises(UsageError, match="reads models of up to 1,000 bytes of weights"):
        onnx_engine(random_model(config))


def test_binary_digits_have_a_table_of_usual_length(tmp_path: Path) -> None:
    model = random_model(TransformerConfig(block=replace(BLOCK, model_dim=24), position=BinaryConfig()))
    assert model.max_length == 2**24
    assert max_length(model) == 2048
    save_onnx(model, tmp_path / "to")
    assert sum(path.stat().st_size for path in (tmp_path / "to").iterdir()) < 2_000_000


def test_a_weight_that_is_used_twice_is_stored_once(tmp_path: Path) -> None:
    model = random_model(TransformerConfig(block=BLOCK, position=NoneConfig()))
    save_onnx(model, tmp_path / "to")
    weights = sum(
        parameter.numel() * 4
        for name, parameter in model.named_parameters()
        if not name.startswith(("encoder", "sour"))
    )
    assert (tmp_path / "to" / "step.onnx").stat().st_size < weights + 40_000


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (
            BahdanauConfig(**NARROW, attention=AttentionConfig(score=GeneralConfig(), normaliser=Entmax())),
            "normaliser is Entmax",
        ),
        (TransformerConfig(block=replace(BLOCK, encoder_attention=SPARSE)), r"encoder layer 0.*dilated\(left=2"),
        (TransformerConfig(block=replace(BLOCK, cross_attention=AttentionConfig(bias=AlibiConfig()))), "has a bias"),
        (TransformerConfig(block=replace(BLOCK, cross_attention=BahdanauConfig().attention)), "score is Additive"),
    ],
)
def test_what_has_no_graph_is_refused_with_the_reason(config: ModelConfig, reason: str, tmp_path: Path) -> None:
    model = config.build(VOCAB, VOCAB)
    assert re.search(reason, "; ".join(onnx_refusals(model)))
    with pytest.raises(UsageError, match=f"{reason}.*own engine"):
        save_onnx(model, tmp_path / "to")
    assert not list(tmp_path.iterdir())
