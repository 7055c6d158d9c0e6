"""LitServe, with batches that wait for company as long as the others do."""

from typing import Any

import litserve

from peers.serve_fastapi import BATCH, WINDOW


class Translation(litserve.LitAPI):
    folder: str
    """The translator's."""

    def setup(self, device: str) -> None:
        import torch

        from foveate import Translator

        torch.set_num_threads(1)
        self.translator = Translator.load(self.folder)

    def decode_request(self, request: dict[str, Any]) -> str:
        return str(request["q"])

    def predict(self, texts: list[str]) -> list[str]:
        return [translation.text for translation in self.translator.translate(texts)]

    def encode_response(self, output: str) -> dict[str, str]:
        return {"translatedText": output}


def serve(folder: str, port: int) -> None:
    api = Translation(max_batch_size=BATCH, batch_timeout=WINDOW, api_path="/translate")
    api.folder = folder
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1, timeout=30)
    server.run(port=port, host="127.0.0.1", num_api_servers=1, generate_client_file=False, log_level="error")
