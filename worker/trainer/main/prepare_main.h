#ifndef COMERA_WORKER_TRAINER_MAIN_PREPARE_MAIN_H_
#define COMERA_WORKER_TRAINER_MAIN_PREPARE_MAIN_H_

#include <atomic>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/data/prepare/prepare.h"

namespace comera::trainer {

// The options in a request of `comera data prepare`, a JSON object:
//
//   sources             array of strings; required
//   to                  folder; required
//   tokenizer           folder or file; without it:
//   kind, vocabulary    "byte_bpe" and its size, or "characters"
//   field, separator    strings
//   standard_input      "plain", "jsonl" or "csv"
//   threads             default: all processors
//   max_bad_rows        count
//   deduplicate, force  booleans
//
// InvalidArgument: malformed, or a member of another name.
absl::StatusOr<PrepareOptions> ParsePrepareRequest(absl::string_view json);

// Prepares as the request in a file says, and writes lines of JSON with `emit`:
// while it goes on, the members of PrepareProgress; at the end one with
// `result`. Cancelled: `stop` ended it. Statuses of ParsePrepareRequest and
// PrepareShards.
absl::Status RunPrepare(const std::string& request_file,
                        const std::atomic<bool>& stop,
                        const std::function<void(const std::string&)>& emit);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MAIN_PREPARE_MAIN_H_
