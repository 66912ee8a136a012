// Runs a task: opens the data, trains, and exports the model.
#include "worker/trainer/main/member_main.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/files.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "proto/resource_names.h"
#include "worker/collective/communicator.h"
#include "worker/collective/counted_communicator.h"
#include "worker/energy/energy_meter.h"
#include "worker/energy/open_energy_meter.h"
#include "worker/trainer/data/batch/training_data.h"
#include "worker/trainer/data/open_training_data.h"
#include "worker/trainer/loop/trainer.h"
#include "worker/trainer/main/form_gang.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/weights/export.h"
#include "worker/trainer/planning/calibration.h"
#include "worker/trainer/planning/memory_check.h"
#include "worker/trainer/process/failure.h"
#include "worker/trainer/process/make_backend.h"
#include "worker/trainer/process/process_memory.h"
#include "worker/trainer/program/run_program.h"
#include "worker/trainer/state/checkpoint.h"

namespace comera::trainer {
namespace {

int ThreadsOf(const TrainerTask& task) {
  if (task.threads() > 0) return task.threads();
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, cores / task.local_world_size());
}

absl::Status Export(const TrainingData& data, const std::string& directory,
                    const ModelConfig& config,
                    const std::vector<float>& parameters,
                    const v1::TrainingResult& result) {
  std::map<std::string, double> figures = {
      {"step", static_cast<double>(result.step())},
      {"validation_loss", result.validation_loss()},
      {"validation_accuracy", result.validation_accuracy()},
      {"size_parameters", static_cast<double>(result.size_parameters())},
      {"baseline_loss", data.baseline_loss()},
  };
  const std::tuple<const char*, bool, double> others[] = {
      {"validation_f1", result.has_validation_f1(), result.validation_f1()},
      {"validation_mcc", result.has_validation_mcc(), result.validation_mcc()},
      {"validation_auc", result.has_validation_auc(), result.validation_auc()},
      {"validation_normalized_entropy",
       result.has_validation_normalized_entropy(),
       result.validation_normalized_entropy()},
      {"validation_perplexity", result.has_validation_perplexity(),
       result.validation_perplexity()},
      {"validation_bits_per_byte", result.has_validation_bits_per_byte(),
       result.validation_bits_per_byte()},
      {"test_loss", result.has_test(), result.test().loss()},
      {"test_accuracy", result.has_test(), result.test().accuracy()},
  };
  for (const auto& [name, has, value] : others) {
    if (has) figures[name] = value;
  }
  RETURN_IF_ERROR(MakeDirectories(directory));
  RETURN_IF_ERROR(ExportModel(config, parameters.data(), figures, directory));
  return data.SaveTokenizer(directory);
}

BackendOptions BackendOptionsOf(const TrainerTask& task) {
  BackendOptions options;
  options.device = task.device();
  options.precision = task.spec().training().precision();
  options.threads = ThreadsOf(task);
  options.memory_limit_bytes = task.spec().resources().memory_bytes();
  return options;
}

// The hardware that this member counts, so that the members together count
// everything once.
energy::EnergySources EnergySourcesOf(const TrainerTask& task) {
  energy::EnergySources sources;
  sources.processors = task.local_rank() == 0;
  if (task.device() == v1::ResourceSpec::GPU) {
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    const std::string first =
        visible == nullptr ? "" : std::string(visible, strcspn(visible, ","));
    sources.gpu = first.empty() ? "0" : first;
  }
  return sources;
}

// Lets the member hold what it has planned, with head-room: the data that it
// has opened are held already.
absl::Status LimitToPlan(const MemoryNeed& need, int threads) {
  const int64_t held = DataBytes();
  const int64_t planned = need.bytes + CheckpointBytes(need.state_bytes);
  const int64_t limit = LimitOfPlan(held, planned, threads);
  LOG(INFO) << "memory limit bytes=" << limit << " held=" << held
            << " planned=" << planned;
  // Where the machine sets a lower one, that holds.
  const absl::Status limited = LimitDataBytes(limit);
  LOG_IF(WARNING, !limited.ok()) << "no memory limit of its own " << limited;
  return absl::OkStatus();
}

// An error of a file: a full disk is no lack of memory, and one that fails is
// the machine's fault, not that of another member of the gang.
absl::Status FileError(absl::Status status) {
  const v1::FailureClass failure_class =
      absl::IsResourceExhausted(status) ? v1::DISK_FULL
      : absl::IsUnavailable(status)     ? v1::RANK_LOST
                                        : v1::INTERNAL;
  return WithFailureClass(std::move(status), failure_class);
}

// Says why the member ends without a result: one that was not asked itself, or
// whose daemon was away when it was, would be a mystery otherwise.
void ReportStopped(const TrainerTask& task, const EventSink& events,
                   const std::string& when) {
  v1::TrainerEvent event;
  *event.mutable_failure() = ToFailure(
      WithFailureClass(
          absl::CancelledError(absl::StrCat("stopped as asked, ", when)),
          v1::PREEMPTED),
      task.attempt(), task.rank());
  events(event);
}

absl::Status Train(const TrainerTask& task, const std::atomic<bool>& stop,
                   const EventSink& events, Activity& activity,
                   const MemberOptions& member_options) {
  // On a GPU the limit is that of device memory, which the backend keeps.
  const bool on_cpu = task.device() != v1::ResourceSpec::GPU;
  const int64_t own_limit = task.spec().resources().memory_bytes();
  if (on_cpu && own_limit > 0) RETURN_IF_ERROR(LimitDataBytes(own_limit));
  RETURN_IF_ERROR(FileError(MakeDirectories(task.work_dir())));
  if (task.spec().has_program()) {
    return RunProgram(
        task,
        on_cpu ? absl::StrCat("CPU, ", ThreadsOf(task), " threads") : "GPU",
        stop, events, activity);
  }

  const std::unique_ptr<energy::EnergyMeter> energy =
      energy::OpenEnergyMeter(EnergySourcesOf(task));
  // The device is tried before the data are opened, which may take minutes.
  BackendOptions backend_options = BackendOptionsOf(task);
  backend_options.overlap_launches = member_options.overlap_launches;
  ASSIGN_OR_RETURN(const std::unique_ptr<kernels::Backend> backend,
                   MakeBackend(backend_options));
  ASSIGN_OR_RETURN(const std::string device, DeviceName(backend_options));

  activity.Set(v1::PREPARING, 0, "opening data");
  TrainingData::Options data_options;
  data_options.cache_dir = task.cache_dir();
  data_options.on_activity = [&](const std::string& what) {
    activity.Describe(what);
  };
  ASSIGN_OR_RETURN(const std::unique_ptr<TrainingData> data,
                   OpenTrainingData(task.spec(), data_options));
  if (stop.load()) {
    ReportStopped(task, events, "before training");
    return absl::OkStatus();
  }

  activity.Describe("meeting the other members");
  absl::StatusOr<std::unique_ptr<collective::Communicator>> gang =
      FormGang(task, *backend, member_options.bucket_mib, stop);
  if (absl::IsCancelled(gang.status())) {
    ReportStopped(task, events, "before training");
    return absl::OkStatus();
  }
  if (!gang.ok()) {
    return WithFailureClass(gang.status(), v1::COLLECTIVE_HANG);
  }
  std::unique_ptr<collective::Communicator> counted;
  if (*gang != nullptr) {
    counted = std::make_unique<collective::CountedCommunicator>(gang->get());
  }
  activity.Count(counted.get());
  LOG(INFO) << "training job=" << task.job() << " attempt=" << task.attempt()
            << " rank=" << task.rank() << " ranks=" << task.world_size()
            << " device=\"" << device << "\"";

  TrainerOptions options;
  std::string why;
  const Machine machine = MachineOf(backend_options);
  options.machine = LoadCalibration(task.cache_dir(), machine, &why);
  options.machine_is_measured = !(options.machine == machine.defaults);
  if (!why.empty()) LOG(WARNING) << "planning with defaults: " << why;
  options.spec = task.spec();
  // Classes that the job leaves open are those of the data.
  if (data->classes() > 0) {
    options.spec.mutable_model()->set_classes(data->classes());
  }
  options.attempt = task.attempt();
  options.resume = task.resume();
  if (task.has_start()) {
    options.start = StateKey{task.start().attempt(), task.start().step()};
  }
  options.graphs = member_options.graphs;
  options.bucket_floats = member_options.bucket_mib == 0
                              ? std::numeric_limits<int64_t>::max()
                              : member_options.bucket_mib *
                                    (int64_t{1 << 20} / int64_t{sizeof(float)});
  options.backend = backend.get();
  options.device = device;
  if (on_cpu && own_limit == 0 && member_options.limit_to_plan) {
    options.on_memory_need =
        [threads = backend_options.threads](const MemoryNeed& need) {
          return LimitToPlan(need, threads);
        };
  }
  options.report_device_memory = task.device() == v1::ResourceSpec::GPU;
  options.check_memory = task.device() == v1::ResourceSpec::GPU ||
                         backend_options.memory_limit_bytes > 0;
  options.data = data.get();
  options.communicator = counted.get();
  options.energy = energy.get();
  options.snapshot_every_steps = task.snapshot_every_steps();
  if (task.rank() == 0) {
    options.checkpoint_files =
        OpenCheckpointFolder(absl::StrCat(task.work_dir(), "/checkpoints"));
  }
  options.events = events;
  options.log = [](const std::string& line) { LOG(WARNING) << line; };
  options.activity = &activity;
  options.export_model = [&](const ModelConfig& config,
                             const std::vector<float>& parameters,
                             const v1::TrainingResult& result) {
    return FileError(Export(*data, absl::StrCat(task.work_dir(), "/model"),
                            config, parameters, result));
  };
  const std::string finish =
      absl::StrCat(task.work_dir(), "/", FinishFile(task.attempt()));
  options.finish_asked = [finish] {
    return ::access(finish.c_str(), F_OK) == 0;
  };
  options.export_best = [&](const ModelConfig& config,
                            const std::vector<float>& parameters,
                            const v1::TrainingResult& result) {
    return FileError(Export(*data,
                            absl::StrCat(task.work_dir(), "/targets/",
                                         BestModelName(task.attempt())),
                            config, parameters, result));
  };
  options.export_target = [&](int target, const ModelConfig& config,
                              const std::vector<float>& parameters,
                              const v1::TrainingResult& result) {
    return FileError(Export(
        *data, absl::StrCat(task.work_dir(), "/targets/target-", target + 1),
        config, parameters, result));
  };
  if (task.rank() == 0) {
    // It lies beside the targets' models, where the worker uploads it.
    options.export_early_stage = [&](const std::string& contents) {
      const std::string folder =
          absl::StrCat(task.work_dir(), "/targets/", kEarlyStageArtifact);
      RETURN_IF_ERROR(FileError(MakeDirectories(folder)));
      return FileError(WriteFileAtomically(
          absl::StrCat(folder, "/", kTrainingStateFile), contents));
    };
    if (!task.start_from().empty()) {
      options.read_start = [&] {
        auto contents = ReadFile(task.start_from());
        if (!contents.ok()) contents = FileError(contents.status());
        return contents;
      };
    }
  }
  activity.Describe("building the model");
  absl::Status status;
  {
    absl::StatusOr<std::unique_ptr<Trainer>> trainer =
        Trainer::Create(std::move(options));
    status = trainer.status();
    if (trainer.ok()) {
      const absl::StatusOr<RunEnd> end = (*trainer)->Run(stop);
      status = end.status();
      if (end.ok() && end->stopped && !end->left_model) {
        ReportStopped(task, events,
                      absl::StrCat("after a checkpoint at step ",
                                   (*trainer)->progress().step));
      }
    }
  }
  activity.Count(nullptr);
  return status;
}

}  // namespace

absl::Status RunTask(const TrainerTask& task, const std::atomic<bool>& stop,
                     const EventSink& events, Activity& activity,
                     const MemberOptions& member_options) {
  try {
    return Train(task, stop, events, activity, member_options);
  } catch (const std::bad_alloc&) {
    activity.Count(nullptr);
    return absl::ResourceExhaustedError("out of memory");
  }
}

}  // namespace comera::trainer
