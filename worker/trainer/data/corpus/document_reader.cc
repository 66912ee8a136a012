// Divides text files into documents.
#include "worker/trainer/data/corpus/document_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"

namespace comera::trainer {

DocumentReader::DocumentReader(std::vector<std::string> files,
                               std::string separator, size_t max_document_bytes)
    : files_(std::move(files)),
      separator_(std::move(separator)),
      max_document_bytes_(max_document_bytes) {}

absl::StatusOr<bool> DocumentReader::Next(std::string* document) {
  document->clear();
  while (true) {
    if (lines_ == nullptr) {
      if (opened_ == files_.size()) return false;
      ASSIGN_OR_RETURN(
          lines_, LineReader::Open(files_[opened_++], max_document_bytes_));
    }
    absl::string_view line;
    ASSIGN_OR_RETURN(const bool more, lines_->Next(&line));
    if (more && lines_->line_number() == 1) {
      absl::ConsumePrefix(&line, "\xEF\xBB\xBF");
    }
    if (!more || (!separator_.empty() && line == separator_)) {
      if (!more) lines_.reset();
      if (!document->empty()) return true;
      continue;
    }
    absl::StrAppend(document, line, lines_->line_end());
    if (document->size() > max_document_bytes_) {
      return lines_->Error(
          absl::StrCat("the document is longer than ", max_document_bytes_,
                       " bytes; data.text.document_separator can divide it"));
    }
  }
}

}  // namespace comera::trainer
