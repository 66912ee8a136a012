// Chooses random faults, applies them, and undoes them later.

#include "tests/e2e/chaos/faults.h"

#include <signal.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/e2e/chaos/writes_health.h"

namespace comera::e2e {
namespace {

// The mean time for which a member is stopped: mostly shorter than what counts
// as a hang, sometimes far longer.
constexpr absl::Duration kHang = absl::Seconds(45);

// Long enough for a coordinator to delete what it believes to have expired.
constexpr absl::Duration kSweep = absl::Seconds(90);

// The end of a process may come later than its cause, at most this long.
constexpr absl::Duration kAftermath = absl::Seconds(60);

// A coordinator looks at its disk every second.
constexpr absl::Duration kDiskNoticed = absl::Seconds(4);
constexpr absl::Duration kMoment = absl::Seconds(2);

// Two workers of one name know of each other after so long on any machine that
// the test can run on, if nothing else disturbs them.
constexpr absl::Duration kBothSeen = absl::Seconds(20);

std::string Seconds(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Milliseconds(100)));
}

}  // namespace

Faults::Faults(const Options& options, ChaosCluster* cluster,
               std::function<void(const std::string&)> note)
    : options_(options),
      cluster_(cluster),
      note_(std::move(note)),
      random_(options.seed),
      holder_away_(cluster->addresses()),
      late_upload_(cluster->addresses()) {}

const std::vector<Faults::Kind>& Faults::AllKinds() {
  static const auto* const kinds = new std::vector<Kind>{
      {"coordinator", 3, &Faults::StrikeCoordinator},
      {"worker", 3, &Faults::StrikeWorker},
      {"member", 3, &Faults::StrikeMember},
      {"leader", 1, &Faults::StopLeader},
      {"holder", 2, &Faults::ClaimHolder},
      {"full_disk", 1, &Faults::FillWorkerDisk},
      {"full_coordinator_disk", 1, &Faults::FillCoordinatorDisk},
      {"bad_disk", 1, &Faults::BreakWorkerDisk},
      {"bad_coordinator_disk", 1, &Faults::BreakCoordinatorDisk},
      {"lost_disk", 1, &Faults::LoseDisk},
      {"clock", 1, &Faults::MoveClock},
      {"start_clock", 1, &Faults::StartWithWrongClock},
      {"silence", 2, &Faults::SilenceWorker},
      {"peer_silence", 1, &Faults::SilencePeers},
      {"database_silence", 1, &Faults::SilenceDatabase},
      {"loss", 1, &Faults::LosePackets},
      {"delay", 1, &Faults::DelayPackets},
      {"database", 1, &Faults::StrikeDatabase},
      {"impostor", 1, &Faults::StartImpostor},
      {"late_upload", 1, &Faults::UploadLate},
  };
  return *kinds;
}

std::vector<std::string> Faults::Kinds() {
  std::vector<std::string> names;
  for (const Kind& kind : AllKinds()) names.emplace_back(kind.name);
  return names;
}

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
  // No process should end by itself, except for another one of its name; one
  // that does is restarted.
  for (const ChaosCluster::Ended& ended : cluster_->Reap()) {
    const bool gave_way = MayEnd(ended, now);
    note_(absl::StrCat(gave_way ? "gave way: " : "UNEXPECTED: ", ended.what));
    ++counts_[gave_way ? "gave way" : "unexpected end"];
  }
  for (int which = -cluster_->coordinators(); which < cluster_->workers();
       ++which) {
    if (cluster_->Pid(which) == 0 && !down_[which]) StartAgain(which);
  }
  WatchHolder(now);
  if (healed_ || now < next_) return;
  if (next_ != absl::InfinitePast()) Strike(now);
  // The gaps are exponential, so that faults sometimes overlap.
  const double share =
      absl::ToDoubleSeconds(Draw(absl::Milliseconds(1), absl::Seconds(1)));
  next_ = now - options_.interval * std::log(share);
}

bool Faults::MayEnd(const ChaosCluster::Ended& ended, absl::Time now) {
  // A worker may refuse to start from a disk that fails, and a coordinator ends
  // when it cannot store what it has to.
  if (bad_disk_[ended.which] || now < may_end_until_[ended.which]) return true;
  if (!ended.gave_way || ended.which < 0) return ended.gave_way;
  // Nobody but an impostor takes a name over. A leader that is new may mistake
  // the last words of a worker that was killed for those of its successor.
  return options_.database != nullptr ||
         now < may_give_way_until_[ended.which] ||
         now < coordinator_started_ + 3 * kAftermath;
}

void Faults::StartAgain(int which) {
  if (which < 0) coordinator_started_ = absl::Now();
  cluster_->Start(which).IgnoreError();
}

void Faults::Heal() {
  healed_ = true;
  if (holder_away_.under_way()) holder_away_.Resume();
  for (Undo& undo : undo_) {
    note_(undo.what);
    undo.action();
  }
  undo_.clear();
}

void Faults::Strike(absl::Time now) {
  std::vector<Kind> kinds;
  int total = 0;
  for (const Kind& kind : AllKinds()) {
    if (!options_.only.empty() && options_.only.count(kind.name) == 0) continue;
    kinds.push_back(kind);
    total += kind.weight;
  }
  if (total == 0) return;
  int drawn = DrawInt(total);
  for (const Kind& kind : kinds) {
    if (drawn < kind.weight) return (this->*kind.strike)(now);
    drawn -= kind.weight;
  }
}

void Faults::StrikeCoordinator(absl::Time now) {
  StrikeProcess(ChaosCluster::kCoordinator - DrawInt(cluster_->coordinators()),
                now);
}

void Faults::StrikeWorker(absl::Time now) {
  StrikeProcess(DrawInt(cluster_->workers()), now);
}

void Faults::StopLeader(absl::Time now) {
  // Longer than its lease, mostly.
  const absl::Duration pause = Draw(absl::Seconds(2), absl::Seconds(30));
  if (database_down_) return;
  const absl::StatusOr<int> leader = cluster_->Leader();
  if (!leader.ok() || down_[*leader]) return;
  ++counts_["stop leader"];
  StopFor(*leader, pause, now);
}

void Faults::StrikeProcess(int which, absl::Time now) {
  const bool kill = DrawInt(2) == 0;
  const absl::Duration pause =
      kill ? Draw(absl::ZeroDuration(), absl::Seconds(3))
           : Draw(absl::Milliseconds(200), absl::Seconds(15));
  if (down_[which]) return;
  ++counts_[absl::StrCat(kill ? "kill " : "stop ",
                         which < 0 ? "coordinator" : "worker")];
  return kill ? KillFor(which, pause, now) : StopFor(which, pause, now);
}

void Faults::KillFor(int which, absl::Duration pause, absl::Time now) {
  down_[which] = true;
  const std::string name = cluster_->Name(which);
  note_(absl::StrCat("kill -9 ", name, " for ", Seconds(pause)));
  cluster_->Kill(which);
  Later(now + pause, "start " + name, [this, which] {
    StartAgain(which);
    down_[which] = false;
  });
}

void Faults::StopFor(int which, absl::Duration pause, absl::Time now) {
  down_[which] = true;
  const std::string name = cluster_->Name(which);
  note_(absl::StrCat("SIGSTOP ", name, " for ", Seconds(pause)));
  cluster_->Signal(which, SIGSTOP);
  Later(now + pause, "SIGCONT " + name, [this, which] {
    cluster_->Signal(which, SIGCONT);
    down_[which] = false;
  });
}

void Faults::StartWithWrongClock(absl::Time now) {
  const int count = cluster_->coordinators() + cluster_->workers();
  const int which = DrawInt(count) - cluster_->coordinators();
  const bool ahead = DrawInt(2) == 0;
  // A coordinator looks for what has expired a minute after its start.
  const bool expires = which < 0 && ahead && DrawInt(2) == 0;
  const absl::Duration pause =
      expires ? kSweep : Draw(absl::Seconds(5), absl::Seconds(20));
  if (!cluster_->has_clocks() || down_[which] || wrong_clock_[which]) return;
  const std::string name = cluster_->Name(which);
  note_(absl::StrCat(name, " starts anew with its clock ",
                     ahead ? "31 days ahead" : "an hour behind", ", for ",
                     Seconds(pause)));
  ++counts_["clock wrong at start"];
  const auto start = [this, which](absl::Duration offset) {
    cluster_->Signal(which, SIGCONT);
    cluster_->Kill(which);
    cluster_->SetClock(which, offset).IgnoreError();
    StartAgain(which);
    wrong_clock_[which] = offset != absl::ZeroDuration();
  };
  start(ahead ? absl::Hours(24 * 31) : -absl::Hours(1));
  // It is restarted, because gRPC's timers do not survive such a correction.
  down_[which] = true;
  Later(now + pause, absl::StrCat(name, " starts anew with its clock right"),
        [this, which, start] {
          start(absl::ZeroDuration());
          down_[which] = false;
        });
}

void Faults::ClaimHolder(absl::Time now) {
  if (holder_away_.under_way() || !holder_away_.Begin(now)) return;
  note_(absl::StrCat(holder_away_.job(),
                     " is paused, to be resumed without its holder"));
}

void Faults::WatchHolder(absl::Time now) {
  const std::optional<std::string> holder = holder_away_.Holder(now);
  if (!holder) return;
  for (int worker = 0; worker < cluster_->workers(); ++worker) {
    if (cluster_->Name(worker) != *holder || down_[worker]) continue;
    ++counts_["holder away at resume"];
    // Shorter and longer than a job waits for its checkpoint.
    const absl::Duration pause = Draw(absl::Seconds(4), absl::Seconds(50));
    if (DrawInt(2) == 0) {
      KillFor(worker, pause, now);
    } else {
      StopFor(worker, pause, now);
    }
  }
  note_(absl::StrCat(holder_away_.job(), " is resumed without ", *holder));
  holder_away_.Resume();
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

void Faults::FillWorkerDisk(absl::Time now) {
  FillDisk(DrawInt(cluster_->workers()), now);
}

void Faults::FillCoordinatorDisk(absl::Time now) {
  FillDisk(ChaosCluster::kCoordinator, now);
}

void Faults::FillDisk(int which, absl::Time now) {
  const absl::Duration pause = Draw(absl::Seconds(1), absl::Seconds(8));
  if (!cluster_->can_fill_disk(which)) return;
  const std::string whose =
      which < 0 ? "the coordinators" : cluster_->Name(which);
  note_(absl::StrCat("disk of ", whose, " is full for ", Seconds(pause)));
  ++counts_[which < 0 ? "coordinators' disk full" : "worker's disk full"];
  cluster_->FillDisk(which);
  const bool noticed = which < 0 && pause >= kDiskNoticed;
  Later(now + pause, "room on the disk of " + whose, [this, which, noticed] {
    // Heal() comes too early.
    if (noticed && !healed_) CheckReadOnly();
    cluster_->FreeDisk(which);
  });
}

void Faults::CheckReadOnly() {
  if (!cluster_->coordinator_disk_is_full()) return;
  for (const std::string& address : cluster_->coordinator_addresses()) {
    if (!SaysWritable(address)) continue;
    // One that stood still until now has a moment to look at its disk.
    absl::SleepFor(kMoment);
    if (!SaysWritable(address) || !cluster_->coordinator_disk_is_full()) {
      continue;
    }
    violations_.push_back(absl::StrCat(
        "full disk: ", address, " says that it takes changes, though its disk ",
        "is full for at least ", Seconds(kDiskNoticed)));
  }
}

void Faults::BreakWorkerDisk(absl::Time now) {
  BreakDisk(DrawInt(cluster_->workers()), now);
}

void Faults::BreakCoordinatorDisk(absl::Time now) {
  BreakDisk(ChaosCluster::kCoordinator - DrawInt(cluster_->coordinators()),
            now);
}

void Faults::BreakDisk(int which, absl::Time now) {
  const bool slow = DrawInt(2) == 0;
  const absl::Duration delay = Draw(absl::Milliseconds(5), absl::Seconds(2));
  const int percent = 1 + DrawInt(100);
  const absl::Duration pause = Draw(absl::Seconds(1), absl::Seconds(8));
  if (!cluster_->can_break_disks() || bad_disk_[which]) return;
  bad_disk_[which] = true;
  const std::string name = cluster_->Name(which);
  note_(absl::StrCat("the disk of ", name,
                     slow
                         ? " takes " + Seconds(delay) + " longer for each write"
                         : absl::StrCat(" fails ", percent, "% of writes"),
                     ", for ", Seconds(pause)));
  ++counts_[absl::StrCat(slow ? "slow" : "failing",
                         which < 0 ? " coordinator's" : "", " disk")];
  cluster_
      ->BreakDisk(which, slow ? delay : absl::ZeroDuration(),
                  slow ? 0 : percent)
      .IgnoreError();
  Later(now + pause, "the disk of " + name + " works", [this, which] {
    cluster_->MendDisk(which).IgnoreError();
    bad_disk_[which] = false;
    may_end_until_[which] = absl::Now() + kAftermath;
  });
}

void Faults::LoseDisk(absl::Time now) {
  const int worker = DrawInt(cluster_->workers());
  const absl::Duration pause = Draw(absl::Milliseconds(200), absl::Seconds(5));
  if (down_[worker]) return;
  down_[worker] = true;
  const std::string name = cluster_->Name(worker);
  note_(
      absl::StrCat(name, " and all its files are gone, for ", Seconds(pause)));
  ++counts_["lost disk"];
  cluster_->LoseMachine(worker);
  Later(now + pause, "start " + name + " with an empty disk", [this, worker] {
    StartAgain(worker);
    down_[worker] = false;
  });
}

void Faults::UploadLate(absl::Time) {
  const std::string job = late_upload_.Send();
  if (job.empty()) return;
  note_(absl::StrCat("an upload of an attempt of ", job,
                     " before this one arrives"));
  ++counts_["late upload"];
  if (!late_upload_.violation().empty()) {
    violations_.push_back("once: " + late_upload_.violation());
  }
}

void Faults::MoveClock(absl::Time now) {
  const int seconds =
      DrawInt(2 * options_.clock_jump_s + 1) - options_.clock_jump_s;
  const absl::Duration pause = Draw(absl::Seconds(2), absl::Seconds(20));
  if (!cluster_->has_clocks()) return;
  const auto set = [this](absl::Duration offset) {
    for (int which = -cluster_->coordinators(); which < cluster_->workers();
         ++which) {
      if (!wrong_clock_[which]) {
        cluster_->SetClock(which, offset).IgnoreError();
      }
    }
  };
  note_(absl::StrCat("clocks jump by ", seconds, "s for ", Seconds(pause)));
  ++counts_["clock jump"];
  set(absl::Seconds(seconds));
  Later(now + pause, "clocks are right", [set] { set(absl::ZeroDuration()); });
}

void Faults::SilenceWorker(absl::Time now) {
  const int worker = DrawInt(cluster_->workers());
  if (options_.network == nullptr) return SilenceByProxy(worker, now);
  Silence(cluster_->Name(worker), "the coordinators",
          ChaosNetwork::AddressFor(worker), now);
}

void Faults::SilencePeers(absl::Time now) {
  const int worker = DrawInt(cluster_->workers());
  if (options_.network == nullptr) return;
  Silence("the other workers", cluster_->Name(worker),
          ChaosNetwork::PeerAddress(worker), now);
}

void Faults::SilenceDatabase(absl::Time now) {
  const int coordinator = DrawInt(cluster_->coordinators());
  if (options_.network == nullptr || options_.database == nullptr) return;
  Silence(cluster_->Name(ChaosCluster::kCoordinator - coordinator),
          "the database", ChaosNetwork::DatabaseAddress(coordinator), now);
}

void Faults::Silence(const std::string& first, const std::string& second,
                     const std::string& address, absl::Time now) {
  using Direction = ChaosNetwork::Direction;
  static constexpr struct {
    Direction direction;
    const char* what;
  } kWays[] = {{Direction::kToAddress, " nothing gets to "},
               {Direction::kFromAddress, " nothing comes from "},
               {Direction::kBoth, " cut off from "}};
  const auto& way = kWays[DrawInt(3)];
  const absl::Duration pause = Draw(absl::Seconds(1), absl::Seconds(25));
  if (silent_[address]) return;
  silent_[address] = true;
  note_(absl::StrCat(first, ":", way.what, second, ", for ", Seconds(pause)));
  ++counts_[absl::StrCat("silence of ", second == "the database" ? "database"
                                        : first == "the other workers"
                                            ? "peers"
                                            : "coordinators")];
  options_.network->Silence(address, way.direction).IgnoreError();
  Later(now + pause, absl::StrCat(first, " and ", second, " are connected"),
        [this, address] {
          options_.network->Restore(address).IgnoreError();
          silent_[address] = false;
        });
}

void Faults::SilenceByProxy(int worker, absl::Time now) {
  const int way = DrawInt(3);
  const absl::Duration pause = Draw(absl::Seconds(1), absl::Seconds(25));
  ChaosProxy::Manner& manner = manners_[worker];
  if (options_.proxy == nullptr || manner.silent_to || manner.silent_from) {
    return;
  }
  manner.silent_to = way != 1;
  manner.silent_from = way != 0;
  note_(absl::StrCat("the proxy of ", cluster_->Name(worker), " passes nothing",
                     way == 0   ? " to the coordinators"
                     : way == 1 ? " from the coordinators"
                                : "",
                     ", for ", Seconds(pause)));
  ++counts_["silence of coordinators"];
  options_.proxy->Set(worker, manner);
  Later(now + pause, "the proxy of " + cluster_->Name(worker) + " passes all",
        [this, worker] {
          manners_[worker].silent_to = manners_[worker].silent_from = false;
          options_.proxy->Set(worker, manners_[worker]);
        });
}

void Faults::DelayPackets(absl::Time now) {
  const absl::Duration delay =
      Draw(absl::Milliseconds(10), absl::Milliseconds(400));
  const int percent = 5 + DrawInt(45);
  const int piece = 1 + DrawInt(100);
  const absl::Duration pause = Draw(absl::Seconds(2), absl::Seconds(12));
  if (delaying_) return;
  const bool by_kernel =
      options_.network != nullptr && options_.network->can_delay();
  if (!by_kernel && options_.proxy == nullptr) return;
  delaying_ = true;
  ++counts_["delay"];
  if (by_kernel) {
    note_(absl::StrCat("all packets take ", Seconds(delay), ", ", percent,
                       "% overtake others, for ", Seconds(pause)));
    options_.network->Delay(delay, percent).IgnoreError();
  } else {
    note_(absl::StrCat("calls of coordinators take ", Seconds(delay),
                       " in pieces of ", piece, " bytes, for ",
                       Seconds(pause)));
  }
  const auto set = [this, by_kernel](absl::Duration least, absl::Duration most,
                                     size_t bytes) {
    for (int worker = 0; worker < cluster_->workers() && !by_kernel; ++worker) {
      ChaosProxy::Manner& manner = manners_[worker];
      manner.least = least;
      manner.most = most;
      manner.piece = bytes;
      options_.proxy->Set(worker, manner);
    }
  };
  set(delay * 0.5, delay * 1.5, static_cast<size_t>(piece));
  Later(now + pause, "nothing is delayed", [this, set, by_kernel] {
    if (by_kernel) {
      options_.network->Delay(absl::ZeroDuration(), 0).IgnoreError();
    }
    set(absl::ZeroDuration(), absl::ZeroDuration(), 0);
    delaying_ = false;
  });
}

void Faults::LosePackets(absl::Time now) {
  const int percent = 5 + DrawInt(30);
  const absl::Duration pause = Draw(absl::Seconds(2), absl::Seconds(12));
  if (options_.network == nullptr || losing_) return;
  losing_ = true;
  note_(
      absl::StrCat(percent, "% of all packets are lost for ", Seconds(pause)));
  ++counts_["packet loss"];
  options_.network->Lose(percent).IgnoreError();
  Later(now + pause, "no packets are lost", [this] {
    options_.network->Lose(0).IgnoreError();
    losing_ = false;
  });
}

void Faults::StrikeDatabase(absl::Time now) {
  const bool crash = DrawInt(3) == 0;
  const absl::Duration pause = Draw(absl::Milliseconds(500), absl::Seconds(12));
  if (options_.database == nullptr || database_down_) return;
  if (crash) {
    note_("the database crashes");
    ++counts_["crash database"];
    if (const absl::Status back = options_.database->Crash(); !back.ok()) {
      note_(absl::StrCat("UNEXPECTED: the database: ", back.message()));
      ++counts_["unexpected end"];
    }
    return;
  }
  database_down_ = true;
  note_(absl::StrCat("SIGSTOP database for ", Seconds(pause)));
  ++counts_["stop database"];
  const auto signal = [this](int number) {
    const pid_t pid = options_.database->pid();
    // Nobody starts a session while the parent is stopped.
    if (number == SIGSTOP) ::kill(pid, number);
    for (const pid_t session : Children(pid, "postgres")) {
      ::kill(session, number);
    }
    if (number == SIGCONT) ::kill(pid, number);
  };
  signal(SIGSTOP);
  Later(now + pause, "SIGCONT database", [this, signal] {
    signal(SIGCONT);
    database_down_ = false;
  });
}

void Faults::StartImpostor(absl::Time now) {
  const int worker = DrawInt(cluster_->workers());
  // Where nothing else happens, one of the two has to end.
  const bool alone = options_.only == std::set<std::string>{"impostor"};
  const absl::Duration pause = Draw(absl::Seconds(2), absl::Seconds(12)) +
                               (alone ? kBothSeen : absl::ZeroDuration());
  if (impostor_) return;
  impostor_ = true;
  may_give_way_until_[worker] = absl::InfiniteFuture();
  const pid_t first = cluster_->Pid(worker);
  note_(absl::StrCat("a second ", cluster_->Name(worker), " for ",
                     Seconds(pause)));
  ++counts_["duplicate name"];
  cluster_->StartImpostor(worker);
  Later(now + pause, "kill -9 the second " + cluster_->Name(worker),
        [this, worker, alone, first] {
          if (alone && !healed_ && first != 0 &&
              cluster_->Pid(worker) == first && cluster_->ImpostorRuns()) {
            violations_.push_back(absl::StrCat(
                "once: two workers called ", cluster_->Name(worker),
                " ran for ", Seconds(kBothSeen), ", and neither gave way"));
          }
          cluster_->KillImpostor();
          may_give_way_until_[worker] = absl::Now() + kAftermath;
          impostor_ = false;
        });
}

}  // namespace comera::e2e
