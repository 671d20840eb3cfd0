# SPDX-License-Identifier: MIT
# libhugepin, shared and static.

LIB_SRC := $(wildcard lib/*.c)
LIB_OBJ := $(LIB_SRC:%.c=$(O)/%.o)
LIB_LIBS := -lnuma -ldl
# no -z defs under sanitizers: clang's runtime is in the program, not in the library
LIB_LDFLAGS := -Wl,-Bsymbolic-functions -Wl,--version-script=lib/libhugepin.map $(if $(SAN),,-Wl,-z,defs) -Wl,-z,relro,-z,now -Wl,-z,nodelete
LIB_SO := $(O)/lib/libhugepin.so.$(VERSION)
LIB_A := $(O)/lib/libhugepin.a
LIB_LINK := $(O)/lib/libhugepin.so

$(LIB_OBJ): CFLAGS += -fPIC -fno-semantic-interposition -Ilib

$(LIB_SO): $(LIB_OBJ) lib/libhugepin.map
	@mkdir -p $(@D)
	$(CC) -shared $(LDFLAGS) $(LIB_LDFLAGS) -Wl,-soname,libhugepin.so.$(SOVERSION) -o $@ $(LIB_OBJ) $(LIB_LIBS)

$(LIB_LINK): $(LIB_SO)
	ln -sf $(notdir $(LIB_SO)) $(O)/lib/libhugepin.so.$(SOVERSION)
	ln -sf libhugepin.so.$(SOVERSION) $@

$(LIB_A): $(LIB_OBJ)
	rm -f $@
	$(AR) rcs $@ $(LIB_OBJ)

all: $(LIB_LINK) $(LIB_A)

.PHONY: abi-check abi-update
abi-check: $(LIB_SO)
	tools/check.d/library-abi $(LIB_SO)

abi-update: $(LIB_SO)
	tools/check.d/library-abi --update $(LIB_SO)

install: install-lib
.PHONY: install-lib
install-lib: all
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(PREFIX)/include
	install -m 644 $(LIB_A) $(DESTDIR)$(LIBDIR)
	install -m 755 $(LIB_SO) $(DESTDIR)$(LIBDIR)
	ln -sf $(notdir $(LIB_SO)) $(DESTDIR)$(LIBDIR)/libhugepin.so.$(SOVERSION)
	ln -sf libhugepin.so.$(SOVERSION) $(DESTDIR)$(LIBDIR)/libhugepin.so
	sed -e 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(VERSION)|' lib/hugepin.pc.in \
		> $(DESTDIR)$(LIBDIR)/pkgconfig/hugepin.pc
	install -m 644 lib/include/hugepin.h $(DESTDIR)$(PREFIX)/include
	install -d $(DESTDIR)$(PREFIX)/include/linux
	install -m 644 kmod/uapi/hugepin.h $(DESTDIR)$(PREFIX)/include/linux
	install -d $(DESTDIR)$(LIBDIR)/cmake/hugepin $(DESTDIR)$(PREFIX)/share/man/man3
	sed -e 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(VERSION)|' lib/hugepin-config.cmake.in \
		> $(DESTDIR)$(LIBDIR)/cmake/hugepin/hugepin-config.cmake
	sed -e 's|@VERSION@|$(VERSION)|' lib/hugepin-config-version.cmake.in \
		> $(DESTDIR)$(LIBDIR)/cmake/hugepin/hugepin-config-version.cmake
	install -m 644 Documentation/man/libhugepin.3 $(DESTDIR)$(PREFIX)/share/man/man3
