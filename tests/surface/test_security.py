"""What SECURITY.md promises, sentence by sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
READ_BEFORE = {
    "collections",
    "contextlib",
    "functools",
    "importlib",
    "keyword",
    "operator",
    "reprlib",
    "types",
    "warnings",
}
"""Modules that `python -m` reads from the working folder before any package has its turn."""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file named like every module of Python and of what foveate needs; each leaves a mark."""
    folder = tmp_path_factory.mktemp("hostile")
    names = {*sys.stdlib_module_names, "torch", "numpy", "safetensors", "jaxtyping", "sitecustomize", "foveation"}
    for name in names - set(sys.builtin_module_names):
        (folder / f"{name}.py").write_text(f"open({str(folder / 'ran')!r}, 'a').write({name!r} + ' ')\n")
    return folder


def run_in(folder: Path, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """A program in a folder, with the package on the path."""
    (folder / "ran").unlink(missing_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(SOURCE), "FOVEATE_NATIVE": "0", **environment},
        capture_output=True,
        text=True,
    )


def ran(folder: Path) -> set[str]:
    return set((folder / "ran").read_text().split()) if (folder / "ran").exists() else set()


PLAN = ("plan", "--show")


@pytest.mark.parametrize("module", ["foveate", "foveate.cli"])
def test_python_m_runs_no_file_of_the_working_folder_but_those_that_python_itself_reads_first(
    module: str, hostile: Path
) -> None:
    harmless = hostile / "elsewhere"
    harmless.mkdir(exist_ok=True)
    for path in hostile.glob("*.py"):
        if path.stem not in READ_BEFORE:
            (harmless / path.name).write_text(path.read_text())
    done = run_in(harmless, "-m", module, *PLAN)
    assert (done.returncode, ran(hostile)) == (0, set()), done.stderr
    assert "[train]" in done.stdout


def test_with_p_and_by_its_command_foveate_runs_no_file_of_the_working_folder_at_all(hostile: Path) -> None:
    script = "import sys; from foveate.cli import main; sys.exit(main())"
    command = hostile / "bin" / "foveate"
    command.parent.mkdir(exist_ok=True)
    command.write_text(script)
    for words in (("-P", "-m", "foveate"), (str(command),)):
        done = run_in(hostile, *words, *PLAN)
        assert (done.returncode, ran(hostile)) == (0, set()), done.stderr


def test_a_module_of_somebody_else_that_is_run_by_name_keeps_its_working_folder(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text("import foveate\nimport beside\n")
    (tmp_path / "mine" / "__main__.py").write_text(
        "import sys; print(beside.__name__, sys.argv[1])\n".replace("beside.", "sys.modules['beside'].")
    )
    (tmp_path / "beside.py").touch()
    done = run_in(tmp_path, "-m", "mine", "foveate")
    assert done.stdout == "beside foveate\n", done.stderr
