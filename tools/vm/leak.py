# SPDX-License-Identifier: MIT
"""Memory that our modules have lost, on kernels with kmemleak (7-debug): scanning, and whose a report is.

kmemleak knows an allocation by who made it. Looked is after unloading, when nothing of ours can hold anything any more;
by then the functions in a report are bare addresses, so their names are asked for before.
"""
import bisect
import io
import re

from machine import Trouble

# Reported is what two scans find unreferenced and unchanged, and what is older than five seconds then.
SCAN = r"""
cd /sys/kernel/debug && [ -e kmemleak ] || exit 0
sleep 6 & echo scan >kmemleak && wait && echo scan >kmemleak && cat kmemleak
"""
SYMBOLS = r"""
[ -e /sys/kernel/debug/kmemleak ] || exit 0
grep -i ' t .*\[hugepin' /proc/kallsyms || :
"""
SECONDS = 400       # each scan reads all of the machine's memory map

# A bare address where modules lie: the kernel's own code and other modules have names.
ADDRESS = re.compile(r"\b0x(ffffffff[a-f][0-9a-f]{7})$", re.M)
OURS = re.compile(r"\[hugepin\w*\]|" + ADDRESS.pattern, re.M)


class Leaks:
    def __init__(self, run):
        self.run = run          # run(script, timeout, out) -> exit status
        self.names = {}         # address -> function of our modules and which module
        self.addresses = []
        self.elsewhere = 0      # reports that are not ours

    def _ask(self, script):
        out = io.BytesIO()
        if self.run(script, SECONDS, out) != 0:
            raise Trouble("kmemleak did not answer")
        return out.getvalue().decode("utf-8", "replace")

    def prepare(self):
        """While the modules are loaded: remember where their functions are."""
        for address, _, name, module in (row.split() for row in self._ask(SYMBOLS).splitlines()):
            self.names[int(address, 16)] = (name, module)
        self.addresses = sorted(self.names)

    def find(self):
        """The reports that are our modules'."""
        reports = ["unreferenced object" + part.rstrip() for part in self._ask(SCAN).split("unreferenced object")[1:]]
        ours = [report for report in reports if OURS.search(report)]
        self.elsewhere = len(reports) - len(ours)
        return [ADDRESS.sub(self._name, report) for report in ours]

    def _name(self, match):
        address = int(match[1], 16)
        at = bisect.bisect_right(self.addresses, address)
        if not at:
            return match[0]
        start, (name, module) = self.addresses[at - 1], self.names[self.addresses[at - 1]]
        # Behind a module's last function there is only the rest of its page.
        inside = at < len(self.addresses) and self.names[self.addresses[at]][1] == module
        if not inside and start >> 12 != address >> 12:
            return match[0]
        return f"{name}+{address - start:#x} {module}"
