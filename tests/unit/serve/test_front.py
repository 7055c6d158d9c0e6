"""The door of the service: clients that do not read, and failures that say why."""

import argparse
import asyncio
import re
import socket
import subprocess
import sys
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from foveate.cli.serve import _origin
from foveate.errors import DataError, SetupError
from foveate.serve.service.admission import Limits, cost
from foveate.serve.service.desk import Desk
from foveate.serve.service.front import Door, Gate, application
from foveate.serve.service.keyring import Keyring
from foveate.serve.service.message import Card, Failed, from_model
from foveate.serve.service.model_pool import ModelPool
from foveate.serve.service.model_process import ModelProcess, main
from foveate.serve.service.model_setup import Setup
from foveate.serve.service.nursery import Nursery
from foveate.serve.service.refused import RefusedError
from foveate.serve.service.running import _bound, _listen


class Barren(Nursery):
    """Cannot start anything."""

    def start(self, setup: Setup) -> tuple[socket.socket, int]:
        raise SetupError("There is no memory.")


@pytest.fixture
def desk() -> Desk:
    pool = ModelPool(Setup(()), 1, note=lambda sentence: None)
    pool.nursery = Barren()
    return Desk(pool, Limits(timeout=0.1))


def test_a_client_that_does_not_read_is_left_at_the_deadline(desk: Desk) -> None:
    async def hello(request: Request) -> PlainTextResponse:
        return PlainTextResponse("Hello")

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        await asyncio.Event().wait()

    lines: list[str] = []
    gate = Gate(Starlette(routes=[Route("/", hello)]), desk, Door(None), lines.append)
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b""}
    asyncio.run(asyncio.wait_for(gate(scope, receive, send), 10))
    assert "TimeoutError" in lines[0]


def test_a_text_costs_less_for_a_run_that_is_faster(desk: Desk) -> None:
    """The measure is that of the slowest run: what takes a second costs its characters of a second."""
    prices: list[int] = []

    def admit(cost: int, **rest: Any) -> None:
        prices.append(cost)
        raise RefusedError(429, "enough", "overloaded")

    desk.admission.begin(100.0)
    desk.admission.admit = admit  # type: ignore[method-assign]
    for speed in (100.0, 10_000.0, 0.0):
        card = Card("run", "tag", "run", "", 1, None, 0, (), speed)
        with pytest.raises(RefusedError, match="enough"):
            asyncio.run(desk.ask(Request({"type": "http"}), card, ["b" * 1_000], {}))
    assert prices == [1_000, 10, 1_000]


def test_a_refusal_does_not_repeat_a_request_at_length(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card("run", "tag", "run", "", 1, None, 0, (), 1.0)
    monkeypatch.setattr(ModelPool, "cards", [card])
    with pytest.raises(RefusedError) as refusal:
        desk.card(name="n" * 1_000_000)
    assert len(refusal.value.reason) < 4_100
    assert refusal.value.reason.startswith("There is no run 'nnn")
    assert refusal.value.reason.endswith("This service has run (tag).")


def test_a_forced_target_is_limited_and_paid_for_like_the_text(desk: Desk) -> None:
    card = Card("en-fr", "translate", "en-fr", "", 1, ("en", "fr"), 0, (), 1.0)
    for texts, settings in ((["b" * 20_001], {}), (["a"], {"target": "b" * 20_001})):
        with pytest.raises(RefusedError, match="has 20,001 characters"):
            asyncio.run(desk.ask(Request({"type": "http"}), card, texts, settings, kind="explain"))
    assert cost("explain", ["a"], {"target": "b" * 9}) == cost("explain", ["a" * 10], {})


def test_a_model_has_the_names_that_are_listed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = (("en", "fa"), ("fa", "en"))
    card = Card("mine", "translate", "mine", "", 1, None, 0, (), 1.0, directions=pairs)
    monkeypatch.setattr(ModelPool, "cards", [card])

    async def asked(name: str) -> int:
        gate = application(desk, Keyring(), Door(None), print)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(gate), base_url="http://b.example") as client:
            return (await client.get(f"/v1/models/{name}")).status_code

    statuses = {name: asyncio.run(asked(name)) for name in ("mine:fa", "mine:en", "mine:de", "mine:", "other")}
    assert statuses == {"mine:fa": 200, "mine:en": 200, "mine:de": 404, "mine:": 404, "other": 404}


def test_pages_of_an_allowed_origin_may_send_the_headers_that_their_clients_have(desk: Desk) -> None:
    async def asked(origin: str) -> httpx.Response:
        gate = application(desk, Keyring(), Door(None, frozenset({"https://a.example"})), print)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(gate), base_url="http://b.example") as client:
            headers = {"origin": origin, "access-control-request-headers": "authorization,x-stainless-os"}
            return await client.options("/v1/completions", headers=headers)

    allowed = asyncio.run(asked("https://a.example"))
    assert allowed.headers["access-control-allow-headers"] == "authorization,x-stainless-os"
    assert allowed.headers["access-control-allow-origin"] == "https://a.example"
    assert "access-control-allow-headers" not in asyncio.run(asked("https://c.example")).headers


def test_the_front_does_not_need_torch() -> None:
    """It starts at once, and its memory is small."""
    code = "import sys, foveate.cli.serve, foveate.serve.service.running; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_reload_that_fails_says_why(desk: Desk) -> None:
    async def reload() -> httpx.Response:
        gate = application(desk, Keyring(), Door(None), lambda line: None)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(gate), base_url="http://127.0.0.1") as client:  # type: ignore[arg-type]
            return await client.post("/admin/reload")

    response = asyncio.run(reload())
    assert response.status_code == 500
    assert "There is no memory." in response.json()["error"]


def test_the_report_of_a_failure_has_no_text(desk: Desk) -> None:
    async def fail(request: Request) -> PlainTextResponse:
        raise ValueError(f"cannot read {(await request.body()).decode()}")

    async def ask() -> None:
        gate = Gate(Starlette(routes=[Route("/", fail, methods=["POST"])]), desk, Door(None), lines.append)
        transport: Any = httpx.ASGITransport(gate)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            assert (await client.post("/", content=b"secret")).status_code == 500

    lines: list[str] = []
    asyncio.run(ask())
    assert "ValueError (" in lines[0]
    assert "test_front.py" in lines[0]
    assert not any("secret" in line for line in lines)


def test_a_path_that_does_not_exist_has_a_neighbour_and_another_method_is_named(desk: Desk) -> None:
    async def ask() -> list[httpx.Response]:
        transport: Any = httpx.ASGITransport(application(desk, Keyring(), Door(None), lambda line: None))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            paths = ("/translat", "/v2/models/en-fr/infe", "/translate", "/languages")
            return [await client.request("POST" if path == "/languages" else "GET", path) for path in paths]

    near, deep, translate, languages = asyncio.run(ask())
    assert (near.status_code, near.json()) == (404, {"error": "There is no such path. Did you mean '/translate'?"})
    assert "'/v2/models/NAME/infer'" in deep.json()["error"]
    assert (translate.status_code, translate.json()) == (405, {"error": "This path is for POST."})
    assert languages.json() == {"error": "This path is for GET and HEAD."}


def test_a_full_service_refuses_without_reading_whatever_asks_a_model(desk: Desk) -> None:
    """Questions about the service are answered."""
    desk.admission.begin(1000.0)
    desk.admission.admit(60)
    with pytest.raises(RefusedError):
        desk.admission.admit(1)

    async def ask() -> list[httpx.Response]:
        transport: Any = httpx.ASGITransport(application(desk, Keyring(), Door(None), None))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            posts = [await client.post(path, content=b"{") for path in ("/translate", "/v1/completions", "/detect")]
            return [*posts, await client.get("/health/live"), await client.get("/metrics")]

    translate, completions, detect, live, metrics = asyncio.run(ask())
    assert (translate.status_code, completions.status_code) == (429, 429)
    assert int(translate.headers["retry-after"]) > 0
    assert "busy" in translate.json()["error"]
    assert completions.json()["error"]["code"] == "overloaded"
    assert (detect.status_code, live.status_code) == (400, 200)
    assert 'foveate_refusals_total{code="overloaded"} 2.0' in metrics.text


def test_an_address_that_another_program_took_meanwhile_is_an_error_in_words() -> None:
    with _bound("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with _bound("127.0.0.1", port) as second:
            _listen(first, "127.0.0.1")
            with pytest.raises(SetupError, match=f"127.0.0.1:{port} cannot be used: Address already in use"):
                _listen(second, "127.0.0.1")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            NameError("x is not defined"),
            r"^The runs could not be loaded: x is not defined \(NameError \(.* load\)\)\.$",
        ),
        (DataError("no weights in tag\udcff"), r"^no weights in tag\\udcff$"),
    ],
)
def test_whatever_ends_the_loading_is_told_to_the_front(
    error: Exception, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(process: ModelProcess, setup: Setup) -> None:
        raise error

    monkeypatch.setattr(ModelProcess, "load", load)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    front, model = socket.socketpair()
    with front, model:
        main(model, Setup(()))
        content = front.recv(65_536)
        message = from_model(content[4:])  # after its length
    assert isinstance(message, Failed)
    assert re.search(reason, message.reason)


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("https://A.example", "https://a.example"),
        ("http://localhost:3000/", "http://localhost:3000"),
        ("null", "null"),
        ("*", None),
        ("a.example", None),
        ("https://a.example/page", None),
    ],
)
def test_an_origin_is_compared_as_browsers_send_it(text: str, origin: str | None) -> None:
    if origin is not None:
        assert _origin(text) == origin
        return
    with pytest.raises(argparse.ArgumentTypeError, match="is not an origin"):
        _origin(text)
