# SPDX-License-Identifier: MIT
# The Python file needs no building. It goes where that Python looks which is installed.

PYTHON ?= /usr/bin/python3
PYTHONDIR ?= $(PREFIX)/lib/python$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')/dist-packages

install: install-python
.PHONY: install-python
install-python:
	install -d $(DESTDIR)$(PYTHONDIR)
	install -m 644 user/python/hugepin.py $(DESTDIR)$(PYTHONDIR)
