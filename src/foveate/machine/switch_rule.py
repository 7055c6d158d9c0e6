"""Rules that choose the switches for a kind of processor, each with its reason, without measuring.

Their measurements are in `docs/log.md`. If a rule is wrong for a machine, `foveate doctor --calibrate` measures its
switches and stores them.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from foveate.machine.measure import onednn_is_exact
from foveate.machine.switch import Tuning, current, has_glibc

WITHOUT_MKL = {"AuthenticAMD", "HygonGenuine"}
"""Makers of processors on which Intel's MKL, torch's default, leaves the vector registers of AVX-512 unused."""
WIDE = {"avx512f", "avx512bw", "avx512vl", "avx512dq"}
"""Processors without these have no wider registers than MKL uses, and torch's switch to oneDNN has no effect there."""

UNKNOWN = "nobody has measured a gain on processors of this kind"


@dataclass(frozen=True, kw_only=True)
class Processor:
    """The properties of a processor; empty if the system does not provide them."""

    vendor: str = ""
    flags: frozenset[str] = frozenset()

    @classmethod
    def here(cls) -> "Processor":
        """The processor of this machine."""
        try:
            text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
        except OSError:
            return cls()
        fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}
        flags = fields.get("flags") or fields.get("Features") or ""
        return cls(vendor=fields.get("vendor_id", ""), flags=frozenset(flags.split()))

    @property
    def is_wide(self) -> bool:
        """Whether it has the vector registers of AVX-512."""
        return self.flags >= WIDE


@dataclass(frozen=True)
class Choice:
    """The value of a switch, and the reason."""

    switch: str
    value: bool | int
    why: str


def choices(processor: Processor | None = None) -> tuple[Choice, ...]:
    """The choices of the rules for a processor, by default that of this machine."""
    processor = processor or Processor.here()
    onednn, intel = torch.backends.mkldnn.is_available(), processor.vendor == "GenuineIntel"
    return (
        _matmul(processor, onednn),
        Choice("allocator", True, "the C library is glibc")
        if has_glibc()
        else Choice("allocator", False, "only glibc has the policy"),
        _packed(processor, onednn),
        Choice("flush_denormals", True, "Intel's processors take many times as long for them")
        if intel
        else Choice("flush_denormals", False, "they cost no time on processors other than Intel's"),
    )


def by_rules(processor: Processor | None = None) -> Tuning:
    """The switches that the rules choose."""
    return Tuning(**{choice.switch: choice.value for choice in choices(processor)})  # type: ignore[arg-type]


def has_slow_products() -> bool:
    """Whether float32 products use torch's default library on a processor that it is slow on."""
    return not current().onednn_matmul and _lacks_mkl()


@cache
def multiplies_bfloat16() -> bool:
    """Whether torch has fast products in bfloat16 on this CPU. Without AVX-512 they take several times as long as those
    in float32, and oneDNN packs no weights for them.
    """
    return torch.backends.mkldnn.is_available() and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


@cache
def _lacks_mkl() -> bool:
    processor = Processor.here()
    return processor.vendor in WITHOUT_MKL and processor.is_wide and torch.backends.mkl.is_available()


def _matmul(processor: Processor, onednn: bool) -> Choice:
    def chosen(value: bool, why: str) -> Choice:
        return Choice("onednn_matmul", value, why)

    if not onednn:
        return chosen(False, "torch was built without oneDNN")
    if processor.vendor == "GenuineIntel":
        return chosen(False, "MKL, torch's default, is made for this processor")
    if processor.vendor not in WITHOUT_MKL:
        return chosen(False, UNKNOWN)
    if not processor.is_wide:
        return chosen(False, "MKL, torch's default, uses all of this processor's vector registers")
    if "amx_bf16" in processor.flags:
        return chosen(False, "oneDNN would multiply in bfloat16 on this processor")
    if not onednn_is_exact():
        return chosen(False, "oneDNN's products are less exact than float32 on this processor")
    return chosen(True, "MKL, torch's default, does not use all of this processor's vector registers")


def _packed(processor: Processor, onednn: bool) -> Choice:
    if not onednn:
        return Choice("packed_rows", 0, "torch was built without oneDNN")
    if processor.vendor in WITHOUT_MKL and not processor.is_wide:
        return Choice("packed_rows", 0, "MKL reads plain weights as fast as oneDNN reads packed ones")
    if processor.vendor in WITHOUT_MKL:
        return Choice("packed_rows", 1, "oneDNN reads packed weights faster than MKL reads plain ones at every size")
    if processor.vendor == "GenuineIntel" and "avx2" in processor.flags:
        return Choice("packed_rows", 8, "MKL rearranges plain weights again in every product of several rows")
    return Choice("packed_rows", 0, UNKNOWN)
