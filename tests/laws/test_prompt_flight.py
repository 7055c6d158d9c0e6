"""In flight a prompt is continued as it is alone, whatever arrives, ends and is dropped beside it: every model, with
searches, lengths and ends of each prompt's own, and with long prompts that are read part by part.
"""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from foveate.attention import AlibiConfig, AttentionConfig, Rotary, window
from foveate.attention.efficient import LinearConfig
from foveate.data.batch import Batch
from foveate.decode import GreedyConfig, Hypothesis, Prompt, PromptFlight, SampleConfig, decode
from foveate.errors import DataError, UsageError
from foveate.models import LlamaConfig
from foveate.models.gpt import GPTConfig
from foveate.models.ran_language_model import RANLanguageModelConfig
from foveate.models.recurrent_language_model import RecurrentLanguageModelConfig
from foveate.nn import BlockConfig, LearnedConfig, NoneConfig

VOCAB = 300  # more than the head of a nucleus
SEARCHES: list[Any] = [
    GreedyConfig(),
    GreedyConfig(min_length=3, no_repeat_ngram=2),
    SampleConfig(seed=1),
    SampleConfig(seed=2, temperature=2.0, forbid=(5, 9)),
    SampleConfig(seed=3, top_k=7, temperature=1.5),
    SampleConfig(seed=4, top_p=0.9),
    SampleConfig(seed=5, top_k=40, top_p=0.8),
    SampleConfig(seed=6, top_p=0.99, temperature=3.0),  # wider than the head
]


def prompts(draw: Any, vocab: int, longest: int) -> list[Prompt]:
    """Six prompts of one token or more, with everything of their own."""
    made = []
    for _ in range(6):
        search, limit = draw(st.sampled_from(SEARCHES)), draw(st.integers(4, 18))
        made.append(
            Prompt(
                tokens=draw(st.lists(st.integers(0, vocab - 1), min_size=1, max_size=longest)),
                config=type(search)(**{**vars(search), "max_length": limit}),
                end=draw(st.sampled_from([2, 3])),
                example=draw(st.integers(0, 2)),
            )
        )
    return made


def alone(model: Any, prompt: Prompt) -> Hypothesis:
    """What `decode` gives."""
    [[best, *_]] = decode(
        model,
        model.start(Batch.of([prompt.tokens[:-1]])),
        sentences=1,
        config=prompt.config,
        begin=prompt.tokens[-1],
        end=prompt.end,
        examples=[prompt.example],
    )
    return best


def fly(draw: Any, flight: PromptFlight, every: list[Prompt]) -> dict[int, tuple[Hypothesis, list[int]]]:
    """All prompts but those that are dropped: the whole of each, and its tokens as they came."""
    order, dropped = draw(st.permutations(range(len(every)))), set[int]()
    tokens: dict[int, list[int]] = {number: [] for number in order}
    arrived: dict[int, tuple[Hypothesis, list[int]]] = {}
    while order or flight.waiting or flight.flying:
        count = draw(st.integers(1, 4))
        part, order = order[:count], order[count:]
        flight.admit(part, [every[number] for number in part])
        for _ in range(draw(st.integers(1, 5))):
            for each in flight.tick():
                number = int(str(each.name))
                assert number not in arrived
                assert number not in dropped
                tokens[number] += [] if each.token is None else [each.token]
                if each.complete is not None:
                    arrived[number] = each.complete, tokens[number]
            assert flight.flying <= flight.capacity
        unwanted = draw(st.lists(st.sampled_from(range(len(every))), max_size=1))
        flight.drop(unwanted)
        dropped |= set(unwanted) - set(order) - set(arrived)
    assert arrived.keys() == set(range(len(every))) - dropped
    return arrived


class Hashing:
    """A model whose logits depend on everything read so far, by integers, so that they are the same in any company."""

    def start(self, prompt: Batch) -> Tensor:
        state = torch.full((prompt.size,), 77)
        rows = [self.extend(state[:1], prompt.ids[row, :length][None]) for row, length in enumerate(prompt.lengths)]
        return torch.cat(rows)

    def extend(self, state: Tensor, ids: Tensor) -> Tensor:
        for token in ids.unbind(1):
            state = (state * 48271 + token * 16807 + 12345) % 1_000_003
        return state

    def step(self, state: Tensor, token: Tensor) -> tuple[Tensor, Tensor]:
        state = self.extend(state, token[:, None])
        logits = (state[:, None] * (torch.arange(VOCAB) + 17) % 1009 % 64).float() / 8
        logits[:, 2] += state % 3 * 4.0
        return state, logits

    def select(self, state: Tensor, rows: Tensor) -> Tensor:
        return state[rows]

    def join(self, state: Tensor, later: Tensor) -> Tensor:
        return torch.cat([state, later])


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_a_prompt_in_flight_is_continued_as_alone_to_the_bit(data):
    model, every = Hashing(), prompts(data.draw, VOCAB, 12)
    flight = PromptFlight(model, capacity=data.draw(st.sampled_from([1, 2, 5, 16])), chunk=data.draw(st.integers(1, 9)))
    for number, (best, tokens) in fly(data.draw, flight, every).items():
        expected = alone(model, every[number])
        assert (best.tokens, best.finished) == (expected.tokens, expected.finished)
        assert tuple(tokens) == best.tokens
        assert best.log_probability == pytest.approx(expected.log_probability, rel=1e-5, abs=1e-5)


SMALL = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12, norm="pre")


def gpt(attention: Any, position: Any = NoneConfig()) -> GPTConfig:
    block = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12, norm="pre", decoder_attention=attention)
    return GPTConfig(block=block, num_layers=2, position=position)


MODELS: dict[str, Any] = {
    "learned": GPTConfig(block=SMALL, num_layers=2, position=LearnedConfig(max_length=70)),
    "rotary": gpt(AttentionConfig(transforms=(Rotary(),))),
    "alibi": gpt(AttentionConfig(bias=AlibiConfig())),
    "window": gpt(AttentionConfig(visibility=window(left=3, right=0)), LearnedConfig(max_length=70)),
    "linear": gpt(LinearConfig()),
    "llama": LlamaConfig(model_dim=8, num_heads=4, num_kv_heads=2, feedforward_dim=12, num_layers=2, max_length=70),
    "lstm": RecurrentLanguageModelConfig(embedding_dim=6, hidden_dim=8),
    "ran": RANLanguageModelConfig(model_dim=8, num_heads=2, head_dim=4, window=5),
}


PREPARED = GPTConfig(
    block=BlockConfig(model_dim=32, num_heads=2, feedforward_dim=48, norm="pre", activation="gelu_tanh"),
    num_layers=2,
    position=LearnedConfig(max_length=70),
    tied=False,
)
"""Steps of this model are one kernel in float32."""


def built(config: Any, vocab: int, dtype: torch.dtype = torch.float64) -> Any:
    torch.manual_seed(2)
    model = config.build(vocab).to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_every_model_continues_in_flight_what_it_continues_alone(name, data):
    model, every = built(MODELS[name], 40), prompts(data.draw, 40, 45)
    capacity = 1 if name == "ran" else data.draw(st.sampled_from([2, 4, 16]))
    flight = PromptFlight(model, capacity=capacity, chunk=data.draw(st.sampled_from([4, 16, 64])))
    for number, (best, _) in fly(data.draw, flight, every).items():
        expected = alone(model, every[number])
        assert (best.tokens, best.finished) == (expected.tokens, expected.finished)
        assert best.log_probability == pytest.approx(expected.log_probability, rel=1e-4)


@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_steps_of_one_kernel_continue_in_flight_what_they_continue_alone(data):
    model, every = built(PREPARED, 40, torch.float32), prompts(data.draw, 40, 45)
    assert model.step_refusal() in ("", "the kernel is not compiled")
    capacity, chunk = data.draw(st.sampled_from([1, 2, 4, 16])), data.draw(st.sampled_from([4, 16, 64]))
    flight = PromptFlight(model, capacity=capacity, chunk=chunk)
    for number, (best, _) in fly(data.draw, flight, every).items():
        expected = alone(model, every[number])
        assert (best.tokens, best.finished) == (expected.tokens, expected.finished)
        assert best.log_probability == pytest.approx(expected.log_probability, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("search", SEARCHES[:1] + SEARCHES[-3:])
def test_numbers_that_are_none_end_the_text_that_has_them_and_no_other(dtype, search):
    model = built(PREPARED, 40, dtype)
    with torch.no_grad():
        model.embedding.weight[7] = torch.nan
        model.output_weight[7] = 0.0  # or all texts would write it sooner or later
    config = type(search)(**{**vars(search), "max_length": 12, "forbid": (7,)})
    every: dict[str, Prompt] = {name: Prompt(tokens=[5, 6], config=config, example=n) for n, name in enumerate("abc")}
    every |= {
        "damaged": Prompt(tokens=[5, 7, 6], config=config),
        "long and damaged": Prompt(tokens=[5, 7] * 9, config=config),
    }
    flight = PromptFlight(model, chunk=8)
    flight.admit(list(every), list(every.values()))
    complete, problems = dict[Any, Hypothesis](), dict[Any, Any]()
    while flight.waiting or flight.flying:
        for each in flight.tick():
            if each.complete is not None:
                complete[each.name] = each.complete
            if each.problem is not None:
                assert each.token is None
                problems[each.name] = each.problem
    assert problems.keys() == {"damaged", "long and damaged"}
    for problem in problems.values():
        assert isinstance(problem, DataError)
        assert "not numbers" in str(problem)
    for name in "abc":
        assert complete[name].tokens == alone(model, every[name]).tokens


class Counting(Hashing):
    """Counts the tokens that are read between two steps."""

    position_bytes = 8

    def __init__(self) -> None:
        self.read, self.most, self.rows = 0, 0, 0

    def start(self, prompt: Batch) -> Tensor:
        self.read += prompt.size * prompt.length
        return super().start(prompt)

    def extend(self, state: Tensor, ids: Tensor) -> Tensor:
        self.read += ids.numel() * (ids.shape[1] > 1)
        return super().extend(state, ids)

    def step(self, state: Tensor, token: Tensor) -> tuple[Tensor, Tensor]:
        self.most, self.read, self.rows = max(self.most, self.read), 0, max(self.rows, len(token))
        return super().step(state, token)


def test_long_prompts_are_read_in_parts_and_hold_up_nobody():
    model = Counting()
    flight = PromptFlight(model, chunk=10)
    config = GreedyConfig(max_length=200)
    flight.admit(["first"], [Prompt(tokens=[5], config=config, end=299)])
    flight.tick()
    flight.admit(["long", "longer"], [Prompt(tokens=[7] * size, config=config, end=299) for size in (95, 151)])
    flight.admit(["short"], [Prompt(tokens=[7] * 4, config=config, end=299)])
    assert {each.name for each in flight.tick()} == {"first", "short"}
    for _ in range(40):
        assert {"first", "short"} <= {each.name for each in flight.tick()}
    assert {each.name for each in flight.tick()} == {"first", "short", "long", "longer"}
    assert model.most <= 2 * 2 * 10  # `start` reads by `extend` here
    model.most = 0
    many = [Prompt(tokens=[7] * 6, config=config, end=299)] * 8
    flight.admit(range(8), many)
    while flight.waiting:
        flight.tick()
    assert model.most == 2 * 10, "two prompts in each tick"


def test_no_more_texts_are_in_flight_than_have_memory():
    model = Counting()
    flight = PromptFlight(model, memory=8 * 100)
    flight.admit(range(9), [Prompt(tokens=[5] * 6, config=GreedyConfig(max_length=20), end=299)] * 9)
    flight.admit(["large"], [Prompt(tokens=[5] * 6, config=GreedyConfig(max_length=200), end=299)])
    complete = set()
    while flight.waiting or flight.flying:
        complete |= {each.name for each in flight.tick() if each.complete}
    assert complete == {*range(9), "large"}
    assert model.rows == 4


def test_impossible_prompts_are_refused_and_leave_nothing_behind():
    model = built(MODELS["learned"], 40)
    flight, config = PromptFlight(model), GreedyConfig(max_length=9)
    flight.admit(["a"], [Prompt(tokens=[5], config=config)])
    for name, tokens, length, reason in (
        ("a", [5], 9, "already stand for others"),
        ("b", [], 9, "has no token"),
        ("b", [5] * 60, 12, "60 tokens and may get 12 more, but the model represents 70"),
    ):
        good = Prompt(tokens=[5], config=config)
        with pytest.raises(UsageError, match=reason):
            flight.admit(["c", name], [good, Prompt(tokens=tokens, config=GreedyConfig(max_length=length))])
    assert (flight.waiting, flight.flying) == (1, 0)
    ran = built(MODELS["ran"], 40)
    with pytest.raises(UsageError, match="RANLanguageModel cannot continue several texts in flight"):
        PromptFlight(ran)
