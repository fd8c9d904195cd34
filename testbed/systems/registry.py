"""The list of systems: one entry each, the testbed's own and those of other packages.

An entry says how a system is called, which P4 program its switches run, how figures draw it, which
options an experiment may set, and where the code of its hosts and tables is.
"""

from __future__ import annotations

from testbed import plugins
from testbed.errors import UserError
from testbed.paths import P4
from testbed.systems.system import System

SHIPPED: dict[str, System] = {
    system.name: system
    for system in (
        System(
            name="esa",
            title="ESA",
            color="#D55E00",
            marker="o",
            program=P4 / "esa.p4",
            options="testbed.systems.options:EsaOptions",
            slot_bytes=26,
            host_part="testbed.setup.host_specs:esa_part",
            machine="testbed.workload.machine:esa_machine",
            tables="testbed.dataplane.install_tables:install_pool",
            job_tables="testbed.dataplane.install_tables:install_pool_job",
            reroute="testbed.setup.rerouting:follow_tree",
        ),
        System(
            name="atp",
            title="ATP",
            color="#0072B2",
            marker="s",
            program=P4 / "atp.p4",
            options="testbed.systems.options:AtpOptions",
            slot_bytes=26,
            host_part="testbed.setup.host_specs:atp_part",
            machine="testbed.workload.machine:atp_machine",
            tables="testbed.dataplane.install_tables:install_pool",
            job_tables="testbed.dataplane.install_tables:install_pool_job",
            reroute="testbed.setup.rerouting:follow_tree",
        ),
        System(
            name="grid",
            title="GRID",
            color="#CC79A7",
            marker="P",
            program=P4 / "grid.p4",
            options="testbed.systems.options:GridOptions",
            slot_bytes=28,
            planned=True,
            host_part="testbed.setup.host_specs:grid_part",
            worker_part="testbed.setup.host_specs:grid_worker_part",
            machine="testbed.workload.machine:grid_machine",
            tables="testbed.dataplane.install_tables:install_grid",
            job_tables="testbed.dataplane.install_tables:install_grid_job",
            definitions="testbed.dataplane.install_tables:grid_definitions",
            statistics="testbed.dataplane.read_registers:grid_statistics",
            reroute="testbed.setup.rerouting:plan_again",
        ),
        System(
            name="switchml",
            title="SwitchML",
            color="#009E73",
            marker="^",
            program=P4 / "switchml.p4",
            options="testbed.systems.options:SwitchmlOptions",
            slot_bytes=14,
            servers="none",
            divided=True,
            lost_with_registers="SwitchML keeps results in switch registers alone, so one that some"
            " workers had and others did not is lost",
            host_part="testbed.setup.host_specs:switchml_part",
            peers="testbed.setup.host_specs:root_of",
            machine="testbed.workload.machine:switchml_machine",
            tables="testbed.dataplane.install_tables:install_switchml",
            job_tables="testbed.dataplane.install_tables:install_switchml_job",
            definitions="testbed.dataplane.install_tables:switchml_definitions",
            statistics="testbed.dataplane.read_registers:switchml_statistics",
            release="testbed.dataplane.release_job:empty_part",
            reroute="testbed.setup.rerouting:leave_it_to_the_root",
        ),
        System(
            name="ps",
            title="PS",
            color="#000000",
            marker="v",
            program=P4 / "forward.p4",
            options="testbed.systems.options:PsOptions",
            slot_bytes=0,
            servers="many",
            memory=False,
            host_part="testbed.setup.host_specs:server_part",
            machine="testbed.workload.machine:ps_machine",
            tables="testbed.dataplane.install_tables:install_forwarder",
            reroute="testbed.setup.rerouting:routes_alone",
        ),
        System(
            name="ring",
            title="Ring",
            color="#56B4E9",
            marker="D",
            program=P4 / "forward.p4",
            options="testbed.systems.options:RingOptions",
            slot_bytes=0,
            servers="none",
            memory=False,
            host_part="testbed.setup.host_specs:ring_part",
            peers="testbed.setup.host_specs:ring_neighbours",
            machine="testbed.workload.machine:ring_machine",
            tables="testbed.dataplane.install_tables:install_forwarder",
            reroute="testbed.setup.rerouting:routes_alone",
        ),
    )
}


def _all() -> dict[str, System]:
    systems = plugins.with_shipped(plugins.SYSTEMS, SHIPPED, System)
    for name, system in systems.items():
        if system.name != name:
            raise UserError(
                f"the plug-in system {name!r} calls itself {system.name!r}; its entry point and its"
                " `name` must be the same"
            )
    return systems


SYSTEMS = _all()
