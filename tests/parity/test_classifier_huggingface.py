"""Classifiers, encoders and their kin in Hugging Face folders, made here and small: labels, logits, a look at any."""

import json
import shutil
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import (
    BertConfig,
    BertTokenizerFast,
    DistilBertConfig,
    PreTrainedTokenizerFast,
    RobertaConfig,
)

from foveate import Filler
from foveate.cli import main
from foveate.data.tokeniser import HuggingFaceTokeniser, load_tokeniser
from foveate.errors import DataError, UsageError
from foveate.tasks import TASKS
from foveate.tasks.classify.use import GuestClassifier, TextClassifier
from foveate.tasks.embedder import Embedder
from foveate.tasks.exported import export
from foveate.tasks.tag.use import SentenceTagger

TEXTS = ["The cat sat on the mat.", "A dog ran after 3 cats!", "cats and dogs"]
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
NAMES = {0: "bad", 1: "good", 2: "neither"}
KINDS = ("Bert", "Roberta", "DistilBert")


def shaken(model: nn.Module) -> Any:
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def wordpieces(folder: Path) -> BertTokenizerFast:
    import tokenizers

    inner = tokenizers.BertWordPieceTokenizer(lowercase=True)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    inner.train_from_iterator(TEXTS, vocab_size=90, show_progress=False, special_tokens=special)
    folder.mkdir(parents=True, exist_ok=True)
    inner.save_model(str(folder))
    return BertTokenizerFast(str(folder / "vocab.txt"))


def bytes_of_words() -> PreTrainedTokenizerFast:
    """As RoBERTa's: pairs of bytes between <s> and </s>, two of them between the texts of a pair."""
    import tokenizers

    inner = tokenizers.ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", tokenizers.AddedToken("<mask>", lstrip=True)]
    inner.train_from_iterator(TEXTS, vocab_size=290, show_progress=False, special_tokens=special)
    inner.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(
        tokenizer_object=inner._tokenizer, **names, cls_token="<s>", sep_token="</s>", mask_token="<mask>"
    )


def made(kind: str, head: str, folder: Path, **settings: Any) -> tuple[Any, Any]:
    """A folder, the model in it, and its tokeniser."""
    tokeniser: Any = bytes_of_words() if kind == "Roberta" else wordpieces(folder / "pieces")
    labels = {"id2label": NAMES, **settings}
    configs = {
        "Bert": lambda: BertConfig(vocab_size=len(tokeniser), **SIZES, **labels),
        "Roberta": lambda: RobertaConfig(
            vocab_size=len(tokeniser), **SIZES, **labels, max_position_embeddings=42, type_vocab_size=1
        ),
        "DistilBert": lambda: DistilBertConfig(
            vocab_size=len(tokeniser), dim=16, n_layers=2, n_heads=4, hidden_dim=24, **labels
        ),
    }
    model = shaken(getattr(transformers, f"{kind}{head}")(configs[kind]()))
    model.save_pretrained(folder)
    tokeniser.save_pretrained(folder)
    return model, tokeniser


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_labels_are_those_of_the_library(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, tokeniser = made(kind, "ForSequenceClassification", tmp_path)
    expected = model(**tokeniser(TEXTS, return_tensors="pt", padding=True)).logits.softmax(-1)
    classifier = TextClassifier.load(tmp_path)
    assert isinstance(classifier, GuestClassifier)
    found = classifier.classify(TEXTS)
    for one, shares in zip(found, expected, strict=True):
        assert one.label == NAMES[int(shares.argmax())]
        for number, name in NAMES.items():
            assert one.probabilities[name] == pytest.approx(float(shares[number]), abs=1e-5)
    assert list(classifier.classify(TEXTS[1]).probabilities) == list(found[1].probabilities)
    assert classifier.classify("").label == ""

    pair = model(**tokeniser(TEXTS[0], TEXTS[2], return_tensors="pt")).logits.softmax(-1)[0]
    said = classifier.classify(f"{TEXTS[0]}\t{TEXTS[2]}")
    assert list(said.probabilities.values()) == pytest.approx(pair.sort(descending=True).values.tolist(), abs=1e-5)

    assert main(["classify", str(tmp_path), *TEXTS]) == 0
    assert capsys.readouterr().out.split() == [one.label for one in found]


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_gaps_are_filled_as_the_library_fills_them(kind: str, tmp_path: Path) -> None:
    model, tokeniser = made(kind, "ForMaskedLM", tmp_path)
    given = tokeniser(f"The cat {tokeniser.mask_token} on the mat.", return_tensors="pt")
    given = {"input_ids": given["input_ids"]}
    assert Filler.load(tmp_path).ids_and_gaps("The cat ___ on the mat.", "___")[0] == given["input_ids"][0].tolist()
    place = int((given["input_ids"][0] == tokeniser.mask_token_id).nonzero())
    logits = model(**given).logits[0, place].softmax(-1)
    logits[list(set(tokeniser.all_special_ids))] = 0
    filling = Filler.load(tmp_path).fill("The cat ___ on the mat.", best=3)
    assert [share for _, share in filling.choices[0]] == pytest.approx(logits.topk(3).values.tolist(), abs=1e-5)
    assert Filler.load(tmp_path).fill(f"The cat {tokeniser.mask_token} on the mat.", best=3) == filling
    word = tokeniser.decode(logits.argmax()).removeprefix("##").strip()
    if kind == "Roberta":  # a piece has its own space, or none
        given["input_ids"][0, place] = logits.argmax()
        assert filling.text == tokeniser.decode(given["input_ids"][0], skip_special_tokens=True)
    else:
        assert filling.text == f"The cat {word} on the mat."


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", ["Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification"])
@torch.no_grad()
def test_any_sentence_can_be_looked_at(
    kind: str, head: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, tokeniser = made(kind, head, tmp_path, attn_implementation="eager")
    out = tmp_path / "kept.trace"
    assert main(["look", str(tmp_path), TEXTS[0], "--trace", str(out)]) == 0
    assert main(["look", str(tmp_path), TEXTS[0]]) == 0
    shown = capsys.readouterr().out
    assert "cat" in shown
    assert not set("Ġ▁#") & set(shown)
    from foveate.inspect import read_trace

    trace = read_trace(out)
    theirs = model(**tokeniser(TEXTS[0], return_tensors="pt"), output_attentions=True).attentions
    for site, weights in zip(trace.sites[: len(theirs)], theirs, strict=True):
        for each in range(site.heads):
            torch.testing.assert_close(site.weights(each)[0], weights[0, each], atol=2e-3, rtol=0)


@torch.no_grad()
def test_the_attention_for_a_label_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, tokeniser = made("Bert", "ForSequenceClassification", tmp_path, attn_implementation="eager")
    seen = TextClassifier.load(tmp_path).align("the cat 😀 sat")
    theirs = model(**tokeniser("the cat 😀 sat", return_tensors="pt"), output_attentions=True).attentions[0]
    torch.testing.assert_close(torch.tensor(seen.weights[0]), theirs[0, :, 0].mean(0), atol=1e-5, rtol=0)
    assert seen.source[:4] == ("[CLS]", "the", "cat", "😀")
    assert main(["classify", str(tmp_path), "the cat", "--look"]) == 0
    captured = capsys.readouterr()
    assert "most:" in captured.out
    assert captured.err == ""


def test_gaps_and_masks_are_looked_at_alike(tmp_path: Path) -> None:
    made("Bert", "ForMaskedLM", tmp_path)
    filler = Filler.load(tmp_path)
    one, other = (filler.trace(f"the {sign} sat") for sign in ("___", "[MASK]"))
    assert one.tracks["source"].labels == other.tracks["source"].labels
    assert "___" in one.tracks["source"].labels
    seen = filler.align("the cat sat")
    assert seen is not None
    assert seen.source == seen.target


def test_a_model_without_the_head_is_not_asked_for_what_it_has_not_learned(tmp_path: Path) -> None:
    made("Bert", "Model", tmp_path)
    with pytest.raises(UsageError, match="holds a BertModel, which has no head that fills gaps"):
        Filler.load(tmp_path).fill("the ___ sat")
    with pytest.raises(UsageError, match="has no head that fills gaps"):
        Filler.load(tmp_path).answer("the ___ sat")
    with pytest.raises(UsageError, match="has no head that fills gaps"):
        export(tmp_path, tmp_path / "out", to="onnx")
    assert "___" in Filler.load(tmp_path).trace("the ___ sat").tracks["source"].labels
    assert Embedder.read(tmp_path).embed("the cat").shape == (16,)
    with pytest.raises(UsageError, match=r"contains a BertModel of .* ForSequenceClassification, .*foveate look"):
        TextClassifier.load(tmp_path)


def test_a_tagger_of_theirs_is_refused_by_what_is_read(tmp_path: Path) -> None:
    made("Bert", "ForTokenClassification", tmp_path)
    with pytest.raises(UsageError) as caught:
        SentenceTagger.load(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path} contains a BertForTokenClassification of Hugging Face, but this command reads runs of "
        "tag, which may begin with the encoder of a BERT (`foveate train tag --set initialise_from=FOLDER`). "
        f"`foveate look {tmp_path} TEXT` shows its attention."
    )
    assert len(TASKS["masked_language_model"].side.load(tmp_path).trace("the cat").sites) == 2


@pytest.mark.parametrize("settings", [{"id2label": {0: "score"}}, {"problem_type": "multi_label_classification"}])
def test_what_tells_no_single_label_says_so_and_can_be_looked_at(settings: dict[str, Any], tmp_path: Path) -> None:
    made("Bert", "ForSequenceClassification", tmp_path, **settings)
    with pytest.raises(UsageError, match="BertForSequenceClassification that tells a number, or several labels"):
        TextClassifier.load(tmp_path)
    assert len(TASKS["masked_language_model"].side.load(tmp_path).trace("the cat").sites) == 2


def test_weights_without_the_classifier_are_refused(tmp_path: Path) -> None:
    made("Bert", "Model", tmp_path)
    said = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**said, "architectures": ["BertForSequenceClassification"]}))
    with pytest.raises(Exception, match=r"The weights lack classifier\.weight"):
        TextClassifier.load(tmp_path)


@pytest.mark.parametrize(
    ("kind", "setting", "value"),
    [
        ("Roberta", "pad_token_id", "one"),
        ("Roberta", "max_position_embeddings", 3.5),
        ("DistilBert", "dim", -4),
        ("DistilBert", "dim", None),
        ("Bert", "id2label", {"0": "bad", "1": "good"}),
        ("Bert", "id2label", 7),
        ("Bert", "architectures", "BertForSequenceClassification"),
    ],
)
def test_settings_of_another_kind_end_in_a_sentence(
    kind: str, setting: str, value: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(kind, "ForSequenceClassification", tmp_path)
    said = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**said, setting: value}))
    assert main(["classify", str(tmp_path), "the cat"]) in (0, 2, 3)
    assert "Traceback" not in capsys.readouterr().err


def test_a_classifier_without_its_pooler_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    made("Bert", "ForSequenceClassification", tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    kept = {name: tensor for name, tensor in tensors.items() if "pooler" not in name}
    assert len(kept) < len(tensors)
    save_file(kept, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(DataError, match=r"The weights lack bert\.pooler\.dense\.weight"):
        TextClassifier.load(tmp_path)


@torch.no_grad()
def test_a_roberta_with_words_and_merges_alone_is_read_as_one_with_a_tokeniser(tmp_path: Path) -> None:
    _, tokeniser = made("Roberta", "ForMaskedLM", tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "old")
    tokeniser.backend_tokenizer.model.save(str(tmp_path / "old"))
    (tmp_path / "old" / "tokenizer.json").unlink()
    one, other = (Filler.load(tmp_path / name) for name in ("whole", "old"))
    assert isinstance(one.tokeniser, HuggingFaceTokeniser)
    assert isinstance(other.tokeniser, HuggingFaceTokeniser)
    for text, second in (("The cat sat.", None), ("", None), ("The cat sat.", " on the mat")):
        assert other.tokeniser.framed(text, second) == one.tokeniser.framed(text, second)
    assert other.fill("The cat ___ on the mat.") == one.fill("The cat ___ on the mat.")


def test_a_head_of_another_width_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    made("DistilBert", "ForSequenceClassification", tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    for name, tensor in (("weight", torch.ones(3, 5)), ("weight", torch.ones(48))):
        save_file({**tensors, f"classifier.{name}": tensor}, tmp_path / "model.safetensors")
        with pytest.raises(Exception, match="do not go with an encoder of width 16"):
            TextClassifier.load(tmp_path)


@pytest.mark.parametrize(
    "lost",
    ["cls.predictions.bias", "cls.predictions.transform.LayerNorm.weight", "cls.predictions.transform.dense.bias"],
)
def test_a_head_without_one_of_its_tensors_is_refused(lost: str, tmp_path: Path) -> None:
    made("Bert", "ForMaskedLM", tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors[lost]
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(DataError, match="The weights lack head"):
        Filler.load(tmp_path)


@torch.no_grad()
def test_the_bias_of_the_logits_may_have_its_other_name(tmp_path: Path) -> None:
    made("Bert", "ForMaskedLM", tmp_path)
    filling = Filler.load(tmp_path).fill("the ___ sat")
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["cls.predictions.decoder.bias"] = tensors.pop("cls.predictions.bias")
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    assert Filler.load(tmp_path).fill("the ___ sat") == filling


def test_nan_fills_no_gap(tmp_path: Path) -> None:
    made("Bert", "ForMaskedLM", tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["bert.encoder.layer.0.output.dense.bias"][0] = float("nan")
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(DataError, match="probabilities are not numbers"):
        Filler.load(tmp_path).fill("the ___ sat")
    with pytest.raises(DataError, match="Text 1: the model's vectors are not numbers"):
        Embedder.read(tmp_path).embed("the cat")


def test_other_spaces_than_the_one_of_a_piece_stay(tmp_path: Path) -> None:
    _, tokeniser = made("Roberta", "ForMaskedLM", tmp_path)
    filler = Filler.load(tmp_path)
    word = tokeniser.convert_tokens_to_ids("Ġcat")
    letter = tokeniser.convert_tokens_to_ids("s")
    for text, token, filled in (
        ("one\n___ two", word, "one\ncat two"),
        ("the  cat   ___ sat", word, "the  cat   cat sat"),
        ("the cat ___ sat", letter, "the cats sat"),
        ("the\tcat\t___", letter, "the\tcat\ts"),
        ("___ sat", word, "cat sat"),
    ):
        assert filler.filled(text, [token]) == filled


@pytest.mark.parametrize("settings", [{}, {"add_prefix_space": True}, {"mask_token": "<mask>"}], ids=str)
def test_roberta_needs_no_settings_of_its_tokeniser(settings: dict[str, Any], tmp_path: Path) -> None:
    _, tokeniser = made("Roberta", "ForMaskedLM", tmp_path)
    inner = json.loads((tmp_path / "tokenizer.json").read_text())["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(inner["vocab"]))
    merges = "\n".join(" ".join(pair) for pair in inner["merges"])
    (tmp_path / "merges.txt").write_text(f"#version: 0.2\n{merges}\n")
    for name in ("tokenizer.json", "special_tokens_map.json"):
        (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    theirs = transformers.RobertaTokenizer.from_pretrained(tmp_path)
    ours = HuggingFaceTokeniser.read(tmp_path)
    for text in ("", *TEXTS):
        assert ours.framed(text) == theirs(text)["input_ids"]
    assert Filler.load(tmp_path).frame.gap == tokeniser.mask_token_id


@pytest.mark.parametrize("kind", KINDS)
def test_a_tokeniser_with_short_settings_has_the_usual_tokens(kind: str, tmp_path: Path) -> None:
    _, tokeniser = made(kind, "ForMaskedLM", tmp_path)
    (tmp_path / "special_tokens_map.json").unlink(missing_ok=True)
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true, "model_max_length": 40}')
    filler = Filler.load(tmp_path)
    assert filler.frame.gap == tokeniser.mask_token_id
    assert filler.fill("the ___ sat").choices


@pytest.mark.parametrize("prefix", [True, False])
def test_a_space_before_the_first_word_follows_the_settings_beside_a_whole_tokeniser(
    prefix: bool, tmp_path: Path
) -> None:
    made("Roberta", "ForMaskedLM", tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"add_prefix_space": prefix}))
    theirs = transformers.RobertaTokenizerFast.from_pretrained(tmp_path)
    ours = HuggingFaceTokeniser.read(tmp_path)
    for text in ("", *TEXTS):
        assert ours.framed(text) == theirs(text)["input_ids"]


@pytest.mark.parametrize("place", ["tokenizer_config.json", "added_tokens.json"])
def test_tokens_that_were_added_to_a_vocabulary_are_one_piece(place: str, tmp_path: Path) -> None:
    size = len(wordpieces(tmp_path))
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    decoder = {"added_tokens_decoder": {str(size): {"content": "[NEW]", **flags}}}
    (tmp_path / place).write_text(json.dumps(decoder if place.startswith("tokenizer") else {"[NEW]": size}))
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    theirs, ours = BertTokenizerFast.from_pretrained(tmp_path), HuggingFaceTokeniser.read(tmp_path)
    for text in ("the [NEW] cat", "[NEW][new]"):
        assert ours.framed(text) == theirs(text)["input_ids"]
    assert size in ours.encode("the [NEW] cat")
    decoder["added_tokens_decoder"] = {str(size + 3): {"content": "[NEW]", **flags}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(decoder))
    with pytest.raises(DataError, match=f"give the token '\\[NEW\\]' the id {size + 3}"):
        HuggingFaceTokeniser.read(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_an_exported_classifier_has_the_logits_of_the_library(kind: str, tmp_path: Path) -> None:
    model, tokeniser = made(kind, "ForSequenceClassification", tmp_path / "in")
    out = export(tmp_path / "in", tmp_path / "out", to="onnx")
    texts = [*TEXTS, "cats"]
    given = tokeniser(texts, return_tensors="pt", padding=True)
    lengths = given["attention_mask"].sum(1).numpy()
    session = onnxruntime.InferenceSession(out / "model.onnx")
    inputs = {"tokens": given["input_ids"].numpy(), "lengths": lengths, "segments": 0 * given["input_ids"].numpy()}
    (logits,) = session.run(["logits"], inputs)
    expected = model(input_ids=given["input_ids"], attention_mask=given["attention_mask"]).logits
    torch.testing.assert_close(torch.tensor(logits), expected, atol=1e-5, rtol=0)
    described = json.loads((out / "export.json").read_text())
    meanings = described["files"]["model.onnx"]["inputs"]
    assert ("always 0" in meanings["segments"]) == (kind != "Bert")
    assert json.loads((out / "labels.json").read_text())["labels"] == list(NAMES.values())
    assert load_tokeniser(out / "text.tokeniser.json").framed(texts[0]) == tokeniser(texts[0])["input_ids"]
