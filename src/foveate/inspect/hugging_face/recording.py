"""The records of a recording in the order of calls, and their conversion to a trace."""

import json
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from foveate.inspect.hugging_face.recorded_site import HuggingFaceRecord, joined
from foveate.inspect.trace.conversion import Stored
from foveate.inspect.trace.trace import Pedigree, Trace
from foveate.inspect.trace.track import Track


@dataclass(eq=False)
class HuggingFaceRecording:
    """The records of `record`, in the order of calls."""

    model: nn.Module
    values: bool = False
    difference: float | None = None
    """The largest |recorded − eager| of a weight; None before the comparison."""
    records: list[HuggingFaceRecord] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict, repr=False)
    last: dict[str, int] = field(default_factory=dict, repr=False)

    def __iter__(self) -> Iterator[HuggingFaceRecord]:
        return iter(self.records)

    def trace(
        self, tracks: Mapping[str, Track] | None = None, *, example: int = 0, stored: Stored = "float16"
    ) -> Trace:
        """One example as a trace. The tracks are `source` (also for a model without an encoder) and `target`."""
        named = dict(tracks or {})
        sites, rounding = [], 0.0
        for record in self.records:
            own = "target" if record.kind == "cross" or ("decoder" in record.name and self._encodes) else "source"
            places = (own, "source" if record.kind == "cross" else own)
            for name, length in zip(places, (record.query.shape[2], record.key.shape[2]), strict=True):
                named.setdefault(name, Track.numbered(length))
            sites.append(record.site(tracks=places, example=example, stored=stored))
            rounding = max(rounding, record.rounding(sites[-1], example))
        pedigree = Pedigree.of(
            self.model,
            configuration=_plain(getattr(self.model, "config", None)),
            difference=self.difference,
            rounding=rounding if sites else None,
        )
        return Trace(tracks=named, sites=tuple(sites), pedigree=pedigree)

    @property
    def _encodes(self) -> bool:
        return bool(getattr(getattr(self.model, "config", None), "is_encoder_decoder", False))

    def note(self, record: HuggingFaceRecord) -> None:
        """Add a record, or rows to a decoder's record."""
        place = self.last.get(record.name)
        whole = None if place is None else joined(self.records[place], record)
        if place is not None and whole is not None:
            self.records[place] = whole
        else:
            self.last[record.name] = len(self.records)
            self.records.append(record)


def _plain(config: Any) -> dict[str, Any] | None:
    """The settings of a model that differ from the defaults of its kind, as JSON data."""
    if config is None:
        return None
    settings = json.loads(config.to_json_string(use_diff=True))
    return {"model_type": config.model_type, **settings}


active: ContextVar[HuggingFaceRecording | None] = ContextVar("foveate_hugging_face", default=None)
"""The active recording."""
