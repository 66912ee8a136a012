// Reads the documents of several files in turn.
#include "worker/trainer/data/corpus/document_reader.h"

#include <utility>

#include "common/status_macros.h"

namespace comera::trainer {

DocumentReader::DocumentReader(std::vector<std::string> files,
                               DocumentFormat format, BadRows* bad_rows)
    : files_(std::move(files)),
      format_(std::move(format)),
      bad_rows_(bad_rows) {}

absl::StatusOr<bool> DocumentReader::Next(std::string* document) {
  while (true) {
    if (file_ == nullptr) {
      if (opened_ == files_.size()) return false;
      ASSIGN_OR_RETURN(file_, DocumentFile::Open(files_[opened_++], format_));
    }
    const absl::StatusOr<bool> more = file_->Next(document);
    if (!more.ok()) {
      if (bad_rows_ == nullptr || !file_->can_go_on()) return more.status();
      RETURN_IF_ERROR(bad_rows_->Add(more.status()));
    } else if (!*more) {
      file_.reset();
    } else if (!document->empty()) {
      return true;
    }
  }
}

}  // namespace comera::trainer
