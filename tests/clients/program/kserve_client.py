"""kserve's REST client, in the first protocol, which explains, and in the second."""

import asyncio
import sys

import numpy as np
from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig
from question import Question, tell


async def first(question: Question) -> list[str]:
    client = InferenceRESTClient(RESTConfig(protocol="v1"))
    assert await client.is_model_ready(question.address, "en-fr", headers=question.headers)
    asked = {"instances": question.texts}
    explained = await client.explain(question.address, "en-fr", asked, headers=question.headers)
    for each in explained["explanations"]:
        assert all(abs(sum(row) - 1) < 1e-3 for row in each["weights"])
    for language, written in question.letters.items():
        letters = {"instances": [question.text], "parameters": {"to": language}}
        answer = await client.infer(question.address, letters, model_name="all", headers=question.headers)
        assert [each["text"] for each in answer["predictions"]] == [written]
        answer = await client.explain(question.address, "all", letters, headers=question.headers)
        assert [each["text"] for each in answer["explanations"]] == [written]
    predicted = await client.infer(question.address, asked, model_name="en-fr", headers=question.headers)
    return [each["text"] for each in predicted["predictions"]]


async def second(question: Question) -> list[str]:
    client = InferenceRESTClient(RESTConfig(protocol="v2"))
    assert await client.is_server_live(question.address)
    assert await client.is_server_ready(question.address)
    assert await client.is_model_ready(question.address, "en-fr", headers=question.headers)
    answers = []
    for binary in (True, False):
        tensor = InferInput("text", [len(question.texts)], "BYTES")
        tensor.set_data_from_numpy(np.array(question.texts, dtype=object), binary_data=binary)
        request = InferRequest("en-fr", [tensor])
        answer = await client.infer(question.address, request, model_name="en-fr", headers=question.headers)
        answers.append(next(output.data for output in answer.outputs if output.name == "text"))
    assert answers[0] == answers[1]
    for language, written in question.letters.items():
        tensor = InferInput("text", [1], "BYTES", data=[question.text])
        request = InferRequest("all", [tensor], parameters={"to": language})
        answer = await client.infer(question.address, request, model_name="all", headers=question.headers)
        assert next(output.data for output in answer.outputs if output.name == "text") == [written]
    return answers[0]


if __name__ == "__main__":
    question = Question.read()
    tell(asyncio.run({"1": first, "2": second}[sys.argv[2]](question)))
