"""Reading of bodies: JSON, forms and query strings."""

import msgspec
import pytest

from foveate.serve.service.body import _pairs, decoded, shaped
from foveate.serve.service.language import code_of, pair_of
from foveate.serve.service.refused import RefusedError


class Shape(msgspec.Struct):
    q: str | list[str]
    count: int = 0


def test_json_of_another_shape_and_no_json_have_different_statuses() -> None:
    assert decoded(b'{"q": "a"}', Shape) == Shape("a")
    for content, status in ((b'{"q": 1}', 422), (b"{}", 422), (b"{", 400), (b"\xff", 400), (b'{"q": NaN}', 400)):
        with pytest.raises(RefusedError) as refusal:
            decoded(content, Shape)
        assert refusal.value.status == status, content


def test_a_form_has_lists_and_numbers_as_text() -> None:
    assert shaped(_pairs("q=a+b&q=%C3%A9&count=3"), Shape) == Shape(["a b", "é"], 3)
    for text in ("&".join(f"f{number}=1" for number in range(1001)), "q=%ff"):
        with pytest.raises(RefusedError) as refusal:
            _pairs(text)
        assert refusal.value.status == 400


def test_languages_have_codes_regions_and_names() -> None:
    assert [code_of(name) for name in ("fr", "fr-CA", "zh_Hans", "Persian", "xx")] == ["fr", "fr", "zh", "fa", "xx"]
    assert [pair_of(name) for name in ("en-fr", "en", "run-1", "fr-en")] == [("en", "fr"), None, None, ("fr", "en")]
