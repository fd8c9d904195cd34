"""A switch's entries, groups and sessions from a network file, through the control interface.

The same function fills a switch process and a `library.Switch` without any network, so that
a check finds an entry that the program has no place for.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from reprlib import repr as brief
from typing import TYPE_CHECKING

from p4engine.control.commands import Commands
from p4engine.frontend.diagnostics import P4Error
from p4engine.program_info import ProgramInfo
from p4engine.values.names import Names

from p4fabric.base.errors import UserError
from p4fabric.netfile.load_network import NetworkPlan
from p4fabric.netfile.network_schema import Entry, SwitchSettings

if TYPE_CHECKING:
    from p4engine.backend.build import Compiled
    from p4engine.control.client import Client
    from p4engine.switch.library import Switch

PRIORITIES = 2**31 - 1  # the engine's lower number wins, the file's higher one
FIRST_OF_SESSIONS = 1 << 15  # multicast groups for clone sessions with several replicas


def install(name: str, settings: SwitchSettings, client: Client | Switch) -> None:
    """Fill a switch. `client`: a `control.Client` or a `library.Switch`.

    Raises UserError that names what the switch refuses."""
    names = Names(ProgramInfo.from_json(client.info()["program"]))
    for number, entry in enumerate(settings.entries):
        with_place = f"switches.{name}.entries[{number}] ({entry.table})"
        _call(with_place, _install_entry, client, names, entry)
    for group in settings.multicast:
        members = [(each.port, each.instance) for each in group.replicas]
        where = f"switches.{name}.multicast, group {group.group}"
        _call(where, client.multicast_group, group.group, members)
    for clone in settings.clones:
        where = f"switches.{name}.clones, session {clone.session}"
        members = [(each.port, each.instance) for each in clone.replicas]
        length = clone.packet_length_bytes
        if len(members) == 1 and not members[0][1]:
            _call(where, client.mirror_session, clone.session, members[0][0], None, length)
        else:
            group_number = FIRST_OF_SESSIONS + clone.session
            _call(where, client.multicast_group, group_number, members)
            _call(where, client.mirror_session, clone.session, None, group_number, length)
    for number, port in enumerate(settings.loopback):
        _call(f"switches.{name}.loopback[{number}]", client.port_loopback, port)
    if settings.deflection is not None:
        _call(f"switches.{name}.deflection", client.deflection_port, settings.deflection)
    commands = Commands(client)
    for number, line in enumerate(settings.commands):
        _call(f"switches.{name}.commands[{number}]", commands.run, line)


def _call(where: str, function: Callable[..., object], *arguments: object) -> None:
    try:
        function(*arguments)
    except MemoryError:  # the engine's is a P4Error too
        raise
    except (P4Error, UserError) as error:
        raise UserError(f"{where}: {error}") from None


def _install_entry(client: Client | Switch, names: Names, entry: Entry) -> None:
    if entry.default:
        if entry.match or entry.priority is not None:
            raise UserError(f"{entry.table}: a default action has neither match nor priority")
        client.table_set_default(entry.table, entry.action, dict(entry.params))
        return
    table = names.table(entry.table)
    keys = [key.name for key in table.match_keys]
    unknown = [name for name in entry.match if name not in keys]
    if unknown:
        raise UserError(f"there is no key {brief(unknown[0])}; it has {', '.join(keys)}")
    if table.ordered == (entry.priority is None):
        needs = "needs a priority (the higher wins)"
        raise UserError(f"an entry {needs if table.ordered else 'of this table has no priority'}")
    client.table_add(
        table.name,
        entry.action,
        [entry.match.get(name) for name in keys],
        dict(entry.params),
        PRIORITIES - entry.priority if entry.priority is not None else None,
    )


def compile_all(plan: NetworkPlan) -> dict[Path, Compiled]:
    """Compile each program once. Raises UserError with the compiler's words."""
    from p4engine.backend.build import compile_program

    compiled = {}
    for path in dict.fromkeys(plan.programs.values()):
        try:
            compiled[path] = compile_program(path, dict(plan.net.defines), [path.parent])
        except P4Error as error:
            raise UserError(str(error)) from None
        wanted, found = plan.net.architecture, compiled[path].info.architecture
        if wanted not in (None, found):
            raise UserError(f"network.architecture: {path.name} is for {found}, not {wanted}")
    return compiled


def dry_run(plan: NetworkPlan) -> list[str]:
    """Fill switches in this process as the file says; returns the compiler's warnings.

    Raises UserError for a program or an entry that is wrong."""
    from p4engine.switch.library import Switch

    compiled = compile_all(plan)
    for name, settings in plan.net.switches.items():
        switch = Switch(compiled[plan.programs[name]])
        try:
            install(name, settings, switch)
        finally:
            switch.close()
    return [str(warning) for each in compiled.values() for warning in each.warnings]
