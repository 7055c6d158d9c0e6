"""Guided attention: gradients through the weights are right, padding and company do not matter, and without links
nothing is different.
"""

import hashlib
import io
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from foveate.attention import Attention, LocalPredictiveConfig, record
from foveate.data.batch import Batch, PairBatch
from foveate.models import BahdanauConfig, LuongConfig, ModelConfig, Seq2Seq, TransformerConfig
from foveate.nn import BlockConfig
from foveate.tasks.translate.alignment_head import GuideConfig, Head
from foveate.tasks.translate.head import guidance, guided_weights
from foveate.tasks.translate.task import DataConfig, TranslateConfig, TranslateTask
from foveate.train import TrainConfig, fit
from foveate.train.log import Quiet

SMALL = {"embedding_dim": 6, "hidden_dim": 6, "dropout": 0.0}
BLOCK = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=8, dropout=0.0)
MODELS: dict[str, ModelConfig] = {
    "bahdanau": BahdanauConfig(**SMALL, maxout_dim=4),
    "luong": LuongConfig(**SMALL),
    "luong at once": LuongConfig(**SMALL, input_feeding=False),
    "local-p": LuongConfig(**SMALL, attention=LocalPredictiveConfig(window=2)),
    "transformer": TransformerConfig(block=BLOCK, encoder_layers=1, decoder_layers=2),
}
SOURCES, TARGETS = [[4, 5, 6, 2], [5, 2]], [[1, 4, 5, 6, 2], [1, 6, 2]]
LINKS = torch.tensor([[0, 0, 0], [0, 1, 0], [0, 2, 2], [1, 0, 0]])
PAIRS = PairBatch(Batch.of(SOURCES), Batch.of(TARGETS), (0, 1), LINKS)


class StopAt(Quiet):
    """Ctrl-C after an update."""

    def __init__(self, step: int) -> None:
        super().__init__(io.StringIO())
        self.step = step

    def advance(self, step: int, loss: float) -> None:
        if step == self.step:
            signal.raise_signal(signal.SIGINT)


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Seq2Seq:
    torch.manual_seed(0)
    return MODELS[request.param].build(8, 8).double()


def guided(model: Seq2Seq, pairs: PairBatch = PAIRS, head: Head = Head()) -> torch.Tensor:
    assert pairs.links is not None
    with record(model, gradient=True) as seen:
        model(pairs.source, pairs.target)
    return guidance(guided_weights(seen, pairs, head), pairs.links, head)


def test_weights_with_gradients_are_the_weights(model: Seq2Seq) -> None:
    with record(model, gradient=True) as seen:
        first = model(PAIRS.source, PAIRS.target)
    with record(model) as again:
        second = model(PAIRS.source, PAIRS.target)
    assert torch.equal(first, second)
    assert [site.name for site in seen] == [site.name for site in again]
    for one, other in zip(seen, again, strict=True):
        torch.testing.assert_close(one.weights(), other.weights())
        torch.testing.assert_close(one.weights(rows=slice(1, 3), columns=slice(1, 2)), other.weights()[:, :, 1:3, 1:2])


def test_gradients_are_those_of_finite_differences(model: Seq2Seq) -> None:
    """Along a random direction in the space of all parameters."""
    parameters = [*model.parameters()]
    gradients = torch.autograd.grad(guided(model), parameters, allow_unused=True)
    directions = [torch.randn_like(parameter) for parameter in parameters]
    slope = sum((g * d).sum() for g, d in zip(gradients, directions, strict=True) if g is not None)
    ends, step = [], 1e-6
    for move in (step, -2 * step):
        with torch.no_grad():
            for parameter, direction in zip(parameters, directions, strict=True):
                parameter.add_(direction, alpha=move)
            ends.append(guided(model))
    torch.testing.assert_close(slope, (ends[0] - ends[1]) / (2 * step), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("head", [Head(), Head(when="consuming")])
def test_padding_and_company_do_not_matter(model: Seq2Seq, head: Head) -> None:
    alone = [PairBatch(Batch.of([SOURCES[row]]), Batch.of([TARGETS[row]]), (row,), _only(row)) for row in range(2)]
    apart = sum(guided(model, pairs, head) for pairs in alone)
    wide = Batch(torch.nn.functional.pad(PAIRS.source.ids, (0, 3)), PAIRS.source.lengths)
    torch.testing.assert_close(guided(model, head=head), apart)
    torch.testing.assert_close(guided(model, replace(PAIRS, source=wide), head), apart)


def _only(row: int) -> torch.Tensor:
    links = LINKS[LINKS[:, 0] == row].clone()
    links[:, 0] = 0
    return links


def test_guidance_moves_the_weights_to_the_links(model: Seq2Seq) -> None:
    optimiser = torch.optim.Adam(model.parameters(), 0.02)
    before = float(guided(model).detach())
    for _ in range(30):
        optimiser.zero_grad()
        guided(model).backward()
        optimiser.step()
    assert float(guided(model).detach()) < before / 2


def test_only_the_chosen_head_is_guided() -> None:
    torch.manual_seed(0)
    model = MODELS["transformer"].build(8, 8)
    guided(model, head=Head(layer=1, head=0)).backward()
    site = model.decoder[1].cross_attention  # type: ignore[index, union-attr]
    assert isinstance(site.attention, Attention)
    first, second = site.query.weight.grad.split(4)
    assert first.any()
    assert not second.any()


def ends(folder: Path, model: ModelConfig, guide: GuideConfig, *, links: bool, stops: tuple[int, ...] = ()) -> str:
    """The final weights' digest."""
    pairs = folder.with_suffix(".tsv")
    pairs.write_text("".join(f"ab c{i % 7}\tc{i % 7} b a\t0-1 0-2 1-0\n" for i in range(40)), encoding="utf-8")
    data = DataConfig(source=str(pairs), columns=(0, 1), max_tokens=120, links_column=2 if links else None)
    config = TranslateConfig(data=data, model=model, guide=guide)
    TranslateTask.prepare(config, folder)
    for step in (*stops, -1):
        fit(TranslateTask.open(config, folder), TRAIN, folder, resume=True, progress=StopAt(step))
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


TRAIN = TrainConfig(steps=9, validate_every=4, save_every=4, learning_rate=1e-2)
TRAINED: list[ModelConfig] = [
    LuongConfig(embedding_dim=6, hidden_dim=6, dropout=0.1),
    TransformerConfig(block=replace(BLOCK, dropout=0.1), encoder_layers=1, decoder_layers=1),
]


@pytest.mark.parametrize("model", TRAINED)
def test_a_guided_run_that_was_stopped_ends_with_the_same_bits(model: ModelConfig, tmp_path: Path) -> None:
    guide = GuideConfig(weight=0.5, when="consuming")
    whole = ends(tmp_path / "whole", model, guide, links=True)
    assert ends(tmp_path / "stopped", model, guide, links=True, stops=(3, 6)) == whole


@pytest.mark.parametrize("model", TRAINED)
def test_without_links_guidance_changes_no_bit(model: ModelConfig, tmp_path: Path) -> None:
    plain = ends(tmp_path / "plain", model, GuideConfig(), links=False)
    assert ends(tmp_path / "set", model, GuideConfig(weight=9.0), links=False) == plain
    assert ends(tmp_path / "linked", model, GuideConfig(), links=True) != plain
