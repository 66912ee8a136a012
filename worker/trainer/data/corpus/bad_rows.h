#ifndef COMERA_WORKER_TRAINER_DATA_CORPUS_BAD_ROWS_H_
#define COMERA_WORKER_TRAINER_DATA_CORPUS_BAD_ROWS_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"

namespace comera::trainer {

// The malformed rows and documents of a corpus, counted up to a limit. A row
// that is met again, as in a second reading of its file, counts once.
//
// Not thread safe.
class BadRows {
 public:
  explicit BadRows(int64_t limit) : limit_(limit) {}

  // Counts what `error` says, which names file and line and is returned once
  // there are more of them than the limit; before that, the first few are
  // logged.
  absl::Status Add(const absl::Status& error);
  // Counts rows that were met by an earlier process.
  void AddEarlier(int64_t count) { earlier_ += count; }

  int64_t count() const {
    return earlier_ + static_cast<int64_t>(places_.size());
  }
  // E.g. "2 malformed rows skipped, the first: FILE:7: not UTF-8"; "" without
  // any.
  std::string Summary() const;

 private:
  const int64_t limit_;
  int64_t earlier_ = 0;
  // Hashes of the messages, which differ in their places.
  absl::flat_hash_set<uint64_t> places_;
  std::string first_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_CORPUS_BAD_ROWS_H_
