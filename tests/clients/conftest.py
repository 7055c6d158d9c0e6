"""The programs are for environments of their own: see `make clients`."""

collect_ignore = ["program"]
