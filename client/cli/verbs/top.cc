// comera top: shows jobs, workers and queues, live.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/live/terminal_screen.h"
#include "client/cli/live/top_view.h"
#include "client/cli/output/job_row.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/interrupts.h"
#include "client/cli/session/worker_rows.h"
#include "client/cli/verbs/verbs.h"

namespace comera::client {
namespace {

constexpr char kExamples[] = R"(  comera top
  comera top --once -o wide
  comera top --interval 10

Keys: q quit, arrows or j and k select, Enter details, s sort, / filter,
c cancel (after a question), r rate, space ask now.)";

constexpr int64_t kJobs = 500;
constexpr int64_t kJobsOnce = 30;
// Redraws at least this often, to keep the clock in the title going.
constexpr absl::Duration kRedraw = absl::Seconds(1);

struct Arguments {
  bool once = false;
  int64_t interval = 2;
};

absl::Status Ask(TrainingClient& client, int64_t most, TopState* state) {
  const auto workers = client.ListWorkers();
  if (!workers.ok()) return workers.status();
  v1::ListJobsRequest request;
  for (const v1::JobState wanted :
       {v1::RUNNING, v1::STARTING, v1::QUEUED, v1::CANCELLING, v1::PAUSED}) {
    request.add_states(wanted);
  }
  request.set_view(v1::JOB_VIEW_BASIC);
  const auto jobs = client.ListMatching(request, most);
  if (!jobs.ok()) return jobs.status();
  state->workers = *workers;
  state->jobs.assign(jobs->jobs().begin(), jobs->jobs().end());
  state->total_jobs = std::max<int64_t>(jobs->total_size(), jobs->jobs_size());
  // Some users may not see queues, and the other tables do not need them.
  if (auto queues = client.ListQueues(); queues.ok()) {
    state->queues = *std::move(queues);
  }
  state->time = absl::Now();
  return absl::OkStatus();
}

int Once(const Session& session) {
  TopState state;
  const absl::Status status = Ask(*session.Connect(), kJobsOnce, &state);
  if (!status.ok()) return session.FailRpc(status);
  int slots = 0, busy = 0, unfit = 0;
  for (const v1::WorkerSummary& worker : state.workers) {
    slots += worker.slots();
    busy += worker.busy_slots();
    unfit += worker.unfit_count();
  }
  TableRows rows = {JobHeader()};
  for (const v1::Job& job : state.jobs) {
    rows.push_back(JobRow(job, state.time));
  }
  *session.env.out << state.workers.size() << " workers, " << busy << " of "
                   << slots << " slots busy, " << unfit << " unfit\n\n"
                   << session.TableText(rows, JobDispensable()) << "\n"
                   << session.TableText(WorkerRows(state.workers),
                                        WorkerDispensable())
                   << std::flush;
  return kExitOk;
}

TopState Unasked(const Session& session) {
  TopState state;
  state.server = session.ServerAddress();
  return state;
}

// Queries the coordinator on a thread of its own, so that keys react at once
// even if it is slow. The destructor stops and joins the thread.
class Asker {
 public:
  Asker(const Session& session, TerminalScreen* screen)
      : client_(session.Connect()),
        screen_(screen),
        state_(Unasked(session)),
        thread_([this] { Run(); }) {}
  ~Asker() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    client_->Stop();
    changed_.notify_all();
    thread_.join();
  }

  TopState state() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return state_;
  }
  // Returns the result of the last Cancel, once.
  std::string PopNote() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(note_, "");
  }
  void SetInterval(int64_t seconds) {
    const std::lock_guard<std::mutex> lock(mutex_);
    interval_ = std::chrono::seconds(seconds);
  }
  void AskNow() {
    const std::lock_guard<std::mutex> lock(mutex_);
    now_ = true;
    changed_.notify_all();
  }
  void Cancel(const std::string& job) {
    const std::lock_guard<std::mutex> lock(mutex_);
    cancel_.push_back(job);
    now_ = true;
    changed_.notify_all();
  }

 private:
  void Run() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!stop_) {
      const std::vector<std::string> cancel = std::exchange(cancel_, {});
      TopState state = state_;
      now_ = false;
      lock.unlock();
      std::string note;
      for (const std::string& name : cancel) {
        const auto job = client_->Cancel(name, "cancelled in comera top");
        note = job.ok() ? absl::StrCat(name, " ", StateText(*job))
                        : Printable(std::string(job.status().message()));
      }
      const absl::Status status = Ask(*client_, kJobs, &state);
      state.error = status.ok() ? "" : std::string(status.message());
      lock.lock();
      state_ = std::move(state);
      if (!note.empty()) note_ = note;
      if (stop_) return;
      screen_->Wake();
      changed_.wait_for(lock, interval_,
                        [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                          return stop_ || now_;
                        });
    }
  }

  const std::unique_ptr<TrainingClient> client_;
  TerminalScreen* const screen_;
  std::mutex mutex_;
  std::condition_variable changed_;
  TopState state_ ABSL_GUARDED_BY(mutex_);
  std::string note_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> cancel_ ABSL_GUARDED_BY(mutex_);
  std::chrono::seconds interval_ ABSL_GUARDED_BY(mutex_){2};
  bool now_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  // Declared last, because it uses the others.
  std::thread thread_;
};

int Live(const Arguments& arguments, const Session& session,
         TerminalScreen* screen) {
  TopChoice choice;
  choice.interval_s = arguments.interval;
  Interrupts interrupts([screen] { screen->Wake(); });
  Asker asker(session, screen);
  asker.SetInterval(choice.interval_s);
  while (!interrupts.happened()) {
    const TopState state = asker.state();
    if (const std::string note = asker.PopNote(); !note.empty()) {
      choice.note = note;
    }
    screen->Draw(TopScreen(state, choice, absl::Now(), screen->width(),
                           screen->height()));
    std::string cancelled;
    switch (PressKey(screen->Wait(kRedraw), state, &choice, &cancelled)) {
      case TopAction::kQuit:
        return kExitOk;
      case TopAction::kCancel:
        asker.Cancel(cancelled);
        break;
      case TopAction::kRefresh:
        asker.SetInterval(choice.interval_s);
        asker.AskNow();
        break;
      case TopAction::kNone:
        break;
    }
  }
  // Closed before anything is waited for: a second Ctrl-C then ends the process
  // at once.
  screen->Close();
  return kExitInterrupted;
}

int Top(const Arguments& arguments, const Session& session) {
  if (arguments.interval < 1 || arguments.interval > 3600) {
    return session.Fail("--interval must be 1 to 3600", kExitUsage);
  }
  if (session.output != OutputFormat::kTable) {
    return session.Fail(
        "top is for people: see `comera ls` and `comera "
        "workers` for -o json",
        kExitUsage);
  }
  if (arguments.once || !session.env.out_is_terminal ||
      !session.env.in_is_terminal) {
    return Once(session);
  }
  const auto screen = TerminalScreen::Open(session.Color());
  if (!screen.ok()) {
    session.Note(std::string(screen.status().message()));
    return Once(session);
  }
  return Live(arguments, session, screen->get());
}

}  // namespace

Verb TopVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {"top",
               "Show jobs, workers and queues live; one page with --once, or "
               "where the output is no terminal",
               {},
               nullptr};
  verb.arguments = {
      {"--once", "One page", &arguments->once, false, {}},
      {"--interval",
       "Seconds between questions to the coordinator (2)",
       &arguments->interval,
       false,
       {}},
  };
  verb.examples = kExamples;
  verb.run = [=] { return Top(*arguments, *session); };
  return verb;
}

}  // namespace comera::client
