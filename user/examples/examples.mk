# SPDX-License-Identifier: MIT
# Examples in C; those in Python need no building. They find the library as hugepinctl does.

EXAMPLES := $(patsubst user/examples/%.c,$(O)/examples/%,$(wildcard user/examples/*.c))

$(EXAMPLES): $(O)/examples/%: $(O)/user/examples/%.o $(LIB_LINK)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -Wl,-rpath,'$$ORIGIN/../lib' -o $@ $< $(LIB_LINK)

all: $(EXAMPLES)
