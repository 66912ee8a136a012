// Runs the conformance suite on the processor's backend.
#include "kernels/cpu/cpu_backend.h"

#include "gtest/gtest.h"
#include "tests/conformance/backend/harness.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  comera::kernels::RegisterBackendConformance("Cpu", [](int threads) {
    return comera::kernels::CreateCpuBackend({threads});
  });
  return RUN_ALL_TESTS();
}
