// Steps that are computed in parts are those of the whole batch.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/loop/trainer_harness.h"
#include "tests/worker/trainer/loop/uneven_data.h"
#include "tests/worker/trainer/tiny_clicks.h"
#include "worker/trainer/data/open_training_data.h"
#include "worker/trainer/model/create_model.h"

namespace comera::trainer {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using Method = v1::CompressionSpec::Method;

struct Job {
  std::string name;
  v1::JobSpec spec;
  std::shared_ptr<const TrainingData> data;
};

Job MaskedLm(Method method) {
  v1::JobSpec spec = TinySpec();
  v1::CompressionSpec& compression = *spec.mutable_compression();
  compression.set_method(method);
  compression.mutable_galore()->set_rank(4);
  compression.mutable_lte()->set_rank(1);
  compression.mutable_lte()->set_heads(2);
  compression.mutable_lte()->set_scale(2);
  compression.mutable_lte()->set_merge_every_steps(5);
  spec.mutable_optimizer()->set_clip_norm(0.5);
  return {v1::CompressionSpec::Method_Name(method), WithDefaults(spec),
          std::make_shared<UnevenData>()};
}

Job Classifier() {
  v1::JobSpec spec = TinySpec();
  spec.mutable_model()->set_family(v1::ModelSpec::ENCODER_CLASSIFIER);
  spec.mutable_model()->set_classes(3);
  spec.mutable_compression()->clear_output();
  return {"classifier", WithDefaults(spec), std::make_shared<UnevenData>(3)};
}

Job Clicks() {
  const v1::JobSpec spec = TinyClicksSpec();
  auto data = OpenTrainingData(spec, {});
  EXPECT_OK(data);
  return {"clicks", spec, *std::move(data)};
}

// A run of 20 steps in so many parts.
std::unique_ptr<TestRun> NewRun(const Job& job, int parts) {
  auto run = std::make_unique<TestRun>();
  run->spec = job.spec;
  run->spec.mutable_objective()->mutable_early()->set_steps(20);
  run->spec.mutable_training()->set_accumulate(parts);
  run->other_data = job.data.get();
  return run;
}

std::map<int64_t, double> Norms(const TestRun& run) {
  std::map<int64_t, double> norms;
  for (const auto& event : run.Select(&v1::TrainerEvent::has_metrics)) {
    norms[event.metrics().step()] = event.metrics().gradient_norm();
  }
  return norms;
}

void ExpectNear(const std::map<int64_t, double>& got,
                const std::map<int64_t, double>& want, double error) {
  ASSERT_EQ(want.size(), 20u);
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [step, value] : want) {
    EXPECT_NEAR(got.at(step), value, error * value) << "step " << step;
  }
}

class TrainerAccumulateTest : public ::testing::TestWithParam<Job> {};

TEST_P(TrainerAccumulateTest, PartsAddUpToTheBatch) {
  const auto whole = NewRun(GetParam(), 1);
  whole->Run();
  ASSERT_OK(whole->end);
  for (const auto& [parts, members] : {std::pair(4, 1), {2, 1}, {2, 2}}) {
    SCOPED_TRACE(testing::Message() << parts << " parts, " << members);
    const auto run = NewRun(GetParam(), parts);
    run->Run(members);
    for (const absl::Status& status : run->statuses) ASSERT_OK(status);
    ExpectNear(run->Losses(), whole->Losses(), 2e-4);
    ExpectNear(Norms(*run), Norms(*whole), 2e-3);
    EXPECT_NEAR(run->end->result.validation_loss(),
                whole->end->result.validation_loss(), 1e-3);
  }
}

TEST_P(TrainerAccumulateTest, ResumesBitByBit) {
  const auto whole = NewRun(GetParam(), 4);
  whole->Run();
  ASSERT_OK(whole->end);
  FakeDisk disk;
  const auto first = NewRun(GetParam(), 4), second = NewRun(GetParam(), 4);
  first->disk = second->disk = &disk;
  first->stop_after_step = 8;
  first->Run();
  ASSERT_OK(first->end);
  ASSERT_TRUE(first->end->stopped);
  second->resume = true;
  second->Run();
  ASSERT_OK(second->end);
  EXPECT_EQ(second->events.front().run_info().resumed_from_step(), 9);
  EXPECT_EQ(second->exported, whole->exported);
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, TrainerAccumulateTest,
    ::testing::Values(MaskedLm(v1::CompressionSpec::COMERA),
                      MaskedLm(v1::CompressionSpec::DENSE),
                      MaskedLm(v1::CompressionSpec::GALORE),
                      MaskedLm(v1::CompressionSpec::LTE),
                      MaskedLm(v1::CompressionSpec::COLA), Classifier(),
                      Clicks()),
    [](const auto& info) { return info.param.name; });

TEST(TrainerAccumulateShapeTest, TheModelIsMadeForOnePart) {
  std::vector<int64_t> sizes;
  TestRun run;
  run.spec.mutable_training()->set_accumulate(4);
  run.spec.mutable_objective()->mutable_early()->set_steps(2);
  run.model_factory = [&](const ModelConfig& config, int64_t batch_size,
                          kernels::Backend* backend) {
    sizes.push_back(batch_size);
    return CreateModel(config, batch_size, backend);
  };
  run.Run();
  ASSERT_OK(run.end);
  EXPECT_THAT(sizes, Each(2));
}

TEST(TrainerAccumulateShapeTest, PartsDivideTheShareOfEachMember) {
  TestRun run;
  run.spec.mutable_training()->set_accumulate(8);
  run.Run(2);
  EXPECT_THAT(run.statuses[0],
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("training.accumulate: 8 does not divide the "
                                 "4 samples of each process")));
}

TEST(TrainerAccumulateShapeTest, UpdatesWithinTheBackwardPassHaveOnePart) {
  TestRun run;
  run.spec.mutable_compression()->set_method(v1::CompressionSpec::GALORE);
  run.spec.mutable_compression()->mutable_galore()->set_per_layer(true);
  run.spec.mutable_compression()->mutable_galore()->set_rank(4);
  run.spec = WithDefaults(run.spec);
  run.spec.mutable_training()->set_accumulate(2);
  run.Run();
  EXPECT_THAT(run.end, StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("training.accumulate")));
  run.spec.mutable_training()->set_accumulate(1);
  run.spec.mutable_training()->set_spike_factor(3);
  run.Run();
  EXPECT_THAT(run.end, StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("training.spike_factor")));
}

}  // namespace
}  // namespace comera::trainer
