"""Seeds for dropout as a function of (seed, batch), so that a resumed run draws the same noise."""

import torch


def noise_seed(seed: int, index: int) -> int:
    """32 bits for the noise of batch `index`: a hash, so that neighbouring seeds and batches are unrelated.

    >>> noise_seed(0, 1) == noise_seed(1, 0), 0 <= noise_seed(7, 123) < 2**32
    (False, True)

    Two rounds of SplitMix64's finaliser. torch's generator on CPU uses only 32 bits of a seed.
    """
    return _mix(_mix(seed) + index) >> 32


def reseed(device: torch.device, seed: int) -> None:
    """Sets the seeds of the generators for dropout: those of the CPU and of the model's device.

    This takes 1 µs on CPU; `torch.manual_seed`, which visits every kind of device, takes 130 to 220 µs.
    """
    if device.type not in ("cpu", "cuda"):
        torch.manual_seed(seed)
        return
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)


def _mix(value: int) -> int:
    value = (value + 0x9E3779B97F4A7C15) % 2**64
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB % 2**64
    return value ^ (value >> 31)
