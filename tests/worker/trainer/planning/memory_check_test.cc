// The predicted memory of a job is what its training allocates.
#include "worker/trainer/planning/memory_check.h"

#include <regex>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/worker/trainer/tiny_job.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/create_model.h"
#include "worker/trainer/objective/create_objective.h"
#include "worker/trainer/optimizer/make_optimizer.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;

constexpr int kBatch = 64;

std::unique_ptr<kernels::Backend> CpuWith(int64_t bytes) {
  return kernels::CreateCpuBackend({1, bytes});
}

class MemoryCheckTest : public testing::Test {
 protected:
  MemoryCheckTest() : spec_(TinySpec()) {
    spec_.mutable_training()->set_batch_size(kBatch);
    config_ = *MakeModelConfig(spec_, 32);
  }

  int64_t Need(int64_t batch) {
    const auto backend = CpuWith(0);
    const auto need =
        PredictMemory(spec_, config_, batch, CreateModel, backend.get());
    EXPECT_OK(need);
    return need->bytes;
  }
  absl::Status Check(int64_t bytes, int members = 1) {
    const auto backend = CpuWith(bytes);
    const absl::Status status =
        CheckMemory(spec_, config_, members, CreateModel, backend.get());
    // Nothing was taken.
    EXPECT_EQ(*backend->FreeBytes(), bytes);
    return status;
  }

  v1::JobSpec spec_;
  ModelConfig config_;
};

TEST_F(MemoryCheckTest, IsWhatTrainingTakes) {
  const auto backend = CpuWith(0);
  const int64_t before = *backend->FreeBytes();
  ASSERT_OK_AND_ASSIGN(
      const auto plan,
      ModelPlan::Create(config_, kBatch, CreateModel, backend.get()));
  const Model& model = plan->model();
  ASSERT_OK_AND_ASSIGN(
      const auto objective,
      CreateObjective(spec_.objective().kind(), {}, model.tensorised_layers(),
                      model.layout(), backend.get()));
  ASSERT_OK_AND_ASSIGN(
      const auto optimizer,
      MakeOptimizer(spec_, config_, model.layout(), backend.get()));
  EXPECT_EQ(Need(kBatch), before - *backend->FreeBytes());
}

TEST_F(MemoryCheckTest, PartsAddUp) {
  const auto backend = CpuWith(0);
  ASSERT_OK_AND_ASSIGN(
      const MemoryNeed need,
      PredictMemory(spec_, config_, kBatch, CreateModel, backend.get()));
  int64_t sum = 0;
  for (size_t i = 0; i < need.parts.size(); ++i) {
    sum += need.parts[i].second;
    EXPECT_GE(need.parts[i].second, 0) << need.parts[i].first;
    if (i > 0) {
      EXPECT_LE(need.parts[i].second, need.parts[i - 1].second);
    }
  }
  EXPECT_EQ(sum, need.bytes);
  EXPECT_EQ(need.parts[0].first, "activations and workspace");
}

TEST_F(MemoryCheckTest, UpdatesOfEachLayerNeedTheGradientsOfOne) {
  v1::CompressionSpec& compression = *spec_.mutable_compression();
  compression.Clear();
  compression.set_method(v1::CompressionSpec::GALORE);
  spec_ = WithDefaults(spec_);
  const auto backend = CpuWith(0);
  const auto need = [&](bool per_layer) {
    spec_.mutable_compression()->mutable_galore()->set_per_layer(per_layer);
    config_ = *MakeModelConfig(spec_, 32);
    auto found =
        PredictMemory(spec_, config_, kBatch, CreateModel, backend.get());
    EXPECT_OK(found);
    return *std::move(found);
  };
  const auto gradients = [](const MemoryNeed& found) {
    for (const auto& [name, bytes] : found.parts) {
      if (name == "gradients") return bytes;
    }
    return int64_t{0};
  };
  const MemoryNeed whole = need(false), layerwise = need(true);
  // The attention's half: four matrices with a bias each, and LayerNorm.
  EXPECT_EQ(gradients(layerwise), 4 * (4 * (16 * 16 + 16) + 2 * 16));
  EXPECT_GT(gradients(whole), 2 * gradients(layerwise));
  EXPECT_LT(layerwise.bytes, whole.bytes);
}

TEST_F(MemoryCheckTest, FitsToTheByte) {
  const int64_t need = Need(kBatch);
  EXPECT_OK(Check(need));
  EXPECT_THAT(Check(need - 1),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr(absl::StrCat("needs ", need, " bytes, ",
                                              need - 1, " are free"))));
}

TEST_F(MemoryCheckTest, NamesWhatIsLargestAndABatchThatFits) {
  const int64_t free = Need(40) + 100;
  const absl::Status status = Check(free);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               HasSubstr("activations and workspace")));
  EXPECT_THAT(std::string(status.message()), HasSubstr("(largest: ffn.tiles="))
      << "names of the activations";
  std::smatch found;
  const std::string message(status.message());
  ASSERT_TRUE(std::regex_search(
      message, found,
      std::regex("training.batch_size: (\\d+) would fit, 64 does not")))
      << message;
  // It does, and one more does not.
  const int batch = std::stoi(found[1]);
  EXPECT_GE(batch, 40);
  spec_.mutable_training()->set_batch_size(batch);
  EXPECT_OK(Check(free));
  spec_.mutable_training()->set_batch_size(batch + 1);
  EXPECT_FALSE(Check(free).ok());
}

TEST_F(MemoryCheckTest, RanksShareTheBatch) {
  const int64_t free = Need(kBatch / 4);
  EXPECT_OK(Check(free, 4));
  EXPECT_THAT(Check(free - 1, 4),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("training.batch_size: 60 would fit, 64")));
}

TEST_F(MemoryCheckTest, APartOfTheBatchIsWhatHasToFit) {
  const int64_t free = Need(kBatch / 4);
  ASSERT_LT(free, Need(kBatch));
  const absl::Status whole = Check(free);
  EXPECT_THAT(
      whole, StatusIs(absl::StatusCode::kResourceExhausted,
                      HasSubstr("training.batch_size: 16 would fit, 64 does "
                                "not; training.accumulate: 4 would fit, too")));
  spec_.mutable_training()->set_accumulate(4);
  EXPECT_OK(Check(free));
  EXPECT_THAT(
      Check(free - 1),
      StatusIs(absl::StatusCode::kResourceExhausted,
               HasSubstr("training.batch_size: 60 would fit, 64 does "
                         "not; training.accumulate: 8 would fit, too")));
  EXPECT_OK(Check(Need(kBatch / 8), 2));
}

TEST_F(MemoryCheckTest, NotEvenOneSampleFits) {
  EXPECT_THAT(Check(Need(1) - 1),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("not even training.batch_size: 1 fits")));
}

TEST_F(MemoryCheckTest, TheLargestPhaseDecides) {
  for (const auto& [length, batch] : {std::pair(4, 16), {8, 64}, {8, 32}}) {
    v1::Phase* phase = spec_.mutable_training()->add_phases();
    phase->set_steps(1);
    phase->set_max_length(length);
    phase->set_batch_size(batch);
  }
  EXPECT_OK(Check(Need(64)));
  EXPECT_THAT(Check(Need(64) - 1),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("training.phases[1].batch_size: 63")));
}

}  // namespace
}  // namespace comera::trainer
