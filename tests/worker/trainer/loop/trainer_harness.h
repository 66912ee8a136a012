// Runs trainers on the tiny job and keeps what they report.
#ifndef COMERA_TESTS_WORKER_TRAINER_LOOP_TRAINER_HARNESS_H_
#define COMERA_TESTS_WORKER_TRAINER_LOOP_TRAINER_HARNESS_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/worker/trainer/tiny_job.h"
#include "worker/collective/in_process_communicator.h"
#include "worker/energy/energy_meter.h"
#include "worker/trainer/loop/trainer.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/create_model.h"

namespace comera::trainer {

// One run of a job with all its members.
struct TestRun {
  // In.
  v1::JobSpec spec = TinySpec();
  FakeTrainingData data;
  // Instead of `data`, if not null.
  const TrainingData* other_data = nullptr;
  // Gives every member data of its own. Empty: all have the same.
  std::function<const TrainingData*(int member)> data_of;
  // What counts each member's energy. Empty: nothing does.
  std::function<energy::EnergyMeter*(int member)> energy_of;
  FakeDisk* disk = nullptr;
  bool resume = false;
  // The checkpoint that spec.start_from names; empty: none.
  std::string start;
  int threads = 1;  // each member has so many
  ModelFactory model_factory = CreateModel;
  // Makes the backend of every member; empty: one of the processor.
  std::function<std::unique_ptr<kernels::Backend>()> make_backend;
  bool graphs = true;
  // TrainerOptions::bucket_floats; 0: its default.
  int64_t bucket_floats = 0;
  bool report_device_memory = false;
  // Makes what a member communicates through instead of the given one, which
  // outlives it. Empty: it is the given one, as with one member.
  std::function<std::unique_ptr<collective::Communicator>(
      collective::Communicator*, kernels::Backend*)>
      make_communicator;
  // Ask member `stop_member` to stop once this step was reported; 0: never.
  int64_t stop_after_step = 0;
  int stop_member = 0;
  // Member 0 is to leave its best model when it stops.
  bool finish = false;

  // Out, from member 0.
  std::vector<v1::TrainerEvent> events;
  std::vector<std::string> log;
  absl::StatusOr<RunEnd> end = absl::UnknownError("not run");
  ModelConfig exported_config;
  std::vector<float> exported;
  ModelConfig best_config;
  std::vector<float> best;
  std::map<int, std::pair<ModelConfig, std::vector<float>>> exported_targets;
  std::string early_stage;
  StepRunner::Counters graph_counters;
  // Out, from every member.
  std::vector<absl::Status> statuses;
  std::vector<int64_t> last_steps;

  void Run(int members = 1) {
    auto gang = collective::CreateInProcessGroup(members);
    std::vector<std::atomic<bool>> stops(members);
    for (auto& stop : stops) stop = false;
    statuses.assign(members, absl::OkStatus());
    last_steps.assign(members, -1);
    std::vector<std::thread> threads;
    for (int r = 0; r < members; ++r) {
      threads.emplace_back([&, r] {
        statuses[r] =
            RunMember(r, members == 1 ? nullptr : gang[r].get(), stops);
        // A member that is gone must not keep the others waiting.
        gang[r].reset();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Training loss after each step.
  std::map<int64_t, double> Losses() const {
    std::map<int64_t, double> losses;
    for (const v1::TrainerEvent& event : events) {
      if (event.has_metrics()) {
        losses[event.metrics().step()] = event.metrics().loss();
      }
    }
    return losses;
  }

  template <typename Has>
  std::vector<v1::TrainerEvent> Select(Has has) const {
    std::vector<v1::TrainerEvent> selected;
    for (const v1::TrainerEvent& event : events) {
      if ((event.*has)()) selected.push_back(event);
    }
    return selected;
  }

 private:
  absl::Status RunMember(int member, collective::Communicator* communicator,
                         std::vector<std::atomic<bool>>& stops) {
    const auto backend =
        make_backend
            ? make_backend()
            : kernels::CreateCpuBackend(
                  {threads, /*memory_limit_bytes=*/0,
                   spec.training().precision() == v1::TrainingSpec::BF16});
    TrainerOptions options;
    options.seal_steps = true;  // as in debug builds
    options.spec = spec;
    options.report_device_memory = report_device_memory;
    options.resume = resume;
    options.backend = backend.get();
    options.graphs = graphs;
    if (bucket_floats > 0) options.bucket_floats = bucket_floats;
    options.data = data_of                 ? data_of(member)
                   : other_data != nullptr ? other_data
                                           : &data;
    options.communicator = communicator;
    if (energy_of) options.energy = energy_of(member);
    std::unique_ptr<collective::Communicator> other;
    if (communicator != nullptr && make_communicator) {
      other = make_communicator(communicator, backend.get());
      options.communicator = other.get();
    }
    options.model_factory = model_factory;
    if (member == 0) {
      if (disk != nullptr) {
        options.checkpoint_files = std::make_unique<FakeCheckpointFiles>(disk);
      }
      options.events = [&](const v1::TrainerEvent& event) {
        events.push_back(event);
        if (stop_after_step > 0 && event.has_metrics() &&
            event.metrics().step() == stop_after_step) {
          stops[stop_member] = true;
        }
      };
      options.log = [&](const std::string& line) { log.push_back(line); };
      options.export_model = [&](const ModelConfig& config,
                                 const std::vector<float>& parameters,
                                 const v1::TrainingResult&) {
        exported_config = config;
        exported = parameters;
        return absl::OkStatus();
      };
      options.finish_asked = [&] { return finish && stops[stop_member]; };
      options.export_best = [&](const ModelConfig& config,
                                const std::vector<float>& parameters,
                                const v1::TrainingResult&) {
        best_config = config;
        best = parameters;
        return absl::OkStatus();
      };
      options.export_target = [&](int target, const ModelConfig& config,
                                  const std::vector<float>& parameters,
                                  const v1::TrainingResult&) {
        exported_targets[target] = {config, parameters};
        return absl::OkStatus();
      };
      options.export_early_stage = [this](const std::string& contents) {
        early_stage = contents;
        return absl::OkStatus();
      };
      if (!start.empty()) {
        options.read_start = [this]() -> absl::StatusOr<std::string> {
          return start;
        };
      }
    }
    auto trainer = Trainer::Create(std::move(options));
    if (!trainer.ok()) {
      if (member == 0) end = trainer.status();
      return trainer.status();
    }
    absl::StatusOr<RunEnd> own = (*trainer)->Run(stops[member]);
    last_steps[member] = (*trainer)->progress().step;
    if (member == 0) {
      end = own;
      graph_counters = (*trainer)->graph_counters();
    }
    return own.status();
  }
};

}  // namespace comera::trainer

#endif  // COMERA_TESTS_WORKER_TRAINER_LOOP_TRAINER_HARNESS_H_
