"""What `foveate` exports, and what merely naming it costs."""

import ast
import inspect
import os
import subprocess
import sys
from importlib.metadata import version
from operator import attrgetter
from pathlib import Path

import pytest

import foveate
from foveate.cli.program import commands

NAMES = [
    "Additive",
    "Alignment",
    "Attention",
    "AttentionRecord",
    "BERTConfig",
    "BahdanauConfig",
    "ClassifyConfig",
    "ClassifyTask",
    "Dot",
    "Embedder",
    "Filler",
    "FixedContextConfig",
    "GPTConfig",
    "General",
    "Generator",
    "LanguageModel",
    "LanguageModelTask",
    "LanguageModelTaskConfig",
    "LuongConfig",
    "MaskedLanguageModelConfig",
    "MaskedLanguageModelTask",
    "MultiHeadAttention",
    "Positions",
    "RecurrentLanguageModelConfig",
    "ScaledDot",
    "SentenceTagger",
    "Seq2Seq",
    "Softmax",
    "TagConfig",
    "TagTask",
    "TextClassifier",
    "TrainConfig",
    "TransformerConfig",
    "TranslateConfig",
    "TranslateTask",
    "Translation",
    "Translator",
    "Visibility",
    "WordVectors",
    "causal",
    "compare",
    "everything",
    "fit",
    "padding",
    "record",
    "train_translator",
    "tune",
    "window",
]

WITHOUT_TORCH = """
import contextlib, io, sys
import foveate, foveate.errors, foveate.data.text, foveate.data.tokeniser, foveate.storage.run
from foveate.cli import main
from foveate.cli.program import commands
for words in ([], *([command] for command in commands())):
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        main([*words, "--help"])
    print(*words, *sorted({"torch", "numpy"} & set(sys.modules)))
"""


def test_the_exported_names_are_the_stored_ones() -> None:
    assert foveate.__all__ == NAMES
    assert dir(foveate) == sorted([*NAMES, *foveate._PACKAGES])


def test_all_names_have_types() -> None:
    """A type checker does not run `__getattr__`: it reads the stub."""
    stub = ast.parse(Path(foveate.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    homes = [(node.module, node.names[0]) for node in stub.body if isinstance(node, ast.ImportFrom)]
    assert {(home, name.name, name.asname) for home, name in homes} == {
        (home, name, name) for home, names in {**foveate._HOMES, "foveate": foveate._PACKAGES}.items() for name in names
    }


PACKAGES = """
import importlib, sys
import foveate
name = sys.argv[1]
package = foveate
for part in name.split("."):
    package = getattr(package, part)
print(package is importlib.import_module(f"foveate.{name}"))
"""


def test_packages_need_no_import_of_their_own() -> None:
    """Each in a program of its own, where nothing else has imported it."""
    for name in ("inspect", "hugging_face", "inspect.hugging_face", "errors"):
        done = subprocess.run(
            [sys.executable, "-c", PACKAGES, name],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        assert done.stdout == "True\n"
    # A package is missing here exactly if it is private.
    root = Path(foveate.__file__).parent
    private = {"cli", "native", "shipped"}
    modules = {path.parent.name for path in root.glob("*/__init__.py")} | {"errors"}
    assert set(foveate._PACKAGES) == modules - private


def test_the_version_is_that_of_the_installed_package() -> None:
    assert foveate.__version__ == version("foveate")


def test_every_exported_name_is_there() -> None:
    for name in NAMES:
        assert getattr(foveate, name).__module__.startswith("foveate.")


def test_a_name_that_is_not_exported_is_refused_with_those_that_are() -> None:
    with pytest.raises(AttributeError) as caught:
        _ = foveate.softmax
    assert str(caught.value) == f"module 'foveate' has no attribute 'softmax'. It has: {', '.join(NAMES)}."


def test_neither_the_import_nor_any_help_needs_torch_or_numpy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert done.stdout.splitlines() == ["", *commands()]


KEYWORDS = {
    "BERTConfig.build_encoder": "vocab",
    "BahdanauConfig.build": "source_vocab target_vocab",
    "ClassifyConfig.classifier": "vocab labels",
    "FixedContextConfig.build": "source_vocab target_vocab",
    "LuongConfig.build": "source_vocab target_vocab",
    "TextClassifier.classify": "texts",
    "TransformerConfig.build": "source_vocab target_vocab",
    "models.Classifier": "config vocab labels",
    "models.ClassifierConfig.build": "vocab labels",
    "models.Transformer": "config source_vocab target_vocab",
}


@pytest.mark.parametrize("name", KEYWORDS)
def test_arguments_keep_the_names_that_callers_pass_them_by(name: str) -> None:
    parameters = inspect.signature(attrgetter(name)(foveate)).parameters
    assert " ".join(each for each in parameters if each != "self") == KEYWORDS[name]
