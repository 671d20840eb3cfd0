# SPDX-License-Identifier: MIT
# The stand-in CUDA driver that tests load as libcuda.so.1, and what unit tests need for it.

comma := ,

LOOPBACK_SRC := $(wildcard tests/loopback/*.c)
LOOPBACK_OBJ := $(LOOPBACK_SRC:%.c=$(O)/%.o)
LOOPBACK_CUDA := $(O)/tests/loopback/libcuda.so.1

$(LOOPBACK_OBJ): CFLAGS += -fPIC -fvisibility=hidden

$(LOOPBACK_CUDA): $(LOOPBACK_OBJ)
	$(CC) -shared $(LDFLAGS) -Wl,-soname,libcuda.so.1 -Wl,-z,defs -o $@ $^ -ldl

tests: $(LOOPBACK_CUDA)

# They find it beside them, by DT_RPATH: a sanitizer's dlopen() is not the program's and knows no DT_RUNPATH of it.
LOOPBACK_TESTS := $(addprefix $(O)/tests/unit/,cuda_device_test cuda_fence_test runtime_test register_test)
$(LOOPBACK_TESTS): $(LOOPBACK_CUDA)
$(LOOPBACK_TESTS): private LDFLAGS += -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/../loopback'

# These stand for the module: they wrap the library's system calls (fake_module.c).
MODULE_TESTS := $(addprefix $(O)/tests/unit/,context_test ladder_test listing_test pin_test provider_test region_test reserve_test)
$(O)/tests/unit/fake_module.o: CPPFLAGS += -Ilib
$(MODULE_TESTS): $(O)/tests/unit/fake_module.o
$(MODULE_TESTS): private LDFLAGS += $(addprefix -Wl$(comma)--wrap=hpi_sys_,ioctl open file_system read_file write_file)
