"""The doors of the viewer: its server, who may ask it, a model behind it, and the files it writes."""

import asyncio
import base64
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch

from foveate.attention import Attention, causal, record
from foveate.data.tokeniser import CharacterConfig
from foveate.errors import SetupError
from foveate.inspect import Trace, TraceProvider, Track, alignment, read_trace, steps
from foveate.inspect.tile.head_measure import BEHAVIOURS, MEASURES
from foveate.inspect.trace import given, html
from foveate.inspect.trace.html import numbers
from foveate.models import TransformerConfig
from foveate.nn.transformer_block import BlockConfig
from foveate.serve import Session, application
from foveate.serve.server import listening, open_viewer
from foveate.tasks.translate.alignment_head import Head
from foveate.tasks.translate.translation_ablator import TranslationAblator
from foveate.tasks.translate.translation_rerunner import TranslationRerunner
from foveate.tasks.translate.translation_trace import trace_of
from foveate.tasks.translate.use import Translator

TOKEN, PORT = "s3cret", 8123
HOME = f"http://127.0.0.1:{PORT}"
BASE = f"{HOME}/t/{TOKEN}/"


@pytest.fixture(scope="module")
def trace() -> Trace:
    attention = Attention(visibility=causal())
    torch.manual_seed(0)
    with record(attention) as seen:
        attention.run(x := torch.randn(1, 2, 70, 8), x, x)
    return Trace.of(seen, {"source": Track(labels=tuple("abcdefg" * 10))})


def ask(
    session: Session, path: str, *, base: str = BASE, method: str = "GET", headers: Any = None, body: Any = None
) -> httpx.Response:
    """One request to the application, without a network."""

    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(application(session, token=TOKEN, port=PORT))
        async with httpx.AsyncClient(transport=transport) as client:
            return await client.request(method, base + path, headers=headers, json=body)

    return asyncio.run(asked())


@pytest.fixture
def session(trace: Trace) -> Session:
    return Session(trace)


# -- what the server says ----------------------------------------------------------------------------------------------


def test_the_server_answers_what_the_provider_answers(session: Session, trace: Trace) -> None:
    provider = TraceProvider(trace)
    assert ask(session, "api/trace").json() == {**trace.header(), "attached": False, "text": True}
    for level, pool in ((0, "peak"), (2, "mass"), (6, "peak"), ("word", "mass")):
        answer = ask(session, f"api/tile/0/1/{level}/0/0?pool={pool}")
        assert answer.headers["x-foveate-estimate"] == "0"
        expected = provider.tile(0, 1, level, 0, 0, pool)  # type: ignore[arg-type]
        assert np.array_equal(np.frombuffer(answer.content, "<u2").reshape(256, 256), expected)
    assert np.array_equal(np.frombuffer(ask(session, "api/row/0/0/69").content, "<f4"), provider.row(0, 0, 69))
    assert ask(session, "api/numbers/0").content == numbers(trace, 0)
    assert ask(session, "api/value/0/0/5/2").json()["rank"] == provider.value(0, 0, 5, 2).rank
    assert ask(session, "api/value/0/0/2/5").json()["score"] is None
    assert np.frombuffer(ask(session, "api/counts/0/0").content, "<u4").tolist() == list(range(1, 71))
    assert len(ask(session, "api/overview/0/0").content) == 64 * 64 * 2
    steps = ask(session, "api/steps/0/0/3").json()
    assert set(steps[0]) == {"symbol", "mathml", "numbers", "about", "keys"}


def test_steps_tell_infinities_and_what_is_not_a_number_which_json_has_no_numbers_for() -> None:
    weights = torch.tensor([[[0.5, 0.5], [torch.nan, 1.0]]])
    odd = replace(given(weights, name="odd"), normaliser={"kind": "softmax", "temperature": 1.0})
    scores = torch.tensor([[[-torch.inf, 0.0], [torch.nan, torch.inf]]])
    odd = replace(odd, tensors={**odd.tensors, "scores": scores, "statistic": torch.tensor([[0.0, torch.nan]])})
    session = Session(Trace(tracks={"source": Track.numbered(2)}, sites=(odd,)))
    first, second = (
        {step["symbol"]: step["numbers"] for step in ask(session, f"api/steps/0/0/{i}").json()} for i in (0, 1)
    )
    assert (first["e₀"], first["α₀"]) == (["−∞", 0.0], [0.0, 1.0])
    assert second["e₁"] == ["NaN", "∞"]
    assert steps(session.main.trace, 0, 0, 0)[0].numbers == [-torch.inf, 0.0]
    cell = ask(session, "api/value/0/0/1/0").json()
    assert (cell["visible"], cell["weight"], cell["lift"]) == (True, None, None)
    measured = ask(session, "api/statistics/0?head=0").json()
    assert None in measured["rows"]["entropy"]
    assert None in measured["keys"]["received"]


def test_statistics_come_with_rows_on_request(session: Session) -> None:
    plain = ask(session, "api/statistics/0").json()
    assert plain["estimate"] is False
    assert len(plain["heads"]) == 2
    assert set(plain["heads"][0]) == {*MEASURES, "position"}
    assert set(plain["behaviours"]) <= set(BEHAVIOURS)
    assert len(plain["behaviours"]) == 2
    assert plain["heads"][0]["induction"] > 0
    rows = ask(session, "api/statistics/0?head=1&rows=1").json()["rows"]
    assert rows["previous"][0] is None
    assert len(rows["entropy"]) == 70


def test_coarse_tiles_are_guessed_first_and_statistics_of_long_inputs_too(
    trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from foveate.inspect.tile import lazy
    from foveate.serve import app

    monkeypatch.setattr(app, "SMALL", 0)
    monkeypatch.setattr(lazy, "SAMPLES", 16)
    session = Session(trace)
    assert ask(session, "api/tile/0/0/6/0/0?estimate=1").headers["x-foveate-estimate"] == "1"
    guessed = ask(session, "api/statistics/0").json()
    assert guessed["estimate"] is True
    exact = ask(session, "api/statistics/0?wait=1").json()
    assert guessed["heads"][0]["entropy"] == pytest.approx(exact["heads"][0]["entropy"], rel=0.2)
    assert ask(session, "api/tile/0/0/6/0/0?estimate=1").headers["x-foveate-estimate"] == "0"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("api/tile/0/0/0/1/0", "There is no row 1 of tiles at level 0: there are 1, from 0."),
        ("api/tile/0/0/x/0/0", "'x' is not a number."),
        ("api/tile/5/0/0/0/0", "There is no site 5: there are 1, counted from 0."),
        ("api/row/0/2/0", "There is no head 2: there are 2, counted from 0."),
        ("api/row/0/0/70", "There is no query 70: there are 70, counted from 0."),
        ("api/trace?trace=x", "There is no trace 'x'. The last 8 reruns are kept: run it again."),
    ],
)
def test_a_missing_site_or_head_is_named(session: Session, path: str, said: str) -> None:
    answer = ask(session, path)
    assert (answer.status_code, answer.text) == (400, said)


# -- who may ask -------------------------------------------------------------------------------------------------------


def test_without_the_token_nothing_is_there(session: Session) -> None:
    for base in (f"{HOME}/", f"{HOME}/t/", f"{HOME}/t/wrong/", f"{HOME}/api/"):
        assert ask(session, "api/trace", base=base).status_code == 404
        assert ask(session, "", base=base).status_code == 404


def test_another_name_for_this_machine_is_refused(session: Session) -> None:
    assert ask(session, "api/trace", headers={"host": f"evil.example:{PORT}"}).status_code == 421
    assert ask(session, "api/trace", headers={"host": "127.0.0.1:1"}).status_code == 421
    assert ask(session, "api/trace", headers={"host": f"localhost:{PORT}"}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", f"https://127.0.0.1:{PORT}"])
def test_another_page_may_not_ask(session: Session, origin: str) -> None:
    assert ask(session, "api/trace", headers={"origin": origin}).status_code == 403
    assert ask(session, "api/rerun", method="POST", body={}, headers={"origin": origin}).status_code == 403
    assert ask(session, "api/trace", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert ask(session, "api/trace", headers={"origin": HOME}).status_code == 200


def test_every_answer_forbids_the_page_to_reach_out(session: Session) -> None:
    for path in ("api/trace", "nothing", ""):
        headers = ask(session, path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers


def test_a_number_of_thousands_of_digits_is_refused(session: Session) -> None:
    assert ask(session, f"api/statistics/{'1' * 5_000}").status_code == 414


def test_files_are_only_the_viewer_s(session: Session) -> None:
    assert ask(session, "app.py").status_code == 404
    assert ask(session, "..%2fapp.py").status_code == 404
    assert ask(session, "../../../etc/passwd").status_code == 404


def test_a_viewer_that_is_not_built_is_reported(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from foveate.serve import app

    monkeypatch.setattr(app, "static_folder", lambda: tmp_path)
    assert ask(session, "").status_code == 503
    (tmp_path / "index.html").write_text("<p>here")
    assert ask(session, "").text == "<p>here"


# -- a model behind it -------------------------------------------------------------------------------------------------


@pytest.fixture
def attached(trained: Path) -> Session:
    translator = Translator.load(trained)
    translation = translator.translate(["abca"])[0]
    trace = trace_of(translator, translation)
    rerunner, ablator = (make(translator, translation, trace) for make in (TranslationRerunner, TranslationAblator))
    return Session(trace, rerunner, ablator)


def rerun(session: Session, **changes: Any) -> httpx.Response:
    return ask(session, "api/rerun", method="POST", body={"source": "abca", "target": None, **changes})


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"source": "a", "source": "b"}', b'{"source": NaN}', b"[" * 10_000, b"\xff"]
)
def test_a_request_that_two_readers_could_understand_differently_is_refused(attached: Session, body: bytes) -> None:
    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(application(attached, token=TOKEN, port=PORT))
        async with httpx.AsyncClient(transport=transport) as client:
            return await client.post(f"{BASE}api/rerun", content=body)

    answer = asyncio.run(asked())
    assert answer.status_code == 400
    assert answer.text.startswith("The request is not JSON: ")


def test_running_the_same_again_changes_nothing(attached: Session) -> None:
    assert ask(attached, "api/trace").json()["attached"] is True
    answer = rerun(attached).json()
    assert answer["changed"] is False
    assert answer["output"] == answer["before"]
    assert answer["log_probability"] == answer["log_probability_before"]


def test_a_rerun_has_a_trace_of_its_own(attached: Session) -> None:
    answer = rerun(attached, source="cab").json()
    header = ask(attached, f"api/trace?trace={answer['trace']}").json()
    assert header["sequences"]["source"]["labels"] == ["c", "a", "b", "</s>"]
    assert ask(attached, f"api/tile/0/0/0/0/0?trace={answer['trace']}").status_code == 200


def test_a_head_that_is_off_costs_the_output_and_comes_back(attached: Session) -> None:
    off = rerun(attached, heads_off=[[0, 0]]).json()
    assert off["log_probability"] < off["log_probability_before"]
    assert rerun(attached).json()["changed"] is False


def test_a_token_that_is_off_is_seen_by_nobody(attached: Session) -> None:
    answer = rerun(attached, tokens_off=[1]).json()
    provider = attached.provider(answer["trace"])
    for number, site in enumerate(provider.trace.sites):
        if site.key == "source":
            assert provider.row(number, 0, 0)[1] == 0
    assert answer["log_probability"] != answer["log_probability_before"]
    assert "leave one on" in rerun(attached, tokens_off=[0, 1, 2, 3, 4]).text


def test_heads_of_a_transformer_are_switched_off_whatever_shortcut_it_takes() -> None:
    block = BlockConfig(model_dim=32, num_heads=2, feedforward_dim=32, norm="pre")
    tokeniser = CharacterConfig().train(["abcdef"])
    torch.manual_seed(0)
    size = tokeniser.vocab_size
    model = TransformerConfig(block=block, encoder_layers=2, decoder_layers=2).build(size, size)
    translator = Translator(model, tokeniser, tokeniser)
    first = translator.forced("abcd", "fed")
    trace = trace_of(translator, first)
    assert trace.pedigree.difference is not None
    assert trace.pedigree.difference < 1e-4
    assert all("value" in site.tensors for site in trace.sites)
    assert [trace.sites[number].query for number in (0, 2, 3)] == ["source", "read", "target"]
    run = TranslationRerunner(translator, first, trace)
    same = run("abcd", "fed", heads_off=[], tokens_off=[])
    assert same.log_probability == same.log_probability_before
    for site in trace.sites:
        off = run("abcd", "fed", heads_off=[(site.name, 1)], tokens_off=[])
        assert off.log_probability != same.log_probability, site.name
        assert torch.allclose(off.trace.sites[0].weights(1)[0], trace.sites[0].weights(1)[0])


@pytest.mark.parametrize("chosen", [Head(), Head(layer=0), Head(layer=2, head=1), Head(head=0), Head(layer=-1)])
def test_the_viewer_opens_what_the_terminal_draws(chosen: Head) -> None:
    block = BlockConfig(model_dim=16, num_heads=2, feedforward_dim=16)
    tokeniser = CharacterConfig().train(["abcdef"])
    torch.manual_seed(0)
    model = TransformerConfig(block=block, encoder_layers=1, decoder_layers=3).build(*[tokeniser.vocab_size] * 2)
    translator = Translator(model, tokeniser, tokeniser, head=chosen)
    said = translator.forced("abcd", "fed")
    trace = trace_of(translator, said)
    (drawn,) = translator.align([said])
    assert np.allclose(alignment(trace).weights, drawn.weights, atol=1e-3)
    name, head = trace.header()["opens"]
    assert name == f"decoder.{(1 if chosen.layer is None else chosen.layer) % 3}.cross_attention.attention"
    assert head == chosen.head


@pytest.mark.parametrize(
    "body", [{}, {"source": 3}, {"source": "a", "heads_off": [[0]]}, {"source": "a", "tokens_off": ["x"]}, [1]]
)
def test_a_rerun_of_nonsense_is_refused(attached: Session, body: Any) -> None:
    assert ask(attached, "api/rerun", method="POST", body=body).status_code == 400
    assert rerun(attached, heads_off=[[9, 0]]).status_code == 400


def test_a_stored_trace_cannot_be_run_again(session: Session) -> None:
    assert rerun(session).text.startswith("No model is attached")


def test_the_answer_with_a_word_off_comes_with_its_weights_and_its_cost(attached: Session) -> None:
    trace, (site, head) = attached.main.trace, attached.main.trace.opening
    header = ask(attached, "api/trace").json()
    assert header["ablates"] == "source"
    body = {"heads_off": [], "tokens_off": [1], "site": site, "head": head}
    answer = ask(attached, "api/ablate", method="POST", body=body).json()
    wanted = attached.ablate([], [1], site, head)
    assert answer == wanted
    target = answer["sequences"].get("target", header["sequences"]["target"])
    assert len(answer["weights"]) == len(target["labels"])
    assert {row[1] for row in answer["weights"]} == {None}
    assert answer["log_probability"] != answer["log_probability_before"]
    every = [[site, each] for each in range(trace.sites[site].heads)]
    silent = ask(attached, "api/ablate", method="POST", body=body | {"heads_off": every, "tokens_off": []}).json()
    assert {weight for row in silent["weights"] for weight in row} == {0.0}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, 'Switches need {"site"'),
        ({"site": 0, "head": "x"}, 'Switches need {"site"'),
        ({"site": 99}, "There is no head 0 at site 99."),
        ({"site": 0, "heads_off": [[0]]}, "Switches are {"),
        ({"site": 0, "heads_off": {"a": 1}}, "Switches are {"),
        ({"site": 0, "heads_off": [[0, 9]]}, "There is no head 9 at site 0."),
        ({"site": 0, "tokens_off": [-1]}, "Switches are {"),
        ({"site": 0, "tokens_off": [99]}, "There is no token 99 to switch off: there are 5"),
        ({"site": 0, "tokens_off": [0, 1, 2, 3, 4]}, "All tokens are off"),
    ],
)
def test_switches_of_nonsense_are_refused(attached: Session, body: Any, said: str) -> None:
    answer = ask(attached, "api/ablate", method="POST", body=body)
    assert (answer.status_code, answer.text.startswith(said)) == (400, True), answer.text


def test_without_a_model_nothing_is_switched_off(session: Session) -> None:
    assert "ablates" not in ask(session, "api/trace").json()
    answer = ask(session, "api/ablate", method="POST", body={"site": 0})
    assert answer.text.startswith("No model is attached")


# -- from the command line ---------------------------------------------------------------------------------------------


def test_a_run_becomes_a_trace_a_page_and_pictures(foveate: Any, trained: Path, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.trace", "a.png", "a.svg")]
    options = [
        word for path, option in zip(files, ("--trace", "--png", "--svg"), strict=True) for word in (option, path)
    ]
    done = foveate("look", trained, "abc", "--no-tune", *options)
    assert done.err.count("Wrote ") == 3
    trace = read_trace(files[0])
    assert set(trace.tracks) == {"source", "read", "target"}
    assert trace.pedigree.difference is not None
    assert trace.pedigree.difference < 1e-5
    before = [path.read_bytes() for path in files[1:]]
    foveate("look", files[0], "--png", files[1], "--svg", files[2])
    assert [path.read_bytes() for path in files[1:]] == before
    drawn = foveate("look", files[0], "--out", tmp_path / "a.txt", "--words")
    assert "Wrote" in drawn.err


def test_a_page_from_the_command_line(
    foveate: Any, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in html.PARTS:
        (tmp_path / name).write_text(f"{html.LINK}{html.SCRIPT}" if name == "index.html" else "1")
    monkeypatch.setattr(html, "static_folder", lambda: tmp_path)
    foveate("look", trained, "--text", "abc", "--no-tune", "--html", tmp_path / "out.html")
    assert "ablations" not in written_header(tmp_path / "out.html")
    foveate("look", trained, "--text", "abc", "--no-tune", "--html", tmp_path / "out.html", "--ablations")
    header = written_header(tmp_path / "out.html")
    assert header["ablates"] == "source"
    assert [each["tokens_off"] for each in header["ablations"]] == [[0], [1], [2]]
    kept = tmp_path / "kept.trace"
    foveate("look", trained, "--text", "abc", "--no-tune", "--trace", kept)
    said = foveate("look", kept, "--html", tmp_path / "out.html", "--ablations")
    assert (said.code, "needs a run whose model reads text" in said.err) == (2, True)
    said = foveate("look", trained, "abc", "--no-tune", "--ablations")
    assert (said.code, "--ablations goes with a page: --html" in said.err) == (2, True)


def written_header(path: Path) -> Any:
    """The trace of a page as JSON."""
    (packed,) = re.findall(r'id="trace">([^<]+)<', path.read_text())
    content = zlib.decompress(base64.b64decode(packed), -15)
    (length,) = struct.unpack("<I", content[:4])
    return json.loads(content[4 : 4 + length])["trace"]


def test_looking_at_nothing_asks_for_a_text(foveate: Any, trained: Path) -> None:
    said = foveate("look", trained, "--no-tune")
    assert (said.code, said.err.startswith("foveate look: What should the model look at?")) == (2, True)


def test_a_pdf_is_the_same_bytes_every_time_and_holds_the_labels(foveate: Any, trained: Path, tmp_path: Path) -> None:
    for name in ("a.pdf", "b.pdf"):
        foveate("look", trained, "abc", "--no-tune", "--pdf", tmp_path / name)
    assert (tmp_path / "a.pdf").read_bytes() == (tmp_path / "b.pdf").read_bytes()
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF-1.4")


def test_a_port_is_free_again_as_soon_as_its_viewer_has_closed() -> None:
    first = listening(0)
    first.listen()
    port = first.getsockname()[1]
    with socket.create_connection(("127.0.0.1", port)) as reader:
        served, _ = first.accept()
        served.close()  # who closes first keeps the port busy for a minute
        first.close()
        reader.recv(1)
    again = listening(port)
    assert again.getsockname()[1] == port
    again.listen()
    with pytest.raises(SetupError, match=f"Port {port} cannot be used"):
        listening(port)
    again.close()


def test_a_browser_that_runs_until_it_is_closed_does_not_hold_up_the_viewer(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving, closed = threading.Event(), threading.Event()

    def browse(address: str) -> None:
        if serving.wait(timeout=30):
            closed.set()

    monkeypatch.setattr("webbrowser.open", browse)
    monkeypatch.setattr("uvicorn.Server.run", lambda server, sockets: serving.set())
    open_viewer(session, say=lambda line: None)
    assert closed.wait(timeout=30)


def test_the_viewer_opens_at_a_port_of_its_own_and_ends_with_ctrl_c(trained: Path) -> None:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    words = ["look", str(trained), "--text", "abc", "--no-tune", "--no-browser"]
    with subprocess.Popen(
        [sys.executable, "-m", "foveate.cli", *words],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as opened:
        assert opened.stderr is not None
        address = opened.stderr.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/t/[\w-]{32}/", address)
        for _ in range(100):
            try:
                header = httpx.get(f"{address}api/trace", trust_env=False).json()
                break
            except httpx.ConnectError:
                opened.poll()
        assert header["attached"] is True
        opened.send_signal(signal.SIGINT)
        assert opened.wait(timeout=60) in (0, 130)


def test_two_models_of_one_text_share_a_page_and_other_texts_are_refused(
    foveate: Any, trained: Path, tmp_path: Path
) -> None:
    page, kept = tmp_path / "two.html", tmp_path / "kept.trace"
    assert foveate("look", trained, "--text", "abc", "--no-tune", "--trace", kept).code == 0
    assert foveate("look", trained, "--beside", kept, "--text", "abc", "--no-tune", "--html", page).code == 0
    text = page.read_text("utf-8")
    assert [text.count(f'id="{name}">') for name in ("trace", "beside", "worker", "viewer")] == [1, 1, 1, 1]
    said = foveate("look", trained, "--beside", kept, "--text", "abd", "--no-tune", "--html", page)
    assert (said.code, "read different texts: 'abd' and 'abc'" in said.err) == (2, True)
    pairs = Path(__file__).parent.parent / "golden/version_0_1/runs/classify_pairs_begun"
    said = foveate("look", trained, "--beside", pairs, "--text", "abc", "--no-tune", "--html", page)
    assert (said.code, f"--beside {pairs}: The text has 1 part" in said.err) == (3, True)
    said = foveate("look", trained, "abc", "--beside", kept, "--no-tune")
    assert (said.code, "--beside goes with the viewer and a page: --html" in said.err) == (2, True)
    session = Session(read_trace(kept), beside=read_trace(kept).named("other"))
    assert session.meta(None)["beside"] == "beside"
    other = session.meta("beside")
    assert (other["pedigree"]["run"], other["attached"], "beside" in other) == ("other", False, False)
