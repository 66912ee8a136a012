#ifndef COMERA_SERVER_HTTP_ROUTER_H_
#define COMERA_SERVER_HTTP_ROUTER_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http/openapi/http_rules.h"

namespace comera::server {

// Finds the rule that a request is for. Immutable; thread-safe.
class Router {
 public:
  explicit Router(std::vector<HttpRule> rules);

  struct Match {
    // Null: no rule.
    const HttpRule* rule = nullptr;
    // Fields and what the path has for them.
    std::vector<std::pair<std::string, std::string>> bindings;
    // Without a rule: the verbs that this path has, e.g. "GET, DELETE"; empty:
    // there is no such path.
    std::string allowed;
  };

  // `path` as sent, percent-encoded.
  Match Find(std::string_view verb, std::string_view path) const;

  const std::vector<HttpRule>& rules() const { return rules_; }

 private:
  const std::vector<HttpRule> rules_;
};

// Decodes %XX; `plus`: "+" is a space, as in queries. False: malformed.
bool PercentDecode(std::string_view text, bool plus, std::string* out);

}  // namespace comera::server

#endif  // COMERA_SERVER_HTTP_ROUTER_H_
