"""The commands on the switch as a whole: its ports, queues, clock and state."""

from __future__ import annotations

from p4engine.control.command_set import CommandSet
from p4engine.control.command_values import whole


class SwitchCommands(CommandSet):
    """Commands that belong to no object of the program."""

    def do_switch_info(self, _words: list[str]) -> str:
        """switch_info"""
        info = self.switch.info()
        ports = info["ports"]
        return "\n".join(
            [
                f"program: {info['program']['program']}",
                f"ports: {', '.join(map(str, ports)) if len(ports) < 100 else len(ports)}",
                f"queues of a port: {info['priority_queues']}",
                f"unit of timestamps: {info['timestamp_unit_ns']} ns",
            ]
        )

    def do_show_ports(self, _words: list[str]) -> str:
        """show_ports"""
        info = self.switch.info()
        interfaces = {int(port): name for port, name in info.get("interfaces", {}).items()}
        return "\n".join(f"{port} {interfaces.get(port, '-')}" for port in info["ports"])

    def do_get_time_elapsed(self, _words: list[str]) -> str:
        """get_time_elapsed"""
        stats, info = self.switch.stats(), self.switch.info()
        return str(stats["timestamp"] * info["timestamp_unit_ns"] // 1000)

    def do_get_time_since_epoch(self, _words: list[str]) -> str:
        """get_time_since_epoch"""
        return str(self.switch.stats()["now_ns"] // 1000)

    def do_reset_state(self, _words: list[str]) -> None:
        """reset_state"""
        self.switch.reset()

    # ---- queues ----

    def do_set_queue_rate(self, words: list[str]) -> None:
        """set_queue_rate PACKETS_PER_SECOND [PORT] [PRIORITY]"""
        self.switch.queue_rate(whole(words[0], "rate"), *self._queue(words[1:]))

    def do_set_queue_depth(self, words: list[str]) -> None:
        """set_queue_depth PACKETS [PORT] [PRIORITY]"""
        self.switch.queue_depth(whole(words[0], "depth"), *self._queue(words[1:]))

    @staticmethod
    def _queue(words: list[str]) -> list[int]:
        """Port and priority, as far as they are given."""
        return [whole(word, what) for word, what in zip(words, ("port", "priority"), strict=False)]
