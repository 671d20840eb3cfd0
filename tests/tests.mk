# SPDX-License-Identifier: MIT
# Unit tests (tests/unit/*_test.c, cmocka) link the library's objects, so that they see what is hidden in it.

# UNIT="pool register" chooses some
UNIT_SRC := $(if $(UNIT),$(UNIT:%=tests/unit/%_test.c),$(wildcard tests/unit/*_test.c))
UNIT_BIN := $(UNIT_SRC:tests/unit/%.c=$(O)/tests/unit/%)

$(UNIT_BIN): CPPFLAGS += -Ilib -Itools/trace
$(O)/tests/unit/%: $(O)/tests/unit/%.o $(LIB_A)
	$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(LIB_A) -lcmocka $(LIB_LIBS) $(UNIT_LIBS)

$(O)/tests/unit/snapshot_test: UNIT_LIBS += -ljson-c

tests: $(UNIT_BIN)

unit: $(UNIT_BIN)
	tests/unit/run $(UNIT_BIN)

# The same under checkers: names for what tools/check does, and what takes too long for every landing.
.PHONY: check-asan check-tsan check-valgrind coverage
check-asan:
	$(MAKE) O=build/asan SAN=-fsanitize=address,undefined,leak unit

check-tsan:
	tools/check.d/tsan

# pool_misuse asks for more address space than there is, for which valgrind has another error than the kernel; ps reads the
# descriptors of a process, and finds valgrind's.
VALGRIND_SKIP := pool_misuse ps
check-valgrind: $(UNIT_BIN)
	tools/check.d/valgrind $(filter-out $(VALGRIND_SKIP:%=$(O)/tests/unit/%_test),$(UNIT_BIN))

coverage:
	find build/cov -name '*.gcda' -delete 2>/dev/null || :
	$(MAKE) O=build/cov OPT="-O0 -g" SAN=--coverage unit
	tools/check.d/coverage build/cov

-include tests/loopback/loopback.mk
-include tests/kselftest/kselftest.mk
-include tests/gpu/gpu.mk
-include tests/cases/cases.mk
-include tests/fuzz/fuzz.mk
-include tests/cases/container/container.mk
-include tests/cases/options/options.mk
-include tests/cases/security/security.mk
-include tests/model/model.mk
-include tests/fuzz/kernel/kernel.mk
-include tests/stress/stress.mk
-include tests/soak/soak.mk
