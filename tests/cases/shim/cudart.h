/* SPDX-License-Identifier: MIT */
/* The stand-in CUDA runtime's calls, with the real ones' types; codes are CUDA's numbers. */
#ifndef SHIM_TEST_CUDART_H
#define SHIM_TEST_CUDART_H

#include <stddef.h>

int cudaHostAlloc(void **out, size_t bytes, unsigned int flags);
int cudaMallocHost(void **out, size_t bytes);
int cudaFreeHost(void *addr);
int cudaHostGetFlags(unsigned int *flags, void *addr);
int cudaHostGetDevicePointer(void **out, void *addr, unsigned int flags);
int cudaHostRegister(void *addr, size_t bytes, unsigned int flags);
int cudaHostUnregister(void *addr);
int cudaDeviceReset(void);

#endif /* SHIM_TEST_CUDART_H */
