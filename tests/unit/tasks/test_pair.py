"""Pairs of texts through BERT's segments: gaps to fill, and labels for what belongs together."""

import io
import random
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from foveate.attention import AttentionConfig, Rotary
from foveate.config import to_dict
from foveate.data.batch import Batch
from foveate.data.gap import GapConfig
from foveate.data.tokeniser import BOS, EOS, CharacterConfig
from foveate.errors import DataError, UsageError
from foveate.models import BERTConfig
from foveate.models.classifier import ClassifierConfig
from foveate.nn.encoder import EncoderConfig, RNNEncoderConfig
from foveate.nn.transformer_block import BlockConfig
from foveate.storage.run import create_run
from foveate.tasks import TASKS
from foveate.tasks.classify.task import ClassifyConfig, ClassifyTask
from foveate.tasks.classify.use import TextClassifier
from foveate.tasks.labelling import LabelledDataConfig
from foveate.tasks.masked_language_model.task import MaskedLanguageModelConfig, MaskedLanguageModelTask, gap_logits
from foveate.tasks.masked_language_model.use import Filler
from foveate.tasks.side import Asked
from foveate.tasks.text_task import TextConfig
from foveate.train import TrainConfig, fit
from foveate.train.log import Quiet
from foveate.train.schedule import Constant

BLOCK = BlockConfig(model_dim=16, num_heads=2, feedforward_dim=32, norm="pre", dropout=0.1)
MODEL = BERTConfig(block=BLOCK, num_layers=1, max_length=24)
TRAIN = TrainConfig(steps=12, validate_every=4, save_every=4, log_every=1, learning_rate=1e-2)


class StopAt(Quiet):
    """Ctrl-C after an update."""

    def __init__(self, step: int) -> None:
        super().__init__(io.StringIO())
        self.step = step

    def advance(self, step: int, loss: float) -> None:
        if step == self.step:
            signal.raise_signal(signal.SIGINT)


def texts(count: int) -> list[tuple[str, str]]:
    generator = random.Random(0)
    return [
        tuple("".join(generator.choices("abcd", k=generator.randint(1, 7))) for _ in range(2))  # type: ignore[misc]
        for _ in range(count)
    ]


@pytest.fixture
def gap_config(tmp_path: Path) -> MaskedLanguageModelConfig:
    lines = ["\t".join(pair) if number % 3 else pair[0] for number, pair in enumerate(texts(60))]
    (tmp_path / "text.tsv").write_text("\n".join(lines) + "\n" + "a" * 30 + "\n")
    data = TextConfig(text=str(tmp_path / "text.tsv"), held_out=6, block_length=20, max_tokens=80)
    return MaskedLanguageModelConfig(data=data, tokeniser=CharacterConfig(), segments=(0, 1), model=MODEL)


@pytest.fixture
def gaps(gap_config: MaskedLanguageModelConfig, tmp_path: Path) -> MaskedLanguageModelTask:
    return MaskedLanguageModelTask.prepare(gap_config, tmp_path / "gaps")


def label_config(folder: Path, encoder: EncoderConfig | BERTConfig = MODEL) -> ClassifyConfig:
    lines = [f"{first[0] == second[0]}\t{first}\t{second}" for first, second in texts(60)]
    (folder / "pairs.tsv").write_text("\n".join(lines) + "\n")
    data = LabelledDataConfig(data=str(folder / "pairs.tsv"), columns=(1, 0), max_length=24, max_tokens=80)
    return ClassifyConfig(data=data, model=ClassifierConfig(encoder=encoder, embedding_dim=6), second_column=2)


def test_every_line_is_a_row_with_an_end_after_each_text(gaps: MaskedLanguageModelTask) -> None:
    tokeniser, rows, pairs = gaps.data.tokeniser, set[str](), 0
    for step in range(gaps.steps_per_epoch):
        batch = gaps.batch(step)
        assert batch.segments is not None
        whole = batch.text.ids[torch.arange(batch.text.length) < batch.text.lengths[:, None]]
        whole[batch.place] = batch.answer
        assert not ((batch.answer == EOS) | (batch.answer == BOS)).any()
        for row, kinds, length in zip(
            whole.split(batch.text.lengths.tolist()), batch.segments, batch.text.lengths, strict=True
        ):
            assert (row[0], row[-1]) == (BOS, EOS)
            first = row.tolist().index(EOS) + 1
            assert kinds[:length].tolist() == [0] * first + [1] * (int(length) - first)
            rows.add("\t".join(tokeniser.decode(part) for part in _parts(row.tolist()[1:])))
            pairs += first < length
    lines = Path(gaps.config.data.text).read_text().splitlines()
    assert rows <= set(lines)
    assert 0 < pairs < len(gaps.data.training) - 1
    assert gaps.report == "More than 20 tokens, left out: line 61."
    assert len(gaps.data.training) + len(gaps.data.validation) - 2 == 60


def test_the_tab_of_a_pair_is_not_text(gaps: MaskedLanguageModelTask) -> None:
    filler = Filler(gaps.model, gaps.data.tokeniser, gaps.config)
    assert filler.pairs
    assert filler.parts_to_read("the ___ cat\ta ___", "___") == ["the ", " cat", "a ", ""]


def _parts(tokens: list[int]) -> list[list[int]]:
    middle = tokens.index(EOS)
    return [part for part in (tokens[:middle], tokens[middle + 1 : -1]) if part]


@torch.no_grad()
def test_pairs_with_gaps_are_read_alone_as_in_a_batch(gaps: MaskedLanguageModelTask) -> None:
    model, batch = gaps.model.double().eval(), gaps.batch(1)
    assert batch.segments is not None
    together = gap_logits(model, batch)
    alone = torch.cat(
        [
            model(Batch.of([row[:length].tolist()]), kinds[None, :length])
            for row, kinds, length in zip(batch.text.ids, batch.segments, batch.text.lengths.tolist(), strict=True)
        ]
    )
    torch.testing.assert_close(together, alone[batch.place], atol=1e-11, rtol=0)
    assert not torch.allclose(together, model(batch.text)[batch.place])


def test_a_stopped_run_over_pairs_ends_with_the_same_bits(
    gap_config: MaskedLanguageModelConfig, tmp_path: Path
) -> None:
    weights = []
    for name, stops in (("alone", (-1,)), ("parted", (5, 9, -1))):
        MaskedLanguageModelTask.prepare(gap_config, tmp_path / name)
        for step in stops:
            fit(
                MaskedLanguageModelTask.open(gap_config, tmp_path / name),
                TRAIN,
                tmp_path / name,
                resume=True,
                progress=StopAt(step),
            )
        weights.append((tmp_path / name / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]


def test_gaps_of_pairs_are_filled_from_the_other_text(tmp_path: Path) -> None:
    (tmp_path / "text.tsv").write_text("".join(f"{a}x\t{a}y\n" for a in "abcd" * 40))
    data = TextConfig(text=str(tmp_path / "text.tsv"), held_out=8, block_length=6, max_tokens=140)
    block = replace(BLOCK, dropout=0.0, encoder_attention=AttentionConfig(transforms=(Rotary(),)))
    model, gaps = replace(MODEL, block=block), GapConfig(share=0.3)
    config = MaskedLanguageModelConfig(data=data, segments=(0, 1), model=model, gaps=gaps)
    task = MaskedLanguageModelTask.prepare(config, tmp_path / "run")
    train = TrainConfig(steps=300, validate_every=100, save_every=100, learning_rate=5e-3, schedule=Constant(warmup=20))
    fit(task, train, tmp_path / "run")
    filler = Filler(task.model, task.data.tokeniser, config)
    assert [filler.fill(f"{a}x\t___y").text for a in "abcd"] == [f"{a}x\t{a}y" for a in "abcd"]
    assert filler.evaluate(["ax\tay", "bx\tby"])["accuracy"] >= 0.5
    alignment = filler.align("ax\t___y")
    assert alignment is not None
    assert list(alignment.source) == ["<s>", "a", "x", "</s>", "___", "y", "</s>"]
    with pytest.raises(DataError, match="has 3 parts with tabs between them"):
        filler.fill("a\tb\t___")
    with pytest.raises(DataError, match="empty second text"):
        filler.fill("___\t ")
    with pytest.raises(DataError, match=r"not all of it\. More than 6 tokens, left out: line 2"):
        filler.evaluate(["ax\tay", "a" * 9])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"segments": (1, 1)}, "two different columns"),
        ({"model": replace(MODEL, num_segments=1)}, "num_segments is 1"),
        ({"data": TextConfig(block_length=20, max_tokens=20)}, "max_tokens must be more than data.block_length, 20"),
    ],
)
def test_settings_that_leave_no_room_for_pairs_are_refused(
    changes: dict[str, Any], message: str, gap_config: MaskedLanguageModelConfig
) -> None:
    with pytest.raises(ValueError, match=message):
        replace(gap_config, **changes)


@pytest.mark.parametrize("encoder", [MODEL, RNNEncoderConfig(hidden_dim=8)], ids=["bert", "rnn"])
def test_labels_of_pairs_are_the_same_alone_and_together(encoder: EncoderConfig | BERTConfig, tmp_path: Path) -> None:
    task, _ = ClassifyTask.prepare(label_config(tmp_path, encoder), run := tmp_path / "run")
    batch = task.batch(0)
    assert ((batch.rows.ids == EOS).sum(1) == 2).all()
    create_run(run, "classify", to_dict(task.config), task.digests)
    fit(task, TRAIN, run)
    classifier = TextClassifier.load(run)
    for one in classifier.classify(["ab\tabc", "dcba\ta", "", "c\tdddddd"]):
        again = classifier.classify([one.text])[0]
        assert one.probabilities == pytest.approx(again.probabilities, abs=1e-6)
        assert bool(one.label) == bool(one.text)
    assert "</s>" in classifier.align("ab\tabc").source[1:-1]
    assert classifier.strange("ab\tabc") == []
    assert classifier.strange("aX\tXb") == ["X"]
    for text, message in [("ab", "has 1 part"), ("a\tb\tc", "has 3 parts"), ("a\t", "empty second text")]:
        with pytest.raises(DataError, match=f"Text 1 has (an )?{message.removeprefix('has ')}"):
            classifier.classify([text])


@torch.no_grad()
def test_a_bert_tells_the_texts_of_a_pair_apart_by_segments(tmp_path: Path) -> None:
    task, _ = ClassifyTask.prepare(label_config(tmp_path), tmp_path / "run")
    model: Any = task.model.eval()
    pairs, alone = task.batch(0).rows, Batch.of([[BOS, 5, EOS]])
    before = model(pairs), model(alone)
    model.encoder.segment.weight[1] += torch.linspace(-1, 1, 16)
    assert not torch.allclose(before[0], model(pairs))
    assert torch.equal(before[1], model(alone))


def test_a_run_over_labelled_pairs_resumes_to_the_bit(tmp_path: Path) -> None:
    weights = []
    for name, stops in (("alone", (-1,)), ("parted", (6, -1))):
        config = label_config(tmp_path)
        task, _ = ClassifyTask.prepare(config, tmp_path / name)
        create_run(tmp_path / name, "classify", to_dict(config), task.digests)
        for step in stops:
            fit(
                ClassifyTask.open(config, tmp_path / name),
                TRAIN,
                tmp_path / name,
                resume=True,
                progress=StopAt(step),
            )
        weights.append((tmp_path / name / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]


def test_the_second_text_has_a_column_of_its_own(tmp_path: Path) -> None:
    for column in (-1, 0, 1):
        with pytest.raises(ValueError, match="second_column is that of a second text"):
            replace(label_config(tmp_path), second_column=column)


def test_a_comparison_does_not_read_pairs(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="compare does not read pairs"):
        TASKS["classify"].side.whole(label_config(tmp_path))


def test_pairs_that_nobody_trained_on_are_scored_in_a_comparison(gaps: MaskedLanguageModelTask, tmp_path: Path) -> None:
    (tmp_path / "test.tsv").write_text("ab\tcd\nabc\n")
    gaps.model.eval()
    request = Asked(metrics=("loss", "accuracy"), test={"text": str(tmp_path / "test.tsv")})
    result = TASKS["masked_language_model"].side.score(gaps, gaps.config, tmp_path, request).values
    expected = Filler(gaps.model, gaps.data.tokeniser, gaps.config).evaluate(["ab\tcd", "abc"])
    assert result["loss"] == pytest.approx(expected["loss"])
