#ifndef COMERA_PROTO_DATA_URL_H_
#define COMERA_PROTO_DATA_URL_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace comera {

// The address of one file of data, normalised: two addresses that servers take
// for the same in spite of another spelling are equal here, so that they can be
// compared with the prefixes that a worker's operator allows.
struct DataUrl {
  enum class Scheme { kHttps, kS3 };
  Scheme scheme = Scheme::kHttps;
  // The host in lower case, an IPv6 address in brackets; for kS3 the bucket.
  std::string host;
  // Always given for kHttps; 0 for kS3.
  int port = 0;
  // Percent-encoded, begins with "/", has no "." and ".." parts. For kS3 it is
  // the key, of which every byte but letters, digits and "-._~/" is encoded.
  std::string path;
  // What follows "?", for kHttps; may be empty.
  std::string query;
};

// Whether a path in a job is a URL, i.e. begins with a scheme and "://".
bool HasUrlScheme(absl::string_view path);

// Parses `https://host[:port]/path[?query]` or `s3://bucket/key`, of at most
// 2048 bytes. InvalidArgument says what is wrong and never repeats any of the
// address but its scheme: another scheme, a user or a password, a query that
// carries a credential, a pattern, a "." or ".." part.
absl::StatusOr<DataUrl> ParseDataUrl(absl::string_view text);

// Like ParseDataUrl, for what addresses of files may begin with: the path may
// be missing or end in "/", and there is no query.
absl::StatusOr<DataUrl> ParseDataUrlPrefix(absl::string_view text);

// Whether `url` lies below `prefix`: scheme, host and port are equal, and the
// prefix's path is that of the URL or a folder above it. Queries do not count.
bool IsBelow(const DataUrl& url, const DataUrl& prefix);

// The address without its query, for messages.
std::string WithoutQuery(const DataUrl& url);

// The last part of the path as a file's name: letters, digits, "-", "_" and
// inner ".", at most 128 bytes. Its end, which tells the format, stays.
std::string FileName(const DataUrl& url);

// A worker shows a file that it has fetched from a URL to its members as
// `{cache}/views/{digest}/{kFetchedUrlFolder}/{name}`, where the digest, in the
// form of a SHA-256, names the contents.
inline constexpr absl::string_view kFetchedUrlFolder = ".url";
// Returns the digest in such a path, and nothing for other paths.
absl::string_view FetchedUrlDigest(absl::string_view path);

// A worker shows the files of a dataset's version to its members below
// `{cache}/views/{digest}`. Returns such a path from the digest on, which is
// the same on all machines, and other paths as they are.
absl::string_view WithoutCache(absl::string_view path);

}  // namespace comera

#endif  // COMERA_PROTO_DATA_URL_H_
