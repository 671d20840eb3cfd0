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

-include tests/loopback/loopback.mk
-include tests/kselftest/kselftest.mk
-include tests/gpu/gpu.mk
-include tests/cases/cases.mk
-include tests/fuzz/fuzz.mk
-include tests/cases/container/container.mk
-include tests/cases/options/options.mk
