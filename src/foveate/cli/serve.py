"""foveate serve"""

import argparse
from urllib.parse import urlsplit

from foveate.errors import SetupError, UsageError
from foveate.tasks import task_of
from foveate.tasks.option import count, machine_arguments, port
from foveate.voice import tell


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = """
examples:
  foveate serve en-fr                                   the translator that comes with foveate, at port 8080
  foveate serve en-fr en-sounds us-address              all models that come with foveate
  foveate serve en-fr tags=runs/tagger gpt=runs/gpt     several runs, with names of their own
  foveate serve en-fr --address 0.0.0.0 --api-key-file keys.txt
  curl -d q="Good morning." -d source=en -d target=fr http://127.0.0.1:8080/translate
  curl -d '{"source": "Good morning.", "page": true}' http://127.0.0.1:8080/explain
  curl -F file=@talk.wav http://127.0.0.1:8080/transcribe

Clients of LibreTranslate and of OpenAI can use it, and KServe's :predict and :explain. The page at / translates and
shows the attention. A name such as en-fr says the languages of a translator. One line of JSON for each request goes to
standard error, without its text. SIGHUP loads the runs anew without losing a request; SIGTERM answers what was
admitted, and ends. A request that would wait too long for its turn is refused at once (429).
"""
    parser.add_argument("runs", metavar="RUN", nargs="+", help="run folders, each as FOLDER or as NAME=FOLDER")
    parser.add_argument("--address", default="127.0.0.1", metavar="A", help="the address to listen at (127.0.0.1)")
    parser.add_argument("--port", type=port, default=8080, metavar="N", help="the port; 0 takes a free one (8080)")
    parser.add_argument(
        "--processes", type=count, default=1, metavar="N", help="processes that hold the models, each all of them (1)"
    )
    parser.add_argument(
        "--spare", action="store_true", help="keep one more process loaded, which takes the place of one that dies"
    )
    parser.add_argument("--api-key-file", metavar="FILE", help="only requests with a key of this file, one in a line")
    parser.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        type=_origin,
        metavar="URL",
        help="pages of this origin may ask; repeatable",
    )
    parser.add_argument("--timeout", type=_seconds, default=30.0, metavar="S", help="seconds until 504 (30)")
    parser.add_argument(
        "--wait", type=_seconds, default=2.0, metavar="S", help="seconds that a request may wait for its turn (2)"
    )
    parser.add_argument(
        "--precision", choices=["float32", "bfloat16", "int8"], default="float32", help="of the products"
    )
    parser.add_argument("--quiet", action="store_true", help="no line for each request")
    machine_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    try:
        from foveate.serve.service.running import Service, run
    except ModuleNotFoundError as error:
        raise SetupError(
            f"`foveate serve` needs the package {error.name}. Run: pip install 'foveate[serve]'"
        ) from error
    from pathlib import Path

    from foveate.serve.service.admission import Limits
    from foveate.serve.service.front import printed
    from foveate.serve.service.keyring import Keyring
    from foveate.serve.service.model_setup import Setup
    from foveate.storage.run import read_run
    from foveate.storage.shipped import run_folder

    runs = []
    for name, run_or_name in named(arguments.runs):  # a wrong name is told before anything is loaded
        folder = run_folder(run_or_name, tell)
        task_of(read_run(folder))
        runs.append((name, str(folder.absolute())))  # a link that leads elsewhere later is followed at a reload
    keys = Keyring.read(Path(arguments.api_key_file)) if arguments.api_key_file else Keyring()
    setup = Setup(
        runs=tuple(runs),
        precision=arguments.precision,
        threads=arguments.threads,
        tune=not arguments.no_tune,
        modules=tuple(arguments.modules),
    )
    service = Service(
        setup=setup,
        address=arguments.address,
        port=arguments.port,
        processes=arguments.processes,
        spare=arguments.spare,
        keys=keys,
        origins=tuple(arguments.allow_origin),
        limits=Limits(timeout=arguments.timeout, wait=arguments.wait),
    )
    if not service.is_local and not keys.needed:
        raise UsageError(
            f"At {arguments.address} everybody who reaches this machine could ask. Give --api-key-file with a key, or "
            "leave --address out: then only this machine can."
        )
    run(service, note=tell, log=None if arguments.quiet else printed)
    return 0


def named(runs: list[str]) -> tuple[tuple[str, str], ...]:
    """The runs by name: the name before the equals sign, or the folder's. Raises UsageError for a name that occurs
    twice.
    """
    from foveate.storage.shipped import run_name

    pairs: dict[str, str] = {}
    for run in runs:
        name, equals, folder = run.partition("=")
        name, folder = (name, folder) if equals else (run_name(run), run)
        if name in pairs:
            raise UsageError(f"Two runs have the name {name}. Write one of them as NAME={folder}.")
        if not name or any(sign in name for sign in "/:?#% "):
            raise UsageError(f"A run's name stands in addresses, so {name!r} is none. Write NAME={folder}.")
        pairs[name] = folder
    return tuple(pairs.items())


def _origin(text: str) -> str:
    """An origin as browsers send it, without a path."""
    origin, parts = text.rstrip("/").lower(), urlsplit(text.lower())
    if origin != "null" and not (parts.netloc and origin == f"{parts.scheme}://{parts.netloc}"):
        raise argparse.ArgumentTypeError(f"{text!r} is not an origin, such as https://pages.example:8443")
    return origin


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value
