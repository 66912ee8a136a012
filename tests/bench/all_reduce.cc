// Compares our all-reduce over Gloo's connections with Gloo's own, each member
// a process, over loopback:
//   bazel run -c opt //tests/bench:all_reduce
// prints the milliseconds of an all-reduce of float32 by its size (the best of
// a few), and
//   bazel run -c opt //tests/bench:all_reduce -- --faults
// how long the others take to end when a member is killed, and how long a
// member takes to leave an all-reduce that its own Abort ends.
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "worker/collective/communicator.h"
#include "worker/collective/gloo_communicator.h"
#include "worker/collective/gloo_tls.h"
#include "worker/collective/rendezvous.h"

namespace comera::collective {
namespace {

// The longest that a collective may take where members are killed: what does
// not end before is stuck.
constexpr absl::Duration kStuck = absl::Seconds(10);
// The same where the time of large ones is taken.
constexpr absl::Duration kSlow = absl::Minutes(2);

// A process of a gang that meets in a folder.
struct Member {
  int rank = 0;
  int members = 1;
  std::string folder;
  absl::Duration timeout;
};

// One way to sum over the members.
class Sums {
 public:
  virtual ~Sums() = default;
  // False: it failed.
  virtual bool AllReduce(float* values, size_t count) = 0;
  // From any thread.
  virtual void Abort() = 0;
};

class Ours : public Sums {
 public:
  explicit Ours(const Member& member,
                const std::optional<GangTls>& tls = std::nullopt)
      : rendezvous_(*FileRendezvous::Open(member.folder)) {
    GlooOptions options;
    options.rank = member.rank;
    options.world_size = member.members;
    options.timeout = member.timeout;
    options.tls = tls;
    communicator_ = *CreateGlooCommunicator(options, &rendezvous_);
  }
  bool AllReduce(float* values, size_t count) override {
    return communicator_->AllReduce(absl::MakeSpan(values, count)).ok();
  }
  void Abort() override { communicator_->Abort(); }

 protected:
  Communicator& communicator() { return *communicator_; }

 private:
  FileRendezvous rendezvous_;
  std::unique_ptr<Communicator> communicator_;
};

class OursCompressed : public Ours {
 public:
  using Ours::Ours;
  bool AllReduce(float* values, size_t count) override {
    return communicator()
        .AllReduceCompressed(absl::MakeSpan(values, count), 0)
        .ok();
  }
};

class OursOverTls : public Ours {
 public:
  explicit OursOverTls(const Member& member)
      : Ours(member, GangTls{std::string(GangTls::kKeyBytes, 'k')}) {}
};

// Gloo's own context; an exception ends the connections, so that the loss goes
// round.
class GloosOwn : public Sums {
 public:
  explicit GloosOwn(const Member& member)
      : store_(member.folder),
        context_(std::make_shared<gloo::rendezvous::Context>(member.rank,
                                                             member.members)) {
    gloo::transport::tcp::attr attr;
    attr.hostname = "127.0.0.1";
    auto device = gloo::transport::tcp::CreateDevice(attr);
    context_->setTimeout(absl::ToChronoMilliseconds(member.timeout));
    context_->connectFullMesh(store_, device);
  }
  bool AllReduce(float* values, size_t count) override {
    try {
      Run(values, count);
      return true;
    } catch (const std::exception&) {
      Abort();
      return false;
    }
  }
  void Abort() override {
    // A receive that times out tells all pairs that they have failed. Closing
    // the connections instead wakes nobody, not even this member's own wait.
    try {
      char byte;
      context_->createUnboundBuffer(&byte, 1)->waitRecv(
          std::chrono::milliseconds(1));
    } catch (const std::exception&) {
    }
  }

 protected:
  virtual void Run(float* values, size_t count) = 0;
  const std::shared_ptr<gloo::rendezvous::Context>& context() {
    return context_;
  }

 private:
  gloo::rendezvous::FileStore store_;
  const std::shared_ptr<gloo::rendezvous::Context> context_;
};

// The function gloo::allreduce.
class GloosRing : public GloosOwn {
 public:
  using GloosOwn::GloosOwn;

 private:
  void Run(float* values, size_t count) override {
    gloo::AllreduceOptions options(context());
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setOutput(values, count);
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, size_t)>(
            &gloo::sum<float>));
    options.setTag(tag_++);
    gloo::allreduce(options);
  }

  uint32_t tag_ = 0;
};

// Gloo's class, which keeps buffers for one array.
class GloosHalvingDoubling : public GloosOwn {
 public:
  using GloosOwn::GloosOwn;

 private:
  void Run(float* values, size_t count) override {
    if (count != count_) {
      algorithm_ = std::make_unique<gloo::AllreduceHalvingDoubling<float>>(
          context(), std::vector<float*>{values}, static_cast<int>(count));
      count_ = count;
    }
    algorithm_->run();
  }

  std::unique_ptr<gloo::AllreduceHalvingDoubling<float>> algorithm_;
  size_t count_ = 0;
};

struct Way {
  const char* name;
  std::function<std::unique_ptr<Sums>(const Member&)> make;
};

template <typename T>
Way MakeWay(const char* name) {
  return {name,
          [](const Member& member) { return std::make_unique<T>(member); }};
}

std::vector<Way> Ways() {
  return {MakeWay<Ours>("ours"), MakeWay<OursCompressed>("ours, bfloat16"),
          MakeWay<OursOverTls>("ours, TLS"), MakeWay<GloosRing>("Gloo: ring"),
          MakeWay<GloosHalvingDoubling>("Gloo: halving-doubling")};
}

// A folder for one gang to meet in.
class Folder {
 public:
  Folder()
      : path_((std::filesystem::temp_directory_path() / "all_reduce_XXXXXX")
                  .string()) {
    if (mkdtemp(path_.data()) == nullptr) std::exit(1);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// What the processes of a gang share.
struct Shared {
  void Clear() {
    for (auto& end : end_ns) end = 0;
    for (auto& best : best_ns) best = 0;
  }

  // When the fault happened, and when each member was told.
  std::atomic<int64_t> fault_ns, end_ns[16];
  // The best time of each size.
  std::atomic<int64_t> best_ns[64];
};

// Runs `body` in a process for each member; all of them end.
void RunGang(int members, const std::function<void(int rank)>& body) {
  std::vector<pid_t> children;
  std::fflush(stdout);
  for (int rank = 0; rank < members; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      signal(SIGPIPE, SIG_IGN);
      body(rank);
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) waitpid(child, nullptr, 0);
}

std::vector<size_t> Sizes(size_t most) {
  std::vector<size_t> bytes;
  for (size_t size = 1024; size <= most; size *= 8) bytes.push_back(size);
  if (bytes.back() < most) bytes.push_back(most);
  return bytes;
}

void Speed(Shared* shared, size_t most) {
  const std::vector<size_t> sizes = Sizes(most);
  std::printf("milliseconds\n| members | way |");
  for (const size_t size : sizes) std::printf(" %zu kB |", size / 1024);
  std::printf("\n");
  for (const int members : {2, 4, 8}) {
    for (const Way& way : Ways()) {
      const Folder folder;
      shared->Clear();
      RunGang(members, [&](int rank) {
        const auto sums = way.make({rank, members, folder.path(), kSlow});
        std::vector<float> values(most / sizeof(float), 1);
        for (size_t i = 0; i < sizes.size(); ++i) {
          const size_t count = sizes[i] / sizeof(float);
          const int repeats = sizes[i] > (8u << 20) ? 1 : 10;
          int64_t best = 0;
          for (int repeat = 0; repeat <= repeats; ++repeat) {
            const absl::Time start = absl::Now();
            if (!sums->AllReduce(values.data(), count)) return;
            const int64_t took = absl::ToInt64Nanoseconds(absl::Now() - start);
            // The first sets up buffers.
            if (repeat == 1 || (repeat > 1 && took < best)) best = took;
            std::fill_n(values.begin(), count, 1.0f);
          }
          if (rank == 0) shared->best_ns[i] = best;
        }
      });
      std::printf("| %d | %s |", members, way.name);
      for (size_t i = 0; i < sizes.size(); ++i) {
        const int64_t best = shared->best_ns[i];
        if (best == 0) {
          std::printf(" failed |");
        } else {
          std::printf(" %.3g |", static_cast<double>(best) / 1e6);
        }
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
}

// The seconds from the fault until the last of `members` was told; members
// with rank `except` are not asked.
double Slowest(const Shared& shared, int members, int except) {
  int64_t last = 0;
  for (int rank = 0; rank < members; ++rank) {
    if (rank == except) continue;
    last = std::max<int64_t>(last, shared.end_ns[rank]);
  }
  return static_cast<double>(last - shared.fault_ns) / 1e9;
}

void SumUntilError(Sums* sums, std::vector<float>* values) {
  while (sums->AllReduce(values->data(), values->size())) {
    std::fill(values->begin(), values->end(), 1.0f);
  }
}

void Faults(Shared* shared, int trials) {
  std::printf(
      "| members | way | killed: median s | killed: slowest s | over 1 s | "
      "aborted: slowest s |\n");
  for (const int members : {2, 4, 8}) {
    for (const Way& way : Ways()) {
      std::vector<double> killed, aborted;
      std::mt19937 random(1);
      for (int trial = 0; trial < trials; ++trial) {
        const Folder folder;
        const int victim = static_cast<int>(random() % members);
        const auto delay = absl::Microseconds(5000 + random() % 40000);
        const size_t count = trial % 2 == 0 ? 1 << 18 : 1 << 10;
        RunGang(members, [&](int rank) {
          auto sums = way.make({rank, members, folder.path(), kStuck});
          std::vector<float> values(count, 1);
          sums->AllReduce(values.data(), count);
          std::thread killer;
          if (rank == victim) {
            killer = std::thread([&] {
              absl::SleepFor(delay);
              shared->fault_ns = absl::GetCurrentTimeNanos();
              kill(getpid(), SIGKILL);
            });
          }
          SumUntilError(sums.get(), &values);
          shared->end_ns[rank] = absl::GetCurrentTimeNanos();
          if (killer.joinable()) killer.join();
        });
        killed.push_back(Slowest(*shared, members, victim));
      }
      for (int trial = 0; trial < std::max(1, trials / 5); ++trial) {
        const Folder folder;
        shared->Clear();
        RunGang(members, [&](int rank) {
          auto sums = way.make({rank, members, folder.path(), kStuck});
          std::vector<float> values(1 << 10, 1);
          sums->AllReduce(values.data(), values.size());
          if (rank == 0) {  // hangs until the others have ended
            for (int other = 1; other < members; ++other) {
              while (shared->end_ns[other] == 0) {
                absl::SleepFor(absl::Milliseconds(1));
              }
            }
            _exit(0);
          }
          std::thread aborter;
          if (rank == 1) {
            aborter = std::thread([&] {
              absl::SleepFor(absl::Milliseconds(50));
              shared->fault_ns = absl::GetCurrentTimeNanos();
              sums->Abort();
            });
          }
          SumUntilError(sums.get(), &values);
          shared->end_ns[rank] = absl::GetCurrentTimeNanos();
          if (aborter.joinable()) aborter.join();
        });
        aborted.push_back(Slowest(*shared, members, 0));
      }
      std::sort(killed.begin(), killed.end());
      std::sort(aborted.begin(), aborted.end());
      const auto late = std::count_if(killed.begin(), killed.end(),
                                      [](double s) { return s > 1; });
      std::printf("| %d | %s | %.4f | %.3f | %d of %d | %.3f |\n", members,
                  way.name, killed[killed.size() / 2], killed.back(),
                  static_cast<int>(late), trials, aborted.back());
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace comera::collective

int main(int argc, char** argv) {
  void* const memory =
      mmap(nullptr, sizeof(comera::collective::Shared), PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  auto* const shared = new (memory) comera::collective::Shared;
  if (argc > 1 && std::strcmp(argv[1], "--faults") == 0) {
    comera::collective::Faults(shared, argc > 2 ? std::atoi(argv[2]) : 20);
  } else {
    comera::collective::Speed(
        shared, argc > 1 ? std::strtoull(argv[1], nullptr, 10) << 20
                         : size_t{256} << 20);
  }
  return 0;
}
