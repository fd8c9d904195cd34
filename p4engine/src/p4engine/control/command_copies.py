"""The commands on copies of packets: multicast groups, their nodes, mirror sessions."""

from __future__ import annotations

from typing import Any

from p4engine.control.command_values import CommandError, whole


class CopyCommands:
    """Those of `Commands` that have handles of their own, with what the handles mean."""

    def __init__(self, switch: Any) -> None:
        self.switch = switch
        self.nodes: dict[int, tuple[int, list[int]]] = {}  # (egress_rid, ports)
        self.groups: dict[int, list[int]] = {}  # nodes
        self.mirrors: dict[int, tuple[str, int]] = {}  # what a session goes to

    def do_mc_mgrp_create(self, words: list[str]) -> None:
        """mc_mgrp_create GROUP"""
        group = whole(words[0], "group")
        if group in self.groups:
            raise CommandError(f"multicast group {group} exists already")
        self.groups[group] = []
        self._write_group(group)

    def do_mc_mgrp_destroy(self, words: list[str]) -> None:
        """mc_mgrp_destroy GROUP"""
        group = self._group(words[0])
        self.switch.multicast_delete(group)
        del self.groups[group]

    def do_mc_node_create(self, words: list[str]) -> str:
        """mc_node_create RID PORT..."""
        handle = max(self.nodes, default=-1) + 1
        self.nodes[handle] = (whole(words[0], "rid"), self._ports(words[1:]))
        return f"node {handle}"

    def do_mc_node_update(self, words: list[str]) -> None:
        """mc_node_update NODE PORT..."""
        node = self._node(words[0])
        self.nodes[node] = (self.nodes[node][0], self._ports(words[1:]))
        self._write_groups_of(node)

    def do_mc_node_destroy(self, words: list[str]) -> None:
        """mc_node_destroy NODE"""
        node = self._node(words[0])
        del self.nodes[node]
        for group, members in self.groups.items():
            if node in members:
                members.remove(node)
                self._write_group(group)

    def do_mc_node_associate(self, words: list[str]) -> None:
        """mc_node_associate GROUP NODE"""
        group, node = self._group(words[0]), self._node(words[1])
        if node in self.groups[group]:
            raise CommandError(f"node {node} is in multicast group {group} already")
        self.groups[group].append(node)
        self._write_group(group)

    def do_mc_node_dissociate(self, words: list[str]) -> None:
        """mc_node_dissociate GROUP NODE"""
        group, node = self._group(words[0]), self._node(words[1])
        if node not in self.groups[group]:
            raise CommandError(f"node {node} is not in multicast group {group}")
        self.groups[group].remove(node)
        self._write_group(group)

    @staticmethod
    def _ports(words: list[str]) -> list[int]:
        if "|" in words:
            words = words[: words.index("|")]  # link aggregation groups do not exist here
        return sorted({whole(w, "port") for w in words})

    def _group(self, text: str) -> int:
        group = whole(text, "group")
        if group not in self.groups:
            raise CommandError(f"there is no multicast group {group}")
        return group

    def _node(self, text: str) -> int:
        node = whole(text, "node")
        if node not in self.nodes:
            raise CommandError(f"there is no multicast node {node}")
        return node

    def _write_group(self, group: int) -> None:
        members = []
        for node in self.groups[group]:
            rid, ports = self.nodes[node]
            members += [(port, rid) for port in ports]
        self.switch.multicast_group(group, members)

    def _write_groups_of(self, node: int) -> None:
        for group, members in self.groups.items():
            if node in members:
                self._write_group(group)

    def do_mirroring_add(self, words: list[str]) -> None:
        """mirroring_add SESSION PORT"""
        session, port = whole(words[0], "session"), whole(words[1], "port")
        self.switch.mirror_session(session, port, None)
        self.mirrors[session] = ("port", port)

    def do_mirroring_add_mc(self, words: list[str]) -> None:
        """mirroring_add_mc SESSION GROUP"""
        session, group = whole(words[0], "session"), whole(words[1], "group")
        self.switch.mirror_session(session, None, group)
        self.mirrors[session] = ("multicast group", group)

    def do_mirroring_delete(self, words: list[str]) -> None:
        """mirroring_delete SESSION"""
        session = whole(words[0], "session")
        self.switch.mirror_session(session, None, None)
        self.mirrors.pop(session, None)

    def do_mirroring_get(self, words: list[str]) -> str:
        """mirroring_get SESSION"""
        session = whole(words[0], "session")
        if session not in self.mirrors:
            raise CommandError(f"there is no mirroring session {session}")
        kind, where = self.mirrors[session]
        return f"session {session}: {kind} {where}"
