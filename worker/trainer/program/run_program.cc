// Starts a program, listens to it, and says how it ended.
#include "worker/trainer/program/run_program.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/files.h"
#include "common/json.h"
#include "common/log.h"
#include "common/out_of_memory.h"
#include "common/status_macros.h"
#include "common/steady_time.h"
#include "common/text.h"
#include "proto/resource_names.h"
#include "worker/trainer/process/failure.h"
#include "worker/trainer/program/event_pipe.h"
#include "worker/trainer/program/master_address.h"
#include "worker/trainer/program/program_checkpoints.h"
#include "worker/trainer/program/program_end.h"
#include "worker/trainer/program/program_environment.h"
#include "worker/trainer/program/program_events.h"
#include "worker/trainer/program/program_output.h"
#include "worker/trainer/program/program_process.h"

namespace comera::trainer {
namespace {

namespace fs = std::filesystem;

constexpr char kRunning[] = "running the program";
// How long it may take to notice a request to stop.
constexpr int kPollMilliseconds = 200;
constexpr absl::Duration kLookInterval = absl::Seconds(1);
// A program that used less of a processor than this between two looks stood
// still.
constexpr double kLeastShare = 0.02;

// The events that a program may have stored.
constexpr double kMaxBurst = 500;
constexpr double kEventsPerSecond = 20;

// What the worker sends of a model (worker/report/model_uploader.cc), and the
// coordinator takes.
constexpr size_t kMaxModelFiles = 64;
constexpr size_t kMaxModelFileName = 200;

bool IsModelFileName(const std::string& name) {
  return name.size() <= kMaxModelFileName && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  c == '.' || c == '_' || c == '-';
         });
}

// A file's error: a full disk is no lack of memory, and a disk that fails is
// the machine's fault.
absl::Status FileError(absl::Status status) {
  const v1::FailureClass failure_class =
      absl::IsResourceExhausted(status) ? v1::DISK_FULL
      : absl::IsUnavailable(status)     ? v1::RANK_LOST
                                        : v1::INTERNAL;
  return WithFailureClass(std::move(status), failure_class);
}

// A folder for the files of one attempt, where TMPDIR leads.
absl::StatusOr<std::string> MakePlace(const TrainerTask& task) {
  const char* const temporary = getenv("TMPDIR");
  std::string folder = absl::StrCat(temporary != nullptr && temporary[0] == '/'
                                        ? std::string(temporary)
                                        : task.work_dir(),
                                    "/program-XXXXXX");
  if (mkdtemp(folder.data()) == nullptr) return ErrnoStatus(errno, folder);
  return folder;
}

ProgramEvents::Options EventOptions(const TrainerTask& task,
                                    const std::string& device) {
  ProgramEvents::Options options;
  options.world_size = task.world_size();
  options.device = device;
  if (!task.spec().objective().has_late()) return options;
  const v1::LateStage& late = task.spec().objective().late();
  options.target_loss = late.target_loss();
  options.target_parameters =
      late.has_target_bytes()
          ? late.target_bytes() / static_cast<int64_t>(sizeof(float))
          : late.target_parameters();
  return options;
}

// One run of one member's program.
class ProgramRun {
 public:
  ProgramRun(const TrainerTask& task, const std::string& device,
             const std::atomic<bool>& stop, const EventSink& events,
             Activity& activity, std::string place)
      : task_(task),
        stop_(stop),
        sink_(events),
        activity_(activity),
        place_(std::move(place)),
        places_{absl::StrCat(place_, "/events"),
                absl::StrCat(place_, "/checkpoints"),
                absl::StrCat(task.work_dir(), "/model")},
        finish_(absl::StrCat(task.work_dir(), "/", FinishFile(task.attempt()))),
        checkpoints_(task, places_.checkpoints),
        events_(EventOptions(task, device)) {}

  absl::Status Run();

 private:
  bool IsFirst() const { return task_.rank() == 0; }
  absl::Status Prepare();
  absl::StatusOr<ProgramProcess> Start(int output);
  // Listens until the program has ended.
  ProgramExit Listen(ProgramProcess& process, EventPipe& pipe,
                     ProgramOutput& output);
  void OnLine(std::string_view line);
  // Whether so many events may be passed on now: all of them are stored.
  bool ClaimBudget(size_t events);
  // Passes the event on, with what the program does not know itself.
  void Report(v1::TrainerEvent event) const;
  void Keep(const ProgramEvents::Saved& saved);
  // Whether the program has been asked to end, or is now.
  void AskToEnd(const ProgramProcess& process);
  absl::Status Conclude(const ProgramExit& exit, const std::string& exception,
                        bool out_of_memory);
  // Leaves the model, and reports the result.
  absl::Status ReportResult(bool finished);
  // Removes what the worker could not send from the model's folder, and says
  // so.
  void LeaveOutWhatNoModelMayHold();
  void ReportStopped();

  const TrainerTask& task_;
  const std::atomic<bool>& stop_;
  const EventSink& sink_;
  Activity& activity_;
  const std::string place_;
  const ProgramPlaces places_;
  // The file by which the worker asks for the best model and the end.
  const std::string finish_;
  ProgramCheckpoints checkpoints_;
  ProgramEvents events_;
  bool finish_asked_ = false;
  bool asked_ = false;
  int bad_lines_ = 0;
  int64_t peak_memory_bytes_ = 0;
  double budget_ = kMaxBurst;
  absl::Time budget_time_ = SteadyNow();
  bool over_budget_ = false;
};

absl::Status ProgramRun::Prepare() {
  const v1::ProgramSpec& program = task_.spec().program();
  const std::string entry = absl::StrCat(program.files(), "/", program.entry());
  std::error_code error;
  if (!fs::is_regular_file(entry, error)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "program.entry: program.files has no file ", program.entry()));
  }
  RETURN_IF_ERROR(FileError(MakeDirectories(places_.checkpoints)));
  if (!IsFirst()) return absl::OkStatus();
  // A model that an earlier attempt left is not this one's.
  fs::remove_all(places_.model, error);
  RETURN_IF_ERROR(FileError(MakeDirectories(places_.model)));
  activity_.Describe("restoring the checkpoint");
  std::vector<std::string> damaged;
  const absl::Status restored = checkpoints_.Restore(&damaged);
  for (const std::string& line : damaged) {
    v1::TrainerEvent event;
    *event.mutable_incident() = ToFailure(
        WithFailureClass(absl::DataLossError(line), v1::CHECKPOINT_DAMAGED),
        task_.attempt(), task_.rank());
    sink_(event);
  }
  if (absl::IsNotFound(restored)) {
    return WithFailureClass(restored, v1::CHECKPOINT_UNREACHABLE);
  }
  if (absl::IsDataLoss(restored)) {
    return WithFailureClass(restored, v1::CHECKPOINT_DAMAGED);
  }
  return FileError(restored);
}

absl::StatusOr<ProgramProcess> ProgramRun::Start(int output) {
  activity_.Describe("meeting the other members");
  absl::StatusOr<std::string> master = MasterAddress(task_, stop_);
  if (!master.ok() && !absl::IsCancelled(master.status())) {
    return WithFailureClass(master.status(), v1::COLLECTIVE_HANG);
  }
  RETURN_IF_ERROR(master.status());
  const v1::ProgramSpec& program = task_.spec().program();
  std::vector<std::string> arguments = {program.python(), program.entry()};
  arguments.insert(arguments.end(), program.arguments().begin(),
                   program.arguments().end());
  LOG(INFO) << "program job=" << task_.job() << " attempt=" << task_.attempt()
            << " rank=" << task_.rank() << " master=" << *master << " "
            << program.python() << " " << program.entry();
  return ProgramProcess::Start(
      arguments, ProgramEnvironment(task_, places_, *master, environ),
      program.files(), output);
}

absl::Status ProgramRun::Run() {
  RETURN_IF_ERROR(Prepare());
  ASSIGN_OR_RETURN(EventPipe pipe, EventPipe::Make(places_.events));
  ASSIGN_OR_RETURN(ProgramOutput output, ProgramOutput::Make(STDERR_FILENO));
  const int64_t kills = OutOfMemoryKills();
  absl::StatusOr<ProgramProcess> process = Start(output.write_fd());
  output.CloseWriteEnd();
  if (absl::IsCancelled(process.status())) {
    ReportStopped();
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(process.status());
  activity_.Set(v1::EARLY, 0, kRunning);
  const ProgramExit exit = Listen(*process, pipe, output);
  if (IsFirst()) {
    for (v1::TrainerEvent& event : events_.Flush()) Report(std::move(event));
  }
  return Conclude(exit, output.LastException(), OutOfMemoryKills() > kills);
}

ProgramExit ProgramRun::Listen(ProgramProcess& process, EventPipe& pipe,
                               ProgramOutput& output) {
  absl::Time next_look = SteadyNow() + kLookInterval;
  double used = process.ProcessorSeconds();
  peak_memory_bytes_ = process.PeakMemoryBytes();
  const auto on_line = [this](std::string_view line) { OnLine(line); };
  while (true) {
    pollfd fds[] = {{process.pidfd(), POLLIN, 0},
                    {pipe.fd(), POLLIN, 0},
                    {output.fd(), POLLIN, 0}};
    poll(fds, 3, kPollMilliseconds);
    // What it wrote before its end is there once the end is.
    const std::optional<ProgramExit> exit = process.Poll();
    output.PassOn();
    pipe.ReadLines(on_line);
    if (exit) return *exit;
    AskToEnd(process);
    if (SteadyNow() < next_look) continue;
    next_look = SteadyNow() + kLookInterval;
    // What a program does beside steps, it does not tell.
    const double now = process.ProcessorSeconds();
    if (now - used > kLeastShare * absl::ToDoubleSeconds(kLookInterval)) {
      activity_.CountWork();
    }
    used = now;
    peak_memory_bytes_ = process.PeakMemoryBytes();
  }
}

void ProgramRun::AskToEnd(const ProgramProcess& process) {
  finish_asked_ = finish_asked_ || access(finish_.c_str(), F_OK) == 0;
  if (asked_ || !(stop_.load() || finish_asked_)) return;
  asked_ = true;
  process.Signal(SIGTERM);
}

void ProgramRun::OnLine(std::string_view line) {
  absl::StatusOr<ProgramEvents::News> news = events_.Read(line);
  if (!news.ok()) {
    // A program that writes nothing else would fill the log.
    if (++bad_lines_ <= 10) LOG(WARNING) << "event " << news.status();
    return;
  }
  activity_.Set(events_.stage(), events_.step(), kRunning);
  if (!IsFirst() || !ClaimBudget(news->events.size())) return;
  for (v1::TrainerEvent& event : news->events) Report(std::move(event));
  if (news->saved) Keep(*news->saved);
}

bool ProgramRun::ClaimBudget(size_t events) {
  const absl::Time now = SteadyNow();
  budget_ = std::min(
      kMaxBurst,
      budget_ + kEventsPerSecond * absl::ToDoubleSeconds(now - budget_time_));
  budget_time_ = now;
  const double cost = std::max(1.0, static_cast<double>(events));
  if (budget_ < cost) {
    if (!over_budget_) LOG(WARNING) << "the program reports too often";
    over_budget_ = true;
    return false;
  }
  budget_ -= cost;
  return true;
}

void ProgramRun::Report(v1::TrainerEvent event) const {
  if (event.has_metrics()) {
    event.mutable_metrics()->set_peak_memory_bytes(peak_memory_bytes_);
  }
  sink_(event);
}

void ProgramRun::Keep(const ProgramEvents::Saved& saved) {
  const absl::StatusOr<int64_t> size =
      checkpoints_.Keep(saved.step, saved.path);
  v1::TrainerEvent event;
  if (size.ok()) {
    event.mutable_checkpoint()->set_step(saved.step);
    event.mutable_checkpoint()->set_size_bytes(*size);
  } else if (absl::IsInvalidArgument(size.status())) {
    // A later one may have replaced it already.
    LOG(WARNING) << "checkpoint step=" << saved.step << " " << size.status();
    return;
  } else {
    *event.mutable_incident() =
        ToFailure(FileError(size.status()), task_.attempt(), task_.rank());
  }
  sink_(event);
}

absl::Status ProgramRun::Conclude(const ProgramExit& exit,
                                  const std::string& exception,
                                  bool out_of_memory) {
  const std::string outcome =
      events_.ended() ? events_.ended()->outcome : std::string();
  // A program without a run, or one that had not begun it, ends by the signal;
  // and a run may have been stopped by somebody else, or with its gang.
  const bool by_signal = exit.signal == SIGTERM || exit.signal == SIGINT;
  const bool ended = exit.signal == 0 && exit.code == 0;
  const bool asked = asked_ || stop_.load();
  const bool stopped = (asked && (by_signal || (ended && outcome.empty()))) ||
                       (ended && outcome == "stopped");
  if (!stopped) {
    RETURN_IF_ERROR(StatusOfProgram(exit, events_, exception,
                                    task_.world_size(), out_of_memory));
  }
  if (stopped && !finish_asked_) {
    ReportStopped();
    return absl::OkStatus();
  }
  return IsFirst() ? ReportResult(/*finished=*/!stopped) : absl::OkStatus();
}

absl::Status ProgramRun::ReportResult(bool finished) {
  activity_.Describe("leaving the model");
  LeaveOutWhatNoModelMayHold();
  v1::TrainerEvent event;
  *event.mutable_result() = events_.Result(finished);
  const v1::TrainingResult& result = event.result();
  // So that every model has a file that says what it is.
  const nlohmann::json figures = {
      {"program", task_.spec().program().entry()},
      {"step", result.step()},
      {"validation_loss", result.validation_loss()},
      {"size_parameters", result.size_parameters()}};
  RETURN_IF_ERROR(FileError(
      WriteFileAtomically(absl::StrCat(places_.model, "/program.json"),
                          JsonText(figures, /*indent=*/2) + "\n")));
  if (!finished) {
    // The worker takes the model of a member that was told to finish from here.
    const std::string best = absl::StrCat(task_.work_dir(), "/targets/",
                                          BestModelName(task_.attempt()));
    RETURN_IF_ERROR(
        FileError(MakeDirectories(absl::StrCat(task_.work_dir(), "/targets"))));
    std::error_code error;
    fs::rename(places_.model, best, error);
    if (error) {
      return FileError(
          absl::UnavailableError(absl::StrCat(best, ": ", error.message())));
    }
  }
  sink_(event);
  return absl::OkStatus();
}

void ProgramRun::LeaveOutWhatNoModelMayHold() {
  std::vector<std::string> left_out;
  size_t files = 0;
  std::error_code error;
  for (fs::directory_iterator it(places_.model, error), end;
       !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const bool plain =
        it->symlink_status(error).type() == fs::file_type::regular;
    // One more file is still to come.
    if (plain && IsModelFileName(name) && files + 1 < kMaxModelFiles) {
      ++files;
      continue;
    }
    left_out.push_back(TruncateUtf8(absl::CHexEscape(name), 100));
    std::error_code ignored;
    fs::remove_all(it->path(), ignored);
  }
  if (left_out.empty()) return;
  if (left_out.size() > 5) left_out.resize(5);
  v1::TrainerEvent event;
  *event.mutable_incident() = ToFailure(
      WithFailureClass(
          absl::InvalidArgumentError(absl::StrCat(
              "left out of the model, which has at most ", kMaxModelFiles,
              " files, no folders, and names of [A-Za-z0-9._-]: ",
              absl::StrJoin(left_out, ", "))),
          v1::USER),
      task_.attempt(), task_.rank());
  sink_(event);
}

void ProgramRun::ReportStopped() {
  v1::TrainerEvent event;
  *event.mutable_failure() = ToFailure(
      WithFailureClass(absl::CancelledError(absl::StrCat(
                           "stopped as asked, at step ", events_.step())),
                       v1::PREEMPTED),
      task_.attempt(), task_.rank());
  sink_(event);
}

}  // namespace

absl::Status RunProgram(const TrainerTask& task, const std::string& device,
                        const std::atomic<bool>& stop, const EventSink& events,
                        Activity& activity) {
  RETURN_IF_ERROR(FileError(MakeDirectories(task.work_dir())));
  absl::StatusOr<std::string> place = MakePlace(task);
  if (!place.ok()) return FileError(place.status());
  const auto remove = absl::MakeCleanup([&place] {
    std::error_code ignored;
    fs::remove_all(*place, ignored);
  });
  return ProgramRun(task, device, stop, events, activity, *place).Run();
}

}  // namespace comera::trainer
