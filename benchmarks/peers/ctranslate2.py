"""CTranslate2: a Hugging Face Marian converted by its own converter's parts, in fp32 or int8."""

from pathlib import Path

import ctranslate2
from contract import BOS, EOS, PAD, Rows
from ctranslate2.converters.converter import Converter
from ctranslate2.converters.transformers import BartLoader
from torch import nn
from transformers import MarianMTModel


class _Marian(Converter):
    """Its Marian loader reads tokenizer files and drops the last token; its parent takes the ids as they are."""

    def __init__(self, marian: nn.Module) -> None:
        self.marian = marian

    def _load(self) -> ctranslate2.specs.TransformerSpec:
        self.marian.config.normalize_before = False
        self.marian.config.normalize_embedding = False
        spec = BartLoader().get_model_spec(self.marian)
        vocabulary = [name(token) for token in range(self.marian.config.vocab_size)]
        spec.register_source_vocabulary(vocabulary)
        spec.register_target_vocabulary(vocabulary)
        spec.config.decoder_start_token = name(BOS)
        return spec


def name(token: int) -> str:
    """Ids as the strings that CTranslate2 takes."""
    return {PAD: "<pad>", BOS: "<s>", EOS: "</s>", 3: "<unk>"}.get(token, f"t{token}")


def convert(marian: Path) -> Path:
    """The converted model beside the Marian of this folder, written once: it is quantised at load."""
    folder = marian.with_name(f"{marian.name}-ctranslate2")
    if not (folder / "model.bin").exists():
        _Marian(MarianMTModel.from_pretrained(marian)).convert(str(folder), force=True)
    return folder


class Translate:
    """`translate_batch` on one batch, in this process, on the given number of threads."""

    def __init__(self, folder: Path, compute_type: str, threads: int) -> None:
        self.translator = ctranslate2.Translator(
            str(folder), device="cpu", compute_type=compute_type, inter_threads=1, intra_threads=threads
        )
        self.numbers = {name(token): token for token in range(100_000)}

    def __call__(self, sources: Rows, beam: int, max_new_tokens: int) -> list[list[int]]:
        answers = self.translator.translate_batch(
            [[name(token) for token in row] for row in sources],
            beam_size=beam,
            length_penalty=1.0,
            max_decoding_length=max_new_tokens,
            max_input_length=0,
        )
        return [[self.numbers[token] for token in answer.hypotheses[0]] for answer in answers]


def translator(folder: Path, precision: str, threads: int) -> Translate:
    return Translate(convert(folder), precision, threads)
