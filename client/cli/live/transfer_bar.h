#ifndef COMERA_CLIENT_CLI_LIVE_TRANSFER_BAR_H_
#define COMERA_CLIENT_CLI_LIVE_TRANSFER_BAR_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "client/cli/session/session.h"

namespace comera::client {

// Shows the progress of a transfer on stderr: one line updated in place on a
// terminal, else a line every ten seconds. Not thread-safe.
class TransferBar {
 public:
  explicit TransferBar(const Session& session) : session_(session) {}
  ~TransferBar() { End(); }

  // A total of 0 is unknown: there is no bar then. `more` ends the line.
  void Show(const std::string& what, int64_t done, int64_t total,
            const std::string& more = "");
  // Ends the line.
  void End();

 private:
  const Session& session_;
  std::string what_;
  absl::Time began_ = absl::InfinitePast();
  absl::Time last_ = absl::InfinitePast();
  int64_t first_ = 0;
  bool open_ = false;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_LIVE_TRANSFER_BAR_H_
