// Follows a job for the verbs that do so.
#ifndef COMERA_CLIENT_CLI_LIVE_WATCH_JOB_H_
#define COMERA_CLIENT_CLI_LIVE_WATCH_JOB_H_

#include <string>

#include "client/cli/live/figure_history.h"
#include "client/cli/live/run_figures.h"
#include "client/cli/session/session.h"
#include "client/training_client.h"

namespace comera::client {

// Shows a job's events: a block updated in place on a terminal, lines
// elsewhere, JSON lines or YAML documents if asked for.
class WatchPrinter {
 public:
  // `plain` prints lines even on a terminal.
  explicit WatchPrinter(const Session& session, bool plain = false)
      : session_(session), plain_(plain) {}

  void OnJob(const v1::Job& job);
  void OnEvent(const v1::JobEvent& event);
  // Prints the final job and its summary (not with -o json or yaml). `client`
  // finds dense jobs to compare it with.
  void Finish(const v1::Job& job, const std::string& model_directory,
              TrainingClient& client);

  const RunFigures& figures() const { return figures_; }

 private:
  bool is_table() const { return session_.output == OutputFormat::kTable; }
  bool is_live() const {
    return is_table() && session_.env.out_is_terminal && !plain_;
  }
  void DrawBlock();
  void EraseBlock();
  void PrintLine(const std::string& line);
  // Whether a metrics line is due: the first, the last, any with a validation,
  // and otherwise one every few seconds of the job's time.
  bool IsDue(const v1::JobEvent& event);

  const Session& session_;
  const bool plain_;
  RunFigures figures_;
  FigureHistory history_;
  int block_lines_ = 0;
  bool has_job_ = false;
  // Why the job waits, as it was printed last.
  std::string shown_reason_;
  absl::Time last_line_ = absl::InfinitePast();
};

// Prints the summary of a job on stdout. `client` finds dense jobs to compare
// it with.
void PrintSummary(const Session& session, const RunFigures& figures,
                  const std::string& model_directory, TrainingClient& client);

// Follows a job with the printer until it ends or Ctrl-C detaches. Returns the
// exit code.
int WatchJobVerb(const Session& session, const std::string& name,
                 bool plain = false);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_LIVE_WATCH_JOB_H_
