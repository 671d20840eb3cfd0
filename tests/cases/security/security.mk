# SPDX-License-Identifier: MIT
# The program that tests/cases/security_test.sh gives another's rights.

PRIVILEGED := $(O)/tests/cases/security_privileged

$(PRIVILEGED): $(O)/tests/cases/security/privileged.o $(LIB_A)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(LIB_LIBS)

tests: $(PRIVILEGED)
