# SPDX-License-Identifier: MIT
"""One emulated machine: starting QEMU, talking to the agent inside, noticing how it ends.

A machine lives in a folder: agent (socket to the agent), console.log (all the kernel said), state.json. QEMU holds the
lock that lets only one machine run at a time, so the lock ends with the machine however that happens.
"""
import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import splat

FRAME = struct.Struct("<4sBII")
MAGIC = b"HPvm"
# Of the emulated CPUs' own time, so that a busy host is no failed boot; each has a bound of the clock besides.
BOOT_SECONDS = 240      # for a whole boot
SILENT_SECONDS = 60     # without a word from the kernel
CLOCK_FACTOR = 4
FATAL_SECONDS = 15      # after an oops: the command is often stuck, and more of the log is worth little
ATTEMPTS = 2            # a boot dies now and then where emulation is at fault: two in a row mean something else


class Trouble(Exception):
    """The machine or the kernel failed, not the command."""


class DiedBeforeInit(Trouble):
    """A boot that did not get to its first program: the emulated CPU's fault often enough to try again."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def folder_of(name):
    base = os.path.join(tempfile.gettempdir(), f"hugepin-vm-{os.getuid()}")
    os.makedirs(base, mode=0o700, exist_ok=True)
    return os.path.join(base, name)


def lock(owner):
    """The descriptor of the lock that lets one machine run at a time; waits, and says for whom."""
    place = "/run/lock" if os.access("/run/lock", os.W_OK) else tempfile.gettempdir()
    fd = os.open(os.path.join(place, "hugepin-vm.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    started, said = time.monotonic(), False
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if not said and time.monotonic() - started > 2:
                holder = os.pread(fd, 200, 0).decode("utf-8", "replace") or "another machine"
                say(f"waiting: {holder} is running")
                said = True
            time.sleep(0.1)
    os.ftruncate(fd, 0)
    os.pwrite(fd, owner.encode(), 0)
    return fd


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Machine:
    def __init__(self, folder, allowed=None, verbose=False):
        self.folder = folder
        self.process = None     # QEMU, where this run started it
        self.pid = 0
        self.line = None
        self.received = b""
        self.id = 0
        self.stuck = False      # a command that SIGKILL does not end
        self.verbose = verbose
        self.log = splat.Log(os.path.join(folder, "console.log"), allowed=allowed)

    # ---- beginning and end ----

    def start(self, command, lock_fd, stays):
        """Start QEMU and wait for the agent."""
        agent = os.path.join(self.folder, "agent")
        command = command + ["-chardev", f"file,id=console,path={self.log.path}", "-serial", "chardev:console",
                             "-chardev", f"socket,id=agent,path={agent},server=on,wait=off", "-serial", "chardev:agent"]
        errors = os.path.join(self.folder, "qemu.log")
        with open(errors, "wb") as out:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                            pass_fds=[lock_fd], start_new_session=True,
                                            preexec_fn=None if stays else die_with_parent)
        self.pid = self.process.pid
        while not self.connect(agent):
            if self.process.poll() is not None:
                with open(errors, encoding="utf-8", errors="replace") as text:
                    raise Trouble("QEMU did not start:\n" + text.read())
            time.sleep(0.01)
        self._wait_for_agent()

    def _spent(self):
        """Seconds that the machine has had since it was started."""
        with open(f"/proc/{self.process.pid}/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
        cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return max(cpu, (time.monotonic() - self.started) / CLOCK_FACTOR)

    def _wait_for_agent(self):
        self.started, heard = time.monotonic(), 0
        while True:
            for kind, _, _ in self._frames(0.2):
                if kind == "H":
                    return
            spent = self._spent()
            if self._poll_log():
                heard = spent
            reason = None
            if self.log.panic:
                reason = "the kernel panicked"
            elif not self.alive():
                reason = "the machine went away"
            elif spent > BOOT_SECONDS or spent - heard > SILENT_SECONDS:
                reason = f"nothing happened after {time.monotonic() - self.started:.0f} s"
            if reason:
                self._poll_log()
                late = self.log.has("hugepin-vm: init")
                raise (Trouble if late else DiedBeforeInit)(f"{reason} {'in' if late else 'before'} init")

    def connect(self, path):
        line = socket.socket(socket.AF_UNIX)
        try:
            line.connect(path)
        except OSError:
            line.close()
            return False
        self.line = line
        return True

    def alive(self):
        if self.process:
            return self.process.poll() is None
        try:
            # Not the pid alone: after a reboot of this machine it may be anyone's.
            with open(f"/proc/{self.pid}/stat", encoding="utf-8") as file:
                name, _, rest = file.read().partition(")")
            return self.pid > 0 and "(qemu" in name and rest.split()[0] != "Z"
        except OSError:
            return False

    def kill(self):
        """End it at once; nothing in it needs saving."""
        if self.alive():        # never kill(0): that is our own process group
            os.kill(self.pid, signal.SIGKILL)
        if self.process:
            self.process.wait()
        for _ in range(100):
            if not self.alive():
                break
            time.sleep(0.02)

    # ---- what a kept machine remembers between runs ----

    def save(self, **more):
        path = os.path.join(self.folder, "state.json")
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump({"pid": self.pid, "offset": self.log.offset - len(self.log.partial), "id": self.id, **more}, file)
        os.rename(path + ".new", path)

    def load(self):
        """Returns what save() was given, or None where no machine lives."""
        try:
            with open(os.path.join(self.folder, "state.json"), encoding="utf-8") as file:
                state = json.load(file)
        except (OSError, ValueError):
            return None
        self.pid = state["pid"]
        self.log.offset = state["offset"]
        # From the clock, so that a frame of a run that was killed cannot be taken for one of ours.
        self.id = max(state["id"] + 1, int(time.time()) & 0x7fffffff)
        return state if self.connect(os.path.join(self.folder, "agent")) else None

    # ---- commands ----

    def run(self, argv, environment, folder, timeout, out=None, err=None):
        """Run a command; out and err get what it prints. Returns its status, None when the time was up."""
        out, err = out or sys.stdout.buffer, err or sys.stderr.buffer
        self.id += 1
        strings = [folder, str(len(environment)), *(f"{k}={v}" for k, v in environment.items()), *argv]
        self._send("R", b"".join(os.fsencode(s) + b"\0" for s in strings))
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            status = self._take(out, err)
            if status is not None:
                return status
            if self.log.fatal:
                end = min(end, time.monotonic() + FATAL_SECONDS)
        # Have the kernel say what is stuck, then end the command.
        self._send("T", b"")
        for kill in (False, True):
            if kill:
                self._send("K", bytes([signal.SIGKILL]))
            end = time.monotonic() + (5 if kill else 1)
            while time.monotonic() < end:
                if self._take(out, err) is not None:
                    return None
        self.stuck = True
        return None

    def _take(self, out, err):
        """Pass on what the command has printed; returns its status once it has ended."""
        for kind, number, data in self._frames(0.2):
            if number != self.id:
                continue
            if kind in "OE":
                stream = out if kind == "O" else err
                stream.write(data)
                stream.flush()
            elif kind == "X":
                self._wait_for_log()
                return struct.unpack("<I", data)[0]
        self._poll_log()
        if not self.alive():
            self._poll_log()
            raise Trouble("the kernel panicked" if self.log.panic else "the machine went away")
        return None

    def _wait_for_log(self):
        """The console may lag behind: read until the mark that the agent has put after the command."""
        end = time.monotonic() + 5
        while not self.log.has(f"hugepin-vm: end {self.id}") and time.monotonic() < end and self.alive():
            self._poll_log()
            time.sleep(0.01)

    def _poll_log(self):
        new = self.log.poll()
        if new and self.verbose:
            sys.stderr.buffer.write(new)
            sys.stderr.buffer.flush()
        return new

    # ---- frames; their form is described in agent.c ----

    def _send(self, kind, data):
        try:
            self.line.sendall(FRAME.pack(MAGIC, ord(kind), self.id, len(data)) + data)
        except OSError:
            pass    # seen as a machine that went away

    def _frames(self, timeout):
        if not select.select([self.line], [], [], timeout)[0]:
            return
        try:
            new = self.line.recv(1 << 16)
        except OSError:
            new = b""
        if not new:
            time.sleep(min(timeout, 0.05))   # QEMU is ending
        self.received += new
        while True:
            start = self.received.find(MAGIC)
            if start < 0:
                self.received = self.received[-len(MAGIC):]
                return
            self.received = self.received[start:]
            if len(self.received) < FRAME.size:
                return
            _, kind, number, length = FRAME.unpack_from(self.received)
            if len(self.received) < FRAME.size + length:
                return
            data = self.received[FRAME.size:FRAME.size + length]
            self.received = self.received[FRAME.size + length:]
            yield chr(kind), number, data
