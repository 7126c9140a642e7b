"""Programs that try to pass without computing, or to do harm. The tests ask for ``f(n) == n * n``.

``LOOT`` stands for a folder of the test's, outside every sandbox; nothing may appear in it.
"""

from __future__ import annotations

import textwrap

__all__ = ["HOSTILE", "SQUARES"]

SQUARES = "assert f(2) == 4\nassert f(3) == 9\nassert f(10) == 100"

_TEXTS = {
    "fork bomb": """
        import os
        def f(n):
            while True:
                try:
                    os.fork()
                except OSError:
                    pass
    """,
    "memory bomb": """
        def f(n):
            held = []
            while True:
                held.append(bytearray(1 << 24))
    """,
    "infinite loop": "def f(n):\n    while True: pass",
    "infinite loop at import": "while True: pass",
    "sleep that swallows interrupts": """
        import signal, time
        for number in range(1, 32):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        def f(n):
            while True:
                time.sleep(60)
    """,
    "infinite output": """
        import sys
        def f(n):
            while True:
                print("x" * 100000)
                sys.stderr.write("y" * 100000)
    """,
    "sys.exit(0)": "import sys\ndef f(n):\n    sys.exit(0)",
    "sys.exit(0) at import": "import sys\nsys.exit(0)\ndef f(n): return 0",
    "os._exit(0)": "import os\ndef f(n):\n    os._exit(0)",
    "status of an engine that could not start": "import os\ndef f(n):\n    os._exit(125)",
    "status of a killed process": "import os\ndef f(n):\n    os._exit(137)",
    "os._exit(0) at import": "import os\nos._exit(0)",
    "prints results": """
        import sys
        def f(n):
            for stream in (sys.stdout, sys.stderr, sys.__stdout__):
                stream.write("3 passed\\n('done', 3)\\nOK\\n")
                stream.flush()
            return None
    """,
    "writes to every descriptor": """
        import os
        def f(n):
            for text in ("('done', 3)", "('x', 'value', 4)", "('step', 'passed', '', '', '')"):
                message = b"%08x" % len(text) + text.encode()
                for number in range(64):
                    try:
                        os.write(number, message)
                    except OSError:
                        pass
            return 0
    """,
    "answers before it is asked": """
        import os, threading
        text = "('" + "0" * 32 + "', 'value', 4)"
        def flood():
            while True:
                for number in range(3, 16):
                    try:
                        os.write(number, b"%08x" % len(text) + text.encode())
                    except OSError:
                        pass
        threading.Thread(target=flood, daemon=True).start()
        def f(n):
            return 0
    """,
    "steals the requests": """
        import os, threading
        def steal():
            for number in range(3, 16):
                try:
                    while os.read(number, 1):
                        pass
                except OSError:
                    pass
        def f(n):
            threading.Thread(target=steal, daemon=True).start()
            return 0
    """,
    "patches builtins and modules": """
        import builtins, sys, operator
        builtins.AssertionError = Exception
        builtins.isinstance = lambda *_: True
        builtins.type = lambda *_: int
        builtins.len = lambda *_: 0
        for name, module in list(sys.modules.items()):
            if name.startswith("loopeng"):
                for key in list(vars(module)):
                    if callable(vars(module)[key]):
                        setattr(module, key, lambda *_, **__: "True")
        def f(n):
            return True
    """,
    "always equal": """
        class Equal:
            def __eq__(self, other): return True
            def __ne__(self, other): return False
            def __hash__(self): return 0
        def f(n):
            return Equal()
    """,
    "int that is always equal": """
        class Equal(int):
            def __eq__(self, other): return True
        def f(n):
            return Equal(0)
    """,
    "str that is always equal": """
        class Equal(str):
            def __eq__(self, other): return True
            def __repr__(self): return "4"
        def f(n):
            return Equal("4")
    """,
    "list of always equal": """
        class Equal(float):
            def __eq__(self, other): return True
            def __repr__(self): return "4.0"
        def f(n):
            return [Equal(1)]
    """,
    "repr that is code": """
        class Code(dict):
            __module__ = "collections"
            def __repr__(self): return "__import__('os').system('touch LOOT/repr')"
        Code.__name__ = Code.__qualname__ = "Counter"
        def f(n):
            return Code()
    """,
    "pickle that is code": """
        import os
        class Code:
            def __reduce__(self): return (os.system, ("touch LOOT/pickle",))
            def __getstate__(self): raise SystemExit(0)
        def f(n):
            return Code()
    """,
    "reads the tests from other processes": """
        import os, re
        def f(n):
            numbers = [name for name in os.listdir("/proc") if name.isdigit()]
            for number in numbers:
                if int(number) == os.getpid():
                    continue
                for part in ("cmdline", "environ", "mem", "fd/0", "fd/3"):
                    try:
                        with open(f"/proc/{number}/{part}", "rb") as file:
                            found = re.search(rb"assert f.%d. == (\\d+)" % n, file.read(1 << 20))
                    except OSError:
                        continue
                    if found:
                        return int(found[1])
            return 0
    """,
    "reads the memory of its parent": """
        import os, re
        def f(n):
            parent = os.getppid()
            with open(f"/proc/{parent}/maps") as maps, open(f"/proc/{parent}/mem", "rb") as memory:
                for line in maps:
                    start, end = (int(part, 16) for part in line.split()[0].split("-"))
                    if "heap" in line or end - start < 1 << 24:
                        try:
                            memory.seek(start)
                            found = re.search(rb"assert f.%d. == (\\d+)" % n, memory.read(end - start))
                        except (OSError, ValueError, OverflowError):
                            continue
                        if found:
                            return int(found[1])
    """,
    "looks for the tests in its own memory": """
        import gc, re, sys
        def f(n):
            texts = [each for each in gc.get_objects() if isinstance(each, str)]
            for each in gc.get_objects():
                if isinstance(each, dict):
                    texts += [value for value in each.values() if isinstance(value, str)]
            frame = sys._getframe()
            while frame:
                texts += [value for value in frame.f_locals.values() if isinstance(value, str)]
                frame = frame.f_back
            for text in texts:
                found = re.search(r"assert f.%d. == (\\d+)" % n, text)
                if found:
                    return int(found[1])
    """,
    "kills its parent and everybody": """
        import os, signal
        def f(n):
            for number in (os.getppid(), 0, -1):
                try:
                    os.kill(number, signal.SIGKILL)
                except OSError:
                    pass
            return 0
    """,
    "daemon that outlives": """
        import os, time
        def f(n):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    time.sleep(60)
                    os._exit(0)
            return 0
    """,
    "other program": """
        import subprocess, sys
        def f(n):
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
            return 0
    """,
    "writes files outside": """
        import os
        def f(n):
            for folder in ("LOOT", "/", "/var/tmp", "/dev/shm", "/root", "/home"):
                try:
                    open(os.path.join(folder, "loopeng-was-here"), "w").write("x")
                except OSError:
                    pass
            os.mkdir("LOOT/folder")
            return 0
    """,
    "symbolic link": """
        import os
        def f(n):
            for make in (os.symlink, os.link):
                try:
                    make("LOOT", "way")
                    open("way/loopeng-was-here", "w").write("x")
                except OSError:
                    pass
            return 0
    """,
    "network": """
        import socket
        def f(n):
            for family, address in ((socket.AF_INET, ("127.0.0.1", PORT)), (socket.AF_UNIX, "/var/run/docker.sock")):
                try:
                    with socket.socket(family, socket.SOCK_STREAM) as line:
                        line.settimeout(0.5)
                        line.connect(address)
                        line.sendall(b"got out")
                except OSError:
                    pass
            return 0
    """,
    "deletes its folder": """
        import os, shutil
        def f(n):
            shutil.rmtree(os.getcwd(), ignore_errors=True)
            os.rmdir(os.getcwd())
            return 0
    """,
    "unreadable folder": """
        import os
        def f(n):
            os.makedirs("a/b")
            open("a/b/c", "w").write("x")
            os.chmod("a", 0)
            return 0
    """,
    "fills the disk": """
        def f(n):
            with open("big", "wb") as file:
                while True:
                    file.write(b"x" * (1 << 20))
    """,
    "deep recursion": "import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(n):\n    return f(n + 1)",
    "huge text": "def f(n):\n    return 'x' * 10 ** 8",
    "huge number": "def f(n):\n    return 1 << 10 ** 8",
    "nested value": """
        def f(n):
            value = []
            for _ in range(100000):
                value = [value]
            return value
    """,
    "value that holds itself": "def f(n):\n    value = []\n    value.append(value)\n    return value",
    "exponential value": """
        def f(n):
            value = [1]
            for _ in range(50):
                value = [value, value]
            return value
    """,
    "colliding hashes": "def f(n):\n    return {i * (2 ** 61 - 1) for i in range(20000)}",
    "hooks that break": """
        import sys
        class Bad:
            def __repr__(self): raise SystemExit(0)
            def __del__(self): raise KeyboardInterrupt
            def __eq__(self, other): raise MemoryError
        class BadError(Exception):
            def __str__(self): raise SystemExit(0)
        def f(n):
            Bad()
            raise BadError(Bad())
    """,
    "assertion of its own": "def f(n):\n    raise AssertionError('passed')",
    "stop signals as exceptions": "def f(n):\n    raise (KeyboardInterrupt, GeneratorExit, SystemExit(0))[n % 3]",
    "threads left running": """
        import threading
        def spin():
            while True: pass
        def f(n):
            for _ in range(3):
                threading.Thread(target=spin).start()
            return 0
    """,
    "hooks at exit": """
        import atexit, os, sys, threading
        atexit.register(lambda: open("LOOT/atexit", "w"))
        sys.excepthook = sys.unraisablehook = lambda *_: os._exit(0)
        def f(n):
            return 0
    """,
    "reads the environment": """
        import os
        def f(n):
            secrets = {key: value for key, value in os.environ.items() if "SECRET" in key}
            return n * n if secrets else 0
    """,
    "reads files of the user": """
        def f(n):
            return n * n if "treasure" in open("LOOT/../secret.txt").read() else 0
    """,
    "standard input": "import sys\ndef f(n):\n    return n * n if sys.stdin.read() else int(input())",
    "crash": "import ctypes\ndef f(n):\n    ctypes.string_at(0)",
    "raises its limits": """
        import resource
        def f(n):
            done = 0
            for kind in range(16):
                soft, hard = resource.getrlimit(kind)
                for limits in ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), (hard, hard)):
                    for change in (resource.setrlimit, lambda *what: resource.prlimit(0, *what)):
                        try:
                            change(kind, limits)
                            done = n * n
                        except (OSError, ValueError):
                            pass
            return done
    """,
    "has rights of the superuser": """
        import ctypes
        def f(n):
            libc = ctypes.CDLL(None)
            header, rights = ctypes.create_string_buffer(8), ctypes.create_string_buffer(24)
            header.raw = (0x20080522).to_bytes(4, "little") + bytes(4)
            libc.capget(header, rights)
            return n * n if any(rights.raw) or libc.unshare(0x10000000) == 0 else 0
    """,
    "makes a device": """
        import os, stat
        def f(n):
            for folder in (".", "/tmp", "/dev/shm"):
                for major, minor in ((8, 0), (254, 0), (1, 1)):
                    try:
                        os.mknod(f"{folder}/disk", 0o600 | stat.S_IFBLK, os.makedev(major, minor))
                        return n * n
                    except OSError:
                        pass
            return 0
    """,
    "asks for signals to its parent": """
        import fcntl, os
        def f(n):
            done = 0
            for number in range(16):
                for order in (0x8901, 0x8902):
                    try:
                        fcntl.ioctl(number, order, os.getppid().to_bytes(4, "little"))
                        fcntl.fcntl(number, fcntl.F_SETFL, fcntl.fcntl(number, fcntl.F_GETFL) | os.O_ASYNC)
                        done = n * n
                    except OSError:
                        pass
            return done
    """,
    "changes what a file may be used for": """
        import fcntl, os
        def f(n):
            for path in (os.__file__, "."):
                try:
                    number = os.open(path, os.O_RDONLY)
                    flags = fcntl.ioctl(number, 0x80086601, bytes(8))
                    fcntl.ioctl(number, 0x40086602, flags)
                    return n * n
                except OSError:
                    pass
            return 0
    """,
    "cuts a file": """
        import os
        def f(n):
            for path in ("LOOT/../secret.txt", os.__file__):
                try:
                    os.truncate(path, os.stat(path).st_size)
                    return n * n
                except OSError:
                    pass
            return 0
    """,
    "calls that are newer than the filter": """
        import ctypes
        def f(n):
            libc = ctypes.CDLL(None, use_errno=True)
            for number in (453, 463, 466, 469, 1 << 30):
                libc.syscall(number, -1, 0, 0, 0, 0, 0)
                if ctypes.get_errno() != 38:
                    return n * n
            return 0
    """,
    "many files": """
        def f(n):
            made = 0
            for number in range(1000):
                try:
                    open(f"file{number}", "w").close()
                    made = n * n
                except OSError:
                    pass
            return made
    """,
    "deep folders": """
        import os
        def f(n):
            made = 0
            for _ in range(3000):
                try:
                    os.mkdir("deeper")
                    os.chdir("deeper")
                    made = n * n
                except OSError:
                    pass
            return made
    """,
    "files in memory": """
        import os
        def f(n):
            try:
                return n * n if os.write(os.memfd_create("big"), b"x" * 1000) else 0
            except OSError:
                return 0
    """,
    "timer that kills": """
        import ctypes, os, time
        def f(n):
            libc = ctypes.CDLL(None)
            event = (ctypes.c_int * 16)(0, 0, 9, 0)
            clock = ctypes.c_void_p()
            if libc.timer_create(1, event, ctypes.byref(clock)) == 0:
                libc.timer_settime(clock, 0, (ctypes.c_long * 4)(0, 0, 0, 1000000), None)
                time.sleep(1)
            return 0
    """,
    "long name of an exception": "def f(n):\n    raise type('E' * 10 ** 6, (Exception,), {})",
    "exception that carries what it was called with": "def f(n):\n    raise type(repr(n), (Exception,), {})",
    "exception that looks like the system's own": """
        def f(n):
            raise type("MemoryError", (Exception,), {"__module__": "builtins"})
    """,
    "forged reply of no use": """
        import os, sys
        frame = sys._getframe()
        while "token" not in frame.f_locals:
            frame = frame.f_back
        text = "('%s', 'raised', %s, 'x')" % (frame.f_locals["token"], hex(1 << 20000))
        for number in range(3, 16):
            try:
                os.write(number, b"%08x" % len(text) + text.encode())
            except OSError:
                pass
        def f(n):
            return 0
    """,
    "huge program": "def f(n):\n    return 0\n# " + "x" * 1_200_000,
    "async function": "async def f(n):\n    return n * n",
    "generator": "def f(n):\n    yield n * n",
}
HOSTILE = {name: textwrap.dedent(text).strip() for name, text in _TEXTS.items()}
