"""A stream gives what the whole sequence gives, whatever the sizes of the pieces, and its state does not grow."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from foveate.attention import (
    AdditiveConfig,
    AlibiConfig,
    AttentionConfig,
    CosineConfig,
    Entmax,
    GaussianConfig,
    GeneralConfig,
    HardConfig,
    QKNormConfig,
    RelativeBucketsConfig,
    ReLU,
    Rotary,
    ScaledDot,
    ShawRelativeConfig,
    Softmax,
    Sparsemax,
    Visibility,
    block,
    causal,
    chunk,
    dilated,
    neighbourhood,
    record,
    window,
)
from foveate.attention.efficient import LocalBlockConfig, LongformerConfig
from foveate.data.batch import Batch
from foveate.models.recogniser import RecogniserConfig
from foveate.nn import (
    BinaryConfig,
    BlockConfig,
    CNNEncoderConfig,
    Encoder,
    EncoderConfig,
    IndexConfig,
    LearnedConfig,
    NoneConfig,
    Packing,
    PlaneSubsamplingConfig,
    PyramidConfig,
    RNNEncoderConfig,
    SinusoidalConfig,
    SubsamplingConfig,
    TransformerEncoderConfig,
    Vectors,
    WindowEncoderConfig,
)
from foveate.nn.stream import Stream

WIDTH, LONGEST = 6, 60
TIGHT, SINGLE = 1e-10, 1e-4
"""Differences of sums over a few dozen keys, through up to three layers, in float64 and in float32."""


@dataclass(frozen=True)
class Later:
    """A configuration that is made inside the test: the type checker of the tests draws random numbers."""

    kind: Any
    settings: dict[str, Any]

    def made(self) -> Any:
        return self.kind(
            **{name: part.made() if isinstance(part, Later) else part for name, part in self.settings.items()}
        )


def lazily(kind: Any, **settings: st.SearchStrategy[Any]) -> st.SearchStrategy[Later]:
    return st.builds(Later, st.just(kind), st.fixed_dictionaries(settings))


def or_rule(one: Visibility, other: Visibility) -> Visibility:
    return one | other


def and_rule(one: Visibility, other: Visibility) -> Visibility:
    return one & other


counts = st.integers(0, 6)
sizes = st.integers(1, 7)
windows = lazily(window, left=counts, right=counts)
past_chunks = st.one_of(st.integers(0, 3), st.just(math.inf))
chunks = lazily(chunk, size=sizes, left=past_chunks, right=st.integers(0, 1))
gaps = lazily(dilated, left=counts, right=st.integers(0, 2), step=sizes)
rules = st.one_of(
    windows,
    chunks,
    gaps,
    lazily(causal),
    lazily(block, size=sizes),
    lazily(neighbourhood, columns=st.just(3), reach=st.integers(0, 2)),
    lazily(or_rule, one=windows, other=chunks),
    lazily(and_rule, one=chunks, other=gaps),
)
attentions = st.one_of(
    lazily(
        AttentionConfig,
        visibility=rules,
        score=st.sampled_from([ScaledDot(), AdditiveConfig(), CosineConfig(), GeneralConfig(), ShawRelativeConfig()]),
        normaliser=st.sampled_from([Softmax(), Softmax(temperature=0.5), Sparsemax(), Entmax(), ReLU(), HardConfig()]),
        bias=st.sampled_from([None, AlibiConfig(), GaussianConfig(sigma=3.0), RelativeBucketsConfig()]),
        transforms=st.sampled_from([(), (Rotary(),), (QKNormConfig(), Rotary(layout="halves"))]),
    ),
    st.sampled_from([LocalBlockConfig(block=5), LongformerConfig(window=6)]),
)
positions = st.sampled_from(
    [SinusoidalConfig(), LearnedConfig(max_length=LONGEST), NoneConfig(), IndexConfig(), BinaryConfig()]
)
blocks = lazily(
    BlockConfig,
    model_dim=st.just(8),
    num_heads=st.just(2),
    feedforward_dim=st.just(12),
    norm=st.sampled_from(["pre", "post"]),
    bias=st.booleans(),
    encoder_attention=attentions,
)
layers = st.integers(1, 3)
transformers = lazily(TransformerEncoderConfig, block=blocks, num_layers=layers, position=positions)
others = st.one_of(
    lazily(CNNEncoderConfig, hidden_dim=st.just(5), width=st.sampled_from([1, 3, 5]), num_layers=layers),
    lazily(WindowEncoderConfig, window=counts, hidden_dim=st.just(5), num_layers=layers),
    lazily(
        RNNEncoderConfig,
        cell=st.sampled_from(["rnn", "lstm", "gru", "lecture_gru"]),
        hidden_dim=st.just(5),
        bidirectional=st.just(False),
        num_layers=layers,
        skip=st.booleans(),
        layer_norm=st.booleans(),
    ),
)
cuts = st.lists(st.integers(0, 17), min_size=1, max_size=12).filter(lambda pieces: sum(pieces) < LONGEST)


def built(config: EncoderConfig, dtype: torch.dtype) -> Encoder:
    torch.manual_seed(0)
    return config.build_for(WIDTH).to(dtype).eval()


def whole(encoder: Encoder, x: Tensor) -> Tensor:
    y: Tensor = encoder(x, packing=Packing(torch.tensor([len(x)]), len(x)))
    return y


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, TIGHT), (torch.float32, SINGLE)])
@torch.no_grad()
def test_a_stream_in_pieces_of_any_size_gives_what_the_whole_gives(dtype: torch.dtype, tolerance: float) -> None:
    @settings(max_examples=30)
    @given(config=st.one_of(transformers, transformers, others), pieces=cuts)
    def holds(config: Later, pieces: list[int]) -> None:
        encoder, x = built(config.made(), dtype), torch.randn(1 + sum(pieces), WIDTH, dtype=dtype)
        pieces = [*pieces, 1]
        streamed = torch.cat(list(encoder.stream().run(x.split(pieces))))
        torch.testing.assert_close(streamed, whole(encoder, x), rtol=tolerance, atol=tolerance)

    holds()


@settings(max_examples=30)
@given(config=st.one_of(transformers, others), frame=st.integers(0, 30))
@torch.no_grad()
def test_an_output_comes_with_the_frame_that_it_waits_for_and_not_later(config: Later, frame: int) -> None:
    stream = built(config.made(), torch.float64).stream()
    awaited = int(stream.awaited(torch.tensor([frame])))
    assert frame <= awaited <= frame + stream.look_ahead
    state, emitted = stream.begin(), 0
    for number in range(awaited + 1):
        assert emitted <= frame  # as long as frames are missing
        state, y = stream.advance(state, torch.randn(1, WIDTH, dtype=torch.float64), last=False)
        emitted += len(y)
        assert emitted <= frame or number == awaited
    assert emitted > frame


@settings(max_examples=30)
@given(config=st.one_of(transformers, others), seed=st.integers(0, 99))
@torch.no_grad()
def test_an_output_that_was_given_depends_on_no_later_frame(config: Later, seed: int) -> None:
    """`look_ahead` is not too small: frames after it are replaced, in the whole sequence."""
    encoder, generator = built(config.made(), torch.float64), torch.Generator().manual_seed(seed)
    x = torch.randn(40, WIDTH, dtype=torch.float64, generator=generator)
    frame = int(torch.randint(40, (1,), generator=generator))
    other = x.clone()
    other[int(encoder.stream().awaited(torch.tensor([frame]))) + 1 :] = 7.0
    torch.testing.assert_close(whole(encoder, x)[frame], whole(encoder, other)[frame], rtol=TIGHT, atol=TIGHT)


@pytest.mark.parametrize(
    "rule", [window(left=7, right=2), chunk(5, left=2), chunk(4, left=1, right=1), dilated(left=3, right=1, step=4)]
)
@pytest.mark.parametrize("piece", [1, 3, 16])
@torch.no_grad()
def test_the_memory_of_a_state_does_not_grow_with_the_frames_that_passed(rule: Visibility, piece: int) -> None:
    attention = AttentionConfig(visibility=rule, transforms=(Rotary(),))
    block = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12, encoder_attention=attention)
    config = RecogniserConfig(encoder=TransformerEncoderConfig(block=block, num_layers=2), decoder=None)
    stream, used = config.build(Vectors(WIDTH), 5).eval().stream(), list[int]()
    state = stream.begin()
    for _ in range(480 // piece):
        state, _y = stream.advance(state, torch.randn(piece, WIDTH), last=False)
        used.append(held(state))
    # Chunks and pieces beat against each other: within 60 frames, after those that fill the state.
    assert max(used) <= max(used[: len(used) // 2])


@torch.no_grad()
def test_a_piece_of_many_frames_leaves_a_small_state() -> None:
    rule = window(left=4, right=2)
    attention = AttentionConfig(visibility=rule)
    config = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12, encoder_attention=attention)
    stream = TransformerEncoderConfig(block=config, num_layers=2).build_for(WIDTH).eval().stream()
    few, _ = stream.advance(stream.begin(), torch.randn(20, WIDTH), last=False)
    many, _ = stream.advance(stream.begin(), torch.randn(2000, WIDTH), last=False)
    assert held(few) == held(many)


@given(config=transformers)
@settings(max_examples=20)
@torch.no_grad()
def test_recording_does_not_change_a_stream_and_a_state_may_be_used_twice(config: Later) -> None:
    encoder, x = built(config.made(), torch.float64), torch.randn(20, WIDTH, dtype=torch.float64)
    stream = encoder.stream()
    state, _ = stream.advance(stream.begin(), x[:11], last=False)
    once = stream.advance(state, x[11:], last=True)[1]
    with record(encoder):
        again = stream.advance(state, x[11:], last=True)[1]
    assert torch.equal(once, again)


def held(state: Any) -> int:
    """Bytes of the memory that the tensors of a state hold, with what they are views of."""
    return sum({part.untyped_storage().data_ptr(): part.untyped_storage().nbytes() for part in tensors(state)}.values())


def tensors(state: Any) -> Iterator[Tensor]:
    if isinstance(state, Tensor):
        if state.numel():
            yield state
    elif isinstance(state, tuple):
        for part in state:
            yield from tensors(part)
    elif is_dataclass(state):
        for field in fields(state):
            yield from tensors(getattr(state, field.name))


def test_streams_are_streams() -> None:
    assert isinstance(CNNEncoderConfig().build_for(3).eval().stream(), Stream)


factors, widths = st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 3, 5])
subsamplings = st.one_of(
    lazily(SubsamplingConfig, factor=factors, width=widths),
    lazily(PlaneSubsamplingConfig, factor=factors, maps=st.just(2), width=widths),
    lazily(PyramidConfig, factor=factors, cell=st.sampled_from(["lstm", "gru"]), bidirectional=st.just(False)),
)
recognisers = lazily(
    RecogniserConfig, subsampling=subsamplings, encoder=st.one_of(transformers, others), decoder=st.none()
)


@settings(max_examples=20)
@given(config=recognisers, pieces=cuts)
@torch.no_grad()
def test_a_recogniser_gives_in_pieces_what_it_gives_for_the_whole_recording(config: Later, pieces: list[int]) -> None:
    torch.manual_seed(0)
    model = config.made().build(Vectors(WIDTH), 5).double().eval()
    x = torch.randn(1 + sum(pieces), WIDTH, dtype=torch.float64)
    log_probabilities, _ = model.ctc(Batch.of([x.numpy()]))
    stream = model.stream()
    streamed = torch.cat(list(stream.run(x.split([*pieces, 1]))))
    assert stream.stride == model.stride
    torch.testing.assert_close(streamed, log_probabilities[0], rtol=1e-5, atol=1e-5)
    # The frames of a batch are float32, so that the tight comparison is with the layers.
    packing = Packing(torch.tensor([len(x)]), len(x))
    shorter, after = model.subsampling(x, packing=packing)
    exact = model.ctc_output(model.encoder(shorter, packing=after)).log_softmax(-1)
    torch.testing.assert_close(streamed, exact, rtol=TIGHT, atol=TIGHT)
