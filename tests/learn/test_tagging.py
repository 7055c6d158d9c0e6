"""`I saw a saw`: every encoder that sees its context gives the word two tags, and a layer that sees one word cannot."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from foveate.attention.efficient import EfficientConfig
from foveate.nn.encoder import WindowEncoderConfig

PATH = Path(__file__).parents[2] / "examples" / "tagging" / "run.py"


def load() -> ModuleType:
    specification = importlib.util.spec_from_file_location("tagging", PATH)
    assert specification
    assert specification.loader
    module = importlib.util.module_from_spec(specification)
    sys.modules["tagging"] = module
    specification.loader.exec_module(module)
    return module


example = load()


@pytest.mark.parametrize("name", [name for name in example.ALL if name != "word"])
def test_an_encoder_with_context_gives_the_same_word_two_tags(name: str, tmp_path: Path) -> None:
    tagger = example.trained(example.ALL[name], tmp_path)
    (said,) = tagger.tag([example.SENTENCE])
    assert said.tags == ("PRON", "VERB", "DET", "NOUN")
    assert example.accuracy(tagger) >= 0.95


def test_every_efficient_kind_of_attention_is_trained() -> None:
    assert {type(config) for config in example.EFFICIENT.values()} == set(EfficientConfig.__args__)


def test_a_fully_connected_layer_without_context_cannot(tmp_path: Path) -> None:
    tagger = example.trained(WindowEncoderConfig(window=0, hidden_dim=32), tmp_path)
    (said,) = tagger.tag([example.SENTENCE])
    assert said.tags[1] == said.tags[3]
    assert said.probabilities[1] == said.probabilities[3]
    assert example.accuracy(tagger) <= 0.85
