"""The time of a training by several processes, from a few assumptions about their devices.

An update sums the gradients of `train.accumulate` batches. Of p processes, each takes every p-th whole batch, so that

    seconds of an update = ⌈accumulate / p⌉ · seconds of a batch + seconds of the sum
    seconds of the sum   = 2 (p − 1) / p · bytes / (bytes a second)         (a ring within one machine)

Over several machines the same is done within each machine first, and then by every device with its share of the bytes
over its own network card. The sum is assumed to begin when the backward pass has ended.

Where each process holds rows of the model (`train.sharding`), half of that is sent to gather weights, or to sum
gradients to their rows: `moments` does each once an update, `full` gathers twice and sums once for each batch.

Reference: Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations", section 3.
"""

import math
from dataclasses import dataclass

from foveate.errors import UsageError
from foveate.suggestion import counted
from foveate.tasks.run_plan import Costs

GATHERED = {"exact": 8, "fast": 4}
"""Bytes of each parameter that processes send, by `train.reduction`: whole numbers of 64 bits, or float32."""
DISK = 1e9
"""Bytes a second that a disk writes."""
DIGEST = 1.85e9
"""Bytes a second of SHA-256 on one core."""
SAVED = 12
"""Bytes of each parameter in a checkpoint: the weight and two moments in float32."""
CONVERSION = 0.5e-9
"""Seconds in which a core adds an entry of a batch's gradient to the integers of exact sums."""
OPTIMISER = 1.1e-9
"""Seconds in which a core clips an entry of the gradient and changes its parameter."""
LOOPBACK = 1e9
"""Bytes a second that processes of one machine exchange by gloo."""


@dataclass(frozen=True, kw_only=True)
class Device:
    """The figures of a device. Rates are for one direction, a little below those of data sheets."""

    flops: float
    """FLOP a second of dense products in bfloat16."""
    memory: float
    link: float
    """Bytes a second to the other devices of a machine."""
    network: float
    """Bytes a second of the device's share of the machine's network."""
    machine: int = 8
    """Devices in a machine."""
    used: tuple[float, float, float] = (0.2, 0.3, 0.4)
    """The share of `flops` that training reaches: at least, usually, at best."""
    launch: float = 7.5e-3
    """Seconds in which the kernels of a batch are launched one by one."""


DEVICES = {
    "h200": Device(flops=990e12, memory=141e9, link=360e9, network=45e9),
    "h100": Device(flops=990e12, memory=80e9, link=360e9, network=45e9),
    "a100": Device(flops=312e12, memory=80e9, link=240e9, network=22e9),
}


def require_batches(processes: int, accumulate: int) -> None:
    """Raises UsageError for more processes than an update has batches."""
    if processes > accumulate:
        raise UsageError(
            f"{processes} processes share the {counted(accumulate, 'batch')} of an update, and each takes whole ones. "
            f"Raise train.accumulate: --set train.accumulate={processes}."
        )


def summing(parameters: int, processes: int, reduction: str, device: Device | None) -> float:
    """Seconds in which processes sum their gradients; 0 for one.

    >>> round(1e3 * summing(65_000_000, 8, "fast", DEVICES["h200"]), 1)
    1.3
    >>> round(1e3 * summing(65_000_000, 64, "exact", DEVICES["h200"]), 1)
    5.1
    """
    size = float(GATHERED[reduction] * parameters)
    if device is None:
        return _ring(processes, size, LOOPBACK)
    inside, machines = min(processes, device.machine), math.ceil(processes / device.machine)
    return _ring(inside, size, device.link) + _ring(machines, size / inside, device.network)


def _ring(members: int, size: float, rate: float) -> float:
    return 2 * (members - 1) / members * size / rate


@dataclass(frozen=True, kw_only=True)
class WorldPlan:
    """Training by `processes`, with figures of a batch, and a device; None: the cores of this machine."""

    costs: Costs
    processes: int
    accumulate: int
    reduction: str
    tokens: float
    device: Device | None = None
    name: str = "this machine"
    cores: int = 1
    """Cores of this machine for each thread of a process."""
    sharding: str = "replicate"
    beside: float | None = None
    """Seconds of a batch on this machine while the other processes compute theirs; None: those of `costs`."""

    def __post_init__(self) -> None:
        require_batches(self.processes, self.accumulate)

    @property
    def updates(self) -> int:
        return math.ceil(self.tokens / (self.accumulate * self.costs.probe.tokens))

    @property
    def batches(self) -> int:
        """Batches of the busiest process in an update."""
        return math.ceil(self.accumulate / self.processes)

    def batch_seconds(self, used: float | None = None) -> float:
        """Seconds of one batch: measured here, or by the share of the device's arithmetic that is used."""
        if self.device is None:
            return (self._measured + self._conversion) * max(self.processes / self.cores, 1.0)
        share = self.device.used[1] if used is None else used
        return max(self.costs.flops / (share * self.device.flops), self.device.launch)

    @property
    def _measured(self) -> float:
        """Seconds of a batch on this machine."""
        return self.costs.seconds if self.beside is None else self.beside

    @property
    def optimiser_seconds(self) -> float:
        """Seconds in which an update changes the weights; not counted on a device."""
        return OPTIMISER * self.costs.parameters if self.device is None else 0.0

    @property
    def _division(self) -> str:
        """The sharding, which one process ignores."""
        return self.sharding if self.processes > 1 else "replicate"

    @property
    def _conversion(self) -> float:
        """Seconds in which a gradient becomes integers."""
        return CONVERSION * self.costs.parameters * (self.reduction == "exact" and self.accumulate > 1)

    @property
    def sum_seconds(self) -> float:
        seconds = summing(self.costs.parameters, self.processes, self.reduction, self.device)
        return 1.5 * self.batches * seconds if self._division == "full" else seconds

    def hours(self, used: float | None = None) -> float:
        """The whole training, without validations and checkpoints."""
        seconds = self.batches * self.batch_seconds(used) + self.sum_seconds + self.optimiser_seconds
        return self.updates * seconds / 3600

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / (3600 * self.hours())

    @property
    def memory(self) -> int:
        """Bytes on each device for weights, gradients, moments and the sum; activations come on top, and with `full`
        the weights of a block.
        """
        if self._division != "replicate":
            whole, divided = (8, 12) if self._division == "moments" else (0, 16)
            return whole * self.costs.parameters + math.ceil(divided * self.costs.parameters / self.processes)
        is_added = self.processes > 1 or (self.reduction == "exact" and self.accumulate > 1)
        return (16 + (GATHERED[self.reduction] if is_added else 0)) * self.costs.parameters

    @property
    def checkpoint(self) -> tuple[int, float]:
        """Bytes of a checkpoint, and the seconds in which one process writes it with its digests."""
        size = SAVED * self.costs.parameters
        return size, size / DISK + size / DIGEST

    def __str__(self) -> str:
        probe, device = self.costs.probe, self.device
        each, batch = self.accumulate * probe.tokens, 1e3 * self.batch_seconds()
        size, saving = self.checkpoint
        rows = [
            ("updates", f"{self.updates:,} of {counted(self.accumulate, 'batch')}, {each:,} {probe.unit}"),
            ("compute", f"{self.batches * batch:,.1f} ms an update: {self.batches} × {batch:,.1f} ms"),
            ("communication", f"{1e3 * self.sum_seconds:,.1f} ms an update, {self._sent}"),
            (
                "memory",
                f"{self.memory / 2**30:,.1f} GiB for weights, gradients, moments and sums; {self._above} on top",
            ),
            ("checkpoint", f"{size / 2**30:,.2f} GiB, {saving:,.1f} s"),
            ("speed", f"{self.tokens_per_second:,.0f} {probe.unit} a second"),
            ("time", f"{_time(self.hours())}{self._range()}, without validations and checkpoints"),
        ]
        where = f"{counted(self.processes, 'process')} on {self.name}, {self.tokens:,.0f} {probe.unit}:"
        lines = ["", where, *(f"  {name:<15}{text}" for name, text in rows), "assumed:"]
        return "\n".join([*lines, *(f"  {line}" for line in self._assumptions(device))])

    def _range(self) -> str:
        if self.device is None:
            return ""
        least, _, most = self.device.used
        return f" ({_time(self.hours(most))} at {_share(most)}, {_time(self.hours(least))} at {_share(least)})"

    @property
    def _sent(self) -> str:
        divided = {"moments": "weights and gradients", "full": "weights twice and gradients for each batch"}
        return divided.get(self._division, f"{self.reduction} sums")

    @property
    def _above(self) -> str:
        return "activations and a block's weights" if self._division == "full" else "activations"

    def _assumptions(self, device: Device | None) -> list[str]:
        when = "for which batches wait" if self._division == "full" else "sent when the backward pass has ended"
        sent = f"{GATHERED[self.reduction]} bytes a parameter, {when}, at "
        saved = f"checkpoints are written at {DISK / 1e9:g} GB/s, and digested at {DIGEST / 1e9:g} GB/s"
        if device is None:
            cores = "a core for each thread" if self.processes <= self.cores else f"{self.processes} share {self.cores}"
            others = "" if self.beside is None else f" while {min(self.processes, self.cores)} computed"
            return [
                f"a batch takes {1e3 * self._measured:,.0f} ms in each process, as measured just now{others}"
                f"{_added(self._conversion)}; {cores}",
                f"the optimiser takes {1e9 * OPTIMISER:g} ns a parameter for an update",
                f"{sent}{LOOPBACK / 1e9:g} GB/s",
                saved,
            ]
        over = f" within a machine of {device.machine}, {device.network / 1e9:g} GB/s for each device between machines"
        peak = f"{_share(device.used[1])} of {device.flops / 1e12:,.0f} TFLOP/s in bfloat16"
        return [
            f"{self.costs.flops / 1e12:,.2f} TFLOP a batch at {peak}, but {1e3 * device.launch:g} ms at least, to "
            "launch its kernels",
            f"{sent}{device.link / 1e9:g} GB/s{over}",
            f"{device.memory / 1e9:g} GB of memory; batches of equal cost; data read as fast as needed",
            saved,
        ]


def _added(seconds: float) -> str:
    return f", and {1e3 * seconds:,.1f} ms to become whole numbers, {1e9 * CONVERSION:g} ns a parameter" * (seconds > 0)


def _share(part: float) -> str:
    return f"{100 * part:.0f} %"


def _time(hours: float) -> str:
    """
    >>> _time(0.004), _time(0.2), _time(3.25), _time(240.0)
    ('14 seconds', '12 minutes', '3.2 hours', '240 hours')
    """
    if hours < 1 / 60:
        return f"{3600 * hours:.0f} seconds"
    return f"{60 * hours:.0f} minutes" if hours < 1 else f"{hours:.{1 if hours < 100 else 0}f} hours"
