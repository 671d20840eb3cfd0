# SPDX-License-Identifier: MIT
# Benchmarks: what hugepin's pools cost, beside what people use instead.
# Debian: libmimalloc2.0 libjemalloc2 libtcmalloc-minimal4 libtbbmalloc2 libmemkind0 gnuplot-nox valgrind

BENCH_OBJ := $(patsubst %.c,$(O)/%.o,$(wildcard tools/bench/*.c))
BENCH := $(O)/bin/hugepin-bench

$(BENCH): $(BENCH_OBJ) $(LIB_LINK)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -Wl,-z,relro,-z,now -Wl,-rpath,'$$ORIGIN/../lib' -o $@ $(BENCH_OBJ) $(LIB_LINK) -ldl

all: $(BENCH)

.PHONY: bench bench-quick
bench: $(BENCH) $(TRACE)
	tools/bench/bench --build $(O)
bench-quick: $(BENCH) $(TRACE)
	tools/bench/bench --build $(O) --quick
