// A CUDA backend that captures steps, for tests of graphs on a device.
#include <cstdlib>
#include <iostream>

#include "kernels/cuda/cuda_backend.h"
#include "tests/worker/trainer/graph_backend.h"

namespace comera::trainer {

bool GraphBackendIsSlow() {
#ifdef COMERA_CUDA_ON_THE_PROCESSOR
  return true;
#else
  return false;
#endif
}

std::unique_ptr<kernels::Backend> MakeGraphBackend() {
  auto backend = kernels::CreateCudaBackend({});
  if (backend.ok()) return *std::move(backend);
  std::cerr << backend.status() << std::endl;
  std::abort();
}

}  // namespace comera::trainer
