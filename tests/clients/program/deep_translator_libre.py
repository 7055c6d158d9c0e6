"""deep-translator, which puts the text into the address."""

from deep_translator import LibreTranslator
from question import Question, tell

if __name__ == "__main__":
    question = Question.read()
    base = f"{question.address}/"
    client = LibreTranslator(source="en", target="fr", base_url=base, custom_url=base, api_key=question.key or "none")
    tell([client.translate(text) for text in question.texts])
