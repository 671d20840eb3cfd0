# SPDX-License-Identifier: MIT
# The preload shim. It uses the shared library, so that a program that does too has one library only.

SHIM_SRC := $(wildcard user/shim/*.c)
SHIM_OBJ := $(SHIM_SRC:%.c=$(O)/%.o)
SHIM := $(O)/lib/libhugepin-shim.so
# It is found by hugepinctl run alone: not among the libraries that programs link.
SHIM_DIR := $(LIBDIR)/hugepin
SHIM_RPATH := $(if $(RPATH),-Wl$(comma)-rpath$(comma)'$$ORIGIN:$$ORIGIN/..')

# -fno-builtin: a compiler that knows malloc makes calloc() out of our calloc's parts, which would never end.
$(SHIM_OBJ): CFLAGS += -fPIC -fvisibility=hidden -fno-builtin

$(SHIM): $(SHIM_OBJ) $(LIB_LINK)
	@mkdir -p $(@D)
	$(CC) -shared $(LDFLAGS) -Wl,-z,defs -Wl,-z,relro,-z,now $(SHIM_RPATH) -o $@ $(SHIM_OBJ) \
		$(LIB_LINK) -ldl

# A sanitizer has a malloc of its own and wants to be first: there the shim's code is tested linked (shim_test.mk).
ifeq ($(SAN),)
all: $(SHIM)

install: install-shim
.PHONY: install-shim
install-shim: all
	install -d $(DESTDIR)$(SHIM_DIR)
	install -m 755 $(SHIM) $(DESTDIR)$(SHIM_DIR)
endif

# Where hugepinctl run looks if the shim is not beside it.
$(O)/user/hugepinctl/run.o: CPPFLAGS += -DSHIM_DIR='"$(SHIM_DIR)"'

-include tests/cases/shim/shim_test.mk
