"""The source distribution and the wheel that is built from it hold all that they should, and nothing else."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path, PurePosixPath

import pytest

import foveate

ROOT = Path(__file__).parents[2]
BUILT = shutil.ignore_patterns(
    *(".git", ".venv", "node_modules", "build", "dist", "demo", "work", "__pycache__", "*.egg-info", ".*_cache"),
    ".hypothesis",
)
"""What stands beside the sources and is not theirs."""
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"

pytestmark = pytest.mark.slow


def build(kind: str, source: Path, out: Path) -> Path:
    """What the build backend makes of a folder, without asking an index for anything."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD, f"build_{kind}", str(out)], cwd=source, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return out / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("distribution")


@pytest.fixture(scope="module")
def sdist(folder: Path) -> Path:
    """The source distribution of a copy of this repository."""
    source = shutil.copytree(ROOT, folder / "source", ignore=BUILT)
    return build("sdist", source, folder)


@pytest.fixture(scope="module")
def wheel(folder: Path, sdist: Path) -> zipfile.ZipFile:
    """The wheel that is built from the unpacked source distribution."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    return zipfile.ZipFile(build("wheel", unpacked, folder))


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    (path,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(path).decode())


def files(folder: Path) -> set[PurePosixPath]:
    """The files below a folder that are kept with the sources."""
    ignored = ("__pycache__", "node_modules", "work", "build", "dist")
    below = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {PurePosixPath(path) for path in below if not set(path.parts) & set(ignored) and path.suffix != ".pyc"}


def test_the_wheel_holds_the_whole_package_and_no_other(wheel: zipfile.ZipFile) -> None:
    packed = {PurePosixPath(name) for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == {PurePosixPath("foveate", path) for path in files(ROOT / "src" / "foveate")}
    for name in ("py.typed", "__init__.pyi", "native/prelude.h", "serve/static/viewer.js"):
        assert PurePosixPath("foveate", name) in packed
    assert any(path.suffix == ".cpp" for path in packed)
    assert PurePosixPath("foveate/shipped/english_french/model.safetensors") in packed


def test_the_wheel_holds_the_licences_and_its_metadata_are_whole(wheel: zipfile.ZipFile, metadata: Message) -> None:
    licences = metadata.get_all("License-File")
    assert licences == ["LICENSE", "src/foveate/inspect/figure/dejavu/LICENSE"]
    for licence in licences or ():
        assert any(name.endswith(f".dist-info/licenses/{licence}") for name in wheel.namelist())
    assert metadata["License-Expression"] == "Apache-2.0"
    assert (metadata["Name"], metadata["Version"]) == ("foveate", foveate.__version__)
    assert metadata["Requires-Python"] == ">=3.11"
    assert len(metadata.get_all("Classifier") or ()) > 15
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload() == (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_source_distribution_holds_what_the_tests_need(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        packed = {PurePosixPath(*PurePosixPath(name).parts[1:]) for name in archive.getnames()}
    for part in ("src", "tests", "docs", "examples", "viewer", ".ci"):
        assert {PurePosixPath(part, path) for path in files(ROOT / part)} <= packed, part
    for name in ("README.md", "LICENSE", "CHANGELOG.md", "Makefile", "constraints.txt", "pyproject.toml"):
        assert PurePosixPath(name) in packed


def test_the_version_is_the_newest_of_the_changelog() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    newest = next(line for line in lines if line.startswith("## "))
    assert newest.startswith((f"## {foveate.__version__}, 20", "## Unreleased: "))
    assert foveate.__version__ in newest
