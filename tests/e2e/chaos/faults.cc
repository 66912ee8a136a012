// Chooses random faults, applies them, and undoes them later.

#include "tests/e2e/chaos/faults.h"

#include <signal.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files.h"

namespace comera::e2e {
namespace {

// The mean time for which a member is stopped: mostly shorter than what counts
// as a hang, sometimes far longer.
constexpr absl::Duration kHang = absl::Seconds(45);

std::string Seconds(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Milliseconds(100)));
}

}  // namespace

Faults::Faults(const Options& options, ChaosCluster* cluster,
               std::function<void(const std::string&)> note)
    : options_(options),
      cluster_(cluster),
      note_(std::move(note)),
      random_(options.seed) {}

absl::Duration Faults::Draw(absl::Duration low, absl::Duration high) {
  const double share = static_cast<double>(random_() >> 11) / (1ull << 53);
  return low + (high - low) * share;
}

void Faults::Later(absl::Time when, std::string what,
                   std::function<void()> action) {
  undo_.push_back({when, std::move(what), std::move(action)});
}

void Faults::Step(absl::Time now) {
  for (size_t i = 0; i < undo_.size();) {
    if (undo_[i].when > now) {
      ++i;
      continue;
    }
    const Undo undo = std::move(undo_[i]);
    undo_.erase(undo_.begin() + i);
    note_(undo.what);
    undo.action();
  }
  // No process should end by itself; one that does is restarted.
  for (const std::string& line : cluster_->Reap()) {
    note_("UNEXPECTED: " + line);
    ++counts_["unexpected end"];
  }
  for (int which = -1; which < cluster_->workers(); ++which) {
    if (cluster_->Pid(which) == 0 && !down_[which]) {
      cluster_->Start(which).IgnoreError();
    }
  }
  if (healed_ || now < next_) return;
  if (next_ != absl::InfinitePast()) Strike(now);
  // The gaps are exponential, so that faults sometimes overlap.
  const double share =
      absl::ToDoubleSeconds(Draw(absl::Milliseconds(1), absl::Seconds(1)));
  next_ = now - options_.interval * std::log(share);
}

void Faults::Heal() {
  healed_ = true;
  for (Undo& undo : undo_) {
    note_(undo.what);
    undo.action();
  }
  undo_.clear();
}

void Faults::Strike(absl::Time now) {
  switch (DrawInt(10)) {
    case 0:
    case 1:
      return StrikeProcess(ChaosCluster::kCoordinator, now);
    case 2:
    case 3:
    case 4:
      return StrikeProcess(DrawInt(cluster_->workers()), now);
    case 5:
    case 6:
    case 7:
      return StrikeMember(now);
    case 8:
      return FillDisk(now);
    default:
      return MoveClock(now);
  }
}

void Faults::StrikeProcess(int which, absl::Time now) {
  const bool kill = DrawInt(2) == 0;
  const absl::Duration pause =
      kill ? Draw(absl::ZeroDuration(), absl::Seconds(3))
           : Draw(absl::Milliseconds(200), absl::Seconds(15));
  if (down_[which]) return;
  down_[which] = true;
  const std::string name = cluster_->Name(which);
  if (kill) {
    note_(absl::StrCat("kill -9 ", name));
    ++counts_[which < 0 ? "kill coordinator" : "kill worker"];
    cluster_->Kill(which);
    Later(now + pause, "start " + name, [this, which] {
      cluster_->Start(which).IgnoreError();
      down_[which] = false;
    });
    return;
  }
  note_(absl::StrCat("SIGSTOP ", name, " for ", Seconds(pause)));
  ++counts_[which < 0 ? "stop coordinator" : "stop worker"];
  cluster_->Signal(which, SIGSTOP);
  Later(now + pause, "SIGCONT " + name, [this, which] {
    cluster_->Signal(which, SIGCONT);
    down_[which] = false;
  });
}

void Faults::StrikeMember(absl::Time now) {
  const int worker = DrawInt(cluster_->workers());
  const bool kill = DrawInt(2) == 0;
  const bool hang = DrawInt(6) == 0;
  const absl::Duration pause =
      hang ? kHang : Draw(absl::Milliseconds(100), absl::Seconds(10));
  std::vector<pid_t> ranks = cluster_->Members(worker);
  if (ranks.empty()) return;
  std::sort(ranks.begin(), ranks.end());
  const pid_t rank = ranks[DrawInt(static_cast<int>(ranks.size()))];
  if (kill) {
    note_(absl::StrCat("kill -9 rank ", rank, " of ", cluster_->Name(worker)));
    ++counts_["kill rank"];
    ::kill(rank, SIGKILL);
    return;
  }
  note_(absl::StrCat("SIGSTOP rank ", rank, " of ", cluster_->Name(worker),
                     " for ", Seconds(pause)));
  ++counts_[hang ? "hang rank" : "stop rank"];
  ::kill(rank, SIGSTOP);
  Later(now + pause, absl::StrCat("SIGCONT rank ", rank), [this, rank, worker] {
    // The pid may belong to another process by now.
    const std::vector<pid_t> left = cluster_->Members(worker);
    if (std::find(left.begin(), left.end(), rank) != left.end()) {
      ::kill(rank, SIGCONT);
    }
  });
}

void Faults::FillDisk(absl::Time now) {
  const int worker = DrawInt(cluster_->workers());
  const absl::Duration pause = Draw(absl::Seconds(1), absl::Seconds(8));
  if (!cluster_->can_fill_disks()) return;
  note_(absl::StrCat("disk of ", cluster_->Name(worker), " is full for ",
                     Seconds(pause)));
  ++counts_["disk full"];
  cluster_->FillDisk(worker);
  Later(now + pause, "room on the disk of " + cluster_->Name(worker),
        [this, worker] { cluster_->FreeDisk(worker); });
}

void Faults::MoveClock(absl::Time now) {
  const int seconds =
      DrawInt(2 * options_.clock_jump_s + 1) - options_.clock_jump_s;
  const absl::Duration pause = Draw(absl::Seconds(2), absl::Seconds(20));
  if (options_.clock_file.empty()) return;
  const auto set = [file = options_.clock_file](int offset) {
    WriteFileAtomically(file, absl::StrCat(offset < 0 ? "" : "+", offset, "\n"))
        .IgnoreError();
  };
  note_(absl::StrCat("clocks jump by ", seconds, "s for ", Seconds(pause)));
  ++counts_["clock jump"];
  set(seconds);
  Later(now + pause, "clocks are right", [set] { set(0); });
}

}  // namespace comera::e2e
