# SPDX-License-Identifier: MIT
# The program that tools/demo runs inside a machine. It knows the library's public header, and the headers of the test
# module and of the stand-in driver.
# Debian: libjson-c-dev libnuma-dev

DEMO_SRC := $(wildcard tools/demo.d/*.c)
DEMO_OBJ := $(DEMO_SRC:%.c=$(O)/%.o)
DEMO := $(O)/bin/hugepin-demo

$(DEMO_OBJ): CPPFLAGS += -Itests/kselftest/module -Itests/loopback

$(DEMO): $(DEMO_OBJ) $(LIB_LINK)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -Wl,-z,relro,-z,now -Wl,-rpath,'$$ORIGIN/../lib' -o $@ $(DEMO_OBJ) $(LIB_LINK) \
		-ljson-c -lnuma -ldl

.PHONY: demo
demo: $(DEMO)
all: $(DEMO)
