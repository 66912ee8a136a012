// Runs comera-trainer: one member of a training job, started by the worker or
// by hand.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "worker/trainer/describe/describe.h"
#include "worker/trainer/export/gguf_export.h"
#include "worker/trainer/export/hf_export.h"
#include "worker/trainer/export/hf_factors.h"
#include "worker/trainer/export/onnx_export.h"
#include "worker/trainer/main/member_main.h"
#include "worker/trainer/main/prepare_main.h"
#include "worker/trainer/planning/calibration.h"
#include "worker/trainer/predict/evaluate.h"
#include "worker/trainer/predict/predictor.h"
#include "worker/trainer/predict/serve.h"
#include "worker/trainer/process/event_writer.h"
#include "worker/trainer/process/exit_line.h"
#include "worker/trainer/process/failure.h"
#include "worker/trainer/process/heartbeat.h"
#include "worker/trainer/process/make_backend.h"
#include "worker/trainer/process/stop_signals.h"
#include "worker/trainer/process/task_file.h"
#include "worker/trainer/process/worker_lease.h"

namespace comera::trainer {
namespace {

// The event that reports the end of memory, made while there is some, and where
// it goes.
std::string* out_of_memory_line = nullptr;
int out_of_memory_descriptor = STDOUT_FILENO;

void PrepareForOutOfMemory(int64_t attempt, int rank) {
  v1::TrainerEvent event;
  *event.mutable_failure() =
      ToFailure(absl::ResourceExhaustedError("out of memory"), attempt, rank);
  *out_of_memory_line = EventWriter::ToLine(event);
}

// Ends the process where memory ends: not all libraries survive the unwinding
// of an exception that is thrown in their midst.
void EndOutOfMemory() {
  // Short enough for a pipe to take it whole, between two lines.
  if (write(out_of_memory_descriptor, out_of_memory_line->data(),
            out_of_memory_line->size()) < 0) {
    _exit(2);
  }
  _exit(1);
}

// Returns null if the worker gave no lease.
std::unique_ptr<LeaseWatch> WatchLease(const TrainerTask& task,
                                       StopSignals& signals) {
  if (task.lease_file().empty()) return nullptr;
  LeaseWatch::Options options;
  options.file = task.lease_file();
  options.lease = absl::Seconds(task.lease().seconds()) +
                  absl::Nanoseconds(task.lease().nanos());
  return std::make_unique<LeaseWatch>(options, [&signals] { signals.Ask(); });
}

// Returns a descriptor of standard output, and lets what libraries print there
// go to the log instead, where it breaks no event.
int ClaimOutput() {
  const int output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (output < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    return STDOUT_FILENO;
  }
  return output;
}

// Returns the exit code. `lease` receives the watch of the lease, if the worker
// gave one. It is to last until the process ends: on a full disk the last
// events and the exit line wait for room, and without a worker nobody else
// would end the process.
int RunMember(const std::string& task_file, const MemberOptions& options,
              StopSignals& signals, int output,
              std::unique_ptr<LeaseWatch>* lease) {
  EventWriter writer(EventWriter::ToDescriptor(output));
  const EventSink sink = [&](const v1::TrainerEvent& event) {
    writer.Write(event);
  };
  Activity activity;
  activity.Set(v1::PREPARING, 0, "reading the task");
  absl::Status status;
  int64_t attempt = 0;
  int rank = 0;
  {
    HeartbeatThread heartbeat(&activity, sink);
    const absl::StatusOr<TrainerTask> task = ReadTaskFile(task_file);
    status = task.status();
    if (task.ok()) {
      attempt = task->attempt();
      rank = task->rank();
      PrepareForOutOfMemory(attempt, rank);
      *lease = WatchLease(*task, signals);
      status = RunTask(*task, signals.asked(), sink, activity, options);
    }
  }
  if (status.ok()) return 0;  // the writer's destructor writes all out
  LOG(ERROR) << "rank=" << rank << " attempt=" << attempt << " " << status;
  v1::TrainerEvent event;
  *event.mutable_failure() = ToFailure(status, attempt, rank);
  writer.Write(std::move(event));
  return 1;
}

int Main(const std::string& task_file, const MemberOptions& options) {
  StopSignals signals;  // before any other thread
  // A reader that closes the pipe is noticed by write, and is no reason to
  // stop.
  signal(SIGPIPE, SIG_IGN);
  const int output = ClaimOutput();
  out_of_memory_descriptor = output;
  out_of_memory_line = new std::string;
  PrepareForOutOfMemory(0, 0);
  std::set_new_handler(EndOutOfMemory);
  std::unique_ptr<LeaseWatch> lease;
  const int code = RunMember(task_file, options, signals, output, &lease);
  if (lease != nullptr) {
    EventWriter::ToDescriptor(output)(absl::StrCat(kExitLine, code, "\n"));
  }
  return code;
}

// Prints what the task will do and take, and runs nothing.
int PrintDescription(const std::string& task_file, int64_t vocabulary) {
  const absl::StatusOr<TrainerTask> task = ReadTaskFile(task_file);
  absl::Status status = task.status();
  if (task.ok()) {
    const absl::StatusOr<TaskDescription> description =
        Describe(*task, {vocabulary});
    status = description.status();
    if (status.ok()) std::cout << DescriptionJson(*description) << std::endl;
  }
  if (status.ok()) return 0;
  std::cerr << "comera-trainer: " << status.message() << std::endl;
  return 1;
}

// Measures this machine, prints its numbers, and keeps them in `cache_dir`
// unless that is empty.
int Calibrate(const std::string& cache_dir, const BackendOptions& options) {
  const auto calibrate = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const auto backend, MakeBackend(options));
    const Machine machine = MachineOf(options);
    ASSIGN_OR_RETURN(const kernels::MachineSpeed speed,
                     MeasureMachine(backend.get(), machine));
    std::cout << CalibrationJson(machine.name, speed);
    return cache_dir.empty() ? absl::OkStatus()
                             : SaveCalibration(cache_dir, machine.name, speed);
  };
  const absl::Status status = calibrate();
  if (status.ok()) return 0;
  std::cerr << "comera-trainer: " << status.message() << std::endl;
  return 1;
}

// Answers rows with the model in `directory` until its input ends.
int ServeModel(const std::string& directory,
               const Predictor::Options& options) {
  signal(SIGPIPE, SIG_IGN);
  const auto serve = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const auto predictor, Predictor::Open(directory, options));
    return Serve(predictor.get(), STDIN_FILENO, STDOUT_FILENO);
  };
  absl::Status status;
  try {
    status = serve();
  } catch (const std::bad_alloc&) {
    status = absl::ResourceExhaustedError("out of memory");
  }
  if (status.ok()) return 0;
  std::cerr << "comera-trainer: " << status.message() << std::endl;
  return 1;
}

// Tokenises text into token shards as the file says.
int PrepareData(const std::string& request_file) {
  StopSignals signals;  // before any other thread
  absl::Status status;
  try {
    status = RunPrepare(
        request_file, signals.asked(),
        [](const std::string& line) { std::cout << line << std::flush; });
  } catch (const std::bad_alloc&) {
    status = absl::ResourceExhaustedError("out of memory");
  }
  if (status.ok()) return 0;
  std::cerr << "comera-trainer: " << status.message() << std::endl;
  return absl::IsCancelled(status) ? 130 : 1;
}

// Prints how good the model in `directory` is on the validation set of the
// task's job, as a line of JSON.
int EvaluateModel(const std::string& directory, const std::string& task_file,
                  const EvaluateOptions& options) {
  const auto evaluate = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const TrainerTask task, ReadTaskFile(task_file));
    EvaluateOptions own = options;
    if (own.predict.cache_dir.empty()) own.predict.cache_dir = task.cache_dir();
    ASSIGN_OR_RETURN(const v1::Evaluation evaluation,
                     Evaluate(directory, task.spec(), own));
    std::cout << PredictLine(evaluation) << std::flush;
    return absl::OkStatus();
  };
  absl::Status status;
  try {
    status = evaluate();
  } catch (const std::bad_alloc&) {
    status = absl::ResourceExhaustedError("out of memory");
  }
  if (status.ok()) return 0;
  std::cerr << "comera-trainer: " << status.message() << std::endl;
  return 1;
}

// Writes the model in `directory` as `format` into `to`; `numbers` are those
// of a GGUF file's matrices.
int ExportModelAs(const std::string& format, GgufNumber numbers,
                  const std::string& directory, const std::string& to) {
  std::error_code error;
  // Files of both have the same names.
  if (std::filesystem::equivalent(directory, to, error)) {
    std::cerr << "comera-trainer: --to: " << to
              << " is the model's own folder, which would be overwritten"
              << std::endl;
    return 1;
  }
  absl::Status status;
  try {
    status = format == "hf" ? ExportToHuggingFace(directory, to)
             : format == "hf-factors"
                 ? ExportFactorsToHuggingFace(directory, to)
             : format == "onnx" ? ExportToOnnx(directory, to)
             : format == "gguf" ? ExportToGguf(directory, numbers, to)
                                : ExportDense(directory, to);
  } catch (const std::bad_alloc&) {
    status = absl::ResourceExhaustedError("out of memory");
  }
  if (status.ok()) return 0;
  std::cerr << "comera-trainer: " << status.message() << std::endl;
  return 1;
}

}  // namespace
}  // namespace comera::trainer

int main(int argc, char** argv) {
  CLI::App app{
      "Trains one member of a job and prints its progress as JSON lines "
      "(comera.v1.TrainerEvent) on standard output."};
  std::string task_file, cache_dir, model, export_format, export_to;
  std::string prepare_request;
  bool describe = false, calibrate = false;
  bool serve = false, evaluate = false;
  comera::trainer::EvaluateOptions predict;
  auto export_numbers = comera::trainer::GgufNumber::kFloat16;
  int64_t vocabulary = 0;
  comera::trainer::BackendOptions machine;
  app.add_option(
      "--task", task_file,
      "Task: a file with protobuf JSON of "
      "comera.trainer.TrainerTask; `spec` and `work_dir` are enough");
  app.add_flag("--describe", describe,
               "Print what the task will do and take as JSON; train nothing");
  app.add_option("--vocabulary", vocabulary,
                 "Tokens in the vocabulary, for --describe without data");
  app.add_flag("--calibrate", calibrate,
               "Measure this machine for the planner, print JSON");
  app.add_option("--cache-dir", cache_dir,
                 "Where --calibrate keeps its numbers: cache_dir of the tasks");
  app.add_flag(
      "--serve", serve,
      "Answer lines of comera.v1.PredictRequest (protobuf JSON) on "
      "standard input with the model of --model: a line each, and one for "
      "each piece of a generated text");
  app.add_option("--model", model,
                 "Folder of a model, for --serve, --evaluate and --export");
  app.add_option(
         "--export", export_format,
         "Write the model of --model into --to: hf, as the transformers "
         "library keeps such a model; hf-factors, for that library with its "
         "factors; onnx, with its factors; gguf, a language model for "
         "llama.cpp; safetensors, as a model of ours without factors")
      ->check(
          CLI::IsMember({"hf", "hf-factors", "onnx", "gguf", "safetensors"}));
  app.add_option("--export-precision", export_numbers,
                 "Of the matrices that --export=gguf writes: f32, f16 or q8_0; "
                 "default f16")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, comera::trainer::GgufNumber>{
              {"f32", comera::trainer::GgufNumber::kFloat32},
              {"f16", comera::trainer::GgufNumber::kFloat16},
              {"q8_0", comera::trainer::GgufNumber::kQ8_0}}));
  app.add_option("--to", export_to, "Folder, for --export");
  app.add_option("--prepare-data", prepare_request,
                 "Tokenise text into token shards as this JSON file of `comera "
                 "data prepare` says");
  app.add_flag("--evaluate", evaluate,
               "Tell how good the model of --model is on the validation set of "
               "the task's job, as JSON; train nothing");
  app.add_option("--samples", predict.samples,
                 "Of the validation set, for --evaluate; default all")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--batch", predict.predict.batch_size,
                 "Rows that go through the model together, for --serve and "
                 "--evaluate; default as memory allows, at most 32")
      ->check(CLI::Range(0, 4096));
  app.add_option(
      "--threads", machine.threads,
      "Threads of a member, for --calibrate and --serve; default all");
  app.add_option("--device", machine.device,
                 "What --calibrate measures and --serve uses: cpu or gpu; "
                 "default cpu")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, comera::v1::ResourceSpec::Device>{
              {"cpu", comera::v1::ResourceSpec::CPU},
              {"gpu", comera::v1::ResourceSpec::GPU}}));
  app.add_option("--precision", machine.precision,
                 "Of a GPU's products, for --calibrate and --serve; default "
                 "fp32")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, comera::v1::TrainingSpec::Precision>{
              {"fp32", comera::v1::TrainingSpec::FP32},
              {"tf32", comera::v1::TrainingSpec::TF32},
              {"bf16", comera::v1::TrainingSpec::BF16}}));
  comera::trainer::MemberOptions options;
  app.add_option("--graphs", options.graphs,
                 "on: a GPU's steps are captured once and replayed; off: every "
                 "operation is enqueued, for debugging and comparisons")
      ->default_str("on");
  app.add_option(
         "--overlap_launches", options.overlap_launches,
         "on: a GPU of compute capability 9.0 (H100, H200) sets a kernel "
         "up while the one before it runs; off: one after another")
      ->default_str("off");
  app.add_option("--bucket_mib", options.bucket_mib,
                 "a gang sums so many MiB of gradients at a time, or more, "
                 "while the rest is computed; 0: all at the end. The same on "
                 "all members")
      ->check(CLI::Range(0, 1 << 20))
      ->default_str("32");
  app.add_option(
         "--limit_to_plan", options.limit_to_plan,
         "on: on the CPU, a job without resources.memory_bytes may take "
         "half as much memory again as planned, and a GiB; off: any")
      ->default_str("on");
  app.set_version_flag("--version",
                       std::string("comera-trainer ") + comera::kVersion);
  CLI11_PARSE(app, argc, argv);
  if (!prepare_request.empty()) {
    return comera::trainer::PrepareData(prepare_request);
  }
  if (calibrate) return comera::trainer::Calibrate(cache_dir, machine);
  predict.predict.backend = machine;
  predict.predict.cache_dir = cache_dir;
  const bool exports = !export_format.empty();
  if ((serve || evaluate || exports) && model.empty()) {
    std::cerr << "comera-trainer: --serve, --evaluate and --export need --model"
              << std::endl;
    return 106;
  }
  if (exports && export_to.empty()) {
    std::cerr << "comera-trainer: --export needs --to" << std::endl;
    return 106;
  }
  if (exports) {
    return comera::trainer::ExportModelAs(export_format, export_numbers, model,
                                          export_to);
  }
  if (serve) return comera::trainer::ServeModel(model, predict.predict);
  if (task_file.empty()) {
    std::cerr << "comera-trainer: --task, --serve or --calibrate is required"
              << std::endl;
    return 106;  // CLI11's code for a required option
  }
  if (evaluate) {
    return comera::trainer::EvaluateModel(model, task_file, predict);
  }
  if (describe) {
    return comera::trainer::PrintDescription(task_file, vocabulary);
  }
  return comera::trainer::Main(task_file, options);
}
