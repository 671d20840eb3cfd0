# SPDX-License-Identifier: MIT
# Programs that tests/cases/shim_test.sh runs under the shim, and the stand-ins they meet there. In a sanitizer's
# build only what links the shim's code: the rest would be preloaded.

SHIM_TEST := $(O)/tests/cases/shim
SHIM_TEST_CUDA := $(SHIM_TEST)/libcuda.so.1
SHIM_TEST_CUDART := $(SHIM_TEST)/libcudart.so.12
SHIM_TEST_HEAP := $(addprefix $(SHIM_TEST)/,heap forks early exits)
SHIM_TEST_BIN := $(addprefix $(SHIM_TEST)/,dynamic static dlsym procaddress plugin libplugin.so contract deferred) \
	$(SHIM_TEST_HEAP)

$(SHIM_TEST)/%.o: CPPFLAGS += -Itests/loopback
$(SHIM_TEST)/driver.o $(SHIM_TEST)/cudart.o: CFLAGS += -fPIC
# A compiler that knows malloc would leave calls out.
$(SHIM_TEST_HEAP:%=%.o) $(SHIM_TEST)/stress.o: CFLAGS += -fno-builtin

# -Bsymbolic: cuGetProcAddress() gives the driver's own functions, as the real one does.
SHIM_TEST_MODEL := $(filter-out %/hip.c %/acl.c,$(wildcard tests/loopback/*.c))
$(SHIM_TEST_CUDA): $(SHIM_TEST)/driver.o $(SHIM_TEST_MODEL:%.c=$(O)/%.o)
	$(CC) -shared $(LDFLAGS) -Wl,-Bsymbolic -Wl,-soname,libcuda.so.1 -Wl,-z,defs -o $@ $^ -ldl

$(SHIM_TEST_CUDART): $(SHIM_TEST)/cudart.o
	$(CC) -shared $(LDFLAGS) -Wl,-soname,libcudart.so.12 -Wl,-z,defs -o $@ $^ -ldl

SHIM_TEST_LINK = $(CC) $(LDFLAGS) -Wl,-rpath,'$$ORIGIN' -o $@ $^ -ldl

$(SHIM_TEST)/dynamic: $(SHIM_TEST)/hostalloc.o $(SHIM_TEST_CUDART)
	$(SHIM_TEST_LINK)
$(SHIM_TEST)/static: $(SHIM_TEST)/hostalloc.o $(SHIM_TEST)/cudart.o
	$(SHIM_TEST_LINK)
$(SHIM_TEST)/dlsym $(SHIM_TEST)/procaddress: $(SHIM_TEST)/%: $(SHIM_TEST)/hostalloc_%.o
	$(SHIM_TEST_LINK)
$(SHIM_TEST)/hostalloc_dlsym.o: tests/cases/shim/hostalloc.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -DBY_DLSYM -c $< -o $@
$(SHIM_TEST)/hostalloc_procaddress.o: tests/cases/shim/hostalloc.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -DBY_PROC_ADDRESS -c $< -o $@
$(SHIM_TEST)/hostalloc_plugin.o: tests/cases/shim/hostalloc.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -fPIC -DPLUGIN -c $< -o $@
$(SHIM_TEST)/libplugin.so: $(SHIM_TEST)/hostalloc_plugin.o $(SHIM_TEST_CUDART)
	$(SHIM_TEST_LINK) -shared
$(SHIM_TEST)/plugin: $(SHIM_TEST)/plugin.o
	$(SHIM_TEST_LINK)
$(SHIM_TEST)/contract $(SHIM_TEST)/deferred: $(SHIM_TEST)/%: $(SHIM_TEST)/%.o $(SHIM_TEST_CUDART) $(SHIM_TEST_CUDA)
	$(SHIM_TEST_LINK)
$(SHIM_TEST_HEAP): %: %.o
	$(SHIM_TEST_LINK)

# The shim's code without its malloc(): what a sanitizer can look at.
SHIM_TEST_LINKED := $(addprefix $(O)/user/shim/,blocks.o fork.o gate.o host.o pool.o settings.o)
$(SHIM_TEST)/stress.o $(SHIM_TEST)/signals.o: CPPFLAGS += -Iuser/shim
$(SHIM_TEST)/stress: $(SHIM_TEST)/stress.o $(SHIM_TEST_LINKED) $(LIB_A)
	$(CC) $(LDFLAGS) -o $@ $^ $(LIB_LIBS)
$(SHIM_TEST)/signals: $(SHIM_TEST)/signals.o $(O)/user/shim/settings.o
	$(CC) $(LDFLAGS) -o $@ $^

.PHONY: shim-tests
shim-tests: $(SHIM_TEST)/stress $(SHIM_TEST)/signals
ifeq ($(SAN),)
shim-tests: $(SHIM) $(CTL) $(SHIM_TEST_CUDA) $(SHIM_TEST_CUDART) $(SHIM_TEST_BIN)
endif
tests: shim-tests
