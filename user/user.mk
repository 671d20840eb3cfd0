# SPDX-License-Identifier: MIT
# Programs that people run. They link the shared library and know its public header only.

CTL_SRC := $(wildcard user/hugepinctl/*.c)
CTL_OBJ := $(CTL_SRC:%.c=$(O)/%.o)
CTL := $(O)/bin/hugepinctl
RPATH ?= -Wl,-rpath,'$$ORIGIN/../lib'
BINDIR ?= $(PREFIX)/bin
MANDIR ?= $(PREFIX)/share/man
COMPLETIONDIR ?= $(PREFIX)/share/bash-completion/completions
ZSHCOMPLETIONDIR ?= $(PREFIX)/share/zsh/site-functions

# The library is found beside the program, in the build tree and where it is installed.
$(CTL): $(CTL_OBJ) $(LIB_LINK)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -Wl,-z,relro,-z,now $(RPATH) -o $@ $(CTL_OBJ) $(LIB_LINK) -ljson-c

all: $(CTL)

# Written by the program itself, from the tables its help comes from.
CTL_COMPLETION := $(addprefix $(O)/completion/hugepinctl.,bash zsh)
$(CTL_COMPLETION): $(O)/completion/hugepinctl.%: $(CTL)
	@mkdir -p $(@D)
	LD_LIBRARY_PATH=$(O)/lib $(CTL) completion $* >$@

all: $(CTL_COMPLETION)

# What can be tested without a module: all but main() and what calls it.
CTL_TESTED := $(filter-out $(addprefix $(O)/user/hugepinctl/,main.o completion.o),$(CTL_OBJ))
CTL_TESTS := $(addprefix $(O)/tests/unit/,hugepinctl_test explain_test adopt_test doctor_test ps_test)
$(CTL_TESTS): $(CTL_TESTED)
$(CTL_TESTS): UNIT_LIBS += -ljson-c
$(CTL_TESTS:%=%.o): CPPFLAGS += -Iuser/hugepinctl

include user/shim/shim.mk
include user/python/python.mk user/examples/examples.mk

install: install-user
.PHONY: install-user
install-user: all
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(MANDIR)/man1 $(DESTDIR)$(MANDIR)/man5 \
		$(DESTDIR)$(COMPLETIONDIR) $(DESTDIR)$(ZSHCOMPLETIONDIR)
	install -m 755 $(CTL) $(DESTDIR)$(BINDIR)
	install -m 644 Documentation/man/hugepinctl.1 $(DESTDIR)$(MANDIR)/man1
	install -m 644 Documentation/man/hugepin-options.5 $(DESTDIR)$(MANDIR)/man5
	install -m 644 $(O)/completion/hugepinctl.bash $(DESTDIR)$(COMPLETIONDIR)/hugepinctl
	install -m 644 $(O)/completion/hugepinctl.zsh $(DESTDIR)$(ZSHCOMPLETIONDIR)/_hugepinctl
