// comera-trainer: one rank of a training job, started by the worker or by hand.
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <cstdint>
#include <new>
#include <string>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/version.h"
#include "glog/logging.h"
#include "worker/trainer/event_writer.h"
#include "worker/trainer/failure.h"
#include "worker/trainer/heartbeat.h"
#include "worker/trainer/rank_main.h"
#include "worker/trainer/stop_signals.h"
#include "worker/trainer/task_file.h"

namespace comera::trainer {
namespace {

// The line that tells of the end of memory, made while there is some.
std::string* out_of_memory_line = nullptr;

void PrepareForOutOfMemory(int64_t epoch, int rank) {
  v1::TrainerEvent event;
  *event.mutable_failure() =
      ToFailure(absl::ResourceExhaustedError("out of memory"), epoch, rank);
  *out_of_memory_line = EventWriter::ToLine(event);
}

// Ends the process where memory ends: not all libraries survive the unwinding
// of an exception that is thrown in their midst.
void EndOutOfMemory() {
  // Short enough for a pipe to take it whole, between two lines.
  if (write(STDOUT_FILENO, out_of_memory_line->data(),
            out_of_memory_line->size()) < 0) {
    _exit(2);
  }
  _exit(1);
}

int Main(const std::string& task_file) {
  StopSignals signals;  // before any other thread
  // A reader that goes is noticed by write, and is no reason to stop.
  signal(SIGPIPE, SIG_IGN);
  out_of_memory_line = new std::string;
  PrepareForOutOfMemory(0, 0);
  std::set_new_handler(EndOutOfMemory);
  EventWriter writer(EventWriter::ToDescriptor(STDOUT_FILENO));
  const EventSink sink = [&](const v1::TrainerEvent& event) {
    writer.Write(event);
  };
  Activity activity;
  activity.Set(v1::PREPARING, 0, "reading the task");
  absl::Status status;
  int64_t epoch = 0;
  int rank = 0;
  {
    HeartbeatThread heartbeat(&activity, sink);
    const absl::StatusOr<TrainerTask> task = ReadTaskFile(task_file);
    status = task.status();
    if (task.ok()) {
      epoch = task->epoch();
      rank = task->rank();
      PrepareForOutOfMemory(epoch, rank);
      status = RunTask(*task, signals.asked(), sink, activity);
    }
  }
  if (status.ok()) return 0;  // the writer's destructor writes all out
  LOG(ERROR) << "rank=" << rank << " epoch=" << epoch << " " << status;
  v1::TrainerEvent event;
  *event.mutable_failure() = ToFailure(status, epoch, rank);
  writer.Write(std::move(event));
  return 1;
}

}  // namespace
}  // namespace comera::trainer

int main(int argc, char** argv) {
  CLI::App app{
      "Trains one rank of a job and tells its progress as JSON lines "
      "(comera.v1.TrainerEvent) on standard output."};
  std::string task_file;
  app.add_option("--task", task_file,
                 "Task: a file with protobuf JSON of "
                 "comera.trainer.TrainerTask; `spec` and `work_dir` are enough")
      ->required();
  app.set_version_flag("--version",
                       std::string("comera-trainer ") + comera::kVersion);
  CLI11_PARSE(app, argc, argv);
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(argv[0]);
  return comera::trainer::Main(task_file);
}
