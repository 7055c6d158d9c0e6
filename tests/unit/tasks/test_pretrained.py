"""Tagging and classifying that begin with an encoder which has filled gaps before."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from foveate.config import build, to_dict
from foveate.data.tokeniser import CharacterConfig, SentencePieceConfig, TokeniserConfig, WordConfig
from foveate.errors import DataError, UsageError
from foveate.models import BERTConfig
from foveate.nn.transformer_block import BlockConfig
from foveate.storage.run import create_run
from foveate.tasks.classify.task import ClassifyConfig, ClassifyTask
from foveate.tasks.classify.use import TextClassifier
from foveate.tasks.labelling import LabelledDataConfig, Pretrained
from foveate.tasks.masked_language_model.task import MaskedLanguageModelConfig, MaskedLanguageModelTask
from foveate.tasks.masked_language_model.use import Filler
from foveate.tasks.tag.task import TagConfig, TagTask
from foveate.tasks.tag.use import SentenceTagger
from foveate.tasks.text_task import TextConfig
from foveate.train import TrainConfig, fit

BLOCK = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12, norm="post")
SENTENCES = ["red fish swim", "blue birds sing", "red birds swim", "blue fish sing"] * 6
TRAIN = TrainConfig(steps=2, validate_every=2, save_every=2)


def pretrain(folder: Path, tokeniser: TokeniserConfig) -> Path:
    text = folder / "text.txt"
    text.write_text("\n".join(SENTENCES))
    config = MaskedLanguageModelConfig(
        data=TextConfig(text=str(text), block_length=15, max_tokens=60),
        tokeniser=tokeniser,
        model=BERTConfig(block=BLOCK, num_layers=1, max_length=17),
    )
    task = MaskedLanguageModelTask.prepare(config, folder / "bert")
    create_run(folder / "bert", "masked_language_model", to_dict(config), task.digests)
    fit(task, TRAIN, folder / "bert")
    return folder / "bert"


@pytest.fixture
def pretrained(tmp_path: Path) -> Path:
    return pretrain(tmp_path, WordConfig())


def tag_config(folder: Path, pretrained: Path) -> TagConfig:
    data = folder / "tagged.txt"
    tag_of = {"red": "A", "blue": "A", "fish": "N", "birds": "N", "swim": "V", "sing": "V"}
    data.write_text("\n".join(" ".join(f"{word}/{tag_of[word]}" for word in line.split()) for line in SENTENCES))
    return TagConfig(data=LabelledDataConfig(data=str(data), max_length=40), initialise_from=str(pretrained))


def classify_config(folder: Path, pretrained: Path) -> ClassifyConfig:
    data = folder / "texts.tsv"
    data.write_text("".join(f"{line}\t{'fish' in line}\n" for line in SENTENCES))
    return ClassifyConfig(data=LabelledDataConfig(data=str(data), max_length=40), initialise_from=str(pretrained))


def test_the_encoder_begins_with_the_weights_that_filled_gaps(pretrained: Path, tmp_path: Path) -> None:
    learned = Filler.load(pretrained).model.state_dict()
    tagging, _ = TagTask.prepare(tag_config(tmp_path, pretrained), tmp_path / "tag")
    classifying, _ = ClassifyTask.prepare(classify_config(tmp_path, pretrained), tmp_path / "classify")
    for task in (tagging, classifying):
        own = task.model.encoder.state_dict()
        assert own.keys() == {name for name in learned if not name.startswith(("pooler.", "head."))}
        assert all(torch.equal(own[name], learned[name]) for name in own)


def test_the_run_keeps_sizes_tokeniser_and_weights_and_needs_the_other_run_no_more(
    pretrained: Path, tmp_path: Path
) -> None:
    task, _ = ClassifyTask.prepare(classify_config(tmp_path, pretrained), run := tmp_path / "run")
    create_run(run, "classify", to_dict(task.config), task.digests)
    pretrained.rename(tmp_path / "elsewhere")
    again = ClassifyTask.open(build(ClassifyConfig, to_dict(task.config)), run)
    for name, weight in task.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], weight), name
    fit(again, TRAIN, run)
    message = TextClassifier.load(run).classify(["red fish swim"])[0]
    assert set(message.probabilities) == {"True", "False"}


@pytest.mark.parametrize(
    ("tokeniser", "pieces", "second"),
    [
        (WordConfig(), ["red", "fish"], 2),
        (CharacterConfig(), [" ", "r", "e", "d", " ", "f", "i", "s", "h"], 5),
        (SentencePieceConfig(vocab_size=300), ["▁red", "▁fish"], 2),
    ],
    ids=["words", "characters", "subwords"],
)
def test_a_sentence_is_tagged_at_the_first_piece_of_each_word(
    tokeniser: TokeniserConfig, pieces: list[str], second: int, tmp_path: Path
) -> None:
    config = tag_config(tmp_path, pretrain(tmp_path, tokeniser))
    task, _ = TagTask.prepare(config, run := tmp_path / "run")
    vocabulary = task.vocabulary
    text, first = SentenceTagger(task.model, vocabulary)._batch([("red", "fish")]).pieces()
    assert vocabulary.spelling.pieces(text.ids[0].tolist()) == ["<s>", *pieces, "</s>"]
    assert first.tolist() == [1, second]
    assert vocabulary.length(("red", "fish")) == len(pieces) + 2
    create_run(run, "tag", to_dict(task.config), task.digests)
    fit(task, TRAIN, run)
    alone = SentenceTagger.load(run).tag(["red fish"])
    assert alone[0].probabilities == pytest.approx(
        SentenceTagger.load(run).tag(["red fish", "blue fish sing"])[0].probabilities, abs=1e-6
    )


def test_a_sentence_is_as_long_as_its_pieces(tmp_path: Path) -> None:
    task, reports = TagTask.prepare(
        tag_config(tmp_path, pretrain(tmp_path, CharacterConfig())), tmp_path / "run"
    )  # "blue birds sing" has 16 characters with the spaces before its words, a begin and an end
    assert "More than 17 tokens" in str(reports["train"])
    with pytest.raises(DataError, match="Sentence 1 has 20 pieces, but the model has 17 positions"):
        SentenceTagger(task.model, task.vocabulary).tag(["blue birds sing s"])


def test_a_configured_bert_has_to_fit_the_weights(pretrained: Path, tmp_path: Path) -> None:
    config = classify_config(tmp_path, pretrained)
    fitting = BERTConfig(block=replace(BLOCK, dropout=0.3), num_layers=1, max_length=17)
    task, _ = ClassifyTask.prepare(replace(config, model=replace(config.model, encoder=fitting)), tmp_path / "fits")
    assert task.model.encoder.config.block.dropout == 0.3
    other = replace(fitting, num_layers=2)
    with pytest.raises(DataError, match="do not fit the model: blocks"):
        ClassifyTask.prepare(replace(config, model=replace(config.model, encoder=other)), tmp_path / "other")


def test_a_run_cannot_begin_with_a_run_of_another_task(pretrained: Path, tmp_path: Path) -> None:
    task, _ = ClassifyTask.prepare(classify_config(tmp_path, pretrained), run := tmp_path / "run")
    create_run(run, "classify", to_dict(task.config), task.digests)
    with pytest.raises(UsageError, match="is a run of the task classify"):
        Pretrained.load(run)
