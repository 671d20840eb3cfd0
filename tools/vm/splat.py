# SPDX-License-Identifier: MIT
"""What in a kernel log means that something is wrong, and the part of the log that shows it."""
import re

# Each is searched in the text after the time stamp. Not among them: what the kernel says of a page that keeps a memory
# block online, and of a kobject that there was no memory for.
SPLATS = re.compile(r"""
    ^WARNING:\ | ^BUG:\ | kernel\ BUG\ at | ^Oops | Oops: | ^general\ protection\ fault | ^Kernel\ panic
  | ^double\ fault | ^stack\ segment | ^invalid\ opcode | ^traps:\ PANIC | unable\ to\ handle | Unable\ to\ handle
  | Bad\ rss-counter | [Bb]ad\ page\ (state|map) | :\ bad\ (pgd|p4d|pud|pmd|pte)\b
  | refcount_t: | ^sysfs:\ cannot\ create\ duplicate | ^kobject:.*tried\ to\ (init|add)
  | kobject_add_internal\ failed(?!.*error:\ -12\ )
  | ^KASAN | ^KCSAN | ^KFENCE | ^UBSAN | ^KMSAN | ^kmemleak:.*(disabled|error)
  | possible\ recursive\ locking | possible\ (circular|irq)\ | ^INFO:\ (possible|trying\ to\ register|suspicious)
  | suspicious\ RCU\ usage | DEBUG_LOCKS_WARN_ON | bad\ unlock\ balance | lock\ held\ when\ returning | ^ODEBUG:
  | sleeping\ function\ called | scheduling\ while\ atomic | list_(add|del)\ corruption | \blist_(add|del)_
  | ^VFS:\ Busy\ inodes | Objects\ remaining | ^page\ dumped\ because(?!:\ unmovable\ page) | page\ allocation\ failure
  | ^Disabling\ lock\ debugging\ due\ to\ (?!kernel\ taint) | ^usercopy: | ^pagealloc:
""", re.X)

# Something did not get on for a long time: a real deadlock looks like this, and so does an emulated CPU on a busy host.
STALLS = re.compile(r"""
    rcu.*detected\ .*stall | rcu.*kthread\ .*starved | rcu.*stall\ on\ CPU | soft\ lockup | hard\ LOCKUP
  | workqueue\ lockup | blocked\ for\ more\ than
""", re.X)

# After one of these the command may never end.
FATAL = re.compile(r"kernel BUG at|^Oops|Oops: |general protection fault|[Uu]nable to handle|^BUG: kernel NULL")
PANIC = re.compile(r"Kernel panic - not syncing")

STAMP = re.compile(r"^(?:<\d+>)?\[ *\d+\.\d+\](?:\[ *[TC]\d+\])? ?")
NOISE = re.compile(r"(R(?!IP)[A-Z0-9]{2}|[CDEF]S|CR\d|PKRU|Code|Hardware name|Tainted|Modules linked in|DR\d)\b.*:")
END = re.compile(r"---\[ end ")

EXCERPT_LINES = 70
EXCERPTS = 3


class Log:
    """A console log that still grows: complete lines so far, and which of them are wrong."""

    def __init__(self, path, offset=0, allowed=None):
        self.path = path
        self.offset = offset    # of the first byte not taken yet
        self.allowed = allowed
        self.lines = []
        self.wrong = []         # indices into lines
        self.stalls = []
        self.fatal = False
        self.panic = False
        self.partial = b""

    def poll(self):
        """Take what is new. Returns the new bytes."""
        try:
            with open(self.path, "rb") as log:
                log.seek(self.offset)
                new = log.read()
        except FileNotFoundError:
            return b""
        self.offset += len(new)
        *complete, self.partial = (self.partial + new).split(b"\n")
        for raw in complete:
            self._add(raw.decode("utf-8", "replace").rstrip("\r"))
        return new

    def _add(self, line):
        text = STAMP.sub("", line)
        self.lines.append(line)
        if self.allowed and self.allowed.search(text):
            return
        if STALLS.search(text):
            self.stalls.append(len(self.lines) - 1)
        elif SPLATS.search(text):
            self.wrong.append(len(self.lines) - 1)
        self.fatal = self.fatal or bool(FATAL.search(text))
        self.panic = self.panic or bool(PANIC.search(text))

    def forget(self):
        """Judge only what comes from here on; returns the lines that were wrong so far."""
        before = [self.lines[i] for i in self.wrong + self.stalls]
        self.lines, self.wrong, self.stalls = [], [], []
        return before

    def has(self, text):
        return any(text in line for line in self.lines)

    def tail(self, count=40):
        return self.lines[-count:] + ([self.partial.decode("utf-8", "replace")] if self.partial else [])

    def since(self, text, count=80):
        """The end of the log from TEXT on, without what says nothing about a CPU that is merely asked."""
        start = next((i for i, line in enumerate(self.lines) if text in line), 0)
        return [line for line in self.lines[start:] if not NOISE.match(STAMP.sub("", line))][:count]

    def excerpts(self):
        """The lines around each splat; splats that follow within one excerpt are part of it."""
        shown, until = [], -1
        marks = sorted(self.wrong + self.stalls)
        for mark in marks:
            if mark < until:
                continue
            if len(shown) == EXCERPTS:
                shown.append(["… and more; the whole log: --log FILE"])
                break
            first = mark - 1 if mark and "cut here" in self.lines[mark - 1] else mark
            until = min(first + EXCERPT_LINES, len(self.lines))
            for i in range(mark, until):
                if END.search(self.lines[i]) or "hugepin-vm: " in self.lines[i]:
                    until = i + 1
                    break
            shown.append(self.lines[first:until])
        return shown
