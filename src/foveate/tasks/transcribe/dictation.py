"""The output of `foveate transcribe`: texts, words with times, and streams while they arrive."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress

import numpy as np

from foveate.attention import Visibility
from foveate.data.audio_file import Clip, read_recording
from foveate.data.audio_pipe import NAME, SECONDS, Pipe
from foveate.decode import CTCConfig
from foveate.errors import UsageError
from foveate.tasks.intake import PIPE, intake
from foveate.tasks.option import decode_config, given, require_used
from foveate.tasks.transcribe.encoder_view import without_view
from foveate.tasks.transcribe.recognition import RecognitionConfig
from foveate.tasks.transcribe.text_stream import TextStream
from foveate.tasks.transcribe.use import Transcriber, Transcript
from foveate.voice import say, shown

FORMS = ("words_with_times", "format", "n_best", "stream")
"""Options that choose what is printed."""
ONE = ("textgrid", "json")
"""Formats of one recording."""


def dictate(load: Callable[[], Transcriber], arguments: argparse.Namespace) -> None:
    """Print what files, or standard input, say. A file that cannot be read has an empty line in the place of its text.

    Raises UsageError for options that exclude each other, DataError in the end if a file could not be read.
    """
    forms = [f"--{name.replace('_', '-')}" for name in FORMS if given(arguments, name)]
    if len(forms) > 1:
        raise UsageError(f"{' and '.join(forms)} print different things. Leave one of them out.")
    if arguments.inputs and PIPE not in arguments.inputs:  # before a model is loaded
        require_used(arguments, {"rate": "sound from standard input"}, (), "where files are named")
    arguments, rule = without_view(arguments)
    transcriber = seeing(load(), rule)
    config = decode_config(transcriber.config, arguments, RecognitionConfig)
    if arguments.stream:
        _stream(transcriber, arguments, config)
        return
    things = intake(transcriber.rows, arguments, sound=True)
    if things.several and arguments.format in ONE:
        raise UsageError(
            f"--format {arguments.format} writes one recording. Name one, or use --format ctm for several."
        )
    answers = things.answers(lambda some: transcriber.transcribe(some, config=config))
    for number, (_, transcript) in enumerate(answers, start=1):
        if transcript is None:
            print(end="" if arguments.format or arguments.n_best else "\n", flush=True)
            continue
        _remark(transcript.name, transcript.remarks)
        for line in _lines(transcript, number, arguments):
            print(shown(line), flush=True)


def seeing(transcriber: Transcriber, rule: Visibility | None) -> Transcriber:
    """The transcriber under a rule, or as it is without one. A note says when the model has not learnt to see by it."""
    if rule is None:
        return transcriber
    view = transcriber.under(rule)
    if rule not in transcriber.views and view.rules != transcriber.rules:
        learnt = ", ".join(f'"{each}"' for each in transcriber.views)
        others = f", but {learnt}" if learnt else ""
        say(f'The model was not trained under "{rule}"{others}: expect more errors.')
    return view


def _stream(transcriber: Transcriber, arguments: argparse.Namespace, config: RecognitionConfig) -> None:
    """Print the text of each recording while it is read, as soon as it cannot change any more."""
    if not isinstance(config, CTCConfig) and (arguments.set or arguments.beam):
        raise UsageError(
            "--stream searches by CTC alone, because attention needs the whole recording. Add --set kind=ctc."
        )
    if not isinstance(config, CTCConfig):
        say("A stream is written by CTC alone, because attention needs the whole recording.")
    stream = transcriber.stream(config if isinstance(config, CTCConfig) else None)
    things = intake(transcriber.rows, arguments, sound=True, whole=False)
    for _, done in things.answers(lambda some: [_written(stream, thing) for thing in some]):
        print(end="" if done else "\n", flush=True)


def _written(stream: TextStream, thing: Clip | Pipe) -> bool:
    """Print the text of a recording with the end of its line. Raises UsageError for a pipe of another rate."""
    if isinstance(thing, Pipe) and thing.rate != stream.rate:
        raise UsageError(
            f"Standard input has {thing.rate:,} samples a second, and the model reads {stream.rate:,}. Record at "
            f"this rate, or convert on the way: ffmpeg -i - -f wav -ar {stream.rate} -ac 1 -"
        )
    state, printed = stream.begin(), ""
    remarks: list[str] = []
    with suppress(KeyboardInterrupt) if isinstance(thing, Pipe) else nullcontext():  # Ctrl-C ends a microphone
        for piece in thing.pieces(remarks) if isinstance(thing, Pipe) else _pieces(thing, stream.rate, remarks):
            state, partial = stream.advance(state, piece, last=False)
            printed = _print_more(stream.text(partial, certain=True), printed)
    _, partial = stream.advance(state, np.zeros(0, np.float32), last=True)
    _print_more(stream.text(partial), printed)
    print(flush=True)
    _remark(NAME if isinstance(thing, Pipe) else str(thing), remarks)
    return True


def _pieces(thing: Clip, rate: int, remarks: list[str]) -> Iterator[np.ndarray]:
    """The samples of a recording, in pieces of a fifth of a second; its remarks are added to `remarks`."""
    recording = read_recording(thing).at(rate)
    remarks += recording.remarks
    step = max(int(SECONDS * rate), 1)
    return (recording.samples[start : start + step] for start in range(0, len(recording.samples), step))


def _remark(name: str, remarks: Sequence[str]) -> None:
    if remarks:
        say(f"{name}: {', '.join(remarks)}.")


def _print_more(text: str, printed: str) -> str:
    """Print what a text has more than what is printed; returns what is printed then."""
    if not text.startswith(printed):  # such as a space that a later piece of a word takes back
        return printed
    print(shown(text[len(printed) :]), end="", flush=True)
    return text


def _lines(transcript: Transcript, number: int, arguments: argparse.Namespace) -> Iterator[str]:
    """The lines that are printed for a transcript."""
    if arguments.n_best:
        for text, hypothesis in zip(transcript.texts, transcript.hypotheses, strict=True):
            yield f"{number}\t{hypothesis.score:.4f}\t{text}"
    elif not arguments.format and not arguments.words_with_times:
        yield transcript.text
    elif transcript.times is None and transcript.text:
        raise UsageError(
            "This model has no CTC, which tells when a word is heard. `foveate look` shows where its attention is."
        )
    elif arguments.words_with_times:
        yield from (f"{word.label}\t{word.start:.2f}\t{word.end:.2f}" for word in transcript.words)
        yield ""
    elif transcript.times is not None and transcript.text:
        times = transcript.times
        kinds = {"json": times.json, "ctm": times.ctm, "textgrid": times.text_grid, "text": times.__str__}
        yield kinds[arguments.format]().rstrip("\n")
