"""A tiny random Hugging Face Marian, read from its files into our Transformer: the same logits, the same words.

The begin token of Marian is its padding id, and its own id 1 is a word like any other.
"""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import MarianConfig, MarianMTModel
from transformers.utils import logging

from foveate.data.batch import Batch
from foveate.decode import Average, BeamConfig, GreedyConfig, Hypothesis, beam_size, decode
from foveate.models import Transformer, TransformerConfig
from foveate.models.marian import configuration, from_marian, read_marian, write_marian
from foveate.nn.transformer_block import BlockConfig

PAD, END, VOCAB = 60, 0, 61
LOGITS = 1e-5  # absolute, of logits up to 10: rounding of float32 sums
LENGTH = 16

ARCHITECTURES = {
    "shared vocabulary": {"activation_function": "swish"},
    "two vocabularies": {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 70},
    "two names of one activation": {"activation_function": "gelu_new"},
    "nothing tied": {
        "share_encoder_decoder_embeddings": False,
        "tie_word_embeddings": False,
        "activation_function": "relu",
        "decoder_layers": 1,
    },
}


def hugging_face(**settings: object) -> MarianMTModel:
    torch.manual_seed(3)
    plain = {
        "vocab_size": VOCAB,
        "d_model": 16,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 24,
        "decoder_ffn_dim": 24,
        "max_position_embeddings": 64,
        "pad_token_id": PAD,
        "eos_token_id": END,
        "decoder_start_token_id": PAD,
        "forced_eos_token_id": None,
        "scale_embedding": True,
        "init_std": 0.6,
    }
    model = MarianMTModel(MarianConfig(**plain | settings)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:  # biases and norms, which start as zeros and ones
                parameter.add_(0.1 * torch.randn_like(parameter))
    model.final_logits_bias = torch.randn_like(model.final_logits_bias)
    model.final_logits_bias[0, END] = 1.0  # so that sentences end, at different lengths
    return model


def ours(theirs: MarianMTModel, folder: Path) -> Transformer:
    logging.disable_progress_bar()
    theirs.save_pretrained(folder)
    return from_marian(
        json.loads((folder / "config.json").read_text(encoding="utf-8")), load_file(folder / "model.safetensors")
    )


@pytest.fixture(scope="module")
def sources() -> list[list[int]]:
    generator = torch.Generator().manual_seed(11)
    lengths = torch.randint(1, 10, (24,), generator=generator).tolist()
    return [[*torch.randint(1, PAD, (length,), generator=generator).tolist(), END] for length in lengths]


def padded(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """As Hugging Face takes it: ids with the padding id, and a mask."""
    batch = Batch.of(rows)
    mask = torch.arange(batch.length) < batch.lengths[:, None]
    return torch.where(mask, batch.ids, PAD), mask.long()


@pytest.mark.parametrize("settings", ARCHITECTURES.values(), ids=ARCHITECTURES.keys())
def test_logits_are_those_of_hugging_face(settings: dict, sources: list[list[int]], tmp_path: Path) -> None:
    theirs = hugging_face(init_std=0.3, **settings)
    model = ours(theirs, tmp_path)
    targets = [[PAD, *reversed(source)] for source in sources]
    ids, mask = padded(sources)
    decoder_ids, decoder_mask = padded([target[:-1] for target in targets])

    with torch.no_grad():
        expected = theirs(input_ids=ids, attention_mask=mask, decoder_input_ids=decoder_ids).logits
        found = model(Batch.of(sources), Batch.of(targets))

    torch.testing.assert_close(found, expected[decoder_mask.bool()], atol=LOGITS, rtol=0)
    assert expected[decoder_mask.bool()].std() > 1  # there is something to compare


@pytest.mark.parametrize("settings", ARCHITECTURES.values(), ids=ARCHITECTURES.keys())
@torch.no_grad()
def test_what_is_written_back_has_the_same_logits_there(settings: dict, tmp_path: Path) -> None:
    theirs = hugging_face(init_std=0.3, **{"decoder_layers": 2, **settings})
    theirs.save_pretrained(tmp_path / "theirs")
    config = configuration(json.loads((tmp_path / "theirs" / "config.json").read_text(encoding="utf-8")))
    write_marian(read_marian(tmp_path / "theirs"), tmp_path / "ours", config, pad=PAD, end=END)
    back, told = MarianMTModel.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    ids, target = torch.randint(1, PAD, (3, 9)), torch.randint(1, PAD, (3, 7))
    expected, found = (model.eval()(input_ids=ids, decoder_input_ids=target).logits for model in (theirs, back))
    torch.testing.assert_close(found, expected, atol=LOGITS, rtol=0)


def test_what_marian_has_not_is_not_written(tmp_path: Path) -> None:
    config = TransformerConfig(block=BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12))
    with pytest.raises(ValueError, match="this model differs"):
        write_marian(config.build(9, 9), tmp_path / "out", config, pad=0, end=1)


WIDE = {"d_model": 64, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96, "init_std": 0.2}
"""Wide enough for a step of a few rows to be one kernel."""


@pytest.fixture(scope="module", params=[{}, WIDE], ids=["narrow", "wide"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[MarianMTModel, Transformer]:
    theirs = hugging_face(**request.param)
    return theirs, ours(theirs, tmp_path_factory.mktemp("marian"))


def generated(model: MarianMTModel, sources: list[list[int]], **settings: object) -> list[tuple[int, ...]]:
    ids, mask = padded(sources)
    with torch.no_grad():
        rows = model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=LENGTH,
            do_sample=False,
            bad_words_ids=[[PAD]],
            **settings,
        )[:, 1:].tolist()
    ended = [row[: row.index(END)] if END in row else row for row in rows]
    return [tuple(token for token in row if token != PAD) for row in ended]


def decoded(model: Transformer, sources: list[list[int]], config: GreedyConfig | BeamConfig) -> list[list[Hypothesis]]:
    with torch.no_grad():
        state = model.start(Batch.of(sources), beam_size(config))
    return decode(model, state, sentences=len(sources), config=config, begin=PAD, end=END)


@pytest.mark.parametrize("no_repeat_ngram", [0, 1, 2])
def test_greedy_decoding_gives_what_generate_gives(
    pair: tuple[MarianMTModel, Transformer], sources: list[list[int]], no_repeat_ngram: int
) -> None:
    theirs, model = pair
    expected = generated(theirs, sources, num_beams=1, no_repeat_ngram_size=no_repeat_ngram)

    found = decoded(model, sources, GreedyConfig(max_length=LENGTH, forbid=(PAD,), no_repeat_ngram=no_repeat_ngram))

    assert [best.tokens for [best] in found] == expected
    assert no_repeat_ngram == 0 or len({len(tokens) for tokens in expected}) > 4  # else a random model just repeats


@pytest.mark.parametrize("no_repeat_ngram", [0, 2])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_beam_search_gives_what_generate_gives(
    pair: tuple[MarianMTModel, Transformer], sources: list[list[int]], alpha: float, no_repeat_ngram: int
) -> None:
    theirs, model = pair
    expected = generated(
        theirs,
        sources,
        num_beams=4,
        num_return_sequences=4,
        length_penalty=alpha,
        early_stopping=False,
        no_repeat_ngram_size=no_repeat_ngram,
    )
    config = BeamConfig(
        beam=4,
        num_best=4,
        length_penalty=Average(alpha=alpha),
        max_length=LENGTH,
        forbid=(PAD,),
        no_repeat_ngram=no_repeat_ngram,
    )

    found = decoded(model, sources, config)

    assert [best.tokens for sentence in found for best in sentence] == expected


@pytest.mark.parametrize(
    "config", [GreedyConfig(max_length=LENGTH, forbid=(PAD,)), BeamConfig(max_length=LENGTH, forbid=(PAD,))]
)
def test_one_sentence_at_a_time_gives_what_generate_gives(
    pair: tuple[MarianMTModel, Transformer], sources: list[list[int]], config: GreedyConfig | BeamConfig
) -> None:
    theirs, model = pair
    expected = generated(theirs, sources, num_beams=beam_size(config), early_stopping=False, length_penalty=1.0)

    found = [decoded(model, [source], config)[0][0].tokens for source in sources]

    assert found == expected
