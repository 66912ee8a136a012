#ifndef COMERA_SERVER_HTTP_STATIC_FILES_H_
#define COMERA_SERVER_HTTP_STATIC_FILES_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace comera::server {

// A file as it is sent.
struct StaticFile {
  std::string content_type;
  std::shared_ptr<const std::string> body;
  // The same, compressed; null where that is not smaller.
  std::shared_ptr<const std::string> gzip_body;
  // Strong, with its quotes; of `body`.
  std::string etag;
  // Its name holds a hash of what is in it: it never changes.
  bool immutable = false;
};

// The files of the dashboard, which are part of the program: a tar archive of
// what its build wrote (//server/dashboard:dist, with index.html at the top).
// Immutable; thread-safe.
class StaticFiles {
 public:
  // InvalidArgument: not a ustar archive of plain files and folders.
  static absl::StatusOr<StaticFiles> FromTar(std::string_view archive);

  // `path` begins with "/". "/" is index.html, and so is every path that names
  // no file and has no extension: the pages of the dashboard are routes within
  // it. Null: there is no such file.
  const StaticFile* Find(std::string_view path) const;

 private:
  std::map<std::string, StaticFile, std::less<>> files_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_HTTP_STATIC_FILES_H_
