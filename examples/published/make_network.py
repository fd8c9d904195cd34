"""Print a network file for SwitchML's published program and four workers, in virtual time or not.

    python examples/published/make_network.py SWITCHML.p4 [--bytes 1024] [--loss "1 %"]
        [--drop 0.01] [--mininet]

The program's controller fills its tables over an interface of the hardware. Here they are text
commands: which packets are a worker's (`receive_udp`), where results go (`dst_addr`, a multicast
group), who the switch is, and what follows each pass of a packet (`next_step`).
"""

import argparse
import sys
from pathlib import Path

WORKERS = 4
GROUP, JOB = 10, 1
LAST, FIRST = 1, 0
CONSUME, HARVEST = 4, 8  # numbers of the first pass of each kind
ROUND = {1: 452, 2: 324, 3: 316, 4: 196, 5: 192, 6: 64, 7: 68}  # ports of the harvests
PIPES = 4
READINGS = [
    "readings:",
    "  - {counter: 'Ingress.egress_drop_sim.simulated_drop_packet_counter[0]', of: s1, at: 90 ms}",
    "  - {counter: 'Ingress.next_step_selector.broadcast_counter[0..127]', of: s1, at: 90 ms}",
]


def steps_of(size):
    """Entries of `next_step`, the first that fits counts: (size code, worker, pass, whether it is
    the first or the last of its slot, whether it is new, action, parameter); None: any."""
    code, last_pass = (1, CONSUME) if size == 256 else (3, CONSUME + 3)
    steps = []
    if size == 1024:
        back = [(1 << 7) + 4 * worker for worker in range(16)]
        for state in ((None, 0), (FIRST, None)):
            for worker, port in enumerate(back):
                steps.append((code, worker, CONSUME, *state, "recirculate_for_CONSUME1", port))
        steps.append((code, None, CONSUME, None, None, "drop", None))
        for number in (1, 2):
            action = f"recirculate_for_CONSUME{number + 1}_same_port_next_pipe"
            steps.append((code, None, CONSUME + number, None, None, action, None))
    harvest = 7 if size == 256 else 1
    action = f"recirculate_for_HARVEST{harvest}", ROUND[harvest]
    steps += [
        (code, None, last_pass, LAST, None, *action),
        (code, None, last_pass, None, 0, "finish_consume", None),
        (code, None, last_pass, FIRST, None, *action),
        (code, None, last_pass, None, None, "drop", None),
    ]
    for number in range(1, 8 if size == 1024 else 1):
        again = f"recirculate_for_HARVEST{number}", ROUND[number]
        steps.append((code, None, HARVEST + number - 1, None, None, *again))
    steps += [
        (None, None, HARVEST + 7, LAST, 0, "broadcast", None),
        (None, None, HARVEST + 7, FIRST, 0, "drop", None),
        (None, None, HARVEST + 7, FIRST, None, "retransmit", None),
        (None, None, HARVEST + 7, None, None, "drop", None),
    ]
    return steps


def match(value, mask):
    return "0&&&0" if value is None else f"{value}&&&{mask:#x}"


def commands_of(size, drop):
    share = round(drop * 0xFFFF)  # of packets that the program itself drops, on the way in and out
    for worker in range(WORKERS if share else 0):
        both = share << 48 | share << 32
        yield f"register_write $PORT_METADATA {worker + 1} {both}"
    for worker in range(WORKERS):
        mac = f"02:00:00:00:00:{worker + 1:02x}"
        keys = f"{match(worker + 1, 0x1FF)} {mac}&&&0xffffffffffff 0&&&0 0&&&0 0&&&0"
        action = f"{GROUP} {JOB} {worker} {WORKERS} {1 << worker} 1"
        yield f"table_add receive_udp set_bitmap {keys} 0xbee0&&&0xfff0 0&&&0 => {action}"
        yield f"table_add dst_addr set_dst_addr {worker} => {mac} 10.0.0.{worker}"
    own = "02:00:00:00:00:ff 10.0.0.99"
    yield f"table_set_default udp_sender.switch_mac_and_ip set_switch_mac_and_ip {own}"
    for priority, (code, worker, step, state, new, action, port) in enumerate(steps_of(size), 1):
        keys = [match(code, 7), match(worker, 0xFFFF), match(step, 15), match(state, 0xFF)]
        keys.append(match(new, 0xFFFFFFFF))
        params = "" if port is None else port
        name = f"next_step next_step_selector.{action}"
        yield f"table_add {name} {' '.join(keys)} => {params} {priority}"
    yield f"mc_mgrp_create {GROUP}"
    for worker in range(WORKERS):
        yield f"mc_node_create {worker} {worker + 1}"
        yield f"mc_node_associate {GROUP} {worker}"


def checks(folder, worker):
    """On Mininet: a program on each host; what the others print is kept beside the network file."""
    lines = ["checks:"]
    for number in range(WORKERS, 0, -1):
        command = f"{sys.executable} {folder / 'real_host.py'} {worker} h{number}"
        if number > 1:
            lines.append(f"  - {{start: '{command} > h{number}.txt', on: h{number}}}")
        else:
            lines.append(f"  - {{run: '{command}', on: h1, prints: exact True}}")
    for number in range(2, WORKERS + 1):
        wait = f'timeout 30 sh -c "until grep exact h{number}.txt; do sleep 0.1; done"'
        lines.append(f"  - {{run: '{wait}', on: h{number}, prints: exact True}}")
    return lines


def network(program, size, loss, drop, mininet):
    kind = "Worker" if size == 256 else "LargeWorker"
    folder = Path(__file__).resolve().parent
    worker = f"{folder / 'workers.py'}:{kind}"
    virtual = ["runtime: virtual", "virtual: {duration: 100 ms, sample: 1 ms}"]
    lines = [*([] if mininet else virtual), "network:"]
    lines += [f"  program: {program}", f"  defines: {{TNA_PIPES: {PIPES}}}", "  hosts:"]
    for number in range(1, WORKERS + 1):
        mac = f"02:00:00:00:00:{number:02x}"
        own = "" if mininet else f", class: '{worker}'"
        lines.append(f"    h{number}: {{ip: 10.0.0.{number}/24, mac: '{mac}'{own}}}")
    lines += ["  switches:", "    s1:"]
    if size == 1024:
        ports = {(pipe << 7) + 4 * place for pipe in (1, 2, 3) for place in range(16)}
        lines.append(f"      loopback: {sorted(ports | {448, 192, 64})}")
    lines += ["      commands:", *(f"        - '{line}'" for line in commands_of(size, drop))]
    lines.append("  links:")
    for number in range(1, WORKERS + 1):
        settings = (
            f"loss: {loss}" if mininet else f"bandwidth: 100 Gbit/s, delay: 1 us, loss: {loss}"
        )
        lines.append(f"    - {{between: [h{number}, s1-p{number}], {settings}}}")
    lines += checks(folder, worker) if mininet else READINGS
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("--bytes", type=int, choices=(256, 1024), default=256)
    parser.add_argument("--loss", default="0 %")
    parser.add_argument("--drop", type=float, default=0, help="share; by its own drop simulator")
    parser.add_argument("--mininet", action="store_true", help="on Mininet, in real time")
    options = parser.parse_args()
    program = options.program.resolve()
    print(network(program, options.bytes, options.loss, options.drop, options.mininet))
