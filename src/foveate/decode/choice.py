"""The next tokens of rows that are decoded together, each by a search of its own."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.decode.candidate import best
from foveate.decode.constraint import constrained
from foveate.decode.random_number import keys, uniform
from foveate.decode.sample import Sharpness, draw_each
from foveate.search import GreedyConfig, SampleConfig

Group = tuple[Any, ...]


class Choices:
    """Chooses as `greedy` and `sample` do, for rows whose settings differ."""

    def __init__(self, device: torch.device | str | None = None) -> None:
        self._device = device
        self.set([], [], [])

    def set(self, configs: Sequence[GreedyConfig | SampleConfig], ends: Sequence[int], examples: Sequence[int]) -> None:
        """Take other rows: the search, the end and the number for the noise of each."""
        self._configs, self._ends = list(configs), list(ends)
        samples = [config if isinstance(config, SampleConfig) else None for config in configs]
        self._key = keys([0 if each is None else each.seed for each in samples]).to(self._device)
        self._example = torch.tensor(list(examples), dtype=torch.int64, device=self._device)
        cut = [each is not None and (each.top_k, each.top_p) != (None, None) for each in samples]
        self._greedy = self._places([each is None for each in samples])
        self._sampled = [
            (self._places(chosen), Sharpness.of(settings).to(self._key.device))
            for chosen in ([each is not None and not own for each, own in zip(samples, cut, strict=True)], cut)
            if (settings := [each for each, own in zip(samples, chosen, strict=True) if own and each is not None])
        ]
        alike = len({(config.forbid, config.min_length, config.no_repeat_ngram) for config in configs}) == 1
        self._alike = alike and not configs[0].min_length and not configs[0].no_repeat_ngram

    def next(
        self, logits: Float[Tensor, "rows vocab"], histories: Sequence[Sequence[int]]
    ) -> tuple[list[int], list[float]]:
        """The next token of every row, and its log-probability; `histories` are the tokens of each so far."""
        scores = self._constrained(logits, histories)
        token = torch.zeros(len(scores), dtype=torch.int64, device=scores.device)
        if len(self._greedy):
            token[self._greedy] = best(self._of(scores, self._greedy))
        if self._sampled:
            age = torch.tensor([len(history) for history in histories], device=scores.device)
            noise = uniform(self._key, self._example, age)
            for places, sharpness in self._sampled:
                token[places] = draw_each(self._of(scores, places), noise[places], sharpness)
        return token.tolist(), scores.gather(1, token[:, None])[:, 0].tolist()

    def _constrained(
        self, logits: Float[Tensor, "rows vocab"], histories: Sequence[Sequence[int]]
    ) -> Float[Tensor, "rows vocab"]:
        """The log-probabilities, with −∞ where the search of a row excludes a token."""
        groups: dict[Group, list[int]] = {(): list(range(len(histories)))} if self._alike else {}
        for place, (config, end, history) in enumerate(zip(self._configs, self._ends, histories, strict=True)):
            if not self._alike:
                age = len(history)
                repeats = place if 0 < config.no_repeat_ngram <= age else None
                groups.setdefault((config.forbid, end if age < config.min_length else None, repeats), []).append(place)
        parts = []
        for members in groups.values():
            first = members[0]
            before = torch.tensor(list(histories[first]), dtype=torch.int64, device=logits.device)
            before = before.expand(len(members), -1)
            rows = logits if len(groups) == 1 else logits[members]
            config, end = self._configs[first], self._ends[first]
            parts.append(constrained(rows, before, constraints=config, prefix=None, end=end))
        if len(parts) == 1:
            return parts[0]
        order = torch.tensor([place for members in groups.values() for place in members], device=logits.device)
        return torch.cat(parts)[order.argsort()]

    def _places(self, chosen: Sequence[bool]) -> Int[Tensor, " places"]:
        return torch.tensor([place for place, own in enumerate(chosen) if own], dtype=torch.int64, device=self._device)

    @staticmethod
    def _of(scores: Float[Tensor, "rows vocab"], places: Int[Tensor, " places"]) -> Float[Tensor, "places vocab"]:
        return scores if len(places) == len(scores) else scores[places]
