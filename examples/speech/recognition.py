"""Recognises strings of spoken digits: errors per word, and whether each word was heard where it was spoken.

    python examples/speech/digits.py free-spoken-digit-dataset/recordings digits/
    python examples/speech/recognition.py digits/ --out demo/digits
    python examples/speech/recognition.py digits/ --out demo/digits --variant window-4 --variant all --seeds 0,1,2
    python examples/speech/recognition.py digits/ --out demo/digits --set reader.augmentation=none --seconds 60
    python examples/speech/counting.py numbers/
    python examples/speech/recognition.py numbers/ --config examples/speech/counting.toml --out demo/numbers \\
        --variant window-16 --test numbers/test-en.tsv --test numbers/test-fr.tsv --test digits/test.tsv

Each variant changes some settings of digits.toml, or of another configuration. All learn from the same strings for
about the same time on one thread: the number of steps follows from the time that one step takes. The table has, for the
test recordings, which are the official ones of the digits:

* **errors per word** (WER) and the share of strings without an error, in percent;
* **pointing**: of the words in strings without an error, the share that was heard within the time in which it was
  spoken, in percent. A word is heard at the output at which CTC's probability of its label is largest;
* the **latency** in seconds: how long a stream waits after a frame before it writes what the frame says, by the
  look-ahead of subsampling and layers; none for an encoder that reads the whole recording first;
* the processor's seconds of the training, with the preparation of data and validation.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from foveate.data.audio_file import Clip
from foveate.data.batch import Batch
from foveate.data.label_track import Segment, read_track
from foveate.data.text import read_lines
from foveate.decode import best_path
from foveate.errors import UsageError
from foveate.metrics.transcription import Edits
from foveate.tasks.transcribe.use import Transcriber

sys.path.append(str(Path(__file__).parents[1]))
from figures import keep, show
from measure import Recipe, measuring

CONFIGURATION = Path(__file__).parent / "digits.toml"
RESULTS = Path(__file__).parent / "results.json"
WINDOW = "model.encoder.block.encoder_attention.visibility=window(left={0}, right={0})"
VARIANTS: dict[str, Sequence[str]] = {
    "window-4": (WINDOW.format(4),),
    "window-16": (WINDOW.format(16),),
    "window-64": (WINDOW.format(64),),
    "all": ("model.encoder.block.encoder_attention.visibility=everything()",),
    "bilstm": ("model.encoder={ kind = 'rnn', cell = 'lstm', hidden_dim = 64, num_layers = 2 }",),
    "alone": ("model.encoder={ kind = 'window', window = 0, hidden_dim = 256, num_layers = 2 }",),
    "neighbours-5": ("model.encoder={ kind = 'window', window = 5, hidden_dim = 256, num_layers = 2 }",),
    "attention": ("model.decoder=recurrent", "model.ctc_weight=0"),
    "joint": ("model.decoder=recurrent", "model.ctc_weight=0.3"),
}
"""The settings in which each variant differs from digits.toml."""
NEAR = 0.02
"""Seconds before and after a word that still belong to it: two frames."""
GROUP = 40


@dataclass(frozen=True)
class Heard:
    """The words of a recording, and the second at which each was heard."""

    words: tuple[str, ...]
    seconds: tuple[float, ...]


def main(argv: Sequence[str] | None = None) -> int:
    parser = measuring(__doc__, out=Path("demo/digits"), results=RESULTS, seconds=300, variants=VARIANTS)
    parser.add_argument("digits", type=Path, help="the folder that digits.py or counting.py has written")
    parser.add_argument(
        "--config", type=Path, default=CONFIGURATION, help="configuration of the variants (digits.toml)"
    )
    parser.add_argument("--test", type=Path, action="append", help="table to test on; may be repeated (test.tsv)")
    parser.add_argument("--set", action="append", default=[], metavar="SETTING", help="of all variants")
    arguments = parser.parse_args(argv)
    data = {"data": arguments.digits / "train.tsv", "valid_data": arguments.digits / "valid.tsv"}
    recipe = Recipe(task="transcribe", configuration=arguments.config, data=data)
    table = ", ".join([f"{arguments.config.stem}, {arguments.seconds:g} s", *arguments.set])
    tests = arguments.test or [arguments.digits / "test.tsv"]
    out = arguments.out / "-".join(["runs", *(re.sub(r"\W+", "-", one) for one in arguments.set)])
    for variant in arguments.variant or VARIANTS:
        for seed in arguments.seeds:
            run, settings = out / f"{variant}-{seed}-{arguments.seconds:g}", [*arguments.set, *VARIANTS[variant]]
            spent = recipe.train(settings, seed, run, store=out / "store", seconds=arguments.seconds)
            transcriber = Transcriber.load(run)
            figures = latency(transcriber)
            for test in tests:
                place = "" if len(tests) == 1 else f" {test.parent.name}/{test.stem}"
                figures |= {f"{name}{place}": figure for name, figure in score(transcriber, test).items()}
            keep(table, variant, seed, {**figures, **spent}, path=arguments.results)
            show(table, path=arguments.results)
    return 0


def score(transcriber: Transcriber, table: Path) -> dict[str, float]:
    """Errors and pointing on the recordings of a table, in percent."""
    folder, rows = table.parent, [line.split("\t") for line in read_lines(table)]
    texts = dict(rows)
    answers = [one.text for one in transcriber.transcribe([Clip(folder / name) for name in texts])]
    edits = Edits.of_words(list(texts.values()), answers)
    right = sum(answer == text for answer, text in zip(answers, texts.values(), strict=True))
    figures = {"WER": 100 * edits.rate, "strings right": 100 * right / len(texts)}
    return {**figures, **pointing(transcriber, folder, texts)}


def pointing(transcriber: Transcriber, folder: Path, texts: Mapping[str, str]) -> dict[str, float]:
    """The share of words that CTC heard in their time, in percent; nothing for a model without CTC."""
    if transcriber.model.ctc_output is None:
        return {}
    heard = zip(texts, listened(transcriber, [folder / name for name in texts]), strict=True)
    right = [(name, one) for name, one in heard if " ".join(one.words) == texts[name]]
    spoken = [(read_track(folder / Path(name).with_suffix(".txt")).segments, one.seconds) for name, one in right]
    inside = [within(second, part) for parts, seconds in spoken for part, second in zip(parts, seconds, strict=True)]
    return {"pointing": 100 * sum(inside) / len(inside)} if inside else {}


def latency(transcriber: Transcriber) -> dict[str, float]:
    """The look-ahead of a stream in seconds; nothing for an encoder that reads the whole recording first."""
    try:
        return {"latency": transcriber.model.stream().look_ahead * transcriber.hop / transcriber.model.stride}
    except UsageError:
        return {}


@torch.inference_mode()
def listened(transcriber: Transcriber, paths: Sequence[Path]) -> list[Heard]:
    """The words of recordings by CTC's best path, each with the second of its largest probability."""
    output = transcriber.hop
    first = float(getattr(transcriber.rows, "first", 0.0))
    heard = []
    for start in range(0, len(paths), GROUP):
        rows = [transcriber.row(Clip(path)) for path in paths[start : start + GROUP]]
        for one in best_path(*transcriber.model.ctc(Batch.of(rows))):
            words = tuple(transcriber.tokeniser.decode([token]) for token in one.tokens)
            heard.append(Heard(words, tuple(first + frames.peak * output for frames in one.frames)))
    return heard


def within(second: float, part: Segment) -> bool:
    return part.start - NEAR <= second <= part.end + NEAR


if __name__ == "__main__":
    raise SystemExit(main())
