"""Streams of encoders: what waits for what, what is kept, and what cannot be streamed."""

import math

import pytest
import torch

from foveate.attention import (
    AttentionConfig,
    Positions,
    Visibility,
    bigbird,
    chunk,
    everything,
    global_tokens,
    padding,
    predicate,
    window,
)
from foveate.attention.efficient import LinearConfig, LocalPredictiveConfig
from foveate.attention.score import LocationConfig
from foveate.errors import UsageError
from foveate.nn import (
    BlockConfig,
    CNNEncoderConfig,
    Encoder,
    EncoderConfig,
    MultiHeadAttention,
    RANEncoderConfig,
    RNNEncoderConfig,
    RNNMadeConfig,
    Sinusoid,
    TransformerEncoderConfig,
    UnitIntervalConfig,
    WindowEncoderConfig,
)
from foveate.nn.block_stream import BlockStream, attention_refusals
from foveate.nn.position_vector import TABLED, PositionConfig, SinusoidalConfig
from foveate.nn.stream import Chain, Placed, Pointwise

FRAMES = torch.arange(8)


def transformer(
    visibility: Visibility, layers: int = 2, position: PositionConfig = SinusoidalConfig()
) -> TransformerEncoderConfig:
    attention = AttentionConfig(visibility=visibility)
    block = BlockConfig(model_dim=4, num_heads=2, feedforward_dim=6, encoder_attention=attention)
    return TransformerEncoderConfig(block=block, num_layers=layers, position=position)


def built(config: EncoderConfig) -> Encoder:
    return config.build_for(3).eval()


def test_windows_of_all_layers_add_up() -> None:
    stream = built(transformer(window(left=9, right=2), layers=3)).stream()
    assert stream.look_ahead == 6
    assert stream.awaited(FRAMES).tolist() == [6, 7, 8, 9, 10, 11, 12, 13]


def test_chunks_of_equal_size_wait_once() -> None:
    stream = built(transformer(chunk(4, left=1), layers=3)).stream()
    assert stream.look_ahead == 3
    assert stream.awaited(FRAMES).tolist() == [3, 3, 3, 3, 7, 7, 7, 7]


def test_chunks_come_whole() -> None:
    stream = built(transformer(chunk(4, left=1), layers=3)).stream()
    with torch.no_grad():
        assert [len(y) for y in stream.run(torch.randn(10, 3).split(1))] == [0, 0, 0, 4, 0, 0, 0, 4, 0, 2]


def test_a_layer_keeps_keys_and_values_of_the_frames_before_and_inputs_of_those_that_wait() -> None:
    block = built(transformer(window(left=5, right=2), layers=1)).blocks[0]  # type: ignore[union-attr, index]
    stream = BlockStream(block)
    with torch.no_grad():
        state, _ = stream.advance(stream.begin(), torch.randn(20, 4), last=False)
    assert (len(state.x), state.queries.shape[2], state.memory.key.shape[2], state.received) == (2, 2, 7, 20)


def test_strides_multiply_and_delays_count_in_input_frames() -> None:
    class Halved(Pointwise):
        stride, look_ahead = 2, 1

    chain = Chain([Halved(torch.neg), Halved(torch.neg), Pointwise(torch.neg)])
    assert (chain.stride, chain.look_ahead) == (4, 3)
    assert chain.awaited(torch.tensor([0, 1])).tolist() == [3, 7]


def test_a_stream_that_ended_goes_no_further() -> None:
    chain = Chain([Pointwise(torch.neg)])
    state, _ = chain.advance(chain.begin(), torch.ones(1), last=True)
    with pytest.raises(UsageError, match="ended with last=True"):
        chain.advance(state, torch.ones(1), last=False)


@pytest.mark.parametrize(
    "config",
    [
        transformer(window(left=2, right=1)),
        CNNEncoderConfig(hidden_dim=4),
        WindowEncoderConfig(window=2, hidden_dim=4),
        RNNEncoderConfig(hidden_dim=4, bidirectional=False, cell="lstm"),
    ],
)
def test_nothing_in_gives_nothing_out(config: EncoderConfig) -> None:
    stream = built(config).stream()
    state, none = stream.advance(stream.begin(), torch.zeros(0, 3), last=False)
    _, still_none = stream.advance(state, torch.zeros(0, 3), last=True)
    assert none.shape == still_none.shape == (0, 4)


def test_places_continue() -> None:
    placed = Placed(lambda x, place, length: x + place[:, None])
    assert torch.cat(list(placed.run(torch.zeros(5, 1).split(2)))).flatten().tolist() == [0, 1, 2, 3, 4]


def test_late_positions_are_computed_and_equal_those_of_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    position, places = Sinusoid(6), torch.tensor([3, 70, 199])
    table = position(torch.arange(200))
    short = Sinusoid(6)
    monkeypatch.setattr("foveate.nn.position_vector.TABLED", 64)
    assert torch.equal(short(places), table[places])
    assert len(short.table) == 64 < TABLED


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (RNNEncoderConfig(), "half of its layers read from the end"),
        (RANEncoderConfig(), "RecurrentAttentionEncoder computes from the whole sequence"),
        (transformer(everything()), "padding() does not limit how many later frames a frame sees"),
        (transformer(window(left=2, right=math.inf)), "window(left=2, right=math.inf) does not limit"),
        (transformer(window(left=2, right=1) | global_tokens(1)), "does not limit how many later frames"),
        (transformer(bigbird(block=2)), "reads the length of the whole sequence"),
        (transformer(window(left=1, right=1), position=UnitIntervalConfig()), "UnitInterval needs the length"),
        (transformer(window(left=1, right=1), position=RNNMadeConfig()), "RNNMade needs the length, or all positions"),
    ],
)
def test_an_encoder_that_needs_the_whole_sequence_says_so(config: EncoderConfig, reason: str) -> None:
    with pytest.raises(UsageError) as refusal:
        built(config).stream()
    assert reason in str(refusal.value)


def test_every_reason_is_said_once() -> None:
    with pytest.raises(UsageError) as refusal:
        built(transformer(everything(), layers=3, position=UnitIntervalConfig())).stream()
    assert str(refusal.value).count("does not limit") == str(refusal.value).count("UnitInterval") == 1


def test_a_network_that_drops_numbers_cannot_process_a_stream() -> None:
    with pytest.raises(UsageError, match=r"call eval\(\)"):
        CNNEncoderConfig().build_for(3).stream()


class Stretch:
    """A transform by the number of keys, as some extensions of rotary positions are."""

    def query(self, query: torch.Tensor, at: Positions) -> torch.Tensor:
        return query * at.all_keys

    def key(self, key: torch.Tensor, at: Positions) -> torch.Tensor:
        return key


def near(at: Positions) -> torch.Tensor:
    return (at.query - at.key).abs() < 2


@pytest.mark.parametrize(
    ("attention", "part", "reason"),
    [
        (LinearConfig(), {}, "computes from the whole sequence"),
        (AttentionConfig(visibility=window(left=2, right=1), score=LocationConfig()), {}, "Location scores places"),
        (AttentionConfig(visibility=predicate(near)), {}, "does not limit how many later frames"),
        (AttentionConfig(visibility=window(left=1, right=1)), {"bias": near}, "does not state by_pair"),
        (AttentionConfig(visibility=window(left=1, right=1)), {"transforms": (Stretch(),)}, "Stretch does not state"),
        (LocalPredictiveConfig(window=2), {}, "centres of its windows are predicted"),
    ],
)
def test_an_attention_that_needs_the_whole_sequence_says_so(attention: object, part: dict, reason: str) -> None:  # type: ignore[type-arg]
    layer = MultiHeadAttention(query_dim=4, num_heads=2, attention=attention, visibility=padding())  # type: ignore[arg-type]
    for name, value in part.items():
        setattr(layer.attention, name, value)
    assert any(reason in each for each in attention_refusals(layer))
