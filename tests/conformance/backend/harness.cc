// Runs one row of the suite on a backend and compares with the reference.
#include "tests/conformance/backend/harness.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/conformance/backend/through_bf16.h"

namespace comera::kernels {
namespace {

using reference::DoubleMatrix;

// A signalling NaN: whatever reads it computes a NaN, and even a NaN computed
// from it has other bits.
constexpr uint32_t kCanary = 0x7fa0dead;
constexpr int64_t kMargin = 16;  // floats around an operand
constexpr int64_t kGap = 5;      // floats between strided rows

// Where an operand's elements lie in its allocation.
struct Placement {
  int64_t stride = 0;
  int64_t floats = 0;
};
Placement Place(const Operand& operand, bool strided) {
  const int64_t stride = operand.cols + (strided && !operand.packed ? kGap : 0);
  return {stride, 2 * kMargin + operand.rows * stride};
}

// The bits of every float of an operand's allocation.
using Image = std::vector<uint32_t>;

uint32_t BitsOf(double value, bool index) {
  uint32_t bits;
  if (index) {
    const int32_t whole = static_cast<int32_t>(value);
    std::memcpy(&bits, &whole, sizeof(bits));
  } else {
    const float single = static_cast<float>(value);
    std::memcpy(&bits, &single, sizeof(bits));
  }
  return bits;
}

// Values that fp32 holds exactly, so that both sides begin equal.
DoubleMatrix RandomValues(const Operand& operand, uint32_t seed) {
  std::mt19937 random(seed);
  DoubleMatrix values(operand.rows, operand.cols);
  if (!operand.values.empty()) {
    values.values = operand.values;
    return values;
  }
  for (double& value : values.values) {
    const double uniform = random() * 0x1p-32;
    const double scaled = operand.low + (operand.high - operand.low) * uniform;
    value = operand.indices ? std::floor(scaled)
                            : static_cast<double>(static_cast<float>(scaled));
    if (operand.use == Use::kWritten) {
      value = std::numeric_limits<double>::quiet_NaN();
    }
  }
  return values;
}

Image MakeImage(const Operand& operand, const Placement& place,
                const DoubleMatrix& values) {
  Image image(place.floats, kCanary);
  for (int64_t i = 0; i < operand.rows; ++i) {
    for (int64_t j = 0; j < operand.cols; ++j) {
      image[kMargin + i * place.stride + j] =
          BitsOf(values.at(i, j), operand.indices);
    }
  }
  return image;
}

class Runner {
 public:
  Runner(const OpCase& op, bool strided) : op_(op), strided_(strided) {
    uint32_t seed = 7;
    for (const Operand& operand : op_.operands) {
      values_.push_back(RandomValues(operand, ++seed));
    }
  }

  void CheckAgainstReference(Backend* backend) {
    std::vector<Image> after;
    ASSERT_OK(Run(backend, &after));
    std::vector<DoubleMatrix> expected = values_;
    op_.reference(&expected);
    for (size_t i = 0; i < op_.operands.size(); ++i) {
      SCOPED_TRACE(op_.operands[i].name);
      CheckUntouched(i, after[i]);
      if (op_.operands[i].use != Use::kRead) {
        CheckClose(i, after[i], expected[i]);
      }
    }
    std::vector<Image> again;
    ASSERT_OK(Run(backend, &again));
    EXPECT_EQ(after, again) << "a second run gave other bits";
  }

 private:
  absl::Status Run(Backend* backend, std::vector<Image>* after) {
    std::vector<void*> memory;
    const absl::Status status = RunOn(backend, &memory, after);
    for (void* each : memory) backend->Free(each);
    return status;
  }

  absl::Status RunOn(Backend* backend, std::vector<void*>* memory,
                     std::vector<Image>* after) {
    DeviceOperands device;
    const auto upload = [&](const void* from,
                            int64_t bytes) -> absl::StatusOr<void*> {
      ASSIGN_OR_RETURN(void* to, backend->Allocate(bytes));
      memory->push_back(to);
      RETURN_IF_ERROR(backend->CopyToDevice(to, from, bytes));
      return to;
    };
    ASSIGN_OR_RETURN(void* on_device, upload(&kState, sizeof(kState)));
    device.state = static_cast<const StepState*>(on_device);
    for (size_t i = 0; i < op_.operands.size(); ++i) {
      const Operand& operand = op_.operands[i];
      const Placement place = Place(operand, strided_);
      const Image image = MakeImage(operand, place, values_[i]);
      ASSIGN_OR_RETURN(void* at,
                       upload(image.data(), place.floats * sizeof(float)));
      device.operands.push_back(
          {Matrix(static_cast<float*>(at) + kMargin, operand.rows, operand.cols,
                  place.stride)});
    }
    RETURN_IF_ERROR(op_.run(backend, device));
    RETURN_IF_ERROR(backend->Synchronize());
    for (size_t i = 0; i < op_.operands.size(); ++i) {
      Image image(Place(op_.operands[i], strided_).floats);
      RETURN_IF_ERROR(backend->CopyToHost(image.data(), (*memory)[i + 1],
                                          image.size() * sizeof(float)));
      after->push_back(std::move(image));
    }
    return absl::OkStatus();
  }

  // Everything but the elements that the operation may write.
  void CheckUntouched(size_t i, const Image& after) {
    const Operand& operand = op_.operands[i];
    const Placement place = Place(operand, strided_);
    const Image before = MakeImage(operand, place, values_[i]);
    for (int64_t at = 0; at < place.floats; ++at) {
      const int64_t inside = at - kMargin;
      const bool element = inside >= 0 &&
                           inside < operand.rows * place.stride &&
                           inside % place.stride < operand.cols;
      if (element && operand.use != Use::kRead) continue;
      ASSERT_EQ(before[at], after[at]) << "overwritten at " << inside;
    }
  }

  void CheckClose(size_t i, const Image& after, const DoubleMatrix& expected) {
    const Operand& operand = op_.operands[i];
    const Placement place = Place(operand, strided_);
    double largest = op_.least;
    for (double value : expected.values) {
      largest = std::max(largest, std::fabs(value));
    }
    for (int64_t row = 0; row < operand.rows; ++row) {
      for (int64_t col = 0; col < operand.cols; ++col) {
        float got;
        std::memcpy(&got, &after[kMargin + row * place.stride + col],
                    sizeof(got));
        const double want = expected.at(row, col);
        // Written so that a NaN fails.
        ASSERT_TRUE(std::fabs(got - want) <= op_.tolerance * largest)
            << "(" << row << ", " << col << "): got " << got << ", want "
            << want << ", tolerance " << op_.tolerance * largest;
      }
    }
  }

  const OpCase& op_;
  const bool strided_;
  std::vector<DoubleMatrix> values_;
};

class OpTest : public ::testing::Test {
 public:
  OpTest(OpCase op, BackendFactory factory)
      : op_(std::move(op)), factory_(std::move(factory)) {}
  void TestBody() override {
    for (int threads : {1, 2}) {
      const std::unique_ptr<Backend> backend = factory_(threads);
      for (bool strided : {false, true}) {
        if (op_.sparing && strided != (threads == 2)) continue;
        SCOPED_TRACE(::testing::Message() << threads << " threads, "
                                          << (strided ? "gaps" : "packed"));
        Runner(op_, strided).CheckAgainstReference(backend.get());
      }
    }
  }

 private:
  const OpCase op_;
  const BackendFactory factory_;
};

void RegisterCases(const std::string& name, const BackendFactory& factory,
                   const std::vector<OpCase>& cases) {
  for (const OpCase& op : cases) {
    ::testing::RegisterTest((name + "BackendTest").c_str(), op.name.c_str(),
                            nullptr, nullptr, __FILE__, __LINE__,
                            [op, factory]() -> ::testing::Test* {
                              return new OpTest(op, factory);
                            });
  }
}

bool IsMadeOfProducts(const OpCase& op) {
  // One rate of dropout is enough: masks know nothing of rounding.
  if (op.name.find("_percent") != std::string::npos &&
      op.name.find("_percent10") == std::string::npos) {
    return false;
  }
  for (const char* name :
       {"Gemm", "RankSpace", "Expand", "Project", "Attention"}) {
    if (op.name.rfind(name, 0) == 0) return true;
  }
  return false;
}

}  // namespace

void RegisterBackendConformance(const std::string& name,
                                BackendFactory factory) {
  for (const auto& cases :
       {LinearCases(), GroupedProductCases(), CoreCases(), LookupCases(),
        PointwiseCases(), GatedCases(), InteractionCases(), LayerNormCases(),
        RmsNormCases(), RotateCases(), RankSpaceFfnCases(),
        RankSpaceStreamCases(), AttentionCases(), CachedAttentionCases(),
        RankSpaceAttentionCases(), ObjectiveCases()}) {
    RegisterCases(name, factory, cases);
  }
  RegisterRefusals(name, factory);
  RegisterTogether(name, factory);
}

void RegisterStorageInBf16(const std::string& name, BackendFactory factory,
                           double tolerance) {
  const BackendFactory through = [factory](int threads) {
    return ThroughBf16(factory(threads));
  };
  for (std::vector<OpCase> cases : {LayerNormCases(), AttentionCases()}) {
    for (OpCase& op : cases) {
      op.tolerance = tolerance;
      op.sparing = true;
    }
    RegisterCases(name, through, cases);
  }
}

void RegisterRoundedProducts(const std::string& name, BackendFactory factory,
                             double tolerance) {
  for (std::vector<OpCase> cases :
       {LinearCases(), GroupedProductCases(), RankSpaceFfnCases(),
        RankSpaceStreamCases(), AttentionCases(), RankSpaceAttentionCases()}) {
    cases.erase(
        std::remove_if(cases.begin(), cases.end(),
                       [](const OpCase& op) { return !IsMadeOfProducts(op); }),
        cases.end());
    for (OpCase& op : cases) {
      op.tolerance = tolerance;
      op.sparing = true;
    }
    RegisterCases(name, factory, cases);
  }
}

}  // namespace comera::kernels
