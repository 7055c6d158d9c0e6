"""libretranslatepy, which sends forms."""

from libretranslatepy import LibreTranslateAPI
from question import Question, tell

if __name__ == "__main__":
    question = Question.read()
    client = LibreTranslateAPI(f"{question.address}/", api_key=question.key)
    targets = {language["code"]: language["targets"] for language in client.languages()}
    assert sorted(targets) == ["de", "en", "fr", "ru"], targets
    assert sorted(targets["en"]) == ["de", "fr", "ru"], targets
    for language, written in question.letters.items():
        assert client.translate(question.text, "en", language) == written
    assert client.detect(question.texts[0])[0]["language"] == "en"
    tell([client.translate(text, "en", "fr") for text in question.texts])
