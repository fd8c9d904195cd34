"""A platform for PTF, the packet test framework: `ptf --test-dir` against the switch.

`p4fabric ptf FILE.yaml -- PTF'S ARGUMENTS` starts PTF with it. PTF adds this folder to its path and
imports the module `p4fabric_switch` from it by its name.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from p4fabric.base.errors import UserError
from p4fabric.base.program import module_environment, pip_install

FOLDER = Path(__file__).resolve().parent
PLATFORM = "p4fabric_switch"


def ptf_command(environment: str = sys.prefix) -> str:
    """The path of the command `ptf`: of the Python that runs, else of the search path. Raises
    UserError."""
    folders = [str(Path(environment) / "bin"), os.environ.get("PATH", "")]
    found = shutil.which("ptf", path=os.pathsep.join(folders))
    if found is None:
        raise UserError(f"PTF is not installed: `{pip_install()} ptf` installs it beside p4fabric")
    return found


def run_ptf(file: Path, switch: str | None, words: Sequence[str]) -> int:
    """Run PTF's tests against a switch of a network file; returns PTF's exit code. words: the
    other arguments of `ptf`, `--test-dir` among them. Raises UserError."""
    from p4fabric.ptf_platform.ports import SwitchPorts

    command = ptf_command()
    SwitchPorts.of_file(file, switch).close()  # says what is wrong before PTF's own words begin
    platform = f"network={file.absolute()}" + (f";switch={switch}" if switch else "")
    given = [command, "--allow-user", "--platform-dir", str(FOLDER), "--platform", PLATFORM]
    given += ["--platform-args", platform, *words]
    return subprocess.run([sys.executable, *given], env=module_environment()).returncode
