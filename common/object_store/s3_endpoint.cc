// Makes the URLs of objects in AWS and in services that speak its protocol.

#include "common/object_store/s3_endpoint.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace comera {
namespace {

bool IsRegion(absl::string_view region) {
  return !region.empty() && region.size() <= 64 &&
         std::all_of(region.begin(), region.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  c == '-';
         });
}

// "host[:port]", in which nothing may be that separates parts of a URL.
bool IsAuthority(absl::string_view text) {
  return !text.empty() && text.size() <= 255 &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  absl::StrContains("-._:[]", c);
         });
}

}  // namespace

absl::StatusOr<S3Endpoint> S3Endpoint::Create(const std::string& endpoint,
                                              const std::string& region) {
  S3Endpoint result;
  if (!IsRegion(region)) {
    return absl::InvalidArgumentError("s3_region: must be like us-east-1");
  }
  result.region_ = region;
  if (endpoint.empty()) return result;
  absl::string_view rest = endpoint;
  result.plain_http_ = absl::ConsumePrefix(&rest, "http://");
  const bool has_scheme =
      result.plain_http_ || absl::ConsumePrefix(&rest, "https://");
  absl::ConsumeSuffix(&rest, "/");
  if (!has_scheme || !IsAuthority(rest)) {
    return absl::InvalidArgumentError(
        "s3_endpoint: must be https://host[:port] or http://host[:port]");
  }
  result.endpoint_ =
      absl::StrCat(result.plain_http_ ? "http://" : "https://", rest);
  return result;
}

std::string S3Endpoint::Url(const std::string& bucket,
                            const std::string& path) const {
  if (!endpoint_.empty()) return absl::StrCat(endpoint_, "/", bucket, path);
  // The certificate is for *.s3..., and a star stands for no dot.
  if (absl::StrContains(bucket, '.')) {
    return absl::StrCat("https://s3.", region_, ".amazonaws.com/", bucket,
                        path);
  }
  return absl::StrCat("https://", bucket, ".s3.", region_, ".amazonaws.com",
                      path);
}

}  // namespace comera
