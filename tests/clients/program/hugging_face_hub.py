"""huggingface_hub's InferenceClient: translation here, and the other tasks where the service has runs for them."""

import hashlib

from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError
from question import Question, fails, tell

if __name__ == "__main__":
    question = Question.read()

    def at(run: str, key: str | None = question.key) -> InferenceClient:
        return InferenceClient(model=f"{question.address}/models/{run}", token=key or "none")

    client = at("en-fr")
    answers = [client.translation(text).translation_text for text in question.texts]
    assert answers[0] == client.translation(question.texts[0], src_lang="en", tgt_lang="fr").translation_text
    for language, written in question.letters.items():
        answer = at("all").translation(question.text, src_lang="en", tgt_lang=language)
        assert answer.translation_text == written
    with fails(HfHubHTTPError, "en into fr"):
        client.translation("a", src_lang="en", tgt_lang="de")
    if question.key:
        with fails(HfHubHTTPError, "403"):
            at("en-fr", "0" * 20).translation("a")
    labels = at("labels").text_classification("a b")
    assert sum(label.score for label in labels) > 0.99
    assert at("labels").text_classification("a b", top_k=1) == labels[:1]
    words = at("tags").token_classification("a  b c")
    assert [(word.word, word.start, word.end) for word in words] == [("a", 0, 1), ("b", 3, 4), ("c", 5, 6)]
    assert all(word.entity for word in words)
    groups = at("tags").token_classification("a  b c", aggregation_strategy="simple")
    assert all(group.entity_group for group in groups)
    choices = at("gaps").fill_mask("a [MASK] b", top_k=3)
    assert [choice.score for choice in choices] == sorted((choice.score for choice in choices), reverse=True)
    assert all(choice.token_str in choice.sequence for choice in choices)
    written = at("gpt").text_generation("ab", max_new_tokens=9)
    assert at("gpt").text_generation("ab", max_new_tokens=9, return_full_text=True) == f"ab{written}" != "ab"
    recording = question.recording
    assert at("asr").automatic_speech_recognition(recording["path"]).text == recording["text"]
    timed = at("asr").automatic_speech_recognition(recording["path"], extra_body={"return_timestamps": "word"})
    assert [each["text"] for each in timed.chunks] == recording["words"]
    with fails(HfHubHTTPError, "not a recording"):
        at("asr").automatic_speech_recognition(b"no sound")
    sound = at("voice").text_to_speech(question.speech["text"])
    assert hashlib.sha256(sound).hexdigest() == question.speech["sha256"]
    picture = question.picture
    labels = at("pictures").image_classification(picture["path"])
    assert labels[0].label == picture["label"]
    assert at("pictures").image_classification(picture["path"], top_k=1) == labels[:1]
    assert at("captions").image_to_text(picture["path"]).generated_text == picture["caption"]
    with fails(HfHubHTTPError, "not a picture"):
        at("captions").image_to_text(b"no picture")
    tell(answers)
