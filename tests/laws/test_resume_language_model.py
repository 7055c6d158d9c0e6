"""A language model's run that was stopped, anywhere and often, ends with the same bits as one that was left alone."""

import hashlib
import io
import signal
from pathlib import Path

import pytest

from foveate.data.tokeniser import ByteConfig
from foveate.models import (
    GPTConfig,
    LanguageModelConfig,
    LlamaConfig,
    RANLanguageModelConfig,
    RecurrentLanguageModelConfig,
)
from foveate.nn import BlockConfig, LearnedConfig
from foveate.tasks.language_model.task import LanguageModelTask, LanguageModelTaskConfig
from foveate.tasks.text_task import TextConfig
from foveate.train import TrainConfig, fit
from foveate.train.log import Quiet

TRAIN = TrainConfig(steps=23, validate_every=5, save_every=10, log_every=1, learning_rate=1e-2)
MODELS = {
    "gpt": GPTConfig(
        block=BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12, norm="pre", attention_dropout=0.1),
        num_layers=1,
        position=LearnedConfig(max_length=16),
    ),
    "llama": LlamaConfig(
        model_dim=8, num_heads=2, num_kv_heads=1, feedforward_dim=12, num_layers=1, max_length=16, attention_dropout=0.1
    ),
    "ran": RANLanguageModelConfig(model_dim=8, num_heads=2, head_dim=4, window=5),
    "recurrent": RecurrentLanguageModelConfig(embedding_dim=6, hidden_dim=8, num_layers=2),
}


class StopAt(Quiet):
    """Ctrl-C after an update."""

    def __init__(self, step: int) -> None:
        super().__init__(io.StringIO())
        self.step = step

    def advance(self, step: int, loss: float) -> None:
        if step == self.step:
            signal.raise_signal(signal.SIGINT)


def ends(model: LanguageModelConfig, folder: Path, text: Path, stops: tuple[int, ...]) -> tuple[str, list[str]]:
    """The final weights' digest, and the log without its times."""
    data = TextConfig(text=str(text), block_length=8, max_tokens=32)
    config = LanguageModelTaskConfig(data=data, tokeniser=ByteConfig(), model=model)
    LanguageModelTask.prepare(config, folder)
    for step in (*stops, -1):
        task = LanguageModelTask.open(config, folder)
        outcome = fit(task, TRAIN, folder, resume=True, progress=StopAt(step))
        assert outcome.interrupted == (step > 0)
    rows = (folder / "metrics.jsonl").read_text().splitlines()
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    return digest, [row.split(', "seconds"')[0].split(', "tokens_per_second"')[0] for row in rows]


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_a_resumed_run_ends_with_the_same_bits(model: LanguageModelConfig, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("".join(f"the square of {number} is {number * number}\n" for number in range(40)))
    alone = ends(model, tmp_path / "alone", text, ())
    assert ends(model, tmp_path / "stopped", text, (1, 4, 5, 16)) == alone
