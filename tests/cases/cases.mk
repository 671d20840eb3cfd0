# SPDX-License-Identifier: MIT
# Programs that the scripts of tests/cases use inside virtual machines.

$(O)/tests/cases/%: $(O)/tests/cases/%.o
	$(CC) $(LDFLAGS) -o $@ $< -lnuma

tests: $(O)/tests/cases/fragmenter
