"""How a command's options change the way of decoding that a model has."""

import argparse
from dataclasses import dataclass, fields

from foveate.config import assign, build, to_dict
from foveate.decode import Constraints, DecodeConfig
from foveate.errors import UsageError


def decode_config(base: DecodeConfig, arguments: argparse.Namespace) -> DecodeConfig:
    """The model's way of decoding with the changes that the command line asks for."""
    assignments = [assignment.strip().removeprefix("decode.") for assignment in arguments.set]
    # Another kind has other settings: it comes first, so that none of those beside it is lost.
    assignments.sort(key=lambda assignment: assignment.partition("=")[0].strip() != "kind")
    if arguments.beam is not None and assignments and assignments[0].partition("=")[0].strip() == "kind":
        raise UsageError(
            f"--beam {arguments.beam} and --set {assignments[0]} both say how to search. Leave one of them out; "
            "--set kind=beam takes --set beam=N."
        )
    table = to_dict(_Decoding(decode=base))["decode"]
    if arguments.beam is not None:
        kind = "beam" if arguments.beam > 1 else "greedy"
        if table["kind"] != kind:
            table = {"kind": kind, **{field.name: table[field.name] for field in fields(Constraints)}}
        table |= {"beam": arguments.beam} if arguments.beam > 1 else {}
    if getattr(arguments, "n_best", None):
        assignments.append(f"num_best={arguments.n_best}")
    for assignment in assignments:
        path, equals, value = assignment.partition("=")
        table = {"kind": value.strip()} if path.strip() == "kind" and equals else dict(assign(table, [assignment]))
    return build(_Decoding, {"decode": table}).decode


@dataclass(frozen=True, kw_only=True)
class _Decoding:
    decode: DecodeConfig
