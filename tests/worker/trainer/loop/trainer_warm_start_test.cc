// Jobs that start from a trained dense model.
#include <cmath>
#include <filesystem>
#include <string>

#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/loop/trainer_harness.h"
#include "worker/trainer/model/weights/export.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

v1::JobSpec DenseSpec() {
  v1::JobSpec spec = TinySpec();
  spec.mutable_compression()->set_method(v1::CompressionSpec::DENSE);
  spec.mutable_objective()->mutable_early()->set_steps(60);
  return spec;
}

// Every bond has as much rank as it holds, unless `ranks` says less.
v1::JobSpec CompressedSpec(int64_t ranks = 4096) {
  v1::JobSpec spec = TinySpec();
  v1::CompressionSpec& c = *spec.mutable_compression();
  for (v1::LayerCompression* layer :
       {c.mutable_embedding(), c.mutable_attention(), c.mutable_ffn_up(),
        c.mutable_ffn_down(), c.mutable_head()}) {
    layer->clear_ranks();
    layer->add_ranks(ranks);
  }
  return spec;
}

// A dense model trained with the tiny job, exported once.
const std::string& DenseFile() {
  static const std::string* path = [] {
    const std::string folder = testing::TempDir() + "/warm_start_dense";
    std::filesystem::remove_all(folder);
    TestRun run;
    run.spec = DenseSpec();
    run.Run();
    EXPECT_OK(run.end);
    EXPECT_OK(
        ExportModel(run.exported_config, run.exported.data(), {}, folder));
    return new std::string(folder + "/" + kModelFile);
  }();
  return *path;
}

TestRun RunFrom(v1::JobSpec spec, const std::string& path,
                FakeDisk* disk = nullptr, int64_t stop_after = 0) {
  TestRun run;
  if (!path.empty()) {
    spec.mutable_initial_weights()->set_safetensors(path);
  }
  run.spec = spec;
  run.disk = disk;
  run.resume = disk != nullptr;
  run.stop_after_step = stop_after;
  run.Run();
  return run;
}

TEST(TrainerWarmStartTest, BeginsAtTheLossOfTheDenseModel) {
  const TestRun dense = RunFrom(DenseSpec(), DenseFile());
  const TestRun trains = RunFrom(CompressedSpec(), DenseFile());
  const TestRun random = RunFrom(CompressedSpec(), "");
  ASSERT_OK(dense.end);
  ASSERT_OK(trains.end);
  ASSERT_OK(random.end);
  const double first = dense.Losses().at(1);
  EXPECT_LT(first, 0.5 * random.Losses().at(1));
  EXPECT_NEAR(trains.Losses().at(1), first, 1e-4);
  const v1::RunInfo& info = trains.events.front().run_info();
  ASSERT_EQ(info.initial_errors_size(), 8);
  for (const v1::LayerError& error : info.initial_errors()) {
    EXPECT_LT(error.relative_error(), 1e-6) << error.layer();
  }
  EXPECT_EQ(dense.events.front().run_info().initial_errors_size(), 0);
  EXPECT_EQ(random.events.front().run_info().initial_errors_size(), 0);
}

TEST(TrainerWarmStartTest, TruncationIsToldAndLearnsOn) {
  const TestRun run = RunFrom(CompressedSpec(3), DenseFile());
  ASSERT_OK(run.end);
  for (const v1::LayerError& error :
       run.events.front().run_info().initial_errors()) {
    EXPECT_GT(error.relative_error(), 0.01) << error.layer();
    EXPECT_LT(error.relative_error(), 1) << error.layer();
  }
  EXPECT_THAT(
      run.log,
      Contains(HasSubstr("layer=encoder.embedding.word relative_error=0.")));
  EXPECT_LT(run.Losses().at(30), run.Losses().at(1));
}

TEST(TrainerWarmStartTest, ACheckpointGoesFirst) {
  const std::string copy = testing::TempDir() + "/warm_start_copy.safetensors";
  std::filesystem::copy_file(DenseFile(), copy,
                             std::filesystem::copy_options::overwrite_existing);
  const TestRun whole = RunFrom(CompressedSpec(3), copy);
  FakeDisk disk;
  ASSERT_OK(RunFrom(CompressedSpec(3), copy, &disk, /*stop_after=*/12).end);
  std::filesystem::remove(copy);
  const TestRun resumed = RunFrom(CompressedSpec(3), copy, &disk);
  ASSERT_OK(resumed.end);
  EXPECT_EQ(resumed.events.front().run_info().resumed_from_step(), 13);
  EXPECT_EQ(resumed.exported, whole.exported);
  // The same checkpoint is of no use to a job that starts elsewhere.
  const TestRun other = RunFrom(CompressedSpec(3), DenseFile(), &disk);
  EXPECT_THAT(other.end, StatusIs(absl::StatusCode::kFailedPrecondition,
                                  HasSubstr("another specification")));
}

TEST(TrainerWarmStartTest, AnUnfitFileIsTheUsersMistake) {
  v1::JobSpec wider = TinySpec();
  wider.mutable_model()->set_ffn(64);
  wider.mutable_compression()->mutable_ffn_up()->set_dense(true);
  wider.mutable_compression()->mutable_ffn_down()->set_dense(true);
  const TestRun run = RunFrom(wider, DenseFile());
  EXPECT_THAT(run.end, StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("expected (16, 64)")));
  EXPECT_EQ(FailureClassOf(run.end.status()), v1::USER);
  const TestRun none = RunFrom(TinySpec(), "/no/such/file.safetensors");
  EXPECT_EQ(FailureClassOf(none.end.status()), v1::USER);
}

TEST(TrainerWarmStartTest, AllRanksStartAlike) {
  v1::JobSpec spec = CompressedSpec(3);
  spec.mutable_initial_weights()->set_safetensors(DenseFile());
  TestRun one, two;
  one.spec = two.spec = spec;
  one.Run(1);
  two.Run(2);
  ASSERT_OK(one.end);
  ASSERT_OK(two.end);
  EXPECT_NEAR(two.Losses().at(1), one.Losses().at(1), 1e-5);
}

}  // namespace
}  // namespace comera::trainer
