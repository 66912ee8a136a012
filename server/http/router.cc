// Finds the rule that a request's method and path match.
#include "server/http/router.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace comera::server {
namespace {

constexpr size_t kMaxSegments = 16;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Decoded, without the first slash. False: malformed, or too many.
bool Split(std::string_view path, std::vector<std::string>* segments) {
  if (path.empty() || path[0] != '/') return false;
  path.remove_prefix(1);
  while (segments->size() < kMaxSegments) {
    const size_t slash = path.find('/');
    if (!PercentDecode(path.substr(0, slash), false,
                       &segments->emplace_back())) {
      return false;
    }
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
  return false;
}

// With a verb, `segments` ends in "LAST:VERB".
bool Fits(const PathTemplate& path, const std::vector<std::string>& segments) {
  if (path.segments.size() != segments.size()) return false;
  for (size_t i = 0; i < segments.size(); ++i) {
    std::string_view segment = segments[i];
    if (i + 1 == segments.size() && !path.verb.empty()) {
      const size_t colon = segment.rfind(':');
      if (colon == std::string_view::npos ||
          segment.substr(colon + 1) != path.verb) {
        return false;
      }
      segment = segment.substr(0, colon);
    }
    if (path.segments[i] == "*" ? segment.empty()
                                : segment != path.segments[i]) {
      return false;
    }
  }
  return true;
}

std::string Value(const PathTemplate& path, const PathVariable& variable,
                  const std::vector<std::string>& segments) {
  std::string value;
  for (size_t i = variable.first; i <= variable.last; ++i) {
    std::string_view segment = segments[i];
    if (i + 1 == segments.size() && !path.verb.empty()) {
      segment = segment.substr(0, segment.rfind(':'));
    }
    absl::StrAppend(&value, i == variable.first ? "" : "/",
                    std::string(segment));
  }
  return value;
}

}  // namespace

bool PercentDecode(std::string_view text, bool plus, std::string* out) {
  out->clear();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus) {
      out->push_back(' ');
    } else if (text[i] != '%') {
      out->push_back(text[i]);
    } else {
      if (i + 2 >= text.size()) return false;
      const int high = HexDigit(text[i + 1]);
      const int low = HexDigit(text[i + 2]);
      if (high < 0 || low < 0) return false;
      out->push_back(static_cast<char>(high * 16 + low));
      i += 2;
    }
  }
  return true;
}

Router::Router(std::vector<HttpRule> rules) : rules_(std::move(rules)) {}

Router::Match Router::Find(std::string_view verb, std::string_view path) const {
  Match match;
  std::vector<std::string> segments;
  if (!Split(path, &segments)) return match;
  // Rules with a verb in the path are more special than those without.
  for (const bool with_verb : {true, false}) {
    for (const HttpRule& rule : rules_) {
      if (rule.path.verb.empty() == with_verb || !Fits(rule.path, segments)) {
        continue;
      }
      if (rule.verb != verb) {
        absl::StrAppend(&match.allowed, match.allowed.empty() ? "" : ", ",
                        rule.verb);
        continue;
      }
      match.rule = &rule;
      match.allowed.clear();
      for (const PathVariable& variable : rule.path.variables) {
        match.bindings.emplace_back(variable.field,
                                    Value(rule.path, variable, segments));
      }
      return match;
    }
    if (!match.allowed.empty()) break;
  }
  return match;
}

}  // namespace comera::server
