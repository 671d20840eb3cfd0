# SPDX-License-Identifier: MIT
# The module under stress, in a virtual machine; static, since it is alone there. Then the library's pools, here.
#
#	make stress DURATION=60 [STRESS_VM=7-debug]

STRESS := $(O)/tests/stress/stress
STRESS_OBJ := $(patsubst %.c,$(O)/%.o,$(wildcard tests/stress/*.c)) \
	$(addprefix $(O)/tests/fuzz/kernel/,balance.o knobs.o)
STRESS_VM ?= 7 6.12 6.1

$(STRESS_OBJ): CPPFLAGS := -D_GNU_SOURCE -I.
$(STRESS): $(STRESS_OBJ)
	$(CC) $(LDFLAGS) $(if $(SAN),,-static) -o $@ $^

tests: $(STRESS)

.PHONY: stress
stress: all tests
	tests/stress/vm $(DURATION) $(STRESS_VM)
	tests/stress/pools $(DURATION)
