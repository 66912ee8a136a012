// Breaks a running service at random for some minutes, then proves from what is
// left that it kept its promises. Started by tests/e2e/chaos.sh.
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "tests/e2e/chaos/checker.h"
#include "tests/e2e/chaos/cluster.h"
#include "tests/e2e/chaos/evidence.h"
#include "tests/e2e/chaos/faults.h"
#include "tests/e2e/chaos/load.h"
#include "tests/e2e/chaos/network.h"
#include "tests/e2e/chaos/observer.h"
#include "tests/e2e/chaos/proxy.h"
#include "tests/e2e/chaos/specs.h"
#include "tests/e2e/tiny_job.h"
#include "tests/server/store/postgres_server.h"

namespace comera::e2e {
namespace {

constexpr int64_t kDiskBytes = int64_t{512} << 20;
constexpr int kUndisturbedJobs = 4;
// Room for all of them.
constexpr int kUndisturbedSlots = 2 * kUndisturbedJobs;
constexpr int kBroken = 1, kFailed = 3;

struct Flags {
  double minutes = 5, interval = 3, settle_minutes = 5;
  uint64_t seed = 1;
  int jobs = 20, steps = 300, workers = 3, slots = 6, clock_jump_s = 20;
  std::string folder, faketime, old;
  std::vector<std::string> only, specs, allow_missing;
  bool keep = false, sqlite = false, plain_jobs = false;
};

// What a run may lack, with the faults that then stay away.
constexpr char kRoot[] = "root", kNamespaces[] = "namespaces",
               kNftables[] = "nftables", kFaketime[] = "libfaketime",
               kPostgres[] = "postgresql";

class Chaos {
 public:
  explicit Chaos(const Flags& flags)
      : flags_(flags), begin_(absl::Now()), folder_(flags.folder) {}

  // Returns the violations found.
  absl::StatusOr<std::vector<std::string>> Run() {
    RETURN_IF_ERROR(WriteTinyCorpus(folder_ + "/corpus"));
    ASSIGN_OR_RETURN(specs_,
                     SelectSpecs(ChaosSpecs(folder_ + "/corpus", flags_.steps,
                                            flags_.plain_jobs),
                                 {flags_.specs.begin(), flags_.specs.end()}));
    EnterNetwork();
    RETURN_IF_ERROR(StartDatabase());
    if (flags_.faketime.empty()) Miss(kFaketime, "clocks are left alone");
    RETURN_IF_ERROR(CheckMissing());
    ASSIGN_OR_RETURN(const References references, RunUndisturbed());
    ASSIGN_OR_RETURN(Evidence evidence, RunDisturbed());
    std::vector<std::string> violations = Check(evidence, references);
    violations.insert(violations.end(), violations_.begin(), violations_.end());
    size_t events = 0, attempts = 0;
    for (const auto& [job, list] : evidence.events) events += list.size();
    size_t seen = 0;
    for (const auto& job : evidence.jobs) attempts += job.attempt();
    for (const auto& [job, list] : evidence.sightings) seen += list.size();
    Note(absl::StrCat(
        "checked ", evidence.jobs.size(), " jobs and ", evidence.sweeps.size(),
        " sweeps in ", attempts, " attempts by ", events, " events, ", seen,
        " sightings, ", evidence.answers.size(), " leaders' answers, ",
        evidence.fetches.size(), " fetched states and ", evidence.starts.size(),
        " members' logs"));
    return violations;
  }

  void Note(const std::string& line) const {
    std::cout << absl::StrFormat("%7.1fs  %s",
                                 absl::ToDoubleSeconds(absl::Now() - begin_),
                                 line)
              << std::endl;
  }

 private:
  void EnterNetwork() {
    if (geteuid() != 0) {
      Miss(kRoot, "networks are left alone, and disks are not filled");
      return;
    }
    own_mounts_ =
        unshare(CLONE_NEWNS) == 0 &&
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    if (!own_mounts_) Miss(kNamespaces, "no mounts: disks are not filled");
    auto network = ChaosNetwork::Enter(folder_ + "/network.log");
    if (network.ok()) {
      network_ = *std::move(network);
    } else {
      Miss(absl::IsNotFound(network.status()) ? kNftables : kNamespaces,
           absl::StrCat("networks are left alone: ",
                        network.status().message()));
    }
  }

  absl::Status StartDatabase() {
    if (flags_.sqlite) return absl::OkStatus();
    auto database = server::PostgresServer::Start(/*tcp=*/network_ != nullptr);
    if (absl::IsNotFound(database.status())) {
      Miss(kPostgres, "one coordinator, with SQLite");
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(database.status());
    database_ = *std::move(database);
    return absl::OkStatus();
  }

  void Miss(const std::string& what, const std::string& consequence) {
    missing_.push_back(what);
    Note(absl::StrCat("MISSING ", what, ": ", consequence));
  }

  absl::Status CheckMissing() const {
    std::vector<std::string> forbidden;
    for (const std::string& what : missing_) {
      const auto allowed = [&](const std::string& one) {
        return one == what || one == "all";
      };
      if (std::none_of(flags_.allow_missing.begin(), flags_.allow_missing.end(),
                       allowed)) {
        forbidden.push_back(what);
      }
    }
    if (forbidden.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        "missing: ", absl::StrJoin(forbidden, ", "),
        "; install it (deploy/install_deps.sh), or name it in --allow_missing "
        "to go without its faults"));
  }

  absl::StatusOr<References> RunUndisturbed() {
    Note(absl::StrCat("undisturbed: ", specs_.size(), " specifications"));
    ChaosCluster::Options options;
    options.folder = folder_ + "/undisturbed";
    options.workers = 1;
    options.slots = kUndisturbedSlots;
    ChaosCluster cluster(options);
    RETURN_IF_ERROR(cluster.Begin());
    RETURN_IF_ERROR(
        UploadChaosDataset(cluster.addresses(), folder_ + "/corpus"));
    ChaosLoad::Options jobs;
    jobs.addresses = cluster.addresses();
    jobs.total = static_cast<int>(specs_.size());
    // So many that each gets on, also on a slow machine.
    jobs.under_way = kUndisturbedJobs;
    jobs.plain = flags_.plain_jobs;
    std::vector<v1::JobSpec> specs = specs_;
    // Whatever time they take.
    for (v1::JobSpec& spec : specs) spec.clear_time_limit();
    ChaosLoad load(jobs, specs);
    while (load.accepted().size() < specs.size()) {
      absl::SleepFor(absl::Milliseconds(100));
      if (absl::Now() - begin_ > 2 * SettleLimit()) {
        return absl::DeadlineExceededError("the undisturbed jobs do not begin");
      }
    }
    if (!load.Finish(SettleLimit())) {
      return absl::DeadlineExceededError("the undisturbed jobs do not end");
    }
    Evidence evidence;
    RETURN_IF_ERROR(Read(cluster, &evidence));
    RETURN_IF_ERROR(cluster.End());
    return MakeReferences(evidence);
  }

  absl::StatusOr<Evidence> RunDisturbed() {
    ChaosCluster::Options options;
    options.folder = folder_ + "/chaos";
    options.workers = flags_.workers;
    options.slots = flags_.slots;
    options.disk_bytes = own_mounts_ ? kDiskBytes : 0;
    options.coordinator_disk = Tries("full_coordinator_disk");
    options.network = network_.get();
    options.peer_addresses = Tries("peer_silence");
    options.database_addresses = Tries("database_silence");
    options.database = database_.get();
    options.faketime = flags_.faketime;
    if (Tries("bad_disk") || Tries("bad_coordinator_disk")) {
      options.disk_shim = Binary("tests/e2e/chaos/libdisk_shim.so");
    }
    options.old_programs = flags_.old;
    if (network_ != nullptr && !Tries("delay")) {
      Note("nothing is delayed");
    } else if (network_ != nullptr && network_->can_delay()) {
      Note("packets are delayed by the kernel (tc netem)");
    } else {
      Note("no tc netem: a proxy delays what workers and coordinators send");
      proxy_ = std::make_unique<ChaosProxy>();
      options.proxy = proxy_.get();
    }
    Faults::Options chaos;
    chaos.seed = flags_.seed;
    chaos.interval = absl::Seconds(1) * flags_.interval;
    chaos.only = {flags_.only.begin(), flags_.only.end()};
    chaos.clock_jump_s = flags_.clock_jump_s;
    chaos.network = network_.get();
    chaos.proxy = proxy_.get();
    chaos.database = database_.get();
    ChaosCluster cluster(options);
    RETURN_IF_ERROR(cluster.Begin());
    RETURN_IF_ERROR(
        UploadChaosDataset(cluster.addresses(), folder_ + "/corpus"));
    Evidence evidence;
    {
      ChaosLoad::Options jobs;
      jobs.addresses = cluster.addresses();
      jobs.under_way = flags_.jobs;
      jobs.meddle = true;
      // One of jobs that may fail would fail.
      jobs.sweeps = flags_.specs.empty();
      jobs.plain = flags_.plain_jobs;
      jobs.store = cluster.store_folder();
      ChaosLoad load(jobs, specs_);
      const Observer observer(cluster.addresses(), folder_ + "/observer.term");
      Disturb(chaos, &cluster, &load);
      evidence.accepted = load.accepted();
      evidence.accepted_sweeps = load.accepted_sweeps();
      evidence.wishes = load.wishes();
      for (const auto& [job, count] : resumes_) {
        evidence.wishes[job].reopens += count;
      }
      evidence.wrong_answers = load.wrong_answers();
      evidence.sightings = observer.sightings();
      evidence.answers = observer.answers();
      ASSIGN_OR_RETURN(evidence.sweeps, load.ReadSweeps());
    }
    Note("every job is final, or had its time; looking for leftovers");
    AwaitNoMembers(cluster);
    RETURN_IF_ERROR(Read(cluster, &evidence));
    ReadMore(cluster, &evidence);
    if (const absl::Status ended = cluster.End(); !ended.ok()) {
      violations_.push_back(absl::StrCat("orphans: ", ended.message()));
    }
    evidence.orphans = ProcessesNaming(options.folder);
    evidence.mixed_versions = !flags_.old.empty();
    for (int i = 0; i < cluster.workers(); ++i) {
      RETURN_IF_ERROR(ReadMemberLogs(cluster.worker_folder(i), &evidence));
      RETURN_IF_ERROR(ReadWorkerLog(cluster.LogPath(i), &evidence));
    }
    RETURN_IF_ERROR(ReadWorkerLog(cluster.impostor_log(), &evidence));
    RETURN_IF_ERROR(ReadMemberLogs(cluster.impostor_folder(), &evidence));
    return evidence;
  }

  static absl::Status Read(const ChaosCluster& cluster, Evidence* evidence) {
    const auto client = client::TrainingClient::Connect(cluster.addresses(),
                                                        ChaosClientOptions());
    return ReadJobs(client.get(), evidence);
  }

  // Logs and models, as clients get them.
  void ReadMore(const ChaosCluster& cluster, Evidence* evidence) const {
    const auto client = client::TrainingClient::Connect(cluster.addresses(),
                                                        ChaosClientOptions());
    ReadLogs(client.get(), evidence);
    CheckModels(client.get(), folder_ + "/downloads", evidence);
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
    violations_.insert(violations_.end(), faults.violations().begin(),
                       faults.violations().end());
    resumes_ = faults.resumes();
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

  bool Tries(const std::string& kind) const {
    return flags_.only.empty() ||
           std::find(flags_.only.begin(), flags_.only.end(), kind) !=
               flags_.only.end();
  }

  absl::Duration SettleLimit() const {
    return absl::Minutes(1) * flags_.settle_minutes;
  }

  const Flags flags_;
  const absl::Time begin_;
  const std::string folder_;
  std::vector<v1::JobSpec> specs_;
  bool own_mounts_ = false;
  // What the machine lacks.
  std::vector<std::string> missing_;
  std::unique_ptr<ChaosNetwork> network_;
  std::unique_ptr<ChaosProxy> proxy_;
  std::unique_ptr<server::PostgresServer> database_;
  // Violations in addition to those that the checker finds.
  std::vector<std::string> violations_;
  std::map<std::string, int> resumes_;
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
      "Disturbs coordinators, workers and members at random while jobs train, "
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
  app.add_option("--jobs", flags.jobs,
                 "under way at a time; with none, little is written")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000));
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
                 "libfaketimeMT.so.1, to move clocks; empty: it is missing")
      ->capture_default_str();
  app.add_option("--only", flags.only,
                 "kinds of faults, with commas (default: all): " +
                     absl::StrJoin(comera::e2e::Faults::Kinds(), ", "))
      ->delimiter(',')
      ->check(CLI::IsMember(comera::e2e::Faults::Kinds()));
  app.add_option("--specs", flags.specs,
                 "only jobs of these names, with commas, and no sweeps "
                 "(default: all)")
      ->delimiter(',');
  app.add_flag("--plain_jobs", flags.plain_jobs,
               "only jobs that go on whatever happens, of an owner who only "
               "pauses and resumes them");
  app.add_option("--allow_missing", flags.allow_missing,
                 "what may be missing, with commas: root, namespaces (of "
                 "networks and mounts), nftables, libfaketime, postgresql, or "
                 "all; without this a run that lacks one ends")
      ->delimiter(',')
      ->check(CLI::IsMember({"root", "namespaces", "nftables", "libfaketime",
                             "postgresql", "all"}));
  app.add_option("--old", flags.old,
                 "folder with comera-server, comera-worker and comera-trainer "
                 "of another version, which the second coordinator and the "
                 "first worker run (tests/e2e/upgrade.sh builds one)")
      ->check(CLI::ExistingDirectory);
  app.add_flag("--sqlite", flags.sqlite,
               "one coordinator, with SQLite, even where PostgreSQL is "
               "installed for two");
  app.add_flag("--keep", flags.keep, "the folder also on success");
  CLI11_PARSE(app, argc, argv);
  return comera::e2e::Main(flags);
}
