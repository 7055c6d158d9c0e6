"""SpeechBrain's CTC recipe: filterbanks, its CRDNN (convolutions, bidirectional recurrent layers, a linear layer), CTC.

The recipe is that of `recipes/TIMIT/ASR/CTC` of SpeechBrain 1.1: 40 filterbanks of its own, mean and variance of each
sentence and of the training data, CRDNN with layers that halve the bands and a pooling over time by 4, Adadelta with
rate 1, batches of 8, greedy decoding. Two things differ: the widths, which are chosen so that the model has about as
many weights as ours, and the words of digits instead of phones as labels. The recipe's recurrent cell is LiGRU, which
runs step by step in Python; "LSTM" is faster. Nothing of torchaudio is used: SpeechBrain imports it for reading files,
which soundfile does here, so that a machine without it can run this.
"""

import sys
import time
import types
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path

import numpy as np
import soundfile
import torch
from torch import Tensor, nn

BATCH = 8
BLANK = 0
Clips = Sequence[tuple[np.ndarray, list[int]]]


def speechbrain_parts() -> types.SimpleNamespace:
    """The parts of SpeechBrain that the recipe uses, imported with an empty torchaudio if none loads."""
    try:
        import torchaudio  # noqa: F401
    except (ImportError, OSError):
        empty = types.ModuleType("torchaudio")
        empty.__dict__.update(__version__="2.1.0", __spec__=ModuleSpec("torchaudio", None))
        empty.__dict__["list_audio_backends"] = lambda: ["soundfile"]
        sys.modules["torchaudio"] = empty
    from speechbrain.decoders import ctc_greedy_decode
    from speechbrain.lobes.features import Fbank
    from speechbrain.lobes.models.CRDNN import CRDNN
    from speechbrain.nnet import RNN
    from speechbrain.nnet.losses import ctc_loss
    from speechbrain.processing.features import InputNormalization

    return types.SimpleNamespace(
        ctc_greedy_decode=ctc_greedy_decode,
        Fbank=Fbank,
        CRDNN=CRDNN,
        RNN=RNN,
        ctc_loss=ctc_loss,
        InputNormalization=InputNormalization,
    )


class Recipe(nn.Module):
    """Features, CRDNN, a linear layer."""

    def __init__(self, rate: int, labels: int, *, cell: str = "LiGRU", width: int = 160) -> None:
        super().__init__()
        self.parts = speechbrain_parts()
        self.features = self.parts.Fbank(sample_rate=rate, n_fft=256, n_mels=40)
        self.normalise = self.parts.InputNormalization(norm_type="sentence")
        self.network = self.parts.CRDNN(
            input_shape=[None, None, 40],
            activation=nn.LeakyReLU,
            dropout=0.15,
            cnn_blocks=2,
            cnn_channels=(16, 32),
            cnn_kernelsize=(3, 3),
            time_pooling=True,
            time_pooling_size=4,
            rnn_class=getattr(self.parts.RNN, cell),
            rnn_layers=2,
            rnn_neurons=width,
            rnn_bidirectional=True,
            dnn_blocks=2,
            dnn_neurons=width,
        )
        self.output = nn.Linear(width, labels)

    def forward(self, sounds: Tensor, shares: Tensor) -> Tensor:
        """Log-probabilities; `shares` are SpeechBrain's lengths, as shares of the longest."""
        with torch.no_grad():
            frames = self.normalise(self.features(sounds), shares)
        return self.output(self.network(frames)).log_softmax(-1)


def train(
    clips: Clips, rate: int, labels: int, *, seconds: float, seed: int, cell: str = "LiGRU"
) -> tuple[Recipe, int, float]:
    """The recipe after this time of the processor, with the number of steps and the time that was spent."""
    torch.manual_seed(seed)
    model = Recipe(rate, labels, cell=cell)
    optimiser = torch.optim.Adadelta(model.parameters(), lr=1.0, rho=0.95, eps=1e-8)
    begin, steps = time.process_time(), 0
    for sounds, shares, targets, target_shares in _batches(clips, np.random.default_rng(seed)):
        model.train()
        loss = model.parts.ctc_loss(model(sounds, shares), targets, shares, target_shares, blank_index=BLANK)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimiser.step()
        steps += 1
        if time.process_time() - begin >= seconds:
            break
    return model, steps, time.process_time() - begin


@torch.inference_mode()
def transcribe(model: Recipe, sounds: Sequence[np.ndarray]) -> list[list[int]]:
    """The labels of each sound by the best path."""
    model.eval()
    one = torch.ones(1)
    answers = (model(torch.from_numpy(sound)[None], one) for sound in sounds)
    return [model.parts.ctc_greedy_decode(answer, one, blank_id=BLANK)[0] for answer in answers]


def read(table: Path, words: Sequence[str]) -> tuple[list[tuple[np.ndarray, list[int]]], int]:
    """The sounds of a table with the numbers of their words, from 1, and their rate."""
    clips, rate = [], 0
    for line in table.read_text(encoding="utf-8").splitlines():
        name, text = line.split("\t")
        sound, rate = soundfile.read(table.parent / name, dtype="float32")
        clips.append((sound, [1 + words.index(word) for word in text.split()]))
    return clips, rate


def _batches(clips: Clips, generator: np.random.Generator) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Batches of sounds of similar lengths, in random order, for ever."""
    while True:
        order = np.argsort([len(sound) + generator.normal(0, 2000) for sound, _ in clips])
        groups = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
        for group in generator.permutation(len(groups)):
            chosen = [clips[number] for number in groups[group]]
            yield (*_padded([sound for sound, _ in chosen]), *_padded([np.array(labels) for _, labels in chosen]))


def _padded(rows: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
    longest = max(len(row) for row in rows)
    padded = torch.from_numpy(np.stack([np.pad(row, (0, longest - len(row))) for row in rows]))
    return padded, torch.tensor([len(row) / longest for row in rows])
