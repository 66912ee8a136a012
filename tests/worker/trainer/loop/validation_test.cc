// Validation figures of a gang, and the comparison of its parameters.
#include "worker/trainer/loop/validation.h"

#include <memory>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/worker/trainer/tiny_job.h"
#include "worker/trainer/model/create_model.h"

namespace comera::trainer {
namespace {

// Member 0 of a gang whose other members all hold what it holds, summed one
// after the other in fp32; `drift` is what one of them has besides in every
// number.
class EqualRanks : public collective::Communicator {
 public:
  EqualRanks(int world_size, float drift)
      : world_size_(world_size), drift_(drift) {}

  int rank() const override { return 0; }
  int world_size() const override { return world_size_; }
  absl::Status AllReduce(absl::Span<float> values) override {
    for (float& value : values) {
      const float own = value;
      for (int i = 1; i < world_size_; ++i) value += own;
      value += drift_;
    }
    return absl::OkStatus();
  }
  absl::Status Broadcast(absl::Span<char>, int) override {
    return absl::OkStatus();
  }
  absl::Status Barrier() override { return absl::OkStatus(); }
  void Abort() override {}
  int64_t collectives_done() const override { return 0; }

 private:
  const int world_size_;
  const float drift_;
};

class ValidationTest : public ::testing::Test {
 protected:
  ValidationTest() : backend_(kernels::CreateCpuBackend({/*threads=*/1})) {
    data_.set_validation_samples(2048);
  }

  absl::StatusOr<ValidationResult> Run(uint64_t seed,
                                       collective::Communicator* gang,
                                       int64_t samples = 2048) {
    auto config = MakeModelConfig(TinySpec(), data_.vocabulary_size());
    EXPECT_OK(config);
    auto plan = ModelPlan::Create(*config, 8, CreateModel, backend_.get());
    EXPECT_OK(plan);
    std::vector<float> parameters((*plan)->size());
    (*plan)->model().Initialise(seed, parameters.data());
    EXPECT_OK((*plan)->Upload(parameters, (*plan)->parameters()));
    const kernels::StepState state;
    return Validate(data_, samples, &state, **plan, gang);
  }

  FakeTrainingData data_;
  std::unique_ptr<kernels::Backend> backend_;
};

// The gang is as large as a specification may ask for. Several seeds: which
// sums a float cannot hold depends on the hash of the parameters.
TEST_F(ValidationTest, EqualParametersAreEqualOnManyRanks) {
  EqualRanks gang(1024, 0);
  for (uint64_t seed = 0; seed < 4; ++seed) {
    ASSERT_OK_AND_ASSIGN(const ValidationResult own, Run(seed, nullptr, 2));
    ASSERT_OK_AND_ASSIGN(const ValidationResult all, Run(seed, &gang));
    EXPECT_NEAR(all.loss, own.loss, 1e-4 * own.loss);
    EXPECT_EQ(all.accuracy, own.accuracy);
  }
}

// Batches differ as their samples do: the error of the mean falls with the root
// of the number of samples.
TEST_F(ValidationTest, ErrorsOfTheMeanFallWithMoreSamples) {
  ASSERT_OK_AND_ASSIGN(const ValidationResult few, Run(1, nullptr, 128));
  ASSERT_OK_AND_ASSIGN(const ValidationResult many, Run(1, nullptr, 2048));
  EXPECT_EQ(many.labels, 2 * 2048);
  EXPECT_GT(many.loss_error, 0);
  EXPECT_NEAR(few.loss_error / many.loss_error, 4, 1.5);
  EXPECT_NEAR(few.loss, many.loss, 4 * few.loss_error);
  EXPECT_FALSE(many.f1.has_value());
  EXPECT_FALSE(many.auc.has_value());
}

TEST_F(ValidationTest, ParametersThatDifferEndTheGang) {
  EqualRanks gang(2, 1);
  EXPECT_THAT(Run(1, &gang), StatusIs(absl::StatusCode::kInternal,
                                      ::testing::HasSubstr("not equal")));
}

TEST_F(ValidationTest, NoSamplesAreDataLoss) {
  EXPECT_THAT(Run(1, nullptr, 0), StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace comera::trainer
