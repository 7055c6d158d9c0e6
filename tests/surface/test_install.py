"""The installation of the README is sufficient for every command and program of the README and of the pages about
commands and Python: they run in an environment with the packages of `pip install .` and no others."""

import functools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

sys.path.insert(0, str(Path(__file__).parent))
import installation
import program

from foveate.cli.program import commands
from foveate.data.synthetic import tones
from foveate.data.waveform import wav
from foveate.inspect.figure.pixel import encode

pytestmark = pytest.mark.slow
README = (installation.ROOT / "README.md").read_text(encoding="utf-8")
PAGE = (installation.ROOT / "docs/commands.md").read_text(encoding="utf-8")
LEFT_OUT = {"dev", "all", "ray"}
PAIRS = [(f"the {a} {b} sleeps", f"le {b} {a} dort") for a in "abcdefgh" for b in "ijklmnop"]
WORDS = [f"{a}/A {b}/B {a}/A sleeps/V" for a in "abcdefgh" for b in "ijklmnop"]
TEXTS = [f"{word} and {word} are {label}\t{label}" for label in ("good", "bad") for word in "abcdefghijklmnop"]
PLAY = ["To be, or not to be: that is the question.", "ROMEO: I take thee at thy word."] * 40
FEW = " --no-tune --threads 1 --quiet --set train.steps=2"
FILES = {
    "train.en": [english for english, _ in PAIRS],
    "train.fr": [french for _, french in PAIRS],
    "test.en": ["the a i sleeps", "the b k sleeps"],
    "test.fr": ["le i a dort", "le k b dort"],
    "input.en": ["the c j sleeps"],
    "test.tsv": ["the a i sleeps\tle i a dort", "the b k sleeps\tle k b dort"],
    "test.links": ["0-0 1-2 2-1 3-3", "0-0 1-2 2-1 3-3"],
    "mine.tsv": ["\t".join(pair) for pair in PAIRS],
    "tagged.txt": WORDS,
    "few.txt": WORDS,
    "test.txt": WORDS[:4],
    "texts.tsv": TEXTS,
    "shakespeare.txt": PLAY,
    "unseen.txt": PLAY[:4],
    "solubility.csv": [
        "smiles,logS",
        *(f"{'C' * side}1{'C' * ring}C1,{-ring}" for side in (1, 2) for ring in range(1, 11)),
    ],
    "edges.tsv": [f"n{node}\tn{node + 2}" for node in range(28)],
    "nodes.tsv": ["name\tlabel\twords", *(f"n{node}\t{'ab'[node % 2]}\tword{node % 2} x" for node in range(30))],
}
"""The files that the commands read."""
GREY = tuple((level, level, level) for level in range(256))
BEFORE = {"bert/": ["foveate train masked_language_model --text shakespeare.txt --out bert/"]}
"""The commands that make a folder for other commands."""
UNFENCED = {
    "compare": "foveate compare translate --source mine.tsv --vary model=bahdanau,luong --seeds 1 --out comparison/",
    "report": "foveate report run/",
    "plan": "foveate plan translate --source mine.tsv",
    "export": "foveate export run/ onnx/ --to onnx",
    "completion": "foveate completion bash > completion.sh",
    "doctor": "foveate doctor",
    "serve": "python -m foveate serve run/ --port 0 2> log & pid=$!; until grep -qs serves log || "
    "! kill -0 $pid 2> /dev/null; do sleep 0.1; done; kill $pid 2> /dev/null; wait $pid; code=$?; "
    "cat log >&2; exit $code",
}
"""Commands that are only in the table of the page."""


Shell = Callable[..., dict[str, str]]
"""The variables of a shell with the packages of `pip install '.[extras]'`."""


@dataclass(frozen=True)
class Place:
    """A folder to type in, with the shells of users who installed this or that beside the package."""

    folder: Path
    shell: Shell

    def run(self, command: str) -> str:
        """Run a command with what `pip install .` brings, and with the extras that it names; returns the last."""
        done = installation.shell(small(command), self.shell(), self.folder)
        extras: list[str] = []
        while done.returncode == 4 and len(extras) < 2:
            extras += re.findall(r"pip install 'foveate\[(\w+)\]'", done.stderr)
            assert f"| `.[{extras[-1]}]` |" in README
            done = installation.shell(small(command), self.shell(*extras), self.folder)
        extra = extras[-1] if extras else ""
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert "Traceback" not in done.stderr, command
        return extra


def small(command: str) -> str:
    """The same command with little to do: what is trained learns nothing."""
    verb = command.split()[1]
    if verb == "train" and "pictures/" in command:
        return command + FEW
    if verb == "train":
        return command + FEW + ("" if "initialise_from" in command else TINY[command.split()[2]])
    return command + {"resume": " --set train.steps=3", "compare": " --budget steps=2 --quiet"}.get(verb, "")


TINY = {
    "translate": " --set model.hidden_dim=8",
    "tag": " --set model.encoder.hidden_dim=8",
    "classify": " --set model.encoder.hidden_dim=8",
    "transcribe": " --set model.encoder.num_layers=1",
    "speak": " --set model.hidden_dim=16",
    "caption": " --set model.decoder.hidden_dim=16",
    "node": " --set model.num_heads=2",
    "molecule": " --set model.encoder.num_layers=1",
    "language_model": " --set model.block.model_dim=32",
    "masked_language_model": " --set model.block.model_dim=32",
}


def typed(page: str) -> list[list[str]]:
    """The commands of a page, fence by fence, in their order, without comments and output."""
    fences = re.findall(r"^```(?:console)?\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    lines = [re.findall(r"^(?:\$ )?(foveate [^\n]*)$", fence, re.MULTILINE) for fence in fences]
    return [[line.partition("  #")[0].partition(" # ")[0].strip() for line in found] for found in lines if found]


def series(fences: list[list[str]]) -> list[tuple[str, ...]]:
    """The commands of each fence that make or use one folder, in their order, unless another series begins with them.

    Commands on different folders know nothing of each other, and the pages repeat the beginnings of the README.
    """
    parts: dict[tuple[str, ...], None] = {}
    for fence in fences:
        names = re.findall(r"--out (\w+/)", "\n".join(fence))
        by_name = [tuple(command for command in fence if re.search(rf" {name}( |$)", command)) for name in names]
        assert sorted(command for part in by_name for command in part) == sorted(fence)
        parts.update(dict.fromkeys(by_name))
    return [part for part in parts if not any(part == other[: len(part)] for other in parts if other != part)]


FIRST, REST = (typed(part) for part in re.split(r"^(?=## Your own data)", README, maxsplit=1, flags=re.MULTILINE))
UNTRAINED = [fence for fence in typed(PAGE) if not any(" train " in command for command in fence)]
"""The commands of the page that need no training."""
REST += [fence for fence in typed(PAGE) if fence not in UNTRAINED]


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """Shells whose commands do not import torch again."""
    root = tmp_path_factory.mktemp("user")
    base = installation.site(root / "site")
    with installation.server(installation.environment(base, root / "bin")) as running:

        @functools.cache
        def shell(*extras: str) -> dict[str, str]:
            name = "-".join(["site", *extras])
            site = installation.site(root / name, *extras) if extras else base
            return installation.environment(site, root / f"bin-{name}", running)

        yield shell


@pytest.fixture
def place(tmp_path: Path, user: Shell) -> Place:
    folder = tmp_path / "work"
    folder.mkdir()
    for name, lines in FILES.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    for number in range(24):
        label, pixels = ("dark", "light")[number % 2], np.full((8, 8), 200 * (number % 2) + number, np.uint8)
        (folder / "pictures" / label).mkdir(parents=True, exist_ok=True)
        for path in (folder / "pictures" / label / f"{number}.png", folder / "picture.png"):
            path.write_bytes(encode(pixels, GREY))
    pictures = [path.relative_to(folder) for path in sorted((folder / "pictures").rglob("*.png"))]
    (folder / "captions.tsv").write_text("".join(f"{path}\ta {path.parent.name} square\n" for path in pictures))
    clips = list(tones(20, seed=0))
    for number, clip in enumerate([*clips, clips[0]]):
        name = "one.wav" if number == len(clips) else f"{number}.wav"
        (folder / name).write_bytes(wav(clip.samples, 8_000))
    (folder / "clips.tsv").write_text("".join(f"{number}.wav\t{clip.text}\n" for number, clip in enumerate(clips)))
    for number, clip in enumerate(clips):
        track = "".join(f"{start:.3f}\t{end:.3f}\t{word}\n" for word, start, end in clip.words)
        (folder / f"{number}.txt").write_text(track)
    (folder / "recordings.tsv").write_text("".join(f"{number}.wav\t{number}.txt\n" for number in range(len(clips))))
    return Place(folder, user)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], Path]:
    """The shell of a user who typed `pip install .`, and a folder to work in."""
    folder = tmp_path_factory.mktemp("base")
    work = folder / "work"
    work.mkdir()
    return installation.environment(installation.site(folder / "site"), folder / "bin"), work


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The shell of a user who typed `pip install '.[serve]'`."""
    folder = tmp_path_factory.mktemp("serving")
    return installation.environment(installation.site(folder / "site", "serve"), folder / "bin")


def test_the_first_screen_installs_types_one_command_and_shows_a_picture() -> None:
    screen = "\n".join(README.splitlines()[:40])
    assert "pip install ." in screen
    assert screen.index("pip install .") < screen.index("foveate translate en-fr")
    assert "█" in screen


def test_nothing_of_the_developers_is_there(base: tuple[dict[str, str], Path]) -> None:
    for package in ("sacrebleu", "onnx", "transformers", "pytest", "httpx"):
        assert installation.shell(f"python -c 'import {package}'", *base).returncode == 1, package


@pytest.mark.parametrize("command", [command for fence in FIRST for command in fence])
def test_a_command_of_the_first_part_runs_with_what_was_installed(
    base: tuple[dict[str, str], Path], serving: dict[str, str], command: str
) -> None:
    if command.startswith("foveate serve"):
        return opens(f"{command} --port 0", serving, base[1])
    if "--text" in command and "--html" not in command:
        return opens(f"{command} --no-browser", *base)
    done = installation.shell(command, *base)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    drawn = re.search(rf"\$ {re.escape(command)}\n(.*?)```", README, re.DOTALL)
    if drawn:
        assert done.stdout.strip() == drawn[1].strip()
    return None


def opens(command: str, variables: dict[str, str], folder: Path) -> None:
    """The viewer or the service says its address and serves until Ctrl-C."""
    serving = subprocess.Popen(
        ["bash", "-c", f"exec {command}"],
        env=variables,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert serving.stderr is not None
    said = [serving.stderr.readline()]
    while "http://127.0.0.1:" not in said[-1] and serving.poll() is None:
        said.append(serving.stderr.readline())
    serving.send_signal(signal.SIGINT)
    serving.communicate(timeout=60)
    assert "http://127.0.0.1:" in said[-1], "".join(said)


@pytest.mark.parametrize("command", [command for fence in UNTRAINED for command in fence])
def test_a_command_with_an_included_model_runs_with_what_was_installed(place: Place, command: str) -> None:
    assert place.run(command) == ("eval" if " evaluate " in command else "")


@pytest.mark.parametrize("part", series(REST), ids=lambda part: " ".join(part[0].split()[1:3]))
def test_the_commands_of_a_part_run_in_their_order_with_what_was_installed(place: Place, part: tuple[str, ...]) -> None:
    for name, before in BEFORE.items():
        if any(name in command for command in part):
            for command in before:
                place.run(command)
    scored = {command.split()[1] for command in part if place.run(command) == "eval"}
    assert scored <= {"evaluate"}


def test_the_commands_of_the_table_run_with_what_was_installed(place: Place) -> None:
    place.run(REST[0][0])
    needed = {name: place.run(command) for name, command in UNFENCED.items()}
    assert {name: extra for name, extra in needed.items() if extra} == {
        "compare": "eval",
        "export": "export",
        "serve": "serve",
    }


def test_every_command_is_run_by_one_of_these() -> None:
    assert {command for part in series(REST) for command in part} == {command for fence in REST for command in fence}
    assert {
        command.split()[1] for fence in FIRST + UNTRAINED + REST for command in fence
    } | UNFENCED.keys() == commands().keys()
    assert sum(map(len, FIRST + UNTRAINED + REST)) == len(re.findall(r"^(?:\$ )?foveate ", README + PAGE, re.MULTILINE))


def test_the_program_of_the_page_about_python_runs_with_what_was_installed(place: Place) -> None:
    code = program.program(program.PYTHON)
    assert '"train.steps": 200' in code
    (place.folder / "program.py").write_text(code.replace('"train.steps": 200', '"train.steps": 2'))
    done = installation.shell("python program.py", place.shell(), place.folder)
    assert done.returncode == 0, done.stderr
    assert (place.folder / "german/model.safetensors").exists()


def test_the_table_of_extras_is_whole() -> None:
    extras = installation.SETTINGS["optional-dependencies"]
    for name in {*extras} - {"dev"}:
        assert f"`.[{name}]`" in README, name
    assert set(re.findall(r"\w+", extras["all"][0].partition("[")[2])) == {*extras} - LEFT_OUT


def test_every_dependency_has_an_upper_bound_that_the_tested_version_keeps() -> None:
    extras = [name for name in installation.SETTINGS["optional-dependencies"] if name not in LEFT_OUT]
    for requirement in installation.requirements(*extras):
        assert {"<"} & {each.operator for each in requirement.specifier}, requirement
        assert requirement.specifier.contains(version(requirement.name)), requirement


def test_the_tools_of_developers_include_every_extra() -> None:
    assert "foveate[all]" in {str(Requirement(line)) for line in installation.SETTINGS["optional-dependencies"]["dev"]}


def test_the_code_of_the_page_about_python_has_types(tmp_path: Path) -> None:
    """mypy infers a type other than Any for every variable of a program that uses the installed package."""
    code = program.program(program.PYTHON)
    names = (
        "Attention",
        "Translator",
        "causal",
        "record",
        "translator.translate",
        "context",
        "weights",
        "alignment",
        "trace",
    )
    code += "\n" + "\n".join(f"reveal_type({name})" for name in names)
    (tmp_path / "program.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=", "program.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(installation.ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    revealed = re.findall(r'Revealed type is "(.*)"', done.stdout)
    assert len(revealed) == len(names)
    assert not [kind for kind in revealed if kind == "Any" or kind.startswith("builtins.object")], revealed
