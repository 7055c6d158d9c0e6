"""foveate doctor"""

import argparse
import math
from collections.abc import Iterator

from foveate import __version__
from foveate.errors import UsageError
from foveate.tasks.option import count

OPTIONAL = {
    "sentencepiece": "text",
    "soundfile": "audio",
    "soxr": "audio",
    "pillow": "image",
    "sacrebleu": "eval",
    "jiwer": "eval",
    "transformers": "hf",
    "ctranslate2": "export",
    "onnxruntime": "export",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--calibrate",
        action="store_true",
        help="measure which torch settings are faster on this machine, and use them in all later commands",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        metavar="M",
        help="minutes to measure (default: some seconds); other programs disturb a longer measurement less",
    )
    parser.add_argument(
        "--threads", type=count, metavar="N", help="number of threads, for which the settings are measured and stored"
    )
    parser.epilog = "Exit code 4 when the self-test fails. Paste the output into a bug report."


def run(arguments: argparse.Namespace) -> int:
    import platform
    from importlib.metadata import PackageNotFoundError, version

    import torch

    from foveate import machine, native
    from foveate.attention.paths import pairwise_triton
    from foveate.cli.selftest import self_test

    if arguments.minutes is not None and not arguments.calibrate:
        raise UsageError("--minutes is the time to measure, but nothing is measured. Add --calibrate.")
    if arguments.minutes is not None and not 0 < arguments.minutes < math.inf:
        raise UsageError(f"--minutes {arguments.minutes:g}: write how long to measure, such as 2 or 13.")
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    print(f"foveate {__version__}, Python {platform.python_version()}, {platform.platform()}")
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {_devices()}")
    for package, extra in OPTIONAL.items():
        try:
            print(f"{package} {version(package)}")
        except PackageNotFoundError:
            print(f"{package} is not installed (pip install 'foveate[{extra}]')")
    print(f"native kernels: {native.state()}")
    print(f"engines that decode: {_engines()}")
    if torch.cuda.is_available():
        missing = pairwise_triton.unavailable(torch.device("cuda"))
        print(f"kernels for the GPU: {f'none, {missing}' if missing else 'in use'}")
    if arguments.calibrate:
        print("measuring the switches …", flush=True)
        file = machine.keep(machine.measured(patience=60 * (arguments.minutes or 0.0)))
        print(f"measured, and kept in {file}")
    for line in _switches():
        print(line)
    passed = True
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        outcome = self_test(device)
        passed = passed and outcome.passed
        print(f"self-test{'' if device == 'cpu' else ' on the GPU'}: {outcome}")
        print(f"  {outcome.listing()}")
    return 0 if passed else 4


def _switches() -> Iterator[str]:
    """Set the switches as every command does; lines that name them with their reasons."""
    from foveate import machine

    tuning = machine.tune()
    yield f"switches: {tuning}"
    if machine.kept() is None:
        for choice in machine.choices():
            yield f"  {choice.switch} = {choice.value}: {choice.why}"
        yield "  These are rules for processors of this kind; --calibrate measures this one."
    else:
        yield f"  measured on this machine, kept in {machine.own_file()}; delete the file to go back to rules"


def _engines() -> str:
    from foveate.tasks.translate.engine import availability

    others = ", ".join(name for name, missing in availability().items() if not missing and name != "own")
    return f"own by default{f'; for --engine also {others}' if others else ''}"


def _devices() -> str:
    import torch

    if torch.cuda.is_available():
        return ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
    return "no GPU"
