// Parses and normalises the addresses of data files, and compares them with
// prefixes.

#include "proto/data_url.h"

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "proto/dataset_names.h"
#include "proto/secret_words.h"

namespace comera {
namespace {

constexpr size_t kMaxUrlBytes = 2048;
constexpr size_t kMaxSchemeBytes = 16;
constexpr size_t kMaxNameBytes = 128;
constexpr int kHttpsPort = 443;
constexpr char kHex[] = "0123456789ABCDEF";

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(what);
}

// Letters, digits and the marks that need no encoding in any URL.
bool IsUnreserved(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

void AppendEncoded(char c, std::string* text) {
  const auto byte = static_cast<unsigned char>(c);
  text->push_back('%');
  text->push_back(kHex[byte >> 4]);
  text->push_back(kHex[byte & 15]);
}

// The byte that "%XX" at text[i] stands for; -1 if it is malformed.
int DecodedAt(absl::string_view text, size_t i) {
  const auto digit = [&](size_t at) {
    const char c = at < text.size() ? text[at] : '\0';
    const char* const found = std::find(
        kHex, kHex + 16, absl::ascii_toupper(static_cast<unsigned char>(c)));
    return c == '\0' || found == kHex + 16 ? -1
                                           : static_cast<int>(found - kHex);
  };
  const int high = digit(i + 1), low = digit(i + 2);
  return high < 0 || low < 0 ? -1 : 16 * high + low;
}

// Writes the path of an https URL in the one way that its characters allow.
absl::StatusOr<std::string> NormalPath(absl::string_view path) {
  std::string normal;
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] != '%') {
      if (absl::StrContains("\"<>\\^`{|}", path[i])) {
        return Bad("its path holds a character that must be percent-encoded");
      }
      normal.push_back(path[i]);
      continue;
    }
    const int byte = DecodedAt(path, i);
    if (byte < 0) return Bad("its path has a % without two digits");
    // What servers might take for a folder's end, or for a string's.
    if (byte < 0x20 || byte == '/' || byte == '\\' || byte == 0x7F) {
      return Bad("its path has an encoded separator or control character");
    }
    const char c = static_cast<char>(byte);
    if (IsUnreserved(c)) {
      normal.push_back(c);
    } else {
      AppendEncoded(c, &normal);
    }
    i += 2;
  }
  return normal;
}

// Encodes the key of an object, in which "%" is a character like others.
std::string EncodedKey(absl::string_view key) {
  std::string encoded;
  for (const char c : key) {
    if (IsUnreserved(c) || c == '/') {
      encoded.push_back(c);
    } else {
      AppendEncoded(c, &encoded);
    }
  }
  return encoded;
}

bool IsBucket(absl::string_view name) {
  const auto is_inner = [](char c) {
    return absl::ascii_islower(static_cast<unsigned char>(c)) ||
           absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '-' ||
           c == '.';
  };
  return name.size() >= 3 && name.size() <= 63 &&
         std::all_of(name.begin(), name.end(), is_inner) &&
         absl::ascii_isalnum(static_cast<unsigned char>(name.front())) &&
         absl::ascii_isalnum(static_cast<unsigned char>(name.back())) &&
         !absl::StrContains(name, "..");
}

bool IsHost(absl::string_view host) {
  if (host.empty() || host.size() > 253) return false;
  if (host.front() == '[') {
    return host.size() > 4 && host.back() == ']' &&
           std::all_of(host.begin() + 1, host.end() - 1, [](char c) {
             return absl::ascii_isxdigit(static_cast<unsigned char>(c)) ||
                    c == ':' || c == '.';
           });
  }
  for (const absl::string_view label : absl::StrSplit(host, '.')) {
    if (label.empty() || label.size() > 63 || label.front() == '-' ||
        label.back() == '-' ||
        !std::all_of(label.begin(), label.end(), [](char c) {
          return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                 c == '-' || c == '_';
        })) {
      return false;
    }
  }
  return true;
}

// Splits "host[:port]".
absl::Status ParseAuthority(absl::string_view authority, DataUrl* url) {
  url->port = kHttpsPort;
  const size_t bracket = authority.rfind(']');
  const size_t colon = authority.rfind(':');
  absl::string_view host = authority;
  if (colon != absl::string_view::npos &&
      (bracket == absl::string_view::npos || colon > bracket)) {
    host = authority.substr(0, colon);
    const absl::string_view digits = authority.substr(colon + 1);
    if (digits.empty() || digits.size() > 5 ||
        !std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) ||
        !absl::SimpleAtoi(digits, &url->port) || url->port < 1 ||
        url->port > 65535) {
      return Bad("its port is malformed");
    }
  }
  if (!IsHost(host)) return Bad("its host is malformed");
  url->host = absl::AsciiStrToLower(host);
  return absl::OkStatus();
}

// Jobs are shown to all who may see them, so no address may be a secret.
absl::Status CheckQuery(absl::string_view query) {
  for (const char c : query) {
    if (absl::StrContains("\"<>\\^`{|}", c)) {
      return Bad("its query holds a character that must be percent-encoded");
    }
  }
  for (const absl::string_view part :
       absl::StrSplit(query, absl::ByAnyChar("&;"))) {
    const absl::string_view encoded = part.substr(0, part.find('='));
    std::string name;
    for (size_t i = 0; i < encoded.size(); ++i) {
      const int byte = encoded[i] == '%' ? DecodedAt(encoded, i) : -1;
      name.push_back(byte < 0 ? encoded[i] : static_cast<char>(byte));
      if (byte >= 0) i += 2;
    }
    name = absl::AsciiStrToLower(name);
    if (NamesSecret(name) || absl::StrContains(name, "signature") ||
        name == "sig" || LooksLikeSecret(std::string(part))) {
      return Bad(
          "its query carries a credential, which everybody who may read the "
          "job would see; the worker's operator configures credentials");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPath(absl::string_view path) {
  if (path.find_first_of("*[]") != absl::string_view::npos) {
    return Bad("it holds one of *[], but a URL names one file");
  }
  for (absl::string_view part : absl::StrSplit(path, '/')) {
    // Some servers take what follows a semicolon for parameters of the folder.
    part = part.substr(0, std::min(part.find(';'), part.find("%3B")));
    if (part == "." || part == "..") return Bad("it has a . or .. part");
  }
  return absl::OkStatus();
}

absl::StatusOr<DataUrl> ParseHttps(absl::string_view rest) {
  DataUrl url;
  const size_t end = rest.find_first_of("/?");
  const absl::string_view authority = rest.substr(0, end);
  if (absl::StrContains(authority, "@")) {
    return Bad("it must not hold a user or a password");
  }
  const absl::Status status = ParseAuthority(authority, &url);
  if (!status.ok()) return status;
  rest = end == absl::string_view::npos ? "" : rest.substr(end);
  const size_t question = rest.find('?');
  if (question != absl::string_view::npos) {
    url.query = std::string(rest.substr(question + 1));
    rest = rest.substr(0, question);
  }
  const absl::Status query = CheckQuery(url.query);
  if (!query.ok()) return query;
  auto path = NormalPath(rest);
  if (!path.ok()) return path.status();
  url.path = *std::move(path);
  const absl::Status checked = CheckPath(url.path);
  if (!checked.ok()) return checked;
  return url;
}

absl::StatusOr<DataUrl> ParseS3(absl::string_view rest) {
  DataUrl url;
  url.scheme = DataUrl::Scheme::kS3;
  const size_t end = rest.find('/');
  url.host = std::string(rest.substr(0, end));
  if (!IsBucket(url.host)) return Bad("its bucket is malformed");
  const absl::string_view key =
      end == absl::string_view::npos ? "" : rest.substr(end);
  if (absl::StrContains(key, "?")) {
    return Bad("the key of an object must not hold a ?");
  }
  const absl::Status checked = CheckPath(key);
  if (!checked.ok()) return checked;
  url.path = EncodedKey(key);
  return url;
}

absl::StatusOr<DataUrl> Parse(absl::string_view text) {
  if (text.size() > kMaxUrlBytes) {
    return Bad(absl::StrCat("it is longer than ", kMaxUrlBytes, " bytes"));
  }
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) return Bad("it has a control character");
  }
  if (absl::StrContains(text, "#")) return Bad("it must not hold a #");
  const size_t colon = text.find("://");
  const std::string scheme =
      absl::AsciiStrToLower(std::string(text.substr(0, colon)));
  const absl::string_view rest = text.substr(colon + 3);
  if (scheme == "s3") return ParseS3(rest);
  if (scheme != "https") {
    return Bad(
        absl::StrCat(scheme, ":// is not supported, only https:// and s3://"));
  }
  for (const char c : rest) {
    if (c == ' ' || static_cast<unsigned char>(c) >= 0x80) {
      return Bad("it holds a character that must be percent-encoded");
    }
  }
  return ParseHttps(rest);
}

}  // namespace

bool HasUrlScheme(absl::string_view path) {
  const size_t colon = path.find("://");
  if (colon == absl::string_view::npos || colon == 0 ||
      colon > kMaxSchemeBytes ||
      !absl::ascii_isalpha(static_cast<unsigned char>(path[0]))) {
    return false;
  }
  return std::all_of(path.begin(), path.begin() + colon, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '+' ||
           c == '-' || c == '.';
  });
}

absl::StatusOr<DataUrl> ParseDataUrl(absl::string_view text) {
  if (!HasUrlScheme(text)) return Bad("it is no https:// or s3:// URL");
  absl::StatusOr<DataUrl> url = Parse(text);
  if (url.ok() && (url->path.empty() || url->path.back() == '/')) {
    return Bad("it must name a file");
  }
  return url;
}

absl::StatusOr<DataUrl> ParseDataUrlPrefix(absl::string_view text) {
  if (!HasUrlScheme(text)) return Bad("it is no https:// or s3:// URL");
  absl::StatusOr<DataUrl> url = Parse(text);
  if (!url.ok()) return url;
  if (!url->query.empty()) return Bad("it must not hold a query");
  if (url->path.empty()) url->path = "/";
  return url;
}

bool IsBelow(const DataUrl& url, const DataUrl& prefix) {
  if (url.scheme != prefix.scheme || url.host != prefix.host ||
      url.port != prefix.port || !absl::StartsWith(url.path, prefix.path)) {
    return false;
  }
  return prefix.path.back() == '/' || url.path.size() == prefix.path.size() ||
         url.path[prefix.path.size()] == '/';
}

std::string WithoutQuery(const DataUrl& url) {
  if (url.scheme == DataUrl::Scheme::kS3) {
    return absl::StrCat("s3://", url.host, url.path);
  }
  return absl::StrCat("https://", url.host,
                      url.port == kHttpsPort ? "" : absl::StrCat(":", url.port),
                      url.path);
}

std::string FileName(const DataUrl& url) {
  std::string name = url.path.substr(url.path.rfind('/') + 1);
  if (name.size() > kMaxNameBytes) {
    name.erase(0, name.size() - kMaxNameBytes);
  }
  for (char& c : name) {
    if (!IsUnreserved(c) || c == '~') c = '_';
  }
  if (!name.empty() && name.front() == '.') name.front() = '_';
  return name;
}

absl::string_view FetchedUrlDigest(absl::string_view path) {
  const std::vector<absl::string_view> parts = absl::StrSplit(path, '/');
  const size_t count = parts.size();
  if (count < 4 || parts[count - 2] != kFetchedUrlFolder ||
      parts[count - 4] != "views" || !IsSha256(std::string(parts[count - 3]))) {
    return "";
  }
  return parts[count - 3];
}

absl::string_view WithoutCache(absl::string_view path) {
  constexpr absl::string_view kViews = "/views/";
  constexpr size_t kDigestSize = 64;
  const size_t views = path.find(kViews);
  if (views == absl::string_view::npos) return path;
  const absl::string_view shown = path.substr(views + kViews.size());
  if (!IsSha256(std::string(shown.substr(0, kDigestSize)))) return path;
  const bool whole_part =
      shown.size() == kDigestSize || shown[kDigestSize] == '/';
  return whole_part ? shown : path;
}

}  // namespace comera
