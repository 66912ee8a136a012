#ifndef COMERA_TESTS_WORKER_OBJECT_STORE_TLS_FRONT_H_
#define COMERA_TESTS_WORKER_OBJECT_STORE_TLS_FRONT_H_

#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/e2e/process.h"

namespace comera {

// A process that takes connections over TLS for a port of this machine
// (tls_front.mjs). Ends with this object.
class TlsFront {
 public:
  TlsFront(const std::string& certificate, const std::string& key,
           const std::string& port, const std::string& log)
      : process_(
            {"/usr/bin/env", "node",
             absl::StrCat(std::getenv("TEST_SRCDIR"),
                          "/comera/tests/worker/object_store/tls_front.mjs"),
             certificate, key, port},
            log),
        port_(process_.ReadLine(absl::Seconds(60)).value_or("")) {}

  // Empty if it did not start.
  const std::string& port() const { return port_; }
  std::string endpoint() const {
    return absl::StrCat("https://127.0.0.1:", port_);
  }

 private:
  e2e::Process process_;
  const std::string port_;
};

}  // namespace comera

#endif  // COMERA_TESTS_WORKER_OBJECT_STORE_TLS_FRONT_H_
