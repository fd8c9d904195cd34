"""The commands on copies of packets: multicast groups, their nodes, mirror sessions."""

from __future__ import annotations

from typing import Any

from p4engine.control.command_set import CommandSet
from p4engine.control.command_values import CommandError, whole


class CopyCommands(CommandSet):
    """mc_*, mirroring_*."""

    def do_mc_mgrp_create(self, words: list[str]) -> None:
        """mc_mgrp_create GROUP"""
        group = whole(words[0], "group")
        if any(each["group"] == group for each in self.switch.multicast_dump()["groups"]):
            raise CommandError(f"multicast group {group} exists already")
        self.switch.multicast_group(group, [])

    def do_mc_mgrp_destroy(self, words: list[str]) -> None:
        """mc_mgrp_destroy GROUP"""
        group = whole(words[0], "group")
        if all(each["group"] != group for each in self.switch.multicast_dump()["groups"]):
            raise CommandError(f"there is no multicast group {group}")
        self.switch.multicast_delete(group)

    def do_mc_node_create(self, words: list[str]) -> str:
        """mc_node_create RID PORT... [| LAG...]"""
        return f"node {self.switch.node_add(whole(words[0], 'rid'), *self._ports(words[1:]))}"

    def do_mc_node_update(self, words: list[str]) -> None:
        """mc_node_update NODE PORT... [| LAG...]"""
        self.switch.node_modify(whole(words[0], "node"), *self._ports(words[1:]))

    def do_mc_node_destroy(self, words: list[str]) -> None:
        """mc_node_destroy NODE"""
        self.switch.node_delete(whole(words[0], "node"))

    def do_mc_node_associate(self, words: list[str]) -> None:
        """mc_node_associate GROUP NODE"""
        self.switch.node_join(whole(words[0], "group"), whole(words[1], "node"))

    def do_mc_node_dissociate(self, words: list[str]) -> None:
        """mc_node_dissociate GROUP NODE"""
        self.switch.node_leave(whole(words[0], "group"), whole(words[1], "node"))

    def do_mc_set_lag_membership(self, words: list[str]) -> None:
        """mc_set_lag_membership LAG PORT..."""
        ports = [whole(word, "port") for word in words[1:]]
        self.switch.lag_set(whole(words[0], "LAG"), ports)

    def do_mc_dump(self, _words: list[str]) -> str:
        """mc_dump"""
        found = self.switch.multicast_dump()
        nodes = {node["node"]: node for node in found["nodes"]}
        lines = []
        for group in found["groups"]:
            lines.append(f"group {group['group']}")
            lines += [f"  port {port}, rid {rid}" for port, rid in group["members"]]
            lines += [
                f"  {_node_text(nodes.pop(node))}" for node in group["nodes"] if node in nodes
            ]
        lines += [f"in no group: {_node_text(node)}" for node in nodes.values()]
        lines += [f"LAG {lag['lag']}: ports {_listed(lag['ports'])}" for lag in found["lags"]]
        return "\n".join(lines)

    @staticmethod
    def _ports(words: list[str]) -> tuple[list[int], list[int]]:
        """(ports, link aggregation groups), which are behind |."""
        at = words.index("|") if "|" in words else len(words)
        return (
            [whole(word, "port") for word in words[:at]],
            [whole(word, "LAG") for word in words[at + 1 :]],
        )

    def do_mirroring_add(self, words: list[str]) -> None:
        """mirroring_add SESSION PORT"""
        self.switch.mirror_session(whole(words[0], "session"), whole(words[1], "port"), None)

    def do_mirroring_add_mc(self, words: list[str]) -> None:
        """mirroring_add_mc SESSION GROUP"""
        self.switch.mirror_session(whole(words[0], "session"), None, whole(words[1], "group"))

    def do_mirroring_delete(self, words: list[str]) -> None:
        """mirroring_delete SESSION"""
        self.switch.mirror_session(whole(words[0], "session"), None, None)

    def do_mirroring_get(self, words: list[str]) -> str:
        """mirroring_get SESSION"""
        session = whole(words[0], "session")
        found = self.switch.mirror_get(session)
        if found is None:
            raise CommandError(f"there is no mirroring session {session}")
        named = {"port": "port", "group": "multicast group", "length": "bytes at most:"}
        parts = [f"{what} {found[key]}" for key, what in named.items() if found[key] is not None]
        return f"session {session}: {', '.join(parts)}"


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def _node_text(node: dict[str, Any]) -> str:
    text = f"node {node['node']}: rid {node['rid']}, ports {_listed(node['ports'])}"
    return f"{text}, LAGs {_listed(node['lags'])}" if node["lags"] else text
