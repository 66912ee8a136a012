// Prints a job's events as they come and redraws the block on a terminal.

#include "client/cli/live/watch_job.h"

#include "absl/strings/str_cat.h"
#include "client/cli/live/progress_view.h"
#include "client/cli/output/style.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/interrupts.h"

namespace comera::client {
namespace {

constexpr absl::Duration kLineInterval = absl::Seconds(5);

}  // namespace

void WatchPrinter::OnJob(const v1::Job& job) {
  figures_.Apply(job);
  if (is_live()) DrawBlock();
  if (!is_table() || is_live() || job.state() != v1::QUEUED) return;
  // The first is followed by stored events, which would seem newer.
  if (!has_job_) {
    has_job_ = true;
  } else if (!job.reason().empty() && job.reason() != shown_reason_) {
    shown_reason_ = job.reason();
    PrintLine(absl::StrCat(StateText(job), ": ", Printable(job.reason())));
  }
}

void WatchPrinter::OnEvent(const v1::JobEvent& event) {
  figures_.Apply(event);
  history_.Apply(event);
  if (event.has_state_change()) {
    shown_reason_ = event.state_change().reason();
  }
  if (!is_table()) {
    session_.Print(event, /*one_line=*/true);
    return;
  }
  if (is_live()) {
    // Lines that the block does not contain stay above it.
    if (event.has_incident() || event.has_run_info()) {
      EraseBlock();
      PrintLine(EventLine(event));
    }
    DrawBlock();
    return;
  }
  if (event.has_metrics()) {
    if (IsDue(event)) PrintLine(ProgressLine(figures_));
    return;
  }
  const std::string line = EventLine(event);
  if (!line.empty()) PrintLine(line);
}

void WatchPrinter::Finish(const v1::Job& job,
                          const std::string& model_directory,
                          TrainingClient& client) {
  figures_.Apply(job);
  if (!is_table()) return;
  if (is_live()) DrawBlock();
  block_lines_ = 0;
  *session_.env.out << '\n';
  PrintSummary(session_, figures_, model_directory, client);
}

void WatchPrinter::DrawBlock() {
  EraseBlock();
  const auto [columns, height] =
      session_.env.current_size
          ? session_.env.current_size()
          : std::make_pair(session_.env.width, session_.env.height);
  // One column is left free, because a full line would wrap.
  const int width = columns - 1;
  std::vector<StyledLine> lines;
  const std::string state = StateText(figures_.job());
  for (const std::string& line : ProgressBlock(figures_, width)) {
    const size_t at = lines.empty() ? line.find(state) : std::string::npos;
    if (at == std::string::npos) {
      lines.push_back({{line, Tone::kPlain}});
    } else {
      lines.push_back({{line.substr(0, at), Tone::kStrong},
                       {state, ToneOfState(state)},
                       {line.substr(at + state.size()), Tone::kPlain}});
    }
  }
  // Lines that have scrolled off the screen could not be redrawn.
  const int room = height - 2 - static_cast<int>(lines.size());
  for (StyledLine& line : history_.Plots(width, room)) {
    lines.push_back(std::move(line));
  }
  std::string text;
  for (const StyledLine& line : lines) {
    absl::StrAppend(&text, Paint(line, session_.Color()), "\n");
  }
  *session_.env.out << text << std::flush;
  block_lines_ = static_cast<int>(lines.size());
}

void WatchPrinter::EraseBlock() {
  if (block_lines_ == 0) return;
  *session_.env.out << "\x1b[" << block_lines_ << "A\x1b[J";
  block_lines_ = 0;
}

void WatchPrinter::PrintLine(const std::string& line) {
  *session_.env.out << line << std::endl;
}

bool WatchPrinter::IsDue(const v1::JobEvent& event) {
  const absl::Time time = ToTime(event.time());
  const v1::StepMetrics& m = event.metrics();
  const bool due = m.has_validation_loss() || m.step() == m.total_steps() ||
                   time - last_line_ >= kLineInterval;
  if (due) last_line_ = time;
  return due;
}

void PrintSummary(const Session& session, const RunFigures& figures,
                  const std::string& model_directory, TrainingClient& client) {
  const DensePeers peers = FindDensePeers(figures.job(), client);
  for (const std::string& line : Summary(figures, peers, model_directory)) {
    *session.env.out << line << '\n';
  }
  *session.env.out << std::flush;
}

int WatchJobVerb(const Session& session, const std::string& name, bool plain) {
  auto client = session.Connect();
  Interrupts interrupts([&] { client->Stop(); });
  WatchPrinter printer(session, plain);
  const absl::StatusOr<v1::Job> job = client->Watch(
      name, {}, [&](const v1::Job& j) { printer.OnJob(j); },
      [&](const v1::JobEvent& e) { printer.OnEvent(e); });
  if (interrupts.happened()) {
    session.Note(absl::StrCat("detached; ", name,
                              " goes on. Attach again: comera watch ",
                              LastSegment(name)));
    return kExitInterrupted;
  }
  if (!job.ok()) return session.FailRpc(job.status());
  printer.Finish(*job, "", *client);
  return ExitCodeOfJob(*job);
}

}  // namespace comera::client
