# SPDX-License-Identifier: MIT
# The reference pages of the options, made from their table, and the checks on what the library promises to the outside.
#
#	make options-doc	write Documentation/options.md and hugepin-options(5)
#	make options-doc-check	fail if one of them is stale
#	make header-check	hugepin.h compiles on its own as C11 and C++17, with every compiler of CHECK_COMPILERS
#	make exports-check	the shared library exports just what hugepin.h declares

OPTIONS_DOC := $(O)/tools/doc/options_doc
CHECK_COMPILERS ?= gcc clang
HEADER_WARN := -Wall -Wextra -Wpedantic -Werror

$(OPTIONS_DOC): $(O)/tools/doc/options_doc.o $(LIB_A)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $< $(LIB_A) $(LIB_LIBS)

.PHONY: options-doc options-doc-check header-check exports-check

options-doc: $(OPTIONS_DOC)
	$(OPTIONS_DOC) md >$(O)/options.md
	$(OPTIONS_DOC) man >$(O)/hugepin-options.5
	cp $(O)/options.md Documentation/options.md
	cp $(O)/hugepin-options.5 Documentation/man/hugepin-options.5

options-doc-check: $(OPTIONS_DOC)
	$(OPTIONS_DOC) md --check Documentation/options.md
	$(OPTIONS_DOC) man --check Documentation/man/hugepin-options.5

header-check:
	set -e; for cc in $(CHECK_COMPILERS); do \
		$$cc -x c -std=c11 $(HEADER_WARN) -fsyntax-only -include lib/include/hugepin.h /dev/null; \
		$$cc -x c++ -std=c++17 $(HEADER_WARN) -fsyntax-only -include lib/include/hugepin.h /dev/null; \
	done

exports-check: $(LIB_SO)
	CC="$(CC)" tests/unit/exports_check.sh $(LIB_SO) lib/include/hugepin.h lib/libhugepin.map
