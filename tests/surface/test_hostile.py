"""Folders that somebody has damaged or made up: every command ends with a sentence and an exit code.

Each case changes one file of a sound folder, always the same way for its number, and runs one command on it. Where a
file is sealed by a digest the seal is made again, as whoever means harm would do.
"""

import base64
import contextlib
import hashlib
import io
import json
import os
import pickle
import random
import shutil
import socket
import struct
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch

from foveate.cli import main

CASES = int(os.environ.get("FOVEATE_HOSTILE", "12"))
"""Of each kind of folder; a search for more takes thousands."""
FAST = ("--no-tune", "--threads", "1")
BRIEF = (
    *(*FAST, "--quiet", "--set", "train.steps=3", "--set", "train.validate_every=1", "--set", "train.save_every=1"),
    *("--set", "train.log_every=1", "--set", "train.keep=5", "--set", "train.average=2"),
)
BLOCK = "{ model_dim = 8, num_heads = 2, feedforward_dim = 12 }"

Answer = tuple[int, str]


def answer(*argv: object) -> Answer:
    """Exit code and last words of a command; a traceback is a code of its own."""
    said = io.StringIO()
    reading = patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with reading, contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        try:
            return main([str(word) for word in argv]), said.getvalue()
        except SystemExit as end:
            return int(end.code or 0), said.getvalue()
        except Exception:
            return 1, traceback.format_exc()


def made(*argv: object) -> None:
    code, said = answer(*argv)
    assert code == 0, said


def refuse(*_: object, **__: object) -> Any:
    raise AssertionError("a connection was opened, or a pickle was read")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No command here may open a connection or read a pickle, whatever folder it is given."""
    for name in ("connect", "connect_ex", "sendto", "bind"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for name in ("load", "loads"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(torch, "load", refuse)


# -- sound folders -----------------------------------------------------------------------------------------------------


def translator(folder: Path) -> None:
    rows = [f"{a} {b} {c}\t{c} {b} {a}\n" for a in "abcd" for b in "efg" for c in "hij"]
    (folder / "pairs.tsv").write_text("".join(rows))
    (folder / "source.txt").write_text("a e h\nb f i\n")
    (folder / "target.txt").write_text("h e a\ni f b\n")
    model = f"model={{ kind = 'transformer', block = {BLOCK}, encoder_layers = 1, decoder_layers = 1 }}"
    pieces = "_tokeniser={ kind = 'sentencepiece', vocab_size = 290 }"
    sizes = (model, "data.max_tokens=128", f"source{pieces}", f"target{pieces}")
    settings = [word for one in sizes for word in ("--set", one)]
    made("train", "translate", "--source", folder / "pairs.tsv", "--out", folder / "run", *settings, *BRIEF)


def recurrent(folder: Path) -> None:
    rows = [f"{a} {b}\t{b} {a}\n" for a in "abcd" for b in "efgh"]
    (folder / "pairs.tsv").write_text("".join(rows))
    sizes = ("model.hidden_dim=8", "model.embedding_dim=4", "model.maxout_dim=4", "model.attention.score.hidden_dim=4")
    settings = [word for one in (*sizes, "source_tokeniser=word", "target_tokeniser=word") for word in ("--set", one)]
    made("train", "translate", "--source", folder / "pairs.tsv", "--out", folder / "run", *settings, *BRIEF)


def tagger(folder: Path) -> None:
    (folder / "data.txt").write_text("I/P saw/V a/D saw/N\na/D saw/N\n" * 15)
    sizes = (f"model.encoder={{ kind = 'bert', num_layers = 1, block = {BLOCK} }}", "model.embedding_dim=8")
    settings = [word for one in (*sizes, "model.character_dim=0") for word in ("--set", one)]
    made("train", "tag", "--data", folder / "data.txt", "--out", folder / "run", *settings, *BRIEF)


def classifier(folder: Path) -> None:
    (folder / "data.tsv").write_text("I saw a saw\tyes\na saw\tno\n" * 15)
    sizes = (f"model.encoder={{ kind = 'bert', num_layers = 1, block = {BLOCK} }}", "model.embedding_dim=8")
    settings = [word for one in (*sizes, "tokeniser=word") for word in ("--set", one)]
    made("train", "classify", "--data", folder / "data.tsv", "--out", folder / "run", *settings, *BRIEF)


def language_model(folder: Path) -> None:
    (folder / "text.txt").write_text("abc ab\n" * 60)
    sizes = (f"model.block={BLOCK}", "model.num_layers=1", "data.block_length=16", "tokeniser=character")
    settings = [word for one in (*sizes, "data.max_tokens=64") for word in ("--set", one)]
    made("train", "language_model", "--text", folder / "text.txt", "--out", folder / "run", *settings, *BRIEF)


def trace(folder: Path) -> None:
    language_model(folder)
    made("look", folder / "run", "abc", "--trace", folder / "seen.trace", *FAST)
    shutil.rmtree(folder / "run")
    (folder / "seen.trace").rename(folder / "run")


LINES = ["the cat sat on the mat", "a dog ran after cats", "the mat", "cats and dogs"]


def their_bert(folder: Path) -> None:
    import tokenizers
    from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

    inner = tokenizers.BertWordPieceTokenizer(lowercase=True)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    inner.train_from_iterator(LINES, vocab_size=60, show_progress=False, special_tokens=special)
    inner.save_model(str(folder))
    words = BertTokenizerFast(str(folder / "vocab.txt"))
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12}
    BertForMaskedLM(BertConfig(vocab_size=len(words), **sizes)).save_pretrained(folder / "run")
    words.save_pretrained(folder / "run")


def their_gpt2(folder: Path) -> None:
    import tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel

    (folder / "run").mkdir()
    inner = tokenizers.ByteLevelBPETokenizer()
    inner.train_from_iterator(LINES, vocab_size=280, show_progress=False, special_tokens=["<|endoftext|>"])
    inner.save_model(str(folder / "run"))
    end = inner.token_to_id("<|endoftext|>")
    sizes = {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 32, "bos_token_id": end, "eos_token_id": end}
    GPT2LMHeadModel(GPT2Config(vocab_size=inner.get_vocab_size(), **sizes)).save_pretrained(folder / "run")


def their_marian(folder: Path) -> None:
    from transformers import MarianConfig, MarianMTModel

    from foveate.data.tokeniser import SentencePieceTokeniser

    (folder / "run").mkdir()
    trained = SentencePieceTokeniser.train(LINES, vocab_size=290, model_type="unigram")
    for side in ("source", "target"):
        (folder / "run" / f"{side}.spm").write_bytes(trained.model)
    pieces = trained.pieces(range(4, trained.vocab_size))
    vocab = {"</s>": 0, "<unk>": 1, **{piece: 2 + number for number, piece in enumerate(pieces)}}
    vocab["<pad>"] = len(vocab)
    (folder / "run" / "vocab.json").write_text(json.dumps(vocab))
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    sizes |= {"d_model": 8, "encoder_ffn_dim": 12, "decoder_ffn_dim": 12, "max_position_embeddings": 32}
    ends = {"pad_token_id": len(vocab) - 1, "eos_token_id": 0, "decoder_start_token_id": len(vocab) - 1}
    config = MarianConfig(vocab_size=len(vocab), scale_embedding=True, forced_eos_token_id=None, **sizes, **ends)
    MarianMTModel(config).save_pretrained(folder / "run")
    (folder / "source.txt").write_text("the cat\n")
    (folder / "target.txt").write_text("cat the\n")


Commands = tuple[tuple[str, ...], ...]
TRANSLATES: Commands = (
    ("translate", "RUN", "a e h", "--align", *FAST),
    ("look", "RUN", "--text", "a e h", "--html", "OUT/x.html", *FAST),
    ("evaluate", "RUN", "--source", "IN/source.txt", "--target", "IN/target.txt", *FAST),
)
TRAINED: Commands = (("resume", "RUN", *FAST), ("resume", "RUN", *FAST), ("report", "RUN", *FAST))
ONNX: Commands = (("export", "RUN", "--to", "onnx", "OUT/onnx"),)
FOLDERS: dict[str, tuple[Callable[[Path], None], Commands]] = {
    "translator": (translator, (*TRANSLATES, *TRAINED)),
    "recurrent": (
        recurrent,
        (("translate", "RUN", "a e", "--align", *FAST), ("export", "RUN", "--to", "onnx", "OUT/onnx"), *TRAINED),
    ),
    "tagger": (
        tagger,
        (
            ("tag", "RUN", "I saw", *FAST),
            ("look", "RUN", "I saw", *FAST),
            ("evaluate", "RUN", "--data", "IN/data.txt", *FAST),
            *TRAINED,
        ),
    ),
    "classifier": (
        classifier,
        (
            ("classify", "RUN", "I saw", *FAST),
            ("look", "RUN", "--text", "I saw", "--svg", "OUT/x.svg", *FAST),
            ("evaluate", "RUN", "--data", "IN/data.tsv", *FAST),
            *TRAINED,
        ),
    ),
    "language model": (
        language_model,
        (
            ("generate", "RUN", "abc", "--length", "3", *FAST),
            ("look", "RUN", "--text", "abc", "--html", "OUT/x.html", *FAST),
            ("evaluate", "RUN", "--text", "IN/text.txt", *FAST),
            *TRAINED,
        ),
    ),
    "trace": (
        trace,
        (
            ("look", "RUN", "--html", "OUT/x.html"),
            ("look", "RUN", "--svg", "OUT/x.svg"),
            ("look", "RUN", "--svg", "OUT/x.svg", "--words", "--scale", "lift"),
            ("look", "RUN", "--out", "OUT/x.txt", "--words"),
        ),
    ),
    "their BERT": (
        their_bert,
        (
            ("fill", "RUN", "the ___ sat", *FAST),
            ("look", "RUN", "--text", "the ___ sat", "--html", "OUT/x.html", *FAST),
        ),
    ),
    "their GPT-2": (
        their_gpt2,
        (
            ("generate", "RUN", "the", "--length", "3", *FAST),
            ("look", "RUN", "--text", "the cat", "--svg", "OUT/x.svg", *FAST),
        ),
    ),
    "their Marian": (
        their_marian,
        (("translate", "RUN", "the cat", "--align", *FAST), *TRANSLATES[1:]),
    ),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folders with a `run` in them, made when they are asked for."""
    folders: dict[str, Path] = {}

    def of(name: str) -> Path:
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp("sound")
            FOLDERS[name][0](folders[name])
            newest = sorted((folders[name] / "run" / "checkpoints").glob("step-*"))
            if newest:  # one step is left to resume
                shutil.rmtree(newest[-1])
                (folders[name] / "run" / "model.json").unlink()
                (folders[name] / "run" / "model.safetensors").unlink()
        return folders[name]

    return of


# -- damage ------------------------------------------------------------------------------------------------------------

VALUES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 7, 2**31, 10**30, 10**400, -0.5, 1e308, "", "x", "none", "\0", "\ud800", "../../x"),
    *("/etc/passwd", "os:system", "é" * 300, [], [[]], [1, 2, 3], ["x"], {}, {"a": 1}, {"kind": "x"}),
    {"kind": "os:system"},
    *("~" * 6000 + "causal()", "(" * 150 + "causal()" + ")" * 150, "window(left=-5, right='x')", "edges([[0], [99]])"),
)
TEXTS = (
    *(b"", b"{", b"null", b"[]", b'"x"', b"{}", b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe{", b"\xef\xbb\xbf{}"),
    *(b'{"format": NaN}', b'{"a": 1, "a": 2}', b'{"format": 1}', b"1" * 5000, b'{"format": 1e999}', b"\0" * 64),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a value could be exchanged."""
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in list(parts)[:60]:
        yield from places(part, (*path, key))


def changed(value: Any, generator: random.Random) -> Any:
    """Plain data with one part exchanged, left out, or wrapped a hundred times."""
    value = json.loads(json.dumps(value))
    path = generator.choice([path for path in places(value) if path] or [()])
    if not path:
        return generator.choice(VALUES)
    holder = value
    for key in path[:-1]:
        holder = holder[key]
    what = generator.random()
    if what < 0.15:
        del holder[path[-1]]
    elif what < 0.2:
        for _ in range(generator.choice((3, 200))):
            holder[path[-1]] = [holder[path[-1]]]
    elif what < 0.25 and isinstance(holder, dict):
        holder[generator.choice(("", "x", "kind", "\0", "n" * 3000))] = generator.choice(VALUES)
    else:
        holder[path[-1]] = generator.choice(VALUES)
    return value


def damaged_tensors(content: bytes, generator: random.Random) -> bytes:
    """A safetensors file whose header tells something else, or whose numbers are others."""
    size = struct.unpack("<Q", content[:8])[0]
    header, body = json.loads(content[8 : 8 + size]), content[8 + size :]
    names = [name for name in header if name != "__metadata__"]
    name = generator.choice(names)
    what = generator.randrange(9)
    if what == 0:
        return struct.pack("<Q", generator.choice((0, 2**63, 10**9, size + 1))) + content[8:]
    if what == 1:
        return struct.pack("<Q", size) + generator.choice((b"[", b"\xff", b" ")) * size + body
    if what == 2:
        header[name]["shape"] = generator.choice(([-1], [2**62, 4], [], [0], header[name]["shape"][::-1], [[1]]))
    elif what == 3:
        header[name]["dtype"] = generator.choice(("F64", "I8", "BF16", "F16", "X", "U8", None))
    elif what == 4:
        header["another"] = header.pop(name)
    elif what == 5:
        return content[: 8 + size] + np.full(len(body) // 4, generator.choice((np.nan, np.inf, 1e38)), "<f4").tobytes()
    elif what == 6:
        from safetensors.torch import load, save

        tensors = load(content)
        which = generator.randrange(4)
        if which == 0:
            del tensors[name]
        elif which == 1:
            tensors[name] = torch.zeros(3, 1)
        elif which == 2:
            tensors[name] = tensors[name].double()
        else:
            tensors[name] = tensors[name][..., :-1].contiguous() if tensors[name].ndim else torch.zeros(2)
        return save(tensors)
    elif what == 7:
        header[name]["data_offsets"] = generator.choice(([0, 10**12], [5, 1], [-4, 0], [0, 0]))
    else:
        return content[: generator.randrange(len(content))]
    written = json.dumps(header).encode()
    return struct.pack("<Q", len(written)) + written + body


def damaged(path: Path, generator: random.Random) -> bytes:
    content = path.read_bytes()
    what = generator.random()
    if what < 0.1:
        return generator.choice(TEXTS)
    if what < 0.15 and content:
        return content[: generator.randrange(len(content))]
    if what < 0.25 and content:
        where = generator.randrange(len(content))
        return content[:where] + bytes([content[where] ^ (1 << generator.randrange(8))]) + content[where + 1 :]
    if path.suffix == ".json":
        value = json.loads(content)
        if what < 0.5 and isinstance(value.get("content"), dict) and "model" in value["content"]:
            model = bytearray(base64.b64decode(value["content"]["model"]))
            for _ in range(generator.choice((1, 50))):
                model[generator.randrange(len(model))] = generator.randrange(256)
            model = model[: generator.choice((len(model), len(model) // 2, 0))]
            value["content"]["model"] = base64.b64encode(model).decode()
        else:
            value = changed(value, generator)
        return json.dumps(value).encode()
    if path.suffix == ".jsonl":
        lines = content.splitlines()
        at = generator.randrange(len(lines))
        row = json.dumps(changed(json.loads(lines[at]), generator)).encode()
        lines[at] = generator.choice((row, row, b"{", b"", b"[]", b"\xff"))
        return b"\n".join(lines) + b"\n"
    if path.suffix == ".safetensors":
        return damaged_tensors(content, generator)
    if path.suffix == ".bin" and content:
        kind = "<i8" if path.name == "offsets.bin" else "<u2"
        numbers = np.frombuffer(content, kind).copy()
        numbers[generator.randrange(len(numbers))] = generator.choice((0, 1, 999, 60_000, len(numbers)))
        if kind == "<i8" and generator.random() < 0.5:
            numbers[generator.randrange(len(numbers))] = generator.choice((-1, 2**62, -(2**62)))
        return numbers.tobytes()
    at = generator.randrange(len(content) + 1)
    return content[:at] + generator.randbytes(8) + content[at:]


def reseal(run: Path, path: Path) -> None:
    """Makes the digests right again, where there are any."""
    with contextlib.suppress(Exception):
        if path.name.endswith("tokeniser.json"):
            record = json.loads(path.read_bytes())
            canonical = json.dumps([record["kind"], record["content"]], sort_keys=True, separators=(",", ":"))
            record["digest"] = hashlib.sha256(canonical.encode()).hexdigest()
            path.write_text(json.dumps(record))
            config = json.loads((run / "config.json").read_bytes())
            config["tokenisers"][path.name] = record["digest"]
            (run / "config.json").write_text(json.dumps(config))
        if path.name == "labels.json":
            record = json.loads(path.read_bytes())
            record["digest"] = hashlib.sha256(json.dumps(record["labels"]).encode()).hexdigest()
            path.write_text(json.dumps(record))
            config = json.loads((run / "config.json").read_bytes())
            config["tokenisers"][path.name] = record["digest"]
            (run / "config.json").write_text(json.dumps(config))
        if path.suffix == ".bin" or path.name == "index.json":
            index = json.loads((path.parent / "index.json").read_bytes())
            del index["digest"]
            for name in ("tokens.bin", "offsets.bin"):
                index["sha256"][name] = hashlib.sha256((path.parent / name).read_bytes()).hexdigest()
            written = json.dumps(index, sort_keys=True, separators=(",", ":"))
            index["digest"] = hashlib.sha256(written.encode()).hexdigest()
            (path.parent / "index.json").write_text(json.dumps(index))
        if path.name == "model.safetensors" and (run / "model.json").exists():
            final = json.loads((run / "model.json").read_bytes())
            final["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
            (run / "model.json").write_text(json.dumps(final))
    manifest = path.parent / "MANIFEST"
    if manifest.exists() and path != manifest:
        files = sorted(other for other in path.parent.iterdir() if other != manifest)
        rows = [f"{hashlib.sha256(f.read_bytes()).hexdigest()} {f.stat().st_size} {f.name}\n" for f in files]
        body = "".join(rows).encode()
        manifest.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)


@dataclass
class Case:
    """What was done, and what came of it."""

    what: str
    code: int
    said: str

    @property
    def is_told(self) -> bool:
        return "Traceback" not in self.said and (self.code == 0 or (self.code in (2, 3, 4) and len(self.said) > 20))


def placed(command: tuple[str, ...], run: Path, sound: Path, out: Path) -> list[str]:
    return [word.replace("RUN", str(run)).replace("IN/", f"{sound}/").replace("OUT", str(out)) for word in command]


def attempt(name: str, number: int, sound: Path, place: Path) -> Case:
    generator = random.Random(f"{name} {number}")
    shutil.rmtree(place, ignore_errors=True)
    run, out = place / "run", place / "out"
    shutil.copytree(sound / "run", run)
    out.mkdir()
    files = [path for path in sorted(run.rglob("*")) if path.is_file() and path.suffix not in (".html",)]
    weights = [20 if path.name in ("config.json", "state.json", "trace.json") else 3 for path in files]
    path = generator.choices(files, weights)[0]
    (command,) = generator.choices(FOLDERS[name][1])
    whole = path.read_bytes()
    if generator.random() < 0.04:
        path.unlink()
    else:
        new = damaged(path, generator)
        path.write_bytes(new)
        if generator.random() < 0.9:
            reseal(run, path)
    code, said = answer(*placed(command, run, sound, out))
    small = path.exists() and len(whole) < 3000
    shown = path.read_bytes()[:3000].decode(errors="replace") if small else ""
    return Case(f"{name} {number}: {path.relative_to(run)}, {' '.join(command)}\n{shown}", code, said)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_damaged_folder_is_refused_in_words_or_read(
    name: str, sound: Callable[[str], Path], tmp_path: Path, unchecked: None
) -> None:
    cases = [attempt(name, number, sound(name), tmp_path / "place") for number in range(CASES)]
    tracebacks = [case for case in cases if not case.is_told]
    assert not tracebacks, "\n\n".join(f"{case.what}\n{case.code}: {case.said}" for case in tracebacks)
    assert any(case.code for case in cases)  # the damage reaches what reads


@pytest.mark.parametrize("name", FOLDERS)
def test_the_folders_are_sound_before(name: str, sound: Callable[[str], Path], tmp_path: Path, unchecked: None) -> None:
    for number, command in enumerate(dict.fromkeys(FOLDERS[name][1])):
        run, out = tmp_path / f"run{number}", tmp_path / f"out{number}"
        shutil.copytree(sound(name) / "run", run)
        out.mkdir()
        code, said = answer(*placed(command, run, sound(name), out))
        assert code == 0, said
