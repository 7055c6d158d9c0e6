"""What configurations check when they are made, each by the name of the setting."""


def require_rates(**rates: float) -> None:
    """Raise ValueError for a rate outside [0, 1), by name."""
    for name, rate in rates.items():
        if not 0.0 <= rate < 1.0:
            raise ValueError(f"{name} is a probability of dropping and lies in [0, 1), got {rate}")


def require_positive(**sizes: int) -> None:
    """Raise ValueError for a size below 1, by name."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")
