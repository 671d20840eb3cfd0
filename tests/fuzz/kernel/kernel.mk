# SPDX-License-Identifier: MIT
# The fuzzer of the module: a static program that runs in a virtual machine (tests/fuzz/kernel/vm).

FUZZK_DIR := tests/fuzz/kernel
FUZZK := $(O)/$(FUZZK_DIR)/fuzz
FUZZK_OBJ := $(patsubst %.c,$(O)/%.o,$(wildcard $(FUZZK_DIR)/*.c))
FUZZ_VM ?= 7

$(FUZZK_OBJ): CPPFLAGS := -D_GNU_SOURCE -I.
$(FUZZK): $(FUZZK_OBJ)
	$(CC) $(LDFLAGS) $(if $(SAN),,-static) -o $@ $^

tests: $(FUZZK)

.PHONY: fuzz-kernel
fuzz-kernel: all tests
	$(FUZZK_DIR)/vm $(FUZZ_VM) $(DURATION)
