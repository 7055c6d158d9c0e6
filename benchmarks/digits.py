"""SpeechBrain's CTC recipe on the strings of digits of `examples/speech`, for the same time of the processor as ours.

    python examples/speech/digits.py free-spoken-digit-dataset/recordings digits/
    python benchmarks/digits.py digits/ --seconds 300 --seeds 0,1,2
    python examples/speech/recognition.py digits/ --seconds 300 --variant window-16 --seeds 0,1,2

The time is that of training in one thread. Features are part of it, as in the recipe, which computes them for every
batch; ours are computed once, in the seconds that the column `preparation` of our table has. Needs `pip install
--no-deps speechbrain hyperpyyaml ruamel.yaml huggingface_hub joblib requests`, after torch.
"""

import argparse
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import torch
from peers import speechbrain

from foveate.metrics.transcription import Edits

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("digits", type=Path, help="the folder that examples/speech/digits.py has written")
    parser.add_argument("--seconds", type=float, default=300, help="the processor's seconds of training (300)")
    parser.add_argument("--seeds", default="0", help="random starts, such as 0,1,2 (0)")
    parser.add_argument("--cell", default="LiGRU", help="the recurrent cell of SpeechBrain, such as LSTM (LiGRU)")
    arguments = parser.parse_args(argv)
    if find_spec("speechbrain") is None:
        parser.error("SpeechBrain is not installed: --help names its packages")
    torch.set_num_threads(1)
    training, rate = speechbrain.read(arguments.digits / "train.tsv", WORDS)
    test, _ = speechbrain.read(arguments.digits / "test.tsv", WORDS)
    for seed in map(int, arguments.seeds.split(",")):
        model, steps, spent = speechbrain.train(
            training, rate, 1 + len(WORDS), seconds=arguments.seconds, seed=seed, cell=arguments.cell
        )
        weights = sum(parameter.numel() for parameter in model.parameters())
        written = speechbrain.transcribe(model, [sound for sound, _ in test])
        pairs = zip((labels for _, labels in test), written, strict=True)
        edits = Edits.total(Edits.between(labels, answer) for labels, answer in pairs)
        print(
            f"seed {seed}: WER {100 * edits.rate:.1f} %, {weights:,} weights, {steps:,} steps in {spent:.0f} s of the "
            "processor",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
