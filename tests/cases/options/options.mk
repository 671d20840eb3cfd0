# SPDX-License-Identifier: MIT
# Programs that are configured in other systems' words; tests/cases/options_test.sh runs them. They find the library as
# hugepinctl does.

OPTION_JOBS := $(patsubst tests/cases/options/%.c,$(O)/tests/cases/options_%,$(wildcard tests/cases/options/*.c))

$(OPTION_JOBS): $(O)/tests/cases/options_%: $(O)/tests/cases/options/%.o $(LIB_LINK)
	$(CC) $(LDFLAGS) -Wl,-rpath,'$$ORIGIN/../../lib' -o $@ $< $(LIB_LINK)

tests: $(OPTION_JOBS)
