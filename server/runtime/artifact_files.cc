// Receives artifact files below the data directory and publishes them whole.
#include "server/runtime/artifact_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "proto/resource_names.h"

namespace comera::server {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{1} << 40;
constexpr size_t kMaxFileName = 200;

bool IsFileName(const std::string& name) {
  return !name.empty() && name.size() <= kMaxFileName && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
         });
}

bool IsSha256(const std::string& text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string UploadsDir(const std::string& data_dir) {
  return absl::StrCat(data_dir, "/uploads");
}

}  // namespace

absl::Status ValidateUpload(const v1::UploadArtifactHeader& header) {
  if (!ParseArtifactName(header.artifact())) {
    return absl::InvalidArgumentError("artifact: malformed name");
  }
  if (header.attempt() < 1) {
    return absl::InvalidArgumentError("attempt: must be positive");
  }
  if (!IsFileName(header.file().path())) {
    return absl::InvalidArgumentError(
        "file.path: must be a plain file name of [A-Za-z0-9._-]");
  }
  if (header.file().size_bytes() < 0 ||
      header.file().size_bytes() > kMaxFileBytes) {
    return absl::InvalidArgumentError("file.size_bytes: must be 0 to 1 TiB");
  }
  if (!IsSha256(header.file().sha256())) {
    return absl::InvalidArgumentError(
        "file.sha256: must be 64 lower-case hexadecimal digits");
  }
  return absl::OkStatus();
}

std::string ArtifactPath(const std::string& data_dir,
                         const std::string& artifact, const std::string& file) {
  const auto ids = ParseArtifactName(artifact);
  return absl::StrCat(data_dir, "/artifacts/", ids->first, "/", ids->second,
                      "/", file);
}

absl::Status CleanUploads(const std::string& data_dir) {
  const std::string folder = UploadsDir(data_dir);
  RETURN_IF_ERROR(MakeDirectories(folder));
  DIR* directory = opendir(folder.c_str());
  if (directory == nullptr) return ErrnoStatus(errno, folder);
  while (const dirent* entry = readdir(directory)) {
    if (entry->d_name[0] == '.') continue;
    unlink(absl::StrCat(folder, "/", entry->d_name).c_str());
  }
  closedir(directory);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ArtifactUpload>> ArtifactUpload::Begin(
    const std::string& data_dir, const v1::UploadArtifactHeader& header) {
  static std::atomic<int64_t> counter{0};
  // A coordinator that was deposed may still write here, too.
  static const uint64_t process = [] {
    std::random_device random;
    return (uint64_t{random()} << 32) | random();
  }();
  RETURN_IF_ERROR(ValidateUpload(header));
  std::unique_ptr<ArtifactUpload> upload(new ArtifactUpload);
  upload->header_ = header;
  upload->path_ =
      ArtifactPath(data_dir, header.artifact(), header.file().path());
  RETURN_IF_ERROR(MakeDirectories(UploadsDir(data_dir)));
  RETURN_IF_ERROR(
      MakeDirectories(upload->path_.substr(0, upload->path_.rfind('/'))));
  upload->temporary_ = absl::StrCat(
      UploadsDir(data_dir), "/", absl::Hex(process), "-", counter.fetch_add(1));
  ASSIGN_OR_RETURN(
      upload->file_,
      FileHandle::Open(upload->temporary_, O_WRONLY | O_CREAT | O_EXCL));
  return upload;
}

ArtifactUpload::~ArtifactUpload() {
  if (!published_ && !temporary_.empty()) unlink(temporary_.c_str());
}

absl::Status ArtifactUpload::Add(const std::string& data) {
  if (static_cast<int64_t>(data.size()) >
      header_.file().size_bytes() - received_) {
    return absl::DataLossError(
        absl::StrCat(header_.file().path(), ": more than the declared ",
                     header_.file().size_bytes(), " bytes"));
  }
  RETURN_IF_ERROR(file_.WriteAt(received_, data));
  sha256_.Add(data);
  received_ += static_cast<int64_t>(data.size());
  return absl::OkStatus();
}

absl::Status ArtifactUpload::Verify() {
  if (received_ != header_.file().size_bytes()) {
    return absl::DataLossError(
        absl::StrCat(header_.file().path(), ": ", received_, " bytes of ",
                     header_.file().size_bytes(), " arrived"));
  }
  if (sha256_.Finish() != header_.file().sha256()) {
    return absl::DataLossError(
        absl::StrCat(header_.file().path(), ": the checksum differs"));
  }
  return file_.Sync();
}

absl::Status ArtifactUpload::Publish() {
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    return ErrnoStatus(errno, path_);
  }
  published_ = true;
  const std::string folder = path_.substr(0, path_.rfind('/'));
  // The folders above were new with the job's first file.
  std::string synced = folder;
  for (int level = 0; level < 3; ++level) {
    ASSIGN_OR_RETURN(FileHandle handle,
                     FileHandle::Open(synced, O_RDONLY | O_DIRECTORY));
    RETURN_IF_ERROR(handle.Sync());
    synced = synced.substr(0, synced.rfind('/'));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ArtifactDownload>> ArtifactDownload::Begin(
    const std::string& path, const v1::ArtifactFile& expected, int64_t offset) {
  if (offset < 0 || offset > expected.size_bytes()) {
    return absl::OutOfRangeError(absl::StrCat(expected.path(), ": offset ",
                                              offset, " is not in the file of ",
                                              expected.size_bytes(), " bytes"));
  }
  std::unique_ptr<ArtifactDownload> download(new ArtifactDownload);
  auto file = FileHandle::Open(path, O_RDONLY);
  if (absl::IsNotFound(file.status())) {
    return absl::DataLossError(
        absl::StrCat(expected.path(), ": the stored file is missing"));
  }
  RETURN_IF_ERROR(file.status());
  download->file_ = *std::move(file);
  ASSIGN_OR_RETURN(const int64_t size, download->file_.Size());
  if (size != expected.size_bytes()) {
    return absl::DataLossError(
        absl::StrCat(expected.path(), ": the stored file has ", size,
                     " bytes instead of ", expected.size_bytes()));
  }
  download->expected_ = expected;
  download->offset_ = offset;
  download->from_start_ = offset == 0;
  return download;
}

absl::StatusOr<std::string> ArtifactDownload::Next(size_t max_bytes) {
  ASSIGN_OR_RETURN(std::string data, file_.ReadAt(offset_, max_bytes));
  sha256_.Add(data);
  offset_ += static_cast<int64_t>(data.size());
  if (data.empty() && from_start_ && sha256_.Finish() != expected_.sha256()) {
    return absl::DataLossError(
        absl::StrCat(expected_.path(), ": the stored file's checksum differs"));
  }
  return data;
}

}  // namespace comera::server
