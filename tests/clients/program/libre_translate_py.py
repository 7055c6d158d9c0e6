"""libretranslatepy, which sends forms."""

from libretranslatepy import LibreTranslateAPI
from question import Question, tell

if __name__ == "__main__":
    question = Question.read()
    client = LibreTranslateAPI(f"{question.address}/", api_key=question.key)
    codes = sorted(language["code"] for language in client.languages())
    assert codes == ["en", "fr"], codes
    assert client.detect(question.texts[0])[0]["language"] == "en"
    tell([client.translate(text, "en", "fr") for text in question.texts])
