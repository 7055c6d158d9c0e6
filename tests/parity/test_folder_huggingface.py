"""Whole folders of Hugging Face, tokenisers and all, made here and small: what the library says of them, we say."""

import json
import math
import shutil
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import normalize
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertModel,
    BertTokenizerFast,
    GPT2Config,
    GPT2LMHeadModel,
    GPT2TokenizerFast,
    MarianConfig,
    MarianMTModel,
    MarianTokenizer,
)
from transformers.utils import logging

from foveate import Filler, Generator, Translator
from foveate.cli import main
from foveate.data.tokeniser import HuggingFaceTokeniser, MarianTokeniser, SentencePieceTokeniser, load_tokeniser
from foveate.decode import BeamConfig, GreedyConfig, SampleConfig
from foveate.errors import DataError, UsageError
from foveate.tasks.embedder import Embedder
from foveate.tasks.translate.translation_trace import trace_of

TEXTS = [
    "The cat sat on the mat.",
    "A dog, un-believably, ran after 3 cats!",
    "Où est le café? naïve façade",
    "the the the mat",
    "Cats and dogs: [MASK] are [SEP] special <|endoftext|> 漢字",
]
LINES = [*TEXTS, *(" ".join(line.split()[::-1]) for line in TEXTS)]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def shaken(model: nn.Module) -> Any:
    logging.disable_progress_bar()
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


@pytest.fixture(scope="module")
def wordpiece(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT's `vocab.txt`."""
    import tokenizers

    inner = tokenizers.BertWordPieceTokenizer(lowercase=True)
    inner.train_from_iterator(LINES, vocab_size=90, show_progress=False, special_tokens=SPECIAL)
    folder = tmp_path_factory.mktemp("wordpiece")
    inner.save_model(str(folder))
    return folder


@pytest.fixture(scope="module")
def bert(wordpiece: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    tokeniser = BertTokenizerFast(str(wordpiece / "vocab.txt"))
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
    shaken(BertForMaskedLM(BertConfig(vocab_size=len(tokeniser), **sizes))).save_pretrained(folder)
    tokeniser.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2 with `vocab.json` and `merges.txt` only."""
    import tokenizers

    folder = tmp_path_factory.mktemp("gpt2")
    inner = tokenizers.ByteLevelBPETokenizer()
    inner.train_from_iterator(LINES, vocab_size=300, show_progress=False, special_tokens=["<|endoftext|>"])
    inner.save_model(str(folder))
    end = inner.token_to_id("<|endoftext|>")
    config = GPT2Config(
        vocab_size=300, n_embd=16, n_layer=2, n_head=4, n_positions=64, bos_token_id=end, eos_token_id=end
    )
    shaken(GPT2LMHeadModel(config)).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("marian")
    for side in ("source", "target"):
        trained = SentencePieceTokeniser.train(LINES, vocab_size=330, model_type="unigram")
        (folder / f"{side}.spm").write_bytes(trained.model)
    pieces = trained.pieces(range(4, trained.vocab_size))
    vocab = {"</s>": 0, "<unk>": 1, ">>fr<<": 2, **{piece: 3 + number for number, piece in enumerate(pieces)}}
    vocab["<pad>"] = len(vocab)
    (folder / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False))
    sizes = {"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
    ends = {"pad_token_id": len(vocab) - 1, "eos_token_id": 0, "decoder_start_token_id": len(vocab) - 1}
    config = MarianConfig(
        vocab_size=len(vocab),
        d_model=16,
        encoder_ffn_dim=24,
        decoder_ffn_dim=24,
        scale_embedding=True,
        forced_eos_token_id=None,
        **sizes,
        **ends,
    )
    model = shaken(MarianMTModel(config))
    model.final_logits_bias = torch.randn_like(model.final_logits_bias)
    model.final_logits_bias[0, 0] += 3.0
    model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("text", TEXTS)
def test_wordpiece_cuts_as_the_library_does(wordpiece: Path, bert: Path, text: str) -> None:
    theirs = AutoTokenizer.from_pretrained(bert)
    expected = theirs(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    for folder in (wordpiece, bert):
        ours = HuggingFaceTokeniser.read(folder)
        assert ours.encode(text) == expected
        assert ours.framed(text) == [theirs.cls_token_id, *expected, theirs.sep_token_id]
        assert ours.pieces(expected) == theirs.convert_ids_to_tokens(expected)
        assert ours.id_of("mask") == theirs.mask_token_id
        for (start, stop), piece in zip(ours.spans(text), ours.pieces(ours.encode(text)), strict=True):
            if piece != "[UNK]":
                assert len(text[start:stop]) == len(piece.removeprefix("##"))
    assert HuggingFaceTokeniser.read(bert).decode(expected) == theirs.decode(expected)


@pytest.mark.parametrize("text", TEXTS)
def test_byte_pairs_cut_as_the_library_does(gpt2: Path, text: str, tmp_path: Path) -> None:
    theirs = GPT2TokenizerFast.from_pretrained(gpt2)
    ours = HuggingFaceTokeniser.read(gpt2)
    expected = theirs(text, split_special_tokens=True)["input_ids"]
    assert ours.encode(text) == ours.framed(text) == expected
    assert ours.decode(expected) == text
    assert ours.id_of("eos") == theirs.eos_token_id
    ours.save(tmp_path / "kept.json")
    assert load_tokeniser(tmp_path / "kept.json").encode(text) == expected


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
@pytest.mark.parametrize("text", [*TEXTS, ">>fr<< The cat"])
def test_marian_cuts_as_the_library_does(marian: Path, text: str, tmp_path: Path) -> None:
    theirs = MarianTokenizer.from_pretrained(marian)
    config = json.loads((marian / "config.json").read_text())
    ours = MarianTokeniser.read(marian, "source", pad=config["pad_token_id"], end=config["eos_token_id"])
    found = ours.encode(text)
    expected = theirs.convert_ids_to_tokens(theirs(text)["input_ids"][:-1])
    assert ours.pieces(found) == expected
    assert ours.decode(found) == theirs.convert_tokens_to_string(expected)
    ours.save(tmp_path / "kept.json")
    kept = load_tokeniser(tmp_path / "kept.json")
    assert kept.encode(text) == found
    assert kept.digest() == ours.digest()


@pytest.mark.parametrize("settings", [{"add_bos_token": True}, {"add_prefix_space": True}], ids=str)
def test_settings_of_gpt2_s_tokeniser_are_those_of_the_library(
    settings: dict[str, bool], gpt2: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "gpt2"
    shutil.copytree(gpt2, folder)
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    theirs, ours = GPT2TokenizerFast.from_pretrained(folder), HuggingFaceTokeniser.read(folder)
    for text in ("", *TEXTS):
        assert ours.framed(text) == theirs(text, split_special_tokens=True)["input_ids"]


@torch.no_grad()
def test_gpt2_goes_on_as_generate_does(gpt2: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, tokeniser = GPT2LMHeadModel.from_pretrained(gpt2).eval(), GPT2TokenizerFast.from_pretrained(gpt2)
    generator = Generator.load(gpt2)
    for prompt in ("The cat", " sat on the mat.\nA dog", "Où"):
        given = tokeniser(prompt, return_tensors="pt")
        said = model.generate(**given, max_new_tokens=12, do_sample=False, pad_token_id=tokeniser.eos_token_id)
        expected = tokeniser.decode(said[0], skip_special_tokens=True, clean_up_tokenization_spaces=False)
        [found] = generator.generate(prompt, config=GreedyConfig(max_length=12))
        assert str(found) == expected
        assert main(["generate", str(gpt2), prompt, "--set", "kind=greedy", "--length", "12", "--no-tune"]) == 0
        assert capsys.readouterr().out == f"{expected}\n"
    assert generator.generate("", length=3)
    with pytest.raises(DataError, match="64 positions"):
        generator.generate("cat " * 70)


@pytest.mark.parametrize("token", [0, 1])
@torch.no_grad()
def test_the_first_ids_are_tokens_like_any_other(gpt2: Path, token: int) -> None:
    """In GPT-2 they are "!" and a quotation mark; here the first one is the end of a text."""
    generator = Generator.load(gpt2)
    vectors = generator.model.get_parameter("embedding.weight")
    vectors[token] *= 20 / vectors[token].norm()  # longer than all others
    generator.model.get_parameter("norm.bias").copy_(100 * vectors[token])
    for config in (GreedyConfig(max_length=4), SampleConfig(max_length=4), BeamConfig(max_length=4, beam=2)):
        [continuation] = generator.generate("The cat", config=config)[:1]
        assert continuation.hypothesis.tokens == (() if token == generator._end else (token,) * 4)
        assert continuation.hypothesis.finished == (token == generator._end)
    [continuation] = generator.generate("The cat", config=GreedyConfig(max_length=4, forbid=(token,)))
    assert token not in continuation.hypothesis.tokens


@torch.no_grad()
def test_a_text_costs_what_the_library_says(gpt2: Path) -> None:
    model, tokeniser = GPT2LMHeadModel.from_pretrained(gpt2).eval(), GPT2TokenizerFast.from_pretrained(gpt2)
    text = f"{TEXTS[0]}\n{TEXTS[3]}\n"
    ids = torch.tensor([[tokeniser.eos_token_id, *tokeniser(text)["input_ids"]]])
    figures = Generator.load(gpt2).evaluate(text.splitlines())
    assert figures["loss"] == pytest.approx(float(model(ids, labels=ids).loss), abs=1e-5)
    bits = figures["loss"] * (ids.shape[1] - 1) / math.log(2) / len(text.encode())
    assert figures["bits_per_byte"] == pytest.approx(bits)
    with pytest.raises(UsageError, match="blocks have 64"):
        Generator.load(gpt2).evaluate([text], context=64)


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
@torch.no_grad()
def test_marian_translates_as_generate_does(marian: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, tokeniser = MarianMTModel.from_pretrained(marian).eval(), MarianTokenizer.from_pretrained(marian)
    pad = model.config.pad_token_id
    translator = Translator.load(marian)
    config = GreedyConfig(forbid=translator.config.forbid)
    for text in TEXTS[:3]:
        given = tokeniser(text, return_tensors="pt")
        limit = 2 * given["input_ids"].shape[1] + 10
        settings: dict[str, Any] = {"max_new_tokens": limit, "do_sample": False, "bad_words_ids": [[pad]]}
        greedy, searched = (model.generate(**given, **settings, num_beams=beams) for beams in (1, 4))
        [found] = translator.translate([text], config=config)
        assert found.text == tokeniser.decode(greedy[0], skip_special_tokens=True)
        [found] = translator.translate([text])
        assert found.text == tokeniser.decode(searched[0], skip_special_tokens=True)
        expected = model(**given, labels=searched[:, 1:]).loss * (searched.shape[1] - 1)
        if found.finished:
            assert found.hypotheses[0].log_probability == pytest.approx(-float(expected), abs=1e-4)
        [alignment] = translator.align([found])
        assert alignment.weights.shape[1] == given["input_ids"].shape[1]
        assert main(["translate", str(marian), text, "--no-split"]) == 0
        assert capsys.readouterr().out == f"{found.text}\n"
    [apart] = translator.translate([unicodedata.normalize("NFD", found.source)])  # letters apart from their accents
    for one in (found, apart):
        track = trace_of(translator, one).tracks["source"]
        assert track.offsets is not None
        assert track.text == found.source
        for (start, stop), label in zip(track.offsets, track.labels, strict=True):
            if label != "</s>" and not label.startswith("<0x"):
                assert track.text[int(start) : int(stop)].strip() == label.strip("▁")


SEARCHES: list[dict[str, Any]] = [
    {"num_beams": 3, "no_repeat_ngram_size": 1},
    {"num_beams": 4, "length_penalty": 3.0},
    {"num_beams": 4, "length_penalty": 0.2},
    {"num_beams": 2, "min_length": 9},
    {"num_beams": 4, "max_length": 5},
    {"num_beams": 1, "max_length": 2},
    {"num_beams": 2, "max_new_tokens": 3, "suppress_tokens": []},
    {"num_beams": 2, "min_new_tokens": 8},
]


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
@pytest.mark.parametrize("search", SEARCHES, ids=str)
@torch.no_grad()
def test_marian_decodes_as_its_folder_says(search: dict[str, Any], marian: Path, tmp_path: Path) -> None:
    folder = tmp_path / "marian"
    shutil.copytree(marian, folder)
    usual = json.loads((folder / "generation_config.json").read_text())
    pad = usual["pad_token_id"]
    (folder / "generation_config.json").write_text(json.dumps({**usual, "bad_words_ids": [[pad]], **search}))
    model, tokeniser = MarianMTModel.from_pretrained(folder).eval(), MarianTokenizer.from_pretrained(folder)
    translator = Translator.load(folder)
    for text in TEXTS[:3]:
        given = tokeniser(text, return_tensors="pt")
        limit = (
            {}
            if {"max_length", "max_new_tokens"} & {*search}
            else {"max_new_tokens": 2 * given["input_ids"].shape[1] + 10}
        )
        expected = model.generate(**given, do_sample=False, **limit)[0]
        assert translator.translate([text])[0].text == tokeniser.decode(expected, skip_special_tokens=True)


def test_a_search_that_ours_lacks_is_named(marian: Path, tmp_path: Path) -> None:
    folder = tmp_path / "marian"
    shutil.copytree(marian, folder)
    for settings, says in (
        ({"repetition_penalty": 1.2}, "asks for repetition_penalty=1.2, which this search lacks"),
        ({"pad_token_id": 5, "bad_words_ids": [[5], [7]]}, r"asks for bad_words_ids=\[\[5\], \[7\]\]"),
        ({"num_beams": "4"}, "num_beams='4', which must be a whole number"),
        ({"length_penalty": -1.0}, "asks for a search that cannot be: alpha must not be negative"),
    ):
        (folder / "generation_config.json").write_text(json.dumps(settings))
        with pytest.raises(DataError, match=says):
            Translator.load(folder)


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_marian_goes_to_another_engine(marian: Path) -> None:
    config = GreedyConfig(forbid=(0,))
    own, other = (Translator.load(marian, engine=name) for name in ("own", "ctranslate2"))
    for text in TEXTS[:3]:
        assert own.translate([text], config=config)[0].text == other.translate([text], config=config)[0].text


@torch.no_grad()
def test_bert_fills_gaps_as_the_library_does(bert: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, tokeniser = BertForMaskedLM.from_pretrained(bert).eval(), AutoTokenizer.from_pretrained(bert)
    filled = Filler.load(bert).fill("The ___ sat on the ___.", best=4)
    given = tokeniser("The [MASK] sat on the [MASK].", return_tensors="pt")
    shares = model(**given).logits[0][given["input_ids"][0] == tokeniser.mask_token_id].softmax(-1)
    shares[:, tokeniser.all_special_ids] = 0
    best = shares.topk(4)
    for choices, ids, values in zip(filled.choices, best.indices, best.values, strict=True):
        assert [piece for piece, _ in choices] == tokeniser.convert_ids_to_tokens(ids)
        assert [share for _, share in choices] == pytest.approx(values.tolist(), abs=1e-5)
    one, other = (choices[0][0].removeprefix("##") for choices in filled.choices)
    assert filled.text == f"The {one} sat on the {other}."
    assert main(["fill", str(bert), "The ___ sat on the ___.", "--look", "--no-tune"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{filled.text}\n")
    assert "all attention" in said


def test_bert_fills_gaps_of_pairs_as_the_library_does(bert: Path) -> None:
    text, second = "The ___ sat.", "A ___ ran!"
    filled = Filler.load(bert).fill(f"{text}\t{second}", best=3)
    tokeniser = AutoTokenizer.from_pretrained(bert)
    read = tokeniser(*(part.replace("___", "[MASK]") for part in (text, second)), return_tensors="pt")
    assert read["token_type_ids"].any()
    with torch.no_grad():
        logits = BertForMaskedLM.from_pretrained(bert).eval()(**read).logits
    logits = logits[read["input_ids"] == tokeniser.mask_token_id]
    logits[:, tokeniser.all_special_ids] = -torch.inf
    for choices, expected in zip(filled.choices, logits, strict=True):
        best = expected.topk(3).indices.tolist()
        assert [piece for piece, _ in choices] == tokeniser.convert_ids_to_tokens(best)
    assert filled.text.count("\t") == 1
    assert "___" not in filled.text


@pytest.mark.parametrize("modes", [("mean",), ("cls",), ("max", "mean")], ids="-".join)
@pytest.mark.parametrize("normalised", [True, False])
@torch.no_grad()
def test_vectors_are_those_of_sentence_transformers(
    bert: Path, tmp_path: Path, modes: tuple[str, ...], normalised: bool
) -> None:
    theirs, tokeniser = BertModel.from_pretrained(bert).eval(), AutoTokenizer.from_pretrained(bert)
    theirs.save_pretrained(tmp_path)
    tokeniser.save_pretrained(tmp_path)
    steps = [("", "Transformer"), ("1_Pooling", "Pooling"), *([("2_Normalize", "Normalize")] if normalised else [])]
    listed = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate(steps)
    ]
    (tmp_path / "modules.json").write_text(json.dumps(listed))
    (tmp_path / "1_Pooling").mkdir()
    names = {"mean": "mean_tokens", "cls": "cls_token", "max": "max_tokens"}
    pooling = {f"pooling_mode_{name}": mode in modes for mode, name in names.items()}
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 16, **pooling}))

    embedder = Embedder.read(tmp_path)
    found = embedder.embed(TEXTS[:4])

    given = tokeniser(TEXTS[:4], return_tensors="pt", padding=True)
    hidden, mask = theirs(**given).last_hidden_state, given["attention_mask"][..., None]
    pooled = {
        "cls": hidden[:, 0],
        "max": hidden.masked_fill(mask == 0, -1e9).amax(1),
        "mean": (hidden * mask).sum(1) / mask.sum(1),
    }
    expected = torch.cat([pooled[mode] for mode in ("cls", "max", "mean") if mode in modes], -1)
    expected = normalize(expected, dim=-1) if normalised else expected
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(embedder.embed(TEXTS[2:3])[0], found[2], atol=1e-6, rtol=0)
    torch.testing.assert_close(
        embedder.similarity(TEXTS[:2], TEXTS[2:4]), normalize(expected[:2]) @ normalize(expected[2:4]).mT
    )


def test_a_prompt_of_the_folder_stands_before_each_text(bert: Path, tmp_path: Path) -> None:
    folder = tmp_path / "prompted"
    shutil.copytree(bert, folder)
    (folder / "modules.json").write_text('[{"type": "x.Transformer", "path": ""}]')
    plain = Embedder.read(folder)
    prompts = {"prompts": {"query": "the dog "}, "default_prompt_name": "query"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    prompted = Embedder.read(folder)
    assert torch.equal(prompted.embed("sat"), plain.embed("the dog sat"))
    assert prompted.trace("sat").tracks["source"].labels == plain.trace("the dog sat").tracks["source"].labels
    (folder / "config_sentence_transformers.json").write_text('{"prompts": {}, "default_prompt_name": "query"}')
    with pytest.raises(DataError, match="names the prompt 'query', which is not among its prompts"):
        Embedder.read(folder)


def test_a_text_that_is_too_long_is_refused_or_cut(bert: Path, tmp_path: Path) -> None:
    embedder = Embedder.read(bert)
    long = "cat " * 600
    with pytest.raises(DataError, match="Text 2 has 602 tokens, but the model reads 512"):
        embedder.embed(["cat", long])
    assert embedder.embed([long], shorten=True).shape == (1, 16)


def test_a_folder_of_small_letters_reads_them(bert: Path, wordpiece: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cased"
    shutil.copytree(bert, folder)
    BertTokenizerFast(str(wordpiece / "vocab.txt"), do_lower_case=False).save_pretrained(folder)
    assert not torch.equal(*Embedder.read(folder).embed(["The Cat", "the cat"]))
    (folder / "modules.json").write_text('[{"type": "x.Transformer", "path": ""}]')
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 128, "do_lower_case": true}')
    embedder = Embedder.read(folder)
    assert torch.equal(*embedder.embed(["The Cat", "the cat"]))
    large, small = (embedder.trace(text).tracks["source"].labels for text in ("The Cat", "the cat"))
    assert large == small


def test_a_trace_of_a_sentence_keeps_its_characters(bert: Path) -> None:
    text = "The cat sat on the mat."
    trace = Embedder.read(bert).trace(text)
    track = trace.tracks["source"]
    assert track.text == text
    assert track.offsets is not None
    assert track.labels[0] == "[CLS]"
    cut = [text[int(start) : int(stop)].lower() for start, stop in track.offsets]
    assert cut[1:-1] == [label.removeprefix("##") for label in track.labels[1:-1]]
    assert len(trace.sites) == 2


def test_folders_are_scored_as_runs_are(
    gpt2: Path, marian: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_text("\n".join(TEXTS))
    assert main(["evaluate", str(gpt2), "--text", str(tmp_path / "text"), "--json", "--no-tune"]) == 0
    assert json.loads(capsys.readouterr().out)["perplexity"] > 1
    sides = ["--source", str(tmp_path / "text"), "--target", str(tmp_path / "text")]
    assert main(["evaluate", str(marian), *sides, "--beam", "1", "--no-tune"]) == 0
    assert "chrF" in capsys.readouterr().out
    (tmp_path / "config.json").write_text('{"model_type": "t5"}')
    assert main(["evaluate", str(tmp_path), "--text", str(tmp_path / "text"), "--no-tune"]) == 3
    assert (
        "contains a t5 with model type 't5'; supported types of Hugging Face are marian, gpt2, llama, bert, "
        in capsys.readouterr().err
    )


def test_a_folder_without_a_training_has_no_report_of_it(
    gpt2: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_text("\n".join(TEXTS))
    page = str(tmp_path / "page.html")
    assert main(["evaluate", str(gpt2), "--text", str(tmp_path / "text"), "--report", page, "--no-tune"]) == 2
    assert main(["report", str(gpt2), "--no-tune"]) == 2
    said = capsys.readouterr()
    assert not said.out  # nothing was worked out in vain
    assert said.err.count("comes without one") == 2


@pytest.mark.parametrize(("command", "kind"), [("generate", "bert"), ("translate", "gpt2")])
def test_a_folder_of_another_kind_is_refused_in_words(
    command: str, kind: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = request.getfixturevalue(kind)
    assert main([command, str(folder), "x", "--no-tune"]) == 2
    said = capsys.readouterr().err
    assert f"holds a model of the kind '{kind}'" in said
    assert "foveate fill" in said


@pytest.mark.parametrize(
    ("lost", "says"),
    [("vocab.json", "has no vocab.json"), ("source.spm", "has no source.spm"), ("model.safetensors", "has no model")],
)
def test_a_folder_that_lacks_a_file_says_which(marian: Path, tmp_path: Path, lost: str, says: str) -> None:
    for path in marian.iterdir():
        if path.name != lost:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(DataError, match=says):
        Translator.load(tmp_path)


def test_a_folder_without_tokeniser_says_what_is_looked_for(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"neither tokenizer\.json nor vocab\.txt nor vocab\.json with merges\.txt"):
        HuggingFaceTokeniser.read(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(DataError, match="cannot be read"):
        HuggingFaceTokeniser.read(tmp_path)
