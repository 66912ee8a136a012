// Compares the orthogonal step with what the published Muon computed
// (golden/methods/muon_steps.safetensors, cases keller and keller_wd).
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/safetensors.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"

namespace comera::golden {
namespace {

struct Case {
  std::string name;
  double learning_rate, momentum, weight_decay;
};

class MuonTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* shared = std::getenv("COMERA_SHARED_DIR");
    const std::string path =
        shared == nullptr
            ? ""
            : std::string(shared) + "/golden/methods/muon_steps.safetensors";
    if (!std::filesystem::exists(path)) {
      GTEST_SKIP() << "golden files are not here: set COMERA_SHARED_DIR to the "
                      "folder that holds golden/";
    }
    ASSERT_OK_AND_ASSIGN(file_, Safetensors::Read(path));
  }

  std::vector<float> Floats(const std::string& name) {
    auto values = file_.GetFloat(name);
    EXPECT_OK(values);
    return values.ok() ? *values : std::vector<float>();
  }

  // Runs all steps of one matrix; the changes p_t - p_0 must agree to 1e-5 of
  // the largest.
  void Check(const Case& c, const std::string& matrix) {
    const std::vector<float> initial = Floats("init." + matrix);
    const std::vector<float> gradients = Floats("grad." + matrix);
    ASSERT_OK_AND_ASSIGN(const std::vector<int64_t> shape,
                         file_.GetShape("init." + matrix));
    kernels::OrthogonalSegment segment;
    segment.rows = shape[0];
    segment.cols = shape[1];
    // The published shape factor belongs to the step, not to its decay.
    const double factor = std::sqrt(
        std::max(1.0, static_cast<double>(shape[0]) / shape[1]));
    segment.learning_rate = static_cast<float>(c.learning_rate * factor);
    segment.weight_decay = static_cast<float>(c.weight_decay / factor);
    kernels::OrthogonalRule rule;
    rule.momentum = static_cast<float>(c.momentum);

    const std::unique_ptr<kernels::Backend> backend =
        kernels::CreateCpuBackend({/*threads=*/2});
    std::vector<float> p = initial, m(initial.size());
    const auto size = static_cast<int64_t>(p.size());
    ASSERT_OK_AND_ASSIGN(
        void* const workspace,
        backend->Allocate(backend->OrthogonalStepWorkspaceBytes({segment})));
    int compared = 0;
    const int steps = static_cast<int>(gradients.size() / initial.size());
    for (int step = 1; step <= steps; ++step) {
      ASSERT_OK(backend->OrthogonalStep(
          rule, {segment}, {p.data(), size},
          {gradients.data() + (step - 1) * size, size}, {m.data(), size},
          workspace));
      const std::string name = absl::StrCat(c.name, ".step", step, ".", matrix);
      if (file_.tensors().count(name) == 0) continue;
      const std::vector<float> expected = Floats(name);
      double largest = 0, error = 0;
      for (int64_t i = 0; i < size; ++i) {
        const double change = static_cast<double>(expected[i]) - initial[i];
        largest = std::max(largest, std::fabs(change));
        error = std::max(error, std::fabs(static_cast<double>(p[i]) -
                                          initial[i] - change));
      }
      // The first change is known to the rounding of p alone (2e-5).
      EXPECT_LE(error, (step == 1 ? 4e-5 : 1e-5) * largest) << name;
      ++compared;
    }
    EXPECT_EQ(compared, 4);
    backend->Free(workspace);
  }

  Safetensors file_;
};

TEST_F(MuonTest, StepsAreThePublishedOnes) {
  for (const Case& c :
       {Case{"keller", 0.02, 0.95, 0}, Case{"keller_wd", 0.01, 0.9, 0.1}}) {
    for (const char* matrix : {"tall", "wide"}) Check(c, matrix);
  }
}

}  // namespace
}  // namespace comera::golden
