"""What a model writes scores the same when it is forced, whatever was switched off, exchanged or trained since it last
wrote: nothing that was prepared for writing outlives what it was made of.
"""

import copy
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.utils import parametrizations

from foveate import machine
from foveate.attention import AdditiveConfig, Alibi, Attention, AttentionConfig, Dot, Sparsemax, predicate
from foveate.data.batch import Batch
from foveate.decode import BeamConfig, GreedyConfig, SampleConfig, beam_size, decode
from foveate.export import onnx
from foveate.inspect.ablation import switched_off
from foveate.models import BahdanauConfig, LuongConfig, Transformer, TransformerConfig
from foveate.models.gpt import GPTConfig
from foveate.models.recurrent_language_model import RecurrentLanguageModelConfig
from foveate.nn import BlockConfig, LearnedConfig
from foveate.nn.prepared import flat_block

VOCAB = 29
SOURCES = [[5, 6, 7, 8, 9, 10, 2], [9, 12, 2], [4, 4, 10, 11, 2]]
TARGET = [1, 7, 8, 9, 10, 11, 6, 5, 4, 3, 14, 5]
BLOCK = BlockConfig(model_dim=32, num_heads=2, feedforward_dim=48)
CONFIGS = {
    "transformer": TransformerConfig(block=BLOCK, encoder_layers=1, decoder_layers=2),
    "transformer pre": TransformerConfig(
        block=replace(BLOCK, norm="pre"), encoder_layers=1, decoder_layers=2, share="none", output_bias=True
    ),
    "bahdanau": BahdanauConfig(embedding_dim=16, hidden_dim=16, maxout_dim=16),
    "luong": LuongConfig(embedding_dim=16, hidden_dim=16, attention=AttentionConfig(score=AdditiveConfig())),
}
TEXT_CONFIGS = {
    "gpt": GPTConfig(block=replace(BLOCK, norm="pre"), num_layers=2, position=LearnedConfig(max_length=40)),
    "gru": RecurrentLanguageModelConfig(embedding_dim=16, hidden_dim=16, cell="gru"),
}
CLOSE = {"atol": 2e-5, "rtol": 1e-4}
"""float32, where steps and whole sequences sum in another order."""

Change = Callable[[nn.Module], AbstractContextManager[None] | None]


def built(name: str) -> nn.Module:
    torch.manual_seed(3)
    model = CONFIGS[name].build(VOCAB, VOCAB) if name in CONFIGS else TEXT_CONFIGS[name].build(VOCAB)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5).add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def of_class(model: nn.Module, kind: type[nn.Module]) -> list[tuple[str, nn.Module]]:
    return [(name, module) for name, module in model.named_modules() if type(module) is kind]


def attentions(model: nn.Module) -> list[tuple[str, Attention]]:
    return [(name, module) for name, module in model.named_modules() if isinstance(module, Attention)]


def layers(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if isinstance(module, nn.Linear)]


# Each change returns None where it is made for good, and a context where it lasts for a while.


def heads_switched_off(model: nn.Module) -> AbstractContextManager[None]:
    return switched_off(model, heads=[(name, 0) for name, _ in attentions(model)])


def words_switched_off(model: nn.Module) -> AbstractContextManager[None]:
    return switched_off(model, keys=[0, 3], sites=[name for name, _ in attentions(model)])


def another_rule(model: nn.Module) -> None:
    for _, attention in attentions(model):
        attention.visibility = attention.visibility & predicate(lambda at: (at.key % 3 != 1) | (at.key == at.query))


def another_normaliser(model: nn.Module) -> None:
    for _, attention in attentions(model):
        attention.normaliser = Sparsemax()


def another_bias(model: nn.Module) -> None:
    for _, attention in attentions(model):
        attention.bias = Alibi(2) if attention.kind == "self" else (lambda at: -0.7 * (at.key % 2).float())


def another_score(model: nn.Module) -> None:
    for _, attention in attentions(model):
        if hasattr(attention.score, "factor"):
            attention.score = Dot()


class Doubled(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 2.0 * super().forward(x)


def another_class_of_layer(model: nn.Module) -> None:
    for module in list(model.modules()):
        for name, layer in list(module.named_children()):
            if isinstance(layer, nn.Linear):
                wrapped = Doubled(layer.in_features, layer.out_features, layer.bias is not None)
                wrapped.load_state_dict(layer.state_dict())
                setattr(module, name, wrapped.eval())


def hooked_layers(model: nn.Module) -> None:
    for layer in layers(model):
        layer.register_forward_hook(lambda module, inputs, output: 1.5 * output)


def hooked_norms_and_embeddings(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.LayerNorm | nn.Embedding):
            module.register_forward_hook(lambda module, inputs, output: 1.5 * output)


def parametrised_layers(model: nn.Module) -> None:
    for layer in layers(model):
        parametrizations.weight_norm(layer)
        with torch.no_grad():
            layer.parametrizations.weight.original0.mul_(1.5)


def layers_with_a_forward_of_their_own(model: nn.Module) -> None:
    for layer in layers(model):
        layer.forward = lambda x, layer=layer: nn.functional.linear(x, layer.weight, layer.bias) + 0.3


def other_norms(model: nn.Module) -> None:
    for module in list(model.modules()):
        for name, norm in list(module.named_children()):
            if isinstance(norm, nn.LayerNorm):
                setattr(module, name, nn.RMSNorm(norm.normalized_shape))


def plain_norms(model: nn.Module) -> None:
    for module in list(model.modules()):
        for name, norm in list(module.named_children()):
            if isinstance(norm, nn.LayerNorm):
                setattr(module, name, nn.LayerNorm(norm.normalized_shape, elementwise_affine=False))


def another_epsilon(model: nn.Module) -> None:
    for _, norm in of_class(model, nn.LayerNorm):
        norm.eps = 0.7


def another_activation_in_one_layer(model: nn.Module) -> None:
    last = [module for module in model.modules() if hasattr(module, "activation")][-1]
    last.activation = "silu"


def another_place_of_one_norm(model: nn.Module) -> None:
    last = [module for module in model.modules() if hasattr(module, "place")][-1]
    last.place = "pre" if last.place == "post" else "post"


def trained_for_a_step(model: nn.Module) -> None:
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    with torch.enable_grad():
        losses = model.loss(*inputs(model))
        losses.backward()
    optimiser.step()
    optimiser.zero_grad()


def trained_by_a_fused_kernel(model: nn.Module) -> None:
    """torch does not count what this kernel writes."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.05, fused=True)
    with torch.enable_grad():
        model.loss(*inputs(model)).backward()
    optimiser.step()
    optimiser.zero_grad()


def logits_of_its_own(model: nn.Module) -> None:
    logits = model.logits
    model.logits = lambda *values: 0.5 * logits(*values)


@contextmanager
def hooked_everywhere(model: nn.Module) -> Iterator[None]:
    def changed(module: nn.Module, values: object, output: Tensor) -> Tensor | None:
        return 1.5 * output if isinstance(module, nn.Linear) else None

    hook = register_module_forward_hook(changed)
    try:
        yield
    finally:
        hook.remove()


def written_into(model: nn.Module) -> None:
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(0.8)


def loaded_anew(model: nn.Module) -> None:
    model.load_state_dict({name: 0.9 * weight for name, weight in model.state_dict().items()})


def other_weights(model: nn.Module) -> None:
    for module in model.modules():
        for name, weight in list(module.named_parameters(recurse=False)):
            setattr(module, name, nn.Parameter(0.9 * weight.detach()))
    if isinstance(model, Transformer) and model.source_embedding.weight.shape == model.target_embedding.weight.shape:
        model.source_embedding = model.target_embedding


def other_data(model: nn.Module) -> None:
    for weight in model.parameters():
        weight.data = 0.9 * weight.data


def other_embedding(model: nn.Module) -> None:
    name = "target_embedding" if hasattr(model, "target_embedding") else "embedding"
    old = getattr(model, name)
    setattr(model, name, nn.Embedding.from_pretrained(0.5 * old.weight.detach(), freeze=False))


def in_another_precision(model: nn.Module) -> None:
    model.double()


CHANGES: list[Change] = [
    heads_switched_off,
    words_switched_off,
    another_rule,
    another_normaliser,
    another_bias,
    another_score,
    another_class_of_layer,
    hooked_layers,
    hooked_norms_and_embeddings,
    parametrised_layers,
    layers_with_a_forward_of_their_own,
    other_norms,
    plain_norms,
    another_epsilon,
    another_activation_in_one_layer,
    another_place_of_one_norm,
    trained_for_a_step,
    trained_by_a_fused_kernel,
    logits_of_its_own,
    hooked_everywhere,
    written_into,
    loaded_anew,
    other_weights,
    other_data,
    other_embedding,
    in_another_precision,
]
SILENT = {in_another_precision}
"""Changes of how a model computes, and not of what."""


def inputs(model: nn.Module) -> tuple[Batch, ...]:
    forced = Batch.of([TARGET] * len(SOURCES))
    return (Batch.of(SOURCES), forced) if hasattr(model, "target_embedding") else (forced,)


@torch.no_grad()
def forced(model: nn.Module) -> Tensor:
    """Logits after each word of the target."""
    logits = model(*inputs(model)).unflatten(0, (len(SOURCES), -1))
    return logits if hasattr(model, "target_embedding") else logits[:, :-1]


@torch.no_grad()
def stepped(model: nn.Module) -> Tensor:
    logits = []
    if hasattr(model, "target_embedding"):
        state = model.start(Batch.of(SOURCES))
    else:
        state = model.start(Batch(torch.empty(len(SOURCES), 0, dtype=torch.long), torch.zeros(len(SOURCES)).long()))
    for word in TARGET[:-1]:
        state, last = model.step(state, torch.full((len(SOURCES),), word))
        logits.append(last)
    return torch.stack(logits, 1)


def applies(change: Change, model: nn.Module) -> bool:
    """Whether a model has the part that a change is about."""
    needed = {
        heads_switched_off: attentions,
        words_switched_off: attentions,
        another_rule: attentions,
        another_normaliser: attentions,
        another_bias: attentions,
        another_score: lambda m: [a for _, a in attentions(m) if hasattr(a.score, "factor")],
        other_norms: lambda m: of_class(m, nn.LayerNorm),
        plain_norms: lambda m: of_class(m, nn.LayerNorm),
        another_epsilon: lambda m: of_class(m, nn.LayerNorm),
        another_activation_in_one_layer: lambda m: [x for x in m.modules() if hasattr(x, "activation")],
        logits_of_its_own: lambda m: [m] * hasattr(m, "logits"),
        another_place_of_one_norm: lambda m: [x for x in m.modules() if hasattr(x, "place")],
    }
    return bool(needed.get(change, layers)(model))


CASES = [
    pytest.param(name, change, id=f"{name}, {change.__name__.replace('_', ' ')}")
    for name in (*CONFIGS, *TEXT_CONFIGS)
    for change in CHANGES
    if applies(change, built(name))
]


@pytest.fixture(params=["kernel", "products", "packed"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """How a Transformer's steps are computed: in one kernel, in products, in products of packed weights."""
    if request.param != "kernel":
        monkeypatch.setattr(flat_block, "kernels", lambda: None)
        monkeypatch.setattr("foveate.nn.prepared.flat_step.kernels", lambda: None)
    before = machine.use(replace(machine.current(), packed_rows=1 if request.param == "packed" else 0))
    yield request.param
    machine.use(before)


@pytest.mark.parametrize(("name", "change"), CASES)
def test_after_any_change_steps_give_the_forced_logits(name: str, change: Change, way: str) -> None:
    model = built(name)
    before = forced(model)
    torch.testing.assert_close(stepped(model), before, **CLOSE)

    with change(model) or nullcontext():
        wanted = forced(model)
        torch.testing.assert_close(stepped(model), wanted, check_dtype=False, **CLOSE)
        if change not in SILENT:
            assert not torch.allclose(wanted, before, atol=1e-3), "the change changes nothing, and proves nothing"

    if change in (heads_switched_off, words_switched_off):
        assert torch.equal(stepped(model), stepped(built(name))), "what was switched off is on again"


@pytest.mark.parametrize("config", [GreedyConfig(), BeamConfig(beam=3, num_best=2), SampleConfig(seed=4)], ids=str)
@pytest.mark.parametrize("change", [heads_switched_off, words_switched_off, another_rule, trained_for_a_step])
@pytest.mark.parametrize("name", CONFIGS)
def test_what_is_written_after_a_change_scores_the_same_when_it_is_forced(name: str, change: Change, config) -> None:
    model = built(name)

    def written():
        with torch.no_grad():
            state = model.start(Batch.of(SOURCES), beam_size(config))
            return decode(model, state, sentences=len(SOURCES), config=replace(config, max_length=12))

    written()
    with change(model) or nullcontext():
        for source, hypotheses in zip(SOURCES, written(), strict=True):
            for hypothesis in hypotheses:
                words = [1, *hypothesis.tokens, *([2] if hypothesis.finished else [])]
                with torch.no_grad():
                    logits = model(Batch.of([source]), Batch.of([words]))
                each = logits.log_softmax(-1).gather(1, torch.tensor(words[1:])[:, None])
                assert each.sum().item() == pytest.approx(hypothesis.log_probability, abs=1e-3)


@pytest.mark.parametrize("change", [change for change in CHANGES if change not in SILENT], ids=lambda c: c.__name__)
@pytest.mark.parametrize("name", ["transformer", "transformer pre"])
def test_an_export_computes_what_was_changed_or_refuses(name: str, change: Change) -> None:
    model = built(name)
    with change(model) or nullcontext():
        if onnx.refusals(model):
            return
        engine, logits = onnx.onnx_engine(model), []
        state = engine.start(Batch.of(SOURCES))
        for word in TARGET[:-1]:
            state, last = engine.step(state, torch.full((len(SOURCES),), word))
            logits.append(last)
        torch.testing.assert_close(torch.stack(logits, 1), forced(model), atol=1e-4, rtol=1e-4)


def test_threads_that_decode_after_a_change_decode_with_the_new_weights() -> None:
    """None of them finds an origin that is new with a copy that is old."""
    model = built("transformer pre")

    def written(model: nn.Module) -> list[float]:
        with torch.no_grad():
            search = BeamConfig(beam=3, max_length=4)
            results = decode(model, model.start(Batch.of(SOURCES), 3), sentences=len(SOURCES), config=search)
        return [best.score for best, *_ in results]

    written(model)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(15):
            written_into(model)
            with ThreadPoolExecutor(4) as pool:
                results = list(pool.map(lambda _: written(model), range(4)))
            for result in (*results, written(model)):
                assert result == pytest.approx(written(copy.deepcopy(model)), rel=1e-4)
    finally:
        sys.setswitchinterval(interval)


COMPILED_STEPS = """
import torch
from test_change import CLOSE, built, forced, inputs, stepped

model = built("transformer pre")
optimiser = torch.optim.AdamW(model.parameters(), lr=0.05, fused=True)
step = torch.compile(optimiser.step, backend="aot_eager")
for _ in range(3):
    model.loss(*inputs(model)).backward()
    step()
    torch.testing.assert_close(stepped(model), forced(model), **CLOSE)
"""


def test_a_compiled_step_of_a_fused_optimiser_counts_as_a_change() -> None:
    """In a process of its own, where nothing keeps torch from compiling."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    done = subprocess.run([sys.executable, "-c", COMPILED_STEPS], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
