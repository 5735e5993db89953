"""Time in a simulated world: one true time, and clocks that say something else."""

START = 1_700_000_000_000  # ms since 1970


class Clock:
    """True time in ms, which passes only when told to, and the appliance's wall clock, which may jump."""

    def __init__(self) -> None:
        self.now = 0
        self.offset = 0

    def wall(self) -> int:
        """What the appliance takes for the time, ms since 1970."""
        return START + self.now + self.offset

    def pass_(self, seconds: float) -> None:
        self.now += int(seconds * 1000)

    def jump(self, seconds: float) -> None:
        """Set the wall clock forth or back; within an hour of the truth."""
        self.offset = max(-3_600_000, min(3_600_000, self.offset + int(seconds * 1000)))
