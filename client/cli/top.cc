// comera top: jobs and workers, again and again.
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "client/cli/exit_codes.h"
#include "client/cli/interrupts.h"
#include "client/cli/text_format.h"
#include "client/cli/verbs.h"
#include "client/cli/worker_rows.h"

namespace comera::client {
namespace {

constexpr char kClear[] = "\033[H\033[2J";
constexpr int64_t kJobs = 30;

struct Arguments {
  bool once = false;
  int64_t interval = 2;
};

std::vector<std::string> JobRow(const v1::Job& job, absl::Time now) {
  const v1::JobProgress& progress = job.progress();
  std::string share = "-";
  if (progress.total_steps() > 0) {
    share = absl::StrFormat("%.0f%%",
                            100.0 * progress.step() / progress.total_steps());
  }
  return {LastSegment(job.name()),
          job.spec().display_name().empty()
              ? "-"
              : Printable(job.spec().display_name()),
          StateText(job),
          Printable(job.spec().queue()),
          absl::StrCat(job.spec().priority()),
          absl::StrCat(std::max(1, job.spec().resources().ranks())),
          share,
          progress.samples_per_second() > 0
              ? FormatShort(progress.samples_per_second())
              : "-",
          progress.has_eta() ? DurationText(ToDuration(progress.eta())) : "-",
          DurationText(now - ToTime(job.create_time())),
          Printable(job.reason())};
}

absl::StatusOr<std::string> Page(TrainingClient& client) {
  const auto workers = client.ListWorkers();
  if (!workers.ok()) return workers.status();
  const auto jobs = client.List(
      {v1::RUNNING, v1::STARTING, v1::QUEUED, v1::CANCELLING, v1::PAUSED},
      kJobs);
  if (!jobs.ok()) return jobs.status();
  int slots = 0, busy = 0, unfit = 0;
  for (const v1::WorkerSummary& worker : *workers) {
    slots += worker.slots();
    busy += worker.busy_slots();
    unfit += worker.unfit_count();
  }
  std::vector<std::vector<std::string>> rows = {
      {"ID", "NAME", "STATE", "QUEUE", "PRIO", "RANKS", "DONE", "SAMPLES/S",
       "ETA", "AGE", "REASON"}};
  for (const v1::Job& job : *jobs) rows.push_back(JobRow(job, absl::Now()));
  return absl::StrCat(workers->size(), " workers, ", busy, " of ", slots,
                      " slots busy, ", unfit, " unfit\n\n", FormatTable(rows),
                      "\n", FormatTable(WorkerRows(*workers)));
}

std::string CutLines(const std::string& page, int width) {
  std::string cut;
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    absl::StrAppend(&cut, CutToWidth(std::string(line), width), "\n");
  }
  return cut;
}

int Top(const Arguments& arguments, const Session& session) {
  if (arguments.interval < 1) {
    return session.Fail("--interval must be at least 1", kExitUsage);
  }
  if (session.output != OutputFormat::kTable) {
    return session.Fail(
        "top is for people: see `comera ls` and `comera "
        "workers` for -o json",
        kExitUsage);
  }
  const auto client = session.Connect();
  std::mutex mutex;
  std::condition_variable changed;
  bool stop = false;
  const bool live = session.env.out_is_terminal && !arguments.once;
  std::unique_ptr<Interrupts> interrupts;
  if (live) {
    interrupts = std::make_unique<Interrupts>([&] {
      const std::lock_guard<std::mutex> lock(mutex);
      stop = true;
      client->Stop();
      changed.notify_all();
    });
  }
  while (true) {
    const absl::StatusOr<std::string> page = Page(*client);
    {
      const std::lock_guard<std::mutex> lock(mutex);
      if (stop) return kExitInterrupted;
    }
    if (!page.ok()) return session.FailRpc(page.status());
    if (!live) {
      // Not a terminal: one page, whole lines.
      *session.env.out << *page << std::flush;
      return kExitOk;
    }
    *session.env.out << kClear << CutLines(*page, session.env.width)
                     << std::flush;
    std::unique_lock<std::mutex> lock(mutex);
    if (changed.wait_for(lock, std::chrono::seconds(arguments.interval),
                         [&] { return stop; })) {
      return kExitInterrupted;
    }
  }
}

}  // namespace

Verb TopVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {"top",
               "Show jobs and workers until Ctrl-C; one page with --once, or "
               "where the output is no terminal",
               {},
               nullptr};
  verb.arguments = {
      {"--once", "One page", &arguments->once, false, {}},
      {"--interval",
       "Seconds between pages (2)",
       &arguments->interval,
       false,
       {}},
  };
  verb.examples =
      "  comera top\n"
      "  comera top --once";
  verb.run = [=] { return Top(*arguments, *session); };
  return verb;
}

}  // namespace comera::client
