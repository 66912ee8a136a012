// An attack on the coordinator's ports by one address that opens connections
// and says nothing, with real processes: all others are served meanwhile.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/common/http/http_client.h"
#include "tests/e2e/process.h"
#include "tests/e2e/tiny_job.h"

namespace comera::e2e {
namespace {

constexpr absl::Duration kBound = absl::Seconds(120);
// This many once shut everybody out of a server with 1,024 descriptors.
constexpr int kSilent = 620;
constexpr char kAttacker[] = "127.0.0.2";

int PortOf(const std::string& address) {
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  return port;
}

// Connections of the attacker to one port, which may be refused.
class Silence {
 public:
  ~Silence() {
    for (const int fd : sockets_) close(fd);
  }
  void Open(int port, int count) {
    for (int i = 0; i < count; ++i) {
      const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in end = {};
      end.sin_family = AF_INET;
      inet_pton(AF_INET, kAttacker, &end.sin_addr);
      ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&end), sizeof(end)), 0);
      inet_pton(AF_INET, "127.0.0.1", &end.sin_addr);
      end.sin_port = htons(static_cast<uint16_t>(port));
      ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&end), sizeof(end)), 0);
      sockets_.push_back(fd);
    }
  }

 private:
  std::vector<int> sockets_;
};

class ConnectionsTest : public ::testing::Test {
 protected:
  // Where a limit of 1,024 open files holds for the server alone.
  void SetUp() override {
    rlimit files = {};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = std::min<rlim_t>(files.rlim_max, 8192);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
    folder_ = absl::StrCat(
        ::testing::TempDir(), "/",
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    ASSERT_OK(MakeDirectories(folder_));
    server_ = std::make_unique<Process>(
        std::vector<std::string>{
            "/bin/sh", "-c", "ulimit -n 1024 && exec \"$@\"", "sh",
            Binary("server/comera-server"), "--listen=127.0.0.1:0",
            absl::StrCat("--data_dir=", folder_, "/server"),
            absl::StrCat("--http_port_file=", folder_, "/http"),
            absl::StrCat("--port_file=", folder_, "/port")},
        folder_ + "/server.log");
    ASSERT_TRUE(WaitForFile(folder_, "port", kBound));
    ASSERT_OK_AND_ASSIGN(address_, ReadFile(folder_ + "/port"));
    ASSERT_OK_AND_ASSIGN(http_, ReadFile(folder_ + "/http"));
    address_ = std::string(absl::StripSuffix(address_, "\n"));
    http_ = std::string(absl::StripSuffix(http_, "\n"));
  }

  int List() {
    Process client({Binary("client/comera"), "--server", address_, "ls"},
                   folder_ + "/client");
    return client.Wait(kBound).value_or(-1);
  }

  std::string folder_, address_, http_;
  std::unique_ptr<Process> server_;
};

TEST_F(ConnectionsTest, OneAddressShutsOutItselfAlone) {
  Silence silence;
  silence.Open(PortOf(address_), kSilent);
  silence.Open(PortOf(http_), kSilent);
  // First, because the silent ones are cut off after 10 s.
  EXPECT_EQ(HttpClient(http_, kAttacker).Call("GET", "/healthz").code, 0);
  EXPECT_EQ(HttpClient(http_).Call("GET", "/healthz").code, 200);
  EXPECT_EQ(HttpClient(http_).Call("GET", "/v1/jobs").code, 200);
  EXPECT_EQ(List(), 0);
}

}  // namespace
}  // namespace comera::e2e
