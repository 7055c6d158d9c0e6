"""KServe's first interface: `:predict` and `:explain` of a model."""

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from foveate.serve.service.body import answer, read
from foveate.serve.service.desk import Desk
from foveate.serve.service.keyring import Keyring
from foveate.serve.service.own_interface import Explain, Setting, explained
from foveate.serve.service.refused import invalid


class Texts(msgspec.Struct, forbid_unknown_fields=True):
    """`parameters` are settings of the run, such as the language `to` which it writes."""

    instances: list[str]
    parameters: dict[str, Setting] = {}


class Questions(msgspec.Struct, forbid_unknown_fields=True):
    """An instance is a text, or has the fields of `/explain`; `parameters` are fields of every instance that lacks
    them.
    """

    instances: list[str | dict[str, Any]]
    parameters: dict[str, Any] = {}


def routes(desk: Desk, keys: Keyring) -> list[Route]:
    async def predict(request: Request) -> Response:
        keys.require(request)
        query = await read(request, Texts, desk.limits.body)
        card = desk.card(name=request.path_params["name"])
        reply = await desk.ask(request, card, query.instances, query.parameters)
        return answer({"predictions": reply.values})

    async def explain(request: Request) -> Response:
        keys.require(request)
        query = await read(request, Questions, desk.limits.body)
        card = desk.card(name=request.path_params["name"])
        queries = [_explain(instance, card.name, query.parameters) for instance in query.instances]
        desk.check([each.source for each in queries])
        return answer({"explanations": await explained(desk, request, queries)})

    return [
        Route("/v1/models/{name}:predict", predict, methods=["POST"], name="predict"),
        Route("/v1/models/{name}:explain", explain, methods=["POST"], name="explain instances"),
    ]


def _explain(instance: str | dict[str, Any], run: str, parameters: Mapping[str, Any]) -> Explain:
    fields = {"source": instance} if isinstance(instance, str) else instance
    try:
        return msgspec.convert({**parameters, **fields, "run": run}, Explain)
    except msgspec.ValidationError as error:
        raise invalid(f"An instance has another shape: {error}.") from None
