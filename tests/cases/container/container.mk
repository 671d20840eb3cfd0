# SPDX-License-Identifier: MIT
# The job in the container of container_vm.sh.

TENANT := $(O)/tests/cases/tenant

$(TENANT): $(O)/tests/cases/container/tenant.o $(LIB_A)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(LIB_LIBS)

tests: $(TENANT)
