"""Common code of systems with parameter servers."""

from __future__ import annotations

from testbed.protocols.host_spec import ServerSpec
from testbed.setup.records import JobSetup, Scheme, Setup


class ServerScheme(Scheme):
    """A system with one parameter server per job, or several."""

    def host_options(self, setup: Setup, job: JobSetup) -> ServerSpec:
        """Without switches, a server asks workers for their missing fragments."""
        timers = job.timers
        return ServerSpec.of(
            self.common_options(setup, job),
            reminder=True,
            reminder_delay_ns=0,
            min_reminder_delay_ns=timers.min_reminder_delay_ns,
            max_reminder_delay_ns=timers.max_reminder_delay_ns,
        )
