"""What SECURITY.md promises, sentence by sentence."""

import ast
import errno
import hashlib
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from foveate.attention import Attention, Visibility, causal, record
from foveate.config import permit
from foveate.errors import DataError, UsageError
from foveate.inspect import Trace, read_trace, write_trace
from foveate.storage import manifest
from foveate.storage.checkpoint import Checkpoints
from foveate.tasks.embedder import EmbeddingConfig
from foveate.tasks.translate.use import Translator

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
COMPARED = ("--no-tune", "--threads", "1", "--set", "train.steps=2", "--seeds", "1", "--vary", "model.hidden_dim=8,16")


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


# -- what somebody else's folder may not do ----------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["metrics.jsonl", ".lock", "report.html", "checkpoints", "data", "best.json"])
@pytest.mark.parametrize("command", ["resume", "report"])
def test_nothing_is_written_through_a_link_in_a_run(
    place: str, command: str, run: Path, foveate: Any, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    path = run / place
    if path.is_dir():
        shutil.move(path, elsewhere)
    else:
        elsewhere.write_text("mine\n")
        path.unlink(missing_ok=True)
    path.symlink_to(elsewhere)
    before = contents(elsewhere)
    said = foveate(command, run, "--no-tune")
    assert contents(elsewhere) == before
    if command == "resume":
        assert said.code == 3
        assert f"{path} is a link to '{elsewhere}', but a run is written only within its own folder." in said.err


@pytest.mark.parametrize("place", ["metrics.jsonl", ".lock"])
def test_nothing_is_written_into_a_file_that_has_another_name_elsewhere(
    place: str, run: Path, foveate: Any, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine\n")
    (run / place).unlink(missing_ok=True)
    (run / place).hardlink_to(elsewhere)
    said = foveate("resume", run, "--no-tune")
    assert (said.code, elsewhere.read_text()) == (3, "mine\n")
    assert f"{run / place} is not a regular file, or has a second name (hard link)" in said.err


def test_old_checkpoints_are_deleted_without_following_a_link(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("mine")
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    for name in ("step-00000001", ".tmp-step-00000002-1", ".tmp-old-step-00000003", "damaged-step-00000009"):
        (folder / name).symlink_to(elsewhere)
    (folder / "step-00000009").mkdir()
    checkpoints = Checkpoints(folder)
    checkpoints.prune(keep=1)
    checkpoints.set_aside(after=4)
    assert (elsewhere / "kept").read_text() == "mine"


def contents(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else [file for file in sorted(path.rglob("*")) if file.is_file()]
    return {str(file): file.read_bytes() for file in files}


def test_reading_follows_links_as_hugging_face_keeps_models(run: Path, foveate: Any, tmp_path: Path) -> None:
    (run / "model.safetensors").rename(tmp_path / "blob")
    (run / "model.safetensors").symlink_to(tmp_path / "blob")
    assert foveate("translate", run, "abc", "--no-tune").code == 0


def test_opening_a_run_reads_only(run: Path, foveate: Any) -> None:
    before = contents(run)
    for command in (("translate", "abc"), ("look", "abc"), ("evaluate", "--source", "x", "--target", "y")):
        foveate(command[0], run, *command[1:], "--no-tune")
    assert contents(run) == before


@pytest.mark.parametrize("name", ["config.json", "model.json", "source.tokeniser.json", "model.safetensors"])
@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_a_device_or_a_pipe_is_not_read(name: str, kind: str, run: Path, foveate: Any) -> None:
    (run / name).unlink()
    if kind == "device":
        (run / name).symlink_to("/dev/zero")
    else:
        os.mkfifo(run / name)
    said = foveate("translate", run, "abc", "--no-tune")
    assert said.code == 3
    assert str(run / name) in said.err


@pytest.mark.parametrize("command", [("translate", "abc"), ("look", "abc"), ("resume",), ("report",)])
def test_the_configuration_of_a_run_imports_nothing(
    command: tuple[str, ...], run: Path, foveate: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    content = json.loads((run / "config.json").read_text())
    content["config"]["model"]["attention"]["score"] = {"kind": "evil:Score"}
    (run / "config.json").write_text(json.dumps(content))
    said = foveate(command[0], run, *command[1:], "--no-tune")
    assert (said.code, (tmp_path / "ran").exists()) == (2, False)
    assert "names a class to import, which runs its code" in said.err


MY_PARTS = """
from dataclasses import dataclass
from foveate.attention.score.additive import AdditiveConfig

@dataclass(frozen=True, kw_only=True)
class Score:
    def build(self, *, query_dim, key_dim, num_heads=1):
        return AdditiveConfig().build(query_dim=query_dim, key_dim=key_dim, num_heads=num_heads)
"""


def test_a_run_with_a_part_of_yours_opens_with_permission_for_exactly_its_module(
    recipe: tuple[str, ...], foveate: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, unchecked: None
) -> None:
    (tmp_path / "my_parts.py").write_text(MY_PARTS)
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run"
    own = ("--set", "model.attention.score=my_parts:Score")
    said = foveate(*recipe, *own, "--out", run, "--no-tune")
    assert said.code == 0, said.err
    assert f"foveate translate {run} --import my_parts" in said.err
    sys.modules.pop("my_parts")
    for command in (("translate", "abc"), ("look", "abc"), ("report",), ("resume",), ("export", "--to", "onnx", "out")):
        refused = foveate(command[0], run, *command[1:])
        assert refused.code == 2
        assert "add --import my_parts to the command" in refused.err
        assert foveate(command[0], run, *command[1:], "--import", "my").code == 2
        assert "my_parts" not in sys.modules
        permitted = foveate(command[0], run, *command[1:], "--import", "my_parts")
        assert permitted.code == 0, permitted.err
        assert sys.modules.pop("my_parts")
    with pytest.raises(UsageError, match="names a class to import"):
        Translator.load(run)
    with permit("my_parts"):
        Translator.load(run)
        threads = ThreadPoolExecutor(1)
        with pytest.raises(UsageError, match="names a class to import"):
            threads.submit(Translator.load, run).result()
    sys.modules.pop("my_parts")


def test_a_pickle_in_place_of_weights_is_not_read(run: Path, foveate: Any, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (open, (str(tmp_path / "ran"), "w"))

    content = pickle.dumps(Evil())
    (run / "model.safetensors").write_bytes(content)
    final = json.loads((run / "model.json").read_text())
    (run / "model.json").write_text(json.dumps(final | {"sha256": hashlib.sha256(content).hexdigest()}))
    said = foveate("translate", run, "abc", "--no-tune")
    assert (said.code, (tmp_path / "ran").exists()) == (3, False)


def test_a_folder_of_hugging_face_runs_none_of_its_code(tmp_path: Path, foveate: Any) -> None:
    (tmp_path / "modeling_evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    told = {"model_type": "gpt2", "auto_map": {"AutoModel": "modeling_evil.Model"}, "trust_remote_code": True}
    (tmp_path / "config.json").write_text(json.dumps(told))
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps(open))
    said = foveate("generate", tmp_path, "a", "--no-tune")
    assert (said.code, (tmp_path / "ran").exists()) == (3, False)
    assert "has no model.safetensors" in said.err


@pytest.mark.parametrize("file", ["../elsewhere.safetensors", "/etc/passwd", "a/b.safetensors", "..", ""])
def test_a_trace_names_only_files_of_its_own_folder(file: str, tmp_path: Path) -> None:
    attention, x = Attention(), torch.eye(3)[None, None]
    with record(attention) as seen:
        attention.run(query=x, key=x, value=x)
    path = write_trace(Trace.of(seen), tmp_path / "a.trace")
    (path / "site-000.safetensors").rename(tmp_path / "elsewhere.safetensors")
    header = json.loads((path / "trace.json").read_text())
    header["sites"][0]["file"] = file
    written = json.dumps(header).encode()
    (path / "trace.json").write_bytes(written)
    body = f"{hashlib.sha256(written).hexdigest()} {len(written)} trace.json\n".encode()
    (path / "MANIFEST").write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    with pytest.raises(DataError, match="file must be the name of a file beside it"):
        read_trace(path)


def test_a_manifest_names_only_files_of_its_own_folder(tmp_path: Path) -> None:
    body = f"{'0' * 64} 1 ../../etc/passwd\n".encode()
    (tmp_path / "MANIFEST").write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    with pytest.raises(DataError, match="which is not in its folder"):
        manifest.verify(tmp_path)


# -- what else holds JSON, and where else is written -------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        *(
            "{}",
            "[1]",
            '["x"]',
            "null",
            "[" * 100_000,
            '[{"type": 1, "path": ""}]',
            '[{"type": "x.Pooling", "path": []}]',
        ),
        *('[{"type": "x.Pooling", "path": "../other"}]', '[{"type": "x.Pooling", "path": "/etc"}]', "[NaN]"),
        *('[{"type": "x.Pooling", "type": "y", "path": ""}]', '[{"type": "x.\\u001b[2J", "path": ""}]'),
    ],
)
def test_the_steps_of_sentence_transformers_are_read_strictly(content: str, tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text(content)
    with pytest.raises(DataError, match=r"modules.json (is not a list of steps|has a step)"):
        EmbeddingConfig.read(tmp_path)


@pytest.mark.parametrize("limit", ["x", -1, 0, 1.5, True, [], {}])
def test_the_length_of_sentence_transformers_is_a_number_of_tokens(limit: Any, tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text('[{"type": "x.Transformer", "path": ""}]')
    (tmp_path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": limit}))
    with pytest.raises(DataError, match="max_seq_length"):
        EmbeddingConfig.read(tmp_path)


def test_an_export_replaces_a_link_and_not_what_it_points_to(run: Path, foveate: Any, tmp_path: Path) -> None:
    elsewhere, out = tmp_path / "elsewhere", tmp_path / "out"
    elsewhere.mkdir()
    mine = '{"format": "onnx"}'
    (elsewhere / "export.json").write_text(mine)
    out.symlink_to(elsewhere)
    for _ in range(2):
        said = foveate("export", run, "--to", "onnx", out)
        assert said.code == 0, said.err
        assert contents(elsewhere) == {str(elsewhere / "export.json"): mine.encode()}
        assert not out.is_symlink()
        assert not list(tmp_path.glob(".tmp-*"))


def test_a_comparison_with_a_link_in_it_is_not_taken_up(corpus: Path, foveate: Any, tmp_path: Path) -> None:
    elsewhere, out = tmp_path / "elsewhere", tmp_path / "out"
    elsewhere.mkdir()
    out.mkdir()
    (out / "cells").symlink_to(elsewhere)
    (out / "comparison.json").write_text('{"format": 1, "variants": {}}')
    said = foveate("compare", "translate", "--source", corpus / "pairs.tsv", "--out", out, *COMPARED)
    assert (said.code, list(elsewhere.iterdir())) == (3, []), said.err
    assert f"{out / 'cells'} is a link to" in said.err
    (out / "cells").unlink()
    (out / "comparison.json").write_text('{"format": 1, "variants": [1]}')
    said = foveate("compare", "translate", "--source", corpus / "pairs.tsv", "--out", out, *COMPARED)
    assert said.code == 3, said.err
    assert "comparison.json is damaged" in said.err


# -- the network -------------------------------------------------------------------------------------------------------

NETWORKS = {
    "urllib",
    "http",
    "requests",
    "httpx",
    "aiohttp",
    "ftplib",
    "smtplib",
    "huggingface_hub",
    "pickle",
    "marshal",
}


def test_the_package_imports_nothing_that_reaches_out_or_unpickles() -> None:
    for path in (SOURCE / "foveate").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            # `urllib.parse` reads forms, and opens nothing.
            assert not {name.partition(".")[0] for name in names if name != "urllib.parse"} & NETWORKS, path
            if isinstance(node, ast.Attribute):
                assert ast.unparse(node) != "torch.load", path
            if isinstance(node, ast.Call):
                assert ast.unparse(node.func) not in {"eval", "exec", "compile", "__import__"}, path


OUTSIDE = re.compile(
    r"""(?:src|href|action|data|poster|srcset)\s*=\s*["']?\s*(?:https?:)?//|url\(\s*["']?(?:https?:)?//|@import"""
)


def test_reports_and_pictures_load_nothing_from_elsewhere_and_escape_text(
    run: Path, foveate: Any, tmp_path: Path
) -> None:
    nasty = '<script src="//evil.example/x.js"></script>'
    for option in ("html", "svg"):
        said = foveate("look", run, "--text", nasty, f"--{option}", tmp_path / f"page.{option}", "--no-tune")
        assert said.code == 0, said.err
    assert foveate("report", run, "--no-tune").code == 0
    for page in (tmp_path / "page.html", tmp_path / "page.svg", run / "report.html"):
        text = page.read_text(encoding="utf-8")
        assert not OUTSIDE.search(text), page
        assert "<script src" not in text
    assert OUTSIDE.search(nasty)


# -- each sentence -----------------------------------------------------------------------------------------------------

PROOFS = {
    "another address needs a file of keys": "test_serve.py::"
    "test_what_cannot_be_served_is_refused_before_anything_starts",
    "names of runs, languages, the version and health are open": "test_serve.py::test_who_may_ask",
    "requests for another host name are refused": "test_serve.py::test_who_may_ask",
    "Sizes and shapes of requests are checked": "test_serve.py::test_limits_say_the_numbers",
    "within limits on bytes, seconds, samples and pixels": "test_serve_file.py::"
    "test_pictures_that_are_too_large_or_damaged_are_refused_and_never_fail_the_service",
    "A file that ended this process": "test_serve.py::test_a_model_process_that_dies_is_started_again",
    "leave messages out because these may quote a text": "test_front.py::test_the_report_of_a_failure_has_no_text",
    "A client that sends or reads too slowly is cut off": "test_http_connection.py::"
    "test_a_client_that_sends_byte_by_byte_does_not_win_time",
    "Runs are loaded anew only if this machine asks": "test_serve.py::test_who_may_ask",
    "Neither texts nor keys are logged": "test_serve.py::test_the_log_has_neither_texts_nor_keys",
    "Each sentence about opening a folder": "test_security.py",
    "damaged and malicious folders": "test_hostile.py::test_a_damaged_folder_is_refused_in_words_or_read",
    "pickle is neither read nor written": "test_hostile.py::alone",
    "a configuration in them cannot import code": "test_security.py::test_the_configuration_of_a_run_imports_nothing",
    "code in a folder of Hugging Face is not run": "test_security.py::"
    "test_a_folder_of_hugging_face_runs_none_of_its_code",
    "cause an error message": "test_hostile.py::test_a_damaged_folder_is_refused_in_words_or_read",
    "Weights of a run without their digest are refused": "test_hostile.py::test_a_damaged_folder",
    "far larger than its weights": "surface/test_size.py::test_a_run_is_no_larger_than_its_weights",
    "larger than memory": "surface/test_size.py::test_training_is_no_larger_than_the_memory",
    "It follows links": "test_security.py::test_reading_follows_links_as_hugging_face_keeps_models",
    "does not read devices or pipes": "test_security.py::test_a_device_or_a_pipe_is_not_read",
    "only reads": "test_security.py::test_opening_a_run_reads_only",
    "refuses a run with symbolic links": "test_security.py::test_nothing_is_written_through_a_link_in_a_run",
    "a second name elsewhere": "test_security.py::test_nothing_is_written_into_a_file_that_has_another_name_elsewhere",
    "deleted without following a link": "test_security.py::test_old_checkpoints_are_deleted_without_following_a_link",
    "names only files of its own folder": "test_security.py::test_a_trace_names_only_files_of_its_own_folder",
    "replaces a link": "test_security.py::test_an_export_replaces_a_link_and_not_what_it_points_to",
    "refuses a folder with links": "test_security.py::test_a_comparison_with_a_link_in_it_is_not_taken_up",
    "which is then imported": "test_security.py::test_a_user_class_that_does_not_build_a_part_is_refused",
    "`python -m foveate` removes the working folder": "test_security.py::"
    "test_python_m_runs_no_file_of_the_working_folder",
    "`python -P -m foveate`": "test_security.py::test_with_p_and_by_its_command_foveate_runs_no_file",
    "compiled on first use and cached": "test_native.py::test_a_kernel_is_compiled_once_and_found_again",
    "A cached library is loaded only if it is unchanged": "test_native.py::"
    "test_a_damaged_library_is_compiled_anew_without_a_word",
    "nobody but you could have written it": "test_native.py::"
    "test_nothing_is_loaded_from_a_cache_where_others_could_have_planted_it",
    "a private folder, which it removes": "test_native.py::test_a_private_folder_is_gone_when_its_process_is",
    "killed after 20 seconds": "test_native.py::test_a_compiler_that_hangs_is_ended_with_its_children",
    "FOVEATE_NATIVE=0 turns all of this off": "test_native.py::test_kernels_can_be_turned_off",
    "does not use the network": "test_hostile.py::alone",
    "do not load other files": "test_security.py::test_reports_and_pictures_load_nothing_from_elsewhere",
    "answers only this machine": "test_viewer.py::test_another_name_for_this_machine_is_refused",
    "the font folders of the machine": "test_png.py::test_a_letter_that_no_font_has_is_refused_by_name",
    "Compressed input is read as a stream with a limit": "data/test_text.py::"
    "test_a_line_without_end_does_not_fill_the_memory",
    "Pictures of more than 16,777,216 pixels are refused": "test_image.py::"
    "test_a_huge_picture_is_refused_before_it_is_unpacked",
    "`.npz` files of more than 8 GiB": "test_feature.py::test_a_bomb_is_not_unpacked",
    "Configurations inside checkpoints may not": "test_security.py::test_the_configuration_of_a_run_imports_nothing",
    "permits exactly the modules named there": "test_security.py::"
    "test_a_run_with_a_part_of_yours_opens_with_permission_for_exactly_its_module",
    "The command `foveate` does not run any": "test_security.py::test_with_p_and_by_its_command_foveate_runs_no_file",
    "write only into the run's own folder": "test_security.py::test_nothing_is_written_through_a_link_in_a_run",
    "contain JSON, safetensors and tokenisers": "test_hostile.py::test_a_damaged_folder_is_refused_in_words_or_read",
    "a random address": "test_viewer.py::test_without_the_token_nothing_is_there",
    "a terminal shows control characters as escapes": "test_voice.py::test_what_a_model_writes_is_plain_on_a_terminal",
}
"""A phrase of each sentence of SECURITY.md, and the test that proves the sentence."""


ADVICE = (
    "Digests detect damage, but not an attacker",
    "Translating an untrusted text costs time",
    "The service does not encrypt",
    "It does not limit how much one client may ask",
    "Please write to the maintainers",
    "Say which version",
    "The newest release",
)
"""Phrases of sentences that warn or ask, without a promise that a test could check."""


def test_every_sentence_is_proved_or_is_advice() -> None:
    text = (SOURCE.parent / "SECURITY.md").read_text().partition("\n")[2]
    paragraphs = (re.sub(r"\*\*.*?\*\*", "", " ".join(part.split())) for part in text.split("\n\n"))
    sentences = [one.strip() for part in paragraphs for one in re.split(r"(?<=[.:]) (?=[A-Z])", part) if one.strip()]
    unproved = [one for one in sentences if not any(words in one for words in (*PROOFS, *ADVICE))]
    assert not unproved


@pytest.mark.parametrize("words", PROOFS)
def test_each_sentence_about_folders_has_its_test(words: str) -> None:
    text = " ".join((SOURCE.parent / "SECURITY.md").read_text().split())
    assert words in text
    file, _, name = PROOFS[words].partition("::")
    (path,) = (SOURCE.parent / "tests").rglob(file)
    assert f"def {name}" in path.read_text() if name else True


# -- what runs code of yours -------------------------------------------------------------------------------------------

BAD_CLASSES = """
from dataclasses import dataclass

@dataclass(frozen=True, kw_only=True)
class Nothing:
    def build(self, *, query_dim, key_dim, num_heads=1):
        pass

@dataclass(frozen=True, kw_only=True)
class Unbuilt:
    pass

@dataclass(frozen=True, kw_only=True)
class Other:
    def build(self, width):
        return width

@dataclass(frozen=True, kw_only=True)
class Model:
    def build(self, *sizes):
        return "a model"
"""


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("model.attention.score=bad_classes:Nothing", "bad_classes:Nothing.build returned nothing."),
        ("model.attention.score=bad_classes:Unbuilt", "must be a table with a kind"),
        ("model.attention.score=bad_classes:Other", "bad_classes:Other.build cannot be called as build("),
        ("model=bad_classes:Model", "what was built is 'a model'"),
        ("model=:Absent", "model.kind: ':Absent' does not name a class. Write it as module:Class"),
        ("model=bad_classes:", "model.kind: 'bad_classes:' does not name a class. Write it as module:Class"),
        ("model=bad_classes:Absent", "the module 'bad_classes' has no 'Absent'"),
    ],
)
def test_a_user_class_that_does_not_build_a_part_is_refused(
    setting: str, says: str, foveate: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, unchecked: None
) -> None:
    (tmp_path / "bad_classes.py").write_text(BAD_CLASSES)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.tsv").write_text("a b\tb a\nb a\ta b\n" * 40)
    said = foveate(
        *("train", "translate", "--source", tmp_path / "pairs.tsv", "--out", tmp_path / "run", "--no-tune"),
        *("--set", "model=bahdanau", "--set", "model.hidden_dim=8", "--set", setting),
    )
    sys.modules.pop("bad_classes", None)
    assert said.code == 2, said.err
    assert says in said.err


# -- limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        *(b"[" * 100_000, b'{"a":' * 100_000, b'{"a": NaN}', b'{"a": 1e999}', b'{"a": 1, "a": 2}', b'{"a": "\\ud800"}'),
        *(b"\xff", b"", b"[]", b"1" * 5000, b'{"a": ' + b"[" * 150 + b"]" * 150 + b"}"),
    ],
)
def test_json_that_two_readers_could_understand_differently_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(DataError):
        manifest.read_json(tmp_path / "a.json")


@pytest.mark.parametrize("rule", ["~" * 5000 + "causal()", "(" * 5000 + "causal()" + ")" * 5000, "-" * 5000 + "1"])
def test_a_rule_is_as_deep_as_anybody_writes_one(rule: str) -> None:
    with pytest.raises(ValueError, match=r"at most 100 rules within each other|cannot be read|is no"):
        Visibility.parse(rule)
    assert Visibility.parse("~" * 2 + "causal()") == causal()


@pytest.mark.parametrize("port", ["99999", "-1", "x"])
def test_a_port_is_one_of_a_machine(port: str, foveate: Any) -> None:
    said = foveate("look", "en-fr", "--text", "a", "--port", port)
    assert said.code == 2
    assert "to 65535" in said.err


def test_what_is_not_there_is_not_asked_about(foveate: Any) -> None:
    said = foveate("look", "/nonexistent")
    assert said.code == 3
    assert "there is no such folder" in said.err


@pytest.mark.parametrize("where", ["checkpoints", "metrics.jsonl"])
def test_a_full_disk_at_the_last_moment_is_reported(where: str, run: Path, foveate: Any, monkeypatch: Any) -> None:
    def full(descriptor: int) -> None:
        if where in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.ENOSPC, "No space left on device")
        flushed(descriptor)

    flushed = os.fsync
    for step in sorted((run / "checkpoints").iterdir())[1:]:
        shutil.rmtree(step)
    (run / "model.safetensors").unlink()
    monkeypatch.setattr(os, "fsync", full)
    said = foveate("resume", run, "--no-tune", "--quiet")
    assert said.code == 4, said.err
    assert "The disk is full" in said.err
    assert "earlier files are unchanged" in said.err


def test_a_full_memory_is_reported(foveate: Any, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4398046511104 bytes")

    monkeypatch.setattr(torch, "empty", full)
    monkeypatch.setattr(torch, "zeros", full)
    said = foveate("translate", run, "abc", "--no-tune")
    assert said.code in (2, 4)
    assert "memory" in said.err
