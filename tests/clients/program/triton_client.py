"""tritonclient over HTTP: tensors in JSON, and in bytes as it sends them by itself."""

import json
import sys

import numpy as np
import tritonclient.http as triton
from question import Question, fails, tell
from tritonclient.utils import InferenceServerException

if __name__ == "__main__":
    question, binary = Question.read(), sys.argv[2] == "binary"
    client = triton.InferenceServerClient(question.address.removeprefix("http://"))
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("en-fr", headers=question.headers)
    assert "binary_tensor_data" in client.get_server_metadata()["extensions"]
    described = client.get_model_metadata("en-fr", headers=question.headers)
    tensor = triton.InferInput(described["inputs"][0]["name"], [len(question.texts)], "BYTES")
    tensor.set_data_from_numpy(np.array(question.texts, dtype=object), binary_data=binary)
    output = triton.InferRequestedOutput("text", binary_data=binary)
    answer = client.infer("en-fr", [tensor], outputs=[output], request_id="7", headers=question.headers)
    assert answer.get_response()["id"] == "7"
    texts = [text.decode() if binary else text for text in answer.as_numpy("text").tolist()]
    every = client.infer("en-fr", [tensor], headers=question.headers)
    assert [json.loads(whole)["text"] for whole in every.as_numpy("json").tolist()] == texts
    greedy = client.infer("en-fr", [tensor], parameters={"beam": 1}, headers=question.headers)
    assert len(greedy.as_numpy("text")) == len(texts)
    for language, written in question.letters.items():
        tensor = triton.InferInput("text", [1], "BYTES")
        tensor.set_data_from_numpy(np.array([question.text], dtype=object), binary_data=binary)
        answer = client.infer("all", [tensor], parameters={"to": language}, headers=question.headers)
        assert [json.loads(whole)["text"] for whole in answer.as_numpy("json").tolist()] == [written]
    with fails(InferenceServerException, "Did you mean"):
        client.infer("en-f", [tensor], headers=question.headers)
    tell(texts)
