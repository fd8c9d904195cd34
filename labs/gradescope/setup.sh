#!/usr/bin/env bash
# Gradescope calls this once, as root, when it builds the image of an autograder.
# /autograder/source has this file, run_autograder, the kit with the teacher's part (`kit`),
# the lab's number in lab.txt, and the class secret in secret.txt (labs/TEACHERS.md).
set -euo pipefail
root=${AUTOGRADER:-/autograder}

apt-get update
apt-get install -y --no-install-recommends gcc libc6-dev libseccomp2 python3 python3-venv
python3 -m venv "$root/venv"
"$root/venv/bin/python" -m pip install -r "$root/source/kit/requirements.txt"

# A submission is user nobody: it needs the Python packages, and must not read checks and secret.
chmod o+x "$root"
chmod -R go= "$root/source"
