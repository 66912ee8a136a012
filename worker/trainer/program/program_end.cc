// Classifies how programs fail.
#include "worker/trainer/program/program_end.h"

#include <signal.h>
#include <string.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {
namespace {

// Words by which an exception of Python or PyTorch tells its cause.
constexpr absl::string_view kMemory[] = {"MemoryError", "OutOfMemoryError",
                                         "out of memory",
                                         "can't allocate memory"};
constexpr absl::string_view kDisk[] = {"No space left on device",
                                       "Disk quota exceeded"};
constexpr absl::string_view kNotFinite[] = {"FloatingPointError"};
constexpr absl::string_view kPeers[] = {
    "Connection closed by peer",
    "Connection reset by peer",
    "Connection refused",
    "Broken pipe",
    "DistBackendError",
    "DistNetworkError",
    "DistStoreError",
    "NCCL error",
    "Socket Timeout",
    "Timed out waiting",
    "gloo/transport",
    "Wait timeout",
};

template <size_t kCount>
bool HasOneOf(absl::string_view text,
              const absl::string_view (&words)[kCount]) {
  return std::any_of(
      std::begin(words), std::end(words),
      [text](absl::string_view word) { return absl::StrContains(text, word); });
}

v1::FailureClass ClassOf(const std::string& error, int world_size) {
  if (HasOneOf(error, kMemory)) return v1::OUT_OF_MEMORY;
  if (HasOneOf(error, kDisk)) return v1::DISK_FULL;
  if (HasOneOf(error, kNotFinite)) return v1::NAN_LOSS;
  if (world_size == 1) return v1::USER;
  if (HasOneOf(error, kPeers)) return v1::COLLECTIVE_HANG;
  // Where a program does not say why it ended, nobody knows whether it was its
  // own fault or a peer's.
  return error.empty() ? v1::RANK_LOST : v1::USER;
}

}  // namespace

absl::Status StatusOfProgram(const ProgramExit& exit,
                             const ProgramEvents& events,
                             const std::string& exception, int world_size,
                             bool out_of_memory) {
  if (exit.signal != 0) {
    const bool killed = exit.signal == SIGKILL && out_of_memory;
    return WithFailureClass(
        absl::UnavailableError(absl::StrCat(
            "the program was ended by signal ", exit.signal, " (",
            strsignal(exit.signal), ")",
            killed ? ", and the kernel had run out of memory" : "")),
        killed ? v1::OUT_OF_MEMORY : v1::RANK_LOST);
  }
  if (exit.code == 0) return absl::OkStatus();
  const bool failed = events.ended() && events.ended()->outcome == "failed";
  std::string error = failed ? events.ended()->error : "";
  if (error.empty()) error = exception;
  return WithFailureClass(
      absl::UnknownError(absl::StrCat(
          "the program ended with status ", exit.code,
          error.empty() ? "" : absl::StrCat(": ", error),
          events.started() ? absl::StrCat(", after step ", events.step()) : "",
          "; its output is in the job's log")),
      ClassOf(error, world_size));
}

}  // namespace comera::trainer
