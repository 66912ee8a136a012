// Kills a rank in a process of its own and checks that the others end soon. The
// test runs its own binary again as that rank.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/conformance/communicator/gang.h"
#include "worker/collective/gloo_communicator.h"
#include "worker/collective/gloo_tls.h"

namespace comera::collective {
namespace {

constexpr int kWorldSize = 3;
constexpr int kCount = 1000;

absl::StatusOr<std::unique_ptr<Communicator>> Join(const std::string& folder,
                                                   int rank, bool tls) {
  GlooOptions options;
  options.rank = rank;
  options.world_size = kWorldSize;
  options.timeout = absl::Seconds(60);
  if (tls) options.tls = GangTls{std::string(GangTls::kKeyBytes, 'k')};
  ASSIGN_OR_RETURN(FileRendezvous rendezvous, FileRendezvous::Open(folder));
  return CreateGlooCommunicator(options, &rendezvous);
}

absl::Status ReduceUntilError(Communicator& communicator) {
  std::vector<float> values(kCount);
  while (true) {
    RETURN_IF_ERROR(communicator.AllReduce(absl::MakeSpan(values)));
  }
}

class KilledRankTest : public testing::TestWithParam<bool> {};

TEST_P(KilledRankTest, TheOthersEndSoon) {
  const bool tls = GetParam();
  const std::string folder = NewFolder();
  std::string self = "/proc/self/exe";
  std::string flag = (tls ? "--tls_rank_in=" : "--rank_in=") + folder;
  char* arguments[] = {self.data(), flag.data(), nullptr};
  pid_t child = 0;
  ASSERT_EQ(
      posix_spawn(&child, self.c_str(), nullptr, nullptr, arguments, environ),
      0);
  Gang gang(2);
  std::thread other([&] {
    auto communicator = Join(folder, 1, tls);
    ASSERT_OK(communicator);
    gang[1] = *std::move(communicator);
  });
  auto communicator = Join(folder, 0, tls);
  other.join();
  ASSERT_OK(communicator);
  gang[0] = *std::move(communicator);

  absl::Time killed;
  std::thread killer([&] {
    while (gang[0]->collectives_done() < 10) std::this_thread::yield();
    killed = absl::Now();
    kill(child, SIGKILL);
  });
  EXPECT_THAT(RunRanks(gang, ReduceUntilError),
              testing::Each(StatusIs(absl::StatusCode::kUnavailable)));
  killer.join();
  EXPECT_LT(absl::Now() - killed, absl::Seconds(20));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
}

INSTANTIATE_TEST_SUITE_P(All, KilledRankTest, testing::Bool());

}  // namespace
}  // namespace comera::collective

int main(int argc, char** argv) {
  for (const bool tls : {false, true}) {
    const std::string flag = tls ? "--tls_rank_in=" : "--rank_in=";
    if (argc != 2 || std::string(argv[1]).rfind(flag, 0) != 0) continue;
    auto communicator = comera::collective::Join(argv[1] + flag.size(), 2, tls);
    if (!communicator.ok()) return 1;
    return comera::collective::ReduceUntilError(**communicator).ok() ? 0 : 2;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
