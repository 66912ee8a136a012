// Shows sweeps as tables, and live.
#ifndef COMERA_CLIENT_CLI_LIVE_SWEEP_VIEW_H_
#define COMERA_CLIENT_CLI_LIVE_SWEEP_VIEW_H_

#include <map>
#include <string>

#include "absl/time/time.h"
#include "client/cli/session/session.h"
#include "comera/v1/sweep_service.pb.h"

namespace comera::client {

// E.g. "SUCCEEDED TARGET_MET" or "ACTIVE".
std::string SweepStateText(const v1::Sweep& sweep);
// E.g. "round 2 of 3, 41 of 600 s spent"; "" if the sweep is no search.
std::string SearchLine(const v1::Sweep& sweep);
// A table with one line per early stage and run; a search's result has a star.
std::string RunTable(const v1::Sweep& sweep, const TableLayout& layout);
// The sweep's state, runs and front.
std::string SweepText(const v1::Sweep& sweep, const TableLayout& layout);
int ExitCodeOfSweep(const v1::Sweep& sweep);

// Shows a sweep's events: the runs updated in place on a terminal, lines
// elsewhere, JSON lines or YAML documents if asked for.
class SweepPrinter {
 public:
  explicit SweepPrinter(const Session& session) : session_(session) {}

  void OnSweep(const v1::Sweep& sweep);
  void OnEvent(const v1::SweepEvent& event);
  void Finish(const v1::Sweep& sweep);

 private:
  bool is_table() const { return session_.output == OutputFormat::kTable; }
  bool is_live() const { return is_table() && session_.env.out_is_terminal; }
  void Draw();
  void Line(const v1::SweepEvent& event);

  const Session& session_;
  v1::Sweep sweep_;
  int block_lines_ = 0;
  // Newest round of a search that a line was printed for.
  int shown_round_ = 0;
  // The state and time last shown of each run or, under negative keys, stage.
  std::map<int, v1::SweepRunState> shown_;
  std::map<int, absl::Time> shown_time_;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_LIVE_SWEEP_VIEW_H_
