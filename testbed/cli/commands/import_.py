"""`ina import FILE`: a topology as a network file, a network of another simulator as an experiment,
or a program of ranks as Chakra traces."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from p4fabric.base.errors import UserError

from testbed.cli.shared import Parser, factor, import_schemas, json_option, positive, working
from testbed.paths import command_line

OF_PROGRAMS = ("replicas", "stage", "scale")
PROGRAMS = (".et", ".txt")


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="a p4app.json or topology.json; a topology of SimAI, a network.yml of ASTRA-sim's"
        " analytical backend, or an InfraGraph in YAML; or NAME.et (Chakra traces) or NAME.txt (a"
        " SimAI workload). The content says which",
    )
    parser.add_argument("--program", type=Path, metavar="FILE.p4", help="of all switches")
    parser.add_argument(
        "--virtual", action="store_true", help="make a network file for virtual time"
    )
    parser.add_argument("--replicas", type=positive, metavar="N", help="of a SimAI workload")
    parser.add_argument("--stage", type=int, metavar="0", help="of a SimAI workload with several")
    parser.add_argument("--scale", type=factor, metavar="X", help="factor on bytes and times")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="the file to write: .yaml, or .et"
    )
    json_option(parser, "print JSON")


def call(options: Namespace) -> int:
    """Write the network file; or check the program, print its counts, and write its traces if `-o`
    names them. Raises UserError."""
    import_schemas()
    from p4fabric.netfile.fabrics import YAML, fabric_in

    found = fabric_in(options.file) if options.file.suffix != ".et" else None
    if not found and options.file.suffix in YAML:
        raise UserError(
            f"{options.file}: neither an infrastructure of InfraGraph (keys devices, instances,"
            " edges) nor a network of ASTRA-sim's analytical backend (keys topology, npus_count)"
        )
    if found or options.file.suffix not in PROGRAMS:
        for name in OF_PROGRAMS:
            if getattr(options, name) is not None:
                raise UserError(f"--{name} is for programs of ranks; take it out")
        if found and options.program is None:
            if options.virtual:
                raise UserError("--virtual needs --program; without it an experiment file is made")
            from testbed.cli.fabric_files import import_fabric

            return import_fabric(options.file, *found, options.output)
        from p4fabric.netfile.import_topology import import_topology

        words = options.file, options.program, options.output, options.virtual
        return import_topology(*words, command_line)
    from testbed.cli.program_output import show, write
    from testbed.traffic.rank_graph import check
    from testbed.traffic.rank_layout import smaller
    from testbed.traffic.rank_source import FileSource, stretched

    if options.program is not None:
        raise UserError("--program is for topologies; take it out")
    if options.virtual:
        raise UserError("--virtual is for topologies; take it out")
    scale = 1.0 if options.scale is None else options.scale
    source = FileSource(str(options.file), scale, options.replicas, options.stage)
    kind = "Chakra traces" if source.is_trace else "a SimAI workload"
    with working(f"reading {options.file}, {kind}"):
        try:
            program = stretched(source.load(), scale)
        except UserError as error:
            raise UserError(f"{error} (it was taken for {kind})") from None
        if not source.is_trace:
            check(smaller(program))
    if not options.json:
        print(f"{options.file} is {kind}: {len(program.ranks)} ranks")
    show(program, options.json)
    if options.output is not None:
        with working(f"writing {options.output}"):
            write(options.output, program, quiet=options.json)
    return 0
