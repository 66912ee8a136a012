// Digests of tokenizers, by the files that they are saved as.
#include "worker/trainer/data/tokenizer/tokenizer_digest.h"

#include <stdlib.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/read_limited.h"
#include "worker/trainer/data/source/text.h"
#include "worker/trainer/data/tokenizer/saved_tokenizer.h"

namespace comera::trainer {
namespace {

constexpr int64_t kMaxFileBytes = 512 << 20;

}  // namespace

absl::StatusOr<std::string> SavedTokenizerDigest(const std::string& directory) {
  Sha256Stream digest;
  bool found = false;
  for (const char* const name : kTokenizerFiles) {
    const absl::StatusOr<std::string> contents =
        ReadLimited(absl::StrCat(directory, "/", name), kMaxFileBytes);
    if (absl::IsNotFound(contents.status())) continue;
    RETURN_IF_ERROR(contents.status());
    found = true;
    digest.Add(absl::StrCat(name, " ", contents->size(), "\n"));
    digest.Add(*contents);
  }
  if (!found) {
    return absl::NotFoundError(
        absl::StrCat(PrintablePath(directory), ": no tokenizer"));
  }
  return digest.Finish();
}

absl::StatusOr<std::string> TokenizerDigest(const Tokenizer& tokenizer) {
  std::error_code error;
  std::string folder =
      std::filesystem::temp_directory_path(error).string() + "/comera-XXXXXX";
  if (error || mkdtemp(folder.data()) == nullptr) {
    return ErrnoStatus(errno, "a temporary folder");
  }
  const auto remover = absl::MakeCleanup([&folder] {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  });
  RETURN_IF_ERROR(tokenizer.Save(folder));
  return SavedTokenizerDigest(folder);
}

}  // namespace comera::trainer
