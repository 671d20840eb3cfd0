# SPDX-License-Identifier: MIT
# Hours of mixed work in a virtual machine: the module's own memory and the library's stay flat.
#
#	make soak DURATION=7200 [SOAK_VM=7]

SOAK := $(O)/tests/soak/client
SOAK_VM ?= 7

$(O)/tests/soak/client.o: CPPFLAGS += -I.
$(SOAK): $(O)/tests/soak/client.o $(O)/tests/stress/memory.o $(LIB_LINK)
	$(CC) $(LDFLAGS) -Wl,-rpath,'$$ORIGIN/../../lib' -o $@ $(filter %.o,$^) $(LIB_LINK)

tests: $(SOAK)

.PHONY: soak
soak: all tests
	tests/soak/vm $(DURATION) $(SOAK_VM)
