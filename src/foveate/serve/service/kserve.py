"""KServe's first interface: `:predict` and `:explain` of a model."""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from foveate.serve.service.body import answer, read
from foveate.serve.service.desk import Desk
from foveate.serve.service.keyring import Keyring
from foveate.serve.service.own_interface import Explain, explained
from foveate.serve.service.refused import invalid


class Instances(msgspec.Struct):
    """Texts; an explanation's instance may also be a mapping, with the fields of `/explain`."""

    instances: list[str | dict[str, Any]]


def routes(desk: Desk, keys: Keyring) -> list[Route]:
    async def predict(request: Request) -> Response:
        keys.require(request)
        query = await read(request, Instances, desk.limits.body)
        card = desk.card(name=request.path_params["name"])
        texts = [instance for instance in query.instances if isinstance(instance, str)]
        if len(texts) < len(query.instances):
            raise invalid("Each instance is a text.")
        reply = await desk.ask(request, card, texts, {})
        return answer({"predictions": reply.values})

    async def explain(request: Request) -> Response:
        keys.require(request)
        query = await read(request, Instances, desk.limits.body)
        card = desk.card(name=request.path_params["name"])
        queries = [_explain(instance, card.name) for instance in query.instances]
        desk.check([each.source for each in queries])
        return answer({"explanations": [await explained(desk, request, each) for each in queries]})

    return [
        Route("/v1/models/{name}:predict", predict, methods=["POST"], name="predict"),
        Route("/v1/models/{name}:explain", explain, methods=["POST"], name="explain instances"),
    ]


def _explain(instance: str | dict[str, Any], run: str) -> Explain:
    fields = {"source": instance} if isinstance(instance, str) else instance
    try:
        return msgspec.convert({**fields, "run": run}, Explain)
    except msgspec.ValidationError as error:
        raise invalid(f"An instance has another shape: {error}.") from None
