"""Hugging Face's shapes: `inputs` and `parameters` of translation, text classification, token classification, gaps and
text generation, as `huggingface_hub.InferenceClient(model=".../models/NAME")` sends them; of speech recognition, audio
and image classification and image to text the bytes of a file, or where there are parameters, JSON with its base64.
Text to speech answers with a file. A parameter that a run does not have is refused, not ignored.
"""

import binascii
from itertools import groupby
from typing import Any, Generic, Literal, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from foveate.serve.service.body import PARTS, answer, decoded, read
from foveate.serve.service.desk import Desk
from foveate.serve.service.keyring import Keyring
from foveate.serve.service.language import code_among, code_of
from foveate.serve.service.message import Card, settings_of
from foveate.serve.service.refused import RefusedError, invalid
from foveate.serve.service.spoken import spoken
from foveate.serve.service.upload import JSON, type_of

Shape = TypeVar("Shape", bound="Parameters")
GAPS = ("[MASK]", "<mask>", "___")
OUTSIDE = "O"
"""The tag of words outside all groups, which token classification leaves out."""


class Parameters(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The parameters of a task."""

    def settings(self, card: Card, texts: list[str]) -> dict[str, Any]:
        """The settings of the run. Raises RefusedError for what it cannot do."""
        return {}

    def shaped(self, value: dict[str, Any], text: str) -> Any:
        """The answer to a text."""
        raise NotImplementedError


class Translation(Parameters, kw_only=True):
    src_lang: str | None = None
    tgt_lang: str | None = None
    truncation: Literal["do_not_truncate"] | None = None

    def settings(self, card: Card, texts: list[str]) -> dict[str, Any]:
        if card.directions:
            if self.tgt_lang is None:
                raise invalid(f"The run {card.name} writes several languages: name one as tgt_lang.")
            source = code_among([source for source, _ in card.directions], self.src_lang or "")
            target = code_among([target for _, target in card.directions], self.tgt_lang)
            if self.src_lang is not None and (source, target) not in card.directions:
                known = ", ".join(map("-".join, card.directions))
                raise invalid(f"The run {card.name} does not translate from {source} into {target}, but {known}.")
            return {"to": target}
        pair = card.languages or ()
        for code, known in zip((self.src_lang, self.tgt_lang), pair, strict=False):
            if code is not None and code_of(code) != known:
                raise invalid(f"The run {card.name} does not know {code}: it translates {' into '.join(pair)}.")
        return {}

    def shaped(self, value: dict[str, Any], text: str) -> Any:
        whole = {} if value["finished"] else {"finished": False}
        return {"translation_text": value["text"], **whole}


class TextClassification(Parameters, kw_only=True):
    top_k: int | None = None
    function_to_apply: Literal["softmax"] | None = None

    def shaped(self, value: dict[str, Any], text: str) -> Any:
        labels = [{"label": label, "score": share} for label, share in value["probabilities"].items()]
        return labels[: _least_one(self.top_k, "top_k")]


class TokenClassification(Parameters, kw_only=True):
    """Words are the tokens: all strategies but `none` join neighbours of one group in the same way."""

    aggregation_strategy: Literal["none", "simple", "first", "average", "max"] = "none"
    ignore_labels: list[str] = msgspec.field(default_factory=lambda: [OUTSIDE])

    def shaped(self, value: dict[str, Any], text: str) -> Any:
        words = _placed(value, text)
        if self.aggregation_strategy == "none":
            return [word for word in words if word["entity"] not in self.ignore_labels]
        return [group for group in _grouped(words, text) if group["entity_group"] not in self.ignore_labels]


class FillMask(Parameters, kw_only=True):
    top_k: int | None = None

    def settings(self, card: Card, texts: list[str]) -> dict[str, Any]:
        if not texts:
            return {}
        for number, text in enumerate(texts, start=1):
            gaps = sum(text.count(gap) for gap in GAPS)
            if gaps != 1:
                which = f"Text {number}" if len(texts) > 1 else "The text"
                raise invalid(f"{which} has {gaps} gaps, and here it has one, as {GAPS[0]}. `/fill` takes several.")
        (gap, *others) = {gap for text in texts for gap in GAPS if gap in text}
        if others:
            raise invalid(f"The texts have {gap} and {others[0]} as gaps. Send one kind.")
        return settings_of(best=self.top_k, gap=gap, texts=True)

    def shaped(self, value: dict[str, Any], text: str) -> Any:
        return [
            {
                "score": choice["probability"],
                "token": choice["token"],
                "token_str": choice["piece"],
                "sequence": choice["text"],
            }
            for choice in value["gaps"][0]
        ]


class TextGeneration(Parameters, kw_only=True):
    max_new_tokens: int | None = None
    do_sample: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: list[str] | None = None
    return_full_text: bool = False
    details: Literal[False] = False
    decoder_input_details: Literal[False] = False
    watermark: Literal[False] = False

    def settings(self, card: Card, texts: list[str]) -> dict[str, Any]:
        """Greedy decoding, unless a sample is asked for."""
        chance = (self.temperature, self.top_k, self.top_p)
        sampled = any(value is not None for value in chance) if self.do_sample is None else self.do_sample
        drawn = settings_of(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p, seed=self.seed)
        return {
            **(drawn if sampled else {"temperature": 0}),
            **settings_of(max_tokens=self.max_new_tokens, stop=self.stop),
        }

    def shaped(self, value: dict[str, Any], text: str) -> Any:
        return {"generated_text": text + value["text"] if self.return_full_text else value["text"]}


class SpeechRecognition(Parameters, kw_only=True):
    return_timestamps: Literal[False, "word"] = False

    def shaped(self, value: dict[str, Any], text: str) -> Any:
        answer = {"text": value["text"]}
        if not self.return_timestamps:
            return answer
        if value["words"] is None:
            raise invalid("This run has no CTC, which tells when a word is heard. Leave return_timestamps out.")
        chunks = [{"text": each["word"], "timestamp": [each["start"], each["end"]]} for each in value["words"]]
        return {**answer, "chunks": chunks}


class ImageToText(Parameters):
    def shaped(self, value: dict[str, Any], text: str) -> Any:
        return [{"generated_text": value["text"]}]


class TextToSpeech(Parameters):
    """A voice has no parameters."""


FILE_TASKS: dict[str, type[Parameters]] = {
    "classify": TextClassification,  # of recordings and pictures, too
    "transcribe": SpeechRecognition,
    "caption": ImageToText,
}
TASKS: dict[str, type[Parameters]] = {
    "translate": Translation,
    "classify": TextClassification,
    "tag": TokenClassification,
    "fill": FillMask,
    "generate": TextGeneration,
    "speak": TextToSpeech,
}


class Inputs(msgspec.Struct, Generic[Shape]):
    """`options` concern a service that loads models for a request, and do not change an answer."""

    inputs: str | list[str]
    parameters: Shape | None = None
    stream: bool | None = None
    options: dict[str, Any] | None = None


class File(msgspec.Struct, Generic[Shape]):
    """A file as base64, and parameters."""

    inputs: str
    parameters: Shape | None = None
    options: dict[str, Any] | None = None


SPARE = 10_000
"""Bytes for the parameters beside a file in base64."""


def routes(desk: Desk, keys: Keyring) -> list[Route]:
    async def model(request: Request) -> Response:
        keys.require(request)
        card = desk.card(name=request.path_params["name"])
        if card.reads != "texts":
            return await of_file(request, card)
        if card.verb not in TASKS:
            raise invalid(f"The run {card.name} can {card.verb}, which has no shape here. Use /{card.verb}.")
        task = TASKS[card.verb]
        query: Inputs[Parameters] = await read(request, Inputs[task], desk.limits.body)  # type: ignore[valid-type]
        if query.stream:
            raise RefusedError(400, "This interface has no streams: `/v1/completions` has.", "stream")
        if card.verb == "speak":
            if not isinstance(query.inputs, str):
                raise invalid("Here `inputs` is one text, whose speech is one file. Send several texts one by one.")
            return await spoken(desk, request, card, query.inputs, "wav")
        parameters = query.parameters or task()
        texts = [query.inputs] if isinstance(query.inputs, str) else query.inputs
        reply = await desk.ask(request, card, texts, parameters.settings(card, texts))
        values = [parameters.shaped(value, text) for value, text in zip(reply.values, texts, strict=True)]
        # The answer to one text is a list with it, but for tags and gaps, which are lists of their own.
        alone = isinstance(query.inputs, str) and card.verb in ("tag", "fill")
        return answer(values[0] if alone else values)

    async def of_file(request: Request, card: Card) -> Response:
        if card.verb not in FILE_TASKS or card.reads == "vectors":
            raise invalid(
                f"The run {card.name} can {card.verb} {card.reads}, which has no shape here. Use /{card.verb}."
            )
        task, kind = FILE_TASKS[card.verb], type_of(request)
        if kind == PARTS:
            raise RefusedError(415, f"Here the body is the file. A form is for /{card.verb}.", "multipart")
        most = desk.limits.upload
        async with desk.freight.body(request, most // 3 * 4 + SPARE if kind == JSON else most) as content:
            parameters = task()
            if kind == JSON:
                query: File[Parameters] = decoded(content, File[task])  # type: ignore[valid-type]
                content, parameters = _of_base64(query.inputs), query.parameters or parameters
            reply = await desk.ask_files(request, card, [content])
            return answer(parameters.shaped(reply.values[0], ""))

    return [Route("/models/{name}", model, methods=["POST"], name="hugging face model")]


def _of_base64(text: str) -> bytes:
    try:
        return binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except (binascii.Error, UnicodeEncodeError):
        raise invalid("inputs are not a file in base64.") from None


def _placed(value: dict[str, Any], text: str) -> list[dict[str, Any]]:
    """The words of a tagged text with their places in it. They are those of the text as it was sent: the run has read
    them in Unicode normal form C, which leaves white space alone.
    """
    words, at = [], 0
    for index, (word, tag, share) in enumerate(zip(text.split(), value["tags"], value["probabilities"], strict=True)):
        start = text.index(word, at)
        at = start + len(word)
        words.append({"entity": tag, "score": share, "index": index, "word": word, "start": start, "end": at})
    return words


def _grouped(words: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """Neighbours with one tag, or with a tag B-X and then tags I-X, as one; the score is the mean."""
    numbers, number, before = [], 0, None
    for word in words:
        begins, kind = _tag(word["entity"])
        number += begins or kind != before
        before = kind
        numbers.append(number)
    groups = []
    for _, pairs in groupby(zip(numbers, words, strict=True), key=lambda pair: pair[0]):
        group = [word for _, word in pairs]
        start, end = group[0]["start"], group[-1]["end"]
        groups.append(
            {
                "entity_group": _tag(group[0]["entity"])[1],
                "score": sum(word["score"] for word in group) / len(group),
                "word": text[start:end],
                "start": start,
                "end": end,
            }
        )
    return groups


def _tag(tag: str) -> tuple[bool, str]:
    """Whether a tag begins a group, and the kind of the group."""
    return tag.startswith("B-"), tag[2:] if tag.startswith(("B-", "I-")) else tag


def _least_one(value: int | None, name: str) -> int | None:
    if value is not None and value < 1:
        raise invalid(f"{name} is 1 or more, got {value}.")
    return value
