"""The base of every error that a person may see."""


class HydraError(Exception):
    """Something a user can understand and act on.

    `what` says what happened, `expected` what should have been there, `remedy` what to do next. The command
    line prints the three in one line and exits with status 2.
    """

    def __init__(self, what: str, *, expected: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.expected = expected
        self.remedy = remedy

    def __str__(self) -> str:
        parts = [self.what]
        if self.expected:
            parts.append(f"expected {self.expected}")
        if self.remedy:
            parts.append(self.remedy)
        return "; ".join(parts)
