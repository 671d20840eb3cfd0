# SPDX-License-Identifier: MIT
# User space: library, programs, tests. The module is built by Kbuild (make modules), for the kernels of the test matrix
# by tools/vm/kernel.
#
#	make [all]	library, programs, tools
#	make tests	unit tests, stand-in runtimes, programs that run inside virtual machines
#	make unit	build and run the unit tests
#	make check-asan check-tsan check-valgrind	the same under checkers
#	make coverage	how much of the library they run: build/coverage/index.html
#	make bench	what pools cost, beside other allocators (bench-quick: in two minutes)
#	make check-debug	the self-tests on the debug kernel, in a virtual machine
#	make modules	the module, for the running kernel (KDIR=... for another)
#	make V=1 ...	show the commands
#	make install	PREFIX=/usr/local DESTDIR=; modules_install for the module (INSTALL_MOD_PATH=)
#	make deb	Debian packages into build/deb/

O ?= build
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
SYSCONFDIR ?= /etc
KDIR ?= /lib/modules/$(shell uname -r)/build

VERSION := $(shell awk '/define HUGEPIN_VERSION_(MAJOR|MINOR|PATCH)/ { v = v s $$3; s = "." } END { print v }' lib/include/hugepin.h)
SOVERSION := 0

CC ?= gcc
OPT ?= -O2 -g
SAN ?=
WERROR ?= -Werror
WARN := -Wall -Wextra $(WERROR) -Wmissing-prototypes -Wstrict-prototypes -Wpointer-arith -Wvla
CPPFLAGS += -D_GNU_SOURCE -Ilib/include -Ikmod/uapi
CFLAGS += -std=gnu11 $(OPT) $(WARN) $(SAN) -MMD -MP -pthread
LDFLAGS += $(SAN) -pthread

# quiet unless V=1
ifneq ($(V),1)
MAKEFLAGS += -s
endif

comma := ,

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all tests unit modules modules_install install clean

all:
tests:

$(O)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c $< -o $@

include lib/lib.mk
-include user/user.mk
-include tools/trace/trace.mk
-include tools/doc/doc.mk
-include tools/demo.d/demo.mk
-include tools/bench/bench.mk
-include user/boot/boot.mk user/packaging/packaging.mk
-include tests/tests.mk

modules modules_install:
	$(MAKE) -C $(KDIR) M=$(CURDIR)/kmod $@

clean:
	rm -rf $(O)

-include $(shell find $(O) -type f -name '*.d' 2>/dev/null)
