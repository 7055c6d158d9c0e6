"""Spelling to pronunciation: a bidirectional GRU reads letters, a GRU with Bahdanau attention writes phones.

    python examples/pronunciation/run.py

`make demo` runs this program. It holds out 1,000 test and 1,000 validation words of the CMU dictionary, trains on the
other 122,926 with the settings of `run.toml`, scores the test words, shows the attention for each phone, and writes a
report. It uses the commands of Foveate, so that each step can be repeated separately:

    foveate train translate examples/pronunciation/run.toml --source demo/data/train.tsv --out demo/run ...
    foveate evaluate demo/run --source demo/data/test.tsv --report demo/report.html
    foveate translate demo/run "foveate" --align

On a second call a finished training is used, and an interrupted one continues.

The split is random by word, as is usual for this task: a test word is not in the training data, but related words may
be ("abandon" in training, "abandoned" in the test).
"""

import argparse
import lzma
import random
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from foveate.cli import main as foveate

HERE = Path(__file__).parent
DICTIONARY = HERE.parent / "data" / "cmudict.tsv.xz"
SEED = 1
SHOWN = 3
ONE_THREAD = ["--threads", "1"]  # the tensors are too small for a second thread
SMALL = ["train.steps=4", "train.validate_every=2", "model.hidden_dim=8", "model.embedding_dim=8", "model.maxout_dim=8"]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for data, run and report (demo)")
    parser.add_argument("--small", action="store_true", help="a few words and steps, to test the code")
    arguments = parser.parse_args(argv)
    started = time.monotonic()
    data, run = arguments.out / "data", arguments.out / "run"
    test = split(data, held_out=10 if arguments.small else 1000, most=300 if arguments.small else None)
    code = train(data, run, SMALL if arguments.small else [])
    if code:
        return code
    say(f"\n{len(test):,} unseen words (PER: phone error; SER: word error, which is any wrong phone):")
    report = arguments.out / "report.html"
    code = foveate(["evaluate", str(run), "--source", str(data / "test.tsv"), "--report", str(report), *ONE_THREAD])
    say(f"\n{SHOWN} of these words, with the attention for each phone:")
    shown = [word for word in test if word.isalpha() and 7 <= len(word) <= 9][:SHOWN]
    code = code or foveate(["translate", str(run), *shown, "--align", *ONE_THREAD])
    say(f"That took {time.monotonic() - started:.0f} seconds. The report, with curves and pictures: {report}")
    say(f'Now try a word of your own:\n\n    {shlex.quote(command())} translate {run} "foveate" --align\n')
    return code


def split(folder: Path, *, held_out: int, most: int | None) -> list[str]:
    """Write train.tsv, valid.tsv and test.tsv, reproducible by the seed; return the test words."""
    with lzma.open(DICTIONARY, "rt", encoding="utf-8") as file:
        rows = file.readlines()
    random.Random(SEED).shuffle(rows)
    parts = {"test": rows[:held_out], "valid": rows[held_out : 2 * held_out], "train": rows[2 * held_out : most]}
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in parts.items():
        (folder / f"{name}.tsv").write_text("".join(part), encoding="utf-8")
    return [row.split("\t")[0] for row in parts["test"]]


def train(data: Path, run: Path, settings: Sequence[str]) -> int:
    """Train, or continue an interrupted training, or keep a finished one."""
    if (run / "model.json").exists():
        say(f"{run} is trained already. (`make clean`, or another --out, starts again.)")
        return 0
    if (run / "checkpoints").exists():
        say(f"{run} was interrupted and continues now.")
        return foveate(["resume", str(run), *ONE_THREAD])
    shutil.rmtree(run, ignore_errors=True)
    files = ["--source", str(data / "train.tsv"), "--valid-source", str(data / "valid.tsv"), "--out", str(run)]
    return foveate(
        ["train", "translate", str(HERE / "run.toml"), *files, *ONE_THREAD, *(f"--set={one}" for one in settings)]
    )


def command() -> str:
    """The command `foveate` of this environment."""
    beside = Path(sys.executable).parent / "foveate"
    near = Path.cwd() in beside.parents
    return str(beside.relative_to(Path.cwd()) if near else beside) if beside.exists() else "foveate"


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
