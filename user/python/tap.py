# SPDX-License-Identifier: MIT
"""Runs modules of tests and prints TAP: tap.py MODULE..."""
import sys
import unittest


class TapResult(unittest.TestResult):
    """A line for each test as it ends; a test with failed subtests failed once."""

    def __init__(self):
        super().__init__()
        self.count = self.failed = 0
        self.trouble = []
        self.skip = None

    def startTest(self, test):
        super().startTest(test)
        self.trouble, self.skip = [], None

    def addError(self, test, err):
        super().addError(test, err)
        self.note(self.errors[-1][1], test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note(self.failures[-1][1], test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.skip = reason

    def note(self, text, test):
        self.trouble.append(text)
        if not isinstance(test, unittest.TestCase):     # a module or class that could not be set up
            self.stopTest(test)

    def stopTest(self, test):
        super().stopTest(test)
        self.count += 1
        self.failed += bool(self.trouble)
        skip = f" # SKIP {self.skip}" if self.skip is not None and not self.trouble else ""
        print(f"{'not ok' if self.trouble else 'ok'} {self.count} - {test.id()}{skip}")
        for line in "".join(self.trouble).splitlines():
            print("#", line)
        sys.stdout.flush()


def main():
    result = TapResult()
    unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:]).run(result)
    print(f"1..{result.count}")
    skipped = len(result.skipped)
    print(f"{result.count - result.failed - skipped} passed, {result.failed} failed, {skipped} skipped")
    sys.exit(bool(result.failed or not result.count))


if __name__ == "__main__":
    main()
