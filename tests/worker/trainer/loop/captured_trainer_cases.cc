// Trainers on a backend with graphs: what is captured and replayed, with its
// figures read late, is what runs step by step.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/graph_backend.h"
#include "tests/worker/trainer/loop/loud_batches.h"
#include "tests/worker/trainer/loop/trainer_harness.h"
#include "tests/worker/trainer/tiny_clicks.h"
#include "worker/trainer/data/batch/click_shape.h"
#include "worker/trainer/data/batch/phased_data.h"
#include "worker/trainer/data/open_training_data.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

// Sentences of 4 to 16 tokens, longer in some batches than in others, so that
// they come in several padded shapes. Classes, if there are any, else hidden
// words.
class VaryingData : public FakeTrainingData {
 public:
  explicit VaryingData(int classes) : FakeTrainingData(16), classes_(classes) {}

  absl::Status TrainBatch(int64_t step, int64_t batch_size, int rank,
                          int world_size, Batch* batch) const override {
    RETURN_IF_ERROR(FakeTrainingData::TrainBatch(step, batch_size, rank,
                                                 world_size, batch));
    Shorten(step, batch);
    return absl::OkStatus();
  }
  absl::Status ValidationBatch(int64_t first, int64_t count,
                               Batch* batch) const override {
    RETURN_IF_ERROR(FakeTrainingData::ValidationBatch(first, count, batch));
    Shorten(first, batch);
    return absl::OkStatus();
  }

 private:
  void Shorten(int64_t step, Batch* batch) const {
    for (int64_t s = 0; s < batch->size; ++s) {
      const int64_t sample = batch->first_sample + s;
      const int64_t length = 4 + (5 * step + 3 * sample) % 7 + step % 3 * 3;
      for (int64_t i = length; i < batch->length; ++i) {
        batch->mask[s * batch->length + i] = 0;
      }
    }
    std::vector<int32_t> rows, labels;
    for (size_t i = 0; i < batch->labels.size(); ++i) {
      if (batch->mask[batch->label_rows[i]] == 0) continue;
      rows.push_back(batch->label_rows[i]);
      labels.push_back(batch->labels[i]);
    }
    if (classes_ > 0) {
      rows.clear();
      labels.clear();
      for (int64_t s = 0; s < batch->size; ++s) {
        rows.push_back(static_cast<int32_t>(s * batch->length));
        const int32_t* ids = &batch->ids[s * batch->length];
        labels.push_back(std::max(ids[0], ids[3]) % classes_);
      }
    }
    batch->label_rows = std::move(rows);
    batch->labels = std::move(labels);
  }

  const int classes_;
};

// To what is quick where the backend is not.
void Shrink(v1::JobSpec* spec) {
  if (!GraphBackendIsSlow()) return;
  spec->mutable_training()->set_batch_size(10);
  spec->mutable_objective()->mutable_early()->set_steps(12);
  spec->mutable_training()->set_validate_every_steps(6);
  spec->mutable_training()->set_validation_samples(10);
}

v1::JobSpec WithVaryingLengths(int classes) {
  v1::JobSpec spec = TinySpec();
  spec.mutable_data()->set_max_length(16);
  spec.mutable_model()->set_max_positions(16);
  spec.mutable_training()->set_batch_size(24);
  Shrink(&spec);
  if (classes > 0) {
    spec.mutable_model()->set_family(v1::ModelSpec::ENCODER_CLASSIFIER);
    spec.mutable_model()->set_classes(classes);
    spec.mutable_compression()->clear_output();
  }
  return WithDefaults(spec);
}

struct Job {
  std::string name;
  v1::JobSpec spec;
  std::shared_ptr<const TrainingData> data;
};

std::vector<Job> Jobs() {
  std::vector<Job> jobs;
  jobs.push_back(
      {"masked LM", WithVaryingLengths(0), std::make_shared<VaryingData>(0)});
  jobs.push_back(
      {"classifier", WithVaryingLengths(3), std::make_shared<VaryingData>(3)});
  v1::JobSpec late = WithVaryingLengths(3);
  late.mutable_objective()->mutable_late()->set_target_loss(0.01);
  late.mutable_objective()->mutable_late()->set_target_ratio(0.7);
  late.mutable_objective()->mutable_late()->set_max_steps(
      GraphBackendIsSlow() ? 6 : 14);
  jobs.push_back(
      {"late stage", WithDefaults(late), std::make_shared<VaryingData>(3)});
  v1::JobSpec dense = WithVaryingLengths(0);
  dense.mutable_compression()->set_method(v1::CompressionSpec::DENSE);
  jobs.push_back(
      {"dense", WithDefaults(dense), std::make_shared<VaryingData>(0)});
  v1::JobSpec clicks = TinyClicksSpec();
  Shrink(&clicks);
  auto data = OpenTrainingData(clicks, {});
  EXPECT_OK(data);
  jobs.push_back({"DLRM", clicks, *std::move(data)});
  // Two parts a step, whose spikes the host looks for before each update.
  v1::JobSpec parts = WithVaryingLengths(0);
  parts.mutable_training()->set_accumulate(2);
  parts.mutable_training()->set_spike_factor(20);
  jobs.push_back({"parts", parts, std::make_shared<VaryingData>(0)});
  // It ends in the middle, after a step whose figures would be read late.
  v1::JobSpec tokens = WithVaryingLengths(0);
  tokens.mutable_training()->set_max_tokens(GraphBackendIsSlow() ? 130 : 720);
  jobs.push_back({"tokens", tokens, std::make_shared<VaryingData>(0)});
  v1::JobSpec tokens_apart = WithVaryingLengths(0);
  tokens_apart.mutable_model()->set_tie_output(true);
  tokens_apart.mutable_compression()->clear_output();
  tokens_apart.mutable_compression()->mutable_embedding()->set_dense_tokens(3);
  jobs.push_back({"dense tokens", WithDefaults(tokens_apart),
                  std::make_shared<VaryingData>(0)});
  // The host has a part in their updates.
  if (GraphBackendIsSlow()) return jobs;
  for (const auto method :
       {v1::CompressionSpec::GALORE, v1::CompressionSpec::LTE}) {
    v1::JobSpec spec = WithVaryingLengths(3);
    v1::CompressionSpec& compression = *spec.mutable_compression();
    compression.set_method(method);
    compression.mutable_galore()->set_rank(4);
    compression.mutable_galore()->set_refresh_every_steps(7);
    compression.mutable_lte()->set_rank(1);
    compression.mutable_lte()->set_heads(4);
    compression.mutable_lte()->set_scale(1);
    compression.mutable_lte()->set_merge_every_steps(5);
    jobs.push_back({v1::CompressionSpec::Method_Name(method),
                    WithDefaults(spec), std::make_shared<VaryingData>(3)});
  }
  return jobs;
}

Job JobNamed(const std::string& name) {
  for (Job& job : Jobs()) {
    if (job.name == name) return std::move(job);
  }
  ADD_FAILURE() << "no job " << name;
  return {};
}

enum class On { kGraphs, kEager, kProcessor };

std::unique_ptr<TestRun> RunOn(On on, const Job& job, int ranks = 1,
                               FakeDisk* disk = nullptr, int64_t stop = 0) {
  auto run = std::make_unique<TestRun>();
  run->spec = job.spec;
  run->other_data = job.data.get();
  run->disk = disk;
  run->resume = disk != nullptr;
  run->stop_after_step = stop;
  if (on == On::kGraphs) run->make_backend = MakeGraphBackend;
  if (on == On::kEager) {
    run->make_backend = [] {
      return std::make_unique<RefusingBackend>(MakeGraphBackend());
    };
  }
  run->Run(ranks);
  EXPECT_OK(run->end);
  return run;
}

// The events in their order.
std::vector<std::string> Order(const TestRun& run) {
  std::vector<std::string> order;
  for (const v1::TrainerEvent& event : run.events) {
    order.push_back(absl::StrCat(
        event.event_case(), " at ",
        event.has_metrics()         ? event.metrics().step()
        : event.has_checkpoint()    ? event.checkpoint().step()
        : event.has_rank_snapshot() ? event.rank_snapshot().step()
                                    : -1,
        event.metrics().has_validation_loss() ? ", validated" : ""));
  }
  return order;
}

TEST(CapturedTrainerTest, ReplayedStepsAreThoseThatRunOneByOne) {
  for (const Job& job : Jobs()) {
    SCOPED_TRACE(job.name);
    const auto replayed = RunOn(On::kGraphs, job);
    const auto eager = RunOn(On::kEager, job);
    const StepRunner::Counters& counters = replayed->graph_counters;
    // Heads of LTE see other tokens in every batch.
    if (job.name != "LTE") {
      EXPECT_GT(counters.replayed, counters.captured)
          << counters.eager << " eager, " << counters.captured << " captured";
    }
    EXPECT_EQ(counters.refused, 0);
    EXPECT_EQ(eager->graph_counters.replayed, 0);
    EXPECT_EQ(replayed->Losses(), eager->Losses());
    EXPECT_EQ(replayed->exported, eager->exported);
    EXPECT_THAT(Order(*replayed), ElementsAreArray(Order(*eager)));
  }
}

TEST(CapturedTrainerTest, TrainsAsTheProcessorDoes) {
  for (Job& job : Jobs()) {
    if (job.name == "late stage") continue;  // it decides by rounding
    if (GraphBackendIsSlow() && job.name == "masked LM") continue;
    SCOPED_TRACE(job.name);
    job.spec.mutable_objective()->mutable_early()->set_steps(50);
    const auto graphs = RunOn(On::kGraphs, job);
    const auto processor = RunOn(On::kProcessor, job);
    const auto losses = graphs->Losses(), expected = processor->Losses();
    ASSERT_EQ(losses.size(), expected.size());
    for (const auto& [step, loss] : expected) {
      ASSERT_NEAR(losses.at(step), loss, 2e-3 * std::fabs(loss)) << step;
    }
    EXPECT_THAT(Order(*graphs), ElementsAreArray(Order(*processor)));
    EXPECT_TRUE(processor->graph_counters.replayed == 0);
  }
}

TEST(CapturedTrainerTest, ShapesAreCapturedAnewAfterCompaction) {
  Job job = JobNamed("DLRM");
  job.spec.mutable_objective()->mutable_early()->set_steps(30);
  job.spec.mutable_compression()->set_compact_every_steps(6);
  job.spec.mutable_objective()->mutable_early()->set_gamma(5);
  const auto run = RunOn(On::kGraphs, job);
  const auto snapshots = run->Select(&v1::TrainerEvent::has_rank_snapshot);
  // All batches have one shape: each plan has one graph.
  EXPECT_GE(snapshots.size(), 3u);
  EXPECT_EQ(run->graph_counters.captured,
            static_cast<int64_t>(snapshots.size()) - 1);  // one at the end
  EXPECT_EQ(run->Losses(), RunOn(On::kEager, job)->Losses());
}

TEST(CapturedTrainerTest, RanksThatReduceOnTheHost) {
  const Job job = JobNamed("classifier");
  const auto replayed = RunOn(On::kGraphs, job, 2);
  EXPECT_GT(replayed->graph_counters.replayed, 0);
  EXPECT_EQ(replayed->Losses(), RunOn(On::kEager, job, 2)->Losses());
  // Before rounding has grown.
  const auto one = RunOn(On::kGraphs, job)->Losses();
  const auto two = replayed->Losses();
  for (int64_t step = 1; step <= 10; ++step) {
    ASSERT_NEAR(two.at(step), one.at(step), 1e-3 * one.at(step)) << step;
  }
}

// On a device the gradients of all cores of a bucket are found together.
TEST(CapturedTrainerTest, BucketsHaveTheWholePassesGradients) {
  for (const char* name : {"masked LM", "dense tokens"}) {
    Job job = JobNamed(name);
    job.spec.mutable_model()->set_dropout(0);
    const auto backend = MakeGraphBackend();
    ASSERT_OK_AND_ASSIGN(
        const ModelConfig config,
        MakeModelConfig(job.spec, job.data->vocabulary_size()));
    ASSERT_OK_AND_ASSIGN(
        const auto plan,
        ModelPlan::Create(config, 4, CreateModel, backend.get()));
    std::vector<float> parameters(plan->size());
    plan->model().Initialise(1, parameters.data());
    ASSERT_OK(plan->Upload(parameters, plan->parameters()));
    Batch batch;
    ASSERT_OK(job.data->TrainBatch(0, 4, 0, 1, &batch));
    batch.global_size = 4;
    std::vector<float> gradients[2];
    for (const bool split : {false, true}) {
      ASSERT_OK(backend->Fill(plan->gradients(), 0));
      const float* const weights = plan->parameters().data;
      ASSERT_OK(plan->model().Forward(batch, weights, /*train=*/true,
                                      /*state=*/nullptr));
      const std::vector<ParameterRange> buckets =
          plan->model().GradientBuckets(split ? 1 : plan->trained_size());
      ASSERT_EQ(buckets.size(), split ? 3u : 1u);
      for (const ParameterRange& bucket : buckets) {
        ASSERT_OK(plan->model().BackwardBucket(weights, plan->gradients().data,
                                               bucket));
        // What it must not need again.
        ASSERT_OK_AND_ASSIGN(
            const std::vector<float> done,
            plan->Download(
                {plan->gradients().data + bucket.first, bucket.size}));
        gradients[split].insert(gradients[split].begin(), done.begin(),
                                done.end());
        ASSERT_OK(backend->Fill(
            {plan->gradients().data + bucket.first, bucket.size}, NAN));
      }
    }
    EXPECT_EQ(gradients[1], gradients[0]) << name;
    EXPECT_GT(*std::max_element(gradients[0].begin(), gradients[0].end()), 0);
  }
}

TEST(CapturedTrainerTest, StoppedAndResumedIsUninterrupted) {
  const Job job = JobNamed("masked LM");
  const auto whole = RunOn(On::kGraphs, job);
  FakeDisk disk;
  const auto first = RunOn(On::kGraphs, job, 1, &disk, 13);
  ASSERT_TRUE(first->end->stopped);
  // Step 13 is reported while step 14 runs, which then is the last.
  EXPECT_GE(first->last_steps[0], 13);
  EXPECT_LE(first->last_steps[0], 15);
  const auto rest = RunOn(On::kGraphs, job, 1, &disk);
  EXPECT_EQ(rest->exported, whole->exported);
  auto losses = first->Losses();
  losses.merge(rest->Losses());
  EXPECT_EQ(losses, whole->Losses());
}

TEST(CapturedTrainerTest, ASpikeIsLeftOutBetweenReplayedSteps) {
  const LoudData data(14, 15);
  std::unique_ptr<TestRun> runs[2];
  for (const bool graphs : {false, true}) {
    auto run = std::make_unique<TestRun>();
    run->spec.mutable_objective()->mutable_early()->set_steps(20);
    run->spec.mutable_training()->set_spike_factor(10);
    run->other_data = &data;
    run->model_factory = LoudModel::Create;
    run->make_backend = MakeGraphBackend;
    run->graphs = graphs;
    run->Run();
    ASSERT_OK(run->end);
    const auto incidents = run->Select(&v1::TrainerEvent::has_incident);
    ASSERT_EQ(incidents.size(), 1u);
    EXPECT_THAT(incidents[0].incident().message(), HasSubstr("step 15: "));
    runs[graphs] = std::move(run);
  }
  EXPECT_GT(runs[true]->graph_counters.replayed, 0);
  ASSERT_EQ(runs[true]->Losses().size(), 20u);
  // Without graphs, batches are not padded.
  for (const auto& [step, loss] : runs[false]->Losses()) {
    EXPECT_NEAR(runs[true]->Losses().at(step), loss, 1e-4 * loss) << step;
  }
}

TEST(CapturedTrainerTest, LabelsEndARunWhereItsFiguresAreReadLate) {
  for (const Job& job : Jobs()) {
    if (job.name != "tokens") continue;
    const auto replayed = RunOn(On::kGraphs, job);
    const auto processor = RunOn(On::kProcessor, job);
    const int64_t last = processor->end->result.step();
    EXPECT_LT(last, job.spec.objective().early().steps());
    EXPECT_NE(last % job.spec.training().validate_every_steps(), 0);
    EXPECT_EQ(replayed->end->result.step(), last);
    EXPECT_EQ(replayed->end->result.reason(), processor->end->result.reason());
  }
}

TEST(CapturedTrainerTest, ReportsFarApartAreThoseOfTheirSteps) {
  Job job = JobNamed("masked LM");
  const auto every = RunOn(On::kGraphs, job)->Losses();
  job.spec.mutable_training()->set_report_every_steps(4);
  const auto some = RunOn(On::kGraphs, job)->Losses();
  for (const int64_t step : {1, 4, 8, 10, 12, 28, 30}) {
    ASSERT_TRUE(some.count(step)) << step;
    EXPECT_EQ(some.at(step), every.at(step)) << step;
  }
  EXPECT_EQ(some.count(9), 0u);
}

// Clicks of which one batch holds what is no number.
class PoisonedClicks : public TrainingData {
 public:
  PoisonedClicks(std::shared_ptr<const TrainingData> data, int64_t step)
      : data_(std::move(data)), step_(step) {}

  int64_t train_samples() const override { return data_->train_samples(); }
  int64_t validation_samples() const override {
    return data_->validation_samples();
  }
  int32_t vocabulary_size() const override { return data_->vocabulary_size(); }
  double baseline_loss() const override { return data_->baseline_loss(); }
  const ClickShape* clicks() const override { return data_->clicks(); }
  absl::Status TrainBatch(int64_t step, int64_t batch_size, int rank,
                          int world_size, Batch* batch) const override {
    RETURN_IF_ERROR(
        data_->TrainBatch(step, batch_size, rank, world_size, batch));
    if (step == step_) {
      batch->dense[0] = std::numeric_limits<float>::quiet_NaN();
    }
    return absl::OkStatus();
  }
  absl::Status ValidationBatch(int64_t first, int64_t count,
                               Batch* batch) const override {
    return data_->ValidationBatch(first, count, batch);
  }
  absl::Status SaveTokenizer(const std::string&) const override {
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const TrainingData> data_;
  const int64_t step_;
};

TEST(CapturedTrainerTest, WhatIsNoNumberNamesItsStep) {
  const Job clicks = JobNamed("DLRM");
  // In the middle, before a step that waits, and in one.
  for (const int64_t step : {7, 9, 10}) {
    const PoisonedClicks data(clicks.data, step - 1);
    FakeDisk disk;
    TestRun run;
    run.spec = clicks.spec;
    run.other_data = &data;
    run.disk = &disk;
    run.make_backend = MakeGraphBackend;
    run.Run();
    EXPECT_THAT(run.end,
                StatusIs(absl::StatusCode::kInternal,
                         HasSubstr(absl::StrCat("step ", step, ": "))));
    EXPECT_EQ(FailureClassOf(run.end.status()), v1::NAN_LOSS);
    EXPECT_TRUE(disk.files.empty());
    EXPECT_EQ(run.Losses().rbegin()->first, step - 1);
  }
}

TEST(CapturedTrainerTest, PhasesOfOtherShapes) {
  Job job{"phases", TinySpec(), nullptr};
  job.spec.mutable_compression()->set_compact_every_steps(1000);
  job.spec.mutable_data()->set_max_length(20);
  job.spec.mutable_model()->set_max_positions(20);
  std::vector<PhasedData::Phase> parts;
  int64_t first = 0;
  for (const auto& [steps, length, batch] :
       {std::tuple<int, int, int>{12, 8, 8}, {9, 12, 4}, {9, 20, 6}}) {
    v1::Phase* phase = job.spec.mutable_training()->add_phases();
    phase->set_steps(steps);
    phase->set_max_length(length);
    phase->set_batch_size(batch);
    parts.push_back({first, std::make_shared<FakeTrainingData>(length)});
    first += steps;
  }
  job.spec = WithDefaults(job.spec);
  job.data = std::make_shared<PhasedData>(std::move(parts));
  const auto replayed = RunOn(On::kGraphs, job);
  // Validation at step 10 runs as the last phase, and the first comes back.
  EXPECT_EQ(replayed->graph_counters.captured, 4);
  EXPECT_EQ(replayed->Losses(), RunOn(On::kEager, job)->Losses());
}

TEST(CapturedTrainerTest, GraphsCanBeTurnedOff) {
  const Job job = JobNamed("masked LM");
  TestRun run;
  run.spec = job.spec;
  run.other_data = job.data.get();
  run.make_backend = MakeGraphBackend;
  run.graphs = false;
  run.Run();
  ASSERT_OK(run.end);
  EXPECT_EQ(run.graph_counters.replayed, 0);
  EXPECT_EQ(run.graph_counters.captured, 0);
}

}  // namespace
}  // namespace comera::trainer
