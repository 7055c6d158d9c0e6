"""Tensors of the Open Inference Protocol: texts as JSON, and as Triton's bytes."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from foveate.serve.service.message import Card
from foveate.serve.service.open_inference import _divided, _outputs, _packed, _texts, _unpacked
from foveate.serve.service.refused import RefusedError

TEXTS = some.lists(some.text(max_size=8), max_size=6)


def content(shape: list[int], **tensor: Any) -> bytes:
    return json.dumps({"inputs": [{"name": "text", "datatype": "BYTES", "shape": shape, **tensor}]}).encode()


@given(TEXTS)
def test_both_ways_to_send_texts_have_the_same_texts(texts: list[str]) -> None:
    binary = _packed(texts)
    start = content([len(texts)], parameters={"binary_data_size": len(binary)})
    assert _texts(*_divided(start + binary, str(len(start)))) == (texts, [len(texts)])
    assert _texts(*_divided(content([len(texts), 1], data=[[text] for text in texts]), None))[0] == texts


@given(TEXTS, some.data())
def test_bytes_that_end_early_are_refused_or_whole_texts(texts: list[str], data: some.DataObject) -> None:
    binary = _packed(texts)
    cut = binary[: data.draw(some.integers(0, len(binary)))]
    whole = next((number for number in range(len(texts) + 1) if _packed(texts[:number]) == cut), None)
    if whole is not None:
        assert _unpacked(memoryview(cut)) == texts[:whole]
    else:
        with pytest.raises(RefusedError, match="ends after"):
            _unpacked(memoryview(cut))


@given(some.lists(some.integers(0, 3), max_size=8), some.integers(0, 20))
def test_the_shape_is_that_of_the_texts(shape: list[int], number: int) -> None:
    query, binary = _divided(content(shape, data=["a"] * number), None)
    if math.prod(shape) == number:
        assert _texts(query, binary) == (["a"] * number, shape)
    else:
        with pytest.raises(RefusedError, match=str(number)):
            _texts(query, binary)


@pytest.mark.parametrize(
    ("body", "header", "words"),
    [
        (content([1], data=["a"]), "999", "bytes of JSON"),
        (content([1], data=["a"]), "-1", "bytes of JSON"),
        (content([1], data=["a"]), "9" * 5000, "bytes of JSON"),
        (content([1], data=["a"]), "20", "not JSON"),
        (content([1], data=[1]), None, "int"),
        (content([1]), None, "either"),
        (content([1], data=["a"], parameters={"binary_data_size": 5}), None, "either"),
        (content([1], parameters={"binary_data_size": 5}), None, "0 bytes follow"),
        (content([-1, -1], data=["a"]), None, "product"),
        (content([1] * 100_000, data=["a"]), None, "product"),
        (content([1], data=["a"]).replace(b'"text"', b'"input-0"'), None, "input-0"),
        (content([1], data=["a"]).replace(b"BYTES", b"FP32"), None, "FP32"),
        (b'{"inputs": []}', None, "none"),
        (b'{"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ' + b"[" * 90_000, None, "not JSON"),
    ],
)
def test_other_requests_are_refused(body: bytes, header: str | None, words: str) -> None:
    with pytest.raises(RefusedError, match=words):
        _texts(*_divided(body, header))


def test_bytes_that_are_not_text_are_refused() -> None:
    with pytest.raises(RefusedError, match="Text 2 is not in UTF-8"):
        _unpacked(memoryview(_packed(["a"]) + b"\1\0\0\0\xff"))


def test_each_output_comes_once_so_that_a_small_request_has_no_answer_of_any_size() -> None:
    card = Card("en-fr", "translate", "en-fr", "", 1, ("en", "fr"), 0, (), 1.0)
    query, _ = _divided(content([1], data=["a"])[:-1] + b', "outputs": [{"name": "json"}, {"name": "text"}]}', None)
    assert _outputs(query, card) == [("json", False), ("text", False)]
    twice, _ = _divided(content([1], data=["a"])[:-1] + b', "outputs": [{"name": "json"}, {"name": "json"}]}', None)
    with pytest.raises(RefusedError, match="twice"):
        _outputs(twice, card)
