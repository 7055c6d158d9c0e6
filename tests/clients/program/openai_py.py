"""openai: whole answers, streams, transcriptions, speech, errors, and texts without waiting."""

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import openai
from question import Question, fails, tell

MODEL = "en-fr"


def messages(text: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": "Translate."}, {"role": "user", "content": text}]


def whole(client: openai.OpenAI, text: str) -> str:
    answer = client.chat.completions.create(model=MODEL, messages=messages(text))
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    return answer.choices[0].message.content


def streamed(client: openai.OpenAI, text: str) -> str:
    options = {"include_usage": True}
    chunks = list(
        client.chat.completions.create(model=MODEL, messages=messages(text), stream=True, stream_options=options)
    )
    assert chunks[-1].usage.completion_tokens > 0
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def transcribed(client: openai.OpenAI, recording: dict[str, Any]) -> None:
    path = Path(recording["path"])
    ask = client.audio.transcriptions.create
    assert ask(model="asr", file=path).text == recording["text"]
    assert ask(model="asr", file=path, response_format="text") == recording["text"] + "\n"
    whole = ask(model="asr", file=path, response_format="verbose_json", timestamp_granularities=["word"])
    assert [each.word for each in whole.words] == recording["words"]
    assert whole.duration == whole.usage.seconds > 0
    with fails(openai.BadRequestError, "srt"):
        ask(model="asr", file=path, response_format="srt")
    with fails(openai.UnprocessableEntityError, "not a recording"):
        ask(model="asr", file=b"no sound")
    with fails(openai.NotFoundError, "can translate"):
        ask(model=MODEL, file=path)


def spoken(client: openai.OpenAI, speech: dict[str, str]) -> None:
    ask = client.audio.speech.create
    settings = {"model": "voice", "voice": "alloy", "input": speech["text"]}
    content = ask(**settings, response_format="wav").read()
    assert hashlib.sha256(content).hexdigest() == speech["sha256"]
    assert ask(**settings).response.headers["content-type"] == "audio/mpeg"
    with client.audio.speech.with_streaming_response.create(**settings, response_format="wav") as response:
        assert b"".join(response.iter_bytes()) == content
    with fails(openai.BadRequestError, "speed"):
        ask(**settings, speed=2)


async def without_waiting(client: openai.AsyncOpenAI, texts: list[str]) -> tuple[list[str], list[str]]:
    async def one(text: str) -> str:
        return (await client.chat.completions.create(model=MODEL, messages=messages(text))).choices[0].message.content

    async def parts(text: str) -> str:
        stream = await client.chat.completions.create(model=MODEL, messages=messages(text), stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    return await asyncio.gather(*map(one, texts)), await asyncio.gather(*map(parts, texts))


if __name__ == "__main__":
    question = Question.read()
    access = {"base_url": f"{question.address}/v1", "api_key": question.key or "none", "max_retries": 0}
    client = openai.OpenAI(**access)
    assert client.models.retrieve(MODEL).id in [model.id for model in client.models.list()]
    answers = [whole(client, text) for text in question.texts]
    assert answers == [streamed(client, text) for text in question.texts]
    for language, written in question.letters.items():
        asked = {"messages": messages(question.text)}
        by_name = client.chat.completions.create(model=f"all:{language}", **asked)
        by_field = client.chat.completions.create(model="all", **asked, extra_body={"to": language})
        assert by_name.choices[0].message.content == by_field.choices[0].message.content == written
    assert (answers, answers) == asyncio.run(without_waiting(openai.AsyncOpenAI(**access), question.texts))
    transcribed(client, question.recording)
    spoken(client, question.speech)
    ask = client.chat.completions.create
    with fails(openai.NotFoundError, "Did you mean 'en-fr'"):
        ask(model="en-f", messages=messages("a"))
    with fails(openai.BadRequestError, "n = 2"):
        ask(model=MODEL, messages=messages("a"), n=2)
    with fails(openai.UnprocessableEntityError, "30,000 characters"):
        ask(model=MODEL, messages=messages("a" * 30_000))
    if question.key:
        with fails(openai.PermissionDeniedError, "not valid"):
            whole(openai.OpenAI(**access | {"api_key": "0" * 20}), "a")
    tell(answers)
