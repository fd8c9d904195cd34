"""Submissions for the labs' grader that try to do harm, and tell what they could do."""

from __future__ import annotations

import shutil

import pytest

NO_SANDBOX = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")


ATTEMPTS = '''
import ctypes, os, resource, signal, socket, sys, threading, time

libc = ctypes.CDLL(None, use_errno=True)

def attempts(victims, parent):
    """What comes of each attempt: the name of the error, or "done"."""
    made = {}
    def attempt(name, function):
        try:
            result = function()
            made[name] = "done" if result != -1 else "errno %d" % ctypes.get_errno()
        except BaseException as error:
            made[name] = type(error).__name__
    def call(name, *arguments):
        return lambda: getattr(libc, name)(*arguments)
    for path in victims:
        raw = path.encode()
        def each(name, function):
            attempt(f"{name} {path}", function)
        each("write", lambda: open(path, "w"))
        each("append", lambda: open(path, "a").write("x"))
        each("read and write", lambda: open(path, "r+"))
        each("create", lambda: open(path + ".new", "w"))
        each("temporary file", lambda: os.open(os.path.dirname(path), os.O_TMPFILE | os.O_RDWR))
        each("truncate", lambda: os.truncate(path, 0))
        each("remove", lambda: os.unlink(path))
        each("rename", lambda: os.rename(path, path + ".old"))
        each("link", lambda: os.link(path, path + ".link"))
        each("symlink", lambda: os.symlink(path, path + ".symlink"))
        each("mkdir", lambda: os.mkdir(path + ".d"))
        each("mkfifo", lambda: os.mkfifo(path + ".fifo"))
        each("chmod", lambda: os.chmod(path, 0o4777))
        each("chmod folder", lambda: os.chmod(os.path.dirname(path), 0o777))
        each("fchmod", lambda: os.fchmod(os.open(path, os.O_RDONLY), 0o4777))
        each("fchmodat2", call("syscall", 452, -100, raw, 0o4777, 0))
        each("chown", lambda: os.chown(path, 65534, 65534))
        each("utime", lambda: os.utime(path, (1, 1)))
        each("futimes", lambda: os.utime(os.open(path, os.O_RDONLY), (1, 1)))
        each("setxattr", lambda: os.setxattr(path, "user.x", b"1"))
        each("removexattr", lambda: os.removexattr(path, "user.x"))
        each("mount", call("mount", raw, raw, None, 4096, None))
        each("watch", call("inotify_add_watch", 0, raw, 2))
        each("handle", call("name_to_handle_at", -100, raw, None, raw, 0))
    attempt("write own folder", lambda: open("x", "w").write("x" * 100))
    attempt("memory file", lambda: os.memfd_create("x"))
    attempt("chroot", lambda: os.chroot("/usr"))
    attempt("remount", call("mount", None, b"/", None, 4128, None))
    attempt("unmount", call("umount2", b"/submission/source", 2))
    for name, flag in (("user", 0x10000000), ("mounts", 0x20000), ("network", 0x40000000)):
        attempt(f"unshare {name}", call("unshare", flag))
    attempt("setns", call("setns", 0, 0))
    attempt("process list", lambda: os.listdir("/proc"))
    attempt("memory of the grader", lambda: open(f"/proc/{parent}/mem", "rb"))
    for pid in (parent, 1, 0, -1, os.getpid()):
        attempt(f"kill {pid}", lambda: os.kill(pid, signal.SIGKILL))
        attempt(f"trace {pid}", call("ptrace", 16, pid, None, None))
        attempt(f"memory of {pid}", call("process_vm_readv", pid, None, 0, None, 0, 0))
        attempt(f"pidfd {pid}", lambda: os.pidfd_open(pid))
        attempt(f"priority {pid}", lambda: os.setpriority(os.PRIO_PROCESS, max(pid, 0), 19))
        attempt(f"processors {pid}", lambda: os.sched_setaffinity(pid, {0}))
        attempt(f"limits {pid}", lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1)))
        if pid > 0:
            attempt(f"look at limits {pid}", lambda: resource.prlimit(pid, resource.RLIMIT_CPU))
    attempt("own limits", lambda: resource.setrlimit(resource.RLIMIT_CPU, (10000, 10000)))
    attempt("lower limits", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (9, 9)))
    attempt("user", lambda: os.setuid(0))
    attempt("fork", os.fork)
    attempt("exec", lambda: os.execv(sys.executable, ["python", "-c", "1"]))
    attempt("thread", lambda: threading.Thread(target=print).start())
    attempt("clock", lambda: time.clock_settime(time.CLOCK_REALTIME, 1))
    attempt("timer", lambda: signal.setitimer(signal.ITIMER_REAL, 100))
    attempt("adjtime", call("adjtime", None, None))
    attempt("connect", lambda: socket.create_connection(("127.0.0.1", 9), 0.1))
    attempt("unix socket", lambda: socket.socket(socket.AF_UNIX))
    attempt("socket pair", socket.socketpair)
    attempt("netlink", lambda: socket.socket(socket.AF_NETLINK))
    attempt("host name", lambda: socket.sethostname("x"))
    attempt("shared memory", call("shmget", 1, 100, 0o1600))
    attempt("semaphore", call("semget", 1, 1, 0o1600))
    attempt("queue", call("msgget", 1, 0o1600))
    attempt("keys", call("syscall", 248, b"user", b"x", b"x", 1, -3))
    attempt("io_uring", call("syscall", 425, 1, None))
    attempt("bpf", call("syscall", 321, 0, None, 0))
    attempt("memory", lambda: bytearray(4 << 30))
    return made

def together():
    """What comes of each attempt to have something in common with another process, or to see
    something of it: "done", or the number of the error."""
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    made, word = {}, ctypes.c_uint(0)
    file = os.open(os.__file__, os.O_RDONLY)
    def attempt(name, result):
        failed = result in (-1, ctypes.c_void_p(-1).value)
        made[name] = "errno %d" % ctypes.get_errno() if failed else "done"
    def futex(operation):
        number = {"x86_64": 202, "aarch64": 98}[os.uname().machine]
        return libc.syscall(number, ctypes.byref(word), operation, 1, None)
    attempt("futex of its own", futex(1 | 128))
    for operation in (0, 1, 3, 4, 5, 6, 9, 10):
        attempt("futex %d" % operation, futex(operation))
    attempt("file in common", libc.mmap(None, 4096, 1, 1, file, 0))
    attempt("file in common, validated", libc.mmap(None, 4096, 1, 3, file, 0))
    attempt("huge pages", libc.mmap(None, 1 << 21, 3, 0x40022, -1, 0))
    own = libc.mmap(None, 1 << 21, 3, 0x22, -1, 0)
    attempt("memory of its own", own)
    for advice in (3, 9, 12, 20, 21, 22, 23):
        attempt("advice %d" % advice, libc.madvise(own, 1 << 21, advice))
    attempt("read ahead", libc.posix_fadvise(file, 0, 4096, 3) and libc.readahead(file, 0, 4096))
    attempt("sysinfo", libc.sysinfo(ctypes.create_string_buffer(256)))
    return made

_kept = []

def keeps(megabytes):
    for _ in range(megabytes):
        _kept.append(bytearray(b"x") * (1 << 20))

def goes_on():
    """Answer, and compute on."""
    from inside import channel
    frame = sys._getframe()
    while frame.f_code.co_name != "serve":
        frame = frame.f_back
    channel.write(frame.f_locals["replies"], ["ok", None])
    while True:
        pass

def every_call(skipped):
    """The numbers of system calls that are not refused at once, and how they end."""
    made = {}
    for number in range(600):
        if number not in skipped:
            ctypes.set_errno(0)
            result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(0)] * 6)
            if (result, ctypes.get_errno()) != (-1, 1):
                made[number] = [result, ctypes.get_errno()]
    return made

def found(paths):
    """Those of `paths` that exist in any way."""
    made = []
    for path in paths:
        for look in (os.lstat, os.listdir, os.readlink, lambda p: open(p, "rb")):
            try:
                look(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                made.append(f"{path}: {error}")
            else:
                made.append(path)
    return made

def files():
    """Every file in the sandbox."""
    return [os.path.join(at, name) for at, _, names in os.walk("/") for name in names]

def imports(names):
    """Those of the modules that can be imported."""
    made = []
    for name in names:
        try:
            __import__(name)
        except ImportError:
            continue
        made.append(name)
    return made

def own_limits():
    return [resource.getrlimit(each) for each in (resource.RLIMIT_CPU, resource.RLIMIT_NOFILE)]

def identity():
    return [*os.getresuid(), *os.getresgid(), *os.getgroups()]

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
    threading.Event().wait()

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
