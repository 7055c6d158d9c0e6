"""A model without attention is refused with the command that trains one of the same task that attends."""

import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from foveate.config import assign, build
from foveate.errors import UsageError
from foveate.inspect import observe
from foveate.models.classifier import ClassifierConfig
from foveate.models.recurrent_language_model import RecurrentLanguageModelConfig
from foveate.models.tagger import TaggerConfig
from foveate.models.transformer import TransformerConfig
from foveate.nn.pooling import MeanPoolingConfig
from foveate.storage.checkpoint import model_tensors, save_final
from foveate.tasks import TASKS
from foveate.tasks.run_model import traced, trained


@pytest.mark.parametrize(
    ("task", "config", "sizes"),
    [
        ("tag", TaggerConfig(), (9, 3, 9)),
        ("classify", ClassifierConfig(pooling=MeanPoolingConfig()), (9, 3)),
        ("language_model", RecurrentLanguageModelConfig(), (9,)),
    ],
)
def test_the_refusal_names_what_attends(task: str, config: Any, sizes: tuple[int, ...]) -> None:
    model = config.build(*sizes).eval()
    with observe(model) as recording:
        pass
    with pytest.raises(UsageError, match=f"`foveate train {task}` with --set .* trains one that attends") as refused:
        traced(model, recording, ["a"], "a", attending=import_module(f"foveate.tasks.{task}.use").ATTENDING)
    assignment = shlex.split(str(refused.value).partition("--set ")[2])[0]
    kind = TASKS[task].side.run_config
    attends = build(kind, assign({}, [assignment])).model.build(*sizes)
    with observe(attends) as recording:
        pass
    assert any("attention" in name for name, _ in attends.named_modules())


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
def test_a_run_is_opened_with_another_default_type_of_torch(tmp_path: Path, kind: torch.dtype) -> None:
    config = TransformerConfig(encoder_layers=1, decoder_layers=1)
    saved = config.build(9, 9)
    save_final(tmp_path, model_tensors(saved), {})
    torch.set_default_dtype(kind)
    try:
        opened = trained(tmp_path, lambda: config.build(9, 9), print)
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(torch.equal(one, other) for one, other in zip(opened.parameters(), saved.parameters(), strict=True))
    assert {tensor.dtype for tensor in (*opened.parameters(), *opened.buffers())} == {torch.float32}
