// CUDA's runtime and language on the processor, for tests: what kernels/cuda
// needs of <cuda_runtime.h>. See host_cuda/block.h and host_cuda/api.h.
#ifndef COMERA_TESTS_FAKES_CUDA_CUDA_RUNTIME_H_
#define COMERA_TESTS_FAKES_CUDA_CUDA_RUNTIME_H_

#include "host_cuda/api.h"
#include "host_cuda/block.h"
#include "host_cuda/device.h"
#include "host_cuda/launch.h"
#include "host_cuda/math.h"
#include "host_cuda/types.h"

#endif  // COMERA_TESTS_FAKES_CUDA_CUDA_RUNTIME_H_
