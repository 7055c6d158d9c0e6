"""Tagging and classifying that begin with a BERT of Hugging Face: what its library computes, the encoder computes."""

from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, BertModel, BertTokenizerFast
from transformers.utils import logging

from foveate.config import to_dict
from foveate.data.batch import Batch
from foveate.data.tokeniser import BERTTokeniser, HuggingFaceTokeniser, load_tokeniser
from foveate.errors import DataError, UsageError
from foveate.storage.run import create_run
from foveate.tasks.classify.task import ClassifyConfig, ClassifyTask
from foveate.tasks.classify.use import TextClassifier
from foveate.tasks.labelling import LabelledDataConfig, Pretrained
from foveate.tasks.tag.task import TagConfig, TagTask
from foveate.train import TrainConfig, fit

WORDS = ["[PAD]", "cat", "[UNK]", "the", "[CLS]", "[SEP]", "sat", "##s", "[MASK]", "mat", "on", ".", "never"]
"""Special ones stand here and there, as in no other vocabulary."""


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    logging.disable_progress_bar()
    folder = tmp_path_factory.mktemp("bert")
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
    torch.manual_seed(3)
    model = BertForMaskedLM(BertConfig(vocab_size=16, max_position_embeddings=12, **sizes))  # some rows stand for none
    for parameter in model.parameters():
        parameter.data.add_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return folder


def test_the_encoder_says_what_the_library_says(bert: Path) -> None:
    text = "The cats sat on the dog ."
    theirs = BertTokenizerFast.from_pretrained(bert)(text, return_tensors="pt")
    with torch.no_grad():
        expected = BertModel.from_pretrained(bert).eval()(**theirs).last_hidden_state[0]
    pretrained = Pretrained.load(bert)
    encoder = pretrained.encoder.build_encoder(len(pretrained.weights["embedding.weight"])).eval()
    encoder.load_state_dict(pretrained.weights)
    hidden, _ = encoder.encode(Batch.of([[1, *pretrained.tokeniser.encode(text), 2]]))
    torch.testing.assert_close(hidden, expected, rtol=0, atol=1e-5)


def test_special_ids_stand_where_ours_do_and_the_gap_comes_last(bert: Path, tmp_path: Path) -> None:
    tokeniser = BERTTokeniser(HuggingFaceTokeniser.read(bert))
    assert [WORDS[number] for number in tokeniser.order[:4]] == ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
    assert WORDS[tokeniser.order[tokeniser.vocab_size]] == "[MASK]"
    ids = tokeniser.encode("The cats never bark")
    assert tokeniser.pieces([1, *ids, 2]) == ["<s>", "the", "cat", "##s", "never", "<unk>", "</s>"]
    assert tokeniser.decode(ids[:4]) == "the cats never"
    tokeniser.save(tmp_path / "t.json")
    again = load_tokeniser(tmp_path / "t.json")
    assert (again.digest(), again.encode("mat .")) == (tokeniser.digest(), tokeniser.encode("mat ."))


def test_both_tasks_begin_with_the_folder(bert: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.tsv").write_text("the cat sat\tcat\nthe mat sat\tmat\n" * 10)
    (tmp_path / "tagged.txt").write_text("the/D cats/N sat/V\n" * 12)
    training = TrainConfig(steps=2, validate_every=2, save_every=2)
    data = LabelledDataConfig(data=str(tmp_path / "texts.tsv"))
    task, _ = ClassifyTask.prepare(ClassifyConfig(data=data, initialise_from=str(bert)), run := tmp_path / "run")
    create_run(run, "classify", to_dict(task.config), task.digests)
    fit(task, training, run)
    assert set(TextClassifier.load(run).classify(["The cat"])[0].probabilities) == {"cat", "mat"}
    data = LabelledDataConfig(data=str(tmp_path / "tagged.txt"))
    tagging, _ = TagTask.prepare(TagConfig(data=data, initialise_from=str(bert)), tmp_path / "tag")
    text, first = tagging.batch(0).pieces()
    assert tagging.vocabulary.spelling.pieces(text.ids[0].tolist()) == ["<s>", "the", "cat", "##s", "sat", "</s>"]
    assert first[:4].tolist() == [1, 2, 4, 7]


def test_another_model_is_refused_and_so_is_a_tokeniser_without_gaps(bert: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(UsageError, match="holds a model of the kind 'gpt2'"):
        Pretrained.load(tmp_path)
    theirs = HuggingFaceTokeniser.read(bert)
    del theirs.names["mask"]
    with pytest.raises(DataError, match="does not belong to a BERT"):
        BERTTokeniser(theirs)
