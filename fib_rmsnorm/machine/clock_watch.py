"""The clocks of a device before, during and after a measurement."""

from __future__ import annotations

from dataclasses import dataclass

from fib_rmsnorm.machine.clocks import ClockMonitor, ClockReading, count_strangers, our_pids, read_clocks
from fib_rmsnorm.machine.load import LoadWatch
from fib_rmsnorm.schema import Clocks


@dataclass
class ClockWatch:
    """The clocks before, during and after the trials on a Workload."""

    device: str
    at_start: ClockReading
    """The reading from before any process of this run used the device."""

    def __enter__(self) -> ClockWatch:
        self._before = read_clocks(self.device)
        self._load = LoadWatch() if self.device == "cpu" else None
        self._monitor = ClockMonitor(self.device)
        self._monitor.__enter__()
        if self._load:
            self._load.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._load:
            self._load.__exit__()
        self._monitor.__exit__(None, None, None)
        self._after = read_clocks(self.device)

    def summary(self) -> Clocks:
        """Summarize the readings; call it after leaving."""
        during = self._monitor.summary()
        return Clocks(
            before_mhz=self._before.clock_mhz,
            during_mhz=during.clock_median_mhz,
            after_mhz=self._after.clock_mhz,
            during_min_mhz=during.clock_min_mhz,
            during_max_mhz=during.clock_max_mhz,
            memory_mhz=during.memory_clock_mhz,
            max_temperature_c=during.max_temperature_c,
            throttle_reasons=None if during.throttle_reasons is None else list(during.throttle_reasons),
            other_processes=count_strangers(self.at_start, self._after, our_pids()),
            other_share=self._load.other_share() if self._load else None,
        )
