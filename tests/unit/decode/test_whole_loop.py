"""The loops without Python between two steps return what the loops in Python return, to the bit."""

import importlib
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.attention import record
from foveate.data.batch import Batch
from foveate.decode import Average, BeamConfig, DecodeConfig, GreedyConfig, Wu, decode, whole_loop
from foveate.decode.seat import Seats, kernels
from foveate.errors import DataError, UsageError
from foveate.interruption import interruptible
from foveate.models import Transformer, TransformerConfig
from foveate.nn import BlockConfig

greedy, beam = (importlib.import_module(f"foveate.decode.{name}") for name in ("greedy", "beam"))
VOCAB = 90


@pytest.fixture(autouse=True)
def _compiled() -> None:
    if kernels() is None:
        pytest.skip("no compiler")


def built(seed: int, *, end: float = 0.0, **settings: Any) -> Transformer:
    """A model whose end token is more probable by `end`."""
    torch.manual_seed(seed)
    block = BlockConfig(model_dim=32, num_heads=2, feedforward_dim=48)
    config = TransformerConfig(block=block, encoder_layers=1, decoder_layers=2, output_bias=True, **settings)
    model = config.build(VOCAB, VOCAB)
    with torch.no_grad():
        model.output_bias[2] += end
        model.output_weight if model.output_weight is None else model.output_weight.mul_(3.0)
        model.target_embedding.weight.mul_(3.0)
    return model.eval()


def sources(seed: int, sentences: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 9, (sentences,), generator=generator).tolist()
    return Batch.of([[*torch.randint(3, VOCAB, (length,), generator=generator).tolist(), 2] for length in lengths])


@torch.no_grad()
def decoded(model: Transformer, source: Batch, config: DecodeConfig, **options: object) -> list[object]:
    state = model.start(source, getattr(config, "beam", 1))
    return decode(model, state, sentences=source.size, config=config, **options)  # type: ignore[arg-type, return-value]


def by_both(model: Transformer, source: Batch, config: DecodeConfig, **options: object) -> tuple[object, object]:
    """The hypotheses of the loop, which must have computed them, and those of Python."""
    names = ((greedy, "greedy_loop"), (beam, "beam_loop"))
    with pytest.MonkeyPatch.context() as patch:
        loops = [Mock(wraps=getattr(module, name)) for module, name in names]
        for (module, name), own in zip(names, loops, strict=True):
            patch.setattr(module, name, lambda *parts, own=own: _required(own(*parts)))
        fast = decoded(model, source, config, **options)
        for module, name in names:
            patch.setattr(module, name, lambda *parts: None)
        patch.setattr(Seats, "serve", lambda *parts: False)
        return fast, decoded(model, source, config, **options)


def _required(hypotheses: object) -> object:
    assert hypotheses is not None, "the loop refused"
    return hypotheses


@settings(max_examples=25)
@given(
    seed=st.integers(0, 1000),
    sentences=st.integers(1, 7),
    end=st.sampled_from([0.0, 3.0, 6.0]),
    width=st.integers(1, 6),
    num_best=st.integers(1, 6),
    penalty=st.sampled_from([None, Average(), Wu(alpha=0.6)]),
    limits=st.lists(st.integers(1, 40), min_size=7, max_size=7),
    forbid=st.sampled_from([(0,), (0, 5, 6), ()]),
    shortest=st.sampled_from([0, 0, 3]),
)
def test_the_loops_return_the_hypotheses_of_python(
    seed: int,
    sentences: int,
    end: float,
    width: int,
    num_best: int,
    penalty: Average | Wu | None,
    limits: list[int],
    forbid: tuple[int, ...],
    shortest: int,
) -> None:
    model, source = built(seed, end=end), sources(seed, sentences)
    longest = torch.tensor(limits[:sentences]) + shortest
    common: dict[str, Any] = {"forbid": forbid, "min_length": shortest}
    best = BeamConfig(beam=width, num_best=min(width, num_best), length_penalty=penalty, **common)
    for config in (best, GreedyConfig(**common)):
        fast, slow = by_both(model, source, config, max_length=longest)
        assert fast == slow


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_the_loops_serve_every_precision(precision: str) -> None:
    model = built(3, end=4.0)
    model.use_int8() if precision == "int8" else model.bfloat16()
    for config in (GreedyConfig(), BeamConfig(beam=3)):
        fast, slow = by_both(model, sources(0, 20), config, max_length=30)
        assert fast == slow


def test_a_sentence_gets_what_it_gets_alone() -> None:
    model = built(1, end=4.0)
    rows = [[4, 5, 6, 2], [9, 2], [7, 8, 9, 10, 11, 2]]
    for config in (GreedyConfig(), BeamConfig(beam=3)):
        together = decoded(model, Batch.of(rows), config, max_length=30)
        assert together == [decoded(model, Batch.of([row]), config, max_length=30)[0] for row in rows]


def test_equal_scores_have_the_order_of_python() -> None:
    """Every token has a twin, so that hypotheses come in pairs."""
    model, ties = built(2, end=3.0), 0
    with torch.no_grad():
        for part in (model.target_embedding.weight, model.output_bias):
            part[46:89] = part[3:46]
    for penalty in (None, Average()):
        config = BeamConfig(beam=6, num_best=6, length_penalty=penalty)
        fast, slow = by_both(model, sources(4, 6), config, max_length=8)
        assert fast == slow
        ties += sum(len({each.score for each in hypotheses}) < len(hypotheses) for hypotheses in fast)  # type: ignore[attr-defined]
    assert ties > 6


def test_a_hypothesis_that_is_not_a_number_is_not_hidden_behind_others() -> None:
    """The last of the first tokens leads to logits that are differences of infinities, which are negative NaN."""
    model, source, config = built(1, share="none"), sources(0, 1), BeamConfig(beam=4, num_best=4)
    [hypotheses] = decoded(model, source, config, max_length=1)
    with torch.no_grad():
        model.target_embedding.weight[hypotheses[-1].tokens[0]] = torch.inf  # type: ignore[attr-defined]
    with pytest.raises(DataError, match="not numbers"):
        decoded(model, source, config, max_length=6)


@pytest.mark.parametrize("config", [GreedyConfig(), BeamConfig(beam=2)])
def test_errors_are_those_of_python(config: DecodeConfig) -> None:
    model = built(0)
    with torch.no_grad():
        model.output_bias[:] = torch.nan
    with pytest.raises(DataError, match="logits for sentence 0 are not numbers"):
        decoded(model, sources(0, 3), config)
    everything = type(config)(forbid=tuple(range(VOCAB)))
    with pytest.raises(UsageError, match="exclude every token of sentence 0"):
        decoded(built(0), sources(0, 3), everything)


@pytest.mark.parametrize("config", [GreedyConfig(), BeamConfig(beam=2)])
def test_every_step_asks_whether_to_go_on(config: DecodeConfig) -> None:
    questions = iter(range(100))

    def fourth() -> None:
        if next(questions) == 3:
            raise InterruptedError("nobody waits")

    with pytest.raises(InterruptedError, match="nobody waits"), interruptible(fourth):
        decoded(built(0), sources(0, 3), config, max_length=20)
    assert next(questions) == 4


@pytest.fixture
def refusals(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Whether each call of a loop refused."""
    answers: list[bool] = []
    own = whole_loop._run

    def run(*parts: object) -> object:
        results = own(*parts)  # type: ignore[arg-type]
        answers.append(results is None)
        return results

    monkeypatch.setattr(whole_loop, "_run", run)
    return answers  # type: ignore[return-value]


def test_other_constraints_and_recordings_are_left_to_python(refusals: list[bool]) -> None:
    model, source = built(0), sources(0, 2)
    for config in (BeamConfig(no_repeat_ngram=2), GreedyConfig(no_repeat_ngram=2)):
        decoded(model, source, config, max_length=6)
    decoded(model, source, GreedyConfig(), max_length=6, prefix=torch.tensor([[5], [6]]))
    with record(model) as recording:
        decoded(model, source, GreedyConfig(), max_length=6)
    assert recording.of_kind("cross")
    assert refusals == [True] * 4
    decoded(model, source, GreedyConfig(), max_length=6)
    assert refusals[-1] is False
