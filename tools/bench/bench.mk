# SPDX-License-Identifier: MIT
# Benchmarks: what hugepin's pools cost, beside what people use instead; and what the module does, in virtual machines.
# Debian: libmimalloc2.0 libjemalloc2 libtcmalloc-minimal4 libtbbmalloc2 libmemkind0 librte-eal23 gnuplot-nox valgrind

BENCH_OBJ := $(patsubst %.c,$(O)/%.o,$(wildcard tools/bench/*.c))
BENCH := $(O)/bin/hugepin-bench

$(BENCH): $(BENCH_OBJ) $(LIB_LINK)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -Wl,-z,relro,-z,now -Wl,-rpath,'$$ORIGIN/../lib' -o $@ $(BENCH_OBJ) $(LIB_LINK) -ldl

# Runs in virtual machines (vm.py), with the module, the test module and the stand-in driver.
BENCH_VM_OBJ := $(patsubst %.c,$(O)/%.o,$(wildcard tools/bench/vm/*.c))
BENCH_VM := $(O)/bin/hugepin-bench-vm

$(BENCH_VM_OBJ): CPPFLAGS += -Itests/kselftest/module

$(BENCH_VM): $(BENCH_VM_OBJ) $(LIB_LINK)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -Wl,-z,relro,-z,now -Wl,-rpath,'$$ORIGIN/../lib' -o $@ $(BENCH_VM_OBJ) $(LIB_LINK)

all: $(BENCH) $(BENCH_VM)

.PHONY: bench bench-quick
bench: all tests
	tools/bench/bench --build $(O)
bench-quick: all tests
	tools/bench/bench --build $(O) --quick
