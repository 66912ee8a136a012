// The CUDA backend. Built by nvcc it runs on a GPU; built by the C++ compiler
// on the CUDA of tests/fakes/cuda, where the order in which threads run can
// be chosen: a kernel that misses a barrier then gives other results. There
// COMERA_FAKE_SHARED_KIB is the shared memory that a block of threads may have.
#include "kernels/cuda/cuda_backend.h"

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tests/conformance/backend/harness.h"

#ifdef COMERA_FAKE_CUDA
#include "tests/fakes/cuda/fake_cuda.h"
#endif

namespace comera::kernels {
namespace {

std::unique_ptr<Backend> Create(CudaOptions options) {
  absl::StatusOr<std::unique_ptr<Backend>> backend = CreateCudaBackend(options);
  if (!backend.ok()) {
    ADD_FAILURE() << backend.status();
    std::abort();
  }
  return *std::move(backend);
}

}  // namespace
}  // namespace comera::kernels

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  using comera::kernels::CudaOptions;
  using comera::kernels::CudaPrecision;
#ifdef COMERA_FAKE_SHARED_KIB
  comera::fake_cuda::FakeDevice device;
  device.shared_bytes = int64_t{COMERA_FAKE_SHARED_KIB} * 1024;
  comera::fake_cuda::SetFakeDevice(device);
#endif
  const auto factory = [](CudaPrecision precision) {
    return [precision](int threads) {
#ifdef COMERA_FAKE_CUDA
      // The suite asks for one thread and for two. Here that is the order in
      // which threads and blocks run: the natural one, and another by chance in
      // every run, of which a second run of the operation must not tell.
      using comera::fake_cuda::FiberOrder;
      comera::fake_cuda::SetFiberOrder(
          threads == 1 ? FiberOrder::kForward : FiberOrder::kShuffled, 29);
#endif
      CudaOptions options;
      options.precision = precision;
      // Kernels that follow one another the ordinary way and kernels that
      // overlap give the same bits.
      options.overlap_launches = threads != 1;
      return comera::kernels::Create(options);
    };
  };
  comera::kernels::RegisterBackendConformance("Cuda",
                                              factory(CudaPrecision::kFp32));
  comera::kernels::RegisterRoundedProducts("CudaTf32",
                                           factory(CudaPrecision::kTf32), 4e-3);
  comera::kernels::RegisterRoundedProducts("CudaBf16",
                                           factory(CudaPrecision::kBf16), 3e-2);
  comera::kernels::RegisterBf16("CudaBf16", factory(CudaPrecision::kBf16));
  comera::kernels::RegisterStorageInBf16("CudaBf16Storage",
                                         factory(CudaPrecision::kBf16), 3e-2);
  return RUN_ALL_TESTS();
}
