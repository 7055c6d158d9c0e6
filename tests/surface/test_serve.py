"""The service: its interfaces, refusals, and what it promises under load. `make clients` has every client."""

import concurrent.futures
import http.client
import json
import os
import random
import signal
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from starlette.routing import Route
from tests.surface.conftest import call
from tests.surface.malformed import RELOAD, SOUND, damaged
from tests.surface.sense_run import sense_runs
from tests.surface.service_process import ALL, ServiceProcess

from foveate import Translator
from foveate.serve.service.admission import Limits
from foveate.serve.service.desk import Desk
from foveate.serve.service.front import Door, application
from foveate.serve.service.keyring import Keyring
from foveate.serve.service.model_pool import ModelPool
from foveate.serve.service.model_setup import Setup

KEY = "0123456789abcdef0123"
TENSOR = b'{"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["a"]}]'
SENTENCES = ["The black cat sleeps.", "A man is riding a bicycle.", "Good morning.", "I read a book in the garden."]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with ServiceProcess(*ALL, *sense_runs(tmp_path_factory.mktemp("senses")), "--wait", "20") as running:
        yield running


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    keys = tmp_path_factory.mktemp("keys") / "keys.txt"
    keys.write_text(f"# two keys\n{KEY}\nanother-key-of-somebody\n")
    with ServiceProcess("en-fr", "--api-key-file", str(keys), "--quiet", "--wait", "0.5") as running:
        yield running


@pytest.fixture(scope="module")
def alone() -> dict[str, str]:
    """What the model writes without a service."""
    translator = Translator.load("en-fr")
    return {sentence: translator.translate(sentence).text for sentence in SENTENCES}


def test_libre_translate_by_json_form_and_query_string(service: ServiceProcess, alone: dict[str, str]) -> None:
    asked = {"q": SENTENCES[0], "source": "en", "target": "fr"}
    by_json = service.client.post("/translate", json=asked)
    by_form = service.client.post("/translate", data=asked)
    by_query = service.client.post("/translate", params=asked)
    for response in (by_json, by_form, by_query):
        assert response.json() == {"translatedText": alone[SENTENCES[0]]}
    several = service.client.post("/translate", json={**asked, "q": SENTENCES, "source": "auto"}).json()
    assert several["translatedText"] == [alone[sentence] for sentence in SENTENCES]
    assert [each["language"] for each in several["detectedLanguage"]] == ["en"] * 4
    more = service.client.post("/translate", json={**asked, "alternatives": 2}).json()
    assert len(more["alternatives"]) == 2
    assert more["translatedText"] not in more["alternatives"]


def test_lines_and_dividers_stay(service: ServiceProcess, alone: dict[str, str]) -> None:
    text = f"{SENTENCES[0]}\n\n==WEBLATE_PART==\n{SENTENCES[2]}\n"
    response = service.client.post("/translate", json={"q": text, "source": "en", "target": "fr"})
    assert response.json()["translatedText"] == f"{alone[SENTENCES[0]]}\n\n==WEBLATE_PART==\n{alone[SENTENCES[2]]}\n"
    # Line ends of Windows and indentations stay, too, whether the answer streams or not.
    text = f"{SENTENCES[0]}\r\n\r\n  {SENTENCES[2]}\r\n"
    expected = f"{alone[SENTENCES[0]]}\r\n\r\n  {alone[SENTENCES[2]]}\r\n"
    response = service.client.post("/translate", json={"q": text, "source": "en", "target": "fr"})
    assert response.json()["translatedText"] == expected
    client = openai.OpenAI(base_url=f"{service.address}/v1", api_key="none", max_retries=0)
    messages: Any = [{"role": "user", "content": text}]
    stream = client.chat.completions.create(model="en-fr", messages=messages, stream=True, extra_body={"to": "French"})
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == expected


@pytest.mark.parametrize("key", ["", KEY], ids=["without a key", "with a key"])
def test_client_of_openai(key: str, service: ServiceProcess, guarded: ServiceProcess, alone: dict[str, str]) -> None:
    address = (guarded if key else service).address
    client = openai.OpenAI(base_url=f"{address}/v1", api_key=key or "none", max_retries=0)
    assert "en-fr" in [model.id for model in client.models.list()]
    assert client.models.retrieve("en-fr").digest == client.models.list().data[0].digest  # type: ignore[attr-defined]
    messages = [{"role": "system", "content": "Translate."}, {"role": "user", "content": SENTENCES[0]}]
    whole = client.chat.completions.create(model="en-fr", messages=messages)  # type: ignore[arg-type]
    assert whole.choices[0].message.content == alone[SENTENCES[0]]
    assert whole.usage
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    stream = client.chat.completions.create(  # type: ignore[call-overload]
        model="en-fr", messages=messages, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == alone[SENTENCES[0]]
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    with pytest.raises(openai.NotFoundError, match="Did you mean 'en-fr'"):
        client.chat.completions.create(model="en-f", messages=messages)  # type: ignore[arg-type]


def test_a_language_model_streams_what_it_writes(service: ServiceProcess) -> None:
    client = openai.OpenAI(base_url=f"{service.address}/v1", api_key="none", max_retries=0)
    for settings in ({"temperature": 0.0}, {"temperature": 1.0, "seed": 3}):
        whole = client.completions.create(model="gpt", prompt="ab", max_tokens=20, **settings)  # type: ignore[call-overload]
        parts = list(
            client.completions.create(model="gpt", prompt="ab", max_tokens=20, stream=True, **settings)  # type: ignore[call-overload]
        )
        assert "".join(part.choices[0].text for part in parts) == whole.choices[0].text != ""
        assert len(parts) > 3, "the text comes in parts"
        assert whole.choices[0].finish_reason == "length" == parts[-1].choices[0].finish_reason
    for size in (1, 3):
        end = whole.choices[0].text[5 : 5 + size]
        ended = {"model": "gpt", "prompt": "ab", "max_tokens": 20, "stop": [end, "never"], **settings}
        cut = client.completions.create(**ended)  # type: ignore[call-overload]
        assert cut.choices[0].text == whole.choices[0].text.partition(end)[0]
        assert cut.choices[0].finish_reason == "stop"
        parts = list(client.completions.create(**ended, stream=True))  # type: ignore[call-overload]
        assert "".join(part.choices[0].text for part in parts) == cut.choices[0].text
        assert parts[-1].choices[0].finish_reason == "stop"


def test_streams_and_answers_side_by_side_have_the_texts_that_they_have_alone(service: ServiceProcess) -> None:
    client = openai.OpenAI(base_url=f"{service.address}/v1", api_key="none", max_retries=0)
    wish = {"model": "gpt", "prompt": "ab", "temperature": 1.0}
    alone = [client.completions.create(**wish, seed=seed, max_tokens=60).choices[0].text for seed in (1, 2)]  # type: ignore[call-overload]
    streams = [client.completions.create(**wish, seed=seed, max_tokens=60, stream=True) for seed in (1, 2)]  # type: ignore[call-overload]
    texts = [next(stream).choices[0].text for stream in streams]
    short = client.completions.create(**wish, seed=3, max_tokens=2)  # type: ignore[call-overload]
    assert short.usage is not None
    assert short.usage.completion_tokens == 2
    for place, stream in enumerate(streams):
        texts[place] += "".join(part.choices[0].text for part in stream)
    assert texts == alone
    metrics = service.client.get("/metrics").text
    assert 'foveate_first_part_seconds_count{run="gpt"}' in metrics


def test_own_interface_and_weights(service: ServiceProcess, alone: dict[str, str]) -> None:
    tagged = service.client.post("/tag", json={"text": ["a b c", ""]}).json()
    assert [len(one["tags"]) for one in tagged] == [3, 0]
    label = service.client.post("/classify", json={"text": "a b", "run": "labels"}).json()
    assert label["label"] in label["probabilities"]
    assert sum(label["probabilities"].values()) == pytest.approx(1)
    filled = service.client.post("/fill", json={"text": "a ___ b", "settings": {"best": 3}}).json()
    assert [len(gap) for gap in filled["gaps"]] == [3]
    made = service.client.post("/explain", json={"source": SENTENCES[0], "page": True}).json()
    assert made["text"] == alone[SENTENCES[0]]
    assert made["log_probability"] < 0
    assert len(made["digest"]) == 64
    assert len(made["weights"]) == len(made["rows"])
    assert {len(row) for row in made["weights"]} == {len(made["columns"])}
    for row in made["weights"]:
        assert sum(row) == pytest.approx(1, abs=1e-3)
    assert made["links"].startswith("0-0")
    page = service.client.get(made["page"])
    assert page.status_code == 200
    assert "sandbox" in page.headers["content-security-policy"]
    top = service.client.post("/explain", json={"source": SENTENCES[0], "target": "Le chat dort.", "top": 2}).json()
    assert top["text"] == "Le chat dort."
    assert {len(row) for row in top["largest"]} == {2}
    assert "weights" not in top
    for run, text in (("tags", "a b c"), ("labels", "a b c"), ("gpt", "abc"), ("gaps", "a ___ b")):
        explained = service.client.post("/explain", json={"source": text, "run": run})
        assert explained.status_code == 200, explained.text
        assert explained.json()["weights"]


def test_kserve(service: ServiceProcess, alone: dict[str, str]) -> None:
    assert service.client.get("/v1/models/en-fr").json()["ready"] is True
    predicted = service.client.post("/v1/models/en-fr:predict", json={"instances": SENTENCES[:2]}).json()
    assert [one["text"] for one in predicted["predictions"]] == [alone[sentence] for sentence in SENTENCES[:2]]
    instances = [SENTENCES[0], {"source": SENTENCES[0], "words": False}]
    by_words, by_pieces = service.client.post("/v1/models/en-fr:explain", json={"instances": instances}).json()[
        "explanations"
    ]
    assert len(by_words["columns"]) <= len(by_pieces["columns"])


def test_many_explanations_are_one_question(service: ServiceProcess) -> None:
    whole = [{"source": text, "site": site} for text in SENTENCES for site in (0, None)]
    asked = [*whole, {"source": SENTENCES[0], "site": 0, "head": 0}, {"source": "a b c", "target": "d"}]
    made = service.client.post("/v1/models/en-fr:explain", json={"instances": asked}).json()["explanations"]
    assert made == [service.client.post("/explain", json={**each, "run": "en-fr"}).json() for each in asked]
    assert made[0]["head"] is None, "the mean of all heads"
    assert made[-2]["head"] == 0
    assert made[-2]["weights"] != made[0]["weights"]
    assert service.client.post("/v1/models/en-fr:explain", json={"instances": []}).json() == {"explanations": []}


def test_a_form_may_have_as_many_texts_as_json(service: ServiceProcess) -> None:
    texts = [f"{number}." for number in range(100)]
    form = service.client.post("/translate", data={"q": texts, "source": "en", "target": "fr"})
    assert form.status_code == 200, form.text
    asked = {"q": texts, "source": "en", "target": "fr"}
    assert form.json() == service.client.post("/translate", json=asked).json()


def packed_text(text: str) -> bytes:
    return struct.pack("<I", len(text.encode())) + text.encode()


def test_open_inference_by_json_and_by_bytes(service: ServiceProcess, alone: dict[str, str]) -> None:
    assert service.client.get("/v2/health/ready").json() == {"ready": True}
    described = service.client.get("/v2/models/en-fr").json()
    assert [output["name"] for output in described["outputs"]] == ["text", "json"]
    tensor = {"name": "text", "datatype": "BYTES", "shape": [2, 1]}
    asked = {"inputs": [{**tensor, "data": SENTENCES[:2]}], "id": "7"}
    text, whole = service.client.post("/v2/models/en-fr/infer", json=asked).json()["outputs"]
    assert (text["shape"], text["data"]) == ([2, 1], [alone[sentence] for sentence in SENTENCES[:2]])
    assert [json.loads(one)["finished"] for one in whole["data"]] == [True, True]
    packed = b"".join(map(packed_text, SENTENCES[:2]))
    by_bytes = {**tensor, "parameters": {"binary_data_size": len(packed)}}
    wanted = {"name": "text", "parameters": {"binary_data": True}}
    start = json.dumps({"inputs": [by_bytes], "outputs": [wanted]}).encode()
    headers = {"inference-header-content-length": str(len(start))}
    response = service.client.post("/v2/models/en-fr/infer", content=start + packed, headers=headers)
    after = response.content[int(response.headers["inference-header-content-length"]) :]
    first = alone[SENTENCES[0]].encode()
    assert after.startswith(
        struct.pack("<I", len(first)) + first + struct.pack("<I", len(alone[SENTENCES[1]].encode()))
    )


def test_shapes_of_hugging_face(service: ServiceProcess, alone: dict[str, str]) -> None:
    def at(run: str, inputs: object, **parameters: object) -> Any:
        return service.client.post(f"/models/{run}", json={"inputs": inputs, "parameters": parameters}).json()

    assert at("en-fr", SENTENCES[:2]) == [{"translation_text": alone[sentence]} for sentence in SENTENCES[:2]]
    assert at("en-fr", "word " * 900)[0]["finished"] is False
    ((best,),) = at("labels", "a b", top_k=1)
    assert best["label"] == service.client.post("/classify", json={"text": "a b"}).json()["label"]
    words = at("tags", "a  b c")
    assert [(word["word"], word["start"], word["end"]) for word in words] == [("a", 0, 1), ("b", 3, 4), ("c", 5, 6)]
    choices = at("gaps", "a [MASK] b", top_k=3)
    filled = service.client.post("/fill", json={"text": "a ___ b", "settings": {"best": 3}}).json()
    assert [choice["token_str"] for choice in choices] == [choice["piece"] for choice in filled["gaps"][0]]
    assert choices[0]["sequence"] == filled["text"] != choices[1]["sequence"]
    asked = {"text": "ab", "settings": {"temperature": 0, "max_tokens": 9}}
    written = service.client.post("/generate", json=asked).json()["text"]
    assert at("gpt", "ab", max_new_tokens=9) == [{"generated_text": written}]
    assert at("gpt", "ab", max_new_tokens=9, return_full_text=True) == [{"generated_text": "ab" + written}]
    draws = {at("gpt", "ab", max_new_tokens=9, do_sample=True, seed=seed)[0]["generated_text"] for seed in range(4)}
    assert len(draws) > 1


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/translate", b"{", 400, "not JSON"),
        ("/translate", b'{"q": "a"}', 422, "target"),
        ("/translate", b'{"q": 5, "target": "fr"}', 422, "Expected"),
        ("/translate", b'{"q": "a", "target": "de"}', 422, "en-fr"),
        ("/translate", b'{"q": "a", "target": "fr", "format": "html"}', 422, "plain text"),
        ("/translate", b'{"q": "\\ud800", "target": "fr"}', 400, "not JSON"),
        ("/translate", b"\xff\xfe{}", 400, "not JSON"),
        ("/translate", b"[" * 100_000, 422, "object"),
        ("/translate", b'{"q": ' + b"[" * 100_000, 400, "recursion"),
        ("/explain", b'{"source": "a", "sites": 1}', 422, "sites"),
        ("/explain", b'{"source": ""}', 422, "empty"),
        ("/explain", b'{"source": "  "}', 422, "empty"),
        ("/explain", b'{"source": "a", "to": "de"}', 422, "writes fr only"),
        ("/v1/completions", b'{"model": "gpt", "prompt": "a", "to": "fr"}', 422, "no setting 'to'"),
        ("/explain", b'{"source": "a", "site": "decoder"}', 422, "decoder"),
        ("/tag", b'{"text": "a", "run": "gpt"}', 422, "can generate"),
        ("/tag", b'{"text": "a", "settings": {"bean": 2}}', 422, "This run has no settings"),
        ("/fill", b'{"text": "a b"}', 422, "gap"),
        ("/v1/completions", b'{"model": "gpt", "prompt": "a", "n": 2}', 400, "n = 2"),
        ("/v1/completions", b'{"model": "gpt", "prompt": "a", "temperature": 9}', 422, "temperature"),
        ("/v1/completions", b'{"model": "gpt", "prompt": "a", "seed": 99999999999999999999}', 422, "settings"),
        ("/tag", b'{"text": "a", "settings": {"bean": [[1]]}}', 422, "shape"),
        ("/v1/models/en-fr:explain", b'{"instances": ["a"' + b', "a"' * 128 + b"]}", 422, "129"),
        ("/explain", b'{"source": "a", "top": 0}', 422, "top is a number"),
        ("/v1/models/en-fr:explain", b'{"instances": ["a", {"source": "a", "top": 0}]}', 422, "top is a number"),
        ("/v1/models/en-fr:explain", b'{"instances": ["a", {"source": "a", "site": "x"}]}', 422, "x"),
        (
            "/v1/models/en-fr:explain",
            b'{"parameters": {"page": true}, "instances": ["a"' + b', "a"' * 32 + b"]}",
            422,
            "At most 32 pages",
        ),
        ("/translate", b'{"q": "' + b"a " * 2000 + b'", "target": "fr"}', 422, "tokens, and at most 1,000"),
        ("/translate", b'{"q": "' + b"a " * 2000 + b'", "target": "fr", "alternatives": 1}', 422, "at most 1,000"),
        ("/v1/chat/completions", b'{"model": "tags", "messages": []}', 404, "/tag"),
        ("/v2/models/en-fr/infer", b'{"inputs": [{"name": "texts", "datatype": "BYTES", "shape": [0]}]}', 422, "texts"),
        ("/v2/models/en-fr/infer", TENSOR + b', "outputs": [{"name": "txt"}]}', 422, "Did you mean"),
        ("/v2/models/en-fr/infer", TENSOR + b', "parameters": {"bean": 2}}', 422, "bean"),
        ("/models/en-fr", b'{"inputs": "a", "parameters": {"num_beams": 2}}', 422, "num_beams"),
        ("/models/gaps", b'{"inputs": "___ ___"}', 422, "2 gaps"),
        ("/models/gpt", b'{"inputs": "a", "stream": true}', 400, "/v1/completions"),
        ("/models/labels", b'{"inputs": "a", "parameters": {"top_k": 0}}', 422, "top_k"),
        ("/nowhere", b"{}", 404, "path"),
    ],
)
def test_refusals_say_what_is_wrong(service: ServiceProcess, path: str, body: bytes, status: int, words: str) -> None:
    response = service.client.post(path, content=body, headers={"content-type": "application/json"})
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert words in (error if isinstance(error, str) else error["message"])


def test_limits_say_the_numbers(service: ServiceProcess) -> None:
    asked = {"source": "en", "target": "fr"}
    for q, words in ((["a"] * 129, "129"), ("a" * 20_001, "20,001"), ("a\n" * 2_000, "2,000 lines")):
        response = service.client.post("/translate", json={**asked, "q": q})
        assert response.status_code == 422
        assert words in response.json()["error"]
    cut = service.client.post("/translate", json={**asked, "q": "word " * 900}).json()
    assert cut["finished"] is False
    large = service.client.post("/translate", content=b"x" * 1_000_001)
    assert large.status_code == 413
    long = service.client.post("/fill", json={"text": ["a ___", "a ___" * 100]}).json()["error"]
    assert "Text 2" in long
    assert "32" in long


def test_who_may_ask(service: ServiceProcess, guarded: ServiceProcess) -> None:
    asked = {"q": "Hello", "source": "en", "target": "fr"}
    assert guarded.client.post("/translate", json=asked).status_code == 401
    wrong = {"authorization": "Bearer 0123456789abcdef0124"}
    assert guarded.client.post("/translate", json=asked, headers=wrong).status_code == 403
    for headers in ({"authorization": f"Bearer {KEY}"}, {"x-api-key": KEY}):
        assert guarded.client.post("/translate", json=asked, headers=headers).status_code == 200
    assert guarded.client.post("/translate", json={**asked, "api_key": KEY}).status_code == 200
    for path in ("/languages", "/frontend/settings", "/health", "/", "/about"):
        assert guarded.client.get(path).status_code == 200
    for path in ("/metrics", "/v1/models"):
        assert guarded.client.get(path).status_code == 401
    assert service.client.get("/languages", headers={"host": "evil.example"}).status_code == 421
    assert service.client.post("/admin/reload", headers={"x-forwarded-for": "203.0.113.5"}).status_code == 403
    assert service.client.get("/languages", headers={"origin": "http://evil.example"}).status_code == 403
    assert not any("{" in line for line in guarded.lines), "--quiet"


def test_the_log_has_neither_texts_nor_keys(service: ServiceProcess) -> None:
    secret = "Xyzzy-plugh"
    service.client.post("/translate", params={"q": secret, "source": "en", "target": "fr", "api_key": secret})
    traced = service.client.get("/languages", headers={"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-01"})
    line = service.wait_for(traced.headers["x-request-id"])
    assert json.loads(line)["traceparent"].startswith("00-4bf9")
    assert json.loads(line)["route"] == "languages"
    assert not any(secret in line for line in service.lines)
    metrics = service.client.get("/metrics").text
    assert 'foveate_requests_total{route="translate",status="200"}' in metrics
    assert secret not in metrics


def test_neighbours_do_not_change_an_answer(service: ServiceProcess, alone: dict[str, str]) -> None:
    """Answers of many clients at once are those of one, and a text that is refused harms nobody beside it."""
    numbers = range(60)
    asked = [random.Random(number).choice(SENTENCES) for number in numbers]
    gaps = service.client.post("/fill", json={"text": "a ___ b"}).json()

    def ask(number: int) -> tuple[httpx.Response, httpx.Response]:
        body = {"q": asked[number], "source": "en", "target": "fr"}
        text = "a ___ b" if number % 4 else "a ___ b" * 100
        return service.client.post("/translate", json=body), service.client.post("/fill", json={"text": text})

    with concurrent.futures.ThreadPoolExecutor(30) as clients:
        responses = list(clients.map(ask, numbers))
    for number, (translated, filled) in zip(numbers, responses, strict=True):
        assert translated.json() == {"translatedText": alone[asked[number]]}
        if number % 4:
            assert filled.json() == gaps
        else:
            assert filled.status_code == 422


def test_malformed_requests_never_fail_the_service(service: ServiceProcess) -> None:
    """Damaged requests get an answer or a refusal, and never a status of 500 or more (`benchmarks/reliability.py` sends
    100,000).
    """
    noise, (host, port) = random.Random(0), service.address.removeprefix("http://").split(":")
    for _ in range(400):
        content = damaged(noise, host)
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        connection.connect()
        connection.sock.sendall(content)
        response = http.client.HTTPResponse(connection.sock, method=content.partition(b" ")[0].decode("latin-1"))
        response.begin()
        assert response.status < 500, (content, response.read())
        connection.close()
    assert service.client.get("/health").status_code == 200


def test_every_route_has_a_sound_request_that_is_then_damaged(service: ServiceProcess) -> None:
    desk = Desk(ModelPool(Setup(()), 1, note=print), Limits())
    gate = application(desk, Keyring(), Door(None), print)
    asked = [(each.method, each.path.partition("?")[0]) for each in SOUND] + [("POST", RELOAD)]
    for route in gate.app.routes:
        assert isinstance(route, Route)
        own = [path for method, path in asked if method in (route.methods or ()) and route.path_regex.match(path)]
        assert own, f"malformed.py has nothing for {route.path}"
    for each in SOUND:
        if each.path not in (RELOAD, "/look/AAAA"):
            response = service.client.request(
                each.method, each.path, content=each.body, headers={"content-type": each.kind}
            )
            assert response.status_code == 200, (each, response.text)


def test_raw_nonsense_does_not_stop_the_service(service: ServiceProcess) -> None:
    host, port = service.address.removeprefix("http://").split(":")
    named = f"HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n".encode()
    for content, status in (
        (b"\0" * 100, b"400"),
        (b"GET / HTTP/9.9\r\n\r\n", b""),
        (b"POST /translate HTTP/1.1\r\nContent-Length: -5\r\n\r\n", b"400"),
        (b"POST /translate?q=%ff&target=fr " + named + b"Content-Length: 0\r\n\r\n", b"400"),
        (b"POST /translate?q=\xff&target=fr " + named + b"Content-Length: 0\r\n\r\n", b"400"),
        (b"GET /nowhere?q=%ff " + named + b"\r\n", b"404"),
    ):
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
            assert status in answer.partition(b"\r\n")[0], (content, answer)
    assert service.client.get("/health").status_code == 200


def test_a_model_process_that_dies_is_started_again(alone: dict[str, str]) -> None:
    """Every request gets an answer or a 503, and the service is back within seconds."""
    with ServiceProcess("en-fr", "--wait", "60", "--timeout", "120") as service:
        asked = {"q": [sentence for sentence in SENTENCES for _ in range(8)], "source": "en", "target": "fr"}
        with concurrent.futures.ThreadPoolExecutor(8) as clients:
            waiting = [clients.submit(service.client.post, "/translate", json=asked) for _ in range(8)]
            time.sleep(0.3)
            (model,) = service.children
            os.kill(model, signal.SIGKILL)
            responses = [each.result() for each in waiting]
        assert {response.status_code for response in responses} <= {200, 503}
        assert any(response.status_code == 503 for response in responses)
        service.wait_for("is started again")
        until = time.monotonic() + 60
        while service.client.get("/health").status_code != 200 and time.monotonic() < until:
            time.sleep(0.05)
        response = service.client.post("/translate", json={"q": SENTENCES[0], "source": "en", "target": "fr"})
        assert response.json() == {"translatedText": alone[SENTENCES[0]]}

        # A reload exchanges the process without losing a request.
        before = service.children
        with concurrent.futures.ThreadPoolExecutor(3) as clients:
            steady = [clients.submit(service.client.post, "/translate", json=asked) for _ in range(3)]
            reloaded = service.client.post("/admin/reload", timeout=60)
            assert reloaded.status_code == 200
            assert reloaded.json()["data"][0]["id"] == "en-fr"
            assert {each.result().status_code for each in steady} == {200}
        assert service.children != before

        # SIGTERM: what was admitted is answered, and what comes later is told that the service closes.
        with concurrent.futures.ThreadPoolExecutor(30) as clients:
            admitted = [clients.submit(service.client.post, "/translate", json=asked) for _ in range(6)]
            while "foveate_requests_in_flight 6.0" not in service.client.get("/metrics").text:
                time.sleep(0.02)
            service.process.send_signal(signal.SIGTERM)
            service.wait_for("closing")
            late = service.client.post("/translate", json=asked)
            assert late.status_code == 503
            assert service.client.get("/health/ready").status_code == 503
            assert service.client.get("/health/live").status_code == 200
            assert [each.result().status_code for each in admitted] == [200] * 6
        assert service.end() == 0


def test_runs_are_loaded_anew_by_sighup_also_by_one_that_comes_too_early(alone: dict[str, str]) -> None:
    with ServiceProcess("en-fr", loading=lambda early: early.process.send_signal(signal.SIGHUP)) as running:
        running.wait_for("loaded anew", 90)
        before = running.children
        running.process.send_signal(signal.SIGHUP)
        running.wait_for("loaded anew", 90)
        assert set(running.children) - set(before), "another process answers now"
        asked = {"q": SENTENCES[0], "source": "en", "target": "fr"}
        assert running.client.post("/translate", json=asked).json() == {"translatedText": alone[SENTENCES[0]]}


def test_overload_is_refused_at_once(guarded: ServiceProcess) -> None:
    asked = {"q": SENTENCES * 8, "source": "en", "target": "fr", "api_key": KEY}
    with concurrent.futures.ThreadPoolExecutor(20) as clients:
        responses = list(clients.map(lambda number: guarded.client.post("/translate", json=asked), range(40)))
    refused = [response for response in responses if response.status_code == 429]
    assert {response.status_code for response in responses} == {200, 429}
    assert len(refused) > len(responses) / 2
    assert all(int(response.headers["retry-after"]) >= 1 for response in refused)


def test_what_cannot_be_served_is_refused_before_anything_starts(tmp_path: Path) -> None:
    short = tmp_path / "short.txt"
    short.write_text("abc\n")
    for arguments, words in (
        (("en-fr", "--address", "0.0.0.0"), "--api-key-file"),
        (("en-fr", "en-fr"), "Two runs"),
        (("a/b=en-fr",), "NAME="),
        (("en-fr", "--api-key-file", str(short)), "16"),
        (("en-fr", "--api-key-file", str(tmp_path / "none")), "none"),
        ((str(tmp_path),), "not"),
    ):
        said = call("serve", *arguments, "--port", "0")
        assert said.code in (2, 3), said.err
        assert words in said.err
