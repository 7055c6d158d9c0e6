"""Options that several commands take. No torch here: `--help` has to be quick."""

import argparse
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    pass

CHUNK = 512
"""Lines read at a time: enough to batch, few enough to pipe."""


def count(text: str) -> int:
    """The type of an argument that is a positive number."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def port(text: str) -> int:
    """The type of an argument that names a port of this machine."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 (any free one) to 65535, got {text!r}")
    return int(text)


DEFAULTS = {"precision": "float32", "engine": "auto", "scale": "linear", "port": 0}
"""Default values of options other than None, False and an empty list."""
ENDINGS = {".svg": "SVG", ".png": "PNG", ".pdf": "PDF", ".html": "HTML", ".htm": "HTML", ".txt": "text"}
"""The file format of each extension."""


def given(arguments: argparse.Namespace, name: str) -> bool:
    """Whether an option was written, so that it has to count."""
    value: Any = getattr(arguments, name, None)
    return not (value is None or value is False or value == [] or (name in DEFAULTS and value == DEFAULTS[name]))


def require_used(
    arguments: argparse.Namespace, uses: Mapping[str, str], taken: Collection[str], doing: str = ""
) -> None:
    """Raises UsageError for an option that would change nothing. `uses` are the places where each one counts."""
    from foveate.errors import UsageError

    for name, use in uses.items():
        if name not in taken and given(arguments, name):
            written = name.upper() if name == "run" else f"--{name.replace('_', '-')}"
            here = f" {doing}" if doing else ""
            raise UsageError(f"{written} goes with {use}, and would change nothing{here}. Leave it out.")


def require_ending(option: str, path: str, kind: str) -> None:
    """Raises UsageError for a file whose name promises another kind than is written."""
    from foveate.errors import UsageError

    if path == "-":
        raise UsageError(f"{option} writes a file, and - would be its name. Name a file.")
    promised = ENDINGS.get(os.path.splitext(path)[1].lower(), kind)
    if promised != kind:
        raise UsageError(f"{option} writes {kind}, and the ending of {path} promises {promised}. Name another file.")


def two_columns(text: str) -> tuple[int, int]:
    """The type of --columns: two different numbers, counted from 0."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(part.isdecimal() for part in parts) or int(parts[0]) == int(parts[1]):
        raise argparse.ArgumentTypeError(f"must be two columns, counted from 0, like 1,2, got {text!r}")
    return int(parts[0]), int(parts[1])


def columns_argument(parser: argparse.ArgumentParser, *, hidden: bool = False) -> None:
    """The option --columns; help does not show it if `hidden`."""
    parser.add_argument(
        "--columns",
        type=two_columns,
        metavar="A,B",
        help=argparse.SUPPRESS
        if hidden
        else "columns of a tab-separated file to read, counted from 0: source and target, text and label, or word and "
        "tag; required if there are more than two",
    )


def size_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--size",
        choices=["small", "medium", "large"],
        help="amount of training without a TOML file: about 10 minutes on this machine (small, the default), an hour "
        "(medium), or a night (large)",
    )


def pairs_of(arguments: argparse.Namespace) -> Iterator[Any]:
    """The pairs to score a run on: by --columns, or as its training data were read."""
    from foveate.data.text import columns_there, read_pairs
    from foveate.storage.run import read_run
    from foveate.storage.shipped import run_folder

    saved = read_run(run_folder(arguments.run)).config.get("data", {}).get("columns")
    columns = arguments.columns or columns_there(arguments.source, None if saved is None else tuple(saved))
    return read_pairs(arguments.source, arguments.target, columns=columns)


def metric_names(arguments: argparse.Namespace) -> list[str]:
    """The metrics that --metrics names."""
    return [name.strip() for name in (arguments.metrics or "").split(",") if name.strip()]


def machine_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--threads", type=count, metavar="N", help="threads for tensor arithmetic; by default all cores"
    )
    parser.add_argument(
        "--no-tune",
        action="store_true",
        help="keep torch's own settings; by default those that suit this machine are used",
    )


def processes_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--processes",
        type=count,
        metavar="N",
        help="share each update's train.accumulate batches among N processes; --threads are those of each",
    )


def device_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device",
        metavar="NAME",
        help="where to train, which sets train.device: cpu (the default), cuda (a GPU; with --processes one for each), "
        "cuda:1 (a certain GPU), or auto (a GPU if there is one)",
    )


def with_device(arguments: argparse.Namespace) -> list[str]:
    """The assignments of --set, with that of --device. Raises UsageError where both choose the device."""
    from foveate.errors import UsageError

    if arguments.device is None:
        return list(arguments.set)
    for assignment in arguments.set:
        if assignment.partition("=")[0].strip() == "train.device":
            raise UsageError(
                f"--device {arguments.device} and --set {assignment} both say where to train. Leave one out."
            )
    return [*arguments.set, f"train.device={arguments.device}"]


def precision_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--precision",
        choices=["float32", "bfloat16", "int8"],
        default="float32",
        help="bfloat16: half the memory for weights, faster on machines that support it, slightly less exact scores; "
        "int8, for Transformers that translate or continue texts: faster still, less exact",
    )


def rate_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rate",
        type=count,
        metavar="N",
        help="standard input is raw sound with N samples a second: whole numbers of 16 bits, one channel",
    )


def decode_arguments(
    parser: argparse.ArgumentParser,
    settings: str = "length_penalty.alpha=0.6, no_repeat_ngram=3 or kind=sample",
    beam: str = "beam size; 1 is greedy",
) -> None:
    """Options of searches; `settings` are examples of settings."""
    precision_argument(parser)
    parser.add_argument("--beam", type=count, metavar="N", help=beam)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="A=B",
        help=f"one setting of decoding, for example {settings}",
    )


def language_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--to", metavar="CODE", help="the language to write, for a translator of several languages, such as fa"
    )


def decode_config(base: Any, arguments: argparse.Namespace, kinds: Any = None) -> Any:
    """The model's way of decoding with the changes that the command line asks for; `kinds` are all ways, those of
    translation by default.
    """
    from dataclasses import fields, make_dataclass, replace

    from foveate.config import assign, build, to_dict
    from foveate.errors import UsageError
    from foveate.search import Constraints, DecodeConfig

    decoding: Any = make_dataclass("Decoding", [("decode", kinds or DecodeConfig)], frozen=True, kw_only=True)
    assignments = [assignment.strip().removeprefix("decode.") for assignment in arguments.set]
    # Another kind has other settings: it comes first, so that none of those beside it is lost.
    assignments.sort(key=lambda assignment: assignment.partition("=")[0].strip() != "kind")
    if arguments.beam is not None and assignments and assignments[0].partition("=")[0].strip() == "kind":
        raise UsageError(
            f"--beam {arguments.beam} and --set {assignments[0]} both say how to search. Leave one of them out; "
            "--set kind=beam takes --set beam=N."
        )
    table = to_dict(decoding(decode=base))["decode"]
    if arguments.beam is not None and kinds is not None and "beam" in table:
        table = {**table, "beam": arguments.beam}
    elif arguments.beam is not None:
        kind = "beam" if arguments.beam > 1 else "greedy"
        if table["kind"] != kind:
            table = {"kind": kind, **{field.name: table[field.name] for field in fields(Constraints)}}
        table |= {"beam": arguments.beam} if arguments.beam > 1 else {}
    for assignment in assignments:
        path, equals, value = assignment.partition("=")
        table = {"kind": value.strip()} if path.strip() == "kind" and equals else dict(assign(table, [assignment]))
    config, best = build(decoding, {"decode": table}).decode, getattr(arguments, "n_best", None)
    if not best:
        return config
    beam = getattr(config, "beam", 1)
    if best > beam:
        raise UsageError(f"--n-best {best} asks for more texts than a beam of {beam} keeps. Give --beam {best} too.")
    return replace(config, num_best=best) if beam > 1 else config


def head_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--layer",
        type=int,
        metavar="N",
        help="layer to show, from 0; by default the model's own, or the one before the last",
    )
    parser.add_argument(
        "--head", type=int, metavar="N", help="head to show, from 0; by default the model's own, or the mean of all"
    )
    parser.add_argument(
        "--when",
        choices=["producing", "consuming"],
        help="show the attention that produced a word, or that with the word as the decoder's next input; by default "
        "the one that the model was trained or selected to align with",
    )


def occlude_argument(parser: argparse.ArgumentParser, option: str) -> None:
    parser.add_argument(
        "--occlude",
        choices=["remove", "unknown", "mask"],
        help=f"with {option}: how a word is switched off; by default it is removed, for taggers it becomes the unknown "
        "word, in texts with gaps a gap",
    )


CORPUS = ("input", "output", "part", "merge")
"""The options of `corpus_arguments`."""


def part(text: str) -> tuple[int, int]:
    """The type of --part: K/N, with K from 1 to N."""
    number, slash, total = text.partition("/")
    if not (slash and number.isdecimal() and total.isdecimal() and 1 <= int(number) <= int(total)):
        raise argparse.ArgumentTypeError(f"must be K/N, with K from 1 to N, like 2/8, got {text!r}")
    return int(number), int(total)


def corpus_arguments(parser: argparse.ArgumentParser) -> None:
    """Options for answering all lines of a file."""
    parser.add_argument(
        "--input", metavar="FILE", help="with --output: answer every line of this file (.gz and .xz too)"
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="file of the answers, written completely or not at all; what an interrupted command has answered is kept "
        "in FILE.parts",
    )
    parser.add_argument(
        "--part",
        type=part,
        metavar="K/N",
        help="answer only the K-th of N parts of the file; other processes and machines answer the others",
    )
    parser.add_argument("--merge", action="store_true", help="join the N parts in FILE.parts")


def is_piped(texts: Iterable[str]) -> bool:
    """Whether the texts are the lines of standard input: none is on the command line, or `-` alone."""
    return not texts or texts == ["-"]


def chunks(texts: Iterable[str]) -> Iterator[list[str]]:
    """The texts of the command line, or the lines of standard input, some at a time."""
    from foveate.data.text import read_lines

    chunk: list[str] = []
    for text in read_lines("-") if is_piped(texts) else texts:
        chunk.append(text)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
