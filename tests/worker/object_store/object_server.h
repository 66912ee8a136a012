#ifndef COMERA_TESTS_WORKER_OBJECT_STORE_OBJECT_SERVER_H_
#define COMERA_TESTS_WORKER_OBJECT_STORE_OBJECT_SERVER_H_

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/e2e/process.h"

namespace comera {

// A process that serves the files of a folder, with faults that paths ask for
// (object_server.py). Ends with this object.
class ObjectServer {
 public:
  // With TLS if a certificate and its key are given.
  explicit ObjectServer(const std::string& folder,
                        const std::string& certificate = "",
                        const std::string& key = "")
      : tls_(!certificate.empty()) {
    std::vector<std::string> arguments = {
        "/usr/bin/env", "python3",
        absl::StrCat(std::getenv("TEST_SRCDIR"),
                     "/comera/tests/worker/object_store/object_server.py"),
        folder};
    if (tls_) arguments.insert(arguments.end(), {certificate, key});
    process_ = std::make_unique<e2e::Process>(arguments,
                                              folder + "/object_server.log");
    port_ = process_->ReadLine(absl::Seconds(30)).value_or("");
  }

  // Empty if the server did not start.
  const std::string& port() const { return port_; }
  std::string Url(const std::string& path) const {
    return absl::StrCat(tls_ ? "https" : "http", "://127.0.0.1:", port_, path);
  }

 private:
  const bool tls_;
  std::unique_ptr<e2e::Process> process_;
  std::string port_;
};

}  // namespace comera

#endif  // COMERA_TESTS_WORKER_OBJECT_STORE_OBJECT_SERVER_H_
