// Walks the folders of an upload and derives paths in the dataset.

#include "client/local_files.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/dataset_names.h"

namespace comera::client {
namespace {

namespace fs = std::filesystem;

absl::Status Unreadable(const fs::path& path, const std::error_code& error) {
  const std::string text = absl::StrCat(path.string(), ": ", error.message());
  if (error == std::errc::no_such_file_or_directory) {
    return absl::NotFoundError(text);
  }
  return absl::PermissionDeniedError(text);
}

absl::Status AddFile(const fs::path& source, const std::string& path,
                     LocalFiles* to) {
  if (!IsDatasetPath(path)) {
    return absl::InvalidArgumentError(
        absl::StrCat(source.string(), ": ", path,
                     " cannot be a file's path in a dataset (at most 512 "
                     "bytes, no control characters)"));
  }
  std::error_code error;
  const auto size = fs::file_size(source, error);
  if (error) return Unreadable(source, error);
  to->files.push_back({source.string(), path, static_cast<int64_t>(size)});
  return absl::OkStatus();
}

absl::Status AddFolder(const fs::path& folder, LocalFiles* to) {
  std::error_code error;
  fs::recursive_directory_iterator it(folder, error), end;
  if (error) return Unreadable(folder, error);
  for (; it != end; it.increment(error)) {
    if (error) return Unreadable(folder, error);
    const fs::path& path = it->path();
    const bool hidden = path.filename().string()[0] == '.';
    if (hidden) it.disable_recursion_pending();
    if (!hidden && !it->is_symlink(error) && it->is_directory(error)) continue;
    if (hidden || it->is_symlink(error) || !it->is_regular_file(error)) {
      ++to->left_out;
      continue;
    }
    RETURN_IF_ERROR(
        AddFile(path, path.lexically_relative(folder).generic_string(), to));
  }
  return error ? Unreadable(folder, error) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<LocalFiles> FindLocalFiles(
    const std::vector<std::string>& arguments) {
  LocalFiles found;
  for (const std::string& argument : arguments) {
    const fs::path path(argument);
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) {
      return Unreadable(
          path,
          error ? error
                : std::make_error_code(std::errc::no_such_file_or_directory));
    }
    if (fs::is_directory(status)) {
      RETURN_IF_ERROR(AddFolder(path, &found));
    } else if (fs::is_regular_file(status)) {
      RETURN_IF_ERROR(AddFile(path, path.filename().string(), &found));
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat(argument, ": neither a file nor a folder"));
    }
  }
  std::sort(found.files.begin(), found.files.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  for (size_t i = 1; i < found.files.size(); ++i) {
    if (found.files[i].path != found.files[i - 1].path) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(found.files[i - 1].source, " and ", found.files[i].source,
                     " would both be ", found.files[i].path));
  }
  if (found.files.empty()) {
    return absl::InvalidArgumentError("there is no file to upload");
  }
  return found;
}

}  // namespace comera::client
