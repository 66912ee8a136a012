// A gang of one member: stages, targets, events, failures.
#include "worker/trainer/loop/trainer.h"

#include <cmath>
#include <limits>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/loop/trainer_harness.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/create_model.h"
#include "worker/trainer/model/plan/model_layout.h"
#include "worker/trainer/model/plan/model_size.h"
#include "worker/trainer/model/weights/export.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using Event = v1::TrainerEvent;

void AddLateStage(v1::JobSpec& spec, double loss, double ratio,
                  int64_t max_steps) {
  v1::LateStage& late = *spec.mutable_objective()->mutable_late();
  late.set_target_loss(loss);
  late.set_target_ratio(ratio);
  late.set_max_steps(max_steps);
  spec = WithDefaults(spec);
}

TEST(TrainerTest, EarlyStageAloneEndsCompleted) {
  TestRun run;
  run.Run();
  ASSERT_OK(run.end);
  EXPECT_FALSE(run.end->stopped);
  EXPECT_EQ(run.end->result.outcome(), v1::COMPLETED);
  EXPECT_EQ(run.end->result.step(), 30);
  EXPECT_THAT(run.Losses(), SizeIs(30));
  EXPECT_LT(run.end->result.validation_loss(), run.data.baseline_loss());
  EXPECT_GT(run.end->result.validation_accuracy(), 1.0 / 7);
}

TEST(TrainerTest, TellsWhatHappened) {
  TestRun run;
  FakeDisk disk;
  run.disk = &disk;
  run.Run();
  ASSERT_OK(run.end);
  const v1::RunInfo info = run.events.front().run_info();
  EXPECT_EQ(info.total_steps(), 30);
  EXPECT_EQ(info.world_size(), 1);
  EXPECT_EQ(info.vocabulary_size(), 32);
  EXPECT_GT(info.dense_parameters(), info.initial_parameters());
  EXPECT_GT(info.initial_parameters(), 0);
  EXPECT_TRUE(run.events[1].has_rank_snapshot());
  EXPECT_TRUE(run.events.back().has_result());
  // Validation at 10, 20 and 30; checkpoints at 10 and 20, not at the end.
  int validations = 0;
  for (const Event& e : run.Select(&Event::has_metrics)) {
    const v1::StepMetrics& m = e.metrics();
    validations += m.has_validation_loss() ? 1 : 0;
    EXPECT_TRUE(std::isfinite(m.smoothed_loss()));
    EXPECT_GT(m.peak_memory_bytes(), 0);
    EXPECT_EQ(m.device_memory_bytes(), 0) << "of the host";
    EXPECT_EQ(m.size_bytes(), 4 * m.size_parameters());
    EXPECT_GT(m.dense_synchronized_bytes(), m.synchronized_bytes());
    EXPECT_FALSE(m.has_stepped_on_size());
  }
  EXPECT_EQ(validations, 3);
  EXPECT_THAT(run.Select(&Event::has_checkpoint), SizeIs(2));
  EXPECT_FALSE(run.Select(&Event::has_pareto_point).empty());
}

TEST(TrainerTest, DeviceMemoryFallsWithTheRanks) {
  TestRun run;
  run.report_device_memory = true;
  run.spec.mutable_objective()->mutable_early()->set_steps(60);
  run.spec.mutable_objective()->mutable_early()->set_gamma(20);
  run.Run();
  ASSERT_OK(run.end);
  std::vector<int64_t> bytes;
  for (const Event& e : run.Select(&Event::has_metrics)) {
    bytes.push_back(e.metrics().device_memory_bytes());
  }
  EXPECT_GT(bytes.back(), 0);
  EXPECT_LT(bytes.back(), bytes.front());
}

TEST(TrainerTest, RanksFallAndTheModelIsCompacted) {
  TestRun run;
  run.spec.mutable_objective()->mutable_early()->set_steps(60);
  run.spec.mutable_objective()->mutable_early()->set_gamma(20);
  run.Run();
  ASSERT_OK(run.end);
  const std::vector<Event> metrics = run.Select(&Event::has_metrics);
  EXPECT_LT(metrics.back().metrics().size_parameters(),
            metrics.front().metrics().size_parameters());
  // Not masked: what is synchronised shrinks too.
  EXPECT_LT(metrics.back().metrics().synchronized_bytes(),
            metrics.front().metrics().synchronized_bytes());
  EXPECT_GE(run.Select(&Event::has_rank_snapshot).size(), 3u);
  const ModelLayout layout = MakeModelLayout(run.exported_config);
  EXPECT_EQ(static_cast<int64_t>(run.exported.size()),
            layout.parameters.size());
  EXPECT_EQ(CountedModelSize(layout.parameters, layout.layers,
                             run.exported.data(), 0.01f),
            run.end->result.size_parameters());
}

TEST(TrainerTest, EndsAsSoonAsBothTargetsAreMet) {
  TestRun run;
  run.spec.mutable_objective()->mutable_early()->set_steps(10);
  AddLateStage(run.spec, /*loss=*/1.9, /*ratio=*/0.9, /*max_steps=*/2000);
  run.Run();
  ASSERT_OK(run.end);
  const v1::TrainingResult& result = run.end->result;
  EXPECT_EQ(result.outcome(), v1::TARGET_MET) << result.reason();
  EXPECT_LT(result.step(), 2010);
  EXPECT_LE(result.validation_loss(), 1.9);
  const v1::StepMetrics last = run.Select(&Event::has_metrics).back().metrics();
  EXPECT_LE(result.size_parameters(), last.target_size_parameters());
  EXPECT_EQ(last.stage(), v1::LATE);
  EXPECT_TRUE(last.has_stepped_on_size());
  EXPECT_GE(result.pareto_front_size(), 1);
}

TEST(TrainerTest, BothBranchesOfTheLateStageAreTakenAndTold) {
  TestRun run;
  run.spec.mutable_objective()->mutable_early()->set_steps(10);
  AddLateStage(run.spec, 1.5, 0.7, 150);
  run.Run();
  ASSERT_OK(run.end);
  int on_size = 0, on_loss = 0;
  for (const Event& e : run.Select(&Event::has_metrics)) {
    if (!e.metrics().has_stepped_on_size()) continue;
    (e.metrics().stepped_on_size() ? on_size : on_loss)++;
  }
  EXPECT_GT(on_size, 0);
  EXPECT_GT(on_loss, 0);
}

TEST(TrainerTest, SizeUnderTargetMeansStepsOnTheLoss) {
  TestRun run;
  run.spec.mutable_objective()->mutable_early()->set_steps(5);
  AddLateStage(run.spec, /*loss=*/1e-9, /*ratio=*/1, /*max_steps=*/40);
  run.Run();
  ASSERT_OK(run.end);
  for (const Event& e : run.Select(&Event::has_metrics)) {
    EXPECT_FALSE(e.metrics().stepped_on_size()) << e.metrics().step();
    EXPECT_EQ(e.metrics().stage(),
              e.metrics().step() < 5 ? v1::EARLY : v1::LATE)
        << e.metrics().step();
  }
  // The size alone is not enough.
  EXPECT_EQ(run.end->result.outcome(), v1::TARGET_MISSED);
}

TEST(TrainerTest, TheLossAloneIsNotEnough) {
  TestRun run;
  run.spec.mutable_objective()->mutable_early()->set_steps(5);
  AddLateStage(run.spec, /*loss=*/100, /*ratio=*/0.05, /*max_steps=*/25);
  run.Run();
  ASSERT_OK(run.end);
  EXPECT_EQ(run.end->result.outcome(), v1::TARGET_MISSED);
  EXPECT_EQ(run.end->result.step(), 30);
  EXPECT_LE(run.end->result.validation_loss(), 100);
}

TEST(TrainerTest, MissedTargetsKeepTheNearestModel) {
  TestRun run;
  // Steps so long that the loss goes up and down.
  run.spec.mutable_optimizer()->set_learning_rate_cores(0.2);
  run.spec.mutable_optimizer()->set_learning_rate_other(0.2);
  run.spec.mutable_training()->set_validate_every_steps(5);
  run.spec.mutable_objective()->mutable_early()->set_steps(10);
  AddLateStage(run.spec, /*loss=*/1e-6, /*ratio=*/0.5, /*max_steps=*/45);
  run.Run();
  ASSERT_OK(run.end);
  const v1::TrainingResult& result = run.end->result;
  EXPECT_EQ(result.outcome(), v1::TARGET_MISSED);
  EXPECT_EQ(result.step(), 55);
  // The result is the model with the least worst excess among all validated
  // late models that are small enough.
  const v1::StepMetrics last = run.Select(&Event::has_metrics).back().metrics();
  const double initial = run.events.front().run_info().initial_parameters();
  double best = std::numeric_limits<double>::infinity(), loss = 0;
  int small = 0;
  for (const Event& e : run.Select(&Event::has_metrics)) {
    const v1::StepMetrics& m = e.metrics();
    if (!m.has_validation_loss() || m.stage() != v1::LATE ||
        m.size_parameters() > last.target_size_parameters()) {
      continue;
    }
    ++small;
    const double distance =
        m.validation_loss() - 1e-6 +
        0.01 * (m.validation_loss() + m.size_parameters() / initial);
    if (distance < best) best = distance, loss = m.validation_loss();
  }
  EXPECT_GT(small, 2);
  EXPECT_EQ(result.validation_loss(), loss);
  EXPECT_LT(loss, last.validation_loss()) << "the last is the nearest";
  EXPECT_EQ(static_cast<int64_t>(run.exported.size()),
            MakeModelLayout(run.exported_config).parameters.size());
}

TEST(TrainerTest, LateStageWithoutEarlyStage) {
  TestRun run;
  run.spec.mutable_objective()->mutable_early()->set_steps(0);
  AddLateStage(run.spec, 100, 1, 50);
  run.Run();
  ASSERT_OK(run.end);
  EXPECT_EQ(run.end->result.outcome(), v1::TARGET_MET);
}

TEST(TrainerTest, TargetBytesCountTheWholeModel) {
  TestRun run;
  run.spec.mutable_objective()->mutable_early()->set_steps(5);
  AddLateStage(run.spec, 100, 1, 20);
  run.spec.mutable_objective()->mutable_late()->set_target_bytes(40003);
  run.Run();
  ASSERT_OK(run.end);
  const int64_t target =
      run.Select(&Event::has_metrics).back().metrics().target_size_parameters();
  // The exported file's header counts, too.
  EXPECT_LT(target, 10000);
  EXPECT_GT(target, 8000);
  EXPECT_LE(4 * target + ExportedHeaderBytes(run.exported_config), 40003);
  ASSERT_EQ(run.end->result.targets_size(), 1);
  EXPECT_EQ(run.end->result.targets(0).size_bytes(),
            run.end->result.size_bytes());
}

TEST(TrainerTest, ReferenceObjectiveAndDenseTrain) {
  TestRun reference;
  reference.spec.mutable_objective()->set_kind(v1::ObjectiveSpec::REFERENCE);
  reference.Run();
  ASSERT_OK(reference.end);
  EXPECT_LT(reference.Losses()[30], reference.Losses()[1]);

  TestRun dense;
  dense.spec.mutable_compression()->set_method(v1::CompressionSpec::DENSE);
  dense.Run();
  ASSERT_OK(dense.end);
  EXPECT_LT(dense.Losses()[30], dense.Losses()[1]);
  EXPECT_EQ(dense.events.front().run_info().initial_parameters(),
            dense.events.front().run_info().dense_parameters());
}

// A model whose loss or gradient breaks at one step.
class BreakingModel : public Model {
 public:
  enum What { kLoss, kGradient };
  BreakingModel(std::unique_ptr<Model> inner, What what, int step)
      : inner_(std::move(inner)), what_(what), step_(step) {}

  const ParameterLayout& layout() const override { return inner_->layout(); }
  const std::vector<TensorisedLayer>& tensorised_layers() const override {
    return inner_->tensorised_layers();
  }
  int64_t activation_bytes() const override { return 0; }
  void Initialise(uint64_t seed, float* parameters) const override {
    inner_->Initialise(seed, parameters);
  }
  absl::Status SetBatch(const Batch& batch, bool train,
                        const kernels::StepState* state) override {
    forwards_ += train ? 1 : 0;
    return inner_->SetBatch(batch, train, state);
  }
  void AppendShape(std::vector<int64_t>* shape) const override {
    inner_->AppendShape(shape);
  }
  absl::Status Forward(const float* parameters) override {
    return inner_->Forward(parameters);
  }
  const float* totals() const override { return inner_->totals(); }
  absl::Status Backward(const float* parameters, float* gradients) override {
    const absl::Status status = inner_->Backward(parameters, gradients);
    if (forwards_ != step_) return status;
    if (what_ == kGradient) {
      gradients[5] = std::numeric_limits<float>::infinity();
    } else {
      const_cast<float*>(totals())[0] = std::nanf("");
    }
    return status;
  }
  absl::StatusOr<LossTotals> ReadLoss() override { return inner_->ReadLoss(); }
  absl::StatusOr<std::vector<float>> ReadLogits() override {
    return inner_->ReadLogits();
  }

 private:
  const std::unique_ptr<Model> inner_;
  const What what_;
  const int step_;
  int forwards_ = 0;
};

ModelFactory Breaking(BreakingModel::What what, int step) {
  return
      [=](const ModelConfig& config, int64_t batch_size,
          kernels::Backend* backend) -> absl::StatusOr<std::unique_ptr<Model>> {
        auto inner = CreateModel(config, batch_size, backend);
        if (!inner.ok()) return inner.status();
        return std::make_unique<BreakingModel>(*std::move(inner), what, step);
      };
}

TEST(TrainerTest, LossThatIsNoNumberNamesTheStep) {
  TestRun run;
  run.model_factory = Breaking(BreakingModel::kLoss, 4);
  run.Run();
  EXPECT_THAT(run.end, StatusIs(absl::StatusCode::kInternal,
                                HasSubstr("step 4: training loss")));
  EXPECT_EQ(FailureClassOf(run.end.status()), v1::NAN_LOSS);
  EXPECT_TRUE(run.exported.empty());
}

TEST(TrainerTest, LossThatIsNoNumberLeadsBackWhereAsked) {
  TestRun run;
  run.spec.mutable_training()->set_on_divergence(v1::TrainingSpec::LOWER_RATE);
  // Every model that is planned breaks again.
  run.model_factory = Breaking(BreakingModel::kLoss, 4);
  run.Run();
  EXPECT_EQ(FailureClassOf(run.end.status()), v1::NAN_LOSS);
  EXPECT_EQ(run.Select(&v1::TrainerEvent::has_incident).size(), 3u);
}

TEST(TrainerTest, InfiniteGradientNamesTheStep) {
  TestRun run;
  run.model_factory = Breaking(BreakingModel::kGradient, 3);
  run.Run();
  EXPECT_THAT(run.end, StatusIs(absl::StatusCode::kInternal,
                                HasSubstr("step 3: gradient")));
  EXPECT_EQ(FailureClassOf(run.end.status()), v1::NAN_LOSS);
}

TEST(TrainerTest, DataErrorsPassThrough) {
  TestRun run;
  run.data.set_failing_step(6);
  run.Run();
  EXPECT_THAT(run.end, StatusIs(absl::StatusCode::kDataLoss,
                                HasSubstr("corpus.txt:17")));
  EXPECT_EQ(FailureClassOf(run.end.status()), v1::DATA);
}

TEST(TrainerTest, NoValidationSamples) {
  TestRun run;
  run.data.set_validation_samples(0);
  run.Run();
  EXPECT_THAT(run.end, StatusIs(absl::StatusCode::kDataLoss));
}

TEST(TrainerTest, FullDiskDoesNotStopTraining) {
  TestRun run;
  FakeDisk disk;
  disk.full = true;
  run.disk = &disk;
  run.Run();
  ASSERT_OK(run.end);
  EXPECT_THAT(run.log, Contains(HasSubstr("No space left")));
  EXPECT_TRUE(run.Select(&Event::has_checkpoint).empty());
  // Told once, not at every checkpoint.
  const auto incidents = run.Select(&Event::has_incident);
  ASSERT_EQ(incidents.size(), 1u);
  EXPECT_EQ(incidents[0].incident().failure_class(), v1::DISK_FULL);
}

TEST(TrainerTest, ExportErrorsFailTheRun) {
  // Through the plain options: the harness's exporter never fails.
  const auto backend = kernels::CreateCpuBackend({/*threads=*/1});
  FakeTrainingData data;
  TrainerOptions options;
  options.spec = TinySpec();
  options.spec.mutable_objective()->mutable_early()->set_steps(2);
  options.backend = backend.get();
  options.data = &data;
  std::vector<Event> events;
  options.events = [&](const Event& event) { events.push_back(event); };
  options.export_model = [](const ModelConfig&, const std::vector<float>&,
                            const v1::TrainingResult&) {
    return absl::ResourceExhaustedError("disk full");
  };
  ASSERT_OK_AND_ASSIGN(auto trainer, Trainer::Create(std::move(options)));
  const std::atomic<bool> stop{false};
  EXPECT_THAT(trainer->Run(stop),
              StatusIs(absl::StatusCode::kResourceExhausted));
  for (const Event& event : events) EXPECT_FALSE(event.has_result());
}

}  // namespace
}  // namespace comera::trainer
