"""Answers all lines of a file, in parts that several processes or machines may share.

The lines are taken 512 at a time, and part k of n has every n-th of these pieces: batches are the same however many
parts there are, and so is every byte. Each piece is written completely or not at all, so that a killed process goes on
behind its last one. A finished part is one file, beside a description with the digests of its text, of the input and
of the model, by which `merge` refuses parts that do not belong together.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from foveate import __version__
from foveate.config import build
from foveate.data.text import read_lines
from foveate.errors import DataError, FoveateError, UsageError
from foveate.storage.draft import (
    TEMPORARY,
    disk_errors,
    remove_drafts,
    remove_stale,
    replace_file,
    require_writable,
    write_file,
)
from foveate.storage.manifest import file_digest, read_json, write_json
from foveate.storage.shipped import run_folder
from foveate.storage.staging import is_remote, staged
from foveate.suggestion import counted, listing, missing_file
from foveate.tasks.option import CHUNK, given
from foveate.tasks.side import Side
from foveate.voice import say, tell, watched

FORMAT = "foveate part 1"
WEIGHTS = "model.safetensors"
CHANGING = {"best.json", "metrics.jsonl"}
"""Files of a run's folder that do not change its answers."""
MODELS = {"run", "ensemble"}
"""Arguments that name models, whose digests count in place of their names."""
APART = {"command", "inputs", "input", "output", "part", "merge", "threads", "no_tune", "quiet", "debug"}
"""Arguments that do not change an answer."""
DRAWINGS = ("align", "look")
STREAMS = re.compile(r"-|/dev/(?:stdout|stderr|fd/.*)|/proc/self/fd/.*")
"""Names of what a shell has opened: a file behind it may have other content."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """Everything that determines the answers to a file."""

    version: str
    command: str
    input: str
    """SHA-256 of the file."""
    model: str
    """SHA-256 of the model's files; of several models, joined by a plus sign."""
    settings: str
    """The options of the command line that change answers."""

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> "Job":
        settings = {name: value for name, value in vars(arguments).items() if name not in APART | MODELS}
        runs = [arguments.run, *getattr(arguments, "ensemble", ())]
        return cls(
            version=__version__,
            command=arguments.command,
            input=_input_digest(arguments.input),
            model="+".join(model_digest(run_folder(run)) for run in runs),
            settings=json.dumps(settings, sort_keys=True),
        )

    def differences(self, other: "Job") -> str:
        """A clause that names what differs."""
        names = {"version": "version of foveate", "settings": "options"}
        own, others = asdict(self), asdict(other)
        return f"other {listing((names.get(name, name) for name in own if own[name] != others[name]), 5)}"


@dataclass(frozen=True, kw_only=True)
class _Description:
    """A finished part: its place, its text, and the bytes of each piece."""

    format: str
    part: int
    of: int
    lines: int
    """Lines of the whole input."""
    pieces: tuple[int, ...]
    sha256: str
    job: Job


def answer_corpus(side: Side, arguments: argparse.Namespace) -> None:
    """Answer a part of a file, all of it, or merge the parts. Raises UsageError for options that do not go together,
    DataError for parts that are missing, damaged, or of another job.
    """
    _require_options(arguments)
    output = Path(arguments.output)
    if STREAMS.fullmatch(arguments.output) or (output.exists() and not output.is_file()):
        raise UsageError(
            f"--output {arguments.output} is a folder, a device, a pipe or a standard stream, but the answers are put "
            "together in a file. "
            "Name one; with `< FILE > OUTPUT` answers are written at once."
        )
    output = output.resolve()  # behind a link
    parts = _Parts(output.with_name(f"{output.name}.parts"))
    if arguments.merge:
        parts.require_job(Job.of(arguments))
        _merge(parts, output)
        return
    number, count = arguments.part or (1, 1)
    parts.require_count(count)
    is_new = not output.exists()
    require_writable(output)
    if is_new:
        output.unlink(missing_ok=True)  # a file there is a complete one
    job = Job.of(arguments)
    parts.require_job(job)
    if parts.description(number, count) is None:
        _answer_part(side, arguments, parts, job, number, count)
    else:
        say(f"Part {number} of {count} is complete.")
    if arguments.part is None:
        _merge(parts, output)
    else:
        say(f"It is in {parts.text(number, count)}. When all {count} are there: --merge in place of --part.")


def model_digest(run: Path) -> str:
    """SHA-256 of all files of a run that answers depend on.

    Raises UsageError for a run without final weights, whose best checkpoint may be another one tomorrow.
    """
    if not any(run.glob("*.safetensors")):
        raise UsageError(
            f"{run} has no {WEIGHTS}: its training is not finished, and the parts of a corpus need one model. "
            "Finish it with `foveate resume`, or translate standard input."
        )
    files = [path for path in run.iterdir() if path.is_file() and path.suffix not in {".html", ".md", ".log"}]
    files += [path for path in [run / "data" / "train" / "source" / "index.json"] if path.exists()]
    files = [path for path in files if path.name not in CHANGING and not path.name.startswith(".")]
    digests = sorted((str(path.relative_to(run)), file_digest(path)) for path in files)
    return hashlib.sha256(json.dumps(digests).encode()).hexdigest()


class _Parts:
    """The folder of parts beside the output."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def text(self, number: int, count: int) -> Path:
        return self.folder / f"{number}-of-{count}.txt"

    def work(self, number: int, count: int) -> Path:
        """The folder of the pieces of an unfinished part."""
        return self.folder / f"{number}-of-{count}"

    def described(self) -> dict[tuple[int, int], Path]:
        """The descriptions of finished parts, by number and count."""
        paths = (path for path in sorted(self.folder.glob("*-of-*.json")) if path.with_suffix(".txt").exists())
        names = {path: path.stem.split("-of-") for path in paths}
        return {(int(name[0]), int(name[1])): path for path, name in names.items() if all(map(str.isdecimal, name))}

    def require_count(self, count: int | None = None) -> int:
        """The number of parts that the finished ones belong to. Raises DataError for several numbers, or another."""
        counts = {count for _, count in self.described()} | ({count} if count else set())
        if not counts:
            raise DataError(f"{self.folder} has no finished part. Answer parts with --part 1/N to N/N first.")
        if len(counts) > 1:
            numbers = " and ".join(map(str, sorted(counts)))
            raise DataError(f"{self.folder} has parts of {numbers} parts. Delete those that do not belong together.")
        return counts.pop()

    def require_job(self, job: Job) -> None:
        """Raises DataError for a finished part of another job, with which no other part could be merged."""
        for path in self.described().values():
            require_same(_read(path).job, job, path)

    def description(self, number: int, count: int) -> _Description | None:
        """A finished part, checked against its own digest; None if it is not finished."""
        path = self.text(number, count).with_suffix(".json")
        if not (path.exists() and self.text(number, count).exists()):
            return None
        description = _read(path)
        if file_digest(self.text(number, count)) != description.sha256:
            raise DataError(
                f"{self.text(number, count)} has changed since it was written: its SHA-256 differs. Delete it with its "
                ".json, and answer the part again."
            )
        return description


def _read(path: Path) -> _Description:
    """The description in a file, of this version's format."""
    description = build(_Description, read_json(path), where=f"{path}:")
    if description.format != FORMAT:
        raise DataError(f"{path} has the format {description.format!r}; this version reads {FORMAT!r}.")
    return description


def require_same(old: Job, new: Job, place: Path) -> None:
    """Raise DataError for a part of another job."""
    if old != new:
        raise DataError(
            f"{place} belongs to another job ({new.differences(old)}). Delete {place.parent} to begin again, or "
            "name another --output."
        )


def _answer_part(side: Side, arguments: argparse.Namespace, parts: _Parts, job: Job, number: int, count: int) -> None:
    work = parts.work(number, count)
    with disk_errors(work):
        work.mkdir(parents=True, exist_ok=True)
    remove_stale(work)
    identity = work / "job.json"
    done = {int(path.stem) for path in work.glob("*.txt") if path.stem.isdecimal()}
    if done and identity.exists():
        require_same(build(Job, read_json(identity), where=f"{identity}:"), job, identity)
    write_json(identity, asdict(job))
    if done:
        say(f"{counted(len(done), 'piece')} of {CHUNK} lines of part {number} are there already.")
    answering, lines, pieces = None, 0, 0
    for piece, texts in watched(enumerate(_pieces(arguments.input)), f"× {CHUNK} lines"):
        first, lines, pieces = lines, lines + len(texts), piece + 1
        if piece % count != number - 1 or piece in done:
            continue
        answering = answering or side.answering(arguments)
        try:
            answers = "".join(f"{line}\n" for line in answering.lines(texts, first))
        except FoveateError:
            tell(f"The error is in lines {first + 1:,} to {lines:,} of {arguments.input}.")
            raise
        write_file(work / f"{piece}.txt", answers.encode("utf-8", "surrogatepass"))
    if _input_digest(arguments.input) != job.input:
        raise DataError(f"{arguments.input} has changed while its lines were read. Delete {work}, and begin again.")
    if answering is not None and (remark := answering.remark()):
        say(remark)
    _finish(parts, job, lines, range(number - 1, pieces, count), (number, count))


def _finish(parts: _Parts, job: Job, lines: int, pieces: range, place: tuple[int, int]) -> None:
    """Join the pieces of a part to one file, and describe it."""
    work, text = parts.work(*place), parts.text(*place)
    digest, sizes = hashlib.sha256(), list[int]()

    def join(draft: Path) -> None:
        with draft.open("wb") as out:
            for piece in pieces:
                content = (work / f"{piece}.txt").read_bytes()
                digest.update(content)
                sizes.append(len(content))
                out.write(content)

    replace_file(text, join)
    number, count = place
    description = _Description(
        format=FORMAT, part=number, of=count, lines=lines, pieces=tuple(sizes), sha256=digest.hexdigest(), job=job
    )
    write_json(text.with_suffix(".json"), asdict(description))
    shutil.rmtree(work, ignore_errors=True)


def _merge(parts: _Parts, output: Path) -> None:
    """Write the answers of all parts in the order of the input, and delete the parts."""
    described = parts.described()
    count = parts.require_count()
    if missing := [number for number in range(1, count + 1) if (number, count) not in described]:
        raise DataError(
            f"{parts.folder} lacks {listing((f'part {number} of {count}' for number in missing), 8)}. Answer "
            f"{'it' if len(missing) == 1 else 'them'} with --part."
        )
    all_parts = [parts.description(number, count) for number in range(1, count + 1)]
    descriptions = [description for description in all_parts if description is not None]
    lines = descriptions[0].lines

    def join(draft: Path) -> None:
        texts = [parts.text(number, count).open("rb") for number in range(1, count + 1)]
        try:
            with draft.open("wb") as out:
                for piece in range(sum(len(description.pieces) for description in descriptions)):
                    turn, part = divmod(piece, count)
                    out.write(texts[part].read(descriptions[part].pieces[turn]))
        finally:
            for text in texts:
                text.close()

    remove_drafts(output)
    replace_file(output, join)
    remains = output.with_name(f"{TEMPORARY}{output.name}-{os.getpid()}")
    with disk_errors(remains):
        os.rename(parts.folder, remains)  # all parts at once, in case that this process is killed
    shutil.rmtree(remains, ignore_errors=True)
    say(f"The answers to {counted(lines, 'line')} are in {output}.")


def _pieces(path: str) -> Iterator[list[str]]:
    lines = read_lines(path)
    while texts := list(islice(lines, CHUNK)):
        yield texts


def _input_digest(path: str) -> str:
    if is_remote(path):
        digests = [file_digest(copy) for _, copy in staged(path)]
        return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    if Path(path).exists() and not Path(path).is_file():
        raise DataError(
            f"{path} is a folder, a device or a pipe, but the input is read several times. Write the lines to a file."
        )
    if not Path(path).is_file():
        raise DataError(missing_file(Path(path)))
    return file_digest(Path(path))


def _require_options(arguments: argparse.Namespace) -> None:
    if arguments.input is None or arguments.output is None:
        raise UsageError(
            "--input FILE and --output FILE go together, and --part and --merge go with them: the answers to all lines "
            "of a file, written completely or not at all. Give both."
        )
    if arguments.inputs:
        raise UsageError("The texts are there twice: as arguments and in the file of --input. Leave one of them out.")
    if arguments.merge and arguments.part:
        raise UsageError("--part answers a part, and --merge joins the finished ones. Leave one of them out.")
    if arguments.input == "-":
        raise UsageError("--input is read several times, so it cannot be standard input. Save it as a file first.")
    if not is_remote(arguments.input) and Path(arguments.input).resolve() == Path(arguments.output).resolve():
        raise UsageError("--output is the file of --input, which the answers would replace. Name another file.")
    if Path(arguments.output).suffix.lower() in (".gz", ".xz"):
        raise UsageError(f"--output writes plain text, and the ending of {arguments.output} promises a packed file.")
    for name in DRAWINGS:
        if given(arguments, name):
            raise UsageError(f"--{name} draws in the terminal, and --output is a file of answers. Leave it out.")
