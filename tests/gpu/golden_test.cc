// Compares the CUDA backend with the published code's outputs, gradients and
// training.
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/golden/golden_check.h"

namespace comera::golden {
namespace {

TEST(GoldenTest, PublishedCodeAgrees) {
  const char* shared = std::getenv("COMERA_SHARED_DIR");
  const std::string folder =
      shared == nullptr ? "" : std::string(shared) + "/golden";
  if (folder.empty() || !std::filesystem::is_directory(folder)) {
    GTEST_SKIP() << "golden files are not here: set COMERA_SHARED_DIR to the "
                    "folder that holds golden/";
  }
  std::ostringstream out;
  Report report(&out);
  ASSERT_OK(CheckFolder(
      folder, [] { return kernels::CreateCudaBackend({}); }, &report));
  EXPECT_EQ(report.failed(), 0) << out.str();
  EXPECT_GT(report.passed(), 0);
}

}  // namespace
}  // namespace comera::golden
