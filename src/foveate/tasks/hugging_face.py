"""Folders of Hugging Face: which command serves which kind of model."""

from pathlib import Path

from foveate.errors import UsageError
from foveate.storage.run import model_type_of

KINDS = {
    "marian": "translate",
    "gpt2": "generate",
    "llama": "generate",
    "bert": "fill",
    "roberta": "fill",
    "distilbert": "fill",
}
"""The kinds of models that are read, and the command that each serves."""


def require_kind(folder: Path | str, *kinds: str) -> str:
    """Which of the kinds a Hugging Face folder holds. Raises UsageError when it is another."""
    found = model_type_of(folder)
    if found is None or found not in kinds:
        commands = "; ".join(f"{model}: foveate {command}" for model, command in KINDS.items())
        wanted = " or ".join(map(repr, kinds))
        raise UsageError(f"{folder} holds a model of the kind {found!r}, and this needs {wanted} ({commands}).")
    return found
