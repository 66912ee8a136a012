// Reads the keys of S3 accounts from files in the format of AWS's tools.

#include "common/object_store/s3_credentials.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/private_file.h"

namespace comera {
namespace {

constexpr size_t kMaxValueBytes = 4096;

bool IsHeaderValue(absl::string_view text) {
  return text.size() <= kMaxValueBytes &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isgraph(static_cast<unsigned char>(c));
         });
}

}  // namespace

absl::StatusOr<S3Credentials> ReadS3CredentialsFile(const std::string& path) {
  const absl::StatusOr<std::string> contents = ReadPrivateFile(path);
  if (!contents.ok()) return contents.status();
  S3Credentials credentials;
  bool wanted = false;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(*contents, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line.front() == '[' && line.back() == ']') {
      wanted = absl::StripAsciiWhitespace(line.substr(1, line.size() - 2)) ==
               "default";
      continue;
    }
    const size_t equals = line.find('=');
    if (equals == absl::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", number, ": is neither [profile] nor a = b"));
    }
    if (!wanted) continue;
    const std::string name = absl::AsciiStrToLower(
        absl::StripAsciiWhitespace(line.substr(0, equals)));
    const std::string value(
        absl::StripAsciiWhitespace(line.substr(equals + 1)));
    if (name == "aws_access_key_id") credentials.access_key_id = value;
    if (name == "aws_secret_access_key") credentials.secret_access_key = value;
    if (name == "aws_session_token") credentials.session_token = value;
  }
  if (credentials.access_key_id.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the profile [default] has no aws_access_key_id"));
  }
  const absl::Status status = CheckS3Credentials(credentials);
  if (!status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", status.message()));
  }
  return credentials;
}

absl::Status CheckS3Credentials(const S3Credentials& credentials) {
  if (credentials.access_key_id.empty() !=
      credentials.secret_access_key.empty()) {
    return absl::InvalidArgumentError(
        "an S3 key needs an access key id and a secret access key");
  }
  if (!IsHeaderValue(credentials.access_key_id) ||
      !IsHeaderValue(credentials.secret_access_key) ||
      !IsHeaderValue(credentials.session_token)) {
    return absl::InvalidArgumentError("the S3 key is malformed");
  }
  return absl::OkStatus();
}

}  // namespace comera
