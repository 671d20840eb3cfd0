# SPDX-License-Identifier: MIT
# Programs that the scripts of tests/cases use inside virtual machines.

CASE_PROGRAMS := $(addprefix $(O)/tests/cases/,fragmenter holder)

$(CASE_PROGRAMS): $(O)/tests/cases/%: $(O)/tests/cases/%.o $(LIB_LINK)
	$(CC) $(LDFLAGS) -o $@ $< $(LIB_LINK) -lnuma

tests: $(CASE_PROGRAMS)
