"""A model behind FastAPI, as tutorials show it: one call for each request, or a pool of one thread with a window."""

import asyncio
import math
import threading
from typing import Any

import fastapi
import uvicorn
from pydantic import BaseModel

WINDOW, BATCH = 0.005, 32
"""Seconds that a batch waits for company, and its texts."""


class Query(BaseModel):
    q: str
    source: str = "en"
    target: str = "fr"


def loop(translator: Any, port: int) -> None:
    """Each request calls the model, one after another."""
    app, alone = fastapi.FastAPI(), threading.Lock()

    @app.post("/translate")
    def translate(query: Query) -> dict[str, str]:
        with alone:
            return {"translatedText": translator.translate(query.q).text}

    uvicorn.run(app, port=port, log_level="error")


def window(translator: Any, port: int, late: float = math.inf) -> None:
    """Requests that come within a window are one batch, which a thread translates. Those that have waited for more than
    `late` seconds are refused.
    """
    queue: asyncio.Queue[tuple[str, asyncio.Future[str], float]] = asyncio.Queue()

    async def next_one() -> tuple[str, asyncio.Future[str], float]:
        while True:
            text, answer, moment = await queue.get()
            if asyncio.get_running_loop().time() - moment <= late:
                return text, answer, moment
            answer.set_exception(fastapi.HTTPException(503))

    async def work() -> None:
        while True:
            batch = [await next_one()]
            until = asyncio.get_running_loop().time() + WINDOW
            while len(batch) < BATCH:
                try:
                    async with asyncio.timeout_at(until):
                        batch.append(await next_one())
                except TimeoutError:
                    break
            texts = [text for text, _, _ in batch]
            for (_, answer, _), translation in zip(
                batch, await asyncio.to_thread(translator.translate, texts), strict=True
            ):
                if not answer.done():
                    answer.set_result(translation.text)

    async def lifespan(app: fastapi.FastAPI) -> Any:
        working = asyncio.ensure_future(work())
        yield
        working.cancel()

    app = fastapi.FastAPI(lifespan=lifespan)

    @app.post("/translate")
    async def translate(query: Query) -> dict[str, str]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str] = loop.create_future()
        queue.put_nowait((query.q, answer, loop.time()))
        return {"translatedText": await answer}

    uvicorn.run(app, port=port, log_level="error")
