// Fuzzes addresses of data, and the prefixes of those that a worker's operator
// allows: what is normalised stays the same, and whatever lies below a prefix
// has it at its beginning.
#include <string>

#include "absl/strings/match.h"
#include "proto/data_url.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using comera::DataUrl;
  using comera::FuzzFailure;
  comera::FuzzInput input(data, size);
  const std::string text = input.Part();
  const auto prefix = comera::ParseDataUrlPrefix(input.Rest());
  const auto url = comera::ParseDataUrl(text);
  if (!url.ok()) {
    // Only the scheme, of at most 16 bytes, is repeated.
    if (!absl::IsInvalidArgument(url.status()) ||
        url.status().message().size() > 200) {
      FuzzFailure("an error that repeats the address");
    }
    return 0;
  }
  const std::string name = comera::FileName(*url);
  if (name.empty() || name.size() > 128 || name[0] == '.' ||
      name.find('/') != std::string::npos) {
    FuzzFailure("a name that is no file's");
  }
  const std::string path = url->path + "/";
  if (path[0] != '/' || absl::StrContains(path, "/../") ||
      absl::StrContains(path, "/./")) {
    FuzzFailure("a path that is not normal");
  }
  if (prefix.ok() && comera::IsBelow(*url, *prefix) &&
      !absl::StartsWith(comera::WithoutQuery(*url),
                        comera::WithoutQuery(*prefix))) {
    FuzzFailure("an address below a prefix that it does not have");
  }
  // The encoded key of an object is not the key.
  if (url->scheme == DataUrl::Scheme::kS3) return 0;
  const auto again = comera::ParseDataUrl(comera::WithoutQuery(*url));
  if (!again.ok() || again->host != url->host || again->port != url->port ||
      again->path != url->path) {
    FuzzFailure("an address that is another one when normalised again");
  }
  return 0;
}
