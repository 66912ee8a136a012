// What `comera login` stores.
#ifndef COMERA_CLIENT_CLI_SESSION_LOGIN_FILE_H_
#define COMERA_CLIENT_CLI_SESSION_LOGIN_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace comera::client {

struct Login {
  std::string server;
  std::string token;
  // Absolute paths, or "system" for ca_file.
  std::string ca_file;
  std::string certificate_file;
  std::string key_file;
  bool insecure_token = false;
};

// Nothing if there is no such file, or it is not one of ours.
Login ReadLogin(const std::string& path);

// Makes the folder; only its owner can read the file.
absl::Status WriteLogin(const std::string& path, const Login& login);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_SESSION_LOGIN_FILE_H_
