"""Every model decodes in flight what it decodes alone: encoder–decoders with their sources, language models after their
prompts, with every kind of positions, and with the kernel, whose slots are taken again.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from foveate.attention import (
    AlibiConfig,
    AttentionConfig,
    LocalMonotonicConfig,
    RelativeBucketsConfig,
    Rotary,
    ShawRelativeConfig,
    window,
)
from foveate.attention.efficient import LinearConfig
from foveate.data.batch import Batch
from foveate.decode import BeamConfig, DecodeConfig, Flight, GreedyConfig, Limits, SampleConfig, beam_size, decode
from foveate.decode.seat import kernels
from foveate.errors import UsageError
from foveate.machine.memory import Reserve, resident
from foveate.models import BahdanauConfig, FixedContextConfig, LlamaConfig, LuongConfig, TransformerConfig
from foveate.models.gpt import GPTConfig
from foveate.models.ran_language_model import RANLanguageModelConfig
from foveate.models.recurrent_language_model import RecurrentLanguageModelConfig
from foveate.nn import BlockConfig, LearnedConfig, NoneConfig, SinusoidalConfig
from foveate.nn.precision import Precision, set_precision
from foveate.nn.prepared import decoder_run

VOCAB, SENTENCES, LONGEST = 40, 9, 18
"""Longer than the room with which a past begins."""
GREEDY = GreedyConfig(max_length=LONGEST)
SAMPLE = SampleConfig(max_length=LONGEST, temperature=1.5)
BEAM = BeamConfig(max_length=LONGEST, beam=3)
SMALL = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12, norm="pre")
KERNEL = BlockConfig(model_dim=32, num_heads=2, feedforward_dim=48)
RECURRENT = {"embedding_dim": 6, "hidden_dim": 8}


def attending(attention: Any, position: Any = NoneConfig()) -> TransformerConfig:
    block = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12, decoder_attention=attention)
    return TransformerConfig(block=block, encoder_layers=1, decoder_layers=2, position=position)


ENCODER_DECODERS: dict[str, Any] = {
    "kernel, sinusoidal": TransformerConfig(block=KERNEL, encoder_layers=1, decoder_layers=2),
    "kernel, learned": TransformerConfig(
        block=KERNEL, encoder_layers=1, decoder_layers=1, position=LearnedConfig(max_length=60)
    ),
    "sinusoidal": attending(AttentionConfig(), SinusoidalConfig()),
    "rotary": attending(AttentionConfig(transforms=(Rotary(),))),
    "alibi": attending(AttentionConfig(bias=AlibiConfig())),
    "buckets": attending(AttentionConfig(bias=RelativeBucketsConfig())),
    "shaw": attending(AttentionConfig(score=ShawRelativeConfig())),
    "window": attending(AttentionConfig(visibility=window(left=3, right=0)), SinusoidalConfig()),
    "linear": attending(LinearConfig(), SinusoidalConfig()),
    "bahdanau": BahdanauConfig(**RECURRENT, maxout_dim=4),
    "luong": LuongConfig(**RECURRENT),
    "luong monotonic": LuongConfig(**RECURRENT, attention=LocalMonotonicConfig(window=2)),
    "fixed": FixedContextConfig(**RECURRENT),
}
LANGUAGE_MODELS: dict[str, Any] = {
    "gpt": GPTConfig(block=SMALL, num_layers=2, position=LearnedConfig(max_length=60)),
    "llama": LlamaConfig(model_dim=8, num_heads=4, num_kv_heads=2, feedforward_dim=12, num_layers=2, max_length=60),
    "lstm": RecurrentLanguageModelConfig(**RECURRENT),
}


def journeys(models: dict[str, Any], *thorough: str) -> list[Any]:
    """Beam search with all models, the other searches with some."""
    pairs = [(name, BEAM) for name in models] + [(name, config) for name in thorough for config in (GREEDY, SAMPLE)]
    return [pytest.param(name, config, id=f"{name} {type(config).__name__}") for name, config in pairs]


def built(config: Any, *vocabularies: int, dtype: torch.dtype) -> Any:
    torch.manual_seed(2)
    model = config.build(*vocabularies).to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def sentences() -> list[list[int]]:
    draw = random.Random(5)
    return [[draw.randrange(3, VOCAB) for _ in range(draw.choice((1, 3, 6, 19)))] for _ in range(SENTENCES)]


def limits_of(sentence: int, config: DecodeConfig, begin: int | None) -> Limits:
    seed = sentence % 3 if isinstance(config, SampleConfig) else None
    return Limits(max_length=(5, 9, LONGEST)[sentence % 3], seed=seed, example=sentence, begin=begin)


def fly(
    model: Any,
    start: Callable[..., Any],
    sources: Sequence[list[int]],
    limits: list[Limits],
    config: DecodeConfig,
    native: Callable[..., Any] | None = None,
) -> dict[int, Any]:
    """All sentences but those that are dropped, through a flight with few slots."""
    draw = random.Random(7)
    flight, arrived = Flight[list[int]](model, start, config, capacity=4, gather=2, patience=2, native=native), {}
    order = list(range(SENTENCES))
    draw.shuffle(order)
    while order or flight.waiting or flight.flying:
        part, order = order[:3], order[3:]
        flight.admit(part, [sources[each] for each in part], [limits[each] for each in part])
        for _ in range(draw.randrange(1, 7)):
            arrived |= {arrival.name: arrival.hypotheses[0] for arrival in flight.tick(draw.choice((1, 1, 5)))}
        if part and draw.random() < 0.5:
            flight.drop([part[0]])
    return arrived


def require_alone(
    model: Any,
    start: Callable[..., Any],
    sources: list[list[int]],
    config: DecodeConfig,
    begins: list[int | None],
    native: Callable[..., Any] | None = None,
) -> None:
    limits = [limits_of(each, config, begin) for each, begin in enumerate(begins)]
    arrived = fly(model, start, sources, limits, config, native)
    assert SENTENCES / 2 < len(arrived) < SENTENCES
    for sentence, best in arrived.items():
        own: Any = limits[sentence]
        alone = type(config)(**{**vars(config), "seed": own.seed}) if isinstance(config, SampleConfig) else config
        options = {} if own.begin is None else {"begin": own.begin}
        with torch.no_grad():
            state = start([sources[sentence]], beam_size(config))
            [[expected, *_]] = decode(
                model, state, sentences=1, config=alone, max_length=own.max_length, examples=[sentence], **options
            )
        assert best.tokens == expected.tokens
        assert best.finished == expected.finished
        assert best.score == pytest.approx(expected.score, rel=1e-4 if model_dtype(model) == torch.float32 else 1e-6)


def model_dtype(model: Any) -> torch.dtype:
    return next(model.parameters()).dtype


@pytest.mark.parametrize(("name", "config"), journeys(ENCODER_DECODERS, "kernel, sinusoidal", "sinusoidal"))
def test_an_encoder_decoder_writes_in_flight_what_it_writes_alone(name: str, config: DecodeConfig) -> None:
    dtype = torch.float32 if name.startswith("kernel") else torch.float64
    model = built(ENCODER_DECODERS[name], VOCAB, VOCAB, dtype=dtype)

    def start(sources: Sequence[list[int]], beam: int) -> Any:
        return model.start(Batch.of([[*source, 2] for source in sources]), beam)

    require_alone(model, start, sentences(), config, [None] * SENTENCES)


IN_C: dict[str, Any] = {
    "sinusoidal": {},
    "learned": {"position": LearnedConfig(max_length=70), "share": "none", "output_bias": True},
    "pre-norm": {"block": replace(KERNEL, norm="pre", model_dim=48, num_heads=3)},
}


needs_a_compiler = pytest.mark.skipif(kernels() is None, reason="no compiler")


@needs_a_compiler
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("name", IN_C)
@pytest.mark.parametrize("config", [BEAM, GREEDY, BeamConfig(beam=2, num_best=2, min_length=3)], ids=str)
def test_steps_in_c_write_what_is_written_alone_to_the_bit(
    name: str, config: DecodeConfig, precision: Precision
) -> None:
    """To the bit, with sources and hypotheses beyond the room of slots at first, in seats that are taken again."""
    settings = {"block": KERNEL, "encoder_layers": 1, "decoder_layers": 2, **IN_C[name]}
    model = built(TransformerConfig(**settings), VOCAB, VOCAB, dtype=torch.float32)
    set_precision(model, precision)
    draw, runs = random.Random(3), list[Any]()
    lengths = [3, 1, 6, 67, *draw.choices((1, 3, 6, 67), k=10)]  # long ones come while others are in flight
    sources = [[draw.randrange(3, VOCAB) for _ in range(length)] + [2] for length in lengths]
    limits = [Limits(max_length=(5, 9, 70)[number % 3]) for number in range(len(sources))]

    def native(*places: Any) -> Any:
        runs.append(model.begin_flight(*places))
        return runs[-1]

    wide = replace(config, max_length=70)
    flight, arrived = Flight[list[int]](model, model.start, wide, capacity=5, gather=1, native=native), {}
    for number, source in enumerate(sources):
        flight.admit([number], [source], [limits[number]])
        for _ in range(draw.randrange(4)):
            arrived |= {arrival.name: arrival.hypotheses for arrival in flight.tick(draw.choice((1, 3)))}
        if number in (4, 9):
            flight.drop([number])
    while flight.waiting or flight.flying:
        arrived |= {arrival.name: arrival.hypotheses for arrival in flight.tick(4)}
    assert None not in runs
    assert len(arrived) >= len(sources) - 2
    for number, hypotheses in arrived.items():
        with torch.no_grad():
            state = model.start(Batch.of([sources[number]]), beam_size(wide))
            alone = decode(model, state, sentences=1, config=wide, max_length=limits[number].max_length)
        assert hypotheses == alone[0]


@needs_a_compiler
@pytest.mark.parametrize("steps", range(1, 9))
def test_memory_that_grows_after_any_number_of_steps_leaves_hypotheses_as_they_are(steps: int) -> None:
    """The kernel has two tables of rows in turns."""
    model = built(ENCODER_DECODERS["kernel, sinusoidal"], VOCAB, VOCAB, dtype=torch.float32)
    config, draw = BeamConfig(max_length=30, beam=8, num_best=8), random.Random(6)
    sources = [[draw.randrange(3, VOCAB) for _ in range(length)] + [2] for length in (3, 4, 5, 6, 7, 600)]
    flight, arrived = Flight[list[int]](model, model.start, config, capacity=6, gather=1, native=model.begin_flight), {}
    flight.admit(range(5), sources[:5])
    for _ in range(steps):
        arrived |= {arrival.name: arrival.hypotheses for arrival in flight.tick()}
    assert flight._run is not None
    cells = len(flight._run.memory[0].key)
    flight.admit([5], sources[5:])
    arrived |= {arrival.name: arrival.hypotheses for arrival in flight.tick()}
    assert len(flight._run.memory[0].key) > cells
    while flight.flying:
        arrived |= {arrival.name: arrival.hypotheses for arrival in flight.tick()}
    for number, source in enumerate(sources):
        with torch.no_grad():
            [alone] = decode(model, model.start(Batch.of([source]), 8), sentences=1, config=config)
        assert arrived[number] == alone


@needs_a_compiler
def test_a_flight_in_c_goes_on_with_new_weights_and_gives_back_what_it_grew_by() -> None:
    model = built(ENCODER_DECODERS["kernel, sinusoidal"], VOCAB, VOCAB, dtype=torch.float32)
    with torch.no_grad():
        run = model.begin_flight(3, 2)
        assert model.begin_flight(3, 2, run) is run
        for weight in (model.source_embedding.weight, model.encoder[0].feedforward.expand.weight):
            weight.mul_(2.0)
        later = model.begin_flight(3, 2, run)
        assert later is not run
        later.require_room(65)
        assert model.begin_flight(3, 2, later) is not later
    assert model.begin_flight(3, 2) is None  # with gradients


@needs_a_compiler
@pytest.mark.parametrize("way", ["land", "drop"])
def test_memory_of_long_sources_is_released_when_nothing_is_in_flight(way: str) -> None:
    model = built(ENCODER_DECODERS["kernel, sinusoidal"], VOCAB, VOCAB, dtype=torch.float32)
    flight = Flight[list[int]](model, model.start, GREEDY, gather=1, native=model.begin_flight)
    for length, stays in ((20, True), (200, False)):
        flight.admit(["source"], [[5] * length])
        flight.tick()
        assert flight._run is not None
        while way == "land" and flight.flying:
            flight.tick()
        flight.drop(["source"])
        assert (flight._run is not None) == stays


@needs_a_compiler
@pytest.mark.parametrize("config", [GREEDY, BEAM], ids=str)
def test_memory_in_flight_is_bounded_and_long_sentences_wait_for_it(
    config: DecodeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = built(ENCODER_DECODERS["kernel, sinusoidal"], VOCAB, VOCAB, dtype=torch.float32)
    cell, beam = 2 * 32 * 4 * 2, beam_size(config)  # keys and values of two layers
    monkeypatch.setattr(decoder_run, "MEMORY", 400 * cell)
    monkeypatch.setattr(decoder_run, "LARGEST", 100 * beam * cell)
    draw = random.Random(4)
    lengths = [3, 150, 150, 5, 150, 90, 2, 500, 7, 250, 160, *draw.choices((1, 3, 6, 200), k=10)]
    sources = [[draw.randrange(3, VOCAB) for _ in range(length)] + [2] for length in lengths]
    allowed = [Limits(max_length=draw.choice((5, 9, 60))) for _ in sources]
    wide = replace(config, max_length=60)
    flight, arrived = Flight[list[int]](model, model.start, wide, capacity=5, gather=1, native=model.begin_flight), {}
    flight.admit(range(len(sources)), sources, allowed)
    held, cells = 0, set[int]()
    while flight.waiting or flight.flying:
        complete = {arrival.name: arrival.hypotheses for arrival in flight.tick(3)}
        arrived |= complete
        there = [number for number in range(len(sources)) if number in flight._numbers.values() or number in complete]
        assert len(there) == 1 or sum(len(sources[number]) for number in there) <= 400
        assert len(there) * max(allowed[number].max_length or 0 for number in there) <= 100 or len(there) == 1
        held += flight.waiting > 0 and flight.flying < 5
        if flight._run is not None:
            cells.add(len(flight._run.memory[0].key))
    assert held  # or the bounds would not have been tested
    assert cells <= {5 * 64, 400, 501}
    for number, hypotheses in arrived.items():
        with torch.no_grad():
            state = model.start(Batch.of([sources[number]]), beam)
            [alone] = decode(model, state, sentences=1, config=wide, max_length=allowed[number].max_length)
        assert hypotheses == alone
    assert len(arrived) == len(sources)


@needs_a_compiler
def test_the_kernel_gives_back_what_many_tokens_have_needed() -> None:
    model = built(ENCODER_DECODERS["kernel, sinusoidal"], VOCAB, VOCAB, dtype=torch.float32)
    sources = [[5] * 60] * 2000  # 15 MB of vectors

    def memory(count: int) -> int:
        with torch.no_grad():
            model.begin_flight(count, 1).board(sources[:count], range(count))
        Reserve()  # gives free pages back to the system
        return resident()

    assert memory(10) + 8e6 > memory(2000)


@needs_a_compiler
@pytest.mark.parametrize("side", ["position", "target_position"])
def test_a_flight_in_c_goes_on_with_new_positions(side: str) -> None:
    model = built(ENCODER_DECODERS["kernel, learned"], VOCAB, VOCAB, dtype=torch.float32)
    with torch.no_grad():
        run = model.begin_flight(3, 2)
        getattr(model, side).weight.mul_(2.0)
        assert model.begin_flight(3, 2, run) is not run


@needs_a_compiler
def test_sources_outside_of_the_vocabulary_are_refused_and_nothing_changes() -> None:
    model = built(ENCODER_DECODERS["kernel, sinusoidal"], VOCAB, VOCAB, dtype=torch.float32)
    flight = Flight[list[int]](model, model.start, GREEDY, native=model.begin_flight)
    flight.admit(["wrong"], [[5, VOCAB, 2]])
    with pytest.raises(IndexError):
        flight.tick()
    assert (flight.waiting, flight.flying) == (1, 0)


@needs_a_compiler
def test_sources_longer_than_the_positions_are_refused_and_nothing_changes() -> None:
    model = built(ENCODER_DECODERS["kernel, learned"], VOCAB, VOCAB, dtype=torch.float32)
    flight = Flight[list[int]](model, model.start, GREEDY, gather=1, native=model.begin_flight)
    flight.admit(["longest"], [[5] * 60])
    flight.tick()
    flight.admit(["longer"], [[5] * 61])
    with pytest.raises(ValueError, match="61 tokens"):
        flight.tick()
    assert (flight.waiting, flight.flying) == (1, 1)


@pytest.mark.parametrize(("name", "config"), journeys(LANGUAGE_MODELS, "gpt"))
def test_a_language_model_goes_on_in_flight_as_alone(name: str, config: DecodeConfig) -> None:
    model, prompts = built(LANGUAGE_MODELS[name], VOCAB, dtype=torch.float64), sentences()

    def start(sources: Sequence[list[int]], beam: int) -> Any:
        return model.start(Batch.of([prompt[:-1] for prompt in sources]), beam)

    require_alone(model, start, prompts, config, [prompt[-1] for prompt in prompts])


def test_models_without_join_and_settings_of_other_searches_are_refused() -> None:
    ran = RANLanguageModelConfig(model_dim=8, num_heads=2, head_dim=4, window=5).build(VOCAB)
    with pytest.raises(UsageError, match="RANLanguageModel cannot decode batches in flight"):
        Flight(ran, lambda sources, beam: None, GreedyConfig())
    model = built(ENCODER_DECODERS["fixed"], VOCAB, VOCAB, dtype=torch.float64)
    flight = Flight[Any](model, model.start, GreedyConfig())
    flight.admit(["a"], [[5]])
    for limits, reason in (
        (Limits(seed=3), "only sampling has a seed"),
        (Limits(length_penalty=BeamConfig().length_penalty), "only beam search has a length penalty"),
        (Limits(max_length=0), "may have only 0 tokens"),
    ):
        with pytest.raises(UsageError, match=reason):
            flight.admit(["b"], [[5]], [limits])
    with pytest.raises(UsageError, match="already stand for sentences"):
        flight.admit(["a"], [[5]])
    assert (flight.waiting, flight.flying) == (1, 0)
