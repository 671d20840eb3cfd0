# SPDX-License-Identifier: MIT
# The stand-in runtimes that tests load instead of the machine's, and what unit tests need for them.

comma := ,

# All are of one model; HIP and AscendCL have a face of their own on it, and show nothing else.
LOOPBACK_SRC := $(filter-out tests/loopback/hip.c tests/loopback/acl.c,$(wildcard tests/loopback/*.c))
LOOPBACK_OBJ := $(LOOPBACK_SRC:%.c=$(O)/%.o)
LOOPBACK_CUDA := $(O)/tests/loopback/libcuda.so.1
LOOPBACK_HIP := $(O)/tests/loopback/libamdhip64.so.7
LOOPBACK_ASCEND := $(O)/tests/loopback/libascendcl.so
LOOPBACK := $(LOOPBACK_CUDA) $(LOOPBACK_HIP) $(LOOPBACK_ASCEND)

$(LOOPBACK_OBJ) $(O)/tests/loopback/hip.o $(O)/tests/loopback/acl.o: CFLAGS += -fPIC -fvisibility=hidden

$(LOOPBACK_CUDA): $(LOOPBACK_OBJ)
$(LOOPBACK_HIP): $(LOOPBACK_OBJ) $(O)/tests/loopback/hip.o tests/loopback/face.map
$(LOOPBACK_ASCEND): $(LOOPBACK_OBJ) $(O)/tests/loopback/acl.o tests/loopback/face.map
$(LOOPBACK_HIP) $(LOOPBACK_ASCEND): private LDFLAGS += -Wl,--version-script=tests/loopback/face.map
$(LOOPBACK):
	$(CC) -shared $(LDFLAGS) -Wl,-soname,$(@F) -Wl,-z,defs -o $@ $(filter %.o,$^) -ldl

tests: $(LOOPBACK)

# They find them beside them, by DT_RPATH: a sanitizer's dlopen() is not the program's and knows no DT_RUNPATH of it.
LOOPBACK_TESTS := $(addprefix $(O)/tests/unit/,capture_test cuda_device_test cuda_fence_test device_test hip_device_test \
	options_behaviour_device_test processes_test provider_runtime_test register_test runtime_ascend_test \
	runtime_hip_test runtime_test)
$(LOOPBACK_TESTS): $(LOOPBACK)
$(O)/tests/unit/processes_test: | $(LIB_LINK)
$(LOOPBACK_TESTS): private LDFLAGS += -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/../loopback'

# These stand for the module: they wrap the library's system calls (fake_module.c).
MODULE_TESTS := $(addprefix $(O)/tests/unit/,context_test ladder_test listing_test pin_test provider_test region_test reserve_test)
$(O)/tests/unit/fake_module.o: CPPFLAGS += -Ilib
$(MODULE_TESTS): $(O)/tests/unit/fake_module.o
$(MODULE_TESTS): private LDFLAGS += $(addprefix -Wl$(comma)--wrap=hpi_sys_,ioctl open file_system read_file write_file)
