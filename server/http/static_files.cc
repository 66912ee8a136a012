// Serves files from a tar archive in memory.
#include "server/http/static_files.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "server/http/gzip.h"

namespace comera::server {
namespace {

constexpr size_t kBlock = 512;
constexpr size_t kNameBytes = 100;
constexpr size_t kSizeOffset = 124;
constexpr size_t kSizeBytes = 12;
constexpr size_t kTypeOffset = 156;
constexpr size_t kMagicOffset = 257;
constexpr size_t kPrefixOffset = 345;
constexpr size_t kPrefixBytes = 155;
constexpr int kBestCompression = 9;

struct Type {
  std::string_view extension;
  const char* content_type;
  bool text;
};

constexpr Type kTypes[] = {
    {".html", "text/html; charset=utf-8", true},
    {".js", "text/javascript; charset=utf-8", true},
    {".mjs", "text/javascript; charset=utf-8", true},
    {".css", "text/css; charset=utf-8", true},
    {".svg", "image/svg+xml", true},
    {".json", "application/json", true},
    {".map", "application/json", true},
    {".webmanifest", "application/manifest+json", true},
    {".txt", "text/plain; charset=utf-8", true},
    {".ico", "image/x-icon", true},
    {".png", "image/png", false},
    {".woff2", "font/woff2", false},
};

std::string_view Extension(std::string_view path) {
  const size_t slash = path.rfind('/');
  const size_t dot = path.rfind('.');
  if (dot == std::string_view::npos ||
      (slash != std::string_view::npos && dot < slash)) {
    return "";
  }
  return path.substr(dot);
}

// Vite's names: assets/NAME-HASH.EXTENSION, with a hash of eight characters.
bool HasHash(std::string_view path) {
  constexpr size_t kHash = 8;
  if (path.substr(0, 8) != "/assets/") return false;
  const std::string_view stem =
      path.substr(0, path.size() - Extension(path).size());
  if (stem.size() <= kHash || stem[stem.size() - kHash - 1] != '-') {
    return false;
  }
  const std::string_view hash = stem.substr(stem.size() - kHash);
  return std::all_of(hash.begin(), hash.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
  });
}

std::string_view CString(std::string_view field) {
  return field.substr(0, field.find('\0'));
}

StaticFile Make(std::string_view path, std::string_view body) {
  StaticFile file;
  file.content_type = "application/octet-stream";
  bool text = false;
  for (const Type& type : kTypes) {
    if (Extension(path) != type.extension) continue;
    file.content_type = type.content_type;
    text = type.text;
  }
  file.body = std::make_shared<const std::string>(body);
  std::string gzip = text ? Gzip(body, kBestCompression) : "";
  if (!gzip.empty() && gzip.size() < body.size()) {
    file.gzip_body = std::make_shared<const std::string>(std::move(gzip));
  }
  file.etag = absl::StrCat("\"", Sha256Hex(body).substr(0, 32), "\"");
  file.immutable = HasHash(path);
  return file;
}

absl::Status Malformed(const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the archive of the dashboard: ", what));
}

absl::StatusOr<size_t> ParseSize(std::string_view field) {
  size_t size = 0;
  for (const char c : CString(field)) {
    if (c == ' ') continue;
    if (c < '0' || c > '7') return Malformed("a size is no octal number");
    size = size * 8 + static_cast<size_t>(c - '0');
  }
  return size;
}

}  // namespace

absl::StatusOr<StaticFiles> StaticFiles::FromTar(std::string_view archive) {
  StaticFiles result;
  while (archive.size() >= kBlock) {
    const std::string_view header = archive.substr(0, kBlock);
    // Two empty blocks end an archive.
    if (header.find_first_not_of('\0') == std::string_view::npos) break;
    if (header.substr(kMagicOffset, 5) != "ustar") {
      return Malformed("not in the format ustar");
    }
    ASSIGN_OR_RETURN(const size_t size,
                     ParseSize(header.substr(kSizeOffset, kSizeBytes)));
    const size_t blocks = (size + kBlock - 1) / kBlock;
    if (blocks > (archive.size() - kBlock) / kBlock) {
      return Malformed("a file is cut off");
    }
    const std::string_view prefix =
        CString(header.substr(kPrefixOffset, kPrefixBytes));
    std::string path =
        absl::StrCat(std::string(prefix), prefix.empty() ? "" : "/",
                     std::string(CString(header.substr(0, kNameBytes))));
    while (absl::StartsWith(path, "./")) path.erase(0, 2);
    const char type = header[kTypeOffset];
    if (type == '0' || type == '\0') {
      path.insert(0, "/");
      const std::string_view body = archive.substr(kBlock, size);
      result.files_[path] = Make(path, body);
    } else if (type != '5') {
      return Malformed(absl::StrCat(path, " is neither file nor folder"));
    }
    archive.remove_prefix(kBlock * (blocks + 1));
  }
  return result;
}

const StaticFile* StaticFiles::Find(std::string_view path) const {
  auto found = files_.find(path);
  if (found == files_.end() && Extension(path).empty()) {
    found = files_.find("/index.html");
  }
  return found == files_.end() ? nullptr : &found->second;
}

}  // namespace comera::server
