"""A submission for the labs' grader that tries to do harm, and tells what it could do."""

from __future__ import annotations

import pytest

from testbed.labs.grader import landlock

NO_LANDLOCK = pytest.mark.skipif(not landlock.version(), reason="this kernel has no Landlock")


ATTEMPTS = '''
import os, resource, signal, socket, sys, threading

def attempts(victim, secret, parent):
    """What comes of each attempt: the name of the error, or "done"."""
    made = {}
    def attempt(name, function):
        try:
            function()
            made[name] = "done"
        except BaseException as error:
            made[name] = type(error).__name__
    attempt("write", lambda: open(victim, "w"))
    attempt("append", lambda: open(victim, "a").write("x"))
    attempt("create", lambda: open(victim + ".new", "w"))
    attempt("write own folder", lambda: open("x", "w").write("x" * 100))
    attempt("remove", lambda: os.unlink(victim))
    attempt("rename", lambda: os.rename(victim, victim + ".old"))
    attempt("read", lambda: open(secret).read())
    attempt("list", lambda: os.listdir(os.path.dirname(secret)))
    attempt("process list", lambda: open(f"/proc/{parent}/cmdline").read())
    attempt("memory of the grader", lambda: open(f"/proc/{parent}/mem", "rb"))
    attempt("connect", lambda: socket.create_connection(("127.0.0.1", 9), 0.1))
    attempt("unix socket", lambda: socket.socket(socket.AF_UNIX))
    attempt("kill", lambda: os.kill(parent, signal.SIGKILL))
    attempt("fork", os.fork)
    attempt("exec", lambda: os.execv("/bin/sh", ["sh", "-c", "id"]))
    attempt("thread", lambda: threading.Thread(target=print).start())
    attempt("limits", lambda: resource.setrlimit(resource.RLIMIT_CPU, (10000, 10000)))
    attempt("limits of the grader", lambda: resource.prlimit(parent, resource.RLIMIT_CPU, (1, 1)))
    attempt("memory", lambda: bytearray(4 << 30))
    return made

def surroundings():
    descriptors = []
    for number in range(256):
        try:
            descriptors.append((number, oct(os.fstat(number).st_mode >> 12)))
        except OSError:
            pass
    return [dict(os.environ), sys.argv, descriptors]

def loop():
    while True:
        pass

def sleep():
    import time
    time.sleep(1000)

def spam():
    line = "x" * (1 << 20)
    while True:
        print(line)

def abort():
    os.abort()

def leave():
    os._exit(3)

class Unspeakable(BaseException):
    def __str__(self):
        raise KeyboardInterrupt

def strange():
    raise Unspeakable

def large():
    return "x" * (20 << 20)

def nested():
    made = []
    for _ in range(100000):
        made = [made]
    return made

def huge():
    return 10 ** 5000

def forged():
    for number in range(3, 64):
        try:
            os.write(number, b"\\x05\\x00\\x00\\x00[[[[[")
        except OSError:
            pass
    return 1
'''
