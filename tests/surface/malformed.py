"""Requests that somebody has damaged or made up, for every route of the service."""

import base64
import json
import random
from dataclasses import dataclass
from typing import Any

from tests.surface.sense_run import picture, sound

RELOAD = "/admin/reload"
"""Any request by POST loads the runs anew, so that it is asked by other methods only."""


@dataclass(frozen=True)
class Sound:
    """A request as a client sends it."""

    method: str
    path: str
    body: bytes = b""
    kind: str = "application/json"

    def content(self, host: str) -> bytes:
        """The bytes that are sent."""
        head = f"{self.method} {self.path} HTTP/1.1\r\nHost: {host}\r\n"
        if self.body or self.method == "POST":
            head += f"Content-Type: {self.kind}\r\nContent-Length: {len(self.body)}\r\n"
        return f"{head}\r\n".encode("latin-1") + self.body


def _posted(path: str, **fields: Any) -> Sound:
    return Sound("POST", path, json.dumps(fields).encode())


PARTS = "multipart/form-data; boundary=a"
WAVE, PNG = sound(0.2), picture(8)
NPY = b"\x93NUMPY\1\0F\0" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }".ljust(69) + b"\n" + bytes(24)


def _parted(path: str, file: bytes, **fields: str) -> Sound:
    """A form with a file."""
    parts = [f'--a\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{fields[name]}\r\n' for name in fields]
    head = '--a\r\nContent-Disposition: form-data; name="file"; filename="a"\r\nContent-Type: audio/x\r\n\r\n'
    return Sound("POST", path, "".join([*parts, head]).encode() + file + b"\r\n--a--\r\n", PARTS)


def _in_base64(path: str, file: bytes, **parameters: Any) -> Sound:
    return _posted(path, inputs=base64.b64encode(file).decode(), parameters=parameters)


FORM = "application/x-www-form-urlencoded"
SOUND = (
    _posted("/translate", q=["Hello", "a"], source="en", target="fr", alternatives=1),
    Sound("POST", "/translate", b"q=Hello&source=en&target=fr", FORM),
    Sound("POST", "/translate?q=Hello&source=auto&target=fr&api_key=none"),
    _posted("/detect", q="Hello"),
    _posted("/explain", source="a cat", target="un chat", site=0, head=0, words=True, top=1, page=False),
    _posted("/tag", text=["a b", "c"], run="tags"),
    _parted("/tag", NPY, run="steps"),
    Sound("POST", "/tag?run=steps", NPY, "application/octet-stream"),
    _posted(
        "/v2/models/steps/infer",
        inputs=[{"name": "vectors", "datatype": "FP32", "shape": [1, 3], "data": [0.5, 1, -2]}],
    ),
    _posted("/classify", text="a b", run="labels", settings={}),
    _posted("/fill", text="a ___ b", settings={"best": 2}),
    _posted("/generate", text="a", settings={"max_tokens": 2, "seed": 3}),
    _posted("/v1/completions", model="gpt", prompt=["a"], max_tokens=2, temperature=0.5, stop=["b"], top_p=0.9),
    _posted("/v1/completions", model="gpt", prompt="a", max_tokens=2, stream=True),
    _posted("/v1/chat/completions", model="en-fr", messages=[{"role": "user", "content": "a"}], stream=False),
    _posted("/v1/models/en-fr:predict", instances=["a", "b"], parameters={"beam": 2, "to": "fr"}),
    _posted("/v1/models/en-fr:explain", instances=["a", {"source": "b"}], parameters={"words": False}),
    _posted(
        "/v2/models/en-fr/infer",
        inputs=[{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["a"]}],
        outputs=[{"name": "text"}],
    ),
    _posted("/models/tags", inputs=["a b"], parameters={"aggregation_strategy": "simple", "ignore_labels": []}),
    _posted("/models/gaps", inputs="a [MASK]", parameters={"top_k": 2}),
    _posted("/predict", text=["CCO", "c1ccccc1"], run="solubility"),
    _posted("/predict", text="n5", run="places"),
    _posted("/explain", source="n360", run="places", hops=1),
    _posted("/speak", text="a", run="voice", format="flac"),
    _posted("/v1/audio/speech", model="voice", input="a", voice="b", response_format="opus", speed=1.0),
    _posted("/models/voice", inputs="a", parameters={}),
    _parted("/transcribe", WAVE, run="asr"),
    Sound("POST", "/transcribe?run=asr", WAVE, "audio/wav"),
    Sound("POST", "/transcribe", sound(0.2, "FLAC"), FORM),
    _parted("/v1/audio/transcriptions", sound(0.2, "OGG"), model="asr", response_format="verbose_json", language="en"),
    Sound("POST", "/models/asr", sound(0.2, "MP3"), "audio/mpeg"),
    _in_base64("/models/asr", WAVE, return_timestamps="word"),
    _parted("/classify", PNG, run="pictures"),
    Sound("POST", "/classify", PNG, "image/png"),
    _parted("/caption", PNG, run="captions"),
    Sound("POST", "/models/pictures", PNG, "image/png"),
    Sound("POST", "/models/captions", PNG, FORM),
    _in_base64("/models/pictures", PNG, top_k=1, function_to_apply="softmax"),
    *(
        Sound("GET", path)
        for path in (
            *("/", "/page.js", "/words.js", "/page.css", "/about"),
            *("/health", "/health/live", "/health/ready", "/metrics"),
            *("/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/en-fr", "/v2/models/en-fr/ready"),
            *("/look/AAAA", "/languages", "/frontend/settings", "/v1/models", "/v1/models/en-fr", RELOAD),
        )
    ),
)
NONSENSE: tuple[Any, ...] = (
    *(None, True, -1, 0, 1.5, 10**30, -(2**63), "", "\0", "a" * 3000, "\ud800", "\u202e", "auto", "../../etc/passwd"),
    *([], {}, [[]], [None], {"text": 1}, ["a"] * 200, {"a": {"a": {"a": []}}}),
)
PIECES = (
    b"null",
    b"-1",
    b"1e999",
    b"NaN",
    b"[]",
    b"{}",
    b'"\\u0000"',
    b'"\\udc00"',
    b"\xff\xfe",
    b"\0",
    b'"',
    b"[" * 50,
)
KINDS = (
    "application/json",
    FORM,
    "text/plain",
    PARTS,
    "multipart/form-data; boundary=" + "b" * 80,
    "multipart/form-data",
    "audio/wav",
    "image/png",
    "application/json; charset=utf-16",
    "",
)
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE")
HEADERS = (
    *(
        "Authorization: Bearer \xe9",
        "Authorization: Basic YQ==",
        "X-API-Key: a",
        "Origin: null",
        "Expect: 100-continue",
    ),
    *(
        "Content-Encoding: gzip",
        "Transfer-Encoding: gzip",
        "Accept: */*;q=x",
        "Host: a",
        "Cookie: a=b",
        "Range: bytes=9-",
    ),
    *("X-Forwarded-For: ::1", "traceparent: \t", "Content-Length: 3", "Upgrade: websocket\r\nConnection: upgrade"),
)


def damaged(noise: random.Random, host: str) -> bytes:
    """A request with one to three damages."""
    request = sound = noise.choice(SOUND)
    damages = noise.randint(1, 3)
    while damages > 0 or request == sound:
        request, damages = _damaged(noise, request), damages - 1
    content = request.content(host)
    if noise.random() < 0.1:
        head, end, body = content.partition(b"\r\n\r\n")
        content = head + b"\r\n" + noise.choice(HEADERS).encode("latin-1") + end + body
    if noise.random() < 0.02:
        content = _scratched(noise, content)
    return content


def _damaged(noise: random.Random, request: Sound) -> Sound:
    method, path, body, kind = request.method, request.path, request.body, request.kind
    damage = noise.randrange(10)
    if damage == 0 and not path.startswith(RELOAD):
        method = noise.choice(METHODS)
    elif damage == 1:
        kind = noise.choice(KINDS)
    elif damage == 2:
        path += noise.choice(("?", "/", "?q=%ff", "?a=b&" * 30, "%00", ":", "?q=" + "a" * 3000, "#", "?q[]=a"))
    elif damage < 6 and body.startswith(b"{"):
        body = json.dumps(_changed(noise, json.loads(body))).encode() if _is_json(body) else body
    elif body or method == "POST":
        body = _scratched(noise, body)
    return Sound(method, path, body, kind)


def _is_json(content: bytes) -> bool:
    try:
        return isinstance(json.loads(content), dict)
    except (ValueError, RecursionError):
        return False


def _changed(noise: random.Random, fields: dict[str, Any]) -> dict[str, Any]:
    """Fields with one that is left out, has another name, another value, or is new."""
    name = noise.choice([*fields, "new"])
    value = fields.pop(name, None)
    if noise.random() < 0.7:
        fields[name] = noise.choice(NONSENSE)
    elif noise.random() < 0.5:
        fields[name + noise.choice(("s", " ", "\0"))] = value
    return fields


def _scratched(noise: random.Random, content: bytes) -> bytes:
    """Bytes of which some are cut out, doubled or replaced."""
    scratched = bytearray(content)
    for _ in range(noise.randint(1, 4)):
        place = noise.randrange(len(scratched) + 1)
        part = noise.choice((noise.randbytes(2), noise.choice(PIECES), bytes(scratched[:place][-8:])))
        scratched[place : place + noise.randint(0, 8)] = part
    return bytes(scratched)
