// Stores the login as JSON and reads it back.

#include "client/cli/session/login_file.h"

#include "common/files.h"
#include "common/json.h"
#include "common/status_macros.h"

namespace comera::client {

Login ReadLogin(const std::string& path) {
  Login login;
  if (path.empty()) return login;
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return login;
  const auto json = ParseJson(*text);
  if (!json.is_object()) return login;
  const auto take = [&](const char* key, std::string* to) {
    const auto it = json.find(key);
    if (it != json.end() && it->is_string()) *to = it->get<std::string>();
  };
  take("server", &login.server);
  take("token", &login.token);
  take("ca", &login.ca_file);
  take("cert", &login.certificate_file);
  take("key", &login.key_file);
  take("issuer", &login.issuer);
  take("client_id", &login.client_id);
  take("refresh_token", &login.refresh_token);
  const auto insecure = json.find("insecure_token");
  login.insecure_token =
      insecure != json.end() && insecure->is_boolean() && insecure->get<bool>();
  return login;
}

absl::Status WriteLogin(const std::string& path, const Login& login) {
  nlohmann::ordered_json json = {{"server", login.server},
                                 {"token", login.token},
                                 {"ca", login.ca_file},
                                 {"cert", login.certificate_file},
                                 {"key", login.key_file}};
  if (login.insecure_token) json["insecure_token"] = true;
  if (!login.issuer.empty()) {
    json["issuer"] = login.issuer;
    json["client_id"] = login.client_id;
    json["refresh_token"] = login.refresh_token;
  }
  const size_t slash = path.rfind('/');
  if (slash != std::string::npos && slash > 0) {
    RETURN_IF_ERROR(MakeDirectories(path.substr(0, slash)));
  }
  return WriteFileAtomically(path, JsonText(json, 2) + "\n", 0600);
}

}  // namespace comera::client
