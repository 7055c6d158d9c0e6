"""Keys: which are taken, and where they may stand."""

from pathlib import Path

import pytest
from starlette.requests import Request

from foveate.serve.service.keyring import Keyring
from foveate.serve.service.refused import RefusedError

KEY = "0123456789abcdef0123"


def asking(**headers: str) -> Request:
    pairs = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    return Request({"type": "http", "headers": pairs})


@pytest.fixture
def keys(tmp_path: Path) -> Keyring:
    file = tmp_path / "keys.txt"
    text = f"{KEY}\n# whose keys these are\n  # the key of the website\n\n another-key-of-somebody \n"
    file.write_bytes(text.replace("\n", "\r\n").encode("utf-8-sig"))  # as Windows writes it
    return Keyring.read(file)


def test_each_key_of_the_file_is_valid_wherever_it_stands(keys: Keyring) -> None:
    for key in (KEY, "another-key-of-somebody"):
        keys.require(asking(authorization=f"bearer {key}"))
        keys.require(asking(x_api_key=key))
        keys.require(asking(), key)


@pytest.mark.parametrize("key", [KEY[:-1], KEY[:1], KEY + "0", KEY.upper(), "# the key of the website", "é" * 20])
def test_other_keys_are_not(keys: Keyring, key: str) -> None:
    for request, in_body in ((asking(authorization=f"Bearer {key}"), None), (asking(x_api_key=key), None)):
        with pytest.raises(RefusedError) as refusal:
            keys.require(request, in_body)
        assert refusal.value.status == 403


def test_no_key_is_another_refusal(keys: Keyring) -> None:
    for request, in_body in ((asking(), None), (asking(authorization="Basic abc"), 5), (asking(x_api_key=""), "")):
        with pytest.raises(RefusedError) as refusal:
            keys.require(request, in_body)
        assert refusal.value.status == 401
    Keyring().require(asking())
