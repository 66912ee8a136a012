#ifndef COMERA_TESTS_WORKER_OBJECT_STORE_S3_SERVER_PROCESS_H_
#define COMERA_TESTS_WORKER_OBJECT_STORE_S3_SERVER_PROCESS_H_

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/files.h"
#include "tests/e2e/process.h"

namespace comera {

// s3rver, a service that speaks S3 and was written elsewhere, with faults that
// a test asks for (s3_server/s3_server.mjs). It has the bucket "bucket", in the
// region eu-west-9. Ends with this object.
class S3ServerProcess {
 public:
  // Why there can be none on this machine; empty if there can.
  static std::string Absent() {
    const absl::StatusOr<std::string> packages = ReadFile(Installed());
    if (!packages.ok()) return packages.status().ToString();
    return absl::StartsWith(*packages, "absent") ? *packages : "";
  }

  // Serves the files in `folder`, which is made, and keeps its own beside it.
  // `token` is the session's, if the key has one.
  S3ServerProcess(const std::string& folder, const std::string& secret,
                  const std::string& token = "")
      : folder_(folder) {
    (void)MakeDirectories(folder);
    // The packages lie where the link leads.
    std::vector<std::string> arguments = {
        "/usr/bin/env",
        "node",
        absl::StrCat(
            std::getenv("TEST_SRCDIR"),
            "/comera/tests/worker/object_store/s3_server/s3_server.mjs"),
        std::filesystem::canonical(Installed()).string(),
        folder,
        secret};
    if (!token.empty()) arguments.push_back(token);
    process_ = std::make_unique<e2e::Process>(arguments, folder + ".log");
    port_ = process_->ReadLine(absl::Seconds(60)).value_or("");
  }

  // Empty if the server did not start.
  const std::string& port() const { return port_; }
  std::string endpoint() const {
    return absl::StrCat("http://127.0.0.1:", port_);
  }

  // The faults from now on, as lines; see s3_server.mjs.
  void SetFaults(const std::string& lines) {
    (void)WriteFileAtomically(folder_ + ".faults", lines);
  }
  // The number of requests of which method and URL contain the text.
  int CountRequests(const std::string& text) const {
    const absl::StatusOr<std::string> all = ReadFile(folder_ + ".requests");
    int count = 0;
    for (absl::string_view line :
         absl::StrSplit(all.ok() ? *all : std::string(), '\n')) {
      count += absl::StrContains(line, text) ? 1 : 0;
    }
    return count;
  }

 private:
  static std::string Installed() {
    return absl::StrCat(std::getenv("TEST_SRCDIR"), "/s3_server_npm/installed");
  }

  const std::string folder_;
  std::unique_ptr<e2e::Process> process_;
  std::string port_;
};

}  // namespace comera

#endif  // COMERA_TESTS_WORKER_OBJECT_STORE_S3_SERVER_PROCESS_H_
