"""What the README installs is enough for what the README does next: each of its commands, in an environment that has
the packages of `pip install .` and no others."""

import os
import re
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

sys.path.insert(0, str(Path(__file__).parent))
import installation

pytestmark = pytest.mark.slow
README = (installation.ROOT / "README.md").read_text(encoding="utf-8")
LEFT_OUT = {"dev", "all"}
PAIRS = [(f"the {a} {b} sleeps", f"le {b} {a} dort") for a in "abcdefgh" for b in "ijklmnop"]
TINY = " --no-tune --threads 1 --set model.hidden_dim=8 --set train.steps=2 --set train.validate_every=2"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], Path]:
    """The shell of a user who typed `pip install .`, and a folder to work in."""
    folder = tmp_path_factory.mktemp("base")
    work = folder / "work"
    work.mkdir()
    return installation.environment(installation.site(folder / "site"), folder / "bin"), work


def commands() -> list[str]:
    """What the README's section on installing and looking types, in its order."""
    first = README.partition("## Your own data")[0]
    lines = re.findall(r"^(?:\$ )?(foveate [^\n]*)$", first, re.MULTILINE)
    return [line.partition("  #")[0].strip() for line in lines]


def test_the_first_screen_installs_types_one_command_and_shows_a_picture() -> None:
    screen = "\n".join(README.splitlines()[:40])
    assert "pip install ." in screen
    assert screen.index("pip install .") < screen.index("foveate translate en-fr")
    assert "█" in screen


def test_nothing_of_the_developers_is_there(base: tuple[dict[str, str], Path]) -> None:
    for package in ("sacrebleu", "onnx", "transformers", "pytest", "httpx"):
        assert installation.shell(f"python -c 'import {package}'", *base).returncode == 1, package


@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_first_part_runs_with_what_was_installed(
    base: tuple[dict[str, str], Path], command: str
) -> None:
    if "--text" in command and "--html" not in command:
        return opens(command, *base)
    done = installation.shell(command, *base)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    drawn = re.search(rf"\$ {re.escape(command)}\n(.*?)```", README, re.DOTALL)
    if drawn:
        assert done.stdout.strip() == drawn[1].strip()
    return None


def opens(command: str, variables: dict[str, str], folder: Path) -> None:
    """The viewer says its address and serves until Ctrl-C."""
    serving = subprocess.Popen(
        ["bash", "-c", f"exec {command} --no-browser"],
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


def test_training_needs_no_extra_and_scores_name_theirs(base: tuple[dict[str, str], Path]) -> None:
    _, folder = base
    for side in (0, 1):
        (folder / ("train.en", "train.fr")[side]).write_text("".join(f"{pair[side]}\n" for pair in PAIRS))
    train = "foveate train translate --source train.en --target train.fr --out run/"
    assert train in README
    done = installation.shell(train + TINY, *base)
    assert done.returncode == 0, done.stderr
    assert installation.shell("foveate translate run/ < train.en > output.fr", *base).returncode == 0
    scored = installation.shell("foveate evaluate run/ --source train.en --target train.fr", *base)
    assert scored.returncode == 4
    assert "pip install 'foveate[eval]'" in scored.stderr


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


def test_the_code_of_the_readme_has_types(tmp_path: Path) -> None:
    """What mypy sees of a program that uses the package as an installed one: nothing is Any that has a name."""
    code = "\n".join(re.findall(r"^(?:>>>|\.\.\.) ?(.*)$", README, re.MULTILINE))
    code += "\n" + "\n".join(re.findall(r"```python\n(?!>>>)(.*?)```", README, re.DOTALL))
    names = ("Attention", "Translator", "causal", "record", "translator.translate", "context", "weights", "alignment")
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
