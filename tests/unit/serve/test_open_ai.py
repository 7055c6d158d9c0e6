"""OpenAI's shapes: which fields of a request are settings of a run."""

import msgspec
import pytest

from foveate.serve.service.message import Card
from foveate.serve.service.open_ai import Chat


@pytest.mark.parametrize(
    ("verb", "settings"),
    [("translate", {"to": "fr"}), ("generate", {"max_tokens": 9, "temperature": 0.5, "to": "fr"})],
)
def test_a_translator_is_told_only_the_language_and_a_language_model_all(verb: str, settings: object) -> None:
    request = b'{"model": "m", "messages": [], "max_tokens": 9, "temperature": 0.5, "to": "fr", "user": "u"}'
    query = msgspec.json.decode(request, type=Chat)
    assert query.settings(Card("m", verb, "m", "", 1, None, 0, (), 1.0)) == settings
