"""The Open Inference Protocol, version 2, of KServe and Triton, with Triton's extension for binary tensors.

A run has one input, `text`, and two outputs: what it writes, and `json`, its whole answer in the shape of our own
interface. The input of a run that reads vectors is `vectors`: numbers of the shape (width), (length, width), or
(examples, length, width).
The specification: https://github.com/kserve/open-inference-protocol
"""

import io
import math
import struct
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from foveate import __version__
from foveate.serve.service.body import answer, body_of, decoded
from foveate.serve.service.desk import Desk, require_texts
from foveate.serve.service.keyring import Keyring
from foveate.serve.service.message import Card
from foveate.serve.service.refused import RefusedError, invalid
from foveate.suggestion import did_you_mean

INPUT, VECTORS, WHOLE = "text", "vectors", "json"
WRITTEN = {"translate": "text", "generate": "text", "fill": "text", "classify": "label", "tag": "tags"}
"""The output beside `json`, which is also the field of the answer that it holds."""
OUTPUTS_OF_VECTORS = {"classify": "label", "transcribe": "text"}
NUMBERS = {
    "FP16": "<f2", "FP32": "<f4", "FP64": "<f8", "INT8": "i1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8",
    "UINT8": "u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8",
}  # fmt: skip
"""The datatypes of vectors, and numpy's names for them in the byte order of the protocol."""
HEADER = "inference-header-content-length"
"""The bytes of JSON at the beginning of a body; binary tensors follow."""
MOST_AXES = 8
BINARY_OUTPUT = "binary_data_output"
_LENGTH = struct.Struct("<I")

Parameter = str | int | float | bool


class TensorParameters(msgspec.Struct):
    binary_data_size: int | None = None


class Tensor(msgspec.Struct):
    name: str
    datatype: str
    shape: list[int]
    data: list[Any] | None = None
    parameters: TensorParameters = msgspec.field(default_factory=TensorParameters)


class OutputParameters(msgspec.Struct):
    binary_data: bool | None = None


class Output(msgspec.Struct):
    name: str
    parameters: OutputParameters = msgspec.field(default_factory=OutputParameters)


class Infer(msgspec.Struct):
    """`parameters` are settings of the run, such as `beam`."""

    inputs: list[Tensor]
    id: str | None = None
    outputs: list[Output] | None = None
    parameters: dict[str, Parameter] = {}


def routes(desk: Desk, keys: Keyring) -> list[Route]:
    """Health and the name of the server need no key."""

    async def server(request: Request) -> Response:
        return answer({"name": "foveate", "version": __version__, "extensions": ["binary_tensor_data"]})

    async def live(request: Request) -> Response:
        return answer({"live": True})

    async def ready(request: Request) -> Response:
        desk.require_ready()
        return answer({"ready": True})

    async def model(request: Request) -> Response:
        keys.require(request)
        card = desk.card(name=request.path_params["name"])
        _require_written(card)
        numbers = {"name": VECTORS, "datatype": "FP32", "shape": [-1, -1]}
        return answer(
            {
                "name": card.name,
                "platform": "foveate",
                "inputs": [numbers if card.reads == VECTORS else _described(INPUT)],
                "outputs": [_described(name) for name in _names(card)],
            }
        )

    async def model_ready(request: Request) -> Response:
        keys.require(request)
        card = desk.card(name=request.path_params["name"])
        desk.require_ready()
        return answer({"name": card.name, "ready": True})

    async def infer(request: Request) -> Response:
        keys.require(request)
        query, binary = _divided(await body_of(request, desk.limits.body), request.headers.get(HEADER))
        card = desk.card(name=request.path_params["name"])
        _require_written(card)
        settings = {name: value for name, value in query.parameters.items() if name != BINARY_OUTPUT}
        outputs = _outputs(query, card)
        if card.reads == VECTORS:
            if settings:
                raise invalid(f"A run that reads vectors has no settings: {', '.join(settings)}.")
            files = _files(query, binary, desk.limits.texts)
            reply, shape = await desk.ask_files(request, card, files), [len(files)]
        else:
            texts, shape = _texts(query, binary)
            reply = await desk.ask(request, card, texts, settings)
        tensors = [(name, [_written(value, name) for value in reply.values], binary) for name, binary in outputs]
        return _answered({"id": query.id, "model_name": card.name}, tensors, shape)

    return [
        Route("/v2", server, name="v2 server"),
        Route("/v2/health/live", live, name="v2 health"),
        Route("/v2/health/ready", ready, name="v2 health"),
        Route("/v2/models/{name}", model, name="v2 model"),
        Route("/v2/models/{name}/ready", model_ready, name="v2 model"),
        Route("/v2/models/{name}/infer", infer, methods=["POST"], name="v2 infer"),
    ]


def _require_written(card: Card) -> None:
    """Raises RefusedError for a run that reads recordings or pictures, or speaks."""
    if card.reads == VECTORS:
        return
    require_texts(card)
    if card.verb not in WRITTEN:
        raise invalid(f"The run {card.name} can {card.verb}, which is not for tensors. Use /{card.verb}.")


def _names(card: Card) -> tuple[str, ...]:
    written = (OUTPUTS_OF_VECTORS if card.reads == VECTORS else WRITTEN).get(card.verb)
    return (WHOLE,) if written is None else (written, WHOLE)


def _described(name: str) -> dict[str, Any]:
    return {"name": name, "datatype": "BYTES", "shape": [-1]}


def _divided(content: bytes, header: str | None) -> tuple[Infer, memoryview]:
    """The request, and the bytes of its binary tensors. Raises RefusedError (400) for an impossible header."""
    size = len(content)
    if header is not None:
        if not (header.isascii() and header.isdigit() and len(header) < 20 and int(header) <= size):
            raise _bad(f"{HEADER} is the number of bytes of JSON, at most {size} here, got {header[:20]!r}.")
        size = int(header)
    return decoded(content[:size], Infer), memoryview(content)[size:]


def _texts(query: Infer, binary: memoryview) -> tuple[list[str], list[int]]:
    """The texts of the one input, and its shape. Raises RefusedError for other inputs."""
    tensor = _tensor(query, binary, INPUT, ["BYTES"])
    texts = _unpacked(binary) if tensor.data is None else list(_flat(tensor.data, INPUT, str, "texts"))
    if not _fits(tensor.shape, len(texts)):
        raise invalid(f"The input {INPUT} has {len(texts)} texts, which is not the product of its shape.")
    return texts, tensor.shape


def _files(query: Infer, binary: memoryview, most: int) -> list[bytes]:
    """Each example of the one input as the content of an `.npy` file. Raises RefusedError for other inputs, and for
    more than `most` examples.
    """
    tensor = _tensor(query, binary, VECTORS, NUMBERS)
    kind = np.dtype(NUMBERS[tensor.datatype])
    shape = tensor.shape
    if not 1 <= len(shape) <= 3 or not all(0 < length < 1 << 31 for length in shape):
        raise invalid(
            f"The input {VECTORS} has the shape (width), (length, width) or (examples, length, width), got {shape}."
        )
    if len(shape) == 3 and shape[0] > most:
        raise invalid(f"The request has {shape[0]} examples, and at most {most} are allowed. Send fewer.")
    if tensor.data is None:
        if len(binary) != math.prod(shape) * kind.itemsize:
            raise invalid(
                f"The input {VECTORS} has {len(binary):,} bytes, and {tensor.datatype} of its shape has "
                f"{math.prod(shape) * kind.itemsize:,}."
            )
        values = np.frombuffer(binary, kind)
    else:
        whole = kind.kind in "iu"
        what = "whole numbers" if whole else "numbers"
        numbers = list(_flat(tensor.data, VECTORS, int if whole else int | float, what))
        if len(numbers) != math.prod(shape):
            raise invalid(f"The input {VECTORS} has {len(numbers):,} numbers, which is not the product of its shape.")
        try:
            with np.errstate(over="ignore"):  # what is too large for its type is infinite, which the run refuses
                values = np.array(numbers, kind)
        except OverflowError as error:
            raise invalid(f"The input {VECTORS} has numbers that are not {tensor.datatype}: {error}.") from None
    values = values.reshape(shape)
    return [_saved(one) for one in (values if len(shape) == 3 else [values])]


def _saved(values: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


def _tensor(query: Infer, binary: memoryview, name: str, datatypes: Collection[str]) -> Tensor:
    """The one input. Raises RefusedError for other inputs, another datatype, and where its data stand twice or not at
    all.
    """
    if len(query.inputs) != 1 or query.inputs[0].name != name:
        got = ", ".join(tensor.name for tensor in query.inputs) or "none"
        raise invalid(f"A run has one input with the name {name}, got {got}.")
    (tensor,) = query.inputs
    if tensor.datatype not in datatypes:
        raise invalid(f"The input {name} has the datatype {' or '.join(datatypes)}, got {tensor.datatype}.")
    size = tensor.parameters.binary_data_size
    if (size is None) == (tensor.data is None):
        raise invalid(f"The input {name} has either `data`, or `binary_data_size` and bytes after the JSON.")
    if len(binary) != (size or 0):
        raise _bad(f"{len(binary):,} bytes follow the JSON, and binary_data_size is {size or 0:,}.")
    return tensor


def _fits(shape: list[int], number: int) -> bool:
    return len(shape) <= MOST_AXES and all(length >= 0 for length in shape) and math.prod(shape) == number


def _flat(data: Iterable[Any], name: str, kind: Any, plural: str) -> Iterable[Any]:
    """The values of a tensor, which may be nested."""
    waiting = [iter(data)]
    while waiting:
        for value in waiting[-1]:
            if isinstance(value, list):
                waiting.append(iter(value))
                break
            if not isinstance(value, kind) or isinstance(value, bool):
                raise invalid(f"The data of the input {name} are {plural}, got {type(value).__name__}.")
            yield value
        else:
            waiting.pop()


def _unpacked(binary: memoryview) -> list[str]:
    """Texts, each after its length in four bytes."""
    texts: list[str] = []
    at = 0
    while at < len(binary):
        start = at + _LENGTH.size
        end = start + (_LENGTH.unpack(binary[at:start])[0] if start <= len(binary) else 0)
        if max(start, end) > len(binary):
            raise _bad(f"Text {len(texts) + 1} ends after the last byte of its tensor.")
        try:
            texts.append(str(binary[start:end], "utf-8"))
        except UnicodeDecodeError as error:
            raise _bad(f"Text {len(texts) + 1} is not in UTF-8: {error}.") from None
        at = end
    return texts


def _packed(texts: Iterable[str]) -> bytes:
    encoded = [text.encode() for text in texts]
    return b"".join(_LENGTH.pack(len(each)) + each for each in encoded)


def _outputs(query: Infer, card: Card) -> list[tuple[str, bool]]:
    """The outputs to give, and whether they are binary. Raises RefusedError for one that does not exist."""
    known, usual = _names(card), query.parameters.get(BINARY_OUTPUT) is True
    outputs = [Output(name) for name in known] if query.outputs is None else query.outputs
    for output in outputs:
        if output.name not in known:
            guess = did_you_mean(output.name, known)
            raise invalid(f"There is no output {output.name!r}.{guess} The run {card.name} has {' and '.join(known)}.")
    each = {output.name: output.parameters.binary_data for output in outputs}
    if len(each) < len(outputs):  # a small request could ask for an answer of any size
        raise invalid("The request names an output twice. Name each once.")
    return [(name, usual if binary is None else binary) for name, binary in each.items()]


def _written(value: Any, name: str) -> str:
    if name == WHOLE:
        return msgspec.json.encode(value).decode()
    written = value[name]
    return " ".join(written) if isinstance(written, list) else written or ""


def _answered(head: dict[str, Any], tensors: Sequence[tuple[str, list[str], bool]], shape: list[int]) -> Response:
    outputs, after = [], []
    for name, texts, binary in tensors:
        output = {**_described(name), "shape": shape}
        if binary:
            after.append(_packed(texts))
            output["parameters"] = {"binary_data_size": len(after[-1])}
        else:
            output["data"] = texts
        outputs.append(output)
    content = {name: value for name, value in head.items() if value is not None} | {"outputs": outputs}
    if not after:
        return answer(content)
    start = msgspec.json.encode(content)
    return Response(b"".join([start, *after]), headers={HEADER: str(len(start))}, media_type="application/octet-stream")


def _bad(reason: str) -> RefusedError:
    return RefusedError(400, reason, "malformed")
