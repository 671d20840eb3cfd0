# SPDX-License-Identifier: MIT
# Programs that run inside virtual machines, next to the module (tests/kselftest/run). Static, so that they need nothing
# of the machine; a sanitizer's runtime cannot be linked that way. They know the module's ABI and the C library, not ours.

KST_DIR := tests/kselftest
KST_NAMES := $(patsubst $(KST_DIR)/%.c,%,$(wildcard $(KST_DIR)/*_test.c))
KST_BIN := $(KST_NAMES:%=$(O)/$(KST_DIR)/%)
KST_COMMON := $(patsubst %,$(O)/$(KST_DIR)/%.o,ktap reserve region driver)
KST_MAPPING := $(patsubst $(KST_DIR)/%.c,$(O)/$(KST_DIR)/%.o,$(wildcard $(KST_DIR)/mapping_*.c))
KST_STATIC := $(if $(SAN),,-static)

# hugepin.h exists twice, once for the module's ABI and once for the library: here it is uapi/hugepin.h.
$(O)/$(KST_DIR)/%.o: CPPFLAGS := -D_GNU_SOURCE -Ikmod -I$(KST_DIR)

$(O)/$(KST_DIR)/mapping_test: $(KST_MAPPING)
$(O)/$(KST_DIR)/fault_test: $(O)/$(KST_DIR)/fault_calls.o
$(KST_BIN): $(O)/$(KST_DIR)/%: $(O)/$(KST_DIR)/%.o $(KST_COMMON)
	$(CC) $(LDFLAGS) $(KST_STATIC) -o $@ $(sort $^) $(KST_LIBS)

# libibverbs loads its devices' providers
$(O)/$(KST_DIR)/rdma_test: KST_STATIC :=
$(O)/$(KST_DIR)/rdma_test: KST_LIBS := -libverbs

$(O)/$(KST_DIR)/run: $(KST_DIR)/run
	@mkdir -p $(@D)
	cp $< $@

.PHONY: kselftest check-debug
check-debug: all tests
	tests/kselftest/debug

kselftest: $(KST_BIN) $(O)/$(KST_DIR)/run
tests: kselftest
