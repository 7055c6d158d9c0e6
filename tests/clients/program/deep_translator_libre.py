"""deep-translator, which puts the text into the address."""

from deep_translator import LibreTranslator
from question import Question, tell

if __name__ == "__main__":
    question = Question.read()
    base = f"{question.address}/"

    def into(language: str) -> LibreTranslator:
        key = question.key or "none"
        return LibreTranslator(source="en", target=language, base_url=base, custom_url=base, api_key=key)

    for language, written in question.letters.items():
        assert into(language).translate(question.text) == written
    tell([into("fr").translate(text) for text in question.texts])
