// Breaks a running service at random for some minutes, then proves from what is
// left that it kept its promises. Started by tests/e2e/chaos.sh.
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "tests/e2e/chaos/checker.h"
#include "tests/e2e/chaos/cluster.h"
#include "tests/e2e/chaos/evidence.h"
#include "tests/e2e/chaos/faults.h"
#include "tests/e2e/chaos/load.h"
#include "tests/e2e/tiny_job.h"

namespace comera::e2e {
namespace {

constexpr int64_t kDiskBytes = int64_t{256} << 20;
constexpr int kBroken = 1, kFailed = 3;

struct Flags {
  double minutes = 5, interval = 3, settle_minutes = 5;
  uint64_t seed = 1;
  int jobs = 20, steps = 300, workers = 3, slots = 8, clock_jump_s = 20;
  std::string folder, faketime;
  bool keep = false;
};

class Chaos {
 public:
  explicit Chaos(const Flags& flags)
      : flags_(flags), begin_(absl::Now()), folder_(flags.folder) {}

  // Returns the violations found.
  absl::StatusOr<std::vector<std::string>> Run() {
    RETURN_IF_ERROR(WriteTinyCorpus(folder_ + "/corpus"));
    specs_ = ChaosSpecs(folder_ + "/corpus", flags_.steps);
    ASSIGN_OR_RETURN(const References references, RunUndisturbed());
    ASSIGN_OR_RETURN(Evidence evidence, RunDisturbed());
    std::vector<std::string> violations = Check(evidence, references);
    violations.insert(violations.end(), violations_.begin(), violations_.end());
    size_t events = 0, attempts = 0;
    for (const auto& [job, list] : evidence.events) events += list.size();
    for (const auto& record : evidence.records)
      attempts += record.job().attempt();
    Note(absl::StrCat("checked ", evidence.records.size(), " jobs in ",
                      attempts, " attempts by ", events, " events and ",
                      evidence.starts.size(), " rank logs"));
    return violations;
  }

  void Note(const std::string& line) const {
    std::cout << absl::StrFormat("%7.1fs  %s",
                                 absl::ToDoubleSeconds(absl::Now() - begin_),
                                 line)
              << std::endl;
  }

 private:
  absl::StatusOr<References> RunUndisturbed() {
    Note(absl::StrCat("undisturbed: ", specs_.size(), " specifications"));
    ChaosCluster::Options options;
    options.folder = folder_ + "/undisturbed";
    options.workers = 1;
    options.slots = 9;
    ChaosCluster cluster(options);
    RETURN_IF_ERROR(cluster.Begin());
    const int count = static_cast<int>(specs_.size());
    ChaosLoad load(cluster.address(), specs_, count, count);
    while (load.accepted().size() < specs_.size()) {
      absl::SleepFor(absl::Milliseconds(100));
      if (absl::Now() - begin_ > SettleLimit()) {
        return absl::DeadlineExceededError("the undisturbed jobs do not begin");
      }
    }
    if (!load.Finish(SettleLimit())) {
      return absl::DeadlineExceededError("the undisturbed jobs do not end");
    }
    RETURN_IF_ERROR(cluster.End());
    Evidence evidence;
    RETURN_IF_ERROR(
        ReadStore(cluster.server_folder() + "/jobs.sqlite", &evidence));
    return MakeReferences(evidence);
  }

  absl::StatusOr<Evidence> RunDisturbed() {
    ChaosCluster::Options options;
    options.folder = folder_ + "/chaos";
    options.workers = flags_.workers;
    options.slots = flags_.slots;
    options.disk_bytes = OwnMounts() ? kDiskBytes : 0;
    Faults::Options chaos;
    chaos.seed = flags_.seed;
    chaos.interval = absl::Seconds(1) * flags_.interval;
    chaos.clock_jump_s = flags_.clock_jump_s;
    if (!flags_.faketime.empty()) {
      chaos.clock_file = folder_ + "/clock";
      RETURN_IF_ERROR(WriteFileAtomically(chaos.clock_file, "+0\n"));
      options.environment = {"LD_PRELOAD=" + flags_.faketime,
                             "FAKETIME_TIMESTAMP_FILE=" + chaos.clock_file,
                             "FAKETIME_CACHE_DURATION=1",
                             "FAKETIME_DONT_FAKE_MONOTONIC=1"};
    } else {
      Note("no libfaketime: the clocks are left alone");
    }
    if (options.disk_bytes == 0) Note("not root: disks are not filled");
    ChaosCluster cluster(options);
    RETURN_IF_ERROR(cluster.Begin());
    Evidence evidence;
    {
      ChaosLoad load(cluster.address(), specs_, flags_.jobs, 0);
      Disturb(chaos, &cluster, &load);
      evidence.accepted = load.accepted();
    }
    Note("every job is final, or had its time; looking for leftovers");
    AwaitNoMembers(cluster);
    if (const absl::Status ended = cluster.End(); !ended.ok()) {
      violations_.push_back(absl::StrCat("orphans: ", ended.message()));
    }
    evidence.orphans = ProcessesNaming(options.folder);
    RETURN_IF_ERROR(
        ReadStore(cluster.server_folder() + "/jobs.sqlite", &evidence));
    for (int i = 0; i < cluster.workers(); ++i) {
      RETURN_IF_ERROR(ReadMemberLogs(cluster.worker_folder(i), &evidence));
    }
    CheckModels(cluster.server_folder(), &evidence);
    return evidence;
  }

  void Disturb(const Faults::Options& options, ChaosCluster* cluster,
               ChaosLoad* load) {
    Faults faults(options, cluster,
                  [this](const std::string& line) { Note(line); });
    Note(absl::StrCat("chaos begins, seed ", options.seed, ", ", flags_.jobs,
                      " jobs at a time"));
    const absl::Time end = absl::Now() + absl::Minutes(1) * flags_.minutes;
    while (absl::Now() < end) {
      faults.Step(absl::Now());
      absl::SleepFor(absl::Milliseconds(50));
    }
    faults.Heal();
    Note("chaos is over; the jobs have time to end");
    const absl::Time limit = absl::Now() + SettleLimit();
    while (!load->Finish(absl::Milliseconds(200)) && absl::Now() < limit) {
      faults.Step(absl::Now());
    }
    std::string counts;
    for (const auto& [kind, count] : faults.counts()) {
      absl::StrAppend(&counts, " ", kind, " ", count, ",");
    }
    Note("faults:" + counts);
    if (faults.counts().count("unexpected end") > 0) {
      violations_.push_back("a daemon ended by itself");
    }
  }

  // All jobs are final, so members that still run have been forgotten.
  void AwaitNoMembers(const ChaosCluster& cluster) {
    const absl::Time limit = absl::Now() + absl::Seconds(45);
    for (int i = 0; i < cluster.workers(); ++i) {
      while (!cluster.Members(i).empty()) {
        if (absl::Now() > limit) {
          violations_.push_back(
              absl::StrCat("orphans: ", cluster.Name(i),
                           " has ranks although every job is final"));
          break;
        }
        absl::SleepFor(absl::Milliseconds(100));
      }
    }
  }

  // Whether file systems can be mounted without being visible to others.
  static bool OwnMounts() {
    return geteuid() == 0 && unshare(CLONE_NEWNS) == 0 &&
           mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  }

  absl::Duration SettleLimit() const {
    return absl::Minutes(1) * flags_.settle_minutes;
  }

  const Flags flags_;
  const absl::Time begin_;
  const std::string folder_;
  std::vector<v1::JobSpec> specs_;
  // Violations in addition to those that the checker finds.
  std::vector<std::string> violations_;
};

std::string FindFaketime() {
  for (const char* path :
       {"/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
        "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1"}) {
    if (access(path, R_OK) == 0) return path;
  }
  return "";
}

int Main(Flags flags) {
  const bool own_folder = flags.folder.empty();
  if (own_folder) {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "comera-chaos-XXXXXX")
            .string();
    if (mkdtemp(pattern.data()) == nullptr) {
      std::cerr << "chaos: cannot make " << pattern << "\n";
      return kFailed;
    }
    flags.folder = pattern;
  }
  Chaos chaos(flags);
  const auto violations = chaos.Run();
  if (!violations.ok()) {
    std::cerr << "chaos: " << violations.status() << "; see " << flags.folder
              << "\n";
    return kFailed;
  }
  for (const std::string& violation : *violations) {
    chaos.Note("VIOLATED " + violation);
  }
  chaos.Note(absl::StrCat(
      "seed ", flags.seed, ": ",
      violations->empty() ? "every promise was kept"
                          : absl::StrCat(violations->size(),
                                         " violations; see ", flags.folder)));
  if (!violations->empty()) return kBroken;
  if (own_folder && !flags.keep) {
    std::error_code error;
    std::filesystem::remove_all(flags.folder, error);
  }
  return 0;
}

}  // namespace
}  // namespace comera::e2e

int main(int argc, char** argv) {
  comera::e2e::Flags flags;
  flags.faketime = comera::e2e::FindFaketime();
  // When started by hand, the programs are in this program's runfiles.
  std::error_code error;
  const std::string self =
      std::filesystem::read_symlink("/proc/self/exe", error).string();
  setenv("TEST_SRCDIR", (self + ".runfiles").c_str(), /*replace=*/0);
  CLI::App app(
      "Disturbs a coordinator, workers and ranks at random while jobs train, "
      "then checks what is left. Exit status 0: every promise was kept, 1: "
      "not, "
      "3: it could not be tried.");
  app.add_option("--minutes", flags.minutes, "of faults")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 10000.0));
  app.add_option("--seed", flags.seed, "of the faults")->capture_default_str();
  app.add_option("--interval", flags.interval,
                 "mean seconds between two faults")
      ->capture_default_str()
      ->check(CLI::Range(0.05, 3600.0));
  app.add_option("--jobs", flags.jobs, "under way at a time")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option("--steps", flags.steps, "of a job")
      ->capture_default_str()
      ->check(CLI::Range(10, 1900));
  app.add_option("--workers", flags.workers, "")
      ->capture_default_str()
      ->check(CLI::Range(1, 100));
  app.add_option("--slots", flags.slots, "of a worker")
      ->capture_default_str()
      ->check(CLI::Range(1, 100));
  app.add_option("--settle_minutes", flags.settle_minutes,
                 "for the jobs to end when the faults are over")
      ->capture_default_str();
  app.add_option("--folder", flags.folder,
                 "for all files; default: a new one, removed on success");
  app.add_option("--clock_jump_s", flags.clock_jump_s,
                 "by how many seconds clocks are off at most; gRPC's timers "
                 "stand still for as long as a clock is set back")
      ->capture_default_str()
      ->check(CLI::Range(0, 86400));
  app.add_option("--faketime", flags.faketime,
                 "libfaketimeMT.so.1, to move clocks; empty: they are left "
                 "alone")
      ->capture_default_str();
  app.add_flag("--keep", flags.keep, "the folder also on success");
  CLI11_PARSE(app, argc, argv);
  return comera::e2e::Main(flags);
}
