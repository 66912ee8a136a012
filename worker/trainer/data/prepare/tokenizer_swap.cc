// Replaces a saved tokenizer by another, so that one of them is always there.
#include "worker/trainer/data/prepare/tokenizer_swap.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "worker/trainer/data/shards/shard_index.h"
#include "worker/trainer/data/source/text.h"
#include "worker/trainer/data/tokenizer/saved_tokenizer.h"
#include "worker/trainer/data/tokenizer/tokenizer_digest.h"

namespace comera::trainer {
namespace {

namespace fs = std::filesystem;

// Links count as what they are.
bool IsThere(const std::string& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

bool IsLink(const std::string& path) {
  std::error_code error;
  return fs::is_symlink(path, error);
}

bool IsFolder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(fs::symlink_status(path, error));
}

absl::Status Rename(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "rename " + PrintablePath(from));
}

absl::Status Sync(const std::string& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, PrintablePath(folder));
  const int error = fsync(fd) == 0 ? 0 : errno;
  close(fd);
  if (error == 0) return absl::OkStatus();
  return ErrnoStatus(error, "fsync " + PrintablePath(folder));
}

// Whether Tokenizer::Save writes files of this name, or leaves one of it when
// it is killed.
bool IsTokenizerFile(absl::string_view name) {
  for (const char* const file : kTokenizerFiles) {
    if (name == file || absl::StartsWith(name, absl::StrCat(file, ".tmp."))) {
      return true;
    }
  }
  return false;
}

absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  for (; !error && entries != fs::directory_iterator();
       entries.increment(error)) {
    names.push_back(entries->path().filename().string());
  }
  if (error) return ErrnoStatus(error.value(), PrintablePath(folder));
  return names;
}

// Moves what is no tokenizer's to another folder, unless something of its name
// is there. A link's folder is left as it is.
absl::Status MoveOthers(const std::string& from, const std::string& to) {
  if (!IsFolder(from)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(from));
  for (const std::string& name : names) {
    const std::string target = absl::StrCat(to, "/", name);
    if (IsTokenizerFile(name) || IsThere(target)) continue;
    RETURN_IF_ERROR(Rename(absl::StrCat(from, "/", name), target));
  }
  return absl::OkStatus();
}

// Removes a tokenizer, and its folder if it holds nothing else.
absl::Status RemoveTokenizer(const std::string& folder) {
  if (IsLink(folder)) {
    if (unlink(folder.c_str()) == 0) return absl::OkStatus();
    return ErrnoStatus(errno, "remove " + PrintablePath(folder));
  }
  if (!IsFolder(folder)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(folder));
  for (const std::string& name : names) {
    const std::string file = absl::StrCat(folder, "/", name);
    if (!IsTokenizerFile(name) || IsFolder(file)) continue;
    if (unlink(file.c_str()) != 0) {
      return ErrnoStatus(errno, "remove " + PrintablePath(file));
    }
  }
  if (rmdir(folder.c_str()) == 0 || errno == ENOTEMPTY || errno == EEXIST) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, "remove " + PrintablePath(folder));
}

}  // namespace

TokenizerSwap::TokenizerSwap(const std::string& shards)
    : shards_(shards),
      path_(absl::StrCat(shards, "/", kShardTokenizerFolder)),
      new_(absl::StrCat(shards, "/.", kShardTokenizerFolder, ".new")),
      old_(absl::StrCat(shards, "/.", kShardTokenizerFolder, ".old")) {}

absl::Status TokenizerSwap::Recover() const {
  if (!IsThere(path_) && IsThere(old_)) RETURN_IF_ERROR(Rename(old_, path_));
  if (!IsThere(path_)) return absl::OkStatus();
  RETURN_IF_ERROR(MoveOthers(new_, path_));
  return MoveOthers(old_, path_);
}

absl::Status TokenizerSwap::RemoveReplaced() const {
  RETURN_IF_ERROR(Recover());
  RETURN_IF_ERROR(RemoveTokenizer(new_));
  return RemoveTokenizer(old_);
}

absl::Status TokenizerSwap::Exchange() const {
  // What is in the new folder is durable, and its name has to be so too.
  RETURN_IF_ERROR(Sync(shards_));
  if (renameat2(AT_FDCWD, new_.c_str(), AT_FDCWD, path_.c_str(),
                RENAME_EXCHANGE) != 0) {
    if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) {
      return ErrnoStatus(errno, "exchange " + PrintablePath(path_));
    }
    // Some network file systems only move. Recover undoes the first half.
    RETURN_IF_ERROR(Rename(path_, old_));
    RETURN_IF_ERROR(Rename(new_, path_));
  }
  return Sync(shards_);
}

absl::Status TokenizerSwap::Replace(
    const Tokenizer& tokenizer, const std::string& digest,
    const std::function<absl::Status()>& before) const {
  RETURN_IF_ERROR(MakeDirectories(path_));
  RETURN_IF_ERROR(RemoveReplaced());
  RETURN_IF_ERROR(MakeDirectories(new_));
  RETURN_IF_ERROR(before());
  RETURN_IF_ERROR(tokenizer.Save(new_));
  ASSIGN_OR_RETURN(const std::string saved, SavedTokenizerDigest(new_));
  if (saved != digest) {
    return absl::InternalError("the tokenizer is not saved as it is");
  }
  RETURN_IF_ERROR(before());
  RETURN_IF_ERROR(Exchange());
  RETURN_IF_ERROR(before());
  return RemoveReplaced();
}

}  // namespace comera::trainer
