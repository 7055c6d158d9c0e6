"""What every model keeps to: padding and company do not matter, steps are the whole, the future is unseen.

All in float64, so that a difference is a mistake and not a rounding.
"""

import itertools
import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from foveate.attention import (
    AdditiveConfig,
    AlibiConfig,
    AnyMechanismConfig,
    Attention,
    AttentionConfig,
    CosineConfig,
    Dot,
    Entmax,
    GaussianConfig,
    GeneralConfig,
    HardConfig,
    LocalMonotonicConfig,
    LocalPredictiveConfig,
    Location,
    LocationAwareConfig,
    LocationConfig,
    QKNormConfig,
    RelativeBucketsConfig,
    ReLU,
    Rotary,
    ScaledDot,
    ShawRelativeConfig,
    Sigmoid,
    Softmax,
    Sparsemax,
    record,
)
from foveate.attention.efficient import (
    BigbirdConfig,
    LinearConfig,
    LinformerConfig,
    LocalBlockConfig,
    LongformerConfig,
    PerformerConfig,
    ReformerConfig,
    SinkhornConfig,
    SparseConfig,
    SynthesizerConfig,
)
from foveate.data.batch import Batch
from foveate.decode import BeamConfig, GreedyConfig, Hypothesis, beam_size, decode
from foveate.models import (
    BahdanauConfig,
    CaptionerConfig,
    FixedContextConfig,
    GazeConfig,
    LuongConfig,
    ModelConfig,
    RecogniserConfig,
    Seq2Seq,
    SpellerConfig,
    Transformer,
    TransformerConfig,
    TransformerSpellerConfig,
)
from foveate.nn import (
    BinaryConfig,
    BlockConfig,
    CNNEncoderConfig,
    IndexConfig,
    LearnedConfig,
    RANConfig,
    RNNEncoderConfig,
    RNNMadeConfig,
    SinusoidalConfig,
    SubsamplingConfig,
    TransformerEncoderConfig,
    UnitIntervalConfig,
)
from foveate.nn.loss import cross_entropy
from foveate.nn.past import ROOM_STEP

VOCAB = 13
SOURCES = [[5, 6, 7, 8, 2], [9, 2], [4, 4, 10, 2], [11, 12, 3, 4, 5, 6, 2]]
TARGETS = [[1, 6, 5, 2], [1, 7, 8, 9, 10, 11, 2], [1, 2], [1, 3, 3, 4, 2]]
PARTIAL = ("window", "block", "bucket")
"""Parts of rules under which some query may see nothing."""
SITES = ("encoder_attention", "decoder_attention", "cross_attention")
SAME = {"atol": 1e-11, "rtol": 0}
"""float64: the order of sums may differ with the batch, nothing else."""


def fixed_contexts() -> Iterator[tuple[str, ModelConfig]]:
    for cell in ("rnn", "lstm", "gru", "lecture_gru"):
        yield f"fixed {cell}", FixedContextConfig(embedding_dim=6, hidden_dim=8, cell=cell)
    yield (
        "fixed deep",
        FixedContextConfig(
            embedding_dim=6, hidden_dim=8, num_layers=3, bidirectional=False, skip=True, layer_norm=True
        ),
    )


def bahdanaus() -> Iterator[tuple[str, ModelConfig]]:
    scores = {"additive": AdditiveConfig(hidden_dim=5), "general": GeneralConfig()}
    cells = ("gru", "lecture_gru", "lstm")
    for (name, score), cell, layers in itertools.product(scores.items(), cells, (1, 2)):
        config = BahdanauConfig(
            embedding_dim=6,
            hidden_dim=7,
            encoder_layers=layers,
            maxout_dim=4,
            cell=cell,
            attention=AttentionConfig(score=score),
        )
        yield f"bahdanau {name} {cell} {layers}", config


def luongs() -> Iterator[tuple[str, ModelConfig]]:
    scores = {"dot": Dot(), "scaled": ScaledDot(), "general": GeneralConfig(), "additive": AdditiveConfig()}
    stacks = ((1, False), (1, True), (2, False), (2, True))
    for (name, score), feeding, (layers, bidirectional) in itertools.product(scores.items(), (True, False), stacks):
        if name == "scaled" and layers > 1:  # differs from "dot" by a number only
            continue
        config = LuongConfig(
            embedding_dim=6,
            hidden_dim=8,
            num_layers=layers,
            bidirectional=bidirectional,
            attention=AttentionConfig(score=score),
            input_feeding=feeding,
            skip=layers > 1,
            layer_norm=layers > 1,
            cell="lstm" if bidirectional else "gru",
        )
        words = [name, "fed" if feeding else "parallel", str(layers), "both ways" if bidirectional else "forwards"]
        yield f"luong {' '.join(words)}", config


def transformers() -> Iterator[tuple[str, ModelConfig]]:
    positions = {"sinusoidal": SinusoidalConfig(), "learned": LearnedConfig(max_length=40)}
    axes = (("pre", "post"), positions.items(), ("none", "output", "all"))
    for norm, (name, position), share in itertools.product(*axes):
        block = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12, norm=norm)
        config = TransformerConfig(
            block=block, encoder_layers=2, decoder_layers=2, position=position, share=share, output_bias=share == "all"
        )
        yield f"transformer {norm} {name} {share}", config
    attention = AttentionConfig(score=GeneralConfig())
    sites = dict.fromkeys(("encoder_attention", "decoder_attention", "cross_attention"), attention)
    general = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12, **sites)
    yield "transformer general", TransformerConfig(block=general, encoder_layers=1, decoder_layers=1)


def efficient() -> dict[str, dict[str, AnyMechanismConfig]]:
    """Other formulas, where each may stand. A decoder's own sees all of the few words that are tested for influence."""
    linformer = LinformerConfig(max_length=40, projected_length=3)
    return {
        "linear": dict.fromkeys(SITES, LinearConfig()),
        "performer": dict.fromkeys(SITES, PerformerConfig(num_features=8)),
        "linformer": {"encoder_attention": linformer, "cross_attention": linformer},
        "reformer": {
            "encoder_attention": ReformerConfig(buckets=4, rounds=2, chunk=2),
            "decoder_attention": ReformerConfig(buckets=1, rounds=1, chunk=3),
        },
        "sinkhorn": dict.fromkeys(SITES[:2], SinkhornConfig(block=3)),
        "synthesizer": {
            "encoder_attention": SynthesizerConfig(form="factorised", max_length=40, rank=3),
            "decoder_attention": SynthesizerConfig(form="dense", max_length=40),
        },
        "synthesizer random": dict.fromkeys(SITES[:2], SynthesizerConfig(form="random", max_length=40)),
        "local_block sparse": {
            "encoder_attention": LocalBlockConfig(block=3),
            "decoder_attention": SparseConfig(block=6),
        },
        "bigbird longformer": {
            "encoder_attention": BigbirdConfig(block=2, window=1, random=1),
            "decoder_attention": LongformerConfig(window=12),
        },
    }


def mechanisms() -> Iterator[tuple[str, ModelConfig]]:
    """Every part of the algebra in some model, and every mechanism."""
    aware = LocationAwareConfig(hidden_dim=5, channels=2, width=3)
    parts = {
        "location_aware": AttentionConfig(score=aware),
        "location": AttentionConfig(score=LocationConfig(max_length=40)),
        "sharp": AttentionConfig(score=AdditiveConfig(hidden_dim=5), normaliser=Softmax(temperature=0.5)),
        "hard": AttentionConfig(score=GeneralConfig(), normaliser=HardConfig(mode="straight_through")),
    }
    for name, attention in parts.items():
        yield (
            f"bahdanau {name}",
            BahdanauConfig(embedding_dim=6, hidden_dim=7, maxout_dim=4, attention=attention),
        )
    local = {
        "location_aware": AttentionConfig(score=aware),
        "local_monotonic": LocalMonotonicConfig(window=2),
        "local_predictive": LocalPredictiveConfig(window=2),
        "local_predictive renormalised": LocalPredictiveConfig(window=2, score=Dot(), renormalise=True),
        "relu": AttentionConfig(score=AdditiveConfig(), normaliser=ReLU()),
        "sparsemax": AttentionConfig(score=CosineConfig(beta=3.0, learned=True), normaliser=Sparsemax()),
        "sigmoid": AttentionConfig(score=GeneralConfig(), normaliser=Sigmoid(bias=-1.0)),
    }
    for (name, mechanism), feeding in itertools.product(local.items(), (True, False)):
        yield (
            f"luong {name} {'fed' if feeding else 'parallel'}",
            LuongConfig(embedding_dim=6, hidden_dim=8, attention=mechanism, input_feeding=feeding),
        )
    sites: dict[str, dict[str, AnyMechanismConfig]] = {
        "alibi entmax": {
            "encoder_attention": AttentionConfig(bias=AlibiConfig(), normaliser=Entmax(alpha=1.3)),
            "decoder_attention": AttentionConfig(bias=AlibiConfig()),
            "cross_attention": AttentionConfig(score=CosineConfig(beta=4.0), normaliser=ReLU(normalised=False)),
        },
        "buckets": {
            "encoder_attention": AttentionConfig(bias=RelativeBucketsConfig(num_buckets=8, max_distance=6)),
            "decoder_attention": AttentionConfig(
                bias=RelativeBucketsConfig(num_buckets=4, max_distance=6, bidirectional=False)
            ),
            "cross_attention": LocalPredictiveConfig(window=3),
        },
        "shaw": {
            "encoder_attention": AttentionConfig(score=ShawRelativeConfig(radius=2)),
            "decoder_attention": AttentionConfig(score=ShawRelativeConfig(radius=3)),
            "cross_attention": AttentionConfig(score=LocationConfig(max_length=40), bias=GaussianConfig(sigma=2.0)),
        },
        "rotary qk_norm": {
            "encoder_attention": AttentionConfig(transforms=(Rotary(), QKNormConfig(norm="rms"))),
            "decoder_attention": AttentionConfig(transforms=(QKNormConfig(norm="l2"), Rotary(dims=2, layout="halves"))),
            "cross_attention": AttentionConfig(transforms=(QKNormConfig(norm="layer"),), normaliser=Sparsemax()),
        },
    }
    sites |= efficient()
    for name, attentions in sites.items():
        block = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12, **attentions)
        yield f"transformer {name}", TransformerConfig(block=block, encoder_layers=1, decoder_layers=1)
    block = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12)
    small = {"block": block, "encoder_layers": 1, "decoder_layers": 1}
    yield (
        "transformer unit_interval binary",
        TransformerConfig(position=UnitIntervalConfig(), target_position=BinaryConfig(), **small),
    )
    yield (
        "transformer rnn_made index",
        TransformerConfig(position=RNNMadeConfig(), target_position=IndexConfig(), **small),
    )
    ran = RANConfig(num_heads=2, head_dim=4, window=3)
    yield "transformer ran", TransformerConfig(block=block, encoder=ran, decoder_layers=1)


def recognisers() -> Iterator[tuple[str, RecogniserConfig]]:
    """Decoders of recognisers, over outputs for one or several inputs."""
    aware = AttentionConfig(score=LocationAwareConfig(hidden_dim=5, channels=2, width=3))
    sharp = AttentionConfig(score=AdditiveConfig(hidden_dim=5), normaliser=Softmax(temperature=0.5))
    block = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12, norm="pre")
    small = {"embedding_dim": 6, "hidden_dim": 8}
    decoders: dict[str, SpellerConfig | TransformerSpellerConfig] = {
        "location_aware": SpellerConfig(**small, attention=aware),
        "location_aware parallel": SpellerConfig(**small, attention=aware, context_feeding=False),
        "sharp": SpellerConfig(**small, attention=sharp, num_layers=2, cell="gru"),
        "local": SpellerConfig(**small, attention=LocalMonotonicConfig(window=2)),
        "heads": SpellerConfig(**small, attention=AttentionConfig(), num_heads=2),
        "heads parallel": SpellerConfig(**small, attention=AttentionConfig(), num_heads=2, context_feeding=False),
        "transformer": TransformerSpellerConfig(block=block, num_layers=2),
    }
    encoders = {
        1: TransformerEncoderConfig(block=block, num_layers=1),
        2: RNNEncoderConfig(hidden_dim=4, cell="lstm"),
        4: CNNEncoderConfig(hidden_dim=6),
    }
    for number, (name, decoder) in enumerate(decoders.items()):
        factor = list(encoders)[number % 3]
        yield (
            f"recogniser {name}",
            RecogniserConfig(
                subsampling=SubsamplingConfig(factor=factor, hidden_dim=6),
                encoder=encoders[factor],
                decoder=decoder,
                ctc_weight=0.0,
                embedding_dim=6,
            ),
        )


def captioners() -> Iterator[tuple[str, CaptionerConfig]]:
    """Decoders of captioners, over encoders of patches."""
    aware = AttentionConfig(score=LocationAwareConfig(hidden_dim=5, channels=2, width=3))
    drawn = HardConfig(mode="sample", expectation=0.5, entropy_weight=0.01)
    block = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12, norm="pre")
    small = {"embedding_dim": 6, "hidden_dim": 8}
    decoders = {
        "soft": GazeConfig(**small),
        "gru without a gate": GazeConfig(**small, cell="gru", gate=False),
        "hard": GazeConfig(**small, attention=AttentionConfig(score=AdditiveConfig(), normaliser=drawn)),
        "location_aware": GazeConfig(**small, attention=aware),
        "without attention": GazeConfig(**small, attention=None),
        "recurrent": SpellerConfig(**small, attention=AttentionConfig(score=AdditiveConfig())),
        "transformer": TransformerSpellerConfig(block=block, num_layers=2),
    }
    encoder = TransformerEncoderConfig(block=block, num_layers=1)
    for name, decoder in decoders.items():
        yield f"captioner {name}", CaptionerConfig(encoder=encoder, decoder=decoder, embedding_dim=6)


CONFIGS: dict[str, ModelConfig | RecogniserConfig | CaptionerConfig] = dict(
    itertools.chain(fixed_contexts(), bahdanaus(), luongs(), transformers(), mechanisms(), recognisers(), captioners())
)
TRANSFORMERS = [name for name in CONFIGS if name.startswith("transformer")]
DECODED = [
    "fixed gru",
    "fixed deep",
    "bahdanau additive gru 1",
    "bahdanau additive lstm 1",
    "bahdanau general lecture_gru 2",
    "luong dot fed 2 both ways",
    "luong dot parallel 1 forwards",
    "luong general fed 1 forwards",
    "luong general parallel 2 both ways",
    "luong additive fed 1 both ways",
    "luong additive parallel 2 forwards",
    "transformer pre sinusoidal output",
    "transformer pre learned all",
    "transformer post sinusoidal all",
    "transformer post learned none",
    "transformer general",
    *(name for name, _ in mechanisms()),
    *(name for name, _ in recognisers()),
    *(name for name, _ in captioners()),
]
"""Every architecture with every state it can carry; what stepping and selecting cannot tell apart is left out."""


@pytest.fixture(params=DECODED)
def decoder(request: pytest.FixtureRequest) -> Seq2Seq:
    return built(request.param)


@pytest.fixture(params=CONFIGS)
def model(request: pytest.FixtureRequest) -> Seq2Seq:
    return built(request.param)


def built(name: str) -> Seq2Seq:
    torch.manual_seed(7)
    model = CONFIGS[name].build(VOCAB, VOCAB).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # far enough from zero for every part to matter
            parameter.mul_(1.5).add_(0.1 * torch.randn_like(parameter))
    return model


def padded(rows: list[list[int]], factor: int, garbage: int = 7) -> Batch:
    """The batch with `factor` times the padding needed, filled with a word like any other."""
    batch = Batch.of(rows)
    ids = torch.full((batch.size, factor * batch.length), garbage)
    real = torch.arange(batch.length) < batch.lengths[:, None]
    ids[:, : batch.length] = torch.where(real, batch.ids, garbage)
    return Batch(ids, batch.lengths)


@torch.no_grad()
def teacher_forced(model: Seq2Seq, sources: list[list[int]], targets: list[list[int]]) -> list[Tensor]:
    logits = model(Batch.of(sources), Batch.of(targets))
    return list(logits.split([len(target) - 1 for target in targets]))


@torch.no_grad()
def test_an_example_alone_is_the_example_in_a_batch(model: Seq2Seq) -> None:
    together = teacher_forced(model, SOURCES, TARGETS)
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        (alone,) = teacher_forced(model, [source], [target])
        torch.testing.assert_close(alone, together[row], **SAME)


@torch.no_grad()
def test_padding_does_not_matter_however_much_and_whatever_it_holds(model: Seq2Seq) -> None:
    logits = model(Batch.of(SOURCES), Batch.of(TARGETS))
    torch.testing.assert_close(model(padded(SOURCES, 4), padded(TARGETS, 4)), logits, **SAME)


def test_forward_predicts_the_tokens_that_predicted_names(model: Seq2Seq) -> None:
    target = Batch.of(TARGETS)
    expected = [token for row in TARGETS for token in row[1:]]
    assert model.predicted(target).tolist() == expected
    assert model(Batch.of(SOURCES), target).shape == (len(expected), VOCAB)


@torch.no_grad()
def test_step_by_step_is_teacher_forced(model: Seq2Seq) -> None:
    expected = teacher_forced(model, SOURCES, TARGETS)
    target = Batch.of(TARGETS)
    state = model.start(padded(SOURCES, 2))
    for time in range(target.length - 1):
        state, logits = model.step(state, target.ids[:, time])
        for row, rows in enumerate(expected):
            if time < len(rows):
                torch.testing.assert_close(logits[row], rows[time], **SAME)


@torch.no_grad()
def test_selected_rows_go_on_as_if_they_had_been_alone(model: Seq2Seq) -> None:
    """Hypotheses are reordered and repeated inside a sentence, sentences are dropped, twice."""
    beam = 3
    source, words = Batch.of(SOURCES), torch.randint(3, VOCAB, (len(SOURCES) * beam, 2))
    state = model.start(source, beam)
    for word in words.unbind(1):
        state, _ = model.step(state, word)
    rows = torch.tensor([[2, 0, 0], [5, 4, 3], [11, 11, 9]])  # hypotheses of sentences 0, 1 and 3
    state, logits = model.step(model.select(state, rows.flatten()), torch.arange(3, 12))
    again = torch.tensor([[3, 3, 5], [6, 8, 7]])  # then of sentences 1 and 3 alone
    state, logits = model.step(model.select(state, again.flatten()), torch.arange(4, 10))

    for row in range(6):
        middle = int(again.flatten()[row])
        first = int(rows.flatten()[middle])
        history = [*words[first].tolist(), 3 + middle, 4 + row]
        (fresh,) = teacher_forced(model, [SOURCES[first // beam]], [[*history, 2]])
        torch.testing.assert_close(logits[row], fresh[-1], **SAME)


@torch.no_grad()
def test_a_selection_leaves_the_state_it_was_made_from_as_it_was(decoder: Seq2Seq) -> None:
    state = decoder.start(Batch.of(SOURCES))
    state, _ = decoder.step(state, torch.tensor([1, 1, 1, 1]))
    copy = decoder.select(state, torch.tensor([0, 1, 2, 3]))
    decoder.step(copy, torch.tensor([9, 9, 9, 9]))
    _, logits = decoder.step(state, torch.tensor([5, 6, 7, 8]))
    for row, source in enumerate(SOURCES):
        (fresh,) = teacher_forced(decoder, [source], [[1, 5 + row, 2]])
        torch.testing.assert_close(logits[row], fresh[-1], **SAME)


@pytest.mark.parametrize("name", [name for name in DECODED if name in TRANSFORMERS])
@torch.no_grad()
def test_a_grown_cache_gives_the_results_of_no_cache(name: str) -> None:
    model = built(name)
    words = [1, *torch.randint(3, VOCAB, (2 * ROOM_STEP + 3,)).tolist()]
    state = model.start(Batch.of(SOURCES[:1]))
    for time, word in enumerate(words):
        state, logits = model.step(state, torch.tensor([word]))
        if (time + 2) % ROOM_STEP > 2:  # compare on both sides of each growth
            continue
        (whole,) = teacher_forced(model, SOURCES[:1], [[*words[: time + 1], 2]])
        torch.testing.assert_close(logits[0], whole[-1], **SAME)


def test_no_logit_depends_on_a_later_word(model: Seq2Seq) -> None:
    target = TARGETS[1]
    calls = []

    def leaf(module: torch.nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        calls.append(output.detach().requires_grad_())
        return calls[-1]

    handle = model.target_embedding.register_forward_hook(leaf)
    logits = model(Batch.of(SOURCES[:1]), Batch.of([target]))
    handle.remove()
    embedded = calls[-1]  # where source and target share a matrix, the target is looked up last
    direction = torch.randn_like(logits)

    for time in range(len(target) - 1):
        (gradient,) = torch.autograd.grad((logits[time] * direction[time]).sum(), embedded, retain_graph=True)
        influence = gradient.view(len(target) - 1, -1).abs().sum(1)
        assert (influence[time + 1 :] == 0).all()
        assert (influence[: time + 1] > 0).all()


def test_gradients_are_finite_and_padding_gets_none(model: Seq2Seq) -> None:
    model.train()
    source, target = Batch.of(SOURCES), Batch.of(TARGETS)
    cross_entropy(model(source, target), model.predicted(target)).backward()
    for name, parameter in model.named_parameters():
        if _is_blind(model, name):
            continue
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    if model.source_embedding is not model.target_embedding:
        assert (model.source_embedding.weight.grad[0] == 0).all()
        assert (model.source_embedding.weight.grad[5] != 0).any()


def _is_blind(model: Seq2Seq, name: str) -> bool:
    """Whether this is a projection of keys that location-based attention does not look at."""
    site, _, rest = name.partition(".key.")
    return bool(rest) and isinstance(getattr(model.get_submodule(site).attention, "score", None), Location)


@torch.no_grad()
def test_looking_does_not_change_the_logits_and_rows_sum_as_they_should(model: Seq2Seq) -> None:
    source, target = padded(SOURCES, 2), Batch.of(TARGETS)
    alone = model(source, target)
    with record(model) as seen:
        watched = model(source, target)
    assert torch.equal(alone, watched)
    for kept in seen:
        weights = kept.weights()
        assert (weights >= 0).all()
        total, attention = weights.sum(-1), model.get_submodule(kept.name)
        if isinstance(attention, Attention) and attention.reweight is not None:  # local-p as published
            assert (total <= 1 + 1e-6).all()
        elif not isinstance(attention, Attention) or attention.normaliser in (
            Sigmoid(bias=-1.0),
            ReLU(normalised=False),
        ):
            assert total.isfinite().all()
        elif attention.normaliser == ReLU() or any(part in str(attention.visibility) for part in PARTIAL):
            assert ((total - 1).abs().minimum(total) < 1e-6).all()
        else:
            torch.testing.assert_close(total, torch.ones_like(total), atol=1e-6, rtol=0)
    crossing = [kept.shape[2:] for kept in seen.of_kind("cross") if not kept.name.startswith("encoder")]
    assert set(crossing) <= {(target.length - 1, -(-source.length // getattr(model, "stride", 1)))}


@torch.no_grad()
def test_a_decoder_that_is_watched_step_by_step_shows_what_the_whole_shows(decoder: Seq2Seq) -> None:
    source, target = Batch.of(SOURCES), Batch.of(TARGETS)
    with record(decoder) as whole:
        decoder(source, target)
    state = decoder.start(source)
    plain, watched = decoder.start(source), []
    with record(decoder) as steps:
        for time in range(target.length - 1):
            state, logits = decoder.step(state, target.ids[:, time])
            watched.append(logits)
    for time in range(target.length - 1):
        plain, logits = decoder.step(plain, target.ids[:, time])
        assert torch.equal(logits, watched[time])
    assert len(steps) == len([kept for kept in whole if not kept.name.startswith("encoder")])
    for kept in steps:
        expected = whole[kept.name].weights()
        assert kept.weights().shape[:3] == expected.shape[:3]
        found = kept.weights()[..., : expected.shape[-1]]  # a cache has room for more
        for row, length in enumerate(target.lengths.tolist()):
            torch.testing.assert_close(found[row, :, : length - 1], expected[row, :, : length - 1], atol=1e-6, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize(
    "config",
    [GreedyConfig(max_length=12), BeamConfig(max_length=12, beam=3, num_best=3)],
    ids=["greedy", "beam"],
)
def test_decoding_depends_neither_on_the_batch_nor_on_padding(
    decoder: Seq2Seq, config: GreedyConfig | BeamConfig
) -> None:
    limits = torch.tensor([4, 7, 2, 5])

    def decoded(source: Batch, limits: Tensor) -> list[list[Hypothesis]]:
        state = decoder.start(source, beam_size(config))
        return decode(decoder, state, sentences=source.size, config=config, max_length=limits)

    together = decoded(Batch.of(SOURCES), limits)
    alone = [decoded(Batch.of([source]), limits[row : row + 1])[0] for row, source in enumerate(SOURCES)]
    reverse = decoded(Batch.of(SOURCES[::-1]), limits.flip(0))[::-1]
    for others in (alone, reverse, decoded(padded(SOURCES, 4), limits)):
        for one, other in zip(itertools.chain(*together), itertools.chain(*others), strict=True):
            assert one.tokens == other.tokens
            assert one.finished == other.finished
            assert math.isclose(one.score, other.score, rel_tol=1e-5)


@torch.no_grad()
def test_a_hypothesis_has_the_probability_that_the_model_gives_it(decoder: Seq2Seq) -> None:
    source, config = Batch.of(SOURCES), BeamConfig(max_length=8, beam=3, forbid=())
    best = decode(decoder, decoder.start(source, 3), sentences=source.size, config=config)
    for sentence, [hypothesis] in zip(SOURCES, best, strict=True):
        target = [1, *hypothesis.tokens, *([2] if hypothesis.finished else [])]
        (logits,) = teacher_forced(decoder, [sentence], [target])
        chosen = logits.log_softmax(-1).gather(1, torch.tensor(target[1:])[:, None])
        assert math.isclose(float(chosen.sum()), hypothesis.log_probability, rel_tol=1e-5)


def test_every_transformer_here_is_one() -> None:
    assert all(isinstance(built(name), Transformer) for name in TRANSFORMERS)
    assert len(CONFIGS) > 50
