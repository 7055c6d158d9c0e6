"""Tagging and classifying with every encoder: alone as in a batch, whatever the padding, and resumed to the bit.

An encoder is named by one line of a configuration, as a user would.
"""

import io
import random
import signal
import tomllib
from pathlib import Path

import pytest
import torch

from foveate.attention.efficient import EfficientConfig
from foveate.config import build, kind_of
from foveate.data.batch import Batch
from foveate.models import Tagger
from foveate.nn.packing import Packing
from foveate.tasks.classify.task import ClassifyConfig, ClassifyTask
from foveate.tasks.tag.task import TagConfig, TagTask
from foveate.tasks.tag.use import SentenceTagger
from foveate.train import TrainConfig, fit
from foveate.train.log import Quiet

CAUSAL = 'encoder_attention = { visibility = "causal()" }'
BLOCK = "model_dim = 8, num_heads = 2, feedforward_dim = 12"
SMALL = {
    "performer": "num_features = 8",
    "linformer": "max_length = 24, projected_length = 3",
    "reformer": "buckets = 4, rounds = 2, chunk = 2",
    "sinkhorn": "block = 3",
    "synthesizer": 'max_length = 24, form = "dense"',
    "local_block": "block = 3",
    "sparse": "block = 3",
    "longformer": "window = 2",
    "bigbird": "block = 2, window = 1, random = 1",
}
"""Settings of mechanisms that are smaller than the examples, so that they do what they are for."""
LINES = {
    "rnn": '{ kind = "rnn", hidden_dim = 5, num_layers = 2 }',
    "lstm": '{ kind = "rnn", cell = "lstm", hidden_dim = 5, bidirectional = false }',
    "cnn": '{ kind = "cnn", hidden_dim = 7 }',
    "window": '{ kind = "window", window = 1, hidden_dim = 7 }',
    "transformer": f'{{ kind = "transformer", block = {{ {BLOCK} }} }}',
    "ran causal": '{ kind = "ran", model_dim = 8, num_heads = 2, head_dim = 4, window = 3, causal = true }',
    "transformer causal": f'{{ kind = "transformer", block = {{ {BLOCK}, {CAUSAL} }} }}',
    "ran": '{ kind = "ran", model_dim = 8, num_heads = 2, head_dim = 4, window = 3 }',
    "bert": f'{{ kind = "bert", num_layers = 1, max_length = 24, block = {{ {BLOCK}, norm = "post" }} }}',
} | {
    kind: f'{{ kind = "transformer", num_layers = 1, block = {{ {BLOCK}, encoder_attention = {{ {line} }} }} }}'
    for kind in map(kind_of, EfficientConfig.__args__)
    for line in [", ".join([f'kind = "{kind}"', *([SMALL[kind]] if kind in SMALL else [])])]
}
"""Of the configuration's `model`: what stands after `encoder =`."""
TRAIN = TrainConfig(steps=3, validate_every=2, save_every=2, log_every=1)
DATA = {"max_length": 20, "max_tokens": 60}

encoders = pytest.mark.parametrize("encoder", LINES)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, generator = tmp_path_factory.mktemp("files"), random.Random(0)
    rows = [generator.choices("abcdef", k=1 + i % 9) for i in range(40)]
    tagged = (" ".join(f"{word}/{'D' if word in 'ab' else 'N'}" for word in row) for row in rows)
    (folder / "tagged.txt").write_text("\n".join(tagged))
    (folder / "texts.tsv").write_text("".join(f"{''.join(row)}\t{row[0] in 'abc'}\n" for row in rows))
    return folder


def prepared(kind: str, encoder: str, files: Path, run: Path) -> TagTask | ClassifyTask:
    settings = tomllib.loads(f"[model]\nencoder = {LINES[encoder]}\nembedding_dim = 6\n")
    data = {**DATA, "data": str(files / ("tagged.txt" if kind == "tag" else "texts.tsv"))}
    if kind == "tag":
        settings["model"]["character_dim"] = 4
        return TagTask.prepare(build(TagConfig, {**settings, "data": data}), run)[0]
    return ClassifyTask.prepare(build(ClassifyConfig, {**settings, "data": data}), run)[0]


@encoders
@pytest.mark.parametrize("kind", ["tag", "classify"])
def test_an_example_gets_the_same_logits_alone_as_in_a_batch(
    kind: str, encoder: str, files: Path, tmp_path: Path
) -> None:
    task = prepared(kind, encoder, files, tmp_path)
    task.model.double().eval()
    together = task.logits(task.read(task.training, range(9)))
    alone = [task.logits(task.read(task.training, [example])) for example in range(9)]
    torch.testing.assert_close(together, torch.cat(alone), rtol=0, atol=1e-10)


@encoders
def test_what_stands_in_padding_changes_no_class(encoder: str, files: Path, tmp_path: Path) -> None:
    task = prepared("classify", encoder, files, tmp_path)
    assert isinstance(task, ClassifyTask)
    task.model.double().eval()
    texts = task.training.rows([1, 5]).rows
    ids = torch.nn.functional.pad(texts.ids, (0, 3), value=5)
    ids[0, int(texts.lengths[0]) :] = 6
    torch.testing.assert_close(task.model(Batch(ids, texts.lengths)), task.model(texts), rtol=0, atol=1e-10)


@pytest.mark.parametrize("encoder", ["lstm", "ran causal", "transformer causal"])
def test_an_encoder_that_looks_back_tags_words_without_those_to_come(encoder: str, files: Path, tmp_path: Path) -> None:
    task = prepared("tag", encoder, files, tmp_path)
    assert isinstance(task, TagTask)
    task.model.double().eval()
    tagger = SentenceTagger(task.model, task.vocabulary)
    sentences = [list("abcdefabc"), list("abcdfefda")]  # one window of three, and one word
    one, other = task.model(tagger._batch(sentences)).chunk(2)
    torch.testing.assert_close(one[:4], other[:4], rtol=0, atol=1e-10)
    assert ((one - other)[4:].abs().amax(1) > 1e-6).all()


@pytest.mark.parametrize("encoder", ["ran", "ran causal"])
def test_every_word_before_reaches_a_tag_over_the_windows(encoder: str, files: Path, tmp_path: Path) -> None:
    task = prepared("tag", encoder, files, tmp_path)
    assert isinstance(task, TagTask)
    assert isinstance(task.model, Tagger)
    model = task.model.double().eval()
    batch = SentenceTagger(model, task.vocabulary)._batch([list("abcdefabcd")])
    packing = Packing(batch.words.lengths, batch.words.length)
    words = model.embed(batch).detach()[batch.words.ids[0]].requires_grad_()

    def tags(words: torch.Tensor) -> torch.Tensor:
        return model.output(model.encoder(words, packing=packing))

    reached = torch.autograd.functional.jacobian(tags, words).abs().amax((1, 3)) > 0
    expected = torch.ones(10, 10, dtype=torch.bool)
    assert torch.equal(reached, expected.tril() if encoder == "ran causal" else expected)


@encoders
@pytest.mark.parametrize("kind", ["tag", "classify"])
def test_a_run_that_was_stopped_ends_with_the_same_bits(kind: str, encoder: str, files: Path, tmp_path: Path) -> None:
    weights = []
    for stopped in (False, True):
        run = tmp_path / str(stopped)
        if stopped:
            assert fit(prepared(kind, encoder, files, run), TRAIN, run, progress=Stop()).interrupted
        assert fit(prepared(kind, encoder, files, run), TRAIN, run, resume=stopped).step == TRAIN.steps
        weights.append((run / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]


class Stop(Quiet):
    """Ctrl-C after the first step."""

    def __init__(self) -> None:
        super().__init__(io.StringIO())

    def advance(self, step: int, loss: float) -> None:
        if step == 1:
            signal.raise_signal(signal.SIGINT)
