"""Numpy's translator gives what torch's gives: logits, hypotheses in any search, alignments. Else it says why not."""

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from foveate.config import to_dict
from foveate.data.batch import Batch
from foveate.decode import decode
from foveate.light.light_search import CloseError, search
from foveate.light.light_transformer import LightTransformer, Product
from foveate.light.weight import NotSupportedError
from foveate.models import Transformer, TransformerConfig
from foveate.nn.position_vector import LearnedConfig, SinusoidalConfig
from foveate.nn.transformer_block import BlockConfig
from foveate.search import Average, BeamConfig, DecodeConfig, GreedyConfig, Hypothesis, SampleConfig, Wu, beam_size
from foveate.tasks.translate.light_translator import LightTranslator
from foveate.tasks.translate.use import Translator

LOGIT = 1e-5  # absolute, of logits of size 1: rounding of float32 sums
LOG_PROBABILITY = 5e-5  # absolute, of log-probabilities of whole sentences, down to −60
WEIGHT = 2e-6
END = 2
BLOCK = BlockConfig(model_dim=32, num_heads=4, feedforward_dim=48)
DESIGNS = {
    "pre-norm": TransformerConfig(block=replace(BLOCK, norm="pre"), encoder_layers=2, decoder_layers=2),
    "post-norm, nothing shared, output bias": TransformerConfig(block=BLOCK, share="none", output_bias=True),
    "all shared, no biases, silu, blocks of sines": TransformerConfig(
        block=replace(BLOCK, bias=False, norm="pre", activation="silu"),
        position=SinusoidalConfig(layout="blocks", base=100.0),
        share="all",
        decoder_layers=1,
    ),
}
SEARCHES: dict[str, DecodeConfig] = {
    "greedy": GreedyConfig(),
    "greedy, short, no repeats": GreedyConfig(max_length=7, min_length=3, no_repeat_ngram=2, forbid=(0, 1, 5)),
    "beam": BeamConfig(num_best=4),
    "no penalty": BeamConfig(beam=3, num_best=2, length_penalty=None),
    "Wu, all constraints": BeamConfig(
        beam=5, num_best=5, length_penalty=Wu(), max_length=9, min_length=2, no_repeat_ngram=2
    ),
    "half an average, wide": BeamConfig(beam=12, length_penalty=Average(alpha=0.5)),
}


def pair(config: TransformerConfig, vocab: int = 40) -> tuple[Transformer, LightTransformer]:
    """A random model whose sentences end, in torch and in numpy."""
    torch.manual_seed(3)
    model = config.build(vocab, vocab).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        hidden = model.hidden(Batch.of([[5, 9, END]]), Batch.of([[1, 7, 30, 4, END]])).mean(0)
        often = 1.5 if config.output_bias else 2.0  # so that some hypotheses end and others reach their limit
        model.output_table[END] = often * hidden * (model.output_table @ hidden).max() / hidden.square().sum()
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    if config.share == "all":
        weights.pop("source_embedding.weight")
    return model, LightTransformer(table(config), weights, vocab, vocab)


def table(config: TransformerConfig) -> dict[str, Any]:
    """The configuration as a run's `config.json` has it."""
    return dict(json.loads(json.dumps({"kind": "transformer", **to_dict(config)})))


def sources(count: int, vocab: int = 40) -> list[list[int]]:
    generator = torch.Generator().manual_seed(7)
    lengths = torch.randint(1, 12, (count,), generator=generator).tolist()
    return [[*torch.randint(4, vocab, (length,), generator=generator).tolist(), END] for length in lengths]


@torch.inference_mode()
def by_torch(model: Transformer, source: Sequence[int], limit: int, config: DecodeConfig) -> list[Hypothesis]:
    state = model.start(Batch.of([source]), beam_size(config))
    return decode(model, state, sentences=1, config=config, max_length=limit)[0]


@pytest.fixture(scope="module", params=DESIGNS, ids=DESIGNS.get)
def models(request: pytest.FixtureRequest) -> tuple[Transformer, LightTransformer]:
    return pair(DESIGNS[request.param])


@torch.inference_mode()
def test_logits_of_every_step_are_those_of_a_teacher_forced_pass(models: tuple[Transformer, LightTransformer]) -> None:
    model, light = models
    for source in sources(4):
        target = [1, 7, 30, 4, 4, 19]
        expected = model(Batch.of([source]), Batch.of([[*target, END]]))
        state = light.start(source, rows=2)
        for time, token in enumerate(target):
            state, logits = light.step(state.select([1, 0]), [token, token])
            assert np.abs(logits - expected[time].numpy()).max() < LOGIT


@pytest.mark.parametrize("config", SEARCHES.values(), ids=SEARCHES.keys())
def test_hypotheses_are_those_of_torch(config: DecodeConfig, models: tuple[Transformer, LightTransformer]) -> None:
    model, light = models
    close = 0
    for source in sources(6):
        limit = min(2 * len(source) + 10, config.max_length)
        expected = by_torch(model, source, limit, config)
        try:
            hypotheses = search(light, source, limit, config)
        except CloseError:
            close += 1
            continue
        assert [(one.tokens, one.finished) for one in hypotheses] == [(one.tokens, one.finished) for one in expected]
        for ours, theirs in zip(hypotheses, expected, strict=True):
            assert ours.log_probability == pytest.approx(theirs.log_probability, abs=LOG_PROBABILITY)
            assert ours.score == pytest.approx(theirs.score, abs=LOG_PROBABILITY)
    assert close < 3


def test_hypotheses_end_and_are_cut_in_these_laws(models: tuple[Transformer, LightTransformer]) -> None:
    """Otherwise the law above says nothing of one of them."""
    model, _ = models
    config = BeamConfig(num_best=4, max_length=9)
    finished = [one.finished for source in sources(6) for one in by_torch(model, source, 9, config)]
    assert {True, False} == set(finished)


def test_a_tie_is_left_to_torch_unless_it_is_told_to_decide() -> None:
    """Two tokens have one embedding, so that hypotheses come in pairs of equal scores."""
    _, light = pair(DESIGNS["pre-norm"])
    light.logits.weight[20] = light.logits.weight[21] = 2 * np.abs(light.logits.weight).max(0)
    light.logits.weight[20:22] *= np.sign(light.step(light.start([5, END]), [1])[1] @ light.logits.weight)
    for config in (GreedyConfig(), BeamConfig()):
        with pytest.raises(CloseError, match="rounding"):
            search(light, [5, END], 6, config)
        tokens = search(light, [5, END], 6, config, close=0.0)[0].tokens
        assert 20 in tokens  # of equal values the first
        assert 21 not in tokens


class Rough(LightTransformer):
    """A model whose logits depend on all tokens so far, and on noise."""

    def __init__(self, seed: int, noise: float) -> None:
        self.seed, self.noise = seed, noise
        self.logits = Product(np.zeros((7, 1), np.float32), None)

    def start(self, source: list[int], rows: int = 1) -> Any:
        return Histories([()] * rows)

    def step(self, state: Any, tokens: list[int]) -> Any:
        histories = Histories((*history, token) for history, token in zip(state, tokens, strict=True))
        return histories, np.stack([self.row(history) for history in histories])

    def row(self, history: tuple[int, ...]) -> Any:
        draw = np.random.default_rng([self.seed, *history])
        logits = 1.5 * draw.normal(size=7) + self.noise * draw.uniform(-1, 1, 7)
        logits[END] += 1
        return logits.astype(np.float32)


class Histories(list[tuple[int, ...]]):
    def select(self, rows: list[int]) -> "Histories":
        return Histories(self[row] for row in rows)


def test_noise_changes_no_hypothesis_but_by_decisions_that_are_refused() -> None:
    """Noise stands for the rounding of torch, much enlarged so that it often decides."""
    designs = (
        GreedyConfig(),
        BeamConfig(beam=2),
        BeamConfig(beam=3, num_best=3, length_penalty=None),
        BeamConfig(beam=2, num_best=2, length_penalty=Wu(), min_length=1),
    )
    answered = refused = 0
    for seed in range(1600):
        config = designs[seed % 4]
        noisy = [one.tokens for one in search(Rough(seed, 0.03), [3], 4, config, close=0.0)]
        try:
            tokens = [one.tokens for one in search(Rough(seed, 0.0), [3], 4, config, close=0.12)]
        except CloseError:
            tokens = [one.tokens for one in search(Rough(seed, 0.0), [3], 4, config, close=0.0)]
            refused += tokens != noisy
            continue
        assert tokens == noisy, (seed, config)
        answered += 1
    assert answered > 400
    assert refused > 40


@pytest.mark.parametrize(
    ("first", "limit"),
    [
        ([-20, -20, 0, 0.01, -9, -12, -15], 4),
        ([-20, -20, 2, 0, -0.01, -20, -20], 1),
    ],
    ids=["the order of complete hypotheses", "the last of those that the limit completes"],
)
def test_each_close_decision_is_refused(first: list[float], limit: int) -> None:
    class Chosen(Rough):
        def row(self, history: tuple[int, ...]) -> Any:
            return np.array(first if len(history) == 1 else [-20, -20, 9, -3, -6, -9, -12], np.float32)

    config = BeamConfig(beam=2, num_best=2, length_penalty=None)
    assert len(search(Chosen(0, 0.0), [3], limit, config, close=0.0)) == 2
    with pytest.raises(CloseError):
        search(Chosen(0, 0.0), [3], limit, config, close=0.12)


def test_other_models_are_refused() -> None:
    biased = {**to_dict(BLOCK)["encoder_attention"], "bias": {"kind": "alibi"}}
    windowed = {**to_dict(BLOCK)["encoder_attention"], "visibility": "window(2, 0)"}
    learned = {"kind": "learned", **to_dict(LearnedConfig(max_length=9))}
    others: dict[str, Callable[[dict[str, Any]], object]] = {
        "not a Transformer": lambda table: table.update(kind="luong"),
        "settings of blocks": lambda table: table.update(position="sinusoidal"),
        "the base": lambda table: table["position"].update(base=0),
        "heads, widths": lambda table: table["block"].update(num_heads=7),
        "other settings": lambda table: table.update(novelty=1),
        "gelu": lambda table: table["block"].update(activation="gelu"),
        "cross_attention": lambda table: table["block"].update(cross_attention=biased),
        "decoder_attention": lambda table: table["block"].update(decoder_attention=windowed),
        "not sinusoidal": lambda table: table.update(position=learned),
        "target_position": lambda table: table.update(target_position={"kind": "none"}),
        "encoder is": lambda table: table.update(encoder={"kind": "ran"}),
        "decoder.1": lambda table: table.update(decoder_layers=1),
        "decoder.2": lambda table: table.update(decoder_layers=3),
        "the shape": lambda table: table["block"].update(feedforward_dim=40),
    }
    model, _ = pair(DESIGNS["pre-norm"])
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    for reason, change in others.items():
        changed = table(DESIGNS["pre-norm"])
        change(changed)
        with pytest.raises(NotSupportedError, match=reason):
            LightTransformer(changed, weights, 40, 40)


def test_settings_without_a_choice_and_broken_weights_are_left_to_torch() -> None:
    _, light = pair(DESIGNS["pre-norm"])
    for config in (
        SampleConfig(),
        GreedyConfig(min_length=6),
        GreedyConfig(forbid=(40,)),
        GreedyConfig(forbid=tuple(range(40))),
    ):
        with pytest.raises(NotSupportedError):
            search(light, [5, END], 6, config)
    light.logits.weight[9] = np.nan
    with pytest.raises(NotSupportedError, match="not numbers"):
        search(light, [5, END], 6, GreedyConfig())


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Sentences of everyday words, an empty text, and characters that have no piece."""
    everyday = Path(__file__).parents[2] / "examples" / "english_french" / "everyday.json"
    nouns = [noun for noun, _ in json.loads(everyday.read_text(encoding="utf-8"))["nouns"]][:13]
    patterns = ("The {} is behind the {}.", "Is my {} near this {}?", "{} and {}", "I bought a {} and 12 {}s!")
    pairs = zip(nouns, nouns[5:], strict=False)
    sentences = [patterns[number % 4].format(*pair) for number, pair in enumerate(pairs)]
    return [*sentences, "", "  ", "œ 漢字 \u0301e", "A b c d."]


def test_the_shipped_model_translates_and_aligns_alike(texts: list[str]) -> None:
    torches, lights = Translator.load("en-fr"), LightTranslator.load("en-fr")
    assert (lights.config, lights.head) == (torches.config, torches.head)
    left = 0
    for config in (None, replace(torches.config, num_best=4, length_penalty=Wu())):
        for expected in torches.translate(texts if config is None else texts[:4], config=config):
            try:
                translation = lights.translate(expected.source, config=config)
            except CloseError:
                left += 1
                continue
            assert (translation.texts, translation.finished) == (expected.texts, expected.finished)
            if translation.hypotheses and config is None:
                ours, theirs = lights.align([translation])[0], torches.align(expected)
                assert (ours.source, ours.target) == (theirs.source, theirs.target)
                assert np.abs(ours.weights - theirs.weights).max() < WEIGHT
    assert left <= 4


def test_nothing_warns(texts: list[str]) -> None:
    """A sentence that is longer than any, and one token."""
    lights = LightTranslator.load("en-fr", close=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not lights.translate("a " * 40, config=BeamConfig(max_length=12)).finished
        lights.translate("a", config=BeamConfig(beam=1))
        _, large = pair(DESIGNS["all shared, no biases, silu, blocks of sines"])
        large.decoder[0][0].expand.weight[:] *= 1e4  # beyond what exp represents
        search(large, [5, END], 6, GreedyConfig(), close=0.0)
        large.crossings([5, END], [1, 7])


def test_the_work_of_a_command_grows_with_its_own_beam() -> None:
    light = LightTranslator.load("en-fr")
    narrow, wide = (light.work(["The cat sleeps."], BeamConfig(beam=beam)) for beam in (1, 64))
    assert wide == 64 * narrow > 0
