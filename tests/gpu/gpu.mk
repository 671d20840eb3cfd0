# SPDX-License-Identifier: MIT
# The check on a machine with a GPU; it is built everywhere, and run on the stand-in as far as that goes.

GPU_SRC := $(wildcard tests/gpu/*.c)
GPU_OBJ := $(GPU_SRC:%.c=$(O)/%.o)
GPU_CHECK := $(O)/tests/gpu/gpu-check

$(GPU_CHECK): $(GPU_OBJ) $(LIB_A)
	$(CC) $(LDFLAGS) -o $@ $^ $(LIB_LIBS)

tests: $(GPU_CHECK)

.PHONY: gpu-check-standin gpu-headers
gpu-check-standin: $(GPU_CHECK) $(LOOPBACK_CUDA)
	tests/gpu/run --stand-in $(O)
gpu-headers:
	tests/gpu/headers
