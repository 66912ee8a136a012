// The parts of a trainer, put together on the tiny job for the tests of each.
#ifndef COMERA_TESTS_WORKER_TRAINER_LOOP_TRAINER_PARTS_H_
#define COMERA_TESTS_WORKER_TRAINER_LOOP_TRAINER_PARTS_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/worker/trainer/tiny_job.h"
#include "worker/trainer/loop/divergence_guard.h"
#include "worker/trainer/loop/initial_state.h"
#include "worker/trainer/loop/late_stage.h"
#include "worker/trainer/loop/state_keeper.h"
#include "worker/trainer/loop/step_engine.h"
#include "worker/trainer/loop/step_reporter.h"
#include "worker/trainer/loop/trained_model.h"
#include "worker/trainer/loop/trainer_options.h"
#include "worker/trainer/loop/training_schedule.h"

namespace comera::trainer {

class SettableClock : public Clock {
 public:
  absl::Time Now() override { return now_; }
  void Advance(absl::Duration duration) { now_ += duration; }

 private:
  absl::Time now_ = absl::UnixEpoch();
};

// A gang of one member. Adapt `options` before Make.
struct TrainerParts {
  explicit TrainerParts(const v1::JobSpec& spec = TinySpec())
      : backend(kernels::CreateCpuBackend({/*threads=*/1})) {
    options.spec = spec;
    options.backend = backend.get();
    options.data = &data;
    options.clock = &clock;
    options.events = [this](const v1::TrainerEvent& event) {
      events.push_back(event);
    };
    options.log = [this](const std::string& line) { log.push_back(line); };
  }

  // Makes the parts, without a state.
  void Make() {
    schedule = std::make_unique<TrainingSchedule>(&options.spec);
    auto config = TrainedModel::InitialConfig(options, *schedule);
    ASSERT_OK(config);
    model = std::make_unique<TrainedModel>(&options, schedule.get(), *config);
    reporter = std::make_unique<StepReporter>(&options, schedule.get(),
                                              &progress, model.get());
    engine = std::make_unique<StepEngine>(
        &options, schedule.get(), model.get(), &progress, reporter.get(),
        [this](const StepFigures& read) { figures.push_back(read); });
    late_stage =
        std::make_unique<LateStage>(&options, schedule.get(), &progress,
                                    model.get(), engine.get(), reporter.get());
    guard = std::make_unique<DivergenceGuard>(&options, schedule.get(),
                                              &progress, model.get(),
                                              engine.get(), reporter.get());
    keeper = std::make_unique<StateKeeper>(
        &options, schedule.get(), &progress, model.get(), late_stage.get(),
        guard.get(), reporter.get(),
        std::make_unique<FakeCheckpointFiles>(&disk));
    ASSERT_OK(keeper->DigestData());
    ASSERT_OK(engine->Allocate());
  }

  // Loads `state`, or else the initial one.
  void Load(std::optional<TrainingState> state = std::nullopt) {
    if (!state.has_value()) {
      std::vector<InitialWeightsReport::LayerError> errors;
      auto initial = MakeInitialState(options, *schedule, model.get(), &errors);
      ASSERT_OK(initial);
      state = *std::move(initial);
    }
    ASSERT_OK(model->Load(*state, schedule->phases().At(0)));
    progress = state->progress;
    ASSERT_OK(engine->Rebind());
  }

  void Steps(int count) {
    for (int i = 0; i < count; ++i) ASSERT_OK(engine->Step(/*stop=*/false));
    ASSERT_OK(engine->CatchUp());
  }

  std::vector<float> Parameters() {
    auto parameters = model->Parameters();
    EXPECT_OK(parameters);
    return *parameters;
  }

  FakeTrainingData data;
  FakeDisk disk;
  SettableClock clock;
  std::unique_ptr<kernels::Backend> backend;
  TrainerOptions options;
  TrainingProgress progress;
  std::unique_ptr<TrainingSchedule> schedule;
  std::unique_ptr<TrainedModel> model;
  std::unique_ptr<StepReporter> reporter;
  std::unique_ptr<StepEngine> engine;
  std::unique_ptr<LateStage> late_stage;
  std::unique_ptr<DivergenceGuard> guard;
  std::unique_ptr<StateKeeper> keeper;

  std::vector<v1::TrainerEvent> events;
  std::vector<std::string> log;
  std::vector<StepFigures>
      figures;  // figures that the engine read one step late
};

}  // namespace comera::trainer

#endif  // COMERA_TESTS_WORKER_TRAINER_LOOP_TRAINER_PARTS_H_
