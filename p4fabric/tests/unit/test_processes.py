"""Process identities: a process id alone is not enough."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from p4fabric.base.linux.processes import Identity, cpu_ns, stat_fields, thread_cpu_ns


def test_a_living_process_is_itself():
    me = Identity.of(os.getpid())
    assert me is not None and me.alive()


def test_a_reused_id_is_not_the_same_process():
    me = Identity.of(os.getpid())
    assert not Identity(me.pid, me.start - 1).alive()
    assert not Identity(me.pid, me.start - 1).kill()


def test_a_dead_process_and_a_zombie_are_not_alive():
    child = subprocess.Popen(["sleep", "60"])
    identity = Identity.of(child.pid)
    assert identity.kill()
    while identity.alive():
        time.sleep(0.001)
    assert stat_fields(child.pid)[0] == "Z" and Identity.of(child.pid) is None
    child.wait()
    assert not identity.alive() and not identity.kill()


def test_a_command_with_parentheses_is_read_right(tmp_path):
    odd = tmp_path / "a) R 1 (b"
    odd.symlink_to("/bin/sleep")
    child = subprocess.Popen([str(odd), "60"])
    try:
        while stat_fields(child.pid)[0] == "R":
            time.sleep(0.001)
        assert int(stat_fields(child.pid)[1]) == os.getpid()
    finally:
        child.kill()
        child.wait()


def test_processor_time_grows_with_work():
    before = cpu_ns(os.getpid())
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    assert cpu_ns(os.getpid()) - before >= 80_000_000


def test_the_threads_of_a_process_share_its_processor_time():
    code = (
        "import threading, time\n"
        "def work():\n"
        "    end = time.thread_time() + 0.3\n"
        "    while time.thread_time() < end: pass\n"
        "thread = threading.Thread(target=work)\n"
        "thread.start()\n"
        "while True:\n"
        "    time.sleep(0.05)\n"
        "    if not thread.is_alive() or thread.native_id is None: break\n"
        "    if open(f'/proc/self/task/{thread.native_id}/stat').read().split()[13] >= '2':\n"
        "        print(flush=True)\n"
        "        break\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        threads = thread_cpu_ns(child.pid)
        whole = cpu_ns(child.pid)
        assert len(threads) == 2
        assert 0 < max(threads.values()) <= whole
        child.stdin.close()
    assert thread_cpu_ns(child.pid) == {}
