// Fuzzes what clients say of datasets, whose names become paths on workers: the
// first byte chooses a reference, a pattern with a path, the list of a
// version's files as lines of paths, or that list as it is stored.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>

#include "proto/dataset_names.h"
#include "server/dataset/dataset_manifest.h"
#include "tests/fuzz/fuzz_input.h"

namespace comera::server {
namespace {

using Files = google::protobuf::RepeatedPtrField<v1::DatasetFile>;

constexpr int64_t kMostFiles = 20;
constexpr int64_t kMostBytes = 1000000;

void Check(bool good, const char* what) {
  if (!good) FuzzFailure(what);
}

// Whether a file of that name lies below the folder that it is joined to.
bool StaysBelow(const std::string& path) {
  const std::filesystem::path name(path);
  return name.is_relative() && !path.empty() &&
         name.lexically_normal() == name &&
         std::none_of(name.begin(), name.end(), [](const auto& part) {
           return part == ".." || part == "." || part.empty();
         });
}

void Reference(const std::string& text) {
  const std::optional<DatasetReference> reference = ParseDatasetReference(text);
  if (!reference) return;
  std::string again = DatasetPart(*reference);
  if (!reference->path.empty()) {
    Check(StaysBelow(reference->path), "a path that leaves its dataset");
    again += "/" + reference->path;
  }
  Check(again == text, "two references to the same");
}

void Pattern(const std::string& pattern, const std::string& path) {
  // Both come from references.
  if (!IsDatasetPath(pattern) || !IsDatasetPath(path)) return;
  Check(MatchesFilePattern(path, path), "a path that is not its own pattern");
  if (MatchesFilePattern(pattern, path)) {
    Check(std::count(pattern.begin(), pattern.end(), '/') ==
              std::count(path.begin(), path.end(), '/'),
          "a pattern that reaches into folders");
    Check(pattern == path || IsFilePattern(pattern) ||
              pattern.find('\\') != std::string::npos,
          "a pattern without a sign that matches another path");
  }
}

void Manifest(const Files& files) {
  ManifestLimits limits;
  limits.max_files = kMostFiles;
  limits.max_bytes = kMostBytes;
  const auto manifest = MakeManifest(files, limits);
  if (!manifest.ok()) {
    Check(absl::IsInvalidArgument(manifest.status()) ||
              absl::IsResourceExhausted(manifest.status()),
          "not the caller's error");
    return;
  }
  Check(manifest->files_size() == files.size() && files.size() <= kMostFiles &&
            TotalBytes(*manifest) <= kMostBytes,
        "other files");
  for (const v1::DatasetFile& file : manifest->files()) {
    Check(StaysBelow(file.path()), "a file outside the dataset");
    Check(FindFile(*manifest, file.path()) == &file &&
              HasPath(*manifest, file.path(), PathKind::kFiles),
          "a file that is not found");
    Check(!HasFolder(*manifest, file.path()), "a file that is a folder");
    for (size_t slash = file.path().find('/'); slash != std::string::npos;
         slash = file.path().find('/', slash + 1)) {
      Check(HasFolder(*manifest, file.path().substr(0, slash)),
            "a folder that is not found");
    }
  }
  const auto again = ParseManifest(manifest->SerializeAsString());
  Check(again.ok() && again->files_size() == manifest->files_size(),
        "a list that cannot be stored");
}

// A list as it arrives. What is not UTF-8 arrives nowhere.
void Wire(const std::string& bytes) {
  const auto manifest = ParseManifest(bytes);
  if (manifest.ok()) Manifest(manifest->files());
}

// Each line is the path of a file.
void Paths(FuzzInput input) {
  v1::DatasetManifest sent;
  std::string path;
  while (!input.Rest().empty()) {
    const char c = static_cast<char>(input.Choose(256));
    if (c != '\n') path += c;
    if (c != '\n' && !input.Rest().empty()) continue;
    v1::DatasetFile* const file = sent.add_files();
    file->set_path(path);
    file->set_size_bytes(static_cast<int64_t>(path.size()));
    file->set_sha256(std::string(64, 'a'));
    path.clear();
  }
  Wire(sent.SerializeAsString());
}

}  // namespace
}  // namespace comera::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace comera::server;  // NOLINT: the entry point has no namespace.
  comera::FuzzInput input(data, size);
  switch (input.Choose(4)) {
    case 0:
      Reference(input.Rest());
      break;
    case 1: {
      const std::string pattern = input.Part();
      Pattern(pattern, input.Rest());
      break;
    }
    case 2:
      Paths(input);
      break;
    default:
      Wire(input.Rest());
  }
  return 0;
}
