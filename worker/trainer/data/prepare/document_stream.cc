// Reads the documents of sources and keeps count of where it stands.
#include "worker/trainer/data/prepare/document_stream.h"

#include <utility>

#include "common/status_macros.h"

namespace comera::trainer {

DocumentStream::DocumentStream(const std::vector<SourceFile>* sources,
                               Options options)
    : sources_(*sources),
      options_(std::move(options)),
      bad_rows_(options_.max_bad_rows) {}

void DocumentStream::BeginWith(const StreamPosition& position) {
  opened_ = position.file;
  bad_rows_.AddEarlier(position.skipped_before_file);
  position_.documents = position.documents - position.in_file;
  for (int64_t i = 0; i < opened_; ++i) bytes_read_ += sources_[i].size_bytes;
}

absl::StatusOr<bool> DocumentStream::Next(std::string* document) {
  while (true) {
    if (file_ == nullptr) {
      if (opened_ == static_cast<int64_t>(sources_.size())) return false;
      const std::string& path = sources_[opened_].path;
      if (path == kStandardInput) {
        ASSIGN_OR_RETURN(
            file_, DocumentFile::OpenStandardInput(
                       options_.standard_input, options_.format, &bytes_read_));
      } else {
        ASSIGN_OR_RETURN(
            file_, DocumentFile::Open(path, options_.format, &bytes_read_));
      }
      position_.file = opened_++;
      position_.in_file = 0;
      position_.skipped_before_file = bad_rows_.count();
    }
    const absl::StatusOr<bool> more = file_->Next(document);
    if (!more.ok()) {
      if (!file_->can_go_on()) return more.status();
      RETURN_IF_ERROR(bad_rows_.Add(more.status()));
    } else if (!*more) {
      file_.reset();
    } else if (!document->empty()) {
      ++position_.in_file;
      ++position_.documents;
      return true;
    }
  }
}

}  // namespace comera::trainer
