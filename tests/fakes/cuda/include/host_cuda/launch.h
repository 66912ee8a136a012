// Starting a kernel.
#ifndef COMERA_TESTS_FAKES_CUDA_HOST_CUDA_LAUNCH_H_
#define COMERA_TESTS_FAKES_CUDA_HOST_CUDA_LAUNCH_H_

#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "host_cuda/api.h"

namespace comera::fake_cuda {

// Checks the shape; then runs `thread` for every thread, or records it.
cudaError_t EnqueueKernel(const cudaLaunchConfig_t& config, const void* kernel,
                          std::function<void()> thread);

}  // namespace comera::fake_cuda

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config,
                               void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  static_assert((std::is_trivially_copyable_v<Parameters> && ...),
                "parameters of a kernel are copied as bytes");
  static_assert((sizeof(Parameters) + ... + 0) <= 32764,
                "a kernel takes 32764 bytes of parameters");
  return [&](Parameters... values) {
    return comera::fake_cuda::EnqueueKernel(
        *config, reinterpret_cast<const void*>(kernel),
        [kernel, tuple = std::tuple<Parameters...>(values...)] {
          std::apply(kernel, tuple);
        });
  }(std::forward<Arguments>(arguments)...);
}

#endif  // COMERA_TESTS_FAKES_CUDA_HOST_CUDA_LAUNCH_H_
