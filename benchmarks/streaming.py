"""Recognition while the sound arrives: computation per second of audio, delay of each piece, and memory of the state.

python benchmarks/streaming.py --threads 1                  # 2 minutes
python benchmarks/streaming.py --rounds 10                  # on a busy machine: the least of several runs

A recogniser of 4 layers (width 128, 4 heads, subsampling by 4, 40 log-mel energies of 8 kHz) reads 20 s in pieces, from
samples to text. `factor` is seconds of computation for one second of audio, `delay` the time from the end of a piece to
the text after it, and `computation` the CPU's part of it, which is the delay on a machine without other work: the
median and the 99th percentile. `latency` is what the rule makes an output wait for, without
computation. The whole recording at once is beside it. Times are the least of the rounds, for each piece, because other
programs can only add to them. Weights are random: times do not depend on them.
"""

import argparse
import statistics
import time
from typing import Any

import numpy as np
import race
import torch

from foveate import machine
from foveate.attention import AttentionConfig, Visibility, chunk, window
from foveate.data.audio import AudioReader, AudioRows
from foveate.data.audio_file import Recording
from foveate.data.batch import Batch
from foveate.data.tokeniser import CharacterTokeniser
from foveate.decode import CTCConfig, prefix_search
from foveate.models import RecogniserConfig
from foveate.nn import BlockConfig, TransformerEncoderConfig
from foveate.tasks.transcribe.text_stream import TextStream

RATE, SECONDS = 8000, 20
PIECES = (0.04, 0.16, 0.64)
"""Seconds of sound in a piece."""
RULES: dict[str, Visibility] = {
    "window 16, 2 after": window(left=16, right=2),
    "window 16, 16 after": window(left=16, right=16),
    "chunk 16, 4 before": chunk(16, left=4),
}
LETTERS = CharacterTokeniser.train(["abcdefghijklmnopqrstuvwxyz '"])


def recognition(rule: Visibility) -> tuple[Any, AudioRows]:
    torch.manual_seed(0)
    reader = AudioReader(rate=RATE, bands=40)
    rows = AudioRows(settings=reader, mean=(9.0,) * 40, deviation=(3.0,) * 40)
    block = BlockConfig(
        model_dim=128,
        num_heads=4,
        feedforward_dim=512,
        norm="pre",
        encoder_attention=AttentionConfig(visibility=rule),
    )
    config = RecogniserConfig(encoder=TransformerEncoderConfig(block=block, num_layers=4))
    return config.build(rows.input, LETTERS.vocab_size).eval(), rows


def measured(stream: TextStream, samples: np.ndarray, seconds: float, rounds: int = 1) -> dict[str, float]:
    """CPU seconds for all pieces, and CPU and wall time of each: the least of the rounds."""
    size, spent = round(seconds * RATE), list[list[tuple[float, float]]]()
    for _ in range(rounds):
        state = stream.begin()
        spent.append([])
        for start in range(0, len(samples), size):
            begin = time.process_time(), time.perf_counter()
            state, partial = stream.advance(state, samples[start : start + size], last=start + size >= len(samples))
            spent[-1].append((time.process_time() - begin[0], time.perf_counter() - begin[1]))
        stream.text(partial)
    computed, passed = np.array(spent).min(0).T.tolist()
    return {
        "factor": min(sum(piece[0] for piece in run) for run in spent) / SECONDS,
        "median computation": statistics.median(computed),
        "99th percentile of computation": statistics.quantiles(computed, n=100)[98],
        "median delay": statistics.median(passed),
        "99th percentile of delays": statistics.quantiles(passed, n=100)[98],
    }


def whole(model: Any, rows: AudioRows, samples: np.ndarray) -> float:
    """CPU seconds for the whole recording at once."""
    begin = time.process_time()
    with torch.inference_mode():
        row = rows.row(Recording("sound", samples, RATE))
        prefix_search(*model.ctc(Batch.of([row])), CTCConfig())
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3, help="runs, whose least times count (3)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    machine.tune()
    samples = np.random.default_rng(0).normal(0, 0.1, RATE * SECONDS).clip(-1, 1).astype(np.float32)
    lines = []
    for name, rule in RULES.items():
        model, rows = recognition(rule)
        stream = TextStream(model, rows, LETTERS)
        measured(stream, samples[: 4 * RATE], PIECES[0])
        whole(model, rows, samples)
        at_once = min(whole(model, rows, samples) for _ in range(3)) / SECONDS
        for seconds in PIECES:
            numbers = measured(stream, samples, seconds, options.rounds)
            latency = stream.latency
            line = {"rule": name, "piece": seconds, **numbers, "factor of the whole at once": at_once}
            lines.append({**line, "latency": latency.worst, "mean latency": latency.mean})
            print(
                f"{name}, pieces of {1000 * seconds:.0f} ms: {numbers['factor']:.4f} s per second of audio (whole at "
                f"once {at_once:.4f}), computation {1000 * numbers['median computation']:.1f} ms, 99th percentile "
                f"{1000 * numbers['99th percentile of computation']:.1f} ms, delay "
                f"{1000 * numbers['median delay']:.1f} ms, 99th percentile "
                f"{1000 * numbers['99th percentile of delays']:.1f} ms, latency {latency}",
                flush=True,
            )
    print(
        race.save(
            "streaming",
            {"machine": race.machine(options.threads), "seconds": SECONDS, "rounds": options.rounds, "streams": lines},
        )
    )


if __name__ == "__main__":
    main()
