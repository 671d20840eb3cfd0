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
$(O)/$(KST_DIR)/fault_test $(O)/$(KST_DIR)/load_fault_test: $(O)/$(KST_DIR)/inject.o
$(KST_BIN): $(O)/$(KST_DIR)/%: $(O)/$(KST_DIR)/%.o $(KST_COMMON)
	$(CC) $(LDFLAGS) $(KST_STATIC) -o $@ $(sort $^) $(KST_LIBS)

# kills any program at its Nth system call; leaves a node's memory in fragments
KST_TOOLS := $(O)/$(KST_DIR)/killat $(O)/$(KST_DIR)/fragment
$(KST_TOOLS): %: %.o
	$(CC) $(LDFLAGS) $(KST_STATIC) -o $@ $^

# libibverbs loads its devices' providers
$(O)/$(KST_DIR)/rdma_test: KST_STATIC :=
$(O)/$(KST_DIR)/rdma_test: KST_LIBS := -libverbs

$(O)/$(KST_DIR)/run: $(KST_DIR)/run
	@mkdir -p $(@D)
	cp $< $@

# The same programs as 32-bit ones, for the calls of such processes. They want gcc-multilib, so they are not built unasked.
KST32_DIR := $(O)/$(KST_DIR)/32
KST32_NAMES := $(patsubst %,%_test,refuse create policy names directory list use mapping range dmabuf)
KST32_BIN := $(KST32_NAMES:%=$(KST32_DIR)/%)
KST32_COMMON := $(patsubst %,$(KST32_DIR)/%.o,ktap reserve region driver)
KST32_FLAGS := -m32 -D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64

$(KST32_DIR)/%.o: CPPFLAGS := -D_GNU_SOURCE -Ikmod -I$(KST_DIR)
$(KST32_DIR)/%.o: $(KST_DIR)/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(KST32_FLAGS) -c $< -o $@

$(KST32_DIR)/mapping_test: $(KST_MAPPING:$(O)/$(KST_DIR)/%=$(KST32_DIR)/%)
$(KST32_BIN): $(KST32_DIR)/%: $(KST32_DIR)/%.o $(KST32_COMMON)
	$(CC) $(LDFLAGS) -m32 -static -o $@ $(sort $^)

$(KST32_DIR)/run: $(KST_DIR)/run
	@mkdir -p $(@D)
	cp $< $@

.PHONY: kselftest kselftest32 check-debug
kselftest32: $(KST32_BIN) $(KST32_DIR)/run

check-debug: all tests
	tests/kselftest/debug

kselftest: $(KST_BIN) $(O)/$(KST_DIR)/run $(KST_TOOLS)
tests: kselftest
