# SPDX-License-Identifier: MIT
# The Makefile of tools/testing/selftests/hugepin in a kernel's tree, where tools/kselftest-copy puts it.

CFLAGS += -std=gnu11 -O2 -g -Wall -D_GNU_SOURCE -I$(CURDIR)

programs := $(patsubst %.c,%,$(wildcard *_test.c))
# needs libibverbs
ifneq ($(shell pkg-config --exists libibverbs 2>/dev/null && echo yes),yes)
programs := $(filter-out rdma_test,$(programs))
endif

# the script runs the programs, in its order
TEST_PROGS := run
TEST_GEN_PROGS_EXTENDED := $(programs) fragment killat

include ../lib.mk

# alone: helpers of the tests
$(OUTPUT)/fragment $(OUTPUT)/killat: $(OUTPUT)/%: %.c
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $<

common := ktap.c reserve.c region.c driver.c
mapping := $(filter-out mapping_test.c,$(wildcard mapping_*.c))

$(programs:%=$(OUTPUT)/%): $(OUTPUT)/%: %.c $(common)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.c,$^) $(LDLIBS)
$(OUTPUT)/mapping_test: $(mapping)
$(OUTPUT)/fault_test: fault_calls.c inject.c
$(OUTPUT)/load_fault_test: inject.c
$(OUTPUT)/rdma_test: LDLIBS += -libverbs
