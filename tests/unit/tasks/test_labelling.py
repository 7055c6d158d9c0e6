"""Tagging and classifying as tasks: trained in a moment, resumed to the bit, the same alone and in a batch."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from foveate.errors import DataError, UsageError
from foveate.models.classifier import ClassifierConfig
from foveate.models.tagger import TaggerConfig
from foveate.nn.encoder import EncoderConfig, RNNEncoderConfig, TransformerEncoderConfig
from foveate.nn.position_vector import LearnedConfig
from foveate.storage.run import create_run
from foveate.tasks.classify.task import ClassifyConfig, ClassifyTask
from foveate.tasks.classify.use import TextClassifier
from foveate.tasks.labelling import LabelledDataConfig
from foveate.tasks.tag.task import TagConfig, TagTask
from foveate.tasks.tag.use import SentenceTagger
from foveate.train import TrainConfig, fit
from foveate.train.log import Quiet

SMALL = RNNEncoderConfig(hidden_dim=8)
TRAIN = TrainConfig(steps=6, validate_every=3, save_every=3, log_every=1)


@pytest.fixture
def sentences(tmp_path: Path) -> str:
    generator = random.Random(0)
    lines = [
        " ".join(f"{word}/{'D' if word in 'ab' else 'N'}" for word in generator.choices("abcdef", k=size))
        for size in [1, 7, 3, 2, 5] * 12
    ]
    (tmp_path / "tagged.txt").write_text("\n".join(lines) + "\n")
    return str(tmp_path / "tagged.txt")


@pytest.fixture
def texts(tmp_path: Path) -> str:
    generator = random.Random(0)
    lines = [
        "".join(generator.choices("ab" if i % 3 else "cd", k=1 + i % 9)) + f"\tkind {i % 3 > 0}" for i in range(60)
    ]
    (tmp_path / "texts.tsv").write_text("\n".join(lines) + "\n")
    return str(tmp_path / "texts.tsv")


def tag_config(path: str, encoder: EncoderConfig = SMALL) -> TagConfig:
    model = TaggerConfig(encoder=encoder, embedding_dim=6, character_dim=4)
    return TagConfig(data=LabelledDataConfig(data=path, max_length=20, max_tokens=40), model=model)


def classify_config(path: str, encoder: EncoderConfig = SMALL) -> ClassifyConfig:
    model = ClassifierConfig(encoder=encoder, embedding_dim=6)
    return ClassifyConfig(data=LabelledDataConfig(data=path, max_length=20, max_tokens=40), model=model)


def tasks(sentences: str, texts: str, folder: Path) -> Iterator[TagTask | ClassifyTask]:
    yield TagTask.prepare(tag_config(sentences), folder / "tag")[0]
    yield ClassifyTask.prepare(classify_config(texts), folder / "classify")[0]


def test_a_run_that_was_stopped_ends_with_the_same_bits(sentences: str, texts: str, tmp_path: Path) -> None:
    for alone, again in zip(tasks(sentences, texts, tmp_path), tasks(sentences, texts, tmp_path), strict=True):
        whole, parted = tmp_path / "whole", tmp_path / "parted"
        for folder in (whole, parted):
            folder.mkdir(exist_ok=True)
        name = type(alone).__name__
        fit(alone, TRAIN, whole / name)
        stopping = Stop(4)
        assert fit(again, TRAIN, parted / name, progress=stopping).interrupted
        assert fit(again, TRAIN, parted / name, resume=True).step == 6
        files = [(folder / name / "model.safetensors").read_bytes() for folder in (whole, parted)]
        assert files[0] == files[1]


class Stop(Quiet):
    """Ctrl-C after a step."""

    def __init__(self, step: int) -> None:
        import io

        super().__init__(io.StringIO())
        self.step = step

    def advance(self, step: int, loss: float) -> None:
        if step == self.step:
            import signal

            signal.raise_signal(signal.SIGINT)


def test_what_validation_measures_and_what_a_message_names(sentences: str, texts: str, tmp_path: Path) -> None:
    for task in tasks(sentences, texts, tmp_path):
        with torch.no_grad():
            assert set(task.validate()) == {"loss", "accuracy", "macro_f1"}
        assert task.describe(task.batch(0)).startswith("the training examples of lines ")
        assert task.steps_per_epoch > 1
        assert len(task.training) == 54


def test_a_run_opens_as_it_was_prepared(sentences: str, texts: str, tmp_path: Path) -> None:
    tagging, classifying = tasks(sentences, texts, tmp_path)
    create_run(tmp_path / "tag", "tag", {}, tagging.digests)
    create_run(tmp_path / "classify", "classify", {}, classifying.digests)
    for task, opened in (
        (tagging, TagTask.open(tagging.config, tmp_path / "tag")),  # type: ignore[arg-type]
        (classifying, ClassifyTask.open(classifying.config, tmp_path / "classify")),  # type: ignore[arg-type]
    ):
        for step in range(3):
            assert torch.equal(task.batch(step).labels, opened.batch(step).labels)
        for (name, one), (_, other) in zip(task.model.named_parameters(), opened.model.named_parameters(), strict=True):
            assert torch.equal(one, other), name


def test_labels_of_another_run_are_refused(texts: str, tmp_path: Path) -> None:
    config = classify_config(texts)
    task, _ = ClassifyTask.prepare(config, tmp_path / "run")
    create_run(tmp_path / "run", "classify", {}, {**task.digests, "labels.json": "another"})
    with pytest.raises(DataError, match=r"labels\.json is not the file that this model was trained with"):
        ClassifyTask.open(config, tmp_path / "run")


def test_alone_and_together_are_the_same(sentences: str, texts: str, tmp_path: Path) -> None:
    tagging, classifying = tasks(sentences, texts, tmp_path)
    assert isinstance(tagging, TagTask)
    assert isinstance(classifying, ClassifyTask)
    tagger = SentenceTagger(tagging.model, tagging.vocabulary)
    many = tagger.tag(["a b c", "", "new words here and there", ["d"]])
    assert [len(one.tags) for one in many] == [3, 0, 5, 1]
    for one in many:
        alone = tagger.tag([one.words])[0]
        assert alone.tags == one.tags
        assert alone.probabilities == pytest.approx(one.probabilities, abs=1e-6)
    classifier = TextClassifier(classifying.model, classifying.tokeniser, classifying.labels)
    for text in classifier.classify(["ab", "", "ccccc d", "a"]):
        assert classifier.classify([text.text])[0].probabilities == pytest.approx(text.probabilities, abs=1e-6)
        assert bool(text.label) == bool(text.text)


def test_what_the_pooling_looks_at_is_one_row_over_the_text(texts: str, tmp_path: Path) -> None:
    task, _ = ClassifyTask.prepare(classify_config(texts), tmp_path / "run")
    classifier = TextClassifier(task.model, task.tokeniser, task.labels)
    alignment = classifier.align("abab")
    assert alignment.source == ("<s>", "a", "b", "a", "b", "</s>")
    assert alignment.target == (classifier.classify(["abab"])[0].label,)
    assert alignment.weights.sum() == pytest.approx(1)
    with pytest.raises(UsageError, match="empty"):
        classifier.align(" ")


def test_a_text_beyond_the_positions_is_refused_in_words(sentences: str, texts: str, tmp_path: Path) -> None:
    encoder = TransformerEncoderConfig(position=LearnedConfig(max_length=6))
    tagging, reports = TagTask.prepare(tag_config(sentences, encoder), tmp_path / "tag")
    assert "sentences are used. More than 6 tokens: lines 2, 7" in str(reports["train"])
    with pytest.raises(DataError, match="Sentence 2 has 7 words, but the model has 6 positions"):
        SentenceTagger(tagging.model, tagging.vocabulary).tag(["a", "a a a a a a a"])
    with pytest.raises(DataError, match="Sentence 514 has 7 words"):
        SentenceTagger(tagging.model, tagging.vocabulary).tag(["a", "a a a a a a a"], first=512)
    task, _ = ClassifyTask.prepare(classify_config(texts, encoder), tmp_path / "classify")
    with pytest.raises(DataError, match="Text 1 has 7 tokens, begin and end included, but the model has 6 positions"):
        TextClassifier(task.model, task.tokeniser, task.labels).classify(["aaaaa"])


def test_a_label_that_only_the_validation_file_has_is_left_out_and_named(
    sentences: str, texts: str, tmp_path: Path
) -> None:
    (tmp_path / "valid.txt").write_text("a/D\nb/X\nb/D\n")
    (tmp_path / "valid.tsv").write_text("ab\tkind True\nab\tother\ncd\tkind False\n")
    for task, config, name in (
        (TagTask, tag_config(sentences), "valid.txt"),
        (ClassifyTask, classify_config(texts), "valid.tsv"),
    ):
        config = replace(config, data=replace(config.data, valid_data=str(tmp_path / name)))
        prepared, reports = task.prepare(config, tmp_path / name.replace(".", "-"))  # type: ignore[attr-defined]
        strange = "'X'" if name == "valid.txt" else "'other'"
        assert f"labels that the training data do not have ({strange}): line 2." in str(reports["valid"])
        assert len(prepared.validation) == 2
        with torch.no_grad():
            assert set(prepared.validate()) == {"loss", "accuracy", "macro_f1"}


def test_a_validation_file_of_other_labels_is_refused_with_its_line(sentences: str, tmp_path: Path) -> None:
    (tmp_path / "valid.txt").write_text("a/D\nb/X\nb/Y\n")
    config = tag_config(sentences)
    config = replace(config, data=replace(config.data, valid_data=str(tmp_path / "valid.txt")))
    with pytest.raises(DataError, match=r"valid\.txt:2: the label 'X' is not in the training data"):
        TagTask.prepare(config, tmp_path / "run")


@pytest.mark.parametrize("seed", range(12))
def test_labels_of_one_example_stay_in_training_whatever_the_seed(
    sentences: str, texts: str, tmp_path: Path, seed: int
) -> None:
    with Path(sentences).open("a") as file:
        file.write("".join(f"a/D b/rare{number}\n" for number in range(9)))
    with Path(texts).open("a") as file:
        file.write("".join(f"ab\trare{number}\n" for number in range(9)) + "abc\ttwice\nabd\ttwice\n")
    for task, config in ((TagTask, tag_config(sentences)), (ClassifyTask, classify_config(texts))):
        config = replace(config, seed=seed, data=replace(config.data, held_out=30))
        prepared, reports = task.prepare(config, tmp_path / task.__name__)  # type: ignore[attr-defined]
        trained = set(np.unique(prepared.training.labels.tokens).tolist())
        assert trained == set(range(len(prepared.labels))), "a label that training never meets"
        assert len(prepared.validation) == (len(prepared.training) + len(prepared.validation)) // 10
        assert "9 labels of only one example: 'rare0', 'rare1'" in str(reports["train"])
        again, _ = task.prepare(config, tmp_path / "again" / task.__name__)  # type: ignore[attr-defined]
        assert again.validation.lines.tolist() == prepared.validation.lines.tolist()


def test_labels_that_are_not_rare_are_held_out_as_before(texts: str, tmp_path: Path) -> None:
    """Runs of earlier versions keep their validation examples: reports read them again."""
    task, _ = ClassifyTask.prepare(classify_config(texts), tmp_path / "run")
    drawn = np.random.default_rng(0).choice(60, size=6, replace=False)
    assert sorted(task.validation.lines.tolist()) == sorted((drawn + 1).tolist())


def test_examples_that_all_have_a_label_of_their_own_are_refused(tmp_path: Path) -> None:
    (tmp_path / "own.tsv").write_text("".join(f"ab\t{number}\n" for number in range(20)))
    with pytest.raises(DataError, match="has a label that no other example has, so none can be held out"):
        ClassifyTask.prepare(classify_config(str(tmp_path / "own.tsv")), tmp_path / "run")


def test_too_few_examples_are_refused(tmp_path: Path) -> None:
    (tmp_path / "few.txt").write_text("a/D\n" * 9)
    with pytest.raises(DataError, match="9 examples: too few to hold some out"):
        TagTask.prepare(tag_config(str(tmp_path / "few.txt")), tmp_path / "run")
