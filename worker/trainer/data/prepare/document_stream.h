#ifndef COMERA_WORKER_TRAINER_DATA_PREPARE_DOCUMENT_STREAM_H_
#define COMERA_WORKER_TRAINER_DATA_PREPARE_DOCUMENT_STREAM_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/trainer/data/corpus/bad_rows.h"
#include "worker/trainer/data/corpus/document_file.h"
#include "worker/trainer/data/prepare/source_list.h"

namespace comera::trainer {

// Where a reading of sources stands, behind some document.
struct StreamPosition {
  int64_t file = 0;     // number of the source
  int64_t in_file = 0;  // documents read of that source
  // Malformed rows skipped in the sources before that one.
  int64_t skipped_before_file = 0;
  int64_t documents = 0;   // read of all sources
  int64_t duplicates = 0;  // read, but left out
};

// The documents of sources, one after another, without empty ones.
//
// Not thread safe.
class DocumentStream {
 public:
  struct Options {
    DocumentFormat format;
    // What standard input holds, if that is the source.
    DocumentFile::Kind standard_input = DocumentFile::Kind::kPlain;
    int64_t max_bad_rows = 0;
  };

  // `sources` must outlive the stream.
  DocumentStream(const std::vector<SourceFile>* sources, Options options);

  // Begins with the source of `position` instead of the first one; its
  // documents are read again. Called before Next.
  void BeginWith(const StreamPosition& position);

  // Reads the next document; false behind the last one. Statuses of
  // DocumentFile; DataLoss: more malformed rows than allowed.
  absl::StatusOr<bool> Next(std::string* document);

  // Behind the document that Next gave last; `duplicates` is not counted here.
  const StreamPosition& position() const { return position_; }
  int64_t skipped_rows() const { return bad_rows_.count(); }
  std::string skipped_summary() const { return bad_rows_.Summary(); }
  // Bytes of the sources that have been read, packed as they are.
  int64_t bytes_read() const { return bytes_read_; }

 private:
  const std::vector<SourceFile>& sources_;
  const Options options_;
  BadRows bad_rows_;
  std::atomic<int64_t> bytes_read_{0};
  StreamPosition position_;
  std::unique_ptr<DocumentFile> file_;  // null: none is open
  int64_t opened_ = 0;                  // number of the next source
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_PREPARE_DOCUMENT_STREAM_H_
