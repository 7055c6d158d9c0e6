"""A recogniser under a view is the recogniser that was built with this rule: losses, gradients, texts and streams."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor

from foveate.attention import (
    AttentionConfig,
    Visibility,
    block,
    causal,
    chunk,
    everything,
    padding,
    prefix,
    record,
    same_segment,
    window,
)
from foveate.attention.efficient import LinearConfig
from foveate.data.batch import Batch
from foveate.data.feature import VectorReader, VectorRows
from foveate.data.tokeniser import CharacterTokeniser
from foveate.decode import CTCConfig, PrefixStream, prefix_search
from foveate.errors import UsageError
from foveate.models import Recogniser, RecogniserConfig, TransformerSpellerConfig
from foveate.nn import BlockConfig, RNNEncoderConfig, SubsamplingConfig, TransformerEncoderConfig, Vectors
from foveate.tasks.transcribe.encoder_view import ViewedBatch
from foveate.tasks.transcribe.task import TranscribeConfig, TranscribeDataConfig, TranscribeTask
from foveate.tasks.transcribe.use import Transcriber
from foveate.train import TrainConfig, fit

WIDTH, VOCAB = 5, 7
RULES = [chunk(4, left=2), chunk(8, left=1), block(3), window(left=6, right=1), causal()]
OWN = [everything(), window(left=12, right=12)]


def configured(own: Visibility, *, dropout: float = 0.0, speller: bool = False) -> RecogniserConfig:
    attention = AttentionConfig(visibility=own)
    block = BlockConfig(
        model_dim=8, num_heads=2, feedforward_dim=8, norm="pre", dropout=dropout, encoder_attention=attention
    )
    return RecogniserConfig(
        subsampling=SubsamplingConfig(factor=2, hidden_dim=8),
        encoder=TransformerEncoderConfig(block=block, num_layers=2),
        decoder=TransformerSpellerConfig(block=block, num_layers=1) if speller else None,
        dropout=dropout,
    )


def built(config: RecogniserConfig) -> Recogniser:
    torch.manual_seed(3)
    return config.build(Vectors(WIDTH), VOCAB)


def recordings(*lengths: int) -> Batch:
    generator = np.random.default_rng(0)
    return Batch.of([generator.normal(0, 1, (length, WIDTH)).astype(np.float32) for length in lengths])


def learnt(model: Recogniser, source: Batch, target: Batch) -> tuple[Tensor, list[Tensor]]:
    torch.manual_seed(8)
    loss = model.loss(source, target)
    return loss.detach(), list(torch.autograd.grad(loss, list(model.parameters())))


@pytest.mark.parametrize(("own", "speller"), [*zip(OWN, (True, False), strict=True)], ids=str)
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_a_loss_under_a_view_is_that_of_a_model_with_this_rule(
    rule: Visibility, own: Visibility, speller: bool
) -> None:
    model = built(configured(own, dropout=0.2, speller=speller))
    other = built(configured(own & rule, dropout=0.2, speller=speller))
    other.load_state_dict(model.state_dict())
    source, target = recordings(61, 23, 40), Batch.of([[1, 5, 6, 5, 2], [1, 4, 2], [1, 4, 4, 6, 2]])
    for mode in (True, False):
        model.train(mode), other.train(mode)
        before = learnt(model, source, target)
        loss, gradients = learnt(model.under(rule), source, target)
        expected, others = learnt(other, source, target)
        torch.testing.assert_close(loss, expected)
        for one, two in zip(gradients, others, strict=True):
            torch.testing.assert_close(one, two)
        again = learnt(model, source, target)
        assert torch.equal(before[0], again[0])
        assert all(map(torch.equal, before[1], again[1]))
        assert not torch.allclose(loss, before[0], rtol=1e-6)


def test_a_view_has_the_weights_of_its_model_and_leaves_it_as_it_was() -> None:
    model = built(configured(everything()))
    view = model.under(chunk(4, left=2))
    assert [id(weight) for weight in view.parameters()] == [id(weight) for weight in model.parameters()]
    assert view.state_dict().keys() == model.state_dict().keys()
    rules = [str(each.encoder.blocks[1].attention.attention.visibility) for each in (model, view)]
    assert rules == ["padding()", "padding() & chunk(4, left=2)"]
    with record(view) as recording, torch.no_grad():
        view.encode(recordings(30))
    visible = recording.records[-1].weights()[0, 0] > 0
    assert torch.equal(visible, chunk(4, left=2)(recording.records[-1].at)[0, 0])


def test_a_view_has_a_mode_of_its_own_which_is_first_that_of_its_model() -> None:
    model = built(configured(everything(), dropout=0.2, speller=True))
    for mode in (True, False):
        view = model.train(mode).under(chunk(4, left=2))
        assert {part.training for part in view.modules()} == {mode}
        view.train(not mode)
        assert {part.training for part in model.modules()} == {mode}
        assert {part.training for part in view.modules()} == {not mode}


def test_a_record_of_a_model_contains_its_views_and_a_record_of_a_view_no_other() -> None:
    model, x = built(configured(everything(), speller=True)).eval(), recordings(30)
    names = [f"encoder.blocks.{number}.attention.attention" for number in range(2)]
    view = model.under(chunk(4, left=2))
    with record(model) as own, torch.no_grad():
        view.under(window(left=3, right=0)).encode(x)
    assert [one.name for one in own] == names
    with record(view) as recording, torch.no_grad():
        model.encode(x)
        assert not recording.records
        view.encode(x)
    assert [one.name for one in recording] == names


def test_a_transcript_under_a_view_of_a_model_in_training_is_without_dropout() -> None:
    letters = CharacterTokeniser.train(["abc"])
    torch.manual_seed(3)
    model = configured(everything(), dropout=0.5).build(Vectors(WIDTH), letters.vocab_size)
    rows = VectorRows(mean=(0.0,) * WIDTH, deviation=(1.0,) * WIDTH)
    transcriber, x = Transcriber(model, rows, letters), recordings(60, 40)
    with torch.no_grad():
        expected = transcriber.under("chunk(4, left=2)").model.ctc(x)[0]
        model.train()
        assert torch.equal(transcriber.under("chunk(4, left=2)").model.ctc(x)[0], expected)
        assert not torch.equal(model.under(chunk(4, left=2)).ctc(x)[0], expected)
    assert model.encoder.training


@pytest.mark.parametrize("rule", RULES, ids=str)
@settings(max_examples=4, deadline=None)
@given(pieces=st.lists(st.integers(0, 30), min_size=1, max_size=6), end=st.integers(1, 40))
def test_the_text_of_a_stream_is_that_of_the_whole_under_each_view(
    rule: Visibility, pieces: list[int], end: int
) -> None:
    model = built(configured(everything())).eval()
    with torch.no_grad():  # sharper than a model without training, so that texts have several tokens
        model.ctc_output.weight.mul_(20)
    view, x = model.under(rule), recordings(sum(pieces) + end)
    config = CTCConfig(beam=4)
    with torch.inference_mode():
        [[whole]] = prefix_search(*view.ctc(x), config)
        frames = torch.cat(list(view.stream().run(x.features[0].split([*pieces, end]))))
        search = PrefixStream(config)
        _, text = search.advance(search.begin(), frames, last=True)
    assert text.tokens == whole.tokens


def test_what_no_rule_can_restrict_is_refused() -> None:
    small = BlockConfig(model_dim=8, num_heads=2, encoder_attention=LinearConfig())
    for encoder, message in (
        (RNNEncoderConfig(hidden_dim=4), "RNNEncoder has no attention that chunk"),
        (TransformerEncoderConfig(block=small), "LinearAttention has no visibility rule"),
    ):
        with pytest.raises(UsageError, match=message):
            built(RecogniserConfig(encoder=encoder)).under(chunk(4, left=1))
        with pytest.raises(ValueError, match="views restrict attention"):
            TranscribeConfig(model=RecogniserConfig(encoder=encoder), views=(chunk(4, left=1),))
    with pytest.raises(ValueError, match="views is empty"):
        TranscribeConfig(views=())


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (same_segment(), "a model's batch holds one text a row"),
        (padding([3]), "it contains the lengths of one batch"),
        (padding([3, 3, 4]), "it contains the lengths of one batch"),
        (chunk(4) & prefix([2, 3]), "it contains the lengths of one batch"),
    ],
    ids=str,
)
def test_a_rule_that_a_batch_cannot_honour_is_refused(rule: Visibility, message: str) -> None:
    with pytest.raises(ValueError, match=f"views cannot be .*{message}"):
        TranscribeConfig(model=configured(everything()), views=(chunk(4), rule))
    with pytest.raises(UsageError, match=f"The rule cannot be .*{message}"):
        built(configured(everything())).under(rule)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, generator = tmp_path_factory.mktemp("vectors"), np.random.default_rng(1)
    for number in range(30):
        np.save(folder / f"{number}.npy", generator.normal(size=(generator.integers(40, 60), WIDTH)).astype(np.float32))
    (folder / "clips.tsv").write_text("".join(f"{number}.npy\tab{'cab'[: number % 4]}\n" for number in range(30)))
    return folder / "clips.tsv"


def config(table: Path, **chosen: Any) -> TranscribeConfig:
    data = TranscribeDataConfig(data=str(table), max_tokens=300)
    return TranscribeConfig(
        data=data, reader=VectorReader(), model=configured(everything(), dropout=0.1), views=tuple(RULES), **chosen
    )


def test_a_step_draws_a_view_by_seed_and_step_alone(table: Path, tmp_path: Path) -> None:
    task, _ = TranscribeTask.prepare(config(table), tmp_path / "run")
    steps = range(200)
    rules = [getattr(task.batch(step), "rule", None) for step in steps]
    assert {*rules} == {None, *RULES}
    assert min(map(rules.count, {*rules})) > 200 / 6 / 2
    assert 'Choose train.sharding = "replicate", or leave views out' in task.indivisible
    again = TranscribeTask.open(config(table), tmp_path / "run")
    assert [getattr(again.batch(step), "rule", None) for step in reversed(steps)] == rules[::-1]
    other = TranscribeTask.open(config(table, seed=1), tmp_path / "run")
    assert [getattr(other.batch(step), "rule", None) for step in steps] != rules
    batch = next(task.batch(step) for step in steps if isinstance(task.batch(step), ViewedBatch))
    task.model.eval()
    expected = task.model.under(batch.rule).loss(batch.source, batch.target)
    assert torch.equal(task.loss(batch).total, expected)
    assert not torch.equal(task.loss(batch).total, task.model.loss(batch.source, batch.target))
    assert task.describe(batch).endswith(f" under {batch.rule}")


def test_a_resumed_run_with_views_ends_with_the_same_bits(table: Path, tmp_path: Path) -> None:
    recipe, last = TrainConfig(steps=8, validate_every=4, save_every=4), []
    for name, stops in (("whole", [8]), ("part", [4, 8])):
        TranscribeTask.prepare(config(table), tmp_path / name)
        for steps in stops:
            task = TranscribeTask.open(config(table), tmp_path / name)
            fit(task, replace(recipe, steps=steps), tmp_path / name, resume=steps > stops[0], accept_changes=True)
        last.append(load_file(tmp_path / name / "checkpoints" / "step-00000008" / "model.safetensors"))
    assert all(torch.equal(last[0][name], last[1][name]) for name in last[0])
