// Opens files with training states, and verifies their checksums.

#include "worker/checkpoint/checkpoint_file.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/sha256.h"
#include "common/status_macros.h"

namespace comera::worker {
namespace {

constexpr char kTrailer[] = "\nsha256 ";
constexpr size_t kTrailerBytes = 8 + 64 + 1;

}  // namespace

absl::StatusOr<CheckpointFile> CheckpointFile::Open(const PathBelow& path) {
  ASSIGN_OR_RETURN(PlainFile contents, PlainFile::Open(path));
  return CheckpointFile(std::move(contents));
}

absl::StatusOr<CheckpointFile> CheckpointFile::Open(const OpenFolder& folder,
                                                    const std::string& name) {
  ASSIGN_OR_RETURN(PlainFile contents, PlainFile::Open(folder, name));
  return CheckpointFile(std::move(contents));
}

absl::Status CheckpointFile::Verify(std::string* sha256,
                                    const OnPart& part) const {
  if (size() < static_cast<int64_t>(kTrailerBytes)) {
    return absl::DataLossError("truncated");
  }
  const int64_t body = size() - static_cast<int64_t>(kTrailerBytes);
  Sha256Stream of_body, of_all;
  std::string trailer;
  int64_t at = 0;
  RETURN_IF_ERROR(Read(0, [&](std::string_view data) {
    const auto own = static_cast<size_t>(
        std::clamp<int64_t>(body - at, 0, static_cast<int64_t>(data.size())));
    of_body.Add(data.substr(0, own));
    if (sha256 != nullptr) of_all.Add(data);
    trailer.append(data.substr(own));
    at += static_cast<int64_t>(data.size());
    return part == nullptr ? absl::OkStatus() : part(data);
  }));
  if (trailer != absl::StrCat(kTrailer, of_body.Finish(), "\n")) {
    return absl::DataLossError("its checksum differs");
  }
  if (sha256 != nullptr) *sha256 = of_all.Finish();
  return absl::OkStatus();
}

bool IsWhole(std::string_view contents) {
  if (contents.size() < kTrailerBytes) return false;
  const std::string_view body =
      contents.substr(0, contents.size() - kTrailerBytes);
  return contents.substr(body.size()) ==
         absl::StrCat(kTrailer, Sha256Hex(body), "\n");
}

}  // namespace comera::worker
