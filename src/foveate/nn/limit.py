"""What configurations check when they are made, each by the name of the setting."""

from foveate.attention import same_segment


def require_rates(**rates: float) -> None:
    """Raise ValueError for a rate outside [0, 1), by name."""
    for name, rate in rates.items():
        if not 0.0 <= rate < 1.0:
            raise ValueError(f"{name} is a probability of dropping and lies in [0, 1), got {rate}")


MOST, MOST_LAYERS = 2**24, 10_000
"""Sizes beyond these are mistakes, or are meant to fill the memory."""


def require_positive(**sizes: int) -> None:
    """Raise ValueError for a size below 1, or beyond all bounds, by name."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")
        most = MOST_LAYERS if name.endswith("layers") else MOST
        if size > most:
            raise ValueError(f"{name} must be at most {most:,}, got {size}")


def shortest(*parts: object) -> int | None:
    """The most positions that all parts have room for, modules or configurations; None where none has a `max_length`.

    >>> from foveate.attention import AttentionConfig
    >>> from foveate.attention.efficient import LinformerConfig
    >>> shortest(AttentionConfig(), LinformerConfig(max_length=40), LinformerConfig(max_length=60))
    40
    """
    limits = (getattr(part, "max_length", None) for part in parts)
    return min((limit for limit in limits if limit is not None), default=None)


def require_no_segments(**attentions: object) -> None:
    """Raise ValueError for an attention whose rule tells apart the texts of one row, by name: models read one a row;
    or whose rule names the lengths of one batch: models read many.
    """
    for name, attention in attentions.items():
        rule = str(getattr(attention, "visibility", ""))
        if str(same_segment()) in rule:
            raise ValueError(
                f"{name}.visibility cannot be {rule!r}: a model's batch holds one text a row, without segments. "
                "Leave same_segment() out; where you pack texts yourself, give it to an Attention with "
                "at=Positions(..., query_segment=..., key_segment=...)"
            )
        if "padding([" in rule or "prefix([" in rule:
            raise ValueError(
                f"{name}.visibility cannot be {rule!r}: it names the lengths of one batch, and a model reads many. "
                "padding() takes them from each batch; a prefix for all is one number: prefix(3)"
            )
